/* Kinds of attention on the device, forward and forward with the gradients of all inputs. */
#include "call.h"
#include <math.h>
#include <stdio.h>

typedef struct shape {
    const device_attention_options *options;
    size_t tokens, sequences, features;
    size_t dim, value_dim; /* 0: the dimensions of the options */
} shape;

/* ---- one attention ----------------------------------------------------------------------------------------------- */

static bo_attention_desc describe(const shape *s, const char *kind)
{
    bo_attention_desc desc = {.features = {.features = s->features, .seed = s->options->seed}};
    bo_attention_preset(kind, &desc);
    desc.heads = s->options->heads;
    desc.dim = s->dim ? s->dim : s->options->dim;
    if (s->value_dim) desc.value_dim = s->value_dim;
    desc.causal = true;
    if (!bo_attention_has(&desc, BO_TRAIT_FEATURES)) desc.features.features = 0;
    return desc;
}

/* q, k, v and the further inputs of the kind: log g <= 0, β in (0, 1), and M with rows of norms near 1. */
static size_t set_inputs(const device_bench *bench, const bo_attention_desc *desc, size_t rows, unsigned *present,
                         device_input in[BO_OP_INPUTS])
{
    const size_t heads = desc->heads, columns = heads * desc->dim, rank = desc->rank ? desc->rank : desc->dim;
    size_t count = 0;
    for (; count < 3; count++) in[count] = (device_input){rows, columns, bench->storage, 0, 1, INFINITY};
    in[2].columns = heads * desc->value_dim;
    *present = 0;
    if (bo_attention_has(desc, BO_TRAIT_CHANNELS) || desc->gate == BO_GATE_CONVEX || desc->gate == BO_GATE_DECAY) {
        const size_t gates = bo_attention_has(desc, BO_TRAIT_CHANNELS) ? columns : heads;
        in[count++] = (device_input){rows, gates, bench->storage, -0.1, 0.05, -1e-4};
        *present |= BO_ATTENTION_GIVEN_LOG_GATE;
    }
    if (bo_attention_has(desc, BO_TRAIT_AFFINE)) {
        in[count++] =
            (device_input){1, heads * rank * desc->dim, BO_ELEMENT_FLOAT32, 0, 1 / sqrt((double)desc->dim), INFINITY};
        *present |= BO_ATTENTION_GIVEN_M;
    }
    if (bo_attention_has(desc, BO_TRAIT_BETA)) {
        in[count++] = (device_input){rows, heads, bench->storage, 0.5, 0.1, 0.999};
        *present |= BO_ATTENTION_GIVEN_BETA;
    }
    return count;
}

/* Bytes of the inputs and outputs, each read or written once. */
static double bytes_of(const device_call *call, bool both)
{
    const bo_tensor *out = &call->forward.out[0];
    double inputs = 0, outputs = (double)bo_element_bytes(out->element, out->rows, out->columns);
    for (size_t i = 0; i < call->forward.inputs; i++) {
        const bo_tensor *in = &call->forward.in[i];
        inputs += (double)bo_element_bytes(in->element, in->rows, in->columns);
    }
    return both ? 3 * inputs + 3 * outputs : inputs + outputs;
}

/* The larger of the time for the bytes at the rate of a copy and the time for the operations at the rate of a matrix
 * product. */
static double floor_of(const device_bench *bench, double bytes, double operations)
{
    return fmax(bytes / bench->copied, operations / bench->product);
}

static void report(device_bench *bench, const shape *s, const char *kind, const device_call *call, bool both,
                   double operations, double seconds)
{
    const device_attention_options *o = s->options;
    const double bytes = bytes_of(call, both), floor_seconds = floor_of(bench, bytes, operations);
    char name[96], features[32] = "";
    if (s->features) snprintf(features, sizeof features, ", %zu features", s->features);
    snprintf(name, sizeof name, "%s%s, %zu tokens, forward%s", kind, features, s->tokens, both ? " + backward" : "");
    bench_add(bench->run, name, 1e3 * seconds, "ms", NAN, true,
              "%zu x %zu tokens, %zu heads of %zu: %.4g TFLOP/s, %.4g GB/s; floor %.4g ms (%s), %.2f of its speed",
              s->sequences, s->tokens, o->heads, o->dim, 1e-12 * operations / seconds, 1e-9 * bytes / seconds,
              1e3 * floor_seconds, bytes / bench->copied > operations / bench->product ? "bytes" : "operations",
              floor_seconds / seconds);
}

static bo_status measure_call(device_bench *bench, const shape *s, const char *kind, device_call *call, void *unused)
{
    double seconds;
    (void)unused;
    const double operations = bo_backend_cpu()->ops[BO_OPERATION_ATTENTION]->operations(bench->context, &call->forward);
    BO_TRY(device_time(bench, device_call_forward, call, &seconds));
    report(bench, s, kind, call, false, operations, seconds);
    BO_TRY(device_time(bench, device_call_both, call, &seconds));
    report(bench, s, kind, call, true, 3 * operations, seconds);
    return BO_OK;
}

/* Opens the call of a shape and passes it to `use`. */
typedef bo_status (*shape_use)(device_bench *bench, const shape *s, const char *kind, device_call *call, void *of);

static bo_status with_shape(device_bench *bench, const shape *s, const char *kind, shape_use use, void *of)
{
    const bo_attention_desc desc = describe(s, kind);
    bo_attention *attention = NULL;
    BO_TRY(bo_attention_create(bench->context, &desc, &attention));
    device_input in[BO_OP_INPUTS];
    bo_attention_attributes attributes = {.attention = attention, .tokens = s->tokens};
    const size_t inputs =
        set_inputs(bench, bo_attention_describe(attention), s->tokens * s->sequences, &attributes.given, in);
    device_call call;
    bo_status status = device_call_open(bench, BO_OPERATION_ATTENTION, &attributes, s->sequences, inputs, in, &call);
    if (status == BO_OK) status = use(bench, s, kind, &call, of);
    device_call_close(bench, &call);
    bo_attention_destroy(attention);
    return status;
}

/* ---- all kinds ----------------------------------------------------------------------------------------------------
 */

/* Prints a warning if a shape is refused or does not fit, and continues with the next kind. */
static bool measure_at(device_bench *bench, const shape *s, const char *kind)
{
    const bo_status status = with_shape(bench, s, kind, measure_call, NULL);
    if (status != BO_UNSUPPORTED && status != BO_MEMORY) return device_ok(bench, status);
    cli_warn(bench->run->session, "%s, %zu tokens: %s", kind, s->tokens, bo_context_error(bench->context));
    return true;
}

static bool measure_kind(device_bench *bench, const char *kind, void *of)
{
    const device_attention_options *o = of;
    static const cli_counts none = {.items = {0}, .count = 1};
    bo_attention_desc desc = {0};
    bo_attention_preset(kind, &desc);
    const cli_counts *features = bo_attention_has(&desc, BO_TRAIT_FEATURES) ? o->features : &none;
    for (size_t i = 0; i < o->lengths->count; i++)
        for (size_t j = 0; j < features->count; j++) {
            const size_t tokens = o->lengths->items[i], sequences = o->batch_tokens / tokens;
            const shape s = {o, tokens, sequences ? sequences : 1, features->items[j], 0, 0};
            if (cli_interrupted() || !measure_at(bench, &s, kind)) return false;
        }
    return true;
}

/* ---- the grid ---------------------------------------------------------------------------------------------------- */

/* Dimensions of queries and values. */
static const size_t grid_dims[][2] = {{64, 64},   {32, 32},   {80, 80},  {96, 96},
                                      {128, 128}, {256, 256}, {64, 128}, {128, 64}};
static const size_t grid_features[] = {128, 32, 64, 256, 512};

/* Forward, and forward and backward: seconds of the first cell and of the current one. */
typedef struct grid_times {
    double first[2], now[2];
    size_t beyond; /* cells slower than the limit */
} grid_times;

/* Tokens with the work of the first cell, n (d D + D d_v), in steps of 256. */
static size_t grid_tokens(const device_bench *bench, size_t dim, size_t value_dim, size_t features)
{
    enum { TOKENS = 32768, WORK = 128 * (64 + 64) };
    const size_t tokens = (size_t)TOKENS * WORK / (features * (dim + value_dim)) / 256 * 256;
    if (bench->emulated) return 32;
    return tokens < 256 ? 256 : tokens;
}

static bo_status measure_cell(device_bench *bench, const shape *s, const char *kind, device_call *call, void *of)
{
    grid_times *times = of;
    const double operations = bo_backend_cpu()->ops[BO_OPERATION_ATTENTION]->operations(bench->context, &call->forward);
    const double limit = s->features * s->value_dim <= 32768 ? 2 : 4;
    BO_TRY(device_time(bench, device_call_forward, call, &times->now[0]));
    BO_TRY(device_time(bench, device_call_both, call, &times->now[1]));
    for (int both = 0; both < 2; both++) {
        const double seconds = times->now[both],
                     floor_seconds = floor_of(bench, bytes_of(call, both), (both ? 3 : 1) * operations);
        char name[128], features[32] = "";
        if (times->first[both] == 0) times->first[both] = seconds;
        const double ratio = seconds / times->first[both];
        times->beyond += ratio > limit;
        if (s->features) snprintf(features, sizeof features, ", %zu features", s->features);
        snprintf(name, sizeof name, "%s, %zu and %zu dimensions%s, forward%s", kind, s->dim, s->value_dim, features,
                 both ? " + backward" : "");
        bench_add(bench->run, name, 1e3 * seconds, "ms", NAN, true,
                  "%zu tokens, %zu heads: floor %.4g ms, %.2f of its speed; %.2f times the first cell%s", s->tokens,
                  s->options->heads, 1e3 * floor_seconds, floor_seconds / seconds, ratio,
                  ratio > limit ? ", beyond the limit" : "");
    }
    return BO_OK;
}

static bool measure_grid(device_bench *bench, const char *kind, void *of)
{
    bo_attention_desc desc = {0};
    grid_times times = {{0, 0}, {0, 0}, 0};
    bo_attention_preset(kind, &desc);
    const bool has_features = bo_attention_has(&desc, BO_TRAIT_FEATURES) && desc.kind != BO_ATTENTION_LINEAR;
    for (size_t i = 0; i < CLI_COUNT_OF(grid_dims); i++)
        for (size_t j = 0; j < (has_features ? CLI_COUNT_OF(grid_features) : 1); j++) {
            const size_t dim = grid_dims[i][0], value_dim = grid_dims[i][1], features = grid_features[j];
            const shape s = {of,  grid_tokens(bench, dim, value_dim, has_features ? features : dim),
                             1,   has_features ? features : 0,
                             dim, value_dim};
            if (cli_interrupted()) return false;
            const bo_status status = with_shape(bench, &s, kind, measure_cell, &times);
            if (status != BO_UNSUPPORTED && status != BO_MEMORY) {
                if (!device_ok(bench, status)) return false;
                continue;
            }
            cli_warn(bench->run->session, "%s, %zu and %zu dimensions, %zu features: %s", kind, dim, value_dim,
                     s.features, bo_context_error(bench->context));
        }
    char name[96];
    snprintf(name, sizeof name, "%s, cells beyond the limit", kind);
    bench_add(bench->run, name, (double)times.beyond, "", NAN, false,
              "limit: 2 times the first cell, 4 times if features x value dimensions > 32768");
    return true;
}

int device_attention(bench_run *run, const device_attention_options *options)
{
    static const char all[] = "softmax,rfa,rfa-gate,favor,dark,hybrid,gla,gated-delta",
                      in_grid[] = "favor,rfa,rfa-gate,dark,linear";
    const char *kinds = options->grid ? in_grid : all;
    device_bench bench;
    bool ok = device_open(run, options->device, options->precision, options->repeats, &bench) &&
              device_references(&bench) &&
              device_each_kind(&bench, options->device->kinds ? options->device->kinds : kinds,
                               options->grid ? measure_grid : measure_kind, (void *)(uintptr_t)options);
    device_close(&bench);
    return ok ? CLI_DONE : CLI_FAILED;
}
