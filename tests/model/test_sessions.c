/* Sessions: reading token by token, in pieces or at once gives the same result for every kind of attention; states can
 * be saved in files and are refused by other models. */
#include "nn/enums.h"
#include "io/tensors.h"
#include "io/files.h"
#include "models.h"

static void score_in(bo_context *context, bo_session *session, const int32_t *ids, const size_t *pieces, float *losses)
{
    size_t at = 0;
    for (size_t i = 0; pieces[i]; i++) {
        assert_ok(
            context,
            bo_session_read(context, session,
                            &(bo_session_reading){
                                .ids = ids + at, .count = pieces[i], .losses = losses + at, .targets = ids + at + 1}));
        at += pieces[i];
    }
    assert_int_equal(at, CONTEXT);
    assert_int_equal(bo_session_tokens(session), CONTEXT);
}

/* Losses are about log 256 = 5.5 and pass two layers of float32 sums of dozens of terms: errors of a few 1e-6; ridge
 * attention also solves linear systems. */
static void check_splits(bo_context *context, const char *preset, const bo_model *model)
{
    static const size_t splits[][CONTEXT + 1] = {{CONTEXT}, {1, 1, 1, 5, 13, 27}, {31, 17}};
    int32_t ids[CONTEXT + 1];
    float whole[CONTEXT], losses[CONTEXT];
    test_tokens(CONTEXT + 1, ids);
    assert_ok(context, window_pass(context, model, ids, CONTEXT, NULL, whole));
    for (size_t s = 0; s < sizeof splits / sizeof *splits; s++) {
        bo_session *session;
        bo_session_desc desc = {.chunk = s == 1 ? 12 : 0};
        assert_ok(context, bo_session_create(context, model, &desc, &session));
        score_in(context, session, ids, splits[s], losses);
        for (size_t i = 0; i < CONTEXT; i++)
            if (!(fabsf(losses[i] - whole[i]) <= 2e-4f))
                fail_msg("%s, split %zu, token %zu: %g, expected %g", preset, s, i, (double)losses[i],
                         (double)whole[i]);
        bo_session_destroy(session);
    }
}

static void test_splits(void **unused)
{
    (void)unused;
    bo_context *context = test_context(2);
    for (size_t i = 0; test_kind(i); i++) {
        const char *preset = test_kind(i);
        bo_model_desc desc = test_desc(preset);
        bo_model *model = test_model(context, &desc, NULL);
        check_splits(context, preset, model);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

static void test_positions(void **unused)
{
    (void)unused;
    bo_context *context = test_context(1);
    for (int p = 0; p < BO_POSITIONS_COUNT; p++) {
        bo_model_desc desc = test_desc("rfa-gate");
        desc.block.positions = (bo_positions)p;
        desc.block.norm = p % 2 ? BO_NORM_LAYER : BO_NORM_RMS;
        desc.block.mlp = (bo_mlp)p;
        desc.block.bias = p % 2;
        desc.untied = p > 2;
        desc.dropout = 0.25; /* inactive outside of training */
        bo_model *model = test_model(context, &desc, NULL);
        check_splits(context, bo_positions_name(desc.block.positions), model);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

/* The logits after the last token agree with the loss: -log softmax(logits)[target]. */
static void test_logits(void **unused)
{
    (void)unused;
    bo_context *context = test_context(1);
    bo_model_desc desc = test_desc("softmax");
    bo_model *model = test_model(context, &desc, NULL);
    bo_session *session;
    int32_t ids[CONTEXT + 1];
    float whole[CONTEXT], logits[VOCAB], again[VOCAB];
    test_tokens(CONTEXT + 1, ids);
    assert_ok(context, window_pass(context, model, ids, CONTEXT, NULL, whole));
    assert_ok(context, bo_session_create(context, model, NULL, &session));
    assert_fails(context, BO_INVALID, "no logits", bo_session_feed(context, session, ids, 0, logits));
    for (size_t at = 0, piece = 1; at < CONTEXT; at += piece, piece = piece % 7 + 1) {
        if (piece > CONTEXT - at) piece = CONTEXT - at;
        assert_ok(context, bo_session_feed(context, session, ids + at, piece, logits));
        double total = 0;
        for (size_t i = 0; i < VOCAB; i++) total += exp((double)logits[i]);
        assert_close(log(total) - (double)logits[ids[at + piece]], (double)whole[at + piece - 1], 1e-4);
    }
    assert_ok(context, bo_session_feed(context, session, NULL, 0, again));
    assert_memory_equal(logits, again, sizeof logits);
    bo_session_destroy(session);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* The logits after every token are those of feeding the tokens one by one. Sums of dozens of terms in float32 differ by
 * a few 1e-6 if they are grouped differently. */
static void test_all_logits(void **unused)
{
    (void)unused;
    enum { BEFORE = 3 };
    static float all[CONTEXT * VOCAB], one[VOCAB], last[VOCAB];
    bo_context *context = test_context(2);
    bo_model_desc desc = test_desc("rfa-gate");
    bo_model *model = test_model(context, &desc, NULL);
    bo_session *session, *reader;
    int32_t ids[CONTEXT];
    test_tokens(CONTEXT, ids);
    assert_ok(context, bo_session_create(context, model, NULL, &session));
    assert_ok(context, bo_session_create(context, model, NULL, &reader));
    assert_ok(context, bo_session_feed(context, session, ids, BEFORE, NULL));
    assert_ok(context,
              bo_session_read(context, session,
                              &(bo_session_reading){.ids = ids + BEFORE, .count = CONTEXT - BEFORE, .logits = all}));
    assert_int_equal(bo_session_tokens(session), CONTEXT);
    for (size_t i = 0; i < CONTEXT; i++) {
        assert_ok(context, bo_session_feed(context, reader, ids + i, 1, one));
        for (size_t v = 0; v < VOCAB && i >= BEFORE; v++)
            assert_close((double)all[(i - BEFORE) * VOCAB + v], (double)one[v], 2e-5);
    }
    assert_ok(context, bo_session_feed(context, session, NULL, 0, last));
    assert_memory_equal(last, all + (CONTEXT - BEFORE - 1) * VOCAB, sizeof last);
    assert_ok(context, bo_session_read(context, session, &(bo_session_reading){.count = 0}));
    bo_session_destroy(reader);
    bo_session_destroy(session);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

static void test_refused(void **unused)
{
    (void)unused;
    bo_context *context = test_context(1);
    bo_model_desc desc = test_desc("softmax");
    bo_model *model = test_model(context, &desc, NULL);
    bo_session *session;
    int32_t ids[2 * CONTEXT] = {0}, bad[] = {1, VOCAB}, negative[] = {-1};
    float losses[2];
    assert_fails(context, BO_INVALID, "chunk must be",
                 bo_session_create(context, model, &(bo_session_desc){.chunk = 1 << 20}, &session));
    assert_ok(context, bo_session_create(context, model, &(bo_session_desc){.capacity = CONTEXT + 8}, &session));
    assert_fails(context, BO_INVALID, "token 1 should be an id below 256",
                 bo_session_feed(context, session, bad, 2, NULL));
    assert_fails(context, BO_INVALID, "token 0", bo_session_feed(context, session, negative, 1, NULL));
    assert_fails(context, BO_INVALID, "target 1",
                 bo_session_read(context, session,
                                 &(bo_session_reading){.ids = ids, .count = 2, .losses = losses, .targets = bad}));
    assert_ok(context,
              bo_session_read(context, session,
                              &(bo_session_reading){.ids = ids, .count = 1, .losses = losses, .targets = negative}));
    assert_true(losses[0] == 0);
    assert_int_equal(bo_session_remaining(session), CONTEXT + 7);
    assert_ok(context, bo_session_feed(context, session, ids, CONTEXT + 7, NULL));
    assert_int_equal(bo_session_remaining(session), 0);
    assert_fails(context, BO_INVALID, "capacity is 56 tokens", bo_session_feed(context, session, ids, 1, NULL));
    assert_ok(context, bo_session_reset(context, session));
    assert_ok(context, bo_session_feed(context, session, ids, 1, NULL));
    bo_session_destroy(session);
    bo_model_destroy(model);
    desc.block.positions = BO_POSITIONS_LEARNED;
    model = test_model(context, &desc, NULL);
    assert_ok(context, bo_session_create(context, model, &(bo_session_desc){.capacity = 100}, &session));
    assert_int_equal(bo_session_remaining(session), CONTEXT);
    assert_fails(context, BO_INVALID, "only 48 positions", bo_session_feed(context, session, ids, CONTEXT + 1, NULL));
    bo_session_destroy(session);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void check_file(test_directory *directory, const char *preset)
{
    bo_context *context = directory->context;
    bo_model_desc desc = test_desc(preset);
    bo_model *model = test_model(context, &desc, NULL);
    bo_session *one, *two;
    int32_t ids[CONTEXT];
    float expected[VOCAB], found[VOCAB];
    const char *path = test_path(directory, "state");
    bool grows = desc.block.mixer == BO_MIXER_ATTENTION &&
                 (desc.block.attention.kind == BO_ATTENTION_SOFTMAX || desc.block.attention.kind == BO_ATTENTION_POWER);
    test_tokens(CONTEXT, ids);
    assert_ok(context, bo_session_create(context, model, NULL, &one));
    assert_ok(context, bo_session_create(context, model, &(bo_session_desc){.capacity = 100}, &two));
    assert_ok(context, bo_session_feed(context, one, ids, 17, expected));
    assert_ok(context, bo_session_save(context, one, &(bo_sink){.path = path}));
    uint64_t tokens;
    assert_ok(context, bo_session_peek(context, &(bo_source){.path = path}, &tokens));
    assert_int_equal(tokens, 17);
    assert_ok(context, bo_session_feed(context, two, ids, 3, NULL));
    assert_ok(context, bo_session_load(context, two, &(bo_source){.path = path}));
    assert_int_equal(bo_session_tokens(two), 17);
    assert_ok(context, bo_session_feed(context, two, NULL, 0, found));
    assert_memory_equal(expected, found, sizeof found);
    for (size_t i = 17; i < 30; i++) {
        assert_ok(context, bo_session_feed(context, one, ids + i, 1, expected));
        assert_ok(context, bo_session_feed(context, two, ids + i, 1, found));
        assert_memory_equal(expected, found, sizeof found);
    }
    bo_session_destroy(two);
    if (grows) {
        assert_ok(context, bo_session_create(context, model, &(bo_session_desc){.capacity = 10}, &two));
        assert_fails(context, BO_INVALID, "capacity of the session is 10",
                     bo_session_load(context, two, &(bo_source){.path = path}));
        bo_session_destroy(two);
    }
    bo_session_destroy(one);
    bo_model_destroy(model);
}

static void test_files(void **state)
{
    for (size_t i = 0; test_kind(i); i++) check_file(*state, test_kind(i));
}

static void test_files_refused(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_model_desc desc = test_desc("rfa-gate");
    bo_model *model = test_model(context, &desc, NULL), *other;
    bo_session *session;
    int32_t ids[CONTEXT];
    float logits[VOCAB], after[VOCAB];
    const char *path = test_path(directory, "state");
    test_tokens(CONTEXT, ids);
    assert_ok(context, bo_session_create(context, model, NULL, &session));
    assert_ok(context, bo_session_feed(context, session, ids, 9, logits));
    assert_ok(context, bo_session_save(context, session, &(bo_sink){.path = path}));
    bo_session_destroy(session);
    desc.block.attention.features.seed = 99; /* another draw */
    other = test_model(context, &desc, NULL);
    assert_ok(context, bo_session_create(context, other, NULL, &session));
    assert_ok(context, bo_session_feed(context, session, ids, 5, logits));
    assert_fails(context, BO_INVALID, "another model", bo_session_load(context, session, &(bo_source){.path = path}));
    assert_fails(context, BO_FORMAT, "expected the state of a session",
                 (bo_tensors_write(context, test_path(directory, "x"), NULL, 0, NULL, 0),
                  bo_session_load(context, session, &(bo_source){.path = test_path(directory, "x")})));
    FILE *file = fopen(path, "rb");
    static char bytes[1 << 20];
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (size_t cut = 0; cut < size; cut += size / 50 + 1)
        assert_true(bo_session_load(context, session, &(bo_source){.path = test_write(directory, "cut", bytes, cut)}) ==
                    BO_FORMAT);
    assert_int_equal(bo_session_tokens(session), 5); /* unchanged */
    assert_ok(context, bo_session_feed(context, session, NULL, 0, after));
    assert_memory_equal(logits, after, sizeof after);
    bo_session_destroy(session);
    bo_model_destroy(other);
    bo_model_destroy(model);
}

/* Sets a float of a tensor in the bytes of a state, and its checksum. */
static void set_number(bo_context *context, char *bytes, size_t size, const char *name, size_t at, float value)
{
    bo_tensors *file;
    assert_ok(context, bo_tensors_open_memory(context, "state", bytes, size, &file));
    const bo_file_tensor *tensor = bo_tensors_find(file, name);
    assert_true(tensor && at + sizeof value <= tensor->bytes);
    memcpy(bytes + ((const char *)tensor->data - bytes) + at, &value, sizeof value);
    bo_tensors_close(file);
    bo_tensors_seal(bytes, size);
}

/* NaN and infinity are refused when a state is loaded, not when they reach an output. */
static void test_numbers_refused(void **unused)
{
    (void)unused;
    static const char *const kinds[] = {"rfa-gate", "softmax", "hybrid", "delta", "ridge"};
    bo_context *context = test_context(1);
    int32_t ids[CONTEXT];
    test_tokens(CONTEXT, ids);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bo_model_desc desc = test_desc(kinds[i]);
        bo_model *model = test_model(context, &desc, NULL);
        bo_session *session;
        void *bytes;
        size_t size;
        assert_ok(context, bo_session_create(context, model, NULL, &session));
        assert_ok(context, bo_session_feed(context, session, ids, 9, NULL));
        assert_ok(context, bo_session_save(context, session, &(bo_sink){.bytes = &bytes, .size = &size}));
        set_number(context, bytes, size, "logits", 4, 1);
        assert_ok(context, bo_session_load(context, session, &(bo_source){.bytes = bytes, .size = size}));
        set_number(context, bytes, size, "logits", 4, INFINITY);
        assert_fails(context, BO_FORMAT, "logits",
                     bo_session_load(context, session, &(bo_source){.bytes = bytes, .size = size}));
        set_number(context, bytes, size, "logits", 4, 1);
        set_number(context, bytes, size, "states.1", 64, NAN);
        assert_fails(context, BO_FORMAT, "layer 1",
                     bo_session_load(context, session, &(bo_source){.bytes = bytes, .size = size}));
        bo_free(bytes);
        bo_session_destroy(session);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

/* A state-space layer whose numbers overflow: its state is not written, because it could not be read. */
static void test_overflow_not_saved(void **unused)
{
    (void)unused;
    enum { MIN_BYTES = 64 };
    bo_context *context = test_context(1);
    int32_t ids[CONTEXT];
    bo_model_desc desc = test_desc("rfa-gate");
    bo_session *session;
    bo_tensors *file;
    void *bytes, *again;
    size_t size;
    desc.block.mixer = BO_MIXER_SSM;
    test_tokens(CONTEXT, ids);
    bo_model *model = test_model(context, &desc, NULL);
    assert_ok(context, bo_session_create(context, model, NULL, &session));
    assert_ok(context, bo_session_feed(context, session, ids, 9, NULL));
    assert_ok(context, bo_session_save(context, session, &(bo_sink){.bytes = &bytes, .size = &size}));
    assert_ok(context, bo_tensors_open_memory(context, "state", bytes, size, &file));
    const bo_file_tensor *tensor = bo_tensors_find(file, "states.0");
    assert_true(tensor && tensor->bytes >= MIN_BYTES);
    const size_t count = tensor->bytes / sizeof(float);
    float *numbers = (float *)(void *)((char *)bytes + ((const char *)tensor->data - (const char *)bytes));
    for (size_t i = 0; i < count; i++) numbers[i] = copysignf(3e38f, numbers[i]);
    bo_tensors_close(file);
    bo_tensors_seal(bytes, size);
    assert_ok(context, bo_session_load(context, session, &(bo_source){.bytes = bytes, .size = size}));
    bo_status status = BO_OK;
    for (int i = 0; i < 8 && status == BO_OK; i++) {
        bo_session_feed(context, session, ids, 9, NULL);
        status = bo_session_save(context, session, &(bo_sink){.bytes = &again, .size = &size});
        bo_free(again);
    }
    assert_int_equal(status, BO_NUMERIC);
    assert_non_null(strstr(bo_context_error(context), "layer"));
    bo_free(bytes);
    bo_session_destroy(session);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* A change of one bit of one weight makes a different model; the number of threads does not. */
static void test_other_weights(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context, *several = test_context(3);
    bo_model_desc desc = test_desc("rfa-gate");
    desc.vocab = 20000; /* more than one block of weights */
    bo_model *model = test_model(context, &desc, NULL);
    const char *path = test_path(directory, "state"), *names[] = {"model.embed_tokens.weight", "model.norm.weight"};
    bo_session *session;
    const int32_t ids[] = {1, 2, 3};
    float *values = malloc(desc.vocab * desc.width * sizeof *values);
    assert_ok(context, bo_session_create(context, model, NULL, &session));
    assert_ok(context, bo_session_feed(context, session, ids, 3, NULL));
    assert_ok(context, bo_session_save(context, session, &(bo_sink){.path = path}));
    assert_ok(several, bo_session_load(several, session, &(bo_source){.path = path}));
    for (size_t w = 0; w < 2; w++) {
        const size_t last = (w ? 1 : desc.vocab) * desc.width - 1;
        assert_ok(context, bo_weights_get(context, bo_model_weights(model), names[w], values, NULL));
        const float was = values[last];
        values[last] = nextafterf(was, 9);
        assert_ok(context, bo_weights_set(context, bo_model_weights(model), names[w], values));
        assert_fails(context, BO_INVALID, "other weights",
                     bo_session_load(context, session, &(bo_source){.path = path}));
        values[last] = was;
        assert_ok(context, bo_weights_set(context, bo_model_weights(model), names[w], values));
        assert_ok(context, bo_session_load(context, session, &(bo_source){.path = path}));
    }
    free(values);
    bo_session_destroy(session);
    /* the same weights in fewer bits are other weights, too */
    assert_ok(context, bo_model_set_storage(context, model, BO_STORAGE_INT8));
    assert_ok(context, bo_session_create(context, model, NULL, &session));
    assert_fails(context, BO_INVALID, "weights stored as float32",
                 bo_session_load(context, session, &(bo_source){.path = path}));
    assert_fails(context, BO_INVALID, "--weights float32",
                 bo_session_load(context, session, &(bo_source){.path = path}));
    assert_fails(context, BO_INVALID, "weights of this model are stored as int8",
                 bo_session_load(context, session, &(bo_source){.path = path}));
    bo_session_destroy(session);
    bo_model_destroy(model);
    bo_context_destroy(several);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void test_sizes(void **unused)
{
    (void)unused;
    bo_context *context = test_context(1);
    size_t state, longer, all, exact, twice;
    bo_model_desc desc = test_desc("rfa-gate");
    bo_model *model = test_model(context, &desc, NULL);
    assert_ok(context, bo_session_estimate(context, model, &(bo_session_desc){.capacity = 10}, &state, &all));
    assert_ok(context, bo_session_estimate(context, model, &(bo_session_desc){.capacity = 1000000}, &longer, NULL));
    assert_int_equal(state, longer);
    assert_true(all > state);
    bo_model_destroy(model);
    desc = test_desc("softmax");
    model = test_model(context, &desc, NULL);
    assert_ok(context, bo_session_estimate(context, model, &(bo_session_desc){.capacity = 6400}, &exact, NULL));
    assert_ok(context, bo_session_estimate(context, model, &(bo_session_desc){.capacity = 12800}, &twice, NULL));
    assert_true(twice > 19 * exact / 10);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_positions),
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_all_logits),
        cmocka_unit_test(test_refused),
        cmocka_unit_test_setup_teardown(test_files, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_files_refused, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_other_weights, test_setup, test_teardown),
        cmocka_unit_test(test_numbers_refused),
        cmocka_unit_test(test_overflow_not_saved),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
