/* The arrays of attention: read, and held against each other. */
#include "attention.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The library's messages about attention begin with that word, and so do the program's. */
bool cli_attention_ok(cli_attention_job *job, bo_status status)
{
    static const char subject[] = "attention: ";
    const char *words = bo_context_error(job->session->context);
    if (status == BO_OK) return true;
    if (status != BO_CANCELLED && strncmp(words, subject, sizeof subject - 1) == 0)
        cli_fail(job->session, "%s", words + sizeof subject - 1);
    else
        cli_fail_status(job->session, status);
    return false;
}

static bool load(cli_attention_job *job, cli_attention_file *file)
{
    if (!file->path) return true;
    return cli_attention_ok(job, bo_array_load(job->session->context, file->path, &file->array));
}

void cli_attention_close(cli_attention_job *job)
{
    cli_attention_file *files[] = {&job->q, &job->k, &job->v, &job->gate, &job->sigma, &job->m, &job->mix};
    for (size_t i = 0; i < CLI_COUNT_OF(files); i++) bo_array_destroy(files[i]->array);
    free(job->own_m);
    free(job->own_mix);
    free(job->out);
    bo_attention_destroy(job->attention);
}

/* ---- shapes --------------------------------------------------------------------------------------------- */

/* The last four dimensions of (batch, heads, tokens, width); those an array does not have are 1. */
enum { WIDTH, TOKENS, HEADS, BATCH };

static size_t extent(const cli_attention_file *file, size_t from_end)
{
    const bo_array *array = file->array;
    return from_end < array->rank ? array->shape[array->rank - 1 - from_end] : 1;
}

static bool mismatch(cli_attention_job *job, const cli_attention_file *a, const cli_attention_file *b, const char *rule)
{
    char first[BO_ARRAY_TEXT], second[BO_ARRAY_TEXT];
    cli_fail(job->session, "%s: --%s %s has shape %s, --%s %s has shape %s", rule, a->option, a->path,
             bo_array_shape(a->array, first), b->option, b->path, bo_array_shape(b->array, second));
    return false;
}

static bool same(cli_attention_job *job, const cli_attention_file *a, const cli_attention_file *b, size_t from_end,
                 const char *rule)
{
    return extent(a, from_end) == extent(b, from_end) || mismatch(job, a, b, rule);
}

static bool check_numbers(cli_attention_job *job, const cli_attention_file *file)
{
    char shape[BO_ARRAY_TEXT];
    if (file->array->count > 0) return true;
    cli_fail(job->session, "--%s %s holds no numbers: its shape is %s", file->option, file->path,
             bo_array_shape(file->array, shape));
    return false;
}

static bool check_rank(cli_attention_job *job, const cli_attention_file *file)
{
    char shape[BO_ARRAY_TEXT];
    if (file->array->rank < 2 || file->array->rank > 4) {
        cli_fail(job->session,
                 "--%s %s: expected an array (heads, tokens, width), (batch, heads, tokens, width) or, of one head, "
                 "(tokens, width); found shape %s",
                 file->option, file->path, bo_array_shape(file->array, shape));
        return false;
    }
    return check_numbers(job, file);
}

static bool check_keys(cli_attention_job *job)
{
    const cli_attention_file *q = &job->q, *k = &job->k;
    if (q->array->rank != k->array->rank) return mismatch(job, q, k, "queries and keys must have as many dimensions");
    if (!same(job, q, k, BATCH, "the batches must be as large")) return false;
    if (!same(job, q, k, WIDTH, "queries and keys must be as wide")) return false;
    if (extent(q, HEADS) % extent(k, HEADS) != 0)
        return mismatch(job, q, k, "the number of key heads must divide that of query heads");
    return !job->options->causal || same(job, q, k, TOKENS, "--causal needs as many keys as queries");
}

static bool check_values(cli_attention_job *job)
{
    const cli_attention_file *k = &job->k, *v = &job->v;
    if (k->array->rank != v->array->rank) return mismatch(job, k, v, "keys and values must have as many dimensions");
    return same(job, k, v, BATCH, "the batches must be as large") &&
           same(job, k, v, HEADS, "keys and values must have as many heads") &&
           same(job, k, v, TOKENS, "there must be as many values as keys");
}

bool cli_attention_load(cli_attention_job *job)
{
    cli_attention_file *files[] = {&job->q, &job->k, &job->v};
    for (size_t i = 0; i < CLI_COUNT_OF(files); i++)
        if (!load(job, files[i]) || (files[i]->array && !check_rank(job, files[i]))) return false;
    if (!check_keys(job) || (job->v.array && !check_values(job))) return false;
    job->desc.heads = extent(&job->q, HEADS);
    job->desc.key_heads = extent(&job->k, HEADS);
    job->desc.dim = extent(&job->q, WIDTH);
    job->desc.value_dim = job->v.array ? extent(&job->v, WIDTH) : job->desc.dim;
    job->shape = (bo_attention_shape){
        .sequences = extent(&job->q, BATCH), .tokens = extent(&job->q, TOKENS), .key_tokens = extent(&job->k, TOKENS)};
    job->inputs.q = job->q.array->values;
    job->inputs.k = job->k.array->values;
    job->inputs.v = job->v.array ? job->v.array->values : NULL;
    return true;
}

/* ---- parameters ----------------------------------------------------------------------------------------- */

/* The array has this shape, or the same without its first dimension where that is 1. */
static bool check_shape(cli_attention_job *job, const cli_attention_file *file, bo_array expected, const char *words)
{
    const bo_array *array = file->array;
    if (!check_numbers(job, file)) return false;
    const size_t cut = expected.rank > 1 && expected.shape[0] == 1 && array->rank + 1 == expected.rank;
    if (array->rank + cut == expected.rank &&
        memcmp(array->shape, expected.shape + cut, array->rank * sizeof *array->shape) == 0)
        return true;
    char found[BO_ARRAY_TEXT], wanted[BO_ARRAY_TEXT], keys[BO_ARRAY_TEXT];
    cli_fail(job->session, "--%s %s: expected %s = %s, found shape %s (--k %s has shape %s)", file->option, file->path,
             words, bo_array_shape(&expected, wanted), bo_array_shape(array, found), job->k.path,
             bo_array_shape(job->k.array, keys));
    return false;
}

static bool wrong_gate(cli_attention_job *job, size_t at, const char *expected)
{
    const bo_array *gate = job->gate.array;
    bo_array place = {.rank = gate->rank};
    char text[BO_ARRAY_TEXT];
    const double found = gate->values[at];
    for (size_t i = gate->rank; i-- > 0; at /= gate->shape[i]) place.shape[i] = at % gate->shape[i];
    cli_fail(job->session, "--%s %s: expected %s, found %g at %s", job->gate.option, job->gate.path, expected, found,
             bo_array_shape(&place, text));
    return false;
}

/* The gate has the keys' shape without their width. Its logarithm takes its place. */
static bool read_gate(cli_attention_job *job)
{
    if (!load(job, &job->gate)) return false;
    if (!job->gate.array) return true;
    bo_array expected = *job->k.array;
    expected.rank--;
    if (!check_shape(job, &job->gate, expected, "the shape of the keys without their width")) return false;
    float *values = job->gate.array->values;
    for (size_t i = 0; i < job->gate.array->count; i++) {
        if (job->options->log_gate) {
            if (!(values[i] <= 0) || !isfinite(values[i]))
                return wrong_gate(job, i, "logarithms of gates, finite and at most 0");
        } else {
            if (!(values[i] > 0 && values[i] <= 1)) return wrong_gate(job, i, "gates above 0 and at most 1");
            values[i] = (float)log(values[i]);
        }
    }
    job->inputs.log_gate = values;
    return true;
}

static bool read_sigma(cli_attention_job *job)
{
    if (!load(job, &job->sigma)) return false;
    if (!job->sigma.array) return true;
    const bo_array expected = {.rank = 2, .shape = {job->desc.key_heads, job->desc.dim}};
    job->inputs.sigma = job->sigma.array->values;
    return check_shape(job, &job->sigma, expected, "(key heads, width)");
}

/* The rank is the file's; --rank, if given, must say the same. */
static bool read_m(cli_attention_job *job)
{
    if (!load(job, &job->m)) return false;
    if (!job->m.array) return true;
    const size_t rank = job->options->rank != CLI_NOT_GIVEN ? job->options->rank : extent(&job->m, 1);
    const bo_array expected = {.rank = 3, .shape = {job->desc.key_heads, rank, job->desc.dim}};
    job->inputs.m = job->m.array->values;
    job->desc.rank = rank;
    return check_shape(job, &job->m, expected, "(key heads, rank, width)");
}

/* One number for every head, or a file with one number a head. */
static bool read_mix(cli_attention_job *job)
{
    char *end;
    if (!job->mix.path) return true;
    const double number = strtod(job->mix.path, &end);
    if (*end != 0) {
        if (!load(job, &job->mix)) return false;
        const bo_array expected = {.rank = 1, .shape = {job->desc.heads}};
        job->inputs.mix = job->mix.array->values;
        return check_shape(job, &job->mix, expected, "(heads,)");
    }
    job->own_mix = cli_allocate(job->desc.heads, sizeof(float), "mix");
    for (size_t h = 0; h < job->desc.heads; h++) job->own_mix[h] = (float)number;
    job->inputs.mix = job->own_mix;
    return true;
}

bool cli_attention_parameters(cli_attention_job *job)
{
    return read_gate(job) && read_sigma(job) && read_m(job) && read_mix(job);
}
