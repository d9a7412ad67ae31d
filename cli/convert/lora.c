/* bochner lora: merges an adapter into a model, and removes it again. */
#include "../common/cli.h"
#include "../common/json.h"
#include "../network/network.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct lora_options {
    cli_given was_given;
    const char *out;
} lora_options;

typedef struct lora_job {
    cli_session *session;
    const char *from, *out;
    bo_model *model;
} lora_job;

static bo_status merge(lora_job *job)
{
    bo_context *context = job->session->context;
    bo_status status = bo_model_load(context, &(bo_source){.path = job->from},
                                     &(bo_model_load_desc){.adapters = BO_ADAPTERS_KEEP}, &job->model);
    if (status == BO_OK) status = bo_model_merge(context, job->model);
    return status == BO_OK ? cli_record_output(job->session, job->out,
                                               bo_model_save(context, job->model, &(bo_sink){.path = job->out}))
                           : status;
}

static bo_status unmerge(lora_job *job)
{
    bo_context *context = job->session->context;
    bo_status status = bo_model_load(context, &(bo_source){.path = job->from},
                                     &(bo_model_load_desc){.adapters = BO_ADAPTERS_REMOVE}, &job->model);
    return status == BO_OK ? cli_record_output(job->session, job->out,
                                               bo_model_save(context, job->model, &(bo_sink){.path = job->out}))
                           : status;
}

static void report(const lora_job *job, const char *word)
{
    const size_t parameters = (size_t)bo_model_report(job->model)->parameters;
    if (job->session->common.json) {
        cli_json json = {.out = stdout};
        cli_json_object(&json, NULL);
        cli_json_add_text(&json, "out", job->out);
        cli_json_add_count(&json, "parameters", parameters);
        cli_json_end(&json);
        return;
    }
    printf("Model       %s: %s parameters, %s %s\n", job->out, cli_count(parameters).s,
           strcmp(word, "merge") == 0 ? "with the adapter" : "without the adapter of", job->from);
}

typedef struct subcommand {
    const char *name;
    bo_status (*run)(lora_job *job);
} subcommand;

static const subcommand subcommands[] = {{"merge", merge}, {"unmerge", unmerge}};

static const char *subcommand_name(const void *items, size_t index)
{
    return ((const subcommand *)items)[index].name;
}

static int unknown_subcommand(const char *word)
{
    const char *near = word ? cli_nearest(word, CLI_COUNT_OF(subcommands), subcommand_name, subcommands) : NULL;
    if (!word) return cli_usage_error("lora", "expected merge or unmerge");
    if (near) return cli_usage_error("lora", "unknown action '%s'; did you mean %s?", word, near);
    return cli_usage_error("lora", "unknown action '%s'; expected merge or unmerge", word);
}

/* An existing model is not replaced. */
static int check(const char *word, const cli_arguments *arguments, const char *out)
{
    enum {
        LONGEST_DIRECTORY = 4000
    }; /* leaves space for the names of its files, including those in the directory `adapter` */
    char path[4096];
    if (arguments->count != 2)
        return cli_usage_error("lora", "%s: expected one directory, found %zu", word, arguments->count - 1);
    if (!out) return cli_usage_error("lora", "%s: no output directory; give --out DIR", word);
    if (strlen(out) > LONGEST_DIRECTORY)
        return cli_usage_error("lora", "--out %.80s…: the path is too long: %zu bytes, expected at most %d", out,
                               strlen(out), LONGEST_DIRECTORY);
    snprintf(path, sizeof path, "%s/config.json", out);
    if (access(path, F_OK) == 0)
        return cli_usage_error("lora", "--out %s: the directory already holds a model; give another name", out);
    struct stat about;
    if (stat(out, &about) == 0 && S_ISREG(about.st_mode))
        return cli_usage_error("lora", "--out %s: the file already exists; give another name", out);
    return CLI_DONE;
}

static int run(lora_job *job, const subcommand *chosen)
{
    const bo_status status = chosen->run(job);
    if (status != BO_OK) return cli_fail_status(job->session, status);
    report(job, chosen->name);
    return CLI_DONE;
}

static int lora(void *options, const cli_common *common, const cli_arguments *arguments)
{
    const char *out = ((const lora_options *)options)->out;
    const char *word = arguments->count ? arguments->items[0] : NULL;
    const subcommand *chosen = NULL;
    for (size_t i = 0; i < CLI_COUNT_OF(subcommands) && word; i++)
        if (strcmp(subcommands[i].name, word) == 0) chosen = &subcommands[i];
    if (!chosen) return unknown_subcommand(word);
    int ended = check(word, arguments, out);
    if (ended != CLI_DONE) return ended;
    cli_session session;
    if (!cli_session_open(&session, "lora", common, false)) return CLI_FAILED;
    lora_job job = {.session = &session, .from = arguments->items[1], .out = out};
    ended = cli_is_no_network(&session, job.from) ? run(&job, chosen) : CLI_FAILED;
    bo_model_destroy(job.model);
    cli_session_close(&session);
    return ended;
}

static const cli_option rows[] = {
    TEXT("out", "DIR", lora_options, out,
         "output directory; if the name ends in .safetensors, one file without a copy of the adapter"),
    END_OF_OPTIONS,
};

const cli_usage cli_lora_usage = {
    .command = "lora",
    .synopsis = "merge ADAPTER --out MODEL   or   unmerge MODEL --out BASE",
    .about = "Merges adapters of `bochner train --lora`. merge adds an adapter to the weights of its base, in double "
             "precision with one rounding, and writes an ordinary model that is as fast as the base. The directory "
             "adapter/ inside it keeps the adapter and the original weights. unmerge writes the base again, bit for "
             "bit. bochner eval and bochner generate also read the directory of an adapter directly.",
    .examples = "  bochner train --data text.txt --init model --lora 8 --out adapter --minutes 2\n"
                "  bochner lora merge adapter --out merged\n"
                "  bochner lora unmerge merged --out model-again\n",
    .groups = {{rows, 0}},
    .subcommands = {"merge", "unmerge"},
};

int cli_lora(int argc, char **argv)
{
    lora_options o = {0};
    return cli_command(&cli_lora_usage, argc, argv, &o, lora);
}
