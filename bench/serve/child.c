/* The measured server: a child process, or a running server. */
#include "serve.h"
#include "../../cli/common/external.h"
#include "../../src/io/json_tree.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

enum { ARGS = 32, LOG_BYTES = 4096, START_SECONDS = 600, STOP_SECONDS = 30 };

static void sleep_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

/* ---- the child --------------------------------------------------------------------------------------------------- */

typedef struct command_line {
    const char *args[ARGS]; /* NULL after the last */
    size_t count;
    char numbers[4][24];
    char program[CLI_EXTERNAL_TEXT];
} command_line;

static void add_option(command_line *line, const char *name, const char *value)
{
    line->args[line->count++] = name;
    line->args[line->count++] = value;
}

static void add_number(command_line *line, size_t place, const char *name, size_t value)
{
    snprintf(line->numbers[place], sizeof line->numbers[place], "%zu", value);
    add_option(line, name, line->numbers[place]);
}

static bool build_command(const load_bench *bench, size_t cache, command_line *line)
{
    const load_options *o = bench->options;
    const cli_common *common = &bench->run->session->common;
    *line = (command_line){.args = {line->program, "serve", o->directory, "--port", "0"}, .count = 5};
    if (!cli_find_program(line->program)) {
        cli_fail(bench->run->session, "the program bochner was not found: %s", line->program);
        return false;
    }
    if (CLI_GIVEN(common, threads)) add_number(line, 0, "--threads", common->threads);
    if (CLI_GIVEN(o, slots)) add_number(line, 1, "--slots", o->slots);
    if (CLI_GIVEN(o, context)) add_number(line, 2, "--context", o->context);
    if (cache) add_number(line, 3, "--cache-bytes", cache);
    if (CLI_GIVEN(o, weights)) add_option(line, "--weights", bo_enum_name(BO_ENUM_STORAGE, o->weights));
    if (CLI_GIVEN(o, precision)) add_option(line, "--precision", bo_enum_name(BO_ENUM_PRECISION, o->precision));
    if (common->isa) add_option(line, "--isa", common->isa);
    return true;
}

static void run_child(const command_line *line, int output, pid_t parent)
{
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* the server ends with the benchmark, even if the benchmark is killed */
#endif
    if (getppid() != parent) _exit(1);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execv(line->args[0], (char *const *)(uintptr_t)line->args);
    _exit(127);
}

/* The last bytes printed by the child. The descriptor shares its offset with the child; pread does not change it. */
static void read_log(const load_server *server, char log_text[LOG_BYTES])
{
    struct stat info;
    const int file = fileno(server->log);
    const off_t size = fstat(file, &info) == 0 ? info.st_size : 0;
    const ssize_t count = pread(file, log_text, LOG_BYTES - 1, size > LOG_BYTES - 1 ? size - (LOG_BYTES - 1) : 0);
    log_text[count > 0 ? count : 0] = 0;
}

/* Copies the address from the line that the server prints when it is ready. Returns false if the line is not printed
 * yet. */
static bool find_address(const char *log_text, char url[300])
{
    const char *at = strstr(log_text, "http://");
    const size_t length = at ? strcspn(at, " \t\r\n\"'`,;<>()") : 0;
    if (!at || !strpbrk(at, "\r\n") || length >= 300) return false;
    snprintf(url, 300, "%.*s", (int)length, at);
    return true;
}

static bool wait_for_address(load_bench *bench, char url[300])
{
    load_server *server = &bench->server;
    const double start = cli_now();
    char log_text[LOG_BYTES];
    for (;;) {
        int ended;
        const bool exited = waitpid(server->child, &ended, WNOHANG) != 0;
        read_log(server, log_text);
        if (!exited && find_address(log_text, url)) return true;
        if (exited) {
            server->child = 0;
            cli_fail(bench->run->session, "bochner serve did not start: %s", log_text);
            return false;
        }
        if (cli_interrupted()) return false;
        if (cli_now() - start > START_SECONDS) {
            cli_fail(bench->run->session, "bochner serve printed no address but: %s", log_text);
            return false;
        }
        sleep_briefly();
    }
}

static bool start_child(load_bench *bench, size_t cache)
{
    load_server *server = &bench->server;
    command_line line;
    char url[300];
    if (!build_command(bench, cache, &line)) return false;
    server->log = tmpfile();
    fflush(NULL);
    const pid_t parent = getpid();
    server->child = server->log ? fork() : -1;
    if (server->child == 0) run_child(&line, fileno(server->log), parent);
    if (server->child < 0) {
        server->child = 0;
        cli_fail(bench->run->session, "bochner serve cannot be started: %s", strerror(errno));
        return false;
    }
    server->pid = server->child;
    return wait_for_address(bench, url) && load_address_read(bench->run->session, url, &server->address);
}

/* SIGTERM lets the server finish. If it does not finish, it is killed. */
static void stop_child(load_server *server)
{
    const double start = cli_now();
    kill(server->child, SIGTERM);
    while (waitpid(server->child, NULL, WNOHANG) == 0) {
        if (cli_now() - start > STOP_SECONDS) kill(server->child, SIGKILL);
        sleep_briefly();
    }
    server->child = 0;
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static size_t number_of(const bo_json *object, const char *name)
{
    const bo_json *item = bo_json_member(object, name);
    return bo_json_is(item, BO_JSON_NUMBER) && item->number > 0 && item->number < 1e15 ? (size_t)item->number : 0;
}

/* llama.cpp's server has a member `meta`; other servers have only the name. */
static void read_model(const bo_json *model, load_model *out)
{
    const bo_json *name = bo_json_member(model, "id");
    const bo_json *bochner = bo_json_member(model, "bochner");
    const bo_json *meta = bo_json_member(model, "meta");
    *out = (load_model){.is_bochner = bo_json_is(bochner, BO_JSON_OBJECT)};
    if (bo_json_is(name, BO_JSON_TEXT)) snprintf(out->name, sizeof out->name, "%s", name->text);
    out->vocab = out->is_bochner ? number_of(bochner, "vocab") : number_of(meta, "n_vocab");
    out->max_tokens = out->is_bochner ? number_of(bochner, "max_tokens") : number_of(meta, "n_ctx");
    out->state_bytes = number_of(bochner, "state_bytes");
    out->state_bytes_per_token = number_of(bochner, "state_bytes_per_token");
    out->kv_bytes_per_token = number_of(bochner, "kv_bytes_per_token");
}

static bool query_model(load_bench *bench)
{
    char *response = load_call(bench->run->session, &bench->server.address, "GET", "/v1/models", NULL);
    if (!response) return false;
    bo_json *json = bo_json_read(response, strlen(response), NULL);
    const bo_json *model = bo_json_at(bo_json_member(json, "data"), 0);
    if (model) read_model(model, &bench->model);
    if (!model) cli_fail(bench->run->session, "GET /v1/models names no model: %.300s", response);
    bo_json_delete(json);
    free(response);
    return model != NULL;
}

bool load_open(load_bench *bench, size_t cache)
{
    const load_options *o = bench->options;
    bench->server = (load_server){.pid = (pid_t)o->pid};
    if (o->url ? !load_address_read(bench->run->session, o->url, &bench->server.address) : !start_child(bench, cache))
        return false;
    return query_model(bench);
}

void load_close(load_bench *bench)
{
    if (bench->server.child) stop_child(&bench->server);
    if (bench->server.log) fclose(bench->server.log);
    bench->server = (load_server){0};
}

size_t load_resident(const load_bench *bench)
{
    char path[64], line[256];
    size_t kilobytes = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)bench->server.pid);
    FILE *file = bench->server.pid ? fopen(path, "r") : NULL;
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "VmRSS:", 6) == 0) kilobytes = (size_t)strtoull(line + 6, NULL, 10);
    if (file) fclose(file);
    return 1024 * kilobytes;
}
