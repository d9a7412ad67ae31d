/* Models and sessions in memory and as one file: the same bytes and bitwise equal logits; truncated or changed data is
 * refused or harmless. */
#include "text/facts.h"
#include "model/enums.h"
#include "adapted.h"
#include "base/counting.h"
#include "io/tensors.h"

typedef struct image {
    void *bytes;
    size_t size;
} image;

static image save(bo_context *context, const bo_model *model)
{
    image i;
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.bytes = &i.bytes, .size = &i.size}));
    return i;
}

static void read_some(bo_context *context, const bo_model *model, float *logits)
{
    int32_t ids[CONTEXT];
    bo_session *session;
    test_tokens(CONTEXT, ids);
    assert_ok(context, bo_session_create(context, model, NULL, &session));
    assert_ok(context, bo_session_feed(context, session, ids, CONTEXT, logits));
    bo_session_destroy(session);
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

/* A file and the image in memory have the same bytes, and both load to the same model. */
static void check_trip(test_directory *directory, const bo_model *model, const char *what)
{
    bo_context *context = directory->context;
    bo_model *read, *from_file;
    const char *path = test_path(directory, "m.safetensors");
    image first = save(context, model), second;
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = path}));
    assert_file_equal(path, first.bytes, first.size);
    assert_true(bo_model_exists(context, path));
    assert_ok(context, bo_model_load(context, &(bo_source){.path = path}, NULL, &from_file));
    assert_ok(context, bo_model_load(context, &(bo_source){.bytes = first.bytes, .size = first.size}, NULL, &read));
    memset(first.bytes, 0x5a, first.size); /* the bytes need not outlive the call */
    assert_true(bo_model_fingerprint(model) == bo_model_fingerprint(read));
    assert_int_equal(count_other(model, read), 0);
    assert_int_equal(count_other(model, from_file), 0);
    second = save(context, read);
    assert_file_equal(path, second.bytes, second.size);
    if (model->desc.task == BO_MODEL_TASK_LANGUAGE) {
        float expected[VOCAB], found[VOCAB];
        read_some(context, model, expected);
        read_some(context, read, found);
        if (memcmp(expected, found, sizeof found) != 0) fail_msg("%s: logits differ after loading", what);
    }
    bo_free(first.bytes);
    bo_free(second.bytes);
    bo_model_destroy(read);
    bo_model_destroy(from_file);
}

static void test_kinds(void **state)
{
    test_directory *directory = *state;
    for (size_t i = 0; test_kind(i); i++) {
        const bo_model_desc desc = test_desc(test_kind(i));
        bo_model *model = test_model(directory->context, &desc, NULL);
        check_trip(directory, model, test_kind(i));
        bo_model_destroy(model);
    }
}

static void test_tasks(void **state)
{
    static const char *const labels[] = {"no", "\"yes\" \\ \xc3\xa9"};
    test_directory *directory = *state;
    for (int task = BO_MODEL_TASK_CLASSIFY; task <= BO_MODEL_TASK_TRANSLATE; task++) {
        bo_model_desc desc = test_desc("rfa");
        desc.task = (bo_model_task)task;
        if (task != BO_MODEL_TASK_TRANSLATE) desc.classes = 2, desc.labels = labels;
        bo_model *model, *read;
        assert_ok(directory->context, bo_model_create(directory->context, &desc, NULL, &model));
        check_trip(directory, model, bo_model_task_name(desc.task));
        image i = save(directory->context, model);
        assert_ok(directory->context,
                  bo_model_load(directory->context, &(bo_source){.bytes = i.bytes, .size = i.size}, NULL, &read));
        if (desc.labels) assert_string_equal(bo_model_describe(read)->labels[1], labels[1]);
        bo_model_destroy(read);
        bo_free(i.bytes);
        bo_model_destroy(model);
    }
}

/* The tokenizer is part of the file; it can be loaded alone from the same file. */
static void test_tokenizers(void **state)
{
    static const char text[] = "the cat sat on the mat; \"the\" bat \\ sat \xe2\x82\xac on the cat, that sat";
    test_directory *directory = *state;
    bo_context *context = directory->context;
    const char *path = test_text(directory, "t.txt", text);
    for (int learned = 0; learned < 2; learned++) {
        bo_tokenizer *tokenizer, *alone;
        bo_model_desc desc = test_desc("rfa-gate");
        desc.vocab = 0;
        if (learned)
            assert_ok(context, bo_tokenizer_train(context, &(bo_tokenizer_desc){.vocab = 270}, &path, 1, &tokenizer));
        else
            assert_ok(context, bo_tokenizer_create(context, &tokenizer));
        bo_model *model, *read;
        assert_ok(context, bo_model_create(context, &desc, tokenizer, &model));
        image i = save(context, model);
        assert_ok(context, bo_model_load(context, &(bo_source){.bytes = i.bytes, .size = i.size}, NULL, &read));
        assert_true(bo_tokenizer_fingerprint(bo_model_tokenizer(read)) == bo_tokenizer_fingerprint(tokenizer));
        const char *file = test_write(directory, "m.safetensors", i.bytes, i.size);
        assert_ok(context, bo_tokenizer_load(context, &(bo_source){.path = file}, &alone));
        assert_true(bo_tokenizer_fingerprint(alone) == bo_tokenizer_fingerprint(tokenizer));
        assert_int_equal(directory->warnings, 0);
        bo_tokenizer_destroy(alone);
        bo_model_destroy(read);
        bo_model_destroy(model);
        bo_tokenizer_destroy(tokenizer);
        bo_free(i.bytes);
    }
}

/* A merged model is a complete model; adapters without their base are refused. */
static void test_adapters(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    const bo_model_desc desc = test_desc("rfa-gate");
    bo_model *model = test_model(context, &desc, NULL), *read;
    const char *base = test_path(directory, "base.safetensors");
    void *bytes = directory;
    size_t size = 1, plain = bo_weights_count(bo_model_weights(model));
    char expected[64];
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = base}));
    assert_ok(context, bo_model_adapt(context, model, &(bo_lora_desc){.rank = 2, .targets = "q_proj", .base = base}));
    move_adapters(model);
    assert_true(bo_weights_count(bo_model_weights(model)) > plain);
    snprintf(expected, sizeof expected, "%s",
             bo_weights_at(bo_model_weights(model), bo_weights_count(bo_model_weights(model)) - 1)->name);
    for (size_t i = 0; i < bo_weights_count(bo_model_weights(model)); i++)
        assert_string_equal(bo_weights_at(bo_model_weights(model), i)->name, bo_weights_at(model->weights, i)->name);
    assert_fails(context, BO_UNSUPPORTED, "merge them first",
                 bo_model_save(context, model, &(bo_sink){.bytes = &bytes, .size = &size}));
    assert_null(bytes);
    assert_int_equal(size, 0);
    const char *file = test_path(directory, "no.safetensors"), *adapter = test_path(directory, "adapter");
    assert_fails(context, BO_UNSUPPORTED, "merge them first", bo_model_save(context, model, &(bo_sink){.path = file}));
    assert_false(bo_model_exists(context, file));
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = adapter})); /* the base is one file */
    assert_true(bo_model_exists(context, adapter));
    assert_ok(context, bo_model_load(context, &(bo_source){.path = adapter}, NULL, &read));
    assert_ok(context, bo_model_merge(context, model));
    assert_int_equal(bo_weights_count(bo_model_weights(model)), plain);
    for (size_t i = 0; i < plain; i++)
        assert_string_equal(bo_weights_at(bo_model_weights(model), i)->name, bo_weights_at(model->weights, i)->name);
    assert_int_equal(count_other(model, read), 0);
    bo_model_destroy(read);
    check_trip(directory, model, "merged");
    assert_ok(context, bo_model_unmerge(context, model));
    assert_string_equal(bo_weights_at(bo_model_weights(model), bo_weights_count(bo_model_weights(model)) - 1)->name,
                        expected);
    bo_model_destroy(model);
}

static void test_refusals(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    const bo_model_desc desc = test_desc("rfa");
    bo_model *model = test_model(context, &desc, NULL), *read = model;
    bo_tensors *file;
    image i = save(context, model);
    /* the tensors alone are not a model */
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory->path}));
    assert_false(bo_model_exists(context, test_path(directory, "model.safetensors")));
    assert_fails(context, BO_FORMAT, "and config.json",
                 bo_model_load(context, &(bo_source){.path = test_path(directory, "model.safetensors")}, NULL, &read));
    assert_null(read);
    assert_false(bo_model_exists(context, test_path(directory, "nowhere")));
    assert_true(bo_model_exists(context, directory->path));
    assert_fails(context, BO_FORMAT, "found only 0 bytes",
                 bo_model_load(context, &(bo_source){.bytes = "", .size = 0}, NULL, &read));
    assert_fails(context, BO_FORMAT, "found only 0 bytes",
                 bo_model_load(context, &(bo_source){.bytes = "", .size = 0}, NULL, &read));
    /* the tensors must match config.json */
    assert_ok(context, bo_tensors_open_memory(context, "memory", i.bytes, i.size, &file));
    const bo_meta config = {"config.json", bo_tensors_meta(file, "config.json")};
    void *bytes;
    size_t size;
    assert_ok(context, bo_tensors_write_memory(context, bo_tensors_find(file, "model.norm.weight"), 1, &config, 1,
                                               &bytes, &size));
    assert_fails(context, BO_FORMAT, "memory/config.json: the configuration needs",
                 bo_model_load(context, &(bo_source){.bytes = bytes, .size = size}, NULL, &read));
    bo_free(bytes);
    bo_tensors_close(file);
    bo_free(i.bytes);
    bo_model_destroy(model);
}

/* A truncated image is refused. A changed byte is refused or gives a valid model. */
static void test_damaged(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_model_desc desc = test_desc("favor");
    desc.layers = 1;
    bo_model *model = test_model(context, &desc, NULL), *read;
    image i = save(context, model);
    for (size_t cut = 0; cut < i.size; cut += i.size / 200 + 1) {
        char *shorter = malloc(cut + 1);
        memcpy(shorter, i.bytes, cut);
        read = model;
        assert_int_equal(bo_model_load(context, &(bo_source){.bytes = shorter, .size = cut}, NULL, &read), BO_FORMAT);
        assert_null(read);
        free(shorter);
    }
    bo_rng rng = bo_rng_make(4, 4);
    for (size_t n = 0; n < 600; n++) {
        char *at = (char *)i.bytes + bo_rng_below(&rng, n % 2 ? i.size : 3000), before = *at;
        *at = (char)bo_rng_below(&rng, 256);
        read = model;
        const bo_status status = bo_model_load(context, &(bo_source){.bytes = i.bytes, .size = i.size}, NULL, &read);
        if (status != BO_OK) assert_null(read);
        if (status != BO_OK) assert_true(strlen(bo_context_error(context)) > 10);
        if (status == BO_OK) bo_model_destroy(read);
        *at = before;
    }
    bo_free(i.bytes);
    bo_model_destroy(model);
}

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

static void check_session(test_directory *directory, const char *kind)
{
    bo_context *context = directory->context;
    const bo_model_desc desc = test_desc(kind);
    bo_model *model = test_model(context, &desc, NULL);
    const char *path = test_path(directory, "state");
    int32_t ids[CONTEXT];
    float expected[VOCAB], found[VOCAB];
    bo_session *session, *other;
    uint64_t tokens;
    image i, again;
    test_tokens(CONTEXT, ids);
    assert_ok(context, bo_session_create(context, model, NULL, &session));
    assert_ok(context, bo_session_create(context, model, NULL, &other));
    assert_ok(context, bo_session_feed(context, session, ids, 20, NULL));
    assert_ok(context, bo_session_save(context, session, &(bo_sink){.bytes = &i.bytes, .size = &i.size}));
    assert_ok(context, bo_session_save(context, session, &(bo_sink){.path = path}));
    assert_file_equal(path, i.bytes, i.size);
    assert_ok(context, bo_session_peek(context, &(bo_source){.bytes = i.bytes, .size = i.size}, &tokens));
    assert_int_equal(tokens, 20);
    assert_ok(context, bo_session_load(context, other, &(bo_source){.bytes = i.bytes, .size = i.size}));
    assert_ok(context, bo_session_save(context, other, &(bo_sink){.bytes = &again.bytes, .size = &again.size}));
    assert_int_equal(again.size, i.size);
    assert_memory_equal(again.bytes, i.bytes, i.size);
    assert_ok(context, bo_session_feed(context, session, ids + 20, 20, expected));
    assert_ok(context, bo_session_feed(context, other, ids + 20, 20, found));
    if (memcmp(expected, found, sizeof found) != 0) fail_msg("%s: logits differ after loading a state", kind);
    bo_free(i.bytes);
    bo_free(again.bytes);
    bo_session_destroy(session);
    bo_session_destroy(other);
    bo_model_destroy(model);
}

static void test_sessions(void **state)
{
    for (size_t i = 0; test_kind(i); i++) check_session(*state, test_kind(i));
}

/* A session that refuses a state does not change. */
static void test_damaged_sessions(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    const bo_model_desc desc = test_desc("softmax");
    bo_model *model = test_model(context, &desc, NULL);
    int32_t ids[CONTEXT];
    float logits[VOCAB];
    bo_session *session;
    uint64_t tokens;
    image i;
    test_tokens(CONTEXT, ids);
    assert_ok(context, bo_session_create(context, model, NULL, &session));
    assert_ok(context, bo_session_feed(context, session, ids, 7, NULL));
    assert_ok(context, bo_session_save(context, session, &(bo_sink){.bytes = &i.bytes, .size = &i.size}));
    assert_ok(context, bo_session_feed(context, session, ids, 4, NULL));
    for (size_t cut = 0; cut < i.size; cut += i.size / 100 + 1) {
        char *shorter = malloc(cut + 1);
        memcpy(shorter, i.bytes, cut);
        assert_int_equal(bo_session_load(context, session, &(bo_source){.bytes = shorter, .size = cut}), BO_FORMAT);
        assert_int_equal(bo_session_peek(context, &(bo_source){.bytes = shorter, .size = cut}, &tokens), BO_FORMAT);
        assert_int_equal(bo_session_tokens(session), 11);
        free(shorter);
    }
    assert_fails(context, BO_FORMAT, "found only 0 bytes",
                 bo_session_load(context, session, &(bo_source){.bytes = "", .size = 0}));
    assert_fails(context, BO_INVALID, "NULL",
                 bo_session_load(context, NULL, &(bo_source){.bytes = i.bytes, .size = i.size}));
    bo_rng rng = bo_rng_make(5, 5);
    for (size_t n = 0; n < 400; n++) {
        char *at = (char *)i.bytes + bo_rng_below(&rng, n % 2 ? i.size : 600), before = *at;
        *at = (char)bo_rng_below(&rng, 256);
        if (bo_session_load(context, session, &(bo_source){.bytes = i.bytes, .size = i.size}) == BO_OK)
            assert_ok(context, bo_session_feed(context, session, ids, 1, logits));
        *at = before;
    }
    bo_free(i.bytes);
    bo_session_destroy(session);
    bo_model_destroy(model);
}

/* ---- out of memory ----------------------------------------------------------------------------------------------- */

typedef struct starved {
    bo_context *context;
    const bo_model *model;
    bo_session *session;
    image model_image, session_image;
} starved;

static bo_status save_model(void *what)
{
    starved *s = what;
    void *bytes = s;
    size_t size;
    const bo_status status = bo_model_save(s->context, s->model, &(bo_sink){.bytes = &bytes, .size = &size});
    if (status != BO_OK) assert_true(!bytes && !size);
    bo_free(bytes);
    return status;
}

static bo_status load_model(void *what)
{
    starved *s = what;
    bo_model *model = what;
    const bo_status status = bo_model_load(
        s->context, &(bo_source){.bytes = s->model_image.bytes, .size = s->model_image.size}, NULL, &model);
    if (status != BO_OK) assert_null(model);
    bo_model_destroy(model);
    return status;
}

static bo_status save_session(void *what)
{
    starved *s = what;
    void *bytes = s;
    size_t size;
    const bo_status status = bo_session_save(s->context, s->session, &(bo_sink){.bytes = &bytes, .size = &size});
    if (status != BO_OK) assert_true(!bytes && !size);
    bo_free(bytes);
    return status;
}

static bo_status load_session(void *what)
{
    starved *s = what;
    return bo_session_load(s->context, s->session,
                           &(bo_source){.bytes = s->session_image.bytes, .size = s->session_image.size});
}

static void test_starved(void **state)
{
    (void)state;
    counting memory = {0};
    bo_tokenizer *tokenizer;
    starved s = {.context = counting_context(&memory, 1)};
    bo_model_desc desc = test_desc("rfa");
    desc.layers = 1;
    assert_ok(s.context, bo_tokenizer_create(s.context, &tokenizer));
    bo_model *model;
    assert_ok(s.context, bo_model_create(s.context, &desc, tokenizer, &model));
    s.model = model;
    assert_ok(s.context, bo_session_create(s.context, model, NULL, &s.session));
    assert_ok(s.context,
              bo_model_save(s.context, model, &(bo_sink){.bytes = &s.model_image.bytes, .size = &s.model_image.size}));
    assert_ok(s.context, bo_session_save(s.context, s.session,
                                         &(bo_sink){.bytes = &s.session_image.bytes, .size = &s.session_image.size}));
    bo_status (*const works[])(void *) = {save_model, load_model, save_session, load_session};
    for (size_t i = 0; i < sizeof works / sizeof *works; i++)
        counting_inject(&(injection){&memory, s.context, works[i], &s, 200, 7, "the sequences of a call"});
    bo_free(s.model_image.bytes);
    bo_free(s.session_image.bytes);
    bo_session_destroy(s.session);
    bo_model_destroy(model);
    bo_tokenizer_destroy(tokenizer);
    bo_context_destroy(s.context);
    assert_int_equal(memory.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kinds, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_tasks, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_tokenizers, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_adapters, test_setup, directories_teardown),
        cmocka_unit_test_setup_teardown(test_refusals, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_damaged, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_sessions, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_damaged_sessions, test_setup, test_teardown),
        cmocka_unit_test(test_starved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
