/* Attention on a device with strides (bo_gpu_strides): the same data in arrays with gaps, interleaved in one array, and
 * with heads before tokens. Results are bitwise equal to contiguous arrays, or nearly equal if other kernels compute
 * them. Memory between the elements of results is unchanged. */
#include <bochner/devices.h>
#include "testing.h"
#include "attention/attention.h"
#include "attention/gpu/call.h"
#include "backend/backend.h"
#include "base/rng.h"
#include "device/device.h"

enum { MAX_SEQUENCES = 3, PARAMETERS = 6 };

static bo_context *host, *device;

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* The arrays of a call with a row per token: what it reads, then what it writes. */
enum { Q, K, V, LOG_GATE, BETA, DOUT, READ, OUT = READ, DQ, DK, DV, DLOG_GATE, DBETA, ARRAYS };
static const char *const names[ARRAYS] = {
    "q",          "k",  "v",  "log_gate", "beta",      "the gradient of the output",
    "the output", "dq", "dk", "dv",       "dlog_gate", "dbeta"};

typedef enum arrangement {
    WHOLE,       /* tokens first, without gaps */
    PACKED,      /* q, k and v of a token side by side, and their gradients; gaps elsewhere */
    HEADS_FIRST, /* for sequences of equal lengths */
    ODD          /* strides and addresses that are not multiples of 16 bytes */
} arrangement;
static const char *const layouts[] = {"whole", "packed", "heads first", "odd"};

typedef struct trial {
    const char *name, *preset;
    size_t heads, key_heads, dim, value_dim; /* dims 0: 64 */
    size_t features, window, rank;
    bo_gate gate;
    bool everywhere, cross; /* not causal; keys of another stream */
    bool tensor_cores;      /* in bfloat16; not if addresses are odd */
} trial;

/* Lengths 0: equal lengths. */
typedef struct shape {
    size_t sequences, tokens, key_tokens, lengths[MAX_SEQUENCES], key_lengths[MAX_SEQUENCES];
} shape;
static const shape equal = {.sequences = 2, .tokens = 66, .key_tokens = 21},
                   ragged = {.sequences = 3, .lengths = {66, 1, 12}, .key_lengths = {9, 40, 3}};

typedef struct parameter {
    unsigned bit;
    size_t count;
    float *numbers;
} parameter;

/* A call: its data as floats that are exact in bfloat16, row by row and head by head. */
typedef struct problem {
    bo_attention *attention;
    const shape *shape;
    bo_element type;
    bool cross;
    unsigned given;
    size_t rows[ARRAYS], heads[ARRAYS], width[ARRAYS];
    float *numbers[ARRAYS];
    parameter parameters[PARAMETERS];
    size_t parameter_count;
} problem;

/* The offsets of the arrays in one block of memory, in elements. */
typedef struct placement {
    size_t at[ARRAYS], total;
    bo_gpu_strides by[ARRAYS];
} placement;

/* The results of a call, and of its gradients of parameters. */
typedef struct results {
    float *numbers[ARRAYS], *parameters[PARAMETERS];
} results;

static bool of_keys(int array)
{
    return array == K || array == V || array == LOG_GATE || array == BETA || array == DK || array == DV ||
           array == DLOG_GATE || array == DBETA;
}

static size_t tokens_of(const shape *s, bool keys, size_t sequence)
{
    if (s->tokens) return keys ? s->key_tokens : s->tokens;
    return (keys ? s->key_lengths : s->lengths)[sequence];
}

static size_t rows_of(const shape *s, bool keys)
{
    size_t rows = 0;
    for (size_t i = 0; i < s->sequences; i++) rows += tokens_of(s, keys, i);
    return rows;
}

/* ---- problems ---------------------------------------------------------------------------------------------------- */

static float *random_floats(size_t count, uint64_t seed, double low, double size)
{
    float *x = malloc(count * sizeof *x + 1);
    uint16_t *rounded = malloc(count * sizeof *rounded + 1);
    bo_rng rng = bo_rng_make(seed, 5);
    for (size_t i = 0; i < count; i++) x[i] = (float)(low + size * bo_rng_normal(&rng));
    for (size_t i = 0; low < 0 && i < count; i++) x[i] = fminf(x[i], -0.001f);
    assert_ok(host, bo_backend_cpu()->narrow(host, BO_ELEMENT_BFLOAT16, 1, count, x, rounded));
    assert_ok(host, bo_backend_cpu()->widen(host, BO_ELEMENT_BFLOAT16, 1, count, rounded, x));
    free(rounded);
    return x;
}

static void add_parameter(problem *p, unsigned bit, size_t count, double low, double size)
{
    p->given |= bit;
    p->parameters[p->parameter_count++] = (parameter){bit, count, random_floats(count, 40 + bit, low, size)};
}

static bo_attention *make_attention(const trial *t)
{
    bo_attention_desc desc = {.heads = t->heads,
                              .key_heads = t->key_heads,
                              .dim = t->dim ? t->dim : 64,
                              .value_dim = t->value_dim ? t->value_dim : 64,
                              .causal = !t->everywhere,
                              .features = {.features = t->features, .seed = 3}};
    bo_attention *attention;
    assert_true(bo_attention_preset(t->preset, &desc));
    if (t->gate) desc.gate = t->gate;
    if (t->window) desc.window = t->window;
    if (t->rank) desc.rank = t->rank;
    assert_ok(host, bo_attention_create(host, &desc, &attention));
    return attention;
}

static problem problem_make(const trial *t, const shape *s, bo_element type)
{
    problem p = {.attention = make_attention(t), .shape = s, .type = type, .cross = t->cross};
    const bo_attention_desc *d = bo_attention_describe(p.attention);
    const size_t gates = bo_gate_width(d), matrix = d->key_heads * d->rank * d->dim;
    const bool beta = bo_attention_has(d, BO_TRAIT_BETA), affine = bo_attention_has(d, BO_TRAIT_AFFINE);
    const size_t width[ARRAYS] = {d->dim,       d->dim, d->value_dim, gates,        beta,  d->value_dim,
                                  d->value_dim, d->dim, d->dim,       d->value_dim, gates, beta};
    const double low[READ] = {0, 0, 0, -0.3, 0.5, 0}, size[READ] = {1, 1, 1, 0.2, 0.1, 1};
    for (int i = 0; i < ARRAYS; i++) {
        const size_t count = width[i] * (of_keys(i) ? d->key_heads : d->heads) * rows_of(s, t->cross && of_keys(i));
        p.rows[i] = rows_of(s, t->cross && of_keys(i)), p.heads[i] = of_keys(i) ? d->key_heads : d->heads;
        p.width[i] = width[i];
        if (i < READ) p.numbers[i] = random_floats(count, 20 + (uint64_t)i, low[i], size[i]);
    }
    p.given = BO_GPU_ARRAY_Q | BO_GPU_ARRAY_K | BO_GPU_ARRAY_V;
    if (gates) p.given |= BO_ATTENTION_GIVEN_LOG_GATE;
    if (beta) p.given |= BO_ATTENTION_GIVEN_BETA;
    if (bo_attention_has(d, BO_TRAIT_SIGMA)) add_parameter(&p, BO_ATTENTION_GIVEN_SIGMA, d->key_heads * d->dim, 1, 0.1);
    if (d->rank) add_parameter(&p, BO_ATTENTION_GIVEN_M, matrix, 0, 0.1);
    if (affine) add_parameter(&p, BO_ATTENTION_GIVEN_M_K, matrix, 0, 0.1);
    if (affine) add_parameter(&p, BO_ATTENTION_GIVEN_BIAS, d->key_heads * d->rank, 0, 0.3);
    if (bo_attention_has(d, BO_TRAIT_MIX)) add_parameter(&p, BO_ATTENTION_GIVEN_MIX, d->heads, 1, 0.1);
    return p;
}

static void problem_drop(problem *p)
{
    for (int i = 0; i < READ; i++) free(p->numbers[i]);
    for (size_t i = 0; i < p->parameter_count; i++) free(p->parameters[i].numbers);
    bo_attention_destroy(p->attention);
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

/* Places an array after the previous ones, with gaps between rows and between heads; `skip`: elements before it. */
static void place_array(placement *to, const problem *p, int array, size_t head, size_t row, size_t skip)
{
    to->at[array] = (to->total + 15) / 16 * 16 + skip;
    to->by[array] = (bo_gpu_strides){row, head, 0};
    to->total = to->at[array] + row * p->rows[array];
}

/* Interleaves `a`, b and c in every row. */
static void place_together(placement *to, const problem *p, int a, int b, int c)
{
    const int all[] = {a, b, c};
    size_t row = 0, at = (to->total + 15) / 16 * 16;
    for (int i = 0; i < 3; i++) {
        to->at[all[i]] = at + row;
        row += p->heads[all[i]] * p->width[all[i]];
    }
    for (int i = 0; i < 3; i++) to->by[all[i]] = (bo_gpu_strides){row, p->width[all[i]], 0};
    to->total = at + row * p->rows[a];
}

static void place_heads_first(placement *to, const problem *p, int array)
{
    const size_t tokens = tokens_of(p->shape, p->cross && of_keys(array), 0), width = p->width[array];
    to->at[array] = (to->total + 15) / 16 * 16;
    to->by[array] = (bo_gpu_strides){width, tokens * width, (ptrdiff_t)((p->heads[array] - 1) * tokens * width)};
    to->total = to->at[array] + p->rows[array] * p->heads[array] * width;
}

static placement plan_make(const problem *p, arrangement layout)
{
    placement out = {0};
    for (int i = 0; i < ARRAYS; i++) {
        const size_t width = p->width[i], row = p->heads[i] * width, gap = i == LOG_GATE || i == BETA ? 3 : 24;
        const bool together = layout == PACKED && !p->cross && (i <= V || (i >= DQ && i <= DV));
        if (layout == WHOLE) place_array(&out, p, i, width, row, 0);
        if (layout == PACKED && !together) place_array(&out, p, i, width, row + gap, 0);
        if (together && (i == Q || i == DQ)) place_together(&out, p, i, i + 1, i + 2);
        if (layout == HEADS_FIRST) place_heads_first(&out, p, i);
        if (layout == ODD)
            place_array(&out, p, i, width + 3, p->heads[i] * (width + 3) + 2 * (size_t)i + 1, 1 + (size_t)i % 5);
    }
    return out;
}

/* Calls go for every element of an array with its index in the block of memory and in the array. */
#define FOR_EACH_PLACE(p, plan, array, place, number)                                                                  \
    for (size_t s_ = 0, row_ = 0; s_ < (p)->shape->sequences; s_++)                                                    \
        for (size_t t_ = 0; t_ < tokens_of((p)->shape, (p)->cross && of_keys(array), s_); t_++, row_++)                \
            for (size_t i_ = 0; i_ < (p)->heads[array] * (p)->width[array]; i_++)                                      \
                for (size_t number = row_ * (p)->heads[array] * (p)->width[array] + i_,                                \
                            place = place_of(plan, array, row_, i_ / (p)->width[array], s_) + i_ % (p)->width[array],  \
                            once_ = 1;                                                                                 \
                     once_; once_ = 0)

static size_t place_of(const placement *plan, int array, size_t row, size_t head, size_t sequence)
{
    const bo_gpu_strides by = plan->by[array];
    return plan->at[array] + row * by.row + head * by.head + (size_t)((ptrdiff_t)sequence * by.sequence);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static size_t bytes_of(bo_element type, size_t count)
{
    return count * (type == BO_ELEMENT_BFLOAT16 ? 2 : 4);
}

static void *on_device(const void *bytes, size_t count)
{
    void *at = bo_buffer_allocate(device, bo_device_of(device), count + 64, "an operand");
    assert_non_null(at);
    if (bytes) assert_ok(device, bo_buffer_write(device, bo_device_of(device), at, bytes, count));
    return at;
}

static void release(const void *at)
{
    if (at) bo_buffer_release(bo_device_of(device), (void *)at);
}

static void from_device(void *to, const void *at, size_t count)
{
    assert_ok(device, bo_buffer_read(device, bo_device_of(device), to, at, count));
}

static bo_gpu_rows device_rows(const problem *p, bool keys)
{
    const shape *s = p->shape;
    int32_t starts[MAX_SEQUENCES + 1] = {0};
    bo_gpu_rows out = {
        .tokens = (int32_t)tokens_of(s, keys, 0), .sequences = (int32_t)s->sequences, .rows = rows_of(s, keys)};
    for (size_t i = 0; i < s->sequences; i++) starts[i + 1] = starts[i] + (int32_t)tokens_of(s, keys, i);
    if (!s->tokens) out.tokens = 0, out.starts = on_device(starts, sizeof starts);
    return out;
}

/* The block of memory of a plan, with all elements that the call reads; all bits of the other elements are set. */
static unsigned char *fill_block(const problem *p, const placement *plan)
{
    const size_t each = bytes_of(p->type, 1);
    unsigned char *block = malloc(each * plan->total);
    memset(block, 0xFF, each * plan->total);
    for (int a = 0; a < READ; a++) FOR_EACH_PLACE(p, plan, a, place, number)
        {
            uint32_t bits;
            memcpy(&bits, &p->numbers[a][number], sizeof bits);
            const uint16_t upper = (uint16_t)(bits >> 16);
            memcpy(block + place * each, each == 2 ? (const void *)&upper : &bits, each);
        }
    return block;
}

/* Copies the results from the block after a call; all other elements must equal `before`. */
static void allocate_block(const char *what, const problem *p, const placement *plan, const unsigned char *before,
                           unsigned char *after, bool gradients, results *out)
{
    const size_t each = bytes_of(p->type, 1);
    for (int a = READ; a < (gradients ? ARRAYS : OUT + 1); a++) {
        out->numbers[a] = calloc(p->rows[a] * p->heads[a] * p->width[a] + 1, sizeof(float));
        FOR_EACH_PLACE(p, plan, a, place, number)
        {
            uint32_t bits = 0;
            memcpy((char *)&bits + 4 - each, after + place * each, each);
            memcpy(&out->numbers[a][number], &bits, sizeof bits);
            memset(after + place * each, 0xFF, each);
        }
    }
    for (size_t i = 0; i < plan->total * each; i++)
        if (before[i] != after[i]) fail_msg("%s: number %zu of the arrays was written", what, i / each);
}

static void set_parameters(const problem *p, bo_gpu_attention *call, float **d)
{
    for (size_t i = 0; i < p->parameter_count; i++) {
        const parameter *of = &p->parameters[i];
        const float *at = on_device(of->numbers, of->count * sizeof *of->numbers);
        d[i] = on_device(NULL, of->count * sizeof *of->numbers);
        if (of->bit == BO_ATTENTION_GIVEN_SIGMA) call->sigma = at, call->dsigma = d[i];
        if (of->bit == BO_ATTENTION_GIVEN_M) call->m = at, call->dm = d[i];
        if (of->bit == BO_ATTENTION_GIVEN_M_K) call->m_k = at, call->dm_k = d[i];
        if (of->bit == BO_ATTENTION_GIVEN_BIAS) call->bias = at, call->dbias = d[i];
        if (of->bit == BO_ATTENTION_GIVEN_MIX) call->mix = at, call->dmix = d[i];
    }
}

static void drop_parameters(bo_gpu_attention *call)
{
    const float *const all[] = {call->sigma, call->dsigma, call->m,     call->dm,  call->m_k,
                                call->dm_k,  call->bias,   call->dbias, call->mix, call->dmix};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) release(all[i]);
}

static void set_arrays(const problem *p, const placement *plan, char *at, bool gradients, bo_gpu_attention *call)
{
    void *all[ARRAYS];
    const bo_gpu_strides *by = plan->by;
    for (int i = 0; i < ARRAYS; i++) all[i] = p->width[i] ? at + bytes_of(p->type, plan->at[i]) : NULL;
    call->q = all[Q], call->k = all[K], call->v = all[V], call->out = all[OUT];
    call->log_gate = all[LOG_GATE], call->beta = all[BETA];
    call->strides = (bo_gpu_attention_strides){.q = by[Q],
                                               .k = by[K],
                                               .v = by[V],
                                               .out = by[OUT],
                                               .log_gate = by[LOG_GATE],
                                               .beta = by[BETA],
                                               .dout = by[DOUT],
                                               .dq = by[DQ],
                                               .dk = by[DK],
                                               .dv = by[DV],
                                               .dlog_gate = by[DLOG_GATE],
                                               .dbeta = by[DBETA]};
    if (!gradients) return;
    call->dout = all[DOUT], call->dq = all[DQ], call->dk = all[DK], call->dv = all[DV];
    call->dlog_gate = all[DLOG_GATE], call->dbeta = all[DBETA];
}

/* Forward and backward; with states, forward only. */
static results run(const char *what, const problem *p, arrangement layout, void *const *states)
{
    const placement plan = plan_make(p, layout);
    const bool gradients = !states;
    const size_t bytes = bytes_of(p->type, plan.total);
    bo_gpu_attention call = bo_gpu_attention_of(device, p->attention, p->cross);
    unsigned char *before = fill_block(p, &plan), *after = malloc(bytes);
    void *block = on_device(before, bytes);
    float *d[PARAMETERS];
    results out = {0};
    call.type = p->type, call.given = p->given, call.requested = gradients ? p->given : 0;
    call.reads_first = p->cross && bo_attention_describe(p->attention)->causal;
    call.keeps = gradients, call.continues = states, call.states = states;
    call.queries = device_rows(p, false), call.keys = p->cross ? device_rows(p, true) : call.queries;
    set_arrays(p, &plan, block, gradients, &call);
    if (layout == WHOLE) { /* the default strides of calls */
        const bo_gpu_attention_strides defaults = bo_gpu_attention_of(device, p->attention, p->cross).strides;
        assert_memory_equal(&call.strides.q, &defaults.q, sizeof defaults.q);
        assert_memory_equal(&call.strides.v, &defaults.v, sizeof defaults.v);
        assert_memory_equal(&call.strides.dk, &defaults.dk, sizeof defaults.dk);
        assert_memory_equal(&call.strides.dout, &defaults.dout, sizeof defaults.dout);
        if (p->width[LOG_GATE])
            assert_memory_equal(&call.strides.log_gate, &defaults.log_gate, sizeof defaults.log_gate);
    }
    call.unaligned = layout == ODD;
    set_parameters(p, &call, d);
    assert_ok(device, bo_gpu_attention_check(device, p->attention, call.reads_first));
    assert_ok(device, bo_gpu_attention_prepare(device, p->attention));
    if (gradients) call.saved = on_device(NULL, bo_gpu_attention_saved_bytes(p->attention, &call));
    call.scratch = on_device(NULL, bo_gpu_attention_scratch_bytes(p->attention, &call, false));
    assert_ok(device, bo_gpu_attention_forward(device, p->attention, &call));
    assert_ok(device, bo_device_wait(device, bo_device_of(device)));
    release(call.scratch);
    if (gradients) {
        call.scratch = on_device(NULL, bo_gpu_attention_scratch_bytes(p->attention, &call, true));
        assert_ok(device, bo_gpu_attention_backward(device, p->attention, &call));
        assert_ok(device, bo_device_wait(device, bo_device_of(device)));
        release(call.scratch);
    }
    from_device(after, block, bytes);
    allocate_block(what, p, &plan, before, after, gradients, &out);
    for (size_t i = 0; gradients && i < p->parameter_count; i++) {
        out.parameters[i] = malloc(p->parameters[i].count * sizeof(float));
        from_device(out.parameters[i], d[i], p->parameters[i].count * sizeof(float));
    }
    drop_parameters(&call);
    release(call.saved), release(block), release(call.queries.starts);
    if (p->cross) release(call.keys.starts);
    free(before), free(after);
    return out;
}

static void results_drop(results *r)
{
    for (int i = 0; i < ARRAYS; i++) free(r->numbers[i]);
    for (int i = 0; i < PARAMETERS; i++) free(r->parameters[i]);
}

/* ---- comparison -------------------------------------------------------------------------------------------------- */

/* tolerance 0: bitwise equal. */
static void assert_same(const char *what, const char *name, size_t count, const float *found, const float *expected,
                        double tolerance)
{
    double difference = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        const double d = (double)found[i] - (double)expected[i];
        difference += d * d, size += (double)expected[i] * (double)expected[i];
    }
    if (!(sqrt(difference) <= tolerance * sqrt(size)))
        fail_msg("%s: %s differ by %.3g of their norm, expected at most %.3g", what, name, sqrt(difference / size),
                 tolerance);
}

static void compare(const char *what, const problem *p, const results *found, const results *expected, double tolerance,
                    double of_parameters)
{
    for (int a = READ; a < ARRAYS; a++)
        if (expected->numbers[a])
            assert_same(what, names[a], p->rows[a] * p->heads[a] * p->width[a], found->numbers[a], expected->numbers[a],
                        tolerance);
    for (size_t i = 0; i < p->parameter_count; i++)
        if (expected->parameters[i])
            assert_same(what, "gradients of parameters", p->parameters[i].count, found->parameters[i],
                        expected->parameters[i], of_parameters);
}

/* ---- trials ------------------------------------------------------------------------------------------------------ */

static const trial trials[] = {
    {.name = "softmax", .preset = "softmax", .heads = 4, .key_heads = 2, .tensor_cores = true},
    {.name = "softmax, larger heads",
     .preset = "softmax",
     .heads = 2,
     .key_heads = 1,
     .dim = 72,
     .value_dim = 104,
     .tensor_cores = true},
    {.name = "softmax, any sizes", .preset = "softmax", .heads = 2, .key_heads = 2, .dim = 5, .value_dim = 130},
    {.name = "softmax, cross",
     .preset = "softmax",
     .heads = 2,
     .key_heads = 1,
     .everywhere = true,
     .cross = true,
     .tensor_cores = true},
    {.name = "power", .preset = "power", .heads = 2, .key_heads = 1, .dim = 24, .value_dim = 40},
    {.name = "favor, decay",
     .preset = "favor",
     .heads = 4,
     .key_heads = 2,
     .features = 64,
     .gate = BO_GATE_DECAY,
     .tensor_cores = true},
    {.name = "favor, other sizes, convex",
     .preset = "favor",
     .heads = 2,
     .key_heads = 1,
     .features = 24,
     .dim = 16,
     .value_dim = 21,
     .gate = BO_GATE_CONVEX},
    {.name = "favor, cross",
     .preset = "favor",
     .heads = 2,
     .key_heads = 1,
     .features = 64,
     .everywhere = true,
     .cross = true,
     .tensor_cores = true},
    {.name = "rfa", .preset = "rfa", .heads = 2, .key_heads = 2, .features = 128, .tensor_cores = true},
    {.name = "dark", .preset = "dark", .heads = 2, .key_heads = 2, .features = 128, .tensor_cores = true},
    {.name = "t2r", .preset = "t2r", .heads = 2, .key_heads = 1, .features = 64, .tensor_cores = true},
    {.name = "hedgehog",
     .preset = "hedgehog",
     .heads = 2,
     .key_heads = 1,
     .features = 32,
     .dim = 16,
     .value_dim = 8,
     .tensor_cores = true},
    {.name = "dark, other sizes",
     .preset = "dark",
     .heads = 4,
     .key_heads = 2,
     .features = 48,
     .dim = 40,
     .value_dim = 72,
     .tensor_cores = true},
    {.name = "hybrid",
     .preset = "hybrid",
     .heads = 2,
     .key_heads = 1,
     .features = 32,
     .dim = 20,
     .value_dim = 12,
     .window = 9,
     .gate = BO_GATE_CONVEX},
    {.name = "hybrid on tensor cores",
     .preset = "hybrid",
     .heads = 2,
     .key_heads = 2,
     .features = 64,
     .window = 9,
     .gate = BO_GATE_DECAY,
     .tensor_cores = true},
    {.name = "hybrid with a matrix",
     .preset = "hybrid",
     .heads = 2,
     .key_heads = 1,
     .features = 64,
     .window = 16,
     .rank = 64,
     .tensor_cores = true},
    {.name = "gated delta", .preset = "gated-delta", .heads = 4, .key_heads = 2, .dim = 32, .value_dim = 48},
    {.name = "delta, cross", .preset = "delta", .heads = 2, .key_heads = 1, .dim = 24, .value_dim = 9, .cross = true},
    {.name = "gla", .preset = "gla", .heads = 4, .key_heads = 2, .dim = 32, .value_dim = 24},
    {.name = "gla, cross", .preset = "gla", .heads = 2, .key_heads = 1, .dim = 16, .value_dim = 24, .cross = true},
};
enum { TRIALS = sizeof trials / sizeof *trials };

static const bo_element types[] = {BO_ELEMENT_FLOAT32, BO_ELEMENT_BFLOAT16};

/* Arrays at odd addresses do not use tensor-core kernels; both differ from the CPU by at most 2e-2 (trials.h). */
static double tolerance_of(const trial *t, bo_element type, arrangement layout)
{
    return layout == ODD && type == BO_ELEMENT_BFLOAT16 && t->tensor_cores ? 4e-2 : 0;
}

static void run_trial(const trial *t, const shape *s, bo_element type)
{
    problem p = problem_make(t, s, type);
    const char *kind = type == BO_ELEMENT_FLOAT32 ? "float32" : "bfloat16";
    results expected = run(t->name, &p, WHOLE, NULL);
    for (int l = PACKED; l <= ODD; l++) {
        char what[128];
        const double tolerance = tolerance_of(t, type, (arrangement)l);
        if (l == HEADS_FIRST && !s->tokens) continue;
        snprintf(what, sizeof what, "%s, %s, %s, %s", t->name, kind, layouts[l],
                 s->tokens ? "equal lengths" : "several lengths");
        results found = run(what, &p, (arrangement)l, NULL);
        /* the sums over rows of dM have another order if chunks end with sequences */
        compare(what, &p, &found, &expected, tolerance, l == HEADS_FIRST ? 1e-6 : tolerance);
        results_drop(&found);
    }
    results_drop(&expected);
    problem_drop(&p);
}

static void layouts_agree(const shape *s, bo_element type)
{
    for (size_t i = 0; i < TRIALS; i++) run_trial(&trials[i], s, type);
}

static void equal_lengths_in_float32(void **state)
{
    (void)state;
    layouts_agree(&equal, BO_ELEMENT_FLOAT32);
}

static void equal_lengths_in_bfloat16(void **state)
{
    (void)state;
    layouts_agree(&equal, BO_ELEMENT_BFLOAT16);
}

static void several_lengths_in_float32(void **state)
{
    (void)state;
    layouts_agree(&ragged, BO_ELEMENT_FLOAT32);
}

static void several_lengths_in_bfloat16(void **state)
{
    (void)state;
    layouts_agree(&ragged, BO_ELEMENT_BFLOAT16);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

/* States of both sequences on the device, and their addresses there. */
typedef struct device_states {
    void *each[MAX_SEQUENCES], **all;
} device_states;

static device_states states_make(const bo_attention *attention, size_t count)
{
    device_states out = {0};
    const size_t bytes = bo_attention_state_bytes(attention);
    void *empty = malloc(bytes);
    assert_ok(host, bo_attention_state_init(host, attention, empty));
    for (size_t i = 0; i < count; i++) out.each[i] = on_device(empty, bytes);
    out.all = on_device(out.each, count * sizeof *out.each);
    free(empty);
    return out;
}

static void states_drop(device_states *states)
{
    for (size_t i = 0; i < MAX_SEQUENCES; i++) release(states->each[i]);
    release((void *)states->all);
}

/* Many tokens, then two, then one: chunks, and the kernels of steps. */
static void continue_trial(const trial *t, bo_element type)
{
    static const shape parts[] = {
        {.sequences = 2, .tokens = 37}, {.sequences = 2, .tokens = 2}, {.sequences = 2, .tokens = 1}};
    enum { PARTS = sizeof parts / sizeof *parts };
    results expected[PARTS];
    for (int l = WHOLE; l <= ODD; l++) {
        device_states states;
        for (size_t i = 0; i < PARTS; i++) {
            char what[128];
            problem p = problem_make(t, &parts[i], type);
            if (i == 0) states = states_make(p.attention, 2);
            snprintf(what, sizeof what, "%s, %s, part %zu", t->name, layouts[l], i);
            results found = run(what, &p, (arrangement)l, states.all);
            if (l == WHOLE)
                expected[i] = found;
            else
                compare(what, &p, &found, &expected[i], tolerance_of(t, type, (arrangement)l), 0);
            if (l != WHOLE) results_drop(&found);
            problem_drop(&p);
        }
        states_drop(&states);
    }
    for (size_t i = 0; i < PARTS; i++) results_drop(&expected[i]);
}

static void states_continue(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * TRIALS; i++)
        if (!trials[i / 2].cross) continue_trial(&trials[i / 2], types[i % 2]);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

/* A call of softmax attention in bfloat16 whose arrays are all at `at`: forward only. */
static bo_gpu_attention small_call(const problem *p, void *at)
{
    bo_gpu_attention call = bo_gpu_attention_of(device, p->attention, false);
    call.type = p->type, call.given = p->given;
    call.queries = call.keys = device_rows(p, false);
    call.q = call.k = call.v = call.out = at;
    return call;
}

static void arrays_are_refused(void **state)
{
    (void)state;
    problem p = problem_make(&trials[0], &ragged, BO_ELEMENT_BFLOAT16);
    void *at = on_device(NULL, 1 << 20);
    bo_gpu_attention call = small_call(&p, at);
    call.v = (char *)at + 2;
    assert_int_equal(bo_gpu_attention_forward(device, p.attention, &call), BO_INVALID);
    assert_non_null(strstr(bo_context_error(device), "the address of v must be a multiple of 16 bytes"));
    call.v = at, call.dq = at, call.strides.dq.head = 65;
    assert_int_equal(bo_gpu_attention_backward(device, p.attention, &call), BO_INVALID);
    assert_non_null(
        strstr(bo_context_error(device), "the strides of the gradient of q must be multiples of 8 numbers"));
    call.dq = NULL, call.strides.k.sequence = 8;
    assert_int_equal(bo_gpu_attention_forward(device, p.attention, &call), BO_INVALID);
    assert_non_null(strstr(bo_context_error(device), "k has heads before tokens"));
    release(call.queries.starts), release(at);
    problem_drop(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_lengths_in_float32),
                                       cmocka_unit_test(equal_lengths_in_bfloat16),
                                       cmocka_unit_test(several_lengths_in_float32),
                                       cmocka_unit_test(several_lengths_in_bfloat16),
                                       cmocka_unit_test(states_continue),
                                       cmocka_unit_test(arrays_are_refused)};
    host = test_context(2), device = test_context(1);
    if (bo_context_use_device(device, "cuda") != BO_OK) {
        print_message("skipped: %s\n", bo_context_error(device));
        return 77;
    }
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    bo_context_destroy(device);
    bo_context_destroy(host);
    return failures;
}
