/* Adapters: the model starts unchanged, gradients reach only A and B, merging rounds once, unmerging restores the bits,
 * files store all parts, and mismatches are refused by name. */
#include "adapted.h"
#include "gradients.h"
#include "base/counting.h"
#include "io/files.h"
#include <bochner/data.h>
#include <unistd.h>

enum { ROWS = 2 * GRADIENT_WINDOW, RANK = 3 };

static bo_lora_desc lora_of(bo_lora_init init, const bo_corpus *data)
{
    return (bo_lora_desc){.rank = RANK, .alpha = 5, .init = init, .data = data, .sequences = 3, .seed = 2};
}

/* A corpus to compute gradients with. */
static bo_corpus *open_text(test_directory *directory, bo_tokenizer **tokenizer)
{
    const char *path = test_path(directory, "text");
    FILE *file = fopen(path, "w");
    for (int i = 0; i < 400; i++) fprintf(file, "%d times ", i * i);
    fclose(file);
    bo_corpus *corpus = NULL;
    assert_ok(directory->context, bo_tokenizer_create(directory->context, tokenizer));
    const bo_corpus_desc desc = {.paths = &path, .path_count = 1, .tokenizer = *tokenizer};
    assert_ok(directory->context, bo_corpus_open(directory->context, &desc, &corpus));
    return corpus;
}

static void losses_of(bo_context *context, const bo_model *model, float losses[CONTEXT])
{
    int32_t ids[CONTEXT + 1];
    test_tokens(CONTEXT + 1, ids);
    assert_ok(context, window_pass(context, model, ids, CONTEXT, NULL, losses));
}

/* Several hundred rounding errors of numbers of about 6. */
static void assert_same_losses(bo_context *context, const bo_model *a, const bo_model *b)
{
    float first[CONTEXT], second[CONTEXT];
    losses_of(context, a, first);
    losses_of(context, b, second);
    for (size_t i = 0; i < CONTEXT; i++) assert_close(first[i], second[i], 2e-5);
}

/* ---- initialization ---------------------------------------------------------------------------------------------- */

static void begins_as_the_base(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_tokenizer *tokenizer;
    bo_corpus *text = open_text(directory, &tokenizer);
    const bo_model_desc desc = test_desc("rfa-gate");
    bo_model *base = test_model(context, &desc, NULL);
    for (int init = 0; init < BO_LORA_INIT_COUNT; init++) {
        bo_model *model = test_model(context, &desc, NULL);
        const bo_lora_desc lora = lora_of((bo_lora_init)init, text);
        assert_ok(context, bo_model_adapt(context, model, &lora));
        assert_int_equal(count_other(base, model), 0);
        assert_same_losses(context, base, model);
        assert_ok(context, bo_model_merge(context, model)); /* B A - B0 A0 is zero, so no bit may change */
        assert_int_equal(bo_weights_count(bo_model_weights(model)), bo_weights_count(bo_model_weights(base)));
        assert_int_equal(count_other(base, model), 0);
        bo_model_destroy(model);
    }
    bo_model_destroy(base);
    bo_corpus_close(text);
    bo_tokenizer_destroy(tokenizer);
}

/* s B A from the singular vectors of the weight is their part of the weight: the rest W - s B A is orthogonal to the
 * rows of A. */
static void svd_takes_the_largest(void **state)
{
    bo_context *context = ((test_directory *)*state)->context;
    const bo_model_desc desc = test_desc("softmax");
    bo_model *model = test_model(context, &desc, NULL);
    bo_lora_desc lora = lora_of(BO_LORA_INIT_WEIGHT, NULL);
    lora.targets = "up_proj";
    assert_ok(context, bo_model_adapt(context, model, &lora));
    size_t sites = 0;
    for (size_t i = 0; i < bo_weights_count(model->weights); i++) {
        bo_lora_site site;
        if (!bo_lora_site_at(model->weights, i, &site)) continue;
        sites++;
        const float *w = site.weight->data, *a = site.a->data, *b = site.b->data;
        const size_t n = site.weight->columns;
        for (size_t row = 0; row < site.weight->rows; row++)
            for (size_t k = 0; k < RANK; k++) {
                double inner = 0;
                for (size_t j = 0; j < n; j++) {
                    double left = (double)w[row * n + j];
                    for (size_t r = 0; r < RANK; r++)
                        left -= 5.0 / RANK * (double)b[row * RANK + r] * (double)a[r * n + j];
                    inner += left * (double)a[k * n + j];
                }
                assert_close(inner, 0, 1e-5); /* rounding errors of numbers of size 1 */
            }
    }
    assert_int_equal(sites, LAYERS);
    bo_model_destroy(model);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static void gradients_of_a_and_b(void **state)
{
    bo_context *context = ((test_directory *)*state)->context;
    for (int init = 0; init < 2; init++) {
        bo_model_desc desc = test_desc(init ? "softmax" : "rfa-gate");
        desc.width = 8, desc.block.hidden = 12, desc.block.bias = init,
        desc.block.mlp = init ? BO_MLP_SWIGLU : BO_MLP_RELU2;
        if (!init) desc.block.attention.features.features = 8;
        bo_model *model = test_model(context, &desc, NULL);
        const bo_lora_desc lora = lora_of(init ? BO_LORA_INIT_RANDOM : BO_LORA_INIT_ZERO, NULL);
        assert_ok(context, bo_model_adapt(context, model, &lora));
        move_adapters(model);
        const reading r = reading_create(ROWS, &(bo_graph_pass){0});
        float *gradients = gradients_of(context, model, &r, init);
        bo_model_graph g = graph_create(context, model, &r, true, false);
        interpreter in = interpreter_of(context, &g, &r);
        size_t checked = 0;
        for (size_t i = 0; i < bo_weights_count(model->weights); i++)
            if (!bo_weights_at(model->weights, i)->frozen) check_weight(&in, "lora", i, gradients), checked++;
        assert_int_equal(checked, 2 * LAYERS * (init ? 7 : 6)); /* A and B of q, k, v, o and the MLP */
        interpreter_drop(&in);
        bo_model_graph_destroy(&g);
        free(gradients);
        bo_model_destroy(model);
    }
}

/* ---- merging ----------------------------------------------------------------------------------------------------- */

static void assert_merged(const bo_weight *merged, const bo_lora_site *site)
{
    const float *w = site->weight->data, *a = site->a->data, *b = site->b->data;
    const float *a0 = site->a0 ? site->a0->data : NULL, *b0 = site->b0 ? site->b0->data : NULL;
    const size_t n = site->weight->columns;
    for (size_t i = 0; i < site->weight->rows; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0, first = 0;
            for (size_t k = 0; k < RANK; k++) sum += (double)b[i * RANK + k] * (double)a[k * n + j];
            for (size_t k = 0; a0 && k < RANK; k++) first += (double)b0[i * RANK + k] * (double)a0[k * n + j];
            const float expected = (float)((double)w[i * n + j] + 5.0 / RANK * (sum - first));
            assert_true(((const float *)merged->data)[i * n + j] == expected);
        }
}

static void merged_and_back(void **state)
{
    bo_context *context = ((test_directory *)*state)->context;
    const bo_model_desc desc = test_desc("rfa-gate");
    for (int init = 0; init < 3; init++) {
        bo_model *model = test_model(context, &desc, NULL), *same = test_model(context, &desc, NULL);
        const bo_lora_desc lora = lora_of((bo_lora_init)init, NULL);
        const bo_model_info *info = bo_model_report(model), before = *info;
        assert_ok(context, bo_model_adapt(context, model, &lora));
        assert_ok(context, bo_model_adapt(context, same, &lora));
        assert_true(info->parameters > before.parameters && info->bytes > before.bytes);
        move_adapters(model);
        move_adapters(same);
        assert_fails(context, BO_INVALID, "no merged adapters", bo_model_unmerge(context, model));
        assert_ok(context, bo_model_merge(context, model));
        assert_fails(context, BO_INVALID, "already merged", bo_model_merge(context, model));
        assert_int_equal(info->parameters, before.parameters);
        assert_int_equal(info->bytes, before.bytes);
        assert_same_losses(context, model, same);
        size_t sites = 0;
        for (size_t i = 0; i < bo_weights_count(same->weights); i++) {
            bo_lora_site site;
            if (!bo_lora_site_at(same->weights, i, &site)) continue;
            assert_merged(bo_weights_find(model->weights, site.weight->name), &site);
            sites++;
        }
        assert_int_equal(count_other(model, same), sites);
        assert_ok(context, bo_model_unmerge(context, model));
        assert_int_equal(bo_weights_count(bo_model_weights(model)), bo_weights_count(bo_model_weights(same)));
        assert_int_equal(count_other(model, same), 0);
        bo_model_destroy(model);
        bo_model_destroy(same);
    }
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

typedef struct places {
    char base[200], adapter[200], merged[200];
} places;

static places places_in(test_directory *directory)
{
    places p;
    snprintf(p.base, sizeof p.base, "%s", test_path(directory, "base"));
    snprintf(p.adapter, sizeof p.adapter, "%s", test_path(directory, "adapter"));
    snprintf(p.merged, sizeof p.merged, "%s", test_path(directory, "merged"));
    return p;
}

static bo_model *adapted_in(bo_context *context, const places *p, const bo_lora_desc *lora)
{
    const bo_model_desc desc = test_desc("rfa-gate");
    bo_model *model = test_model(context, &desc, NULL);
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = p->base}));
    assert_ok(context, bo_model_adapt(context, model, lora));
    move_adapters(model);
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = p->adapter}));
    return model;
}

static void files_keep_everything(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    const places p = places_in(directory);
    for (int init = 0; init < 3; init++) {
        bo_lora_desc lora = lora_of((bo_lora_init)init, NULL);
        lora.base = p.base;
        lora.targets = init ? "*.self_attn.[qkvo]_proj,down_proj" : "q_proj,v_proj";
        bo_model *model = adapted_in(context, &p, &lora), *again, *merged, *base, *unmerged;
        assert_ok(context, bo_model_load(context, &(bo_source){.path = p.adapter},
                                         &(bo_model_load_desc){.adapters = BO_ADAPTERS_KEEP}, &again));
        assert_int_equal(bo_weights_count(bo_model_weights(again)), bo_weights_count(bo_model_weights(model)));
        assert_int_equal(count_other(model, again), 0);
        assert_ok(context, bo_model_load(context, &(bo_source){.path = p.adapter}, NULL, &merged));
        assert_ok(context, bo_model_merge(context, model));
        assert_int_equal(bo_weights_count(bo_model_weights(merged)), bo_weights_count(bo_model_weights(model)));
        assert_int_equal(count_other(model, merged), 0);
        assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = p.merged}));
        assert_ok(context, bo_model_load(context, &(bo_source){.path = p.base}, NULL, &base));
        assert_ok(context, bo_model_load(context, &(bo_source){.path = p.merged},
                                         &(bo_model_load_desc){.adapters = BO_ADAPTERS_REMOVE}, &unmerged));
        assert_int_equal(count_other(base, unmerged), 0);
        assert_true(count_other(base, merged) > 0);
        bo_model_destroy(model), bo_model_destroy(again), bo_model_destroy(merged);
        bo_model_destroy(base), bo_model_destroy(unmerged);
    }
    bo_model *none;
    assert_fails(context, BO_INVALID, "not a merged model",
                 bo_model_load(context, &(bo_source){.path = p.base},
                               &(bo_model_load_desc){.adapters = BO_ADAPTERS_REMOVE}, &none));
}

static void replace(const char *directory, const char *name, const char *text)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
}

static void refuses_mismatched_arguments(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    const places p = places_in(directory);
    bo_lora_desc lora = lora_of(BO_LORA_INIT_ZERO, NULL);
    bo_model_desc desc = test_desc("rfa-gate");
    bo_model *model = test_model(context, &desc, NULL), *base = test_model(context, &desc, NULL), *none;
    assert_fails(context, BO_INVALID, "no adapters", bo_model_merge(context, model));
    lora.rank = 0;
    assert_fails(context, BO_INVALID, "at least 1", bo_model_adapt(context, model, &lora));
    lora.rank = 17, lora.targets = "down_proj";
    assert_fails(context, BO_INVALID, "mlp.down_proj.weight (16 x 24): expected at most 16",
                 bo_model_adapt(context, model, &lora));
    lora.rank = 2, lora.targets = "q_proj,x_proj";
    assert_fails(context, BO_INVALID, "'x_proj'", bo_model_adapt(context, model, &lora));
    lora.targets = "";
    assert_fails(context, BO_INVALID, "no target layer", bo_model_adapt(context, model, &lora));
    lora.targets = NULL, lora.alpha = -1;
    assert_fails(context, BO_INVALID, "alpha", bo_model_adapt(context, model, &lora));
    lora.alpha = 0, lora.init = BO_LORA_INIT_GRADIENT;
    assert_fails(context, BO_INVALID, "text", bo_model_adapt(context, model, &lora));
    assert_int_equal(count_other(model, base), 0);
    assert_true(model->adapter == NULL &&
                bo_weights_count(bo_model_weights(model)) == bo_weights_count(bo_model_weights(base)));
    bo_model_destroy(model);

    lora = lora_of(BO_LORA_INIT_RANDOM, NULL);
    model = adapted_in(context, &p, &lora);
    assert_fails(context, BO_INVALID, "already", bo_model_adapt(context, model, &lora));
    assert_fails(context, BO_FORMAT, "does not name a base",
                 bo_model_load(context, &(bo_source){.path = p.adapter}, NULL, &none));
    bo_model_destroy(model);
    lora.base = p.base;
    model = adapted_in(context, &p, &lora);
    assert_ok(context, bo_model_save(context, base, &(bo_sink){.path = p.base})); /* the same */
    assert_ok(context, bo_model_load(context, &(bo_source){.path = p.adapter}, NULL, &none));
    bo_model_destroy(none);
    ((float *)bo_weights_at(base->weights, 0)->data)[0] += 1;
    assert_ok(context, bo_model_save(context, base, &(bo_sink){.path = p.base}));
    assert_fails(context, BO_FORMAT, "have changed",
                 bo_model_load(context, &(bo_source){.path = p.adapter}, NULL, &none));
    replace(p.adapter, "adapter_config.json",
            "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4, \"use_dora\": true}");
    assert_fails(context, BO_UNSUPPORTED, "use_dora",
                 bo_model_load(context, &(bo_source){.path = p.adapter}, NULL, &none));
    replace(p.adapter, "adapter_config.json", "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4}");
    assert_fails(context, BO_FORMAT, "target_modules",
                 bo_model_load(context, &(bo_source){.path = p.adapter}, NULL, &none));
    replace(p.adapter, "adapter_config.json", "{\"peft_type\": \"IA3\"}");
    assert_fails(context, BO_FORMAT, "IA3", bo_model_load(context, &(bo_source){.path = p.adapter}, NULL, &none));
    bo_model_destroy(model);
    bo_model_destroy(base);
}

/* ---- out of memory ----------------------------------------------------------------------------------------------- */

typedef struct work {
    places p;
    bo_model *adapted, *merged; /* made with enough memory */
} work;

static bo_status adapt_and_merge(bo_context *context, const work *w)
{
    bo_model *model;
    const bo_lora_desc lora = {.rank = 2, .init = BO_LORA_INIT_WEIGHT, .targets = "q_proj", .base = w->p.base};
    BO_TRY(bo_model_load(context, &(bo_source){.path = w->p.base}, NULL, &model));
    bo_status status = bo_model_adapt(context, model, &lora);
    if (status == BO_OK) status = bo_model_merge(context, model);
    bo_model_destroy(model);
    return status;
}

static bo_status save_adapted(bo_context *context, const work *w)
{
    return bo_model_save(context, w->adapted, &(bo_sink){.path = w->p.adapter});
}

static bo_status save_merged(bo_context *context, const work *w)
{
    return bo_model_save(context, w->merged, &(bo_sink){.path = w->p.merged});
}

static bo_status load_both(bo_context *context, const work *w)
{
    bo_model *model;
    BO_TRY(bo_model_load(context, &(bo_source){.path = w->p.adapter}, NULL, &model));
    bo_model_destroy(model);
    BO_TRY(bo_model_load(context, &(bo_source){.path = w->p.merged},
                         &(bo_model_load_desc){.adapters = BO_ADAPTERS_REMOVE}, &model));
    bo_model_destroy(model);
    return BO_OK;
}

static void starve(const char *what, const work *w, bo_status (*task)(bo_context *, const work *))
{
    for (size_t at = 1;; at++) {
        counting memory = {0};
        bo_context *context = counting_context(&memory, 1);
        const size_t before = atomic_load(&memory.live);
        memory.fail_at = atomic_load(&memory.calls) + at;
        const bo_status status = task(context, w);
        const bool reached = atomic_load(&memory.calls) >= memory.fail_at;
        if (atomic_load(&memory.live) != before) fail_msg("%s: allocation %zu failing leaks", what, at);
        if (status != (reached ? BO_MEMORY : BO_OK))
            fail_msg("%s: allocation %zu: %s", what, at, bo_context_error(context));
        bo_context_destroy(context);
        if (!reached) return;
    }
}

static void starved(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    work w = {.p = places_in(directory)};
    bo_model_desc desc = test_desc("softmax");
    const bo_lora_desc lora = {.rank = 2, .init = BO_LORA_INIT_WEIGHT, .targets = "q_proj", .base = w.p.base};
    desc.layers = 1, desc.width = 8;
    w.adapted = test_model(context, &desc, NULL), w.merged = test_model(context, &desc, NULL);
    assert_ok(context, bo_model_save(context, w.adapted, &(bo_sink){.path = w.p.base}));
    assert_ok(context, bo_model_adapt(context, w.adapted, &lora));
    assert_ok(context, bo_model_adapt(context, w.merged, &lora));
    assert_ok(context, bo_model_merge(context, w.merged));
    starve("adapt", &w, adapt_and_merge);
    starve("save an adapter", &w, save_adapted);
    starve("save a merged model", &w, save_merged);
    starve("load", &w, load_both);
    bo_model_destroy(w.adapted);
    bo_model_destroy(w.merged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(begins_as_the_base, test_setup, directories_teardown),
        cmocka_unit_test_setup_teardown(svd_takes_the_largest, test_setup, directories_teardown),
        cmocka_unit_test_setup_teardown(gradients_of_a_and_b, test_setup, directories_teardown),
        cmocka_unit_test_setup_teardown(merged_and_back, test_setup, directories_teardown),
        cmocka_unit_test_setup_teardown(files_keep_everything, test_setup, directories_teardown),
        cmocka_unit_test_setup_teardown(refuses_mismatched_arguments, test_setup, directories_teardown),
        cmocka_unit_test_setup_teardown(starved, test_setup, directories_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
