/* Reads the arrays of attention and checks their shapes. */
#include "attention.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Messages of the library and of the program both start with "attention: ". */
const char *cli_attention_error(const cli_attention_job *job)
{
    static const char subject[] = "attention: ";
    const char *message = bo_context_error(job->session->context);
    return strncmp(message, subject, sizeof subject - 1) == 0 ? message + sizeof subject - 1 : message;
}

bool cli_attention_ok(cli_attention_job *job, bo_status status)
{
    if (status == BO_OK) return true;
    const char *message = cli_attention_error(job);
    if (status != BO_CANCELED && message != bo_context_error(job->session->context))
        cli_fail(job->session, "%s", message);
    else
        cli_fail_status(job->session, status);
    return false;
}

bool cli_attention_read(cli_attention_job *job, cli_attention_source source)
{
    cli_attention_file *file = &job->files[source];
    if (!file->path) return true;
    return cli_attention_ok(job, bo_array_load(job->session->context, &(bo_source){.path = file->path}, &file->array));
}

void cli_attention_close(cli_attention_job *job)
{
    for (size_t i = 0; i < CLI_SOURCES; i++) {
        bo_array_destroy(job->files[i].array);
        free(job->files[i].values);
    }
    free(job->sample.q_copy);
    free(job->sample.k_copy);
    free(job->whitening_m);
    for (size_t i = 0; i < CLI_COUNT_OF(job->model_rows); i++) free(job->model_rows[i]);
    free(job->out);
    bo_attention_destroy(job->attention);
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

const char *cli_shape_text(const bo_array *array, char out[CLI_SHAPE_TEXT])
{
    bo_array_format(array, out, CLI_SHAPE_TEXT);
    return out;
}

/* Dimensions of (batch, heads, tokens, width), counted from the end; missing ones are 1. */
enum { WIDTH, TOKENS, HEADS, BATCH };

static size_t extent(const cli_attention_file *file, size_t from_end)
{
    const bo_array *array = file->array;
    return from_end < array->rank ? array->shape[array->rank - 1 - from_end] : 1;
}

static bool mismatch(cli_attention_job *job, const cli_attention_file *a, const cli_attention_file *b, const char *rule)
{
    char first[CLI_SHAPE_TEXT], second[CLI_SHAPE_TEXT];
    cli_fail(job->session, "%s: --%s %s has shape %s, --%s %s has shape %s", rule, a->option, a->path,
             cli_shape_text(a->array, first), b->option, b->path, cli_shape_text(b->array, second));
    return false;
}

static bool same(cli_attention_job *job, const cli_attention_file *a, const cli_attention_file *b, size_t from_end,
                 const char *rule)
{
    return extent(a, from_end) == extent(b, from_end) || mismatch(job, a, b, rule);
}

bool cli_attention_numbers(cli_attention_job *job, const cli_attention_file *file)
{
    char shape[CLI_SHAPE_TEXT];
    if (file->array->count > 0) return true;
    cli_fail(job->session, "--%s %s: expected numbers, found an empty array of shape %s", file->option, file->path,
             cli_shape_text(file->array, shape));
    return false;
}

static bool check_rank(cli_attention_job *job, const cli_attention_file *file)
{
    char shape[CLI_SHAPE_TEXT];
    if (file->array->rank < 2 || file->array->rank > CLI_ATTENTION_RANK) {
        cli_fail(job->session,
                 "--%s %s: expected shape (tokens, width), (heads, tokens, width) or (batch, heads, tokens, width), "
                 "found %s",
                 file->option, file->path, cli_shape_text(file->array, shape));
        return false;
    }
    return cli_attention_numbers(job, file);
}

/* Checks that keys match queries; also used for calibration arrays. */
static bool check_keys(cli_attention_job *job, const cli_attention_file *q, const cli_attention_file *k)
{
    if (q->array->rank != k->array->rank)
        return mismatch(job, q, k, "queries and keys must have the same number of dimensions");
    if (!same(job, q, k, BATCH, "the batch sizes must be equal")) return false;
    if (!same(job, q, k, WIDTH, "queries and keys must have the same width")) return false;
    return extent(q, HEADS) % extent(k, HEADS) == 0 ||
           mismatch(job, q, k, "the number of query heads must be a multiple of the number of key heads");
}

static bool check_values(cli_attention_job *job)
{
    const cli_attention_file *k = &job->files[CLI_K], *v = &job->files[CLI_V];
    if (k->array->rank != v->array->rank)
        return mismatch(job, k, v, "keys and values must have the same number of dimensions");
    return same(job, k, v, BATCH, "the batch sizes must be equal") &&
           same(job, k, v, HEADS, "keys and values must have the same number of heads") &&
           same(job, k, v, TOKENS, "keys and values must have the same number of tokens");
}

static bool load_rows(cli_attention_job *job, cli_attention_source source)
{
    const cli_attention_file *file = &job->files[source];
    return cli_attention_read(job, source) && (!file->array || check_rank(job, file));
}

static bo_attention_call call_of(const cli_attention_file *q, const cli_attention_file *k)
{
    return (bo_attention_call){.sequences = extent(q, BATCH),
                               .tokens = extent(q, TOKENS),
                               .q = {q->array->values},
                               .k = {k->array->values},
                               .key_tokens = extent(k, TOKENS)};
}

bool cli_attention_load(cli_attention_job *job)
{
    const cli_attention_file *q = &job->files[CLI_Q], *k = &job->files[CLI_K], *v = &job->files[CLI_V];
    const bool causal = job->options->advise ? job->options->causal : cli_attention_chosen(job->options).causal;
    if (!load_rows(job, CLI_Q) || !load_rows(job, CLI_K) || !load_rows(job, CLI_V) || !check_keys(job, q, k))
        return false;
    if (causal && !same(job, q, k, TOKENS, "--causal requires the same number of tokens in queries and keys"))
        return false;
    if (v->array && !check_values(job)) return false;
    job->desc.heads = extent(q, HEADS);
    job->desc.key_heads = extent(k, HEADS);
    job->desc.dim = extent(q, WIDTH);
    job->desc.value_dim = v->array ? extent(v, WIDTH) : job->desc.dim;
    job->call = call_of(q, k);
    job->call.v.data = v->array ? v->array->values : NULL;
    return true;
}

bool cli_attention_calibration(cli_attention_job *job)
{
    const cli_attention_file *q = &job->files[CLI_CALIBRATE_Q], *k = &job->files[CLI_CALIBRATE_K];
    job->sample = (cli_attention_sample){.call = job->call};
    if (!q->path) return true;
    if (!load_rows(job, CLI_CALIBRATE_Q) || !load_rows(job, CLI_CALIBRATE_K) || !check_keys(job, q, k)) return false;
    static const char heads[] = "calibration arrays must have the same number of heads",
                      width[] = "calibration arrays must have the same width";
    if (!same(job, q, &job->files[CLI_Q], HEADS, heads) || !same(job, k, &job->files[CLI_K], HEADS, heads) ||
        !same(job, q, &job->files[CLI_Q], WIDTH, width))
        return false;
    if (!cli_attention_finite(job, q) || !cli_attention_finite(job, k)) return false;
    job->sample = (cli_attention_sample){.call = call_of(q, k)};
    return true;
}
