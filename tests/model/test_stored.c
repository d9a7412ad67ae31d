/* Models with matrices stored as bfloat16, int8 or int4: they compute with the stored values in files, sessions and
 * evaluation; for inference only. */
#include "nn/enums.h"
#include "io/files.h"
#include "io/tensors.h"
#include "models.h"

static const bo_storage storages[] = {BO_STORAGE_BFLOAT16, BO_STORAGE_INT8, BO_STORAGE_INT4};
enum { STORAGES = sizeof storages / sizeof *storages };

static void fill_with(bo_context *context, bo_model *model, const bo_model *from)
{
    for (size_t i = 0; i < bo_weights_count(bo_model_weights(from)); i++) {
        const bo_weight info = *bo_weights_at(bo_model_weights(from), i);
        size_t count = 1;
        for (size_t r = 0; r < info.rank; r++) count *= info.shape[r];
        float *values = calloc(count, sizeof *values);
        assert_ok(context, bo_weights_get(context, bo_model_weights(from), info.name, values, NULL));
        assert_ok(context, bo_weights_set(context, bo_model_weights(model), info.name, values));
        free(values);
    }
}

/* Compares a stored model with a float32 model that has the same values: many rows differ by rounding only, few rows
 * also by the rounding of integers (2^-16 of the largest number for int8, 1/254 of the largest of a group for int4),
 * through two layers. */
static void check_kind(bo_context *context, const char *kind, bo_storage storage)
{
    bo_model_desc desc = test_desc(kind);
    bo_model *model = test_model(context, &desc, NULL), *twin = test_model(context, &desc, NULL);
    int32_t ids[CONTEXT + 1];
    float before[CONTEXT], whole[CONTEXT], same[CONTEXT], pieces[CONTEXT];
    bo_session *session;
    /* degree-3 multiplies three maps of rounded rows, without a normalizer */
    const double few_rows = storage != BO_STORAGE_INT4 ? 5e-3 : strcmp(kind, "degree-3") == 0 ? 1e-1 : 5e-2;
    double change = 0;
    test_tokens(CONTEXT + 1, ids);
    assert_ok(context, window_pass(context, model, ids, CONTEXT, NULL, before));
    assert_ok(context, bo_model_set_storage(context, model, storage));
    assert_int_equal(bo_model_report(model)->storage, storage);
    fill_with(context, twin, model);
    assert_ok(context, window_pass(context, model, ids, CONTEXT, NULL, whole));
    assert_ok(context, window_pass(context, twin, ids, CONTEXT, NULL, same));
    assert_ok(context,
              bo_session_create(context, model, &(bo_session_desc){.chunk = 4, .capacity = CONTEXT}, &session));
    assert_ok(context, bo_session_read(
                           context, session,
                           &(bo_session_reading){.ids = ids, .count = CONTEXT, .losses = pieces, .targets = ids + 1}));
    for (size_t i = 0; i < CONTEXT; i++) {
        change = fmax(change, fabs((double)whole[i] - (double)before[i]));
        if (!(fabs((double)whole[i] - (double)same[i]) <= 1e-4))
            fail_msg("%s as %s: loss %zu is %g, of the same numbers in float32 %g", kind, bo_storage_name(storage), i,
                     (double)whole[i], (double)same[i]);
        if (!(fabs((double)whole[i] - (double)pieces[i]) <= few_rows))
            fail_msg("%s as %s: loss %zu is %g, in pieces %g", kind, bo_storage_name(storage), i, (double)whole[i],
                     (double)pieces[i]);
    }
    if (!(change > 0 && change < (storage == BO_STORAGE_INT4 ? 1 : 0.5)))
        fail_msg("%s as %s: losses change by %g", kind, bo_storage_name(storage), change);
    bo_session_destroy(session);
    bo_model_destroy(model);
    bo_model_destroy(twin);
}

static void every_kind_computes_with_stored_weights(void **state)
{
    test_directory *directory = *state;
    for (size_t i = 0; test_kind(i); i++) check_kind(directory->context, test_kind(i), storages[i % STORAGES]);
    for (size_t i = 0; i < STORAGES; i++) check_kind(directory->context, "rfa-gate", storages[i]);
}

/* Loading with a storage gives the bits of loading and converting. */
static void stored_weights_are_loaded_directly(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_model_desc desc = test_desc("softmax");
    bo_model *model = test_model(context, &desc, NULL), *loaded, *converted;
    const char *path = test_path(directory, "model");
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = path}));
    for (size_t i = 0; i < STORAGES; i++) {
        uint64_t digests[2];
        assert_ok(context, bo_model_load(context, &(bo_source){.path = path},
                                         &(bo_model_load_desc){.storage = storages[i]}, &loaded));
        assert_ok(context, bo_model_load(context, &(bo_source){.path = path}, NULL, &converted));
        assert_ok(context, bo_model_set_storage(context, converted, storages[i]));
        assert_int_equal(bo_model_report(loaded)->storage, storages[i]);
        assert_int_equal(bo_model_report(loaded)->bytes, bo_model_report(converted)->bytes);
        assert_ok(context, bo_model_digest(context, loaded, &digests[0]));
        assert_ok(context, bo_model_digest(context, converted, &digests[1]));
        assert_true(digests[0] == digests[1]);
        bo_model_destroy(loaded);
        bo_model_destroy(converted);
    }
    assert_fails(context, BO_INVALID, "found float8",
                 bo_model_load(context, &(bo_source){.path = path}, &(bo_model_load_desc){.storage = BO_STORAGE_FLOAT8},
                               &loaded));
    assert_null(loaded);
    bo_model_destroy(model);
}

static void stored_weights_need_fewer_bytes(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_model_desc desc = test_desc("rfa-gate");
    desc.width = 128, desc.block.hidden = 512;
    static const double share[STORAGES] = {0.51, 0.28, 0.155};
    for (size_t i = 0; i < STORAGES; i++) {
        bo_model *model = test_model(context, &desc, NULL);
        double before = (double)bo_model_report(model)->bytes;
        uint64_t parameters = bo_model_report(model)->parameters;
        assert_ok(context, bo_model_set_storage(context, model, BO_STORAGE_FLOAT32)); /* unchanged */
        assert_true((double)bo_model_report(model)->bytes == before);
        assert_ok(context, bo_model_set_storage(context, model, storages[i]));
        assert_true((double)bo_model_report(model)->bytes < share[i] * before);
        assert_int_equal(bo_model_report(model)->parameters, parameters);
        bo_model_destroy(model);
    }
}

/* The file contains BF16 and loads to the same values. */
static void bfloat16_survives_saving_and_loading(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_model_desc desc = test_desc("softmax");
    desc.untied = true;
    bo_model *model = test_model(context, &desc, NULL), *read;
    int32_t ids[CONTEXT + 1];
    float first[CONTEXT], second[CONTEXT];
    bo_tensors *file;
    test_tokens(CONTEXT + 1, ids);
    assert_ok(context, bo_model_set_storage(context, model, BO_STORAGE_BFLOAT16));
    assert_ok(context, window_pass(context, model, ids, CONTEXT, NULL, first));
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory->path}));
    assert_ok(context, bo_tensors_open(context, test_path(directory, "model.safetensors"), &file));
    assert_int_equal(bo_tensors_find(file, "model.embed_tokens.weight")->dtype, BO_BF16);
    assert_int_equal(bo_tensors_find(file, "lm_head.weight")->dtype, BO_BF16);
    assert_int_equal(bo_tensors_find(file, "model.layers.1.self_attn.q_proj.weight")->dtype, BO_BF16);
    assert_int_equal(bo_tensors_find(file, "model.norm.weight")->dtype, BO_F32);
    bo_tensors_close(file);
    assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
    assert_int_equal(bo_model_report(read)->storage, BO_STORAGE_FLOAT32);
    assert_ok(context, bo_model_set_storage(context, read, BO_STORAGE_BFLOAT16));
    assert_ok(context, window_pass(context, read, ids, CONTEXT, NULL, second));
    assert_memory_equal(first, second, sizeof first);
    bo_model_destroy(model);
    bo_model_destroy(read);
}

static void what_cannot_be_is_refused(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_model_desc desc = test_desc("rfa-gate");
    bo_model *model = test_model(context, &desc, NULL), *other = test_model(context, &desc, NULL),
             *four = test_model(context, &desc, NULL);
    bo_model_graph graph;
    float values[VOCAB * 16];
    size_t copied;
    assert_fails(context, BO_INVALID, "float32, bfloat16, int8 or int4, found float8",
                 bo_model_set_storage(context, model, BO_STORAGE_FLOAT8));
    assert_fails(context, BO_INVALID, "an unknown storage",
                 bo_model_set_storage(context, model, (bo_storage)BO_STORAGE_COUNT));
    assert_fails(context, BO_INVALID, "NULL", bo_model_set_storage(context, NULL, BO_STORAGE_INT8));
    assert_ok(context, bo_model_set_storage(context, model, BO_STORAGE_INT8));
    assert_ok(context, bo_model_set_storage(context, model, BO_STORAGE_INT8)); /* already stored this way */
    assert_fails(context, BO_INVALID, "already stored in fewer bits",
                 bo_model_set_storage(context, model, BO_STORAGE_BFLOAT16));
    assert_fails(context, BO_UNSUPPORTED, "stored as int8, which cannot be written to a file",
                 bo_model_save(context, model, &(bo_sink){.path = directory->path}));
    assert_ok(context, bo_model_set_storage(context, four, BO_STORAGE_INT4));
    assert_int_equal(bo_model_report(four)->storage, BO_STORAGE_INT4);
    assert_fails(context, BO_UNSUPPORTED, "which cannot be written to a file",
                 bo_model_save(context, four, &(bo_sink){.path = directory->path}));
    assert_fails(context, BO_INVALID, "model.embed_tokens.weight' is stored in fewer bits, for inference only",
                 bo_weights_set(context, bo_model_weights(model), "model.embed_tokens.weight", values));
    assert_fails(context, BO_INVALID, "stored in fewer bits, for inference only: it has no gradient",
                 bo_model_graph_create(context, model,
                                       &(bo_model_graph_desc){.rows = 8, .loss = true, .gradients = true}, &graph));
    assert_fails(context, BO_INVALID, "cannot be trained", bo_weights_allocate(context, model->weights, true));
    assert_fails(context, BO_INVALID, "for inference only", bo_model_adopt(context, model, other, &copied));
    /* in the other direction: the dequantized values */
    assert_ok(context, bo_model_adopt(context, other, model, &copied));
    assert_int_equal(copied, bo_weights_count(bo_model_weights(model)));
    bo_model_destroy(model);
    bo_model_destroy(other);
    bo_model_destroy(four);
}

/* A state is valid only for the weights that produced it, in their storage format. */
static void states_record_the_storage(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_model_desc desc = test_desc("rfa-gate");
    int32_t ids[8];
    float logits[VOCAB], again[VOCAB];
    bo_session *session;
    test_tokens(8, ids);
    for (size_t i = 0; i < 3; i++) {
        bo_model *model = test_model(context, &desc, NULL);
        if (i < 2) assert_ok(context, bo_model_set_storage(context, model, BO_STORAGE_INT8));
        assert_ok(context, bo_session_create(context, model, NULL, &session));
        if (i == 0) assert_ok(context, bo_session_feed(context, session, ids, 8, logits));
        if (i == 0)
            assert_ok(context, bo_session_save(context, session, &(bo_sink){.path = test_path(directory, "state")}));
        if (i == 1)
            assert_ok(context, bo_session_load(context, session, &(bo_source){.path = test_path(directory, "state")}));
        if (i == 1) assert_ok(context, bo_session_feed(context, session, NULL, 0, again));
        if (i == 2)
            assert_int_not_equal(bo_session_load(context, session, &(bo_source){.path = test_path(directory, "state")}),
                                 BO_OK);
        bo_session_destroy(session);
        bo_model_destroy(model);
    }
    assert_memory_equal(logits, again, sizeof logits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_kind_computes_with_stored_weights, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(stored_weights_need_fewer_bytes, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(stored_weights_are_loaded_directly, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(bfloat16_survives_saving_and_loading, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_is_refused, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(states_record_the_storage, test_setup, test_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
