/* bochner lab run: runs experiments in order and writes each result when it is complete. */
#include "lab.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct batch {
    cli_lab_job *lab;
    const bo_lab_experiment **chosen;
    size_t count;
    size_t skipped, kept, failed;
    size_t verdicts[3]; /* claims by bo_lab_verdict */
    bool undrawn;       /* missing gnuplot is reported once */
    cli_json json;
} batch;

/* ---- preparation ------------------------------------------------------------------------------------------------- */

/* Creates the directory and its parents. */
static bool create_directory(cli_lab_job *lab)
{
    struct stat info;
    char path[4096];
    if (strlen(lab->directory) >= sizeof path) return cli_fail(&lab->session, "--out: the path is too long"), false;
    strcpy(path, lab->directory);
    for (char *at = path + 1; *at; at++) {
        if (*at != '/') continue;
        *at = 0;
        mkdir(path, 0777);
        *at = '/';
    }
    errno = 0;
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        cli_fail(&lab->session, "cannot create the directory %s: %s", path, strerror(errno));
        return false;
    }
    errno = 0;
    const bool directory = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    if (directory && access(path, W_OK | X_OK) == 0) return true;
    cli_fail(&lab->session, "cannot write results to %s: %s", path, directory ? strerror(errno) : "not a directory");
    return false;
}

static bool check_text(cli_lab_job *lab, const char *text)
{
    enum { MIN_TEXT_BYTES = 4096 };
    struct stat info;
    if (stat(text, &info) != 0 || access(text, R_OK) != 0)
        return cli_fail(&lab->session, "--text %s: %s", text, strerror(errno)), false;
    if (!S_ISREG(info.st_mode)) return cli_fail(&lab->session, "--text %s: not a regular file", text), false;
    if (info.st_size >= MIN_TEXT_BYTES) return true;
    cli_fail(&lab->session, "--text %s: expected at least %d bytes, found %lld", text, MIN_TEXT_BYTES,
             (long long)info.st_size);
    return false;
}

/* Plain or gzipped. */
static bool has_file(const char *directory, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.gz", directory, name);
    const bool gzipped = access(path, R_OK) == 0;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return gzipped || access(path, R_OK) == 0;
}

static bool check_images(cli_lab_job *lab, const char *images)
{
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"};
    struct stat info;
    if (stat(images, &info) != 0) return cli_fail(&lab->session, "--images %s: %s", images, strerror(errno)), false;
    if (!S_ISDIR(info.st_mode)) return cli_fail(&lab->session, "--images %s: not a directory", images), false;
    for (size_t i = 0; i < CLI_COUNT_OF(names); i++)
        if (!has_file(images, names[i]))
            return cli_fail(&lab->session, "--images %s: expected a file %s or %s.gz", images, names[i], names[i]),
                   false;
    return true;
}

/* Checks the inputs before the first experiment starts. */
static bool check_inputs(cli_lab_job *lab)
{
    const cli_lab_options *o = lab->options;
    return (!o->text || check_text(lab, o->text)) && (!o->images || check_images(lab, o->images));
}

/* The file name without its directory, as stored in results. */
static const char *base_of(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash && slash[1] ? slash + 1 : path;
}

static bool same_name(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Returns true if a readable result with the same sizes, seeds and data exists. */
static bool has_result(cli_lab_job *lab, const bo_lab_experiment *experiment)
{
    const cli_lab_options *o = lab->options;
    char why[CLI_LAB_WHY];
    bo_lab_result *result = cli_lab_result(lab, experiment, why);
    if (!result) return false;
    const bo_lab_about about = bo_lab_result_about(result);
    const uint64_t seed = lab->session.common.seed ? lab->session.common.seed : 1;
    const bool same = about.quick == o->quick && about.seeds == cli_lab_seeds(o->quick, o->seeds) &&
                      about.seed == seed && same_name(about.text, base_of(experiment->text ? o->text : NULL)) &&
                      same_name(about.images, base_of(experiment->images ? o->images : NULL));
    bo_lab_result_destroy(result);
    return same;
}

static void choose(batch *b)
{
    cli_lab_job *lab = b->lab;
    const bool all = lab->name_count == 1 && strcmp(lab->names[0], "all") == 0;
    b->chosen = cli_allocate(bo_lab_count(), sizeof *b->chosen, "experiments");
    for (size_t i = 0; i < bo_lab_count(); i++) { /* in the order of bo_lab_at, without duplicates */
        const bo_lab_experiment *experiment = bo_lab_at(i);
        bool selected = all;
        for (size_t k = 0; k < lab->name_count && !selected; k++) selected = bo_lab_find(lab->names[k]) == experiment;
        if (!selected) continue;
        if (lab->options->missing && has_result(lab, experiment))
            b->skipped++;
        else
            b->chosen[b->count++] = experiment;
    }
}

static void report_plan(const batch *b)
{
    cli_session *session = &b->lab->session;
    const cli_lab_options *o = b->lab->options;
    const size_t seeds = cli_lab_seeds(o->quick, o->seeds);
    size_t claims = 0;
    for (size_t i = 0; i < b->count; i++) claims += b->chosen[i]->claim_count;
    if (b->skipped) cli_note(session, "Skipped     %zu whose results are already in %s", b->skipped, b->lab->directory);
    if (!b->count) return;
    cli_note(session, "Experiments %zu, %s claim%s, %s, %zu seed%s each", b->count, cli_count(claims).s,
             claims == 1 ? "" : "s", o->quick ? "quick run (smaller sizes)" : "full run", seeds, seeds == 1 ? "" : "s");
    cli_note(session, "Data        text: %s; images: %s", o->text ? o->text : "synthetic",
             o->images ? o->images : "synthetic");
    cli_note(session, "Results     %s/NAME.json, plots %s/NAME-TABLE.svg", b->lab->directory, b->lab->directory);
    cli_note(session, "Verdicts    apply to this setting and these sizes\n");
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static void keep(batch *b, const bo_lab_result *result)
{
    cli_lab_job *lab = b->lab;
    const bo_lab_experiment *experiment = bo_lab_result_about(result).experiment;
    char *path = cli_lab_file(lab, experiment, NULL);
    if (bo_lab_result_write(lab->session.context, result, path) != BO_OK) {
        b->failed++;
        cli_fail(&lab->session, "%s", bo_context_error(lab->session.context));
    } else {
        size_t undrawn = 0;
        b->kept++;
        if (!b->undrawn && !cli_lab_draw(lab, result, &undrawn)) {
            b->undrawn = true;
            cli_warn(&lab->session, "no plots, because gnuplot is not installed; all numbers are in %s", path);
        }
        b->failed += undrawn > 0;
    }
    free(path);
}

/* BO_CANCELED ends the batch; any other error ends only this experiment. */
static bo_status run_one(batch *b, size_t index)
{
    cli_session *session = &b->lab->session;
    const cli_lab_options *o = b->lab->options;
    const bo_lab_options options = {
        .quick = o->quick, .seeds = o->seeds, .seed = session->common.seed, .text = o->text, .images = o->images};
    const bo_lab_experiment *experiment = b->chosen[index];
    bo_lab_result *result;
    session->progress.only = experiment->name;
    snprintf(session->progress.note, sizeof session->progress.note, "%zu of %zu", index + 1, b->count);
    const bo_status status = bo_lab_run(session->context, experiment, &options, &result);
    session->progress.note[0] = 0;
    cli_progress_clear(&session->progress);
    if (status == BO_CANCELED) return status;
    if (status != BO_OK) {
        b->failed++;
        cli_fail(session, "%s", bo_context_error(session->context));
        return status;
    }
    if (session->common.json)
        cli_lab_result_json(&b->json, result);
    else
        cli_lab_print(result);
    keep(b, result);
    cli_lab_count(result, b->verdicts);
    bo_lab_result_destroy(result);
    return BO_OK;
}

static void begin_json(batch *b)
{
    b->json = (cli_json){.out = stdout};
    if (!b->lab->session.common.json) return;
    cli_json_object(&b->json, NULL);
    cli_json_array(&b->json, "experiments");
}

static void sum_up(batch *b)
{
    if (b->lab->session.common.json) {
        cli_json_end(&b->json);
        cli_json_add_count(&b->json, "held", b->verdicts[BO_LAB_HELD]);
        cli_json_add_count(&b->json, "inconclusive", b->verdicts[BO_LAB_INCONCLUSIVE]);
        cli_json_add_count(&b->json, "failed", b->verdicts[BO_LAB_FAILED]);
        cli_json_add_count(&b->json, "errors", b->failed);
        cli_json_add_count(&b->json, "skipped", b->skipped);
        cli_json_end(&b->json);
    } else if (b->kept > 1) {
        printf("%zu experiments: %s\n", b->kept, cli_lab_tally(b->verdicts).s);
    }
}

/* Only for a directory whose name needs no quotes. */
static void suggest_next(const batch *b)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-";
    const char *directory = b->lab->directory;
    if (b->kept && strspn(directory, plain) == strlen(directory))
        cli_suggest_next(&b->lab->session, "bochner lab report --out %s", directory);
}

int cli_lab_run(cli_lab_job *lab)
{
    batch b = {.lab = lab};
    if (!check_inputs(lab) || !create_directory(lab)) return CLI_FAILED;
    choose(&b);
    report_plan(&b);
    begin_json(&b);
    bo_status status = BO_OK;
    for (size_t i = 0; i < b.count && status != BO_CANCELED; i++)
        status = cli_interrupted() ? BO_CANCELED : run_one(&b, i);
    sum_up(&b);
    free(b.chosen);
    if (status == BO_CANCELED) {
        if (cli_signal())
            cli_fail(
                &lab->session,
                "stopped on request; %zu of %zu results are in %s (use --missing to run the remaining experiments)",
                b.skipped + b.kept, b.skipped + b.count, lab->directory);
        return CLI_INTERRUPTED;
    }
    suggest_next(&b);
    if (b.failed && b.count > 1)
        cli_fail(&lab->session, "%zu of %zu experiments ended with an error; the other results are in %s", b.failed,
                 b.count, lab->directory);
    return b.failed ? CLI_FAILED : CLI_DONE;
}
