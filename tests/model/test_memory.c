/* Every allocation fails once: an error, no leak, no damage. */
#include "base/counting.h"
#include "io/files.h"
#include "models.h"

typedef struct work {
    bo_model_desc desc;
    bo_model *model; /* made with enough memory */
    char folder[1024], state[1024];
} work;

typedef bo_status (*work_fn)(bo_context *context, const work *w);

static bo_status create(bo_context *context, const work *w)
{
    bo_model *model;
    bo_status status = bo_model_create(context, &w->desc, NULL, &model);
    if (status == BO_OK) bo_model_destroy(model);
    return status;
}

static bo_status save(bo_context *context, const work *w)
{
    return bo_model_save(context, w->model, w->folder);
}

static bo_status load(bo_context *context, const work *w)
{
    bo_model *model;
    size_t taken;
    BO_TRY(bo_model_load(context, w->folder, &model));
    bo_status status = bo_model_adopt(context, model, w->model, &taken);
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
    if (status == BO_OK) status = bo_session_score(context, session, ids, ids, 2, losses);
    if (status == BO_OK) status = bo_session_load(context, session, w->state);
    bo_session_destroy(session);
    return status;
}

static bo_status save_session(bo_context *context, const work *w)
{
    bo_session *session;
    size_t state, all;
    BO_TRY(bo_session_estimate(context, w->model, NULL, &state, &all));
    BO_TRY(bo_session_create(context, w->model, NULL, &session));
    bo_status status = bo_session_save(context, session, w->state);
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

static void check(test_folder *folder, const char *preset, bo_mlp mlp)
{
    work w = {.desc = test_desc(preset)};
    w.desc.layers = 1, w.desc.mlp = mlp;
    snprintf(w.folder, sizeof w.folder, "%s", folder->path);
    snprintf(w.state, sizeof w.state, "%s", test_path(folder, "state"));
    assert_ok(folder->context, bo_model_create(folder->context, &w.desc, NULL, &w.model));
    starve("create", &w, create);
    starve("save", &w, save);
    starve("load", &w, load);
    starve("store", &w, store);
    starve("a session's file", &w, save_session);
    starve("a session", &w, read_tokens);
    bo_model_destroy(w.model);
}

/* Models of another task, which have no sessions. */
static void check_task(test_folder *folder, bo_model_task task)
{
    static const char *const labels[] = {"no", "yes"};
    work w = {.desc = test_desc("rfa")};
    w.desc.layers = 1, w.desc.task = task;
    if (task != BO_MODEL_TASK_TRANSLATE) w.desc.classes = 2, w.desc.labels = labels;
    snprintf(w.folder, sizeof w.folder, "%s", folder->path);
    assert_ok(folder->context, bo_model_create(folder->context, &w.desc, NULL, &w.model));
    starve("create", &w, create);
    starve("save", &w, save);
    starve("load", &w, load);
    starve("store", &w, store);
    starve("profile", &w, profile);
    bo_model_destroy(w.model);
}

static void test_starved(void **state)
{
    check_task(*state, BO_MODEL_TASK_MATCH);
    check_task(*state, BO_MODEL_TASK_TRANSLATE);
    check(*state, "rfa-gate", BO_MLP_RELU2);
    check(*state, "softmax", BO_MLP_RANDOM_FEATURES);
    check(*state, "lstm", BO_MLP_RELU2);
    check(*state, "mlp", BO_MLP_RELU2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_starved, test_setup, test_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
