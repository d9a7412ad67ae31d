/* Fits ten million rows with `bochner fit --stream` in a separate process and measures its resident memory and its
 * rate. */
#include "bench.h"
#include "../cli/common/external.h"
#include "../cli/common/output.h"
#include "../cli/shared/hash.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DIM = 32, BLOCK = 8192 };

static float uniform(uint64_t bits)
{
    return (float)((double)(bits >> 40) * 0x1p-24);
}

/* Inputs are in [0, 1); the target is a wave along one direction plus noise. */
static bool write_rows(bench_run *bench, const char *path)
{
    cli_output output;
    size_t rows = bench->options->rows, columns = DIM + 1;
    if (!cli_output_npy(bench->session, &output, path, columns, sizeof(float))) return false;
    float *block = cli_allocate(BLOCK * columns, sizeof(float), "a block of rows");
    bool ok = true;
    uint64_t counter = 0;
    for (size_t at = 0; ok && at < rows; at += BLOCK) {
        size_t count = rows - at < BLOCK ? rows - at : BLOCK;
        for (size_t i = 0; i < count; i++) {
            float *row = block + i * columns, sum = 0;
            for (size_t j = 0; j < DIM; j += 2) {
                uint64_t bits = cli_hash(11, counter++);
                row[j] = uniform(bits);
                row[j + 1] = uniform(bits << 24);
                sum += (j % 4 ? 1.0f : -1.0f) * row[j] + 0.3f * row[j + 1];
            }
            row[DIM] = sinf(2 * sum) + 0.1f * (uniform(cli_hash(12, counter)) - 0.5f);
        }
        ok = cli_output_rows(bench->session, &output, count, block) && !cli_interrupted();
    }
    free(block);
    if (ok) return cli_output_commit(bench->session, &output);
    cli_output_abandon(&output);
    return false;
}

/* Runs a program as a child process and discards its output. Returns false if it fails. */
static bool run_child(char *const *arguments, double *seconds, double *resident)
{
    double start = cli_now();
    pid_t child = fork();
    if (child < 0) return false;
    if (child == 0) {
        if (!freopen("/dev/null", "w", stdout)) _exit(127);
        execv(arguments[0], arguments);
        _exit(127);
    }
    int ended;
    struct rusage usage;
    if (wait4(child, &ended, 0, &usage) != child || !WIFEXITED(ended) || WEXITSTATUS(ended) != 0) return false;
    *seconds = cli_now() - start;
    *resident = (double)usage.ru_maxrss * 1024;
    return true;
}

/* The precision of the Gram products, read from the model file. */
static bool model_precision(bench_run *bench, const char *model, bo_gram_precision *out)
{
    bo_machine *machine = NULL;
    bo_status status = bo_machine_load(bench->session->context, &(bo_source){.path = model}, &machine, NULL);
    if (status == BO_OK) *out = bo_machine_report(machine)->precision;
    if (status != BO_OK) cli_fail_status(bench->session, status);
    bo_machine_destroy(machine);
    return status == BO_OK;
}

/* Fits the file once with the requested precision; *used is the precision that the model reports. */
static bool time_stream(bench_run *bench, const char *data, const char *model, bo_gram_precision requested,
                        bo_gram_precision *used)
{
    char features[32], threads[32], name[96], program[CLI_EXTERNAL_TEXT];
    if (!cli_find_program(program)) {
        cli_fail(bench->session, "the program bochner was not found: %s", program);
        return false;
    }
    snprintf(features, sizeof features, "%zu", bench->options->stream_features);
    snprintf(threads, sizeof threads, "%d", bo_context_describe(bench->session->context)->threads);
    const char *const args[] = {
        program,      "fit",     data,      "--stream",         "--task",
        "regression", "--gamma", "0.25",    "--features",       features,
        "--threads",  threads,   "--quiet", "--gram-precision", bo_enum_name(BO_ENUM_GRAM_PRECISION, requested),
        "--out",      model,     NULL};
    double seconds = NAN, resident = NAN, reference = bench_reference_rate(bench);
    bool ok = run_child((char *const *)(uintptr_t)args, &seconds, &resident);
    reference = (reference + bench_reference_rate(bench)) / 2;
    if (!ok) {
        cli_fail(bench->session, "bochner fit --stream failed on %s", data);
        return false;
    }
    if (!model_precision(bench, model, used)) return false;
    double rows = (double)bench->options->rows, r = (double)bench->options->stream_features;
    double rate = 1e-9 * (rows * DIM * r + rows * r * (r + 1)) / seconds;
    if (requested == BO_GRAM_PRECISION_AUTO)
        bench_add(bench, "stream, resident memory", resident / 1e6, "MB", 300, true, "%s rows x %d, R = %s",
                  cli_count(bench->options->rows).s, DIM, features);
    bench_rate_name(name, sizeof name, "stream", requested);
    bench_add(bench, name, rate / reference, "", 0.5, false,
              "%.1f s with reading a .npy, %.0f of %.0f GFLOP/s, %.0f thousand rows/s; " BENCH_COUNTED, seconds, rate,
              reference, rows / seconds / 1e3, bo_enum_name(BO_ENUM_GRAM_PRECISION, *used));
    return true;
}

bool bench_stream(bench_run *bench)
{
    if (!bench->options->scratch) return true;
    char data[1024], model[1024];
    snprintf(data, sizeof data, "%s/bochner-stream-%ld.npy", bench->options->scratch, (long)getpid());
    snprintf(model, sizeof model, "%s/bochner-stream-%ld.model", bench->options->scratch, (long)getpid());
    cli_note(bench->session, "writing %s rows x %d columns to %s", cli_count(bench->options->rows).s, DIM + 1, data);
    bo_gram_precision used = BO_GRAM_PRECISION_AUTO, plain;
    bool ok = write_rows(bench, data) && time_stream(bench, data, model, BO_GRAM_PRECISION_AUTO, &used);
    if (ok && used != BO_GRAM_PRECISION_FLOAT32)
        ok = time_stream(bench, data, model, BO_GRAM_PRECISION_FLOAT32, &plain);
    unlink(data);
    unlink(model);
    return ok;
}
