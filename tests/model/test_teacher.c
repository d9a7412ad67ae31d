/* A teacher and its student in one graph: a student with the teacher's function has no error and no gradient; errors
 * and divergences are those of separate computations in double; adapters do not change the teacher. */
#include "attention/attention.h"
#include "adapted.h"
#include "base/counting.h"
#include "model/capture.h"
#include "model/internal.h"
#include "tape/gradients.h"

enum { ROWS = 32, WINDOW = 16 };

static bo_model *make_teacher(bo_context *context, int variant)
{
    bo_model_desc desc = test_desc("softmax");
    desc.layers = 3;
    desc.block.query_norm = variant & 1 ? BO_CHOICE_NO : BO_CHOICE_YES;
    desc.block.positions = variant & 2 ? BO_POSITIONS_LEARNED : BO_POSITIONS_ROPE;
    desc.block.key_heads = variant & 1 ? 1 : 2;
    desc.block.bias = variant & 2;
    desc.dropout = variant & 1 ? 0.3 : 0; /* a run without training has none */
    return test_model(context, &desc, NULL);
}

/* kind softmax: with this window. */
static bo_model *make_student(bo_context *context, const bo_model *teacher, const char *kind, size_t window,
                              const char *kept)
{
    bo_model_desc desc = test_desc(kind);
    bo_model *student;
    if (window) desc.block.attention.window = window;
    const bo_replacement_desc made = {
        .attention = desc.block.attention, .kept_layers = kept, .gate_first = 2, .gate_last = 3};
    assert_ok(context, bo_model_replace_attention(context, teacher, &made, &student));
    return student;
}

/* The loss of a graph over ROWS tokens in sequences of WINDOW; `losses` and `gradients` (of all weights) may be
 * NULL. */
static double run(bo_context *context, bo_model *model, bo_imitation imitate, double share, float *losses,
                  float *gradients)
{
    bo_model_graph g;
    int32_t ids[ROWS + 1], positions[ROWS];
    float loss;
    test_tokens(ROWS + 1, ids);
    for (int i = 0; i < ROWS; i++) positions[i] = i % WINDOW;
    const bo_model_graph_desc desc = {.rows = ROWS,
                                      .tokens = WINDOW,
                                      .loss = true,
                                      .gradients = gradients != NULL,
                                      .imitate = imitate,
                                      .share = share};
    if (gradients) assert_ok(context, bo_weights_allocate(context, model->weights, true));
    if (gradients) gradients_clear(model->weights);
    assert_ok(context, bo_model_graph_create(context, model, &desc, &g));
    assert_ok(context, bo_graph_allocate(context, g.graph));
    assert_ok(context, bo_graph_write(context, g.graph, g.tokens, ids));
    if (g.targets) assert_ok(context, bo_graph_write(context, g.graph, g.targets, ids + 1));
    if (g.positions) assert_ok(context, bo_graph_write(context, g.graph, g.positions, positions));
    assert_ok(context, bo_graph_run(context, g.graph, NULL));
    assert_ok(context, bo_graph_read(context, g.graph, g.loss, &loss));
    if (losses) assert_ok(context, bo_graph_read(context, g.graph, g.losses, losses));
    if (gradients) gradients_copy(model->weights, gradients);
    bo_model_graph_destroy(&g);
    return (double)loss;
}

static void adapt(bo_context *context, bo_model *student)
{
    char *whole;
    assert_ok(context, bo_model_new_parameters(context, student, &whole));
    assert_ok(context, bo_model_adapt(context, student, &(bo_lora_desc){.rank = 2, .whole = whole}));
    bo_free(whole);
}

/* ---- a student with the teacher's function ----------------------------------------------------------------------- */

static double norm_of(size_t count, const float *x)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

static void same_distribution(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (int v = 0; v < 4; v++) {
        bo_model *teacher = make_teacher(context, v), *student = make_student(context, teacher, "softmax", WINDOW, "1");
        adapt(context, student); /* zero at the start */
        const size_t floats = bo_weights_floats(student->weights);
        float *text = malloc(floats * sizeof *text), *both = malloc(floats * sizeof *both);
        const double loss = run(context, student, BO_IMITATION_NONE, 0, NULL, text);
        assert_true(norm_of(floats, text) > 0);
        /* the bound of bo_cross_entropy_attributes; biases and residuals are added in another order with adapters */
        assert_true(run(context, student, BO_IMITATION_LOGITS, 1, NULL, both) <= 5e-7);
        assert_true(norm_of(floats, both) <= 1e-5 * norm_of(floats, text)); /* p - p' of float32 logits */
        /* α KL + (1 - α) text, in float32 */
        const double mixed = run(context, student, BO_IMITATION_LOGITS, 0.75, NULL, both);
        assert_close(mixed, 0.25 * loss, 1e-6 * loss);
        for (size_t i = 0; i < floats; i++) both[i] -= 0.25f * text[i];
        assert_true(norm_of(floats, both) <= 1e-5 * norm_of(floats, text));
        free(text), free(both);
        bo_model_destroy(student), bo_model_destroy(teacher);
    }
    bo_context_destroy(context);
}

static void same_attention(void **state)
{
    (void)state;
    static const char *const lists[] = {"", "0", "0,2"};
    bo_context *context = test_context(2);
    for (int v = 0; v < 4; v++) {
        bo_model *teacher = make_teacher(context, v);
        bo_model *student = make_student(context, teacher, "softmax", WINDOW, lists[v % 3]);
        float losses[3] = {1, 1, 1};
        assert_true(run(context, student, BO_IMITATION_ATTENTION, 0, losses, NULL) == 0);
        for (int i = 0; i < 3 - v % 3; i++) assert_true(losses[i] == 0);
        bo_model_destroy(student);
        student = make_student(context, teacher, "softmax", 3, lists[v % 3]);
        assert_true(run(context, student, BO_IMITATION_ATTENTION, 0, losses, NULL) > 0);
        bo_model_destroy(student), bo_model_destroy(teacher);
    }
    bo_context_destroy(context);
}

/* ---- the numbers of other students ------------------------------------------------------------------------------- */

/* KL of the student's distribution from that of the teacher, over all rows, in double. */
static double divergence(bo_context *context, const bo_model *teacher, const bo_model *student)
{
    static float logits[2][WINDOW * VOCAB];
    int32_t ids[ROWS + 1], positions[WINDOW];
    const bo_model *const models[] = {teacher, student};
    double sum = 0;
    test_tokens(ROWS + 1, ids);
    for (int i = 0; i < WINDOW; i++) positions[i] = i;
    for (int first = 0; first < ROWS; first += WINDOW) {
        for (int m = 0; m < 2; m++) {
            bo_model_graph g;
            const bo_model_graph_desc desc = {.rows = WINDOW, .outputs = true, .chosen = WINDOW};
            assert_ok(context, bo_model_graph_create(context, models[m], &desc, &g));
            assert_ok(context, bo_graph_allocate(context, g.graph));
            assert_ok(context, bo_graph_write(context, g.graph, g.tokens, ids + first));
            if (g.positions) assert_ok(context, bo_graph_write(context, g.graph, g.positions, positions));
            assert_ok(context, bo_graph_run(context, g.graph, NULL));
            assert_ok(context, bo_graph_read(context, g.graph, g.outputs, logits[m]));
            bo_model_graph_destroy(&g);
        }
        for (int r = 0; r < WINDOW; r++) {
            double totals[2] = {0, 0};
            for (int m = 0; m < 2; m++)
                for (int i = 0; i < VOCAB; i++) totals[m] += exp((double)logits[m][r * VOCAB + i]);
            for (int i = 0; i < VOCAB; i++) {
                const double p = exp((double)logits[0][r * VOCAB + i]) / totals[0];
                const double q = exp((double)logits[1][r * VOCAB + i]) / totals[1];
                sum += p * log(p / q);
            }
        }
    }
    return sum / ROWS;
}

/* The adapters differ from zero: the teacher must be recorded without them. */
static void divergence_from_the_teacher(void **state)
{
    (void)state;
    static const char *const kinds[] = {"dark", "rfa-gate", "hybrid", "gla"};
    bo_context *context = test_context(2);
    for (int k = 0; k < 4; k++) {
        bo_model *teacher = make_teacher(context, k), *student = make_student(context, teacher, kinds[k], 0, "1");
        adapt(context, student);
        move_adapters(student);
        const double expected = divergence(context, teacher, student);
        assert_true(expected > 1e-3);
        /* a sum of 256 terms in float32, of logits with errors of 1e-6 */
        assert_close(run(context, student, BO_IMITATION_LOGITS, 1, NULL, NULL), expected, 1e-4 * expected + 1e-5);
        bo_model_destroy(student), bo_model_destroy(teacher);
    }
    bo_context_destroy(context);
}

/* The contribution of a layer to the residual stream, without the bias shared by teacher and student: out Wᵀ. */
static void projected(bo_context *context, const bo_model *teacher, size_t layer, const float *out, double *y)
{
    const size_t width = teacher->desc.width, inner = teacher->desc.block.heads * teacher->desc.block.head_dim;
    float *w = malloc(width * inner * sizeof *w);
    char name[80];
    snprintf(name, sizeof name, "model.layers.%zu.self_attn.o_proj.weight", layer);
    assert_ok(context, bo_weights_get(context, bo_model_weights(teacher), name, w, NULL));
    for (size_t r = 0; r < ROWS; r++)
        for (size_t j = 0; j < width; j++) {
            y[r * width + j] = 0;
            for (size_t i = 0; i < inner; i++)
                y[r * width + j] += (double)out[r * inner + i] * (double)w[j * inner + i];
        }
    free(w);
}

/* The relative squared error of a layer, from the teacher's q, k, v and out. */
static double attention_error(bo_context *context, const bo_model *teacher, const bo_model *student, size_t layer)
{
    bo_capture *capture;
    int32_t ids[ROWS + 1];
    static float arrays[BO_CAPTURE_ARRAYS][ROWS * 16], out[ROWS * 16], m[2 * 8 * 8];
    static double target[ROWS * 16], found[ROWS * 16];
    const bo_capture_desc desc = {.tokens = WINDOW, .sequences = ROWS / WINDOW, .parts = BO_CAPTURE_PART_ATTENTION};
    test_tokens(ROWS + 1, ids);
    assert_ok(context, bo_capture_create(context, teacher, &desc, &capture));
    assert_ok(context, bo_capture_run(context, capture, ids));
    for (int a = 0; a < BO_CAPTURE_ARRAYS; a++)
        assert_ok(context, bo_capture_read(context, capture, layer, (bo_capture_array)a, arrays[a]));
    bo_capture_destroy(capture);
    const bo_attention *attention = bo_model_attention(student, layer);
    const bo_attention_shape shape = {.sequences = ROWS / WINDOW, .tokens = WINDOW, .layout = BO_LAYOUT_TOKENS_FIRST};
    bo_attention_inputs in = {.q = arrays[0], .k = arrays[1], .v = arrays[2]};
    if (bo_attention_has(bo_attention_describe(attention), BO_TRAIT_MATRIX)) {
        char name[80];
        snprintf(name, sizeof name, "model.layers.%zu.self_attn.m", layer);
        assert_ok(context, bo_weights_get(context, bo_model_weights(student), name, m, NULL));
        in.m = m;
    }
    assert_ok(context, bo_attention_forward_arrays(context, attention, &shape, &in, NULL, NULL, out, NULL));
    projected(context, teacher, layer, arrays[BO_CAPTURE_ARRAY_OUT], target);
    projected(context, teacher, layer, out, found);
    double error = 0, size = 0;
    for (size_t i = 0; i < ROWS * teacher->desc.width; i++)
        error += (found[i] - target[i]) * (found[i] - target[i]), size += target[i] * target[i];
    return error / size;
}

static void errors_of_attention(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (int v = 0; v < 8; v++) {
        bo_model *teacher = make_teacher(context, v);
        bo_model *student = make_student(context, teacher, v < 4 ? "softmax" : "dark", v < 4 ? 3 : 0, v & 1 ? "1" : "");
        float losses[3];
        double mean = 0;
        size_t count = 0;
        const double loss = run(context, student, BO_IMITATION_ATTENTION, 0, losses, NULL);
        for (size_t l = 0; l < 3; l++) {
            if (!bo_block_replaces(bo_model_block(&student->desc, l))) continue;
            const double expected = attention_error(context, teacher, student, l);
            assert_close((double)losses[count], expected, 1e-4 * expected); /* sums of 512 terms in float32 */
            mean += expected, count++;
        }
        assert_int_equal(count, v & 1 ? 2 : 3);
        assert_close(loss, mean / (double)count, 1e-4 * loss);
        bo_model_destroy(student), bo_model_destroy(teacher);
    }
    bo_context_destroy(context);
}

/* Teachers with more layers than an operation has inputs: the error of each layer is at its place. */
static void any_number_of_layers(void **state)
{
    (void)state;
    enum { MAX_COUNT = 80 };
    static const size_t counts[] = {1, BO_OP_INPUTS, BO_OP_INPUTS + 1, MAX_COUNT};
    bo_context *context = test_context(2);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        const size_t layers = counts[c];
        bo_model_desc desc = test_desc("softmax");
        desc.layers = layers;
        desc.block.query_norm = BO_CHOICE_NO;
        bo_model *teacher = test_model(context, &desc, NULL), *student = make_student(context, teacher, "dark", 0, "");
        float losses[MAX_COUNT];
        double mean = 0;
        const double loss = run(context, student, BO_IMITATION_ATTENTION, 0, losses, NULL);
        for (size_t l = 0; l < layers; l++) {
            mean += (double)losses[l] / (double)layers;
            if (l % 16 > 1 && l + 1 < layers) continue;
            const double expected = attention_error(context, teacher, student, l);
            assert_close((double)losses[l], expected, 1e-4 * expected); /* sums of 512 terms in float32 */
        }
        assert_close(loss, mean, 1e-5 * mean);
        bo_model_destroy(student), bo_model_destroy(teacher);
    }
    bo_context_destroy(context);
}

/* ---- threads, memory, refusals ----------------------------------------------------------------------------------- */

static void any_number_of_threads(void **state)
{
    (void)state;
    bo_context *contexts[] = {test_context(1), test_context(3)};
    for (int imitate = BO_IMITATION_ATTENTION; imitate <= BO_IMITATION_LOGITS; imitate++) {
        double losses[2];
        float *gradients[2];
        size_t floats = 0;
        for (int i = 0; i < 2; i++) {
            bo_model *teacher = make_teacher(contexts[i], 0),
                     *student = make_student(contexts[i], teacher, "dark", 0, "1");
            if (imitate == BO_IMITATION_LOGITS) adapt(contexts[i], student), move_adapters(student);
            floats = bo_weights_floats(student->weights);
            gradients[i] = malloc(floats * sizeof(float));
            losses[i] = run(contexts[i], student, (bo_imitation)imitate, 0.9, NULL, gradients[i]);
            bo_model_destroy(student), bo_model_destroy(teacher);
        }
        assert_true(losses[0] == losses[1]);
        assert_memory_equal(gradients[0], gradients[1], floats * sizeof(float));
        free(gradients[0]), free(gradients[1]);
    }
    bo_context_destroy(contexts[0]), bo_context_destroy(contexts[1]);
}

typedef struct starving {
    bo_context *context;
    const bo_model *teacher;
    bo_model *student;
    bo_imitation imitate;
} starving;

static bo_status make_graph(void *what)
{
    const starving *s = what;
    bo_model_graph g;
    const bo_model_graph_desc desc = {
        .rows = 8, .loss = true, .gradients = true, .imitate = s->imitate, .share = s->imitate == BO_IMITATION_LOGITS};
    BO_TRY(bo_model_graph_create(s->context, s->student, &desc, &g));
    const bo_status status = bo_graph_allocate(s->context, g.graph);
    bo_model_graph_destroy(&g);
    return status;
}

static bo_status replace(void *what)
{
    const starving *s = what;
    bo_model *student = (bo_model *)s;
    const bo_replacement_desc made = {.attention = s->student->desc.block.attention, .seed = 3};
    const bo_status status = bo_model_replace_attention(s->context, s->teacher, &made, &student);
    if (status != BO_OK) assert_null(student);
    bo_model_destroy(student);
    return status;
}

static bo_status list_and_try(void *what)
{
    const starving *s = what;
    char *whole = NULL;
    bo_status status = bo_model_new_parameters(s->context, s->student, &whole);
    if (status == BO_OK)
        status = bo_model_try_adapters(s->context, s->student, &(bo_lora_desc){.rank = 1, .whole = whole});
    bo_free(whole);
    return status == BO_OK ? bo_model_freeze_original(s->context, s->student) : status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    bo_context *plenty = test_context(1);
    static const char spared[] = "the sequences of a call"; /* the count of operations may be missing */
    counting counted = {0};
    starving s = {.context = counting_context(&counted, 1)};
    s.teacher = make_teacher(plenty, 0);
    s.student = make_student(plenty, s.teacher, "dark", 0, "1");
    counting_inject(&(injection){&counted, s.context, replace, &s, 40, 5, spared});
    s.imitate = BO_IMITATION_ATTENTION;
    assert_ok(plenty, bo_weights_allocate(plenty, s.student->weights, true));
    counting_inject(&(injection){&counted, s.context, make_graph, &s, 40, 5, spared});
    s.imitate = BO_IMITATION_LOGITS;
    counting_inject(&(injection){&counted, s.context, make_graph, &s, 40, 5, spared});
    counting_inject(&(injection){&counted, s.context, list_and_try, &s, 40, 5, spared});
    bo_model_destroy(s.student);
    bo_model_destroy((bo_model *)s.teacher);
    bo_context_destroy(s.context), bo_context_destroy(plenty);
    assert_true(counted.live == 0);
}

static void refusals(void **state)
{
    bo_context *context = ((test_directory *)*state)->context;
    bo_model *teacher = make_teacher(context, 0);
    bo_model_graph g;
    const bo_model_graph_desc desc = {.rows = 8, .loss = true, .imitate = BO_IMITATION_ATTENTION};
    assert_fails(context, BO_INVALID, "linearized", bo_model_graph_create(context, teacher, &desc, &g));
    bo_model_destroy(teacher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_distribution),
        cmocka_unit_test(same_attention),
        cmocka_unit_test(divergence_from_the_teacher),
        cmocka_unit_test(errors_of_attention),
        cmocka_unit_test(any_number_of_layers),
        cmocka_unit_test(any_number_of_threads),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test_setup_teardown(refusals, test_setup, directories_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
