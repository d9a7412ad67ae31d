/* Every allocation fails once: an error, no leak, no damage. */
#include "base/counting.h"
#include "io/files.h"
#include "models.h"

typedef struct work {
    bo_model_desc desc;
    bo_model *model; /* made with enough memory */
    char directory[1024], state[1024];
    const char *text; /* a description */
} work;

typedef bo_status (*work_fn)(bo_context *context, const work *w);

static bo_status create(bo_context *context, const work *w)
{
    bo_model *model;
    bo_status status = bo_model_create(context, &w->desc, NULL, &model);
    if (status == BO_OK) bo_model_destroy(model);
    return status;
}

static bo_status describe(bo_context *context, const work *w)
{
    bo_model *model;
    BO_TRY(bo_model_create_described(context, &(bo_description){.text = w->text, .where = "a description"}, &model));
    bo_model_destroy(model);
    return BO_OK;
}

static bo_status save(bo_context *context, const work *w)
{
    return bo_model_save(context, w->model, &(bo_sink){.path = w->directory});
}

static bo_status load(bo_context *context, const work *w)
{
    bo_model *model;
    size_t copied;
    BO_TRY(bo_model_load(context, &(bo_source){.path = w->directory}, NULL, &model));
    bo_status status = bo_model_adopt(context, model, w->model, &copied);
    bo_model_destroy(model);
    return status;
}

static bo_status store(bo_context *context, const work *w)
{
    bo_model *model;
    BO_TRY(bo_model_create(context, &w->desc, NULL, &model));
    bo_status status = bo_model_set_storage(context, model, BO_STORAGE_INT8);
    bo_model_destroy(model);
    return status;
}

static bo_status profile(bo_context *context, const work *w)
{
    bo_model *model;
    bo_profile *found = NULL;
    BO_TRY(bo_model_create(context, &w->desc, NULL, &model));
    bo_status status = bo_model_profile(context, model, &(bo_profile_desc){.tokens = 4, .repeats = 1}, &found);
    bo_profile_destroy(found);
    bo_model_destroy(model);
    return status;
}

static bo_status read_tokens(bo_context *context, const work *w)
{
    bo_session *session;
    int32_t ids[8];
    float logits[VOCAB], losses[8];
    test_tokens(8, ids);
    BO_TRY(bo_session_create(context, w->model, &(bo_session_desc){.chunk = 4, .capacity = 12}, &session));
    bo_status status = bo_session_feed(context, session, ids, 5, logits);
    if (status == BO_OK)
        status = bo_session_read(context, session,
                                 &(bo_session_reading){.ids = ids, .count = 2, .losses = losses, .targets = ids});
    if (status == BO_OK) status = bo_session_load(context, session, &(bo_source){.path = w->state});
    bo_session_destroy(session);
    return status;
}

static bo_status save_session(bo_context *context, const work *w)
{
    bo_session *session;
    size_t state, all;
    BO_TRY(bo_session_estimate(context, w->model, NULL, &state, &all));
    BO_TRY(bo_session_create(context, w->model, NULL, &session));
    bo_status status = bo_session_save(context, session, &(bo_sink){.path = w->state});
    bo_session_destroy(session);
    return status;
}

static void starve(const char *what, const work *w, work_fn task)
{
    for (size_t at = 1;; at++) {
        counting memory = {0};
        bo_context *context = counting_context(&memory, 1);
        size_t before = atomic_load(&memory.live);
        memory.fail_at = atomic_load(&memory.calls) + at;
        bo_status status = task(context, w);
        bool reached = atomic_load(&memory.calls) >= memory.fail_at;
        if (atomic_load(&memory.live) != before) fail_msg("%s: allocation %zu failing leaks", what, at);
        if (status != (reached ? BO_MEMORY : BO_OK))
            fail_msg("%s: allocation %zu failing: %s, %s", what, at, bo_status_string(status),
                     bo_context_error(context));
        bo_context_destroy(context);
        if (!reached) return;
    }
}

static void check(test_directory *directory, const char *preset, bo_mlp mlp, const char *layers)
{
    work w = {.desc = test_desc(preset)};
    w.desc.layers = 1, w.desc.block.mlp = mlp, w.desc.block.layers = layers;
    snprintf(w.directory, sizeof w.directory, "%s", directory->path);
    snprintf(w.state, sizeof w.state, "%s", test_path(directory, "state"));
    assert_ok(directory->context, bo_model_create(directory->context, &w.desc, NULL, &w.model));
    starve("create", &w, create);
    starve("save", &w, save);
    starve("load", &w, load);
    starve("store", &w, store);
    starve("a session's file", &w, save_session);
    starve("a session", &w, read_tokens);
    bo_model_destroy(w.model);
}

/* Models of another task, which have no sessions. */
static void check_task(test_directory *directory, bo_model_task task)
{
    static const char *const labels[] = {"no", "yes"};
    work w = {.desc = test_desc("rfa")};
    w.desc.layers = 1, w.desc.task = task;
    if (task != BO_MODEL_TASK_TRANSLATE) w.desc.classes = 2, w.desc.labels = labels;
    snprintf(w.directory, sizeof w.directory, "%s", directory->path);
    assert_ok(directory->context, bo_model_create(directory->context, &w.desc, NULL, &w.model));
    starve("create", &w, create);
    starve("save", &w, save);
    starve("load", &w, load);
    starve("store", &w, store);
    starve("profile", &w, profile);
    bo_model_destroy(w.model);
}

/* A call that runs out of memory for its graphs has read no tokens, for every failing allocation, and can be
 * repeated. */
static void test_nothing_read(void **unused)
{
    (void)unused;
    static const char *const kinds[] = {"rfa-gate", "softmax", "lstm"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        counting memory = {0};
        bo_context *context = counting_context(&memory, 1);
        const bo_model_desc desc = test_desc(kinds[i]);
        bo_model *model = test_model(context, &desc, NULL);
        int32_t ids[15];
        float expected[VOCAB], found[VOCAB];
        bo_session *session;
        bool reached = true;
        test_tokens(15, ids);
        assert_ok(context, bo_session_create(context, model, &(bo_session_desc){.chunk = 8}, &session));
        assert_ok(context, bo_session_feed(context, session, ids, 15, expected));
        bo_session_destroy(session);
        for (size_t at = 1; reached; at++) {
            assert_ok(context, bo_session_create(context, model, &(bo_session_desc){.chunk = 8}, &session));
            memory.fail_at = atomic_load(&memory.calls) + at;
            const bo_status status = bo_session_feed(context, session, ids, 15, found); /* blocks of 8, 6 and 1 */
            reached = atomic_load(&memory.calls) >= memory.fail_at;
            memory.fail_at = 0;
            assert_int_equal(status, reached ? BO_MEMORY : BO_OK);
            assert_int_equal(bo_session_tokens(session), reached ? 0 : 15);
            if (reached) assert_ok(context, bo_session_feed(context, session, ids, 15, found));
            assert_memory_equal(expected, found, sizeof found);
            bo_session_destroy(session);
        }
        bo_model_destroy(model);
        bo_context_destroy(context);
    }
}

static void test_starved(void **state)
{
    check_task(*state, BO_MODEL_TASK_MATCH);
    check_task(*state, BO_MODEL_TASK_TRANSLATE);
    check(*state, "rfa-gate", BO_MLP_RELU2, NULL);
    check(*state, "softmax", BO_MLP_RANDOM_FEATURES, NULL);
    check(*state, "lstm", BO_MLP_RELU2, NULL);
    check(*state, "mlp", BO_MLP_RELU2, NULL);
    check(*state, "softmax", BO_MLP_LAYERS,
          "[{\"type\": \"random-features\", \"features\": 6}, {\"type\": \"dropout\", \"rate\": 0.1}, {\"type\": "
          "\"linear\", \"width\": \"input\"}]");
}

/* Descriptions of both kinds of models, with lists of blocks and of layers. */
static void test_described(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"vocab_size\": 20, \"hidden_size\": 8, \"max_position_embeddings\": 16, \"task\": \"translate\", \"block\": "
        "{\"heads\": 2, \"layers\": [{\"type\": \"random-features\", \"features\": 6}, {\"type\": \"linear\", "
        "\"width\": 8}]}, \"blocks\": [{}, {\"attention\": {\"preset\": \"favor\", \"features\": 8}, \"mlp\": "
        "\"random-features\", \"hidden\": 6}], \"encoder_blocks\": [{\"layers\": [{\"type\": \"tanh\"}]}]}",
        "{\"vocab_size\": 20, \"hidden_size\": 8, \"max_position_embeddings\": 16, \"task\": \"classify\", "
        "\"id2label\": {\"0\": \"a\", \"1\": \"b\"}, \"blocks\": [{\"heads\": 2, \"layers\": [{\"type\": \"tanh\"}]}]}",
        "{\"input\": {\"kind\": \"sequence\", \"length\": 3, \"channels\": 4}, \"classes\": 2, \"layers\": [{\"type\": "
        "\"block\", \"heads\": 2, \"attention\": {\"preset\": \"favor\", \"features\": 8}, \"mlp\": "
        "\"random-features\", \"hidden\": 6}, {\"type\": \"last\"}, {\"type\": \"linear\", \"width\": \"classes\"}], "
        "\"loss\": \"cross-entropy\"}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        starve("a description", &(work){.text = texts[i]}, describe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing_read),
                                       cmocka_unit_test_setup_teardown(test_starved, test_setup, test_teardown),
                                       cmocka_unit_test(test_described)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
