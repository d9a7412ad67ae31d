/* Gates and parameters of attention: numbers, or arrays whose shapes are checked against the keys. */
#include "attention.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- shapes and ranges ------------------------------------------------------------------------------------------- */

/* The array must have this shape, or the same without a first dimension of 1. */
static bool check_shape(cli_attention_job *job, const cli_attention_file *file, bo_array expected,
                        const char *expected_text)
{
    const bo_array *array = file->array;
    if (!cli_attention_numbers(job, file)) return false;
    const size_t cut = expected.rank > 1 && expected.shape[0] == 1 && array->rank + 1 == expected.rank;
    if (array->rank + cut == expected.rank &&
        memcmp(array->shape, expected.shape + cut, array->rank * sizeof *array->shape) == 0)
        return true;
    char found[CLI_SHAPE_TEXT], expected_shape[CLI_SHAPE_TEXT], keys[CLI_SHAPE_TEXT];
    cli_fail(job->session, "--%s %s: expected %s = %s, found shape %s (--k %s has shape %s)", file->option, file->path,
             expected_text, cli_shape_text(&expected, expected_shape), cli_shape_text(array, found),
             job->files[CLI_K].path, cli_shape_text(job->files[CLI_K].array, keys));
    return false;
}

typedef struct range {
    double lower, upper;
    bool without_lower; /* excludes `lower` itself */
    const char *expected_text;
} range;

static const range GATES = {0, 1, true, "gates in (0, 1]"},
                   LOG_GATES = {-HUGE_VAL, 0, true, "logarithms of gates that are finite and at most 0"},
                   DECAYS = {0, 1, true, "gates in (0, 1]"}, POSITIVE = {0, HUGE_VAL, true, "positive numbers"},
                   NOT_NEGATIVE = {0, HUGE_VAL, false, "nonnegative finite numbers"},
                   FINITE = {-HUGE_VAL, HUGE_VAL, false, "finite numbers"};

static bool check_range(cli_attention_job *job, const cli_attention_file *file, const range *of)
{
    const bo_array *array = file->array;
    size_t at = 0;
    for (; at < array->count; at++) {
        const double value = array->values[at];
        if (!isfinite(value) || value > of->upper || value < of->lower || (of->without_lower && value == of->lower))
            break;
    }
    if (at == array->count) return true;
    size_t *indices = cli_allocate(array->rank, sizeof *indices, "a position in an array");
    const bo_array place = {.rank = array->rank, .shape = indices};
    char text[CLI_SHAPE_TEXT];
    const double found = array->values[at];
    for (size_t i = array->rank; i-- > 0; at /= array->shape[i]) indices[i] = at % array->shape[i];
    cli_fail(job->session, "--%s %s: expected %s, found %g at %s", file->option, file->path, of->expected_text, found,
             cli_shape_text(&place, text));
    free(indices);
    return false;
}

bool cli_attention_finite(cli_attention_job *job, const cli_attention_file *file)
{
    return check_range(job, file, &FINITE);
}

static void apply_logarithm(float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) values[i] = (float)log(values[i]);
}

/* Reads an array of this shape; *out is unchanged if no file is given. */
static bool read_array(cli_attention_job *job, cli_attention_source source, bo_array expected,
                       const char *expected_text, const range *of, const void **out)
{
    cli_attention_file *file = &job->files[source];
    if (!cli_attention_read(job, source)) return false;
    if (!file->array) return true;
    if (!check_shape(job, file, expected, expected_text) || (of && !check_range(job, file, of))) return false;
    *out = file->array->values;
    return true;
}

/* ---- one per token ----------------------------------------------------------------------------------------------- */

/* Gates and β have the shape of the keys without the last dimension. The channel gates of GLA have the shape of the
 * keys. */
static bool read_tokens(cli_attention_job *job, cli_attention_source source, const range *of, const void **out)
{
    const bool channels = bo_attention_may(cli_attention_chosen(job->options).kind, BO_TRAIT_CHANNELS);
    bo_array expected = *job->files[CLI_K].array;
    if (!channels) expected.rank--;
    return read_array(job, source, expected,
                      channels ? "the shape of the keys" : "the shape of the keys without the last dimension", of, out);
}

static bool read_gates(cli_attention_job *job)
{
    if (!read_tokens(job, CLI_LOG_GATE, &LOG_GATES, &job->call.log_gate.data) ||
        !read_tokens(job, CLI_GATE, &GATES, &job->call.log_gate.data))
        return false;
    const bo_array *gates = job->files[CLI_GATE].array;
    if (gates) apply_logarithm(gates->values, gates->count);
    return read_tokens(job, CLI_BETA, &NOT_NEGATIVE, &job->call.beta.data);
}

/* ---- one per head ------------------------------------------------------------------------------------------------ */

size_t cli_attention_list(const char *text, double *out, size_t capacity)
{
    for (size_t count = 0;;) {
        char *end;
        const double number = strtod(text, &end);
        if (end == text || (*end != ',' && *end != 0)) return 0;
        if (count < capacity) out[count] = number;
        count++;
        if (*end == 0) return count;
        text = end + 1;
    }
}

/* Numbers on the command line: one number for all, or a list of `count`. *given: the text was a list of numbers. */
static bool read_list(cli_attention_job *job, cli_attention_source source, size_t count, const char *what, bool *given)
{
    cli_attention_file *file = &job->files[source];
    const char *text = job->options->sources[source];
    double *numbers = cli_allocate(count, sizeof *numbers, file->option);
    const size_t found = text ? cli_attention_list(text, numbers, count) : 0;
    *given = found > 0;
    if (found == 1 || found == count) {
        file->values = cli_allocate(count, sizeof(float), file->option);
        for (size_t i = 0; i < count; i++) file->values[i] = (float)numbers[found == 1 ? 0 : i];
    }
    free(numbers);
    if (found <= 1 || found == count) return true;
    cli_fail(job->session, "--%s: expected one number, or one per %s (%zu), found %zu", file->option, what, count,
             found);
    return false;
}

/* The fixed gate of each key head, replaced by its logarithm. */
static bool read_decay(cli_attention_job *job)
{
    const size_t heads = job->desc.key_heads;
    cli_attention_file *file = &job->files[CLI_DECAY];
    bool given;
    if (!read_list(job, CLI_DECAY, heads, "key head", &given)) return false;
    if (!given && !read_array(job, CLI_DECAY, (bo_array){.rank = 1, .shape = (size_t[]){heads}}, "(key heads,)",
                              &DECAYS, &job->call.log_decay))
        return false;
    float *values = file->values ? file->values : file->array ? file->array->values : NULL;
    if (values) apply_logarithm(values, heads);
    job->call.log_decay = values;
    return true;
}

/* The regularization: a number, or the diagonal of Λ. */
static bool read_lambda(cli_attention_job *job)
{
    const size_t heads = job->desc.key_heads, dim = job->desc.dim;
    cli_attention_file *file = &job->files[CLI_LAMBDA];
    bool given;
    if (!read_list(job, CLI_LAMBDA, heads * dim, "key head and column", &given)) return false;
    job->call.lambda = file->values;
    return given || read_array(job, CLI_LAMBDA, (bo_array){.rank = 2, .shape = (size_t[]){heads, dim}},
                               "(key heads, width)", &POSITIVE, &job->call.lambda);
}

static bool read_mix(cli_attention_job *job)
{
    const size_t heads = job->desc.heads;
    bool given;
    if (!read_list(job, CLI_MIX, heads, "head", &given)) return false;
    job->call.mix = job->files[CLI_MIX].values;
    return given || read_array(job, CLI_MIX, (bo_array){.rank = 1, .shape = (size_t[]){heads}}, "(heads,)", NULL,
                               &job->call.mix);
}

/* ---- maps -------------------------------------------------------------------------------------------------------- */

/* Reads the rank from the first array that has one, unless --rank is given; check_shape compares the other arrays. */
static void find_rank(cli_attention_job *job, cli_attention_source source, size_t from_end)
{
    const bo_array *array = job->files[source].array;
    if (job->desc.rank == 0 && array && array->rank > from_end)
        job->desc.rank = array->shape[array->rank - 1 - from_end];
}

/* M of the kinds dark and hybrid, W and b of learned maps. */
static bool read_maps(cli_attention_job *job)
{
    static const struct {
        cli_attention_source source;
        bool matrix;
    } table[] = {{CLI_M, true}, {CLI_W, true}, {CLI_W_K, true}, {CLI_BIAS, false}, {CLI_BIAS_K, false}};
    const void **const places[] = {&job->call.m, &job->call.m, &job->call.m_k, &job->call.bias, &job->call.bias_k};
    if (CLI_GIVEN(job->options, rank)) job->desc.rank = job->options->rank;
    for (size_t i = 0; i < CLI_COUNT_OF(table); i++) {
        const cli_attention_file *file = &job->files[table[i].source];
        if (!cli_attention_read(job, table[i].source)) return false;
        if (!file->array) continue;
        find_rank(job, table[i].source, table[i].matrix ? 1 : 0);
        const bo_array matrix = {.rank = 3, .shape = (size_t[]){job->desc.key_heads, job->desc.rank, job->desc.dim}},
                       vector = {.rank = 2, .shape = (size_t[]){job->desc.key_heads, job->desc.rank}};
        if (!check_shape(job, file, table[i].matrix ? matrix : vector,
                         table[i].matrix ? "(key heads, rank, width)" : "(key heads, rank)"))
            return false;
        *places[i] = file->array->values;
    }
    return true;
}

bool cli_attention_parameters(cli_attention_job *job)
{
    const bo_array sigma = {.rank = 2, .shape = (size_t[]){job->desc.key_heads, job->desc.dim}};
    return read_gates(job) && read_array(job, CLI_SIGMA, sigma, "(key heads, width)", NULL, &job->call.sigma) &&
           read_maps(job) && read_decay(job) && read_lambda(job) && read_mix(job);
}
