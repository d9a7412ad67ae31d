/* Attention on a device in bfloat16, compared with the CPU on the same rounded inputs. */
#ifndef BO_TEST_CUDA_TRIALS_H
#define BO_TEST_CUDA_TRIALS_H

#include <bochner/devices.h>
#include "testing.h"
#include "attention/attention.h"
#include "backend/backend.h"
#include "base/rng.h"

enum { MAX_SEQUENCES = 4, MAX_INPUTS = 8, LAYERS = 1 };

static bo_context *host, *device;

typedef struct trial {
    const char *name, *preset;
    size_t heads, key_heads, features;
    size_t sequences, lengths[MAX_SEQUENCES];
    bool everywhere; /* not causal */
    bo_function function;
    bo_gate gate;
    size_t dim, value_dim;          /* 0: 64 */
    size_t window, rank;            /* HYBRID; window 0: the default, rank 0: no M */
    bool one_side;                  /* learned maps: queries and keys share W and b */
    double log_gate, log_gate_size; /* the mean log gate and its standard deviation; 0: -0.3, 0.2 */
} trial;

/* The operands of a call on the host: q, k, v, then the inputs of `given`. */
typedef struct operands {
    bo_attention_attributes attributes;
    size_t inputs, rows[MAX_INPUTS], columns[MAX_INPUTS], out_rows, out_columns;
    bool parameter[MAX_INPUTS];
    float *in[MAX_INPUTS], *d[MAX_INPUTS], *out, *dout;
} operands;

/* ---- operands ---------------------------------------------------------------------------------------------------- */

static inline float *floats(size_t count)
{
    return aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64 + 64);
}

/* Values that are exact in bfloat16. */
static inline float *random_floats(size_t count, uint64_t seed, double low, double size)
{
    float *x = floats(count);
    uint16_t *rounded = malloc(count * sizeof *rounded + 1);
    bo_rng rng = bo_rng_make(seed, 7);
    for (size_t i = 0; i < count; i++) x[i] = (float)(low + size * bo_rng_normal(&rng));
    for (size_t i = 0; low < 0 && i < count; i++) x[i] = fminf(x[i], -0.001f);
    assert_ok(host, bo_backend_cpu()->narrow(host, BO_ELEMENT_BFLOAT16, 1, count, x, rounded));
    assert_ok(host, bo_backend_cpu()->widen(host, BO_ELEMENT_BFLOAT16, 1, count, rounded, x));
    free(rounded);
    return x;
}

static inline void add_input(operands *o, size_t rows, size_t columns, bool parameter, double low, double size)
{
    const size_t i = o->inputs++;
    o->rows[i] = rows, o->columns[i] = columns, o->parameter[i] = parameter;
    o->in[i] = random_floats(rows * columns, 11 + i, low, size);
    o->d[i] = floats(rows * columns);
}

static inline void add_parameter(operands *o, unsigned given, size_t count, double size)
{
    o->attributes.given |= given;
    add_input(o, 1, count, true, 0, size);
}

static inline bo_attention *make_attention(const trial *t)
{
    const size_t dim = t->dim ? t->dim : 64;
    bo_attention_desc desc = {.heads = t->heads,
                              .key_heads = t->key_heads,
                              .dim = dim,
                              .value_dim = t->value_dim ? t->value_dim : 64,
                              .causal = !t->everywhere,
                              .features = {.features = t->features, .seed = 3}};
    bo_attention *attention;
    assert_true(bo_attention_preset(t->preset, &desc));
    if (t->function) desc.features.function = t->function;
    if (t->gate) desc.gate = t->gate;
    if (t->window) desc.window = t->window;
    if (t->rank) desc.rank = t->rank;
    assert_ok(host, bo_attention_create(host, &desc, &attention));
    return attention;
}

static inline operands operands_make(const trial *t, bo_attention *attention)
{
    const bo_attention_desc *d = bo_attention_describe(attention);
    size_t rows = 0;
    for (size_t s = 0; s < t->sequences; s++) rows += t->lengths[s];
    operands o = {.attributes = {.attention = attention, .max_sequences = t->sequences}};
    add_input(&o, rows, d->heads * d->dim, false, 0, 1);
    add_input(&o, rows, d->key_heads * d->dim, false, 0, 1);
    add_input(&o, rows, d->key_heads * d->value_dim, false, 0, 1);
    if (bo_gate_width(d)) {
        o.attributes.given |= BO_ATTENTION_GIVEN_LOG_GATE;
        add_input(&o, rows, d->key_heads * bo_gate_width(d), false, t->log_gate != 0 ? t->log_gate : -0.3,
                  t->log_gate != 0 ? t->log_gate_size : 0.2);
    }
    if (d->kind == BO_ATTENTION_RFA) {
        o.attributes.given |= BO_ATTENTION_GIVEN_SIGMA;
        add_input(&o, 1, d->key_heads * d->dim, true, 1, 0.1);
    }
    const size_t matrix = d->key_heads * d->rank * d->dim, width = d->key_heads * d->rank;
    const bool affine = d->kind == BO_ATTENTION_LEARNED, both = affine && !t->one_side;
    if (d->rank) add_parameter(&o, BO_ATTENTION_GIVEN_M, matrix, 0.1);
    if (both) add_parameter(&o, BO_ATTENTION_GIVEN_M_K, matrix, 0.1);
    if (affine) add_parameter(&o, BO_ATTENTION_GIVEN_BIAS, width, 0.3);
    if (both) add_parameter(&o, BO_ATTENTION_GIVEN_BIAS_K, width, 0.3);
    if (d->kind == BO_ATTENTION_HYBRID) {
        o.attributes.given |= BO_ATTENTION_GIVEN_MIX;
        add_input(&o, 1, d->heads, true, 1, 0.1);
    }
    if (d->kind == BO_ATTENTION_DELTA) {
        o.attributes.given |= BO_ATTENTION_GIVEN_BETA;
        add_input(&o, rows, d->key_heads, false, 0.5, 0.1);
    }
    o.out_rows = rows, o.out_columns = d->heads * d->value_dim;
    o.out = floats(rows * o.out_columns);
    o.dout = random_floats(rows * o.out_columns, 5, 0, 1);
    return o;
}

static inline void operands_drop(operands *o)
{
    for (size_t i = 0; i < o->inputs; i++) free(o->in[i]), free(o->d[i]);
    free(o->out);
    free(o->dout);
}

/* ---- one call on either backend ---------------------------------------------------------------------------------- */

static inline size_t bytes_of(bo_element element, size_t count)
{
    return count * (element == BO_ELEMENT_BFLOAT16 ? 2 : 4);
}

static inline void *upload(bo_context *context, bo_element element, const float *x, size_t count)
{
    bo_device *target = bo_device_of(context);
    void *at = bo_buffer_allocate(context, target, bytes_of(element, count) + 64, "an operand");
    void *buffer = malloc(bytes_of(element, count) + 1);
    assert_non_null(at);
    memcpy(buffer, x, element == BO_ELEMENT_FLOAT32 ? bytes_of(element, count) : 0);
    if (element == BO_ELEMENT_BFLOAT16) assert_ok(host, bo_backend_cpu()->narrow(host, element, 1, count, x, buffer));
    assert_ok(context, bo_buffer_write(context, target, at, buffer, bytes_of(element, count)));
    free(buffer);
    return at;
}

static inline void download(bo_context *context, bo_element element, float *x, void *from, size_t count)
{
    bo_device *target = bo_device_of(context);
    void *buffer = malloc(bytes_of(element, count) + 1);
    assert_ok(context, bo_buffer_read(context, target, buffer, from, bytes_of(element, count)));
    memcpy(x, buffer, element == BO_ELEMENT_FLOAT32 ? bytes_of(element, count) : 0);
    if (element == BO_ELEMENT_BFLOAT16) assert_ok(host, bo_backend_cpu()->widen(host, element, 1, count, buffer, x));
    free(buffer);
    bo_buffer_release(target, from);
}

typedef bo_status (*direction)(bo_context *context, const bo_op_call *call);

/* Allocates the workspace and saved memory of the call, and runs it. */
static inline void submit(bo_context *context, bo_op_call *call, bool gradients, direction go)
{
    bo_device *target = bo_device_of(context);
    const bo_op *op = bo_backend_of(target)->ops[BO_OPERATION_ATTENTION];
    size_t saved, scratch;
    bool moved;
    bo_staged *staged = NULL;
    assert_ok(context, op->sizes(context, call, gradients, &saved, &scratch));
    if (gradients && !call->saved) call->saved = bo_buffer_allocate(context, target, saved + 64, "saved");
    call->scratch = bo_buffer_allocate(context, target, scratch + 64, "scratch");
    if (bo_device_is_gpu(target))
        assert_ok(context, bo_backend_of(target)->stage(context, call->pass, LAYERS, 0, &staged, &moved));
    call->staged = staged;
    if (op->prepare) assert_ok(context, op->prepare(context, call));
    assert_ok(context, go(context, call));
    if (bo_device_is_gpu(target)) assert_ok(context, bo_device_wait(context, target));
    if (bo_device_is_gpu(target)) bo_backend_of(target)->unstage(staged);
    bo_buffer_release(target, call->scratch);
}

static inline void run(bo_context *context, const operands *o, const bo_graph_pass *pass, bool gradients)
{
    bo_device *target = bo_device_of(context);
    const bo_op *op = bo_backend_of(target)->ops[BO_OPERATION_ATTENTION];
    const bo_element buffer = context == device ? BO_ELEMENT_BFLOAT16 : BO_ELEMENT_FLOAT32;
    const size_t outs = o->out_rows * o->out_columns;
    bo_op_call call = {.attributes = &o->attributes, .inputs = o->inputs, .outputs = 1, .pass = pass};
    for (size_t i = 0; i < o->inputs; i++) {
        const bo_element element = o->parameter[i] ? BO_ELEMENT_FLOAT32 : buffer;
        call.in[i] = (bo_tensor){.element = BO_ELEMENT_FLOAT32, .rows = o->rows[i], .columns = o->columns[i]};
        call.in[i].data = upload(context, element, o->in[i], o->rows[i] * o->columns[i]);
    }
    assert_ok(context, op->shape(context, &call));
    for (size_t i = 0; i < o->inputs; i++) call.in[i].element = o->parameter[i] ? BO_ELEMENT_FLOAT32 : buffer;
    call.out[0].element = buffer;
    call.out[0].data = upload(context, buffer, o->dout, outs);
    submit(context, &call, gradients, op->forward);
    if (gradients) {
        call.dout[0] = upload(context, buffer, o->dout, outs);
        for (size_t i = 0; i < o->inputs; i++)
            call.din[i] = upload(context, call.in[i].element, o->in[i], o->rows[i] * o->columns[i]);
        submit(context, &call, true, op->backward);
        for (size_t i = 0; i < o->inputs; i++)
            download(context, call.in[i].element, o->d[i], call.din[i], o->rows[i] * o->columns[i]);
        bo_buffer_release(target, (void *)call.dout[0]);
        bo_buffer_release(target, call.saved);
    }
    download(context, buffer, o->out, call.out[0].data, outs);
    for (size_t i = 0; i < o->inputs; i++) bo_buffer_release(target, call.in[i].data);
}

/* ---- comparison -------------------------------------------------------------------------------------------------- */

static inline void assert_near(const char *name, const char *what, size_t count, const float *found,
                               const float *expected, double tolerance)
{
    double difference = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        const double d = (double)found[i] - (double)expected[i];
        difference += d * d, size += (double)expected[i] * (double)expected[i];
    }
    if (getenv("BOCHNER_TEST_VERBOSE")) print_message("%s: %s: %.2e\n", name, what, sqrt(difference / size));
    if (!(sqrt(difference) <= tolerance * sqrt(size)))
        fail_msg("%s: %s differ by %.3g of their norm, expected at most %.3g", name, what, sqrt(difference / size),
                 tolerance);
}

/* Rows [first, first + rows) of all operands, without a copy. */
static inline operands part_of(const operands *o, size_t first, size_t rows)
{
    operands part = *o;
    for (size_t i = 0; i < o->inputs; i++)
        if (!o->parameter[i]) part.in[i] += first * o->columns[i], part.rows[i] = rows;
    part.out += first * o->out_columns, part.out_rows = rows;
    return part;
}

/* ---- trials ------------------------------------------------------------------------------------------------------ */

/* HYBRID: writes the gradient of mix in float64 to the last gradient. In float32 it is the difference of sums that are
 * nearly equal if the past has little weight. */
static inline void find_mix_gradient(const trial *t, const operands *o)
{
    const bo_attention *attention = o->attributes.attention;
    const size_t heads = o->columns[o->inputs - 1], outs = o->out_rows * o->out_columns;
    double *x[MAX_INPUTS], *dout = malloc(outs * sizeof *dout), *dmix = malloc(heads * sizeof *dmix);
    for (size_t i = 0; i < o->inputs; i++) {
        x[i] = malloc(o->rows[i] * o->columns[i] * sizeof *x[i]);
        for (size_t j = 0; j < o->rows[i] * o->columns[i]; j++) x[i][j] = o->in[i][j];
    }
    for (size_t j = 0; j < outs; j++) dout[j] = o->dout[j];
    const bo_attention_shape shape = {
        .sequences = t->sequences, .lengths = t->lengths, .layout = BO_LAYOUT_TOKENS_FIRST};
    bo_attention_inputs_f64 in = {.q = x[0], .k = x[1], .v = x[2], .mix = x[o->inputs - 1]};
    size_t next = 3;
    if (o->attributes.given & BO_ATTENTION_GIVEN_LOG_GATE) in.log_gate = x[next++];
    if (o->attributes.given & BO_ATTENTION_GIVEN_M) in.m = x[next++];
    assert_int_equal(next, o->inputs - 1);
    const bo_attention_gradients_f64 out = {.mix = dmix};
    assert_ok(host, bo_attention_backward_f64(host, attention, &shape, &in, dout, &out));
    for (size_t h = 0; h < heads; h++) o->d[o->inputs - 1][h] = (float)dmix[h];
    for (size_t i = 0; i < o->inputs; i++) free(x[i]);
    free(dout), free(dmix);
}

/* Compares outputs and gradients with the CPU, the gradient of mix with the reference implementation. */
static inline void trial_compare(const trial *t)
{
    static const char *const names[MAX_INPUTS] = {"gradients of q", "gradients of k", "gradients of v"};
    bo_attention *attention = make_attention(t);
    operands expected = operands_make(t, attention), found = operands_make(t, attention);
    const bo_graph_pass pass = {.sequences = t->sequences, .lengths = t->lengths};
    run(host, &expected, &pass, true);
    if (bo_attention_describe(attention)->kind == BO_ATTENTION_HYBRID) find_mix_gradient(t, &expected);
    run(device, &found, &pass, false);
    assert_near(t->name, "outputs", found.out_rows * found.out_columns, found.out, expected.out, 1e-2);
    run(device, &found, &pass, true);
    assert_near(t->name, "outputs", found.out_rows * found.out_columns, found.out, expected.out, 1e-2);
    for (size_t k = 0; k < found.inputs; k++)
        assert_near(t->name, names[k] ? names[k] : "other gradients", found.rows[k] * found.columns[k], found.d[k],
                    expected.d[k], 2e-2);
    operands_drop(&expected);
    operands_drop(&found);
    bo_attention_destroy(attention);
}

/* A changed token does not change a bit of earlier outputs. */
static inline void trial_change_later(trial t)
{
    enum { CHANGED = 170 };
    t.sequences = 1, t.lengths[0] = 200;
    bo_attention *attention = make_attention(&t);
    operands one = operands_make(&t, attention), other = operands_make(&t, attention);
    const bo_graph_pass pass = {.sequences = 1, .lengths = t.lengths};
    for (size_t k = 0; k < other.inputs; k++)
        for (size_t c = 0; other.rows[k] > 1 && c < other.columns[k]; c++)
            other.in[k][CHANGED * other.columns[k] + c] *= 4;
    run(device, &one, &pass, false);
    run(device, &other, &pass, false);
    assert_memory_equal(one.out, other.out, CHANGED * one.out_columns * sizeof *one.out);
    assert_memory_not_equal(one.out + CHANGED * one.out_columns, other.out + CHANGED * one.out_columns,
                            one.out_columns * sizeof *one.out);
    operands_drop(&one);
    operands_drop(&other);
    bo_attention_destroy(attention);
}

/* A sequence in parts, through a state on the device: many tokens, then one by one. */
static inline void trial_continue(trial t)
{
    static const size_t parts[] = {100, 70, 1, 1, 1};
    t.sequences = 1, t.lengths[0] = 173;
    bo_attention *attention = make_attention(&t);
    operands expected = operands_make(&t, attention), found = operands_make(&t, attention);
    const bo_graph_pass pass = {.sequences = 1, .lengths = t.lengths};
    run(host, &expected, &pass, false);
    const size_t bytes = bo_attention_state_bytes(attention);
    void *empty = malloc(bytes), *buffer = bo_buffer_allocate(device, bo_device_of(device), bytes, "a state");
    assert_ok(host, bo_attention_state_init(host, attention, empty));
    assert_ok(device, bo_buffer_write(device, bo_device_of(device), buffer, empty, bytes));
    for (size_t p = 0, first = 0; p < sizeof parts / sizeof *parts; first += parts[p++]) {
        operands part = part_of(&found, first, parts[p]);
        const bo_graph_pass next = {.sequences = 1, .lengths = &parts[p], .states = &buffer};
        run(device, &part, &next, false);
    }
    assert_near(t.name, "outputs in parts", found.out_rows * found.out_columns, found.out, expected.out, 1e-2);
    assert_ok(device, bo_buffer_read(device, bo_device_of(device), empty, buffer, bytes));
    assert_ok(host, bo_attention_state_check(host, attention, empty));
    assert_int_equal(bo_attention_state_tokens(empty), 173);
    bo_buffer_release(bo_device_of(device), buffer);
    free(empty);
    operands_drop(&expected);
    operands_drop(&found);
    bo_attention_destroy(attention);
}

/* False: there is no device. */
static inline bool trials_begin(void)
{
    host = test_context(2), device = test_context(1);
    if (bo_context_use_device(device, "cuda") == BO_OK) return true;
    print_message("skipped: %s\n", bo_context_error(device));
    return false;
}

static inline void trials_end(void)
{
    bo_context_destroy(device);
    bo_context_destroy(host);
}

#endif
