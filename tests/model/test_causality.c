/* Models with every attention and mixer: a token only changes later outputs, bit by bit; sequences of a batch do not
 * affect each other; a session that reads token by token agrees with the float64 interpreter of the whole window. */
#include "gradients.h"

enum { ROWS = 2 * GRADIENT_WINDOW };

static void losses_of(bo_context *context, bo_model *model, const reading *r, float *losses)
{
    bo_model_graph g = graph_create(context, model, r, false, false);
    assert_ok(context, bo_graph_run(context, g.graph, &r->pass));
    assert_ok(context, bo_graph_read(context, g.graph, g.losses, losses));
    bo_model_graph_destroy(&g);
}

/* Replacing a token keeps the bits of the losses of other sequences and of earlier positions, and changes its own
 * loss. */
static void check_causality(bo_context *context, const char *preset, bo_model *model, const bo_graph_pass *pass)
{
    reading r = reading_create(ROWS, pass);
    float before[ROWS], after[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        if (r.targets[i] < 0) r.targets[i] = 1;
    losses_of(context, model, &r, before);
    for (size_t t = 0; t < ROWS; t++) {
        int32_t token = r.tokens[t];
        size_t start = t - (size_t)r.positions[t];
        r.tokens[t] = (token + 17) % VOCAB;
        losses_of(context, model, &r, after);
        r.tokens[t] = token;
        for (size_t i = 0; i < ROWS; i++) {
            bool sees = i >= t && i - (size_t)r.positions[i] == start;
            if (!sees && memcmp(&before[i], &after[i], sizeof(float)))
                fail_msg("%s: token %zu changes the loss at %zu", preset, t, i);
        }
        if (before[t] == after[t]) fail_msg("%s: token %zu does not change the loss after it", preset, t);
    }
}

static void nothing_comes_before_its_cause(void **state)
{
    (void)state;
    static const size_t lengths[] = {5, 1, 8};
    bo_context *context = test_context(2);
    const char *preset;
    for (size_t i = 0; (preset = test_kind(i)); i++) {
        bo_model_desc desc = test_desc(preset);
        bo_model *model = test_model(context, &desc, NULL);
        check_causality(context, preset, model, &(bo_graph_pass){0});
        check_causality(context, preset, model, &(bo_graph_pass){.sequences = 3, .lengths = lengths});
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

/* The loss of every row; the caller frees it. */
static double *interpreted(const interpreter *in, bo_value losses)
{
    interpreter_run(in);
    size_t count = plain_count(&in->tensors[losses]);
    double *out = plain_zeros(count);
    memcpy(out, in->tensors[losses].x, count * sizeof *out);
    return out;
}

static void check_session(bo_context *context, const char *preset, bo_model *model, const size_t *pieces)
{
    reading r = reading_create(CONTEXT, &(bo_graph_pass){.sequences = 1, .lengths = (const size_t[]){CONTEXT}});
    bo_model_graph g = graph_create(context, model, &r, false, false);
    interpreter in = interpreter_of(context, &g, &r);
    double *truth = interpreted(&in, g.losses), worst = 0;
    in.noise = GRADIENT_NOISE;
    for (in.seed = 1; in.seed <= 3; in.seed++) {
        double *shaken = interpreted(&in, g.losses);
        for (size_t i = 0; i < CONTEXT; i++) worst = fmax(worst, fabs(shaken[i] - truth[i]));
        free(shaken);
    }
    bo_session *session;
    float losses[CONTEXT];
    assert_ok(context, bo_session_create(context, model, NULL, &session));
    for (size_t at = 0, n = 0; at < CONTEXT; at += pieces[n++])
        assert_ok(context, bo_session_read(context, session,
                                           &(bo_session_reading){.ids = r.tokens + at,
                                                                 .count = pieces[n],
                                                                 .losses = losses + at,
                                                                 .targets = r.targets + at}));
    for (size_t i = 0; i < CONTEXT; i++)
        if (!(fabs((double)losses[i] - truth[i]) <= GRADIENT_SLACK * worst))
            fail_msg("%s: token %zu: the session's loss is %.9g, the interpreter's %.9g within %.3g", preset, i,
                     (double)losses[i], truth[i], GRADIENT_SLACK * worst);
    bo_session_destroy(session);
    interpreter_drop(&in);
    bo_model_graph_destroy(&g);
    free(truth);
}

static void sessions_agree_with_windows(void **state)
{
    (void)state;
    size_t ones[CONTEXT];
    static const size_t mixed[] = {1, 9, 1, 1, 20, 3, 13};
    for (size_t i = 0; i < CONTEXT; i++) ones[i] = 1;
    bo_context *context = test_context(2);
    const char *preset;
    for (size_t i = 0; (preset = test_kind(i)); i++) {
        bo_model_desc desc = test_desc(preset);
        desc.block.positions = (bo_positions)(i % BO_POSITIONS_COUNT);
        bo_model *model = test_model(context, &desc, NULL);
        check_session(context, preset, model, ones);
        check_session(context, preset, model, mixed);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_comes_before_its_cause),
        cmocka_unit_test(sessions_agree_with_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
