/* Adapters as PEFT stores them: the modules of transformers for layers that share one, and files that PEFT wrote.
 * tests/peers/test_peft.py compares with PEFT itself. */
#include "adapted.h"
#include "io/json.h"
#include "io/tensors.h"
#include "model/adapter.h"
#include <dirent.h>

enum { RANK = 3, MAX_TENSORS = 128 };

typedef struct places {
    char base[200], adapter[200], tensors[240], config[240];
} places;

static places places_in(test_directory *directory)
{
    places p;
    snprintf(p.base, sizeof p.base, "%s", test_path(directory, "base"));
    snprintf(p.adapter, sizeof p.adapter, "%s", test_path(directory, "adapter"));
    snprintf(p.tensors, sizeof p.tensors, "%s/adapter_model.safetensors", p.adapter);
    snprintf(p.config, sizeof p.config, "%s/adapter_config.json", p.adapter);
    return p;
}

/* A model that is written as GPT-2: q, k and v in one transposed matrix. */
static bo_model_desc gpt2_desc(void)
{
    bo_model_desc desc = test_desc("softmax");
    desc.block.mlp = BO_MLP_GELU_TANH, desc.block.norm = BO_NORM_LAYER, desc.block.positions = BO_POSITIONS_LEARNED,
    desc.block.bias = true;
    desc.block.hidden = 0, desc.block.query_norm = desc.block.output_norm = BO_CHOICE_NO;
    return desc;
}

/* Saves a base and loads it, with adapters that are not zero. */
static bo_model *adapted(bo_context *context, const places *p, const char *targets, bo_lora_init init)
{
    const bo_model_desc desc = gpt2_desc();
    const bo_lora_desc lora = {.rank = RANK, .alpha = 5, .targets = targets, .init = init, .seed = 2, .base = p->base};
    bo_model *made = test_model(context, &desc, NULL), *model;
    assert_ok(context, bo_model_save(context, made, &(bo_sink){.path = p->base}));
    bo_model_destroy(made);
    assert_ok(context, bo_model_load(context, &(bo_source){.path = p->base}, NULL, &model));
    assert_int_equal(model->family, BO_FAMILY_GPT2);
    assert_ok(context, bo_model_adapt(context, model, &lora));
    move_adapters(model);
    return model;
}

static char *text_of(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 15);
    assert_non_null(file);
    assert_true(fread(text, 1, (1 << 15) - 1, file) > 0);
    fclose(file);
    return text;
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    fputs(text, file);
    fclose(file);
}

/* Writes the tensors again without Bochner's metadata. */
static void write_as_peft(bo_context *context, const places *p)
{
    bo_tensors *file;
    bo_file_tensor tensors[MAX_TENSORS];
    assert_ok(context, bo_tensors_open(context, p->tensors, &file));
    const size_t count = bo_tensors_count(file);
    for (size_t i = 0; i < count; i++) {
        tensors[i] = *bo_tensors_at(file, i);
        void *copy = malloc(tensors[i].bytes);
        tensors[i].data = memcpy(copy, tensors[i].data, tensors[i].bytes);
        tensors[i].name = strdup(tensors[i].name);
    }
    bo_tensors_close(file);
    assert_ok(context, bo_tensors_write(context, p->tensors, tensors, count, (bo_meta[]){{"format", "pt"}}, 1));
    for (size_t i = 0; i < count; i++) {
        free((void *)(uintptr_t)tensors[i].data);
        free((void *)(uintptr_t)tensors[i].name);
    }
}

/* Weights of about 1 after sums of products that are rounded to float. */
static void assert_close_weights(const bo_model *a, const bo_model *b)
{
    assert_int_equal(bo_weights_count(bo_model_weights(a)), bo_weights_count(bo_model_weights(b)));
    for (size_t i = 0; i < bo_weights_count(a->weights); i++) {
        const bo_weight *w = bo_weights_at(a->weights, i), *v = bo_weights_find(b->weights, w->name);
        assert_non_null(v);
        for (size_t j = 0; j < numbers_of(w); j++)
            if (!(fabs((double)((const float *)w->data)[j] - (double)((const float *)v->data)[j]) < 1e-6))
                fail_msg("%s differs in number %zu", w->name, j);
    }
}

/* ---- written by Bochner ------------------------------------------------------------------------------------------ */

static void shared_modules(void **state)
{
    static const struct {
        const char *targets;
        size_t modules, rank; /* of c_attn */
    } cases[] = {{"all", 4, 3 * RANK}, {"q_proj,v_proj", 1, 2 * RANK}, {"k_proj,down_proj", 2, RANK}};
    test_directory *directory = *state;
    bo_context *context = directory->context;
    const places p = places_in(directory);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int init = 0; init < 2; init++) {
            bo_model *model = adapted(context, &p, cases[i].targets, (bo_lora_init)init), *again;
            const size_t ranks = init ? 2 : 1;
            bo_tensors *file;
            const bo_file_tensor *tensor;
            assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = p.adapter}));
            assert_ok(context, bo_tensors_open(context, p.tensors, &file));
            assert_int_equal(bo_tensors_count(file), 2 * LAYERS * cases[i].modules);
            const size_t a[] = {ranks * cases[i].rank, 16}, b[] = {48, ranks * cases[i].rank};
            assert_ok(context,
                      bo_tensors_require(context, file, "base_model.model.transformer.h.1.attn.c_attn.lora_A.weight",
                                         BO_F32, 2, a, &tensor));
            assert_ok(context,
                      bo_tensors_require(context, file, "base_model.model.transformer.h.1.attn.c_attn.lora_B.weight",
                                         BO_F32, 2, b, &tensor));
            bo_tensors_close(file);
            /* the same adapters, bit for bit */
            assert_ok(context, bo_model_load(context, &(bo_source){.path = p.adapter},
                                             &(bo_model_load_desc){.adapters = BO_ADAPTERS_KEEP}, &again));
            assert_int_equal(bo_weights_count(bo_model_weights(again)), bo_weights_count(bo_model_weights(model)));
            assert_int_equal(count_other(model, again), 0);
            bo_model_destroy(again);
            /* the same weights if read as PEFT does: one adapter of the full rank for q, k and v */
            write_as_peft(context, &p);
            assert_ok(context, bo_model_load(context, &(bo_source){.path = p.adapter}, NULL, &again));
            assert_ok(context, bo_model_merge(context, model));
            assert_close_weights(model, again);
            bo_model_destroy(again);
            bo_model_destroy(model);
        }
}

/* Renames the tensors of an adapter to the names of Bochner's layers, as earlier versions wrote them. */
static void write_as_earlier(bo_context *context, const places *p, const bo_model *model)
{
    bo_tensors *file;
    bo_file_tensor tensors[MAX_TENSORS];
    char names[MAX_TENSORS][200];
    size_t count = 0;
    assert_ok(context, bo_tensors_open(context, p->tensors, &file));
    for (size_t i = 0; i < bo_weights_count(model->weights); i++) {
        bo_lora_site site;
        if (!bo_lora_site_at(model->weights, i, &site)) continue;
        for (int b = 0; b < 2; b++, count++) {
            const bo_weight *part = b ? site.b : site.a;
            assert_true(count < MAX_TENSORS);
            snprintf(names[count], sizeof names[count], "base_model.model.%.*s.lora_%c.weight",
                     (int)(strlen(site.weight->name) - strlen(".weight")), site.weight->name, b ? 'B' : 'A');
            tensors[count] = (bo_file_tensor){.name = names[count],
                                              .dtype = BO_F32,
                                              .rank = 2,
                                              .shape = {part->rows, part->columns},
                                              .data = part->data,
                                              .bytes = numbers_of(part) * sizeof(float)};
        }
    }
    char digest[32];
    snprintf(digest, sizeof digest, "%s", bo_tensors_meta(file, "bochner.base"));
    bo_tensors_close(file);
    const bo_meta metadata[] = {{"format", "pt"},
                                {"bochner.init", "zero"},
                                {"bochner.base", digest},
                                {"bochner.targets", model->adapter->lora.targets}};
    assert_ok(context,
              bo_tensors_write(context, p->tensors, tensors, count, metadata, sizeof metadata / sizeof *metadata));
}

static void assert_reads(bo_context *context, const places *p, const bo_model *model, const char *name)
{
    bo_model *again;
    if (bo_model_load(context, &(bo_source){.path = p->adapter}, &(bo_model_load_desc){.adapters = BO_ADAPTERS_KEEP},
                      &again) != BO_OK)
        fail_msg("%s: %s", name, bo_context_error(context));
    assert_int_equal(bo_weights_count(bo_model_weights(again)), bo_weights_count(bo_model_weights(model)));
    if (count_other(model, again)) fail_msg("%s: the adapter differs", name);
    bo_model_destroy(again);
}

/* Adapters of every family in tests/data/families. Families share some names of layers with Bochner, such as q_proj in
 * phi, whose other names differ. */
static void every_family(void **state)
{
    static const char *const targets[] = {"all", "q_proj,o_proj", "v_proj,down_proj"};
    test_directory *directory = *state;
    bo_context *context = directory->context;
    places p = places_in(directory);
    const char *source = getenv("BOCHNER_SOURCE");
    char families[512];
    size_t found = 0;
    snprintf(families, sizeof families, "%s/tests/data/families", source ? source : ".");
    DIR *all = opendir(families);
    assert_non_null(all);
    for (const struct dirent *entry; (entry = readdir(all));) {
        char base[1024];
        if (entry->d_name[0] == '.') continue;
        snprintf(base, sizeof base, "%s/%s", families, entry->d_name);
        for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
            const bo_lora_desc lora = {.rank = RANK, .alpha = 5, .targets = targets[i], .seed = 2, .base = base};
            bo_model *model;
            assert_ok(context, bo_model_load(context, &(bo_source){.path = base}, NULL, &model));
            assert_ok(context, bo_model_adapt(context, model, &lora));
            move_adapters(model);
            assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = p.adapter}));
            assert_reads(context, &p, model, entry->d_name);
            write_as_earlier(context, &p, model);
            assert_reads(context, &p, model, entry->d_name);
            bo_model_destroy(model);
        }
        found++;
    }
    closedir(all);
    assert_true(found >= 20);
}

static void config_of_shared(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    const places p = places_in(directory);
    bo_model *model = adapted(context, &p, "q_proj,v_proj,o_proj", BO_LORA_INIT_ZERO);
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = p.adapter}));
    char *text = text_of(p.config);
    static const char *const members[] = {
        ("\"target_modules\": [\"transformer.h.0.attn.c_attn\", \"transformer.h.0.attn.c_proj\", "
         "\"transformer.h.1.attn.c_attn\", \"transformer.h.1.attn.c_proj\"]"),
        "\"rank_pattern\": {\"transformer.h.0.attn.c_attn\": 6, \"transformer.h.1.attn.c_attn\": 6}",
        "\"alpha_pattern\": {\"transformer.h.0.attn.c_attn\": 10, \"transformer.h.1.attn.c_attn\": 10}",
        "\"fan_in_fan_out\": true",
        "\"r\": 3",
        "\"lora_alpha\": 5"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (!strstr(text, members[i])) fail_msg("expected %s, found %s", members[i], text);
    free(text);
    bo_model_destroy(model);
}

/* ---- written by PEFT --------------------------------------------------------------------------------------------- */

static void settings(void **state)
{
    static const struct {
        const char *members;
        double q, o; /* factors of B A, relative to α / r of c_attn and c_proj */
    } cases[] = {
        {"\"r\": 3, \"lora_alpha\": 5, \"target_modules\": \".*\"", 5.0 / 3, 5.0 / 3},
        {"\"r\": 7, \"lora_alpha\": 7, \"target_modules\": \"all-linear\"", 7.0 / 3, 7.0 / 3},
        {"\"r\": 3, \"lora_alpha\": 6, \"use_rslora\": true, \"target_modules\": [\"c_attn\"]", 3.4641016151377544,
         3.4641016151377544},
        {"\"r\": 3, \"lora_alpha\": 3, \"alpha_pattern\": {\"c_.roj\": 9, \"attn.*\": 1}, \"target_modules\": \"x\"",
         1.0 / 3, 3},
        {"\"r\": 3, \"lora_alpha\": 3, \"alpha_pattern\": {\"ttn.c_proj\": 9, \"h.[01].attn.c_attn\": 2}, "
         "\"target_modules\": \"x\", \"bias\": \"none\", \"init_lora_weights\": \"gaussian\"",
         2.0 / 3, 1},
    };
    test_directory *directory = *state;
    bo_context *context = directory->context;
    const places p = places_in(directory);
    bo_model *model = adapted(context, &p, "k_proj,o_proj", BO_LORA_INIT_ZERO), *base, *read;
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = p.adapter}));
    write_as_peft(context, &p);
    assert_ok(context, bo_model_load(context, &(bo_source){.path = p.base}, NULL, &base));
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char text[2048];
        snprintf(text, sizeof text, "{\"peft_type\": \"LORA\", \"base_model_name_or_path\": \"%s\", %s}", p.base,
                 cases[c].members);
        write_text(p.config, text);
        assert_ok(context, bo_model_load(context, &(bo_source){.path = p.adapter}, NULL, &read));
        for (size_t i = 0; i < bo_weights_count(model->weights); i++) {
            bo_lora_site site;
            if (!bo_lora_site_at(model->weights, i, &site)) continue;
            const float *w0 = bo_weights_find(base->weights, site.weight->name)->data,
                        *w = bo_weights_find(read->weights, site.weight->name)->data, *a = site.a->data,
                        *b = site.b->data;
            const double factor = strstr(site.weight->name, "k_proj") ? cases[c].q : cases[c].o;
            for (size_t j = 0; j < numbers_of(site.weight); j++) {
                double sum = 0;
                for (size_t k = 0; k < RANK; k++)
                    sum += (double)b[j / site.a->columns * RANK + k] *
                           (double)a[k * site.a->columns + j % site.a->columns];
                assert_close(w[j], w0[j] + factor * sum, 1e-5);
            }
        }
        bo_model_destroy(read);
    }
    bo_model_destroy(base);
    bo_model_destroy(model);
}

static void refusals(void **state)
{
    static const struct {
        const char *members, *message;
        bo_status status;
    } cases[] = {
        {"\"use_dora\": true", "'use_dora' is set", BO_UNSUPPORTED},
        {"\"bias\": \"all\"", "'bias' is set", BO_UNSUPPORTED},
        {"\"lora_bias\": true", "'lora_bias' is set", BO_UNSUPPORTED},
        {"\"target_parameters\": [\"x\"]", "'target_parameters' is set", BO_UNSUPPORTED},
        {"\"layer_replication\": [[0, 1]]", "'layer_replication' is set", BO_UNSUPPORTED},
        {"\"init_lora_weights\": \"pissa_niter_4\"", "'init_lora_weights' is pissa_niter_4", BO_UNSUPPORTED},
        {"\"alpha_pattern\": [1]", "'alpha_pattern': expected an object", BO_FORMAT},
        {"\"alpha_pattern\": {\"q\": -1}", "'alpha_pattern': 'q': expected a number above 0", BO_FORMAT},
        {"\"alpha_pattern\": {\"(\": 1}", "'alpha_pattern'", BO_UNSUPPORTED},
    };
    test_directory *directory = *state;
    bo_context *context = directory->context;
    const places p = places_in(directory);
    bo_model *model = adapted(context, &p, "q_proj", BO_LORA_INIT_ZERO), *none;
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = p.adapter}));
    write_as_peft(context, &p);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2048];
        snprintf(text, sizeof text,
                 "{\"peft_type\": \"LORA\", \"base_model_name_or_path\": \"%s\", \"r\": 3, \"lora_alpha\": 3, "
                 "\"target_modules\": [\"c_attn\"], %s}",
                 p.base, cases[i].members);
        write_text(p.config, text);
        const bo_status status = bo_model_load(context, &(bo_source){.path = p.adapter}, NULL, &none);
        if (status == BO_OK || !strstr(bo_context_error(context), cases[i].message))
            fail_msg("%s: %s", cases[i].members, status ? bo_context_error(context) : "loaded");
        assert_null(none);
    }
    /* tensors that match no layer */
    const float zeros[3 * 16] = {0};
    const bo_file_tensor other[] = {
        {"base_model.model.transformer.h.0.attn.c_attn.lora_magnitude_vector", BO_F32, 1, {48}, zeros, 192},
        {"base_model.model.transformer.h.9.attn.c_attn.lora_A.weight", BO_F32, 2, {3, 16}, zeros, 192},
        {"base_model.model.transformer.wte.lora_embedding_A", BO_F32, 2, {3, 16}, zeros, 192},
        {"transformer.h.0.attn.c_attn.lora_A.weight", BO_F32, 2, {3, 16}, zeros, 192}};
    assert_ok(context, bo_tensors_write(context, p.tensors, other, 4, NULL, 0));
    write_text(p.config, "{\"peft_type\": \"LORA\", \"r\": 3, \"lora_alpha\": 3, \"target_modules\": [\"c_attn\"]}");
    assert_fails(context, BO_FORMAT, "does not name a base",
                 bo_model_load(context, &(bo_source){.path = p.adapter}, NULL, &none));
    char text[512];
    snprintf(text, sizeof text,
             "{\"peft_type\": \"LORA\", \"base_model_name_or_path\": \"%s\", \"r\": 3, \"lora_alpha\": 3, "
             "\"target_modules\": [\"c_attn\"]}",
             p.base);
    write_text(p.config, text);
    assert_fails(context, BO_FORMAT,
                 "tensors that match no layer of the base (4): base_model.model.transformer.h.0.attn",
                 bo_model_load(context, &(bo_source){.path = p.adapter}, NULL, &none));
    assert_ok(context, bo_tensors_write(context, p.tensors, NULL, 0, NULL, 0));
    assert_fails(context, BO_FORMAT, "found none",
                 bo_model_load(context, &(bo_source){.path = p.adapter}, NULL, &none));
    unlink(p.tensors);
    snprintf(text, sizeof text, "%s/adapter_model.bin", p.adapter);
    write_text(text, "PK");
    assert_fails(context, BO_UNSUPPORTED, "adapter_model.bin",
                 bo_model_load(context, &(bo_source){.path = p.adapter}, NULL, &none));
    bo_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(shared_modules, test_setup, directories_teardown),
        cmocka_unit_test_setup_teardown(every_family, test_setup, directories_teardown),
        cmocka_unit_test_setup_teardown(config_of_shared, test_setup, directories_teardown),
        cmocka_unit_test_setup_teardown(settings, test_setup, directories_teardown),
        cmocka_unit_test_setup_teardown(refusals, test_setup, directories_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
