/* Initial parameters of attention from text: never worse than the defaults, set as reported, the same for any number of
 * threads; whitening; memory and refusals. */
#include <bochner/names.h>
#include "attention/attention.h"
#include "features/facts.h"
#include "base/counting.h"
#include "linearize/linearize.h"
#include "model/capture.h"
#include "model/internal.h"
#include "train/runs.h"
#include <bochner/linearize.h>

enum { CONTEXT = 16, TOKENS = 64, HEADS = 2, DIM = 8, LAYERS = 2 };

/* A teacher whose attention is not flat. */
static bo_model *make_teacher(runs *r)
{
    bo_model *model = runs_model(r, "softmax");
    for (size_t i = 0; i < bo_weights_count(model->weights); i++) {
        const bo_weight *weight = bo_weights_at(model->weights, i);
        bo_rng rng = bo_rng_make(4, i);
        float *values = weight->data;
        for (size_t j = 0; weight->role == BO_WEIGHT_ROLE_MATRIX && j < weight->rows * weight->columns; j++)
            values[j] += (float)(0.5 * bo_rng_normal(&rng));
    }
    return model;
}

static bo_model *make_student(runs *r, const bo_model *teacher, const char *kind, const char *kept)
{
    bo_replacement_desc desc = {.kept_layers = kept, .gate_first = 3, .gate_last = 3, .seed = 5};
    bo_model *student;
    assert_true(bo_attention_preset(kind, &desc.attention));
    if (bo_attention_has(&desc.attention, BO_TRAIT_SIGMA)) desc.sigma = 4; /* too sharp */
    if (bo_attention_has(&desc.attention, BO_TRAIT_DRAWS) && bo_features_needs_length(&desc.attention.features))
        desc.attention.features.features = 64;
    if (desc.attention.kind == BO_ATTENTION_HYBRID) desc.attention.window = 4, desc.attention.rank = DIM;
    assert_ok(r->context, bo_model_replace_attention(r->context, teacher, &desc, &student));
    return student;
}

static bool has_weight(const bo_model *model, const char *name)
{
    return bo_weights_find(model->weights, name);
}

static void weight_name(size_t layer, const char *suffix, char name[80])
{
    snprintf(name, 80, "model.layers.%zu.self_attn.%s", layer, suffix);
}

/* q, k, v and out of a layer of the teacher, of the sequences that the calibration reads: evenly spread windows. */
typedef struct layer_values {
    float arrays[BO_CAPTURE_ARRAYS][TOKENS * HEADS * DIM];
} layer_values;

static void values_of(runs *r, const bo_model *teacher, size_t layer, layer_values *out)
{
    bo_capture *capture;
    int32_t ids[TOKENS];
    const uint64_t windows = bo_corpus_tokens(r->text) / CONTEXT;
    const bo_capture_desc desc = {.tokens = CONTEXT, .sequences = TOKENS / CONTEXT, .parts = BO_CAPTURE_PART_ATTENTION};
    for (size_t i = 0; i < TOKENS / CONTEXT; i++)
        assert_ok(r->context, bo_corpus_read(r->context, r->text, windows * i / (TOKENS / CONTEXT) * CONTEXT, CONTEXT,
                                             ids + i * CONTEXT));
    assert_ok(r->context, bo_capture_create(r->context, teacher, &desc, &capture));
    assert_ok(r->context, bo_capture_run(r->context, capture, ids));
    for (int a = 0; a < BO_CAPTURE_ARRAYS; a++)
        assert_ok(r->context, bo_capture_read(r->context, capture, layer, (bo_capture_array)a, out->arrays[a]));
    bo_capture_destroy(capture);
}

static bo_attention_shape shape(void)
{
    return (bo_attention_shape){.sequences = TOKENS / CONTEXT, .tokens = CONTEXT, .layout = BO_LAYOUT_TOKENS_FIRST};
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

/* Every preset: errors are finite and not above the start, in the order of layers and heads; layers without features
 * have none; the model is ready to read. */
static void never_worse(void **state)
{
    runs *r = *state;
    bo_model *teacher = make_teacher(r);
    for (size_t i = 0; bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)i); i++) {
        const char *kind = bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)i);
        bo_model *student = make_student(r, teacher, kind, "");
        const bo_attention_desc *d = &student->desc.block.attention;
        const bool drawn = d->proposal != BO_PROPOSAL_NONE || d->features.sampling == BO_SAMPLING_OPTIMAL;
        bo_head_fit fits[LAYERS * HEADS];
        size_t count = 99;
        double errors[LAYERS];
        memset(fits, 0xff, sizeof fits);
        assert_ok(r->context, bo_model_calibrate(r->context, teacher, student, r->text, TOKENS, fits, &count));
        assert_int_equal(count, bo_attention_has(d, BO_TRAIT_FEATURES) && !drawn ? LAYERS * HEADS : 0);
        for (size_t f = 0; f < count; f++) {
            assert_int_equal(fits[f].layer, f / HEADS);
            assert_int_equal(fits[f].head, f % HEADS);
            if (!(fits[f].error <= fits[f].start && fits[f].error >= 0 && isfinite(fits[f].start)))
                fail_msg("%s, head %zu: error %g, at the start %g", kind, f, fits[f].error, fits[f].start);
            assert_true(fits[f].factor > 0 && (fits[f].factor == 1 || fits[f].error < fits[f].start));
            assert_true(!fits[f].whitened || bo_attention_has(d, BO_TRAIT_MATRIX));
            const bool predicts = d->kind == BO_ATTENTION_FAVOR || d->kind == BO_ATTENTION_DARK;
            assert_int_equal(isfinite(fits[f].predicted) && fits[f].predicted >= 0, predicts);
            assert_int_equal(isnan(fits[f].predicted), !predicts);
            for (int k = 0; k < 4; k++) assert_int_equal(fits[f].reserved[k], 0);
        }
        assert_ok(r->context, bo_model_imitation(r->context, student, r->held_out, 0, 64, errors));
        for (size_t l = 0; l < LAYERS; l++) assert_true(isfinite(errors[l]));
        for (size_t l = 0; l < LAYERS; l++) { /* gates at their biases */
            char name[80];
            float weight[HEADS * 16];
            weight_name(l, "g_proj.weight", name);
            if (!has_weight(student, name)) continue;
            assert_ok(r->context, bo_weights_get(r->context, bo_model_weights(student), name, weight, NULL));
            for (size_t w = 0; w < HEADS * 16; w++) assert_true(weight[w] == 0);
        }
        assert_ok(r->context, bo_model_calibrate(r->context, teacher, student, r->text, 0, NULL, NULL));
        bo_model_destroy(student);
    }
    bo_model_destroy(teacher);
}

/* M is f I or f W as reported, W the result of bo_attention_whiten_arrays; the error is that of a separate forward
 * pass, and no other member of the family is better. */
static void set_as_reported(void **state)
{
    runs *r = *state;
    static const double factors[] = {1, 0.7, 0.5, 0.35, 0.25};
    static layer_values values;
    bo_model *teacher = make_teacher(r), *student = make_student(r, teacher, "dark", "0");
    bo_head_fit fits[LAYERS * HEADS];
    size_t count;
    float initial[HEADS * DIM * DIM], found[HEADS * DIM * DIM], white[HEADS * DIM * DIM], out[TOKENS * HEADS * DIM];
    char name[80];
    weight_name(1, "m", name);
    assert_ok(r->context, bo_weights_get(r->context, bo_model_weights(student), name, initial, NULL));
    assert_ok(r->context, bo_model_calibrate(r->context, teacher, student, r->text, TOKENS, fits, &count));
    assert_int_equal(count, HEADS); /* layer 0 is kept */
    assert_ok(r->context, bo_weights_get(r->context, bo_model_weights(student), name, found, NULL));
    values_of(r, teacher, 1, &values);
    const bo_attention *attention = bo_model_attention(student, 1);
    const bo_attention_shape s = shape();
    assert_ok(r->context,
              bo_attention_whiten_arrays(r->context, attention, &s, values.arrays[0], values.arrays[1], 0, white));
    float gates[TOKENS * HEADS] = {0};
    const bool gated = student->desc.block.attention.gate != BO_GATE_NONE;
    for (size_t i = 0; gated && i < TOKENS * HEADS; i++) gates[i] = (float)-log1p(exp(-3.0));
    for (size_t h = 0; h < HEADS; h++) {
        assert_int_equal(fits[h].layer, 1);
        const float *base = fits[h].whitened ? white : initial;
        for (size_t i = h * DIM * DIM; i < (h + 1) * DIM * DIM; i++)
            assert_true(found[i] == (float)fits[h].factor * base[i]);
    }
    double best[HEADS] = {INFINITY, INFINITY}, first[HEADS] = {0};
    for (int b = 0; b < 2; b++)
        for (size_t f = 0; f < 5; f++) {
            float m[HEADS * DIM * DIM];
            for (size_t i = 0; i < HEADS * DIM * DIM; i++) m[i] = (float)factors[f] * (b ? white : initial)[i];
            const bo_attention_inputs in = {.q = values.arrays[0],
                                            .k = values.arrays[1],
                                            .v = values.arrays[2],
                                            .m = m,
                                            .log_gate = gated ? gates : NULL};
            assert_ok(r->context, bo_attention_forward_arrays(r->context, attention, &s, &in, NULL, NULL, out, NULL));
            for (size_t h = 0; h < HEADS; h++) {
                double error = 0, size = 0;
                for (size_t t = 0; t < TOKENS; t++)
                    for (size_t i = (t * HEADS + h) * DIM; i < (t * HEADS + h + 1) * DIM; i++) {
                        const double target = (double)values.arrays[BO_CAPTURE_ARRAY_OUT][i];
                        error += ((double)out[i] - target) * ((double)out[i] - target), size += target * target;
                    }
                best[h] = fmin(best[h], error / size);
                if (b == 0 && f == 0) first[h] = error / size;
            }
        }
    for (size_t h = 0; h < HEADS; h++) {
        assert_close(fits[h].start, first[h], 0); /* the same operations in the same order */
        assert_close(fits[h].error, best[h], 0);
    }
    bo_model_destroy(student), bo_model_destroy(teacher);
}

/* For each kind of parameter, a member of the family other than the default is chosen somewhere. */
static void the_choice_matters(void **state)
{
    runs *r = *state;
    static const char *const kinds[] = {"dark", "rfa", "t2r", "hybrid"};
    bo_model *teacher = make_teacher(r);
    for (int k = 0; k < 4; k++) {
        bo_model *student = make_student(r, teacher, kinds[k], ""), *before = make_student(r, teacher, kinds[k], "");
        bo_head_fit fits[LAYERS * HEADS];
        size_t count, other = 0, moved = 0;
        assert_ok(r->context, bo_model_calibrate(r->context, teacher, student, r->text, TOKENS, fits, &count));
        for (size_t f = 0; f < count; f++) other += fits[f].factor != 1 || fits[f].whitened;
        if (!other) fail_msg("%s: every head has the usual parameters", kinds[k]);
        for (size_t i = 0; i < bo_weights_count(student->weights); i++) {
            const bo_weight *now = bo_weights_at(student->weights, i), *old = bo_weights_at(before->weights, i);
            const bool same = memcmp(now->data, old->data, now->rows * now->columns * sizeof(float)) == 0;
            if (!same && has_weight(teacher, now->name)) fail_msg("%s of the teacher changed", now->name);
            moved += !same;
        }
        assert_true(moved > 0);
        bo_model_destroy(student), bo_model_destroy(before);
    }
    bo_model_destroy(teacher);
}

static void same_for_any_number_of_threads(void **state)
{
    runs *r = *state;
    bo_context *context = r->context;
    static const char *const kinds[] = {"dark", "favor++", "favor#", "rfa-gate"};
    for (int k = 0; k < 4; k++) {
        bo_model *models[3];
        bo_head_fit fits[3][LAYERS * HEADS] = {0};
        for (int i = 0; i < 3; i++) {
            r->context = test_context(i + 1);
            bo_model *teacher = make_teacher(r);
            models[i] = make_student(r, teacher, kinds[k], "");
            assert_ok(r->context, bo_model_calibrate(r->context, teacher, models[i], r->text, TOKENS, fits[i], NULL));
            bo_model_destroy(teacher);
            bo_context_destroy(r->context);
        }
        for (int i = 1; i < 3; i++) {
            assert_memory_equal(fits[0], fits[i], sizeof fits[0]);
            assert_true(runs_same_weights(models[0], models[i]));
            assert_int_equal(bo_model_fingerprint(models[0]),
                             bo_model_fingerprint(models[i])); /* of frequencies, too */
        }
        for (int i = 0; i < 3; i++) bo_model_destroy(models[i]);
    }
    r->context = context;
}

/* Infinite errors, from queries that are too large, keep the default parameters. */
static void overflow_keeps_the_default_parameters(void **state)
{
    runs *r = *state;
    bo_model *teacher = make_teacher(r), *student = make_student(r, teacher, "taylor", "");
    char name[80];
    const bo_weight *q = NULL;
    weight_name(0, "v_proj.weight", name);
    q = bo_weights_find(teacher->weights, name);
    float *huge = malloc(q->rows * q->columns * sizeof *huge);
    for (size_t i = 0; i < q->rows * q->columns; i++) huge[i] = 1e30f;
    assert_ok(r->context, bo_weights_set(r->context, bo_model_weights(teacher), name, huge));
    free(huge);
    bo_head_fit fits[LAYERS * HEADS];
    size_t count = 0;
    const bo_status status = bo_model_calibrate(r->context, teacher, student, r->text, TOKENS, fits, &count);
    assert_true(status == BO_OK || status == BO_NUMERIC);
    for (size_t f = 0; status == BO_OK && f < count; f++) assert_true(fits[f].factor == 1);
    bo_model_destroy(student), bo_model_destroy(teacher);
}

/* A head with zero queries and keys, such as a pruned head, cannot be whitened. Its layer starts without whitening. */
static void heads_without_queries(void **state)
{
    runs *r = *state;
    static const char *const kinds[] = {"dark", "hybrid", "favor", "rfa", "favor++", "favor#"};
    bo_model *teacher = make_teacher(r);
    static const char *const names[] = {"q_proj.weight", "k_proj.weight"};
    for (int i = 0; i < 2; i++) {
        char name[80];
        weight_name(0, names[i], name);
        const bo_weight *weight = bo_weights_find(teacher->weights, name);
        memset(weight->data, 0, weight->rows / HEADS * weight->columns * sizeof(float)); /* rows of head 0 */
    }
    for (int k = 0; k < 6; k++) {
        bo_model *student = make_student(r, teacher, kinds[k], "");
        bo_head_fit fits[LAYERS * HEADS];
        size_t count;
        double errors[LAYERS];
        assert_ok(r->context, bo_model_calibrate(r->context, teacher, student, r->text, TOKENS, fits, &count));
        for (size_t f = 0; f < count; f++)
            assert_true(isfinite(fits[f].error) && fits[f].error <= fits[f].start && !(f < HEADS && fits[f].whitened));
        assert_ok(r->context, bo_model_imitation(r->context, student, r->held_out, 0, 64, errors));
        for (size_t l = 0; l < LAYERS; l++) assert_true(isfinite(errors[l]));
        bo_model_destroy(student);
    }
    bo_model_destroy(teacher);
}

/* ---- whitening --------------------------------------------------------------------------------------------------- */

static void whitened(void **state)
{
    runs *r = *state;
    static layer_values values;
    static const char *const kinds[] = {"dark", "hybrid"};
    bo_model *teacher = make_teacher(r);
    for (int k = 0; k < 2; k++)
        for (int a = 0; a < 2; a++) {
            bo_model *student = make_student(r, teacher, kinds[k], "0");
            float white[HEADS * DIM * DIM], found[HEADS * DIM * DIM];
            const double amount = a ? 0.5 : 0;
            char name[80];
            values_of(r, student, 1, &values); /* of the model itself */
            const bo_attention_shape s = shape();
            assert_ok(r->context, bo_attention_whiten_arrays(r->context, bo_model_attention(student, 1), &s,
                                                             values.arrays[0], values.arrays[1], amount, white));
            assert_ok(r->context, bo_model_whiten(r->context, student, r->text, TOKENS, amount));
            weight_name(1, "m", name);
            assert_ok(r->context, bo_weights_get(r->context, bo_model_weights(student), name, found, NULL));
            assert_memory_equal(white, found, sizeof found);
            bo_model_destroy(student);
        }
    bo_model_destroy(teacher);
}

/* ---- refusals and memory ----------------------------------------------------------------------------------------- */

static void refusals(void **state)
{
    runs *r = *state;
    bo_context *c = r->context;
    bo_model_desc desc = runs_desc("softmax");
    bo_model *teacher = make_teacher(r), *student = make_student(r, teacher, "dark", ""), *other;
    desc.layers = 3;
    other = runs_model_of(r, &desc);
    assert_fails(c, BO_INVALID, "same shape", bo_model_calibrate(c, other, student, r->text, 0, NULL, NULL));
    bo_model_destroy(other);
    desc = runs_desc("softmax");
    desc.context = 4096;
    other = runs_model_of(r, &desc);
    const char *path = runs_path(r, "short");
    FILE *file = fopen(path, "w");
    fputs("a short text", file); /* a window has 1024 tokens at most */
    fclose(file);
    bo_corpus *few = runs_open(r, "short", 0, 0);
    assert_fails(c, BO_INVALID, "one window", bo_model_calibrate(c, other, student, few, 0, NULL, NULL));
    assert_fails(c, BO_INVALID, "one window", bo_model_whiten(c, student, few, 0, 0));
    bo_corpus_close(few);
    bo_model_destroy(other);
    other = runs_model(r, "lstm");
    assert_fails(c, BO_INVALID, "expected attention", bo_model_calibrate(c, other, student, r->text, 0, NULL, NULL));
    assert_fails(c, BO_INVALID, "expected dark attention", bo_model_whiten(c, other, r->text, 0, 0));
    bo_model_destroy(other);
    assert_fails(c, BO_INVALID, "no layer", bo_model_whiten(c, teacher, r->text, 0, 0));
    assert_int_equal(bo_model_whiten(c, student, r->text, 0, -1), BO_INVALID);
    assert_int_equal(bo_model_whiten(c, student, r->text, 0, NAN), BO_INVALID);
    bo_model_destroy(student), bo_model_destroy(teacher);
}

typedef struct starving {
    bo_context *context;
    runs *r;
    const bo_model *teacher;
    bo_model *student;
} starving;

static bo_status calibrate(void *what)
{
    const starving *s = what;
    return bo_model_calibrate(s->context, s->teacher, s->student, s->r->text, TOKENS, NULL, NULL);
}

static bo_status whiten(void *what)
{
    const starving *s = what;
    return bo_model_whiten(s->context, s->student, s->r->text, TOKENS, 0);
}

static void every_allocation_may_fail(void **state)
{
    runs *r = *state;
    static const char spared[] = "the sequences of a call"; /* the count of operations may be missing */
    static const char *const kinds[] = {"dark", "rfa-gate"};
    for (int k = 0; k < 2; k++) {
        counting counted = {0};
        starving s = {.context = counting_context(&counted, 1), .r = r, .teacher = make_teacher(r)};
        s.student = make_student(r, s.teacher, kinds[k], "");
        counting_inject(&(injection){&counted, s.context, calibrate, &s, 60, 7, spared});
        if (k == 0) counting_inject(&(injection){&counted, s.context, whiten, &s, 60, 7, spared});
        bo_model_destroy(s.student);
        bo_model_destroy((bo_model *)s.teacher);
        bo_context_destroy(s.context);
        assert_true(counted.live == 0);
    }
}

/* Layers that had another attention or mixer before keep their parameters. */
static void other_weights_stay(void **state)
{
    runs *r = *state;
    bo_model_desc desc = runs_desc("softmax");
    bo_block blocks[] = {desc.block, desc.block, desc.block};
    assert_true(bo_attention_preset("gated-delta", &blocks[0].attention));
    blocks[1].mixer = BO_MIXER_GRU;
    desc.layers = 3, desc.blocks = blocks, desc.block_count = 3;
    bo_model *teacher = runs_model_of(r, &desc), *student = make_student(r, teacher, "rfa-gate", NULL);
    const bo_weight *gates = bo_weights_find(student->weights, "model.layers.0.self_attn.g_proj.weight");
    size_t fits;
    for (size_t i = 0; i < gates->rows * gates->columns; i++) ((float *)gates->data)[i] = 1 + (float)i;
    assert_ok(r->context, bo_model_calibrate(r->context, teacher, student, r->text, TOKENS, NULL, &fits));
    for (size_t i = 0; i < gates->rows * gates->columns; i++) assert_true(((float *)gates->data)[i] == 1 + (float)i);
    assert_int_equal(fits, HEADS); /* of layer 2 */
    bo_model_destroy(student);
    bo_model_destroy(teacher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(never_worse, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(set_as_reported, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(the_choice_matters, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(same_for_any_number_of_threads, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(overflow_keeps_the_default_parameters, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(heads_without_queries, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(whitened, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(refusals, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(other_weights_stay, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, runs_setup, runs_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
