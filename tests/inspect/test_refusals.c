/* Invalid settings, unsupported models, arrays, and out of memory at every allocation. */
#include "base/counting.h"
#include "collect.h"

enum { TOKENS = 16, WINDOWS = 2 };

static void refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_inspection *report;
    int32_t ids[64];
    bo_model_desc desc = test_desc("softmax");
    desc.block.positions = BO_POSITIONS_LEARNED;
    bo_model *model = test_model(context, &desc, NULL);
    test_tokens(64, ids);
#define INSPECT(count, ...) bo_inspect(context, model, ids, count, &(bo_inspect_desc){__VA_ARGS__}, &report)
    assert_fails(context, BO_INVALID, "the text has 10 tokens, but a window has 48", INSPECT(10, .parts = 0));
    assert_null(report);
    assert_fails(context, BO_INVALID, "windows of 49 tokens, expected 4 to 48", INSPECT(64, .tokens = 49));
    assert_fails(context, BO_INVALID, "windows of 3 tokens", INSPECT(64, .tokens = 3));
    assert_fails(context, BO_INVALID, "unknown parts 0x40", INSPECT(64, .parts = 64));
    assert_fails(context, BO_INVALID, "target must be positive", INSPECT(64, .target = -1));
    assert_fails(context, BO_INVALID, "need a text", INSPECT(0, .parts = BO_INSPECT_PART_STATISTICS));
    assert_fails(context, BO_INVALID, "need a text", INSPECT(0, .receive = collect_array));
    assert_fails(context, BO_INVALID, "reserved", INSPECT(64, .reserved = {1}));
    ids[7] = VOCAB;
    assert_fails(context, BO_INVALID, "token 7 is 256, expected an id below 256", INSPECT(64, .tokens = 16));
    ids[7] = -1;
    assert_fails(context, BO_INVALID, "token 7 is -1", INSPECT(64, .tokens = 16));
    ids[7] = 1;
    bo_model_sizes sizes;
    assert_fails(context, BO_INVALID, "only 48 positions", bo_model_measure(context, model, 100, &sizes));
    bo_model_destroy(model);

    desc = test_desc("lstm");
    model = test_model(context, &desc, NULL);
    assert_fails(context, BO_UNSUPPORTED, "found the mixer lstm", INSPECT(64, .tokens = 16));
    assert_ok(context, bo_model_measure(context, model, 100, &sizes));
    assert_true(sizes.state_bytes > 0 && sizes.cache_bytes == 0);
    bo_model_destroy(model);

    desc = test_desc("softmax");
    desc.parametrization = BO_PARAMETRIZATION_UNIT;
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_fails(context, BO_UNSUPPORTED, "with unit scaling",
                 INSPECT(64, .tokens = 16, .parts = BO_INSPECT_PART_CIRCUITS));
    assert_ok(context, INSPECT(64, .tokens = 16)); /* the other parts */
    assert_int_equal(report->parts, BO_INSPECT_PART_STATISTICS | BO_INSPECT_PART_ERRORS | BO_INSPECT_PART_BEHAVIOR);
    assert_int_equal(report->layer_count, LAYERS);
    assert_int_equal(report->layers[0].head_count, 2);
    assert_true(report->candidate_count > 0 && report->choice < report->candidate_count);
    bo_inspection_destroy(report);
    bo_model_destroy(model);

    static const char *const labels[] = {"no", "yes"};
    desc = test_desc("softmax");
    desc.task = BO_MODEL_TASK_CLASSIFY, desc.classes = 2, desc.labels = labels;
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_fails(context, BO_INVALID, "found a model of task classify", INSPECT(64, .tokens = 16));
    assert_fails(context, BO_INVALID, "found a model of task classify", bo_model_measure(context, model, 0, &sizes));
    bo_model_destroy(model);
    bo_context_destroy(context);
}

static bool stop(void *user, const bo_inspect_array *array)
{
    size_t *left = user;
    (void)array;
    return --*left > 0;
}

/* Every kind of attention can be inspected; those without weights have no patterns. */
static void every_kind(void **state)
{
    (void)state;
    static const char *const kinds[] = {"linear",   "rfa-gate", "favor#", "dark", "hybrid",
                                        "hedgehog", "gla",      "delta",  "ridge"};
    bo_context *context = test_context(1);
    int32_t ids[64];
    test_tokens(64, ids);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bo_model_desc desc = test_desc(kinds[i]);
        bo_inspection *report;
        print_message("%s\n", kinds[i]);
        bo_model *model = test_model(context, &desc, NULL);
        assert_ok(context, INSPECT(64, .tokens = TOKENS, .windows = WINDOWS));
        const bo_head_report *head = &report->layers[1].heads[1];
        const bool weights = report->layers[1].weights;
        assert_int_equal(weights, strcmp(kinds[i], "favor#") == 0 || strcmp(kinds[i], "dark") == 0 ||
                                      strcmp(kinds[i], "hybrid") == 0);
        assert_int_equal(isnan(head->entropy), !weights);
        assert_int_equal(isnan(head->errors[0]), !weights);
        assert_true(head->moments.largest > 0 && isfinite(head->logit) && head->ov.rank > 0);
        bo_inspection_destroy(report);
        size_t left = 3;
        assert_fails(context, BO_CANCELED, "stopped by the receiver",
                     INSPECT(64, .tokens = TOKENS, .no_report = true, .receive = stop, .user = &left));
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

typedef struct starving {
    bo_context *context;
    const bo_model *model;
} starving;

static bool accept(void *user, const bo_inspect_array *array)
{
    (void)user;
    return array->rank > 0;
}

static bo_status inspect_once(void *what)
{
    const starving *s = what;
    bo_inspection *report;
    bo_model_sizes sizes;
    int32_t ids[TOKENS * WINDOWS];
    test_tokens(TOKENS * WINDOWS, ids);
    const bo_inspect_desc desc = {.tokens = TOKENS, .moments = true, .receive = accept};
    BO_TRY(bo_model_measure(s->context, s->model, 0, &sizes));
    BO_TRY(bo_inspect(s->context, s->model, ids, TOKENS * WINDOWS, &desc, &report));
    bo_inspection_destroy(report);
    return BO_OK;
}

static void out_of_memory(void **state)
{
    (void)state;
    static const char *const kinds[] = {"softmax", "dark"};
    for (size_t i = 0; i < 2; i++) {
        counting memory = {0};
        bo_context *context = counting_context(&memory, 1);
        bo_model_desc desc = test_desc(kinds[i]);
        desc.layers = 1;
        starving s = {context, test_model(context, &desc, NULL)};
        counting_inject(&(injection){&memory, context, inspect_once, &s, 60, i ? 997 : 499, "the sequences of a call"});
        bo_model_destroy((bo_model *)s.model);
        bo_context_destroy(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(refusals), cmocka_unit_test(every_kind),
                                       cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
