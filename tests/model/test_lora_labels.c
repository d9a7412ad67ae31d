/* Adapters of classification models: the classification head is trained too, saved with the adapter, merged and
 * restored. */
#include "adapted.h"
#include "labelers.h"

static bool names_labels(const char *name)
{
    return strncmp(name, "score.", 6) == 0 || strncmp(name, "match.", 6) == 0;
}

static size_t count_trained(const bo_model *model, bool labels)
{
    size_t count = 0;
    for (size_t i = 0; i < bo_weights_count(model->weights); i++) {
        const bo_weight *weight = bo_weights_at(model->weights, i);
        count += !weight->frozen && names_labels(weight->name) == labels;
    }
    return count;
}

/* Layers of a language model with a random classification head: the head is trained completely; in the other layers
 * only adapters are. */
static void trains_the_head_and_adapters_only(void **state)
{
    bo_context *context = ((test_directory *)*state)->context;
    const bo_model_desc spoken = test_desc("rfa");
    bo_model *language = test_model(context, &spoken, NULL);
    for (int task = BO_MODEL_TASK_CLASSIFY; task <= BO_MODEL_TASK_MATCH; task++) {
        const bo_model_desc desc = labeler_desc("rfa", (bo_model_task)task);
        bo_model *model;
        assert_ok(context, bo_model_create(context, &desc, NULL, &model));
        assert_ok(context, bo_model_adopt(context, model, language, NULL));
        bo_model *before;
        assert_ok(context, bo_model_create(context, &desc, NULL, &before));
        assert_ok(context, bo_model_adopt(context, before, language, NULL));
        assert_ok(context, bo_model_adapt(context, model, &(bo_lora_desc){.rank = 2, .targets = "q_proj"}));
        assert_int_equal(count_other(before, model), 0);
        assert_int_equal(count_trained(model, true), task == BO_MODEL_TASK_MATCH ? 3 : 1);
        assert_int_equal(count_trained(model, false), 2 * LAYERS);
        bo_model_destroy(model);
        assert_ok(context, bo_model_adapt(context, before, &(bo_lora_desc){.rank = 2, .whole = ""}));
        assert_int_equal(count_trained(before, true), task == BO_MODEL_TASK_MATCH ? 2 : 0); /* adapters of a matcher */
        bo_model_destroy(before);
    }
    bo_model_destroy(language);
}

static void files_keep_labels(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    char base[200], adapter[200], merged[200];
    snprintf(base, sizeof base, "%s", test_path(directory, "base"));
    snprintf(adapter, sizeof adapter, "%s", test_path(directory, "adapter"));
    snprintf(merged, sizeof merged, "%s", test_path(directory, "merged"));
    for (int init = BO_LORA_INIT_ZERO; init < 3; init++) {
        const bo_model_desc desc = labeler_desc("rfa", init ? BO_MODEL_TASK_MATCH : BO_MODEL_TASK_CLASSIFY);
        bo_model *model = test_model(context, &desc, NULL), *again, *whole, *unmerged, *first;
        assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = base}));
        const bo_lora_desc lora = {.rank = 2, .init = (bo_lora_init)init, .base = base};
        assert_ok(context, bo_model_adapt(context, model, &lora));
        move_adapters(model);
        assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = adapter}));
        assert_ok(context, bo_model_load(context, &(bo_source){.path = adapter},
                                         &(bo_model_load_desc){.adapters = BO_ADAPTERS_KEEP}, &again));
        assert_int_equal(count_other(model, again), 0);
        assert_int_equal(count_trained(again, true), init ? 3 : 1); /* the loaded model trains the same weights */
        assert_ok(context, bo_model_load(context, &(bo_source){.path = adapter}, NULL, &whole));
        assert_ok(context, bo_model_merge(context, again));
        assert_int_equal(count_other(whole, again), 0);
        assert_ok(context, bo_model_load(context, &(bo_source){.path = base}, NULL, &first));
        assert_true(memcmp(bo_weights_find(first->weights, "score.weight")->data,
                           bo_weights_find(whole->weights, "score.weight")->data,
                           CLASSES * desc.width * sizeof(float)));
        assert_ok(context, bo_model_save(context, again, &(bo_sink){.path = merged}));
        assert_ok(context, bo_model_load(context, &(bo_source){.path = merged},
                                         &(bo_model_load_desc){.adapters = BO_ADAPTERS_REMOVE}, &unmerged));
        assert_int_equal(count_other(first, unmerged), 0);
        assert_ok(context, bo_model_unmerge(context, again));
        assert_int_equal(count_other(model, again), 0);
        bo_model_destroy(model), bo_model_destroy(again), bo_model_destroy(whole);
        bo_model_destroy(unmerged), bo_model_destroy(first);
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, test_setup, directories_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {TEST(trains_the_head_and_adapters_only), TEST(files_keep_labels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
