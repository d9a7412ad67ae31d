/* Inputs of the wrong kind or size: refused before they are read, without waiting and without memory. */
#include <stdlib.h>
#include "files.h"
#include "io/bytes.h"
#include "io/json.h"
#include "io/mapping.h"
#include "io/tensors.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static const bo_limits SMALL = {.bytes = 1000, .whole = true}, STREAM = {.bytes = 1000, .streams = true, .whole = true};

static void refuse(test_directory *f, const char *path, const bo_limits *limits, bo_status status, const char *message)
{
    char *text = NULL;
    size_t length;
    alarm(20); /* ends a test that would wait */
    assert_fails(f->context, status, message, bo_bytes_text(f->context, path, limits, &text, &length));
    alarm(0);
    assert_null(text);
}

static void kinds(void **state)
{
    test_directory *f = *state;
    const char *pipe = test_path(f, "pipe"), *zero = test_path(f, "zero");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(symlink("/dev/zero", zero), 0);
    refuse(f, pipe, &SMALL, BO_IO, "pipe: not a regular file (it is a pipe)");
    refuse(f, zero, &SMALL, BO_IO, "zero: not a regular file (it is a device)");
    refuse(f, zero, &STREAM, BO_IO, "zero: not a regular file or a pipe (it is a device)");
    refuse(f, f->path, &SMALL, BO_IO, ": not a regular file (it is a directory)");
    refuse(f, "-", &SMALL, BO_IO, "-: cannot be opened");
    bo_tensors *tensors;
    alarm(20);
    assert_fails(f->context, BO_IO, "pipe: not a regular file (it is a pipe)",
                 bo_tensors_open(f->context, pipe, &tensors));
    alarm(0);
}

static void sizes(void **state)
{
    test_directory *f = *state;
    char exact[1001], *text;
    size_t length;
    memset(exact, 'a', sizeof exact);
    assert_ok(f->context, bo_bytes_text(f->context, test_write(f, "fits", exact, 1000), &SMALL, &text, &length));
    assert_int_equal(length, 1000);
    assert_int_equal(text[1000], 0);
    bo_free(text);
    refuse(f, test_write(f, "long", exact, 1001), &SMALL, BO_FORMAT, "long: 1,001 bytes, expected at most 1,000 bytes");
    const char *sparse = test_text(f, "sparse", "");
    assert_int_equal(truncate(sparse, (off_t)4 << 30), 0);
    refuse(f, sparse, &SMALL, BO_FORMAT, "sparse: 4,294,967,296 bytes, expected at most 1,000 bytes");
    assert_int_equal(truncate(sparse, (off_t)1 << 40), 0);
    bo_mapping mapping;
    assert_fails(f->context, BO_FORMAT, "1,099,511,627,776 bytes, expected at most 274,877,906,944 bytes",
                 bo_mapping_open(f->context, sparse, &mapping));
}

/* A file of 1000 bytes fits, also compressed; one byte more does not. */
static void compressed(void **state)
{
    test_directory *f = *state;
    char bytes[1001] = {0}, *text;
    size_t length;
    assert_ok(f->context, bo_bytes_text(f->context, test_gzip(f, "fits.gz", bytes, 1000), &SMALL, &text, &length));
    assert_int_equal(length, 1000);
    bo_free(text);
    refuse(f, test_gzip(f, "long.gz", bytes, 1001), &SMALL, BO_FORMAT, "at least 1,001 bytes, expected at most 1,000");
}

/* `megabytes` of zeros at 1000:1, or of text at about 70:1. */
static const char *repetitive(test_directory *f, const char *name, size_t megabytes, bool zeros)
{
    enum { PIECE = 1 << 20 };
    const char *path = test_path(f, name);
    char *piece = calloc(1, PIECE);
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    for (size_t i = 0; i < megabytes; ++i) {
        for (size_t k = 0; !zeros && k < PIECE; ++k)
            piece[k] = k % 512 < 8 ? (char)('a' + (i * 31 + k * 7 + k / 512) % 26) : ' ';
        assert_int_equal(gzwrite(file, piece, PIECE), PIECE);
    }
    gzclose(file);
    free(piece);
    return path;
}

/* The ratio applies from 64 MiB on, for inputs that are kept in memory. Tables are read in pieces. */
static void ratio(void **state)
{
    test_directory *f = *state;
    bo_mapping mapping;
    assert_ok(f->context, bo_mapping_open(f->context, repetitive(f, "short.gz", 64, true), &mapping));
    assert_int_equal(mapping.size, 64 << 20);
    bo_mapping_close(&mapping);
    const char *bomb = repetitive(f, "bomb.gz", 66, true);
    assert_fails(f->context, BO_FORMAT, "bomb.gz: the gzip data expands to more than 250 times its size",
                 bo_mapping_open(f->context, bomb, &mapping));
    assert_ok(f->context, bo_mapping_open(f->context, repetitive(f, "log.gz", 66, false), &mapping));
    bo_mapping_close(&mapping);
    bo_bytes *bytes;
    char *block = malloc(66 << 20);
    size_t got;
    assert_ok(f->context, bo_bytes_open(f->context, bomb, &bo_limits_table, false, &bytes));
    assert_ok(f->context, bo_bytes_read(f->context, bytes, block, 66 << 20, &got));
    assert_int_equal(got, 66 << 20);
    bo_bytes_close(bytes);
    free(block);
}

/* Another process appends while the file is read: the limit counts the bytes that are read. */
static void growing(void **state)
{
    test_directory *f = *state;
    bo_bytes *bytes;
    char block[600] = {0}, *rest;
    size_t got;
    const char *path = test_write(f, "log", block, 600);
    assert_ok(f->context, bo_bytes_open(f->context, path, &SMALL, false, &bytes));
    assert_ok(f->context, bo_bytes_read(f->context, bytes, block, 600, &got));
    FILE *more = fopen(path, "ab");
    assert_int_equal(fwrite(block, 1, 401, more), 401);
    fclose(more);
    assert_fails(f->context, BO_FORMAT, "log: at least 1,001 bytes, expected at most 1,000 bytes",
                 bo_bytes_rest(f->context, bytes, &rest, &got));
    bo_bytes_close(bytes);
}

static void *write_late(void *path)
{
    usleep(50 * 1000); /* the reader waits for a writer */
    const int file = open(path, O_WRONLY);
    for (int i = 0; i < 3; ++i) {
        if (write(file, "text ", 5) != 5) break;
        usleep(10 * 1000);
    }
    close(file);
    return NULL;
}

/* A pipe is an input where streams are: the reader waits for its writer and reads to the end. */
static void late_pipes(void **state)
{
    test_directory *f = *state;
    const char *path = test_path(f, "late");
    pthread_t writer;
    char *text;
    size_t length;
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_late, (void *)(uintptr_t)path), 0);
    alarm(20);
    assert_ok(f->context, bo_bytes_text(f->context, path, &STREAM, &text, &length));
    alarm(0);
    pthread_join(writer, NULL);
    assert_string_equal(text, "text text text ");
    bo_free(text);
}

static void *write_forever(void *path)
{
    const int file = open(path, O_WRONLY);
    while (write(file, "a", 1) == 1) continue; /* ends with EPIPE */
    close(file);
    return NULL;
}

static void endless_pipes(void **state)
{
    test_directory *f = *state;
    const char *path = test_path(f, "endless");
    pthread_t writer;
    assert_int_equal(mkfifo(path, 0600), 0);
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pthread_create(&writer, NULL, write_forever, (void *)(uintptr_t)path), 0);
    refuse(f, path, &STREAM, BO_FORMAT, "endless: at least 1,001 bytes, expected at most 1,000 bytes");
    pthread_join(writer, NULL);
}

/* bo_file_spool: a pipe becomes a file that can be read again; the limit holds for what is copied. */
static void spooled_pipes(void **state)
{
    test_directory *f = *state;
    const char *path = test_path(f, "spooled"), *file = test_text(f, "file", "text");
    char copy[32] = "";
    pthread_t writer;
    int descriptor;
    bo_bytes *bytes;
    assert_int_equal(mkfifo(path, 0600), 0);
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(pthread_create(&writer, NULL, i ? write_forever : write_late, (void *)(uintptr_t)path), 0);
        alarm(20);
        if (i)
            assert_fails(f->context, BO_FORMAT, "spooled: at least 1,001 bytes, expected at most 1,000 bytes",
                         bo_bytes_open(f->context, path, &STREAM, true, &bytes));
        else
            assert_ok(f->context, bo_file_spool(f->context, path, &descriptor));
        alarm(0);
        pthread_join(writer, NULL);
    }
    for (int i = 0; i < 2; ++i) assert_int_equal(pread(descriptor, copy, sizeof copy, 0), 15);
    assert_string_equal(copy, "text text text ");
    close(descriptor);
    assert_ok(f->context, bo_file_spool(f->context, file, &descriptor));
    assert_int_equal(descriptor, -1);
    assert_fails(f->context, BO_IO, "not a regular file or a pipe (it is a directory)",
                 bo_file_spool(f->context, f->path, &descriptor));
    const char *directory = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    char *kept = strdup(directory);
    setenv("TMPDIR", "/nonexistent", 1);
    assert_fails(f->context, BO_IO, "temporary file for it in /nonexistent",
                 bo_file_spool(f->context, path, &descriptor));
    setenv("TMPDIR", kept, 1);
    free(kept);
}

/* bo_file_load: bytes as they are, from regular files. */
static void loaded_files(void **state)
{
    test_directory *f = *state;
    void *bytes;
    size_t size;
    assert_ok(f->context, bo_file_load(f->context, test_write(f, "gzip", "\x1f\x8b\0x", 4), 4, &bytes, &size));
    assert_int_equal(size, 4);
    assert_memory_equal(bytes, "\x1f\x8b\0x", 5);
    bo_free(bytes);
    assert_fails(f->context, BO_FORMAT, "gzip: 4 bytes, expected at most 3 bytes",
                 bo_file_load(f->context, test_path(f, "gzip"), 3, &bytes, &size));
    assert_null(bytes);
    assert_fails(f->context, BO_IO, "(it is a directory)", bo_file_load(f->context, f->path, 3, &bytes, &size));
    assert_fails(f->context, BO_INVALID, "", bo_file_load(f->context, NULL, 3, &bytes, &size));
    assert_fails(f->context, BO_INVALID, "NULL", bo_file_load(f->context, "x", 3, NULL, &size));
}

/* A list of `count` zeros, 2 bytes each; with `spaces`, 9 bytes each. */
static bo_status parse_zeros(test_directory *f, size_t count, bool spaces)
{
    const size_t bytes = spaces ? 9 : 2, length = bytes * count + 1;
    char *text = malloc(length);
    bo_json *json;
    memset(text, ' ', length);
    text[0] = '[';
    for (size_t i = 0; i < count; ++i) memcpy(text + 1 + bytes * i, i + 1 < count ? "0," : "0]", 2);
    const bo_status status = bo_json_parse(f->context, "list", text, length, 2, &json);
    bo_json_delete(json);
    free(text);
    return status;
}

/* A value of JSON takes 64 bytes of memory, so their number is limited; the list is a value itself. */
static void many_values(void **state)
{
    test_directory *f = *state;
    const size_t max_values = BO_JSON_VALUES + (2 * BO_JSON_VALUES + 1) / BO_JSON_VALUE_BYTES;
    assert_ok(f->context, parse_zeros(f, max_values - 1, false));
    assert_fails(f->context, BO_FORMAT, "list: the JSON has 2097152 values, expected at most 1572863 in 4194303 bytes",
                 parse_zeros(f, 2 * BO_JSON_VALUES - 1, false));
    assert_ok(f->context, parse_zeros(f, 2 * BO_JSON_VALUES, true));
}

/* A file that does not fit into the address space is reported as a lack of memory, not as an error of the file. */
static void no_address_space(void **state)
{
    test_directory *f = *state;
    const char *path = test_text(f, "large", "");
    assert_int_equal(truncate(path, (off_t)1 << 34), 0);
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {(rlim_t)1 << 33, (rlim_t)1 << 33};
        bo_tensors *tensors;
        bo_mapping text;
        setrlimit(RLIMIT_AS, &limit);
        if (bo_tensors_open(f->context, path, &tensors) != BO_MEMORY) _exit(1);
        if (bo_mapping_open(f->context, path, &text) != BO_MEMORY) _exit(2);
        _exit(strstr(bo_context_error(f->context), "large: cannot be mapped into memory") ? 0 : 3);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
#if !defined(BO_SANITIZE_ADDRESS) && !defined(BO_SANITIZE_THREAD) /* they map terabytes */
    assert_int_equal(status, 0);
#endif
    unlink(path);
}

/* The page of limits states them. */
static void documented(void **state)
{
    test_directory *f = *state;
    const struct {
        const char *input;
        const bo_limits *limits;
    } rows[] = {{"\n| tables, ", &bo_limits_table},
                {"\n| texts: ", &bo_limits_text},
                {"\n| safetensors: ", &bo_limits_weights},
                {"\n| `config.json`, ", &bo_limits_config},
                {"\n| `tokenizer.json` ", &bo_limits_tokenizer},
                {"\n| `config.json` of a model of the task `predict`, ", &bo_limits_network},
                {"\n| `training.json` ", &bo_limits_record},
                {"\n| `metrics.jsonl` ", &bo_limits_metrics},
                {"\n| calibration ", &bo_limits_calibration},
                {"\n| result ", &bo_limits_result}};
    char path[1024], expected[128];
    void *text;
    size_t size;
    snprintf(path, sizeof path, "%s/docs/reference/limits.md", getenv("BOCHNER_SOURCE"));
    assert_ok(f->context, bo_file_load(f->context, path, 1 << 20, &text, &size));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        const uint64_t bytes = rows[i].limits->bytes;
        char number[64] = "any", *line = strstr(text, rows[i].input);
        if (!line) fail_msg("no row%s", rows[i].input);
        assert_int_equal(bo_input_too_large(f->context, "x", 0, false, bytes), BO_FORMAT);
        if (bytes != UINT64_MAX)
            snprintf(number, sizeof number, "%s", strstr(bo_context_error(f->context), "at most ") + 8);
        if (strstr(number, " bytes")) *strstr(number, " bytes") = 0;
        snprintf(expected, sizeof expected, " | %s | %s", rows[i].limits->streams ? "yes" : "no", number);
        line = strtok(line + 1, "\n");
        if (!strstr(line, expected)) fail_msg("'%s' lacks '%s'", line, expected);
        line[strlen(line)] = '\n';
    }
    bo_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds),         cmocka_unit_test(sizes),         cmocka_unit_test(compressed),
        cmocka_unit_test(ratio),         cmocka_unit_test(growing),       cmocka_unit_test(late_pipes),
        cmocka_unit_test(endless_pipes), cmocka_unit_test(spooled_pipes), cmocka_unit_test(loaded_files),
        cmocka_unit_test(many_values),   cmocka_unit_test(documented),    cmocka_unit_test(no_address_space),
    };
    return cmocka_run_group_tests(tests, test_setup, test_teardown);
}
