/* Attention across streams, every preset with a causal mask and, if the kind supports it, without: queries of states
 * that have read a source equal one whole call, with one or several rows per sequence, and with several rows per state;
 * queries do not change states. */
#include <bochner/names.h>
#include "calls.h"
#include "cases_attention.h"

enum { SEQUENCES = 3, LAYER = 1, LAYERS = 2 };
static const size_t queries[SEQUENCES] = {4, 1, 3}, keys[SEQUENCES] = {9, 0, 40}, ones[SEQUENCES] = {1, 1, 1};

/* Rows of the stream and of the source, and states that have read the source. */
typedef struct subject {
    trial t;
    bo_attention_attributes attributes;
    void *states[LAYERS * SEQUENCES];
    size_t bytes;
} subject;

static bool subject_make(bo_context *context, const char *preset, bool causal, subject *s)
{
    bo_attention_desc shape = {.heads = 4, .key_heads = 2, .dim = 6, .value_dim = 5};
    trial_desc desc = {.name = preset,
                       .attention = attention_preset(context, preset, shape),
                       .shape = {SEQUENCES, .lengths = queries, .key_lengths = keys, .layout = BO_LAYOUT_TOKENS_FIRST},
                       .across = true};
    bo_attention *possible = NULL;
    desc.attention.causal = causal;
    if (!causal) desc.attention.window = 0;
    if (bo_attention_create(context, &desc.attention, &possible) != BO_OK) return false;
    bo_attention_destroy(possible);
    *s = (subject){.t = trial_make(context, &desc)};
    s->attributes = (bo_attention_attributes){.attention = s->t.attention,
                                              .given = attention_bits(&s->t),
                                              .layer = LAYER,
                                              .max_sequences = SEQUENCES,
                                              .cross = true};
    s->bytes = bo_attention_state_bytes(s->t.attention);
    for (size_t i = 0; i < SEQUENCES; i++) s->states[LAYER * SEQUENCES + i] = test_allocate(s->bytes);
    return true;
}

static void subject_drop(subject *s)
{
    for (size_t i = 0; i < SEQUENCES; i++) test_leave(s->states[LAYER * SEQUENCES + i]);
    trial_drop(&s->t);
}

/* Adds an array with one row per key, or a parameter. */
static void add_input(test_call *c, const trial *t, trial_array which, size_t rows)
{
    if (t->count[which]) test_input(c, t->array[which], BO_ELEMENT_FLOAT32, rows, t->count[which] / rows);
}

/* Some rows of queries; without keys only with parameters. */
static test_call call_of(const subject *s, const bo_attention_attributes *attributes, const bo_graph_pass *pass,
                         float *q, size_t rows)
{
    const trial *t = &s->t;
    test_call c = test_begin(BO_OPERATION_ATTENTION, attributes);
    c.call.pass = pass;
    test_input(&c, q, BO_ELEMENT_FLOAT32, rows, t->d->heads * t->d->dim);
    if (!attributes->queries_only) add_input(&c, t, K, t->keys_total), add_input(&c, t, V, t->keys_total);
    for (size_t i = 0; i < ATTENTION_GIVEN; i++) {
        bool of_keys = attention_given[i] == LOG_GATE || attention_given[i] == BETA;
        if (!of_keys || !attributes->queries_only) add_input(&c, t, attention_given[i], of_keys ? t->keys_total : 1);
    }
    return c;
}

static bo_attention_attributes querying(const subject *s)
{
    bo_attention_attributes a = s->attributes;
    a.queries_only = true;
    a.given &= ~(unsigned)(BO_ATTENTION_GIVEN_LOG_GATE | BO_ATTENTION_GIVEN_BETA);
    return a;
}

static bo_graph_pass pass_of(const subject *s, const size_t *lengths)
{
    return (bo_graph_pass){.sequences = SEQUENCES, .lengths = lengths, .source_lengths = keys, .states = s->states};
}

/* Reads the source while one row per sequence queries it, like the first token of a decoder. */
static void read_source(bo_context *context, const subject *s)
{
    size_t width = s->t.d->heads * s->t.d->dim;
    float *q = test_normals(SEQUENCES * width, 8);
    const bo_graph_pass pass = pass_of(s, ones);
    test_call c = call_of(s, &s->attributes, &pass, q, SEQUENCES);
    test_forward(context, &c, false);
    for (size_t i = 0; i < SEQUENCES; i++)
        assert_int_equal(bo_attention_state_tokens(s->states[LAYER * SEQUENCES + i]), keys[i]);
    test_end(&c);
    free(q);
}

/* Sums in another order; the iterations of RIDGE end within their tolerance. */
static void assert_alike(const subject *s, size_t count, const float *found, const float *expected)
{
    double size = 0, tolerance = s->t.d->kind == BO_ATTENTION_RIDGE ? 1e-4 : 1e-5;
    for (size_t i = 0; i < count; i++) size = fmax(size, fabs((double)expected[i]));
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)found[i] - (double)expected[i]) <= tolerance * (1 + size)))
            fail_msg("%s: number %zu is %.9g, expected %.9g", s->t.desc.name, i, (double)found[i], (double)expected[i]);
}

static void query_several(bo_context *context, const subject *s, const float *expected)
{
    const bo_attention_attributes query_attributes = querying(s);
    const bo_graph_pass pass = pass_of(s, queries);
    test_call c = call_of(s, &query_attributes, &pass, s->t.array[Q], s->t.queries_total);
    test_forward(context, &c, false);
    assert_alike(s, s->t.count[OUT], test_out(&c), expected);
    test_end(&c);
}

/* Row `token` of every sequence; after its end, its last row. */
static void query_one_by_one(bo_context *context, const subject *s, const float *expected)
{
    const bo_attention_attributes query_attributes = querying(s);
    const bo_graph_pass pass = pass_of(s, ones);
    size_t width = s->t.d->heads * s->t.d->dim, values = s->t.d->heads * s->t.d->value_dim;
    float *q = test_floats(SEQUENCES * width, 0);
    for (size_t token = 0; token < 4; token++) {
        size_t row[SEQUENCES];
        for (size_t i = 0; i < SEQUENCES; i++) {
            row[i] = s->t.query_start[i] + (token < queries[i] ? token : queries[i] - 1);
            memcpy(q + i * width, s->t.array[Q] + row[i] * width, width * sizeof *q);
        }
        test_call c = call_of(s, &query_attributes, &pass, q, SEQUENCES);
        test_forward(context, &c, false);
        for (size_t i = 0; i < SEQUENCES; i++)
            assert_alike(s, values, test_out(&c) + i * values, expected + row[i] * values);
        test_end(&c);
    }
    free(q);
}

/* All rows are lanes of the last sequence. */
static void lanes_share_a_state(bo_context *context, const subject *s, const float *expected)
{
    enum { LANES = 3 };
    bo_attention_attributes query_attributes = querying(s);
    query_attributes.layer = 0, query_attributes.max_sequences = LANES;
    void *states[LANES];
    static const size_t one_each[LANES] = {1, 1, 1};
    for (size_t i = 0; i < LANES; i++) states[i] = s->states[LAYER * SEQUENCES + SEQUENCES - 1];
    const bo_graph_pass pass = {.sequences = LANES, .lengths = one_each, .states = states};
    size_t first = s->t.query_start[SEQUENCES - 1], width = s->t.d->heads * s->t.d->dim;
    test_call c = call_of(s, &query_attributes, &pass, s->t.array[Q] + first * width, LANES);
    test_forward(context, &c, false);
    size_t values = s->t.d->heads * s->t.d->value_dim;
    assert_alike(s, LANES * values, test_out(&c), expected + first * values);
    test_end(&c);
}

static void check(bo_context *context, subject *s)
{
    const bo_graph_pass pass = {.sequences = SEQUENCES, .lengths = queries, .source_lengths = keys};
    test_call whole = call_of(s, &s->attributes, &pass, s->t.array[Q], s->t.queries_total);
    test_forward(context, &whole, false);
    read_source(context, s);
    char *before = malloc(SEQUENCES * s->bytes);
    for (size_t i = 0; i < SEQUENCES; i++) memcpy(before + i * s->bytes, s->states[LAYER * SEQUENCES + i], s->bytes);
    query_several(context, s, test_out(&whole));
    query_one_by_one(context, s, test_out(&whole));
    lanes_share_a_state(context, s, test_out(&whole));
    for (size_t i = 0; i < SEQUENCES; i++)
        assert_memory_equal(before + i * s->bytes, s->states[LAYER * SEQUENCES + i], s->bytes);
    read_source(context, s); /* read again: previous contents do not matter */
    for (size_t i = 0; i < SEQUENCES; i++)
        assert_memory_equal(before + i * s->bytes, s->states[LAYER * SEQUENCES + i], s->bytes);
    free(before);
    test_end(&whole);
}

static void states_are_queried(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    const char *preset;
    for (size_t i = 0; (preset = bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)i)); i++)
        for (int causal = 0; causal < 2; causal++) {
            subject s;
            if (!subject_make(context, preset, causal, &s)) continue;
            check(context, &s);
            subject_drop(&s);
        }
    bo_context_destroy(context);
}

/* Kinds with a proposal collect different numbers of queries and keys before use. */
static void data_is_collected(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    subject s;
    bo_calibration *calibrations[LAYERS] = {0};
    for (int causal = 0; causal < 2; causal++) {
        assert_true(subject_make(context, "favor#", causal, &s));
        bo_graph_pass pass = {.sequences = SEQUENCES, .lengths = queries, .source_lengths = keys};
        assert_ok(context, bo_calibration_create(context, s.t.attention, 0, &calibrations[LAYER]));
        test_call before = call_of(&s, &s.attributes, &pass, s.t.array[Q], s.t.queries_total), after = before;
        const bo_calibrating calibrating = {calibrations, (bo_attention *[LAYERS]){[LAYER] = s.t.attention}};
        test_forward(context, &before, false);
        assert_ok(context, after.op->calibrate(context, &after.call, &calibrating));
        test_forward(context, &after, false);
        assert_memory_not_equal(test_out(&before), test_out(&after), test_out_bytes(&after));
        test_end(&before);
        test_end(&after);
        bo_calibration_destroy(calibrations[LAYER]);
        subject_drop(&s);
    }
    bo_context_destroy(context);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void refuse(bo_context *context, const subject *s, const bo_attention_attributes *a, const bo_graph_pass *pass,
                   const char *message)
{
    test_call c = call_of(s, a, pass, s->t.array[Q], s->t.queries_total);
    bo_status status = c.op->shape(context, &c.call);
    if (status == BO_OK) status = c.op->forward(context, &c.call);
    assert_int_equal(status, BO_INVALID);
    if (!strstr(bo_context_error(context), message)) fail_msg("'%s' lacks '%s'", bo_context_error(context), message);
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    subject s;
    assert_true(subject_make(context, "rfa-gate", true, &s));
    const bo_graph_pass both = {.sequences = SEQUENCES, .lengths = queries, .source_lengths = keys},
                        of_stream = {.sequences = SEQUENCES, .lengths = queries},
                        of_source = {.sequences = SEQUENCES, .source_lengths = keys};
    static const size_t short_keys[SEQUENCES] = {9, 0, 39};
    const bo_graph_pass short_source = {.sequences = SEQUENCES, .lengths = queries, .source_lengths = short_keys};
    bo_attention_attributes a = s.attributes, query_attributes = querying(&s);
    refuse(context, &s, &query_attributes, &both, "states that have read a source are required");
    refuse(context, &s, &a, &of_stream, "lengths of the stream, but none of the source");
    refuse(context, &s, &a, &of_source, "lengths of the source, but none of the stream");
    refuse(context, &s, &a, &short_source, "1 of the pass's 49 rows belong to no sequence");
    a.tokens = 4, a.key_tokens = 49, a.max_sequences = 0;
    refuse(context, &s, &a, &no_pass, "the stream has 2 sequences and the source 1");
    a.key_tokens = 10;
    refuse(context, &s, &a, &no_pass, "sources of 10 tokens do not divide 49 rows");
    a = s.attributes, a.source = true;
    refuse(context, &s, &a, &both, "not of the source");
    query_attributes.cross = false;
    refuse(context, &s, &query_attributes, &both, "only cross attention can read states");
    query_attributes = querying(&s), query_attributes.given |= BO_ATTENTION_GIVEN_LOG_GATE;
    refuse(context, &s, &query_attributes, &both, "log_gate");
    subject_drop(&s);
    bo_context_destroy(context);
}

/* A backward pass would need the tokens that were read. */
static void states_have_no_gradients(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    subject s;
    assert_true(subject_make(context, "gla", true, &s));
    const bo_graph_pass pass = pass_of(&s, queries);
    bo_attention_attributes query_attributes = querying(&s);
    float dout = 0, din = 0;
    for (int queries_only = 0; queries_only < 2; queries_only++) {
        test_call c =
            call_of(&s, queries_only ? &query_attributes : &s.attributes, &pass, s.t.array[Q], s.t.queries_total);
        assert_ok(context, c.op->shape(context, &c.call));
        c.call.dout[0] = &dout, c.call.din[0] = &din;
        assert_fails(context, BO_INVALID, queries_only ? "without keys" : "has no gradients",
                     c.op->backward(context, &c.call));
    }
    subject_drop(&s);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_queried),
        cmocka_unit_test(data_is_collected),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(states_have_no_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
