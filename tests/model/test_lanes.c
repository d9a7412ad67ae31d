/* Lanes: what is decoded step by step from states is what one graph of source and target says, for every kind of attention and
 * every mixer; lanes that become others; what is refused. */
#include <bochner/tasks.h>
#include "translators.h"

/* ---- stepping equals reading at once ----------------------------------------------------------------------------------- */

/* TARGET_ROWS x WORDS logits of the pack. */
static float *whole_logits(bo_context *context, const bo_model *model, const pack *p)
{
    bo_pass pass = {0};
    float *logits = malloc(TARGET_ROWS * WORDS * sizeof *logits);
    bo_model_graph_desc desc = {.logits = true, .chosen = TARGET_ROWS};
    bo_model_graph g = pack_graph(context, model, p, &desc, &pass);
    assert_ok(context, bo_graph_run(context, g.graph, &pass));
    assert_ok(context, bo_graph_read(context, g.graph, g.logits, logits));
    bo_model_graph_destroy(&g);
    return logits;
}

/* Lanes of all sources, fed with the targets; those that end leave. */
static void check_steps(bo_context *context, const char *name, const bo_model *model, const pack *p)
{
    float *whole = whole_logits(context, model, p), logits[PAIRS * WORDS];
    bo_text_view sources[PAIRS];
    bo_lanes *lanes;
    size_t begin[PAIRS], of[PAIRS] = {0, 1, 2}, active = PAIRS;
    for (size_t s = 0, at = 0; s < PAIRS; at += target_lengths[s++]) begin[s] = at, sources[s] = pack_source(p, s);
    assert_ok(context, bo_lanes_create(context, model, &(bo_lanes_desc){.count = PAIRS}, &lanes));
    assert_ok(context, bo_lanes_read(context, lanes, sources, PAIRS));
    for (size_t t = 0; active; t++) {
        int32_t ids[PAIRS];
        size_t from[PAIRS], left = 0;
        for (size_t i = 0; i < active; i++) ids[i] = p->packed.stream.tokens[begin[of[i]] + t];
        assert_ok(context, bo_lanes_step(context, lanes, active, ids, logits));
        for (size_t i = 0; i < active; i++)
            for (size_t w = 0; w < WORDS; w++) {
                double found = (double)logits[i * WORDS + w];
                double truth = (double)whole[(begin[of[i]] + t) * WORDS + w];
                if (!(fabs(found - truth) <= 2e-4))
                    fail_msg("%s: token %zu of target %zu, logit %zu: %g, expected %g", name, t, of[i], w, found, truth);
            }
        for (size_t i = 0; i < active; i++)
            if (t + 1 < target_lengths[of[i]]) from[left] = i, of[left++] = of[i];
        assert_ok(context, bo_lanes_choose(context, lanes, active = left, from));
    }
    bo_lanes_destroy(lanes);
    free(whole);
}

/* An MLP along tokens has matrices for a window; a gate that is not the kind's own and a window go with time. */
static bool is_refused(const char *kind, const char *cross_kind)
{
    bo_attention_desc desc = {0};
    if (cross_kind) assert_true(bo_attention_preset(cross_kind, &desc));
    return test_same_word(kind, "mlp") || desc.gate != BO_GATE_NONE || desc.kind == BO_ATTENTION_HYBRID;
}

static void check_kind(bo_context *context, const char *kind, bo_cross cross, const char *cross_kind)
{
    char name[96];
    pack p;
    bo_model_desc desc = translator_desc(kind);
    pack_make(&p);
    desc.cross = cross;
    if (cross_kind) assert_true(bo_attention_preset(cross_kind, &desc.cross_attention));
    if (is_refused(kind, cross_kind)) {
        bo_model *none;
        assert_int_equal(bo_model_create(context, &desc, NULL, &none), BO_INVALID);
        return;
    }
    snprintf(name, sizeof name, "%s, %s %s", kind, bo_cross_name(cross), cross_kind ? cross_kind : "");
    bo_model *model = translator(context, &desc);
    check_steps(context, name, model, &p);
    bo_model_destroy(model);
}

static void of_every_mixer(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; test_kind(i); i++) {
        check_kind(context, test_kind(i), BO_CROSS_ATTENTION, NULL);
        check_kind(context, test_kind(i), BO_CROSS_SUMMARY, NULL);
    }
    bo_context_destroy(context);
}

static void of_every_cross_attention(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; bo_attention_preset_name(i); i++)
        check_kind(context, i % 2 ? "gru" : "exact", BO_CROSS_ATTENTION, bo_attention_preset_name(i));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_every_mixer),
        cmocka_unit_test(of_every_cross_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
