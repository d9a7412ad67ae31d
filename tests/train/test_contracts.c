/* Promises of all functions of the headers on text, models and training: destroy functions accept NULL, failed calls
 * set outputs to NULL, and reserved fields that are not zero are refused with the name of their struct. */
#include "text/batches.h"
#include "text/packs.h"
#include "model/lanes.h"
#include <bochner/lora.h>
#include <bochner/train.h>
#include "testing.h"

static void test_null(void **state)
{
    (void)state;
    bo_model_destroy(NULL);
    bo_session_destroy(NULL);
    bo_sampler_destroy(NULL);
    bo_tokenizer_destroy(NULL);
    bo_ids_free(NULL);
    bo_corpus_close(NULL);
    bo_texts_close(NULL);
    bo_packs_destroy(NULL);
    bo_lanes_destroy(NULL);
    bo_trainer_destroy(NULL);
}

/* ---- existing objects -------------------------------------------------------------------------------------------- */

typedef struct things {
    bo_context *context;
    bo_tokenizer *tokenizer;
    bo_corpus *corpus;
    bo_texts *texts, *pairs;
    bo_model *language, *labeler, *translator;
    bo_session *session;
} things;

static bo_model_desc shape(bo_model_task task)
{
    bo_model_desc desc = {.layers = 1, .width = 8, .block.heads = 1, .context = 16, .task = task};
    if (task == BO_MODEL_TASK_CLASSIFY) desc.classes = 2;
    return desc;
}

static int make_things(void **state)
{
    static const char text[] = "some text that is long enough for a window or two";
    static const char labeled[] = "0\tno\n1\tyes\n", pairs[] = "ab\tba\ncd\tdc\n";
    static things t;
    t = (things){.context = test_context(1)};
    bo_context *c = t.context;
    *state = &t;
    assert_ok(c, bo_tokenizer_create(c, &t.tokenizer));
    const bo_corpus_desc corpus = {.memory = text, .memory_bytes = sizeof text - 1, .tokenizer = t.tokenizer};
    assert_ok(c, bo_corpus_open(c, &corpus, &t.corpus));
    for (int i = 0; i < 3; i++) {
        static const bo_model_task tasks[] = {BO_MODEL_TASK_LANGUAGE, BO_MODEL_TASK_CLASSIFY, BO_MODEL_TASK_TRANSLATE};
        bo_model **models[] = {&t.language, &t.labeler, &t.translator};
        const bo_model_desc desc = shape(tasks[i]);
        assert_ok(c, bo_model_create(c, &desc, t.tokenizer, models[i]));
    }
    bo_texts_desc lines = {.memory = labeled, .memory_bytes = sizeof labeled - 1};
    bo_model_preset_texts(t.labeler, false, &lines);
    assert_ok(c, bo_texts_open(c, &lines, &t.texts));
    lines = (bo_texts_desc){.memory = pairs, .memory_bytes = sizeof pairs - 1};
    bo_model_preset_texts(t.translator, false, &lines);
    assert_ok(c, bo_texts_open(c, &lines, &t.pairs));
    assert_ok(c, bo_session_create(c, t.language, NULL, &t.session));
    return 0;
}

static int free_things(void **state)
{
    things *t = *state;
    bo_session_destroy(t->session);
    bo_texts_close(t->texts);
    bo_texts_close(t->pairs);
    bo_model_destroy(t->language);
    bo_model_destroy(t->labeler);
    bo_model_destroy(t->translator);
    bo_corpus_close(t->corpus);
    bo_tokenizer_destroy(t->tokenizer);
    bo_context_destroy(t->context);
    return 0;
}

/* ---- failed calls set outputs to NULL ---------------------------------------------------------------------------- */

/* Calls that must fail; *out has an arbitrary value before. */
#define FAILING(name, type, call)                                                                                      \
    static void *name(things *t)                                                                                       \
    {                                                                                                                  \
        bo_context *c = t->context;                                                                                    \
        type *out = (type *)t;                                                                                         \
        assert_true((call) != BO_OK);                                                                                  \
        assert_true(strlen(bo_context_error(c)) > 5);                                                                  \
        return out;                                                                                                    \
    }
FAILING(model_create, bo_model, bo_model_create(c, &(bo_model_desc){0}, NULL, &out))
FAILING(model_load, bo_model, bo_model_load(c, &(bo_source){.path = "/nowhere"}, NULL, &out))
FAILING(model_load_memory, bo_model, bo_model_load(c, &(bo_source){.bytes = "junk", .size = 4}, NULL, &out))
FAILING(model_load_adapted, bo_model,
        bo_model_load(c, &(bo_source){.path = "/nowhere"}, &(bo_model_load_desc){.adapters = BO_ADAPTERS_KEEP}, &out))
FAILING(model_load_unmerged, bo_model,
        bo_model_load(c, &(bo_source){.path = "/nowhere"}, &(bo_model_load_desc){.adapters = BO_ADAPTERS_REMOVE}, &out))
FAILING(session_create, bo_session, bo_session_create(c, t->labeler, NULL, &out))
FAILING(sampler_create, bo_sampler, bo_sampler_create(c, &(bo_sampler_desc){.top_p = 2}, &out))
FAILING(tokenizer_train, bo_tokenizer, bo_tokenizer_train(c, &(bo_tokenizer_desc){.vocab = 300}, NULL, 0, &out))
FAILING(tokenizer_train_texts, bo_tokenizer,
        bo_tokenizer_train_texts(c, &(bo_tokenizer_desc){.vocab = 300}, &(bo_texts_desc){0}, &out))
FAILING(tokenizer_load, bo_tokenizer, bo_tokenizer_load(c, &(bo_source){.path = "/nowhere"}, &out))
FAILING(tokenizer_load_memory, bo_tokenizer, bo_tokenizer_load(c, &(bo_source){.bytes = "junk", .size = 4}, &out))
FAILING(corpus_open, bo_corpus, bo_corpus_open(c, &(bo_corpus_desc){.tokenizer = t->tokenizer}, &out))
FAILING(corpus_open_ids, bo_corpus,
        bo_corpus_open(c, &(bo_corpus_desc){.tokenizer = t->tokenizer, .ids = (int32_t[]){999}, .id_count = 1}, &out))
FAILING(texts_open, bo_texts, bo_texts_open(c, &(bo_texts_desc){.tokenizer = t->tokenizer}, &out))
FAILING(packs_create, bo_packs, bo_packs_create(c, &(bo_packs_desc){.texts = t->texts}, &out))
FAILING(lanes_create, bo_lanes, bo_lanes_create(c, t->labeler, &(bo_lanes_desc){.count = 1}, &out))
FAILING(trainer_create, bo_trainer, bo_trainer_create(c, &(bo_trainer_desc){0}, &out))

static void *evaluate_labels(things *t)
{
    bo_classification found;
    bo_metrics *out = (bo_metrics *)t;
    assert_true(bo_model_evaluate_labels(t->context, t->language, t->texts, 0, &found, &out) != BO_OK);
    return out;
}

static void *decode(things *t)
{
    char *out = (char *)t;
    size_t bytes = 1;
    assert_true(bo_tokenizer_decode(t->context, t->tokenizer, (int32_t[]){-1}, 1, &out, &bytes) != BO_OK);
    assert_int_equal(bytes, 0);
    return out;
}

static void *save_memory(things *t)
{
    void *out = t;
    size_t size = 1;
    assert_true(bo_model_save(t->context, NULL, &(bo_sink){.bytes = &out, .size = &size}) != BO_OK);
    assert_int_equal(size, 0);
    return out;
}

static void *save_session(things *t)
{
    void *out = t;
    size_t size = 1;
    assert_true(bo_session_save(t->context, NULL, &(bo_sink){.bytes = &out, .size = &size}) != BO_OK);
    assert_int_equal(size, 0);
    return out;
}

static void test_failures(void **state)
{
    void *(*const calls[])(things *) = {
        model_create,
        model_load,
        model_load_memory,
        model_load_adapted,
        model_load_unmerged,
        session_create,
        sampler_create,
        tokenizer_train,
        tokenizer_load,
        tokenizer_load_memory,
        corpus_open,
        corpus_open_ids,
        tokenizer_train_texts,
        texts_open,
        packs_create,
        lanes_create,
        trainer_create,
        evaluate_labels,
        decode,
        save_memory,
        save_session,
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i](*state)) fail_msg("call %zu failed and left something behind", i);
}

/* ---- reserved fields --------------------------------------------------------------------------------------------- */

/* The call with word `w` of the reserved field set to a nonzero value. */
#define RESERVED(name, type, ...)                                                                                      \
    static bo_status name(things *t, size_t w, bool wrong)                                                             \
    {                                                                                                                  \
        bo_context *c = t->context;                                                                                    \
        type d = {0};                                                                                                  \
        d.reserved[w % (sizeof d.reserved / sizeof *d.reserved)] = wrong;                                              \
        (void)c;                                                                                                       \
        __VA_ARGS__                                                                                                    \
    }
RESERVED(reserved_model, bo_model_desc, bo_model *out; d.layers = d.width = d.block.heads = 1; d.width = d.context = 8;
         d.vocab = 8; bo_status s = bo_model_create(c, &d, NULL, &out); bo_model_destroy(out); return s;)
RESERVED(reserved_widen, bo_model_desc, bo_model_desc out; d.layers = d.block.heads = 1; d.width = d.context = 8;
         return bo_model_widen(c, &d, 16, &out);)
RESERVED(reserved_session, bo_session_desc, bo_session *out; bo_status s = bo_session_create(c, t->language, &d, &out);
         bo_session_destroy(out); return s;)
RESERVED(reserved_estimate, bo_session_desc, return bo_session_estimate(c, t->language, &d, NULL, NULL);)
RESERVED(reserved_sampler, bo_sampler_desc, bo_sampler *out; bo_status s = bo_sampler_create(c, &d, &out);
         bo_sampler_destroy(out); return s;)
RESERVED(reserved_tokenizer, bo_tokenizer_desc, bo_tokenizer *out; d.vocab = 257;
         const bo_texts_desc lines = {.kind = BO_TEXTS_ALONE, .memory = "a b", .memory_bytes = 3};
         bo_status s = bo_tokenizer_train_texts(c, &d, &lines, &out); bo_tokenizer_destroy(out); return s;)
RESERVED(reserved_corpus, bo_corpus_desc, bo_corpus *out; d.tokenizer = t->tokenizer; d.memory = "a";
         d.memory_bytes = 1; bo_status s = bo_corpus_open(c, &d, &out); bo_corpus_close(out); return s;)
RESERVED(reserved_batches, bo_batches_desc, d.corpus = t->corpus; d.context = 4; d.batch = 1;
         return bo_batches_check(c, &d);)
RESERVED(reserved_fill, bo_batches_desc, int32_t buffer[8]; d.corpus = t->corpus; d.context = 4; d.batch = 1;
         return bo_batches_fill(c, &d, 0, 0, 1, buffer, buffer + 4, NULL, NULL, NULL);)
RESERVED(reserved_texts, bo_texts_desc, bo_texts *out; d.kind = BO_TEXTS_ALONE; d.tokenizer = t->tokenizer;
         d.memory = "a"; d.memory_bytes = 1; bo_status s = bo_texts_open(c, &d, &out); bo_texts_close(out); return s;)
RESERVED(reserved_packs, bo_packs_desc, bo_packs *out; d.texts = t->texts; d.rows = 8; d.max_examples = d.batch = 1;
         bo_status s = bo_packs_create(c, &d, &out); bo_packs_destroy(out); return s;)
RESERVED(reserved_bleu, bo_bleu_counts, return bo_bleu_add(c, &d, "a", 1, "a", 1, false);)
RESERVED(reserved_translate, bo_translate_desc, bo_ids ids = {0}; d.max_tokens = 2;
         bo_status s = bo_model_translate(c, t->translator, t->pairs, 0, 1, &d, &ids, NULL); bo_ids_free(&ids);
         return s;)
RESERVED(reserved_lanes, bo_lanes_desc, bo_lanes *out; d.count = 1;
         bo_status s = bo_lanes_create(c, t->language, &d, &out); bo_lanes_destroy(out); return s;)
RESERVED(reserved_trainer, bo_trainer_desc, bo_trainer *out; d.model = t->language; d.train.corpus = t->corpus;
         d.steps = 1; bo_status s = bo_trainer_create(c, &d, &out); bo_trainer_destroy(out); return s;)
RESERVED(reserved_cost, bo_trainer_desc, bo_training_cost out; d.model = t->language; d.train.corpus = t->corpus;
         d.steps = 1; return bo_trainer_estimate(c, &d, &out);)
/* the last one, because it changes the model */
RESERVED(reserved_lora, bo_lora_desc, d.rank = 1; return bo_model_adapt(c, t->labeler, &d);)

static void test_reserved(void **state)
{
    static const struct {
        const char *name;
        bo_status (*call)(things *t, size_t word, bool wrong);
    } cases[] = {
        {"bo_model_desc", reserved_model},         {"bo_model_desc", reserved_widen},
        {"bo_session_desc", reserved_session},     {"bo_session_desc", reserved_estimate},
        {"bo_sampler_desc", reserved_sampler},     {"bo_tokenizer_desc", reserved_tokenizer},
        {"bo_corpus_desc", reserved_corpus},       {"bo_batches_desc", reserved_batches},
        {"bo_batches_desc", reserved_fill},        {"bo_texts_desc", reserved_texts},
        {"bo_packs_desc", reserved_packs},         {"bo_bleu_counts", reserved_bleu},
        {"bo_translate_desc", reserved_translate}, {"bo_lanes_desc", reserved_lanes},
        {"bo_trainer_desc", reserved_trainer},     {"bo_trainer_desc", reserved_cost},
        {"bo_lora_desc", reserved_lora},
    };
    things *t = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t word = 0; word < 4; word++)
            assert_fails(t->context, BO_INVALID, cases[i].name, cases[i].call(t, word, true));
        assert_ok(t->context, cases[i].call(t, 0, false));
    }
}

/* Reserved fields of outputs are zero. */
static void test_outputs(void **state)
{
    static const uint64_t zero[4];
    things *t = *state;
    bo_context *c = t->context;
    bo_evaluation evaluation;
    bo_classification classification;
    bo_translation translation;
    bo_bleu bleu;
    bo_training_cost cost;
    bo_training_score score;
    bo_trainer *trainer;
    memset(&evaluation, 1, sizeof evaluation);
    memset(&classification, 1, sizeof classification);
    memset(&translation, 1, sizeof translation);
    memset(&bleu, 1, sizeof bleu);
    memset(&cost, 1, sizeof cost);
    memset(&score, 1, sizeof score);
    const bo_trainer_desc run = {
        .model = t->language, .train.corpus = t->corpus, .valid.corpus = t->corpus, .steps = 1};
    assert_ok(c, bo_model_evaluate(c, t->language, t->corpus, 0, 0, &evaluation));
    assert_ok(c, bo_model_evaluate_labels(c, t->labeler, t->texts, 0, &classification, NULL));
    assert_ok(c, bo_model_evaluate_translation(c, t->translator, t->pairs, 0, NULL, true, true, &translation));
    bo_bleu_score(&(bo_bleu_counts){.length = 1, .reference_length = 1}, &bleu);
    assert_ok(c, bo_trainer_estimate(c, &run, &cost));
    assert_ok(c, bo_trainer_create(c, &run, &trainer));
    assert_ok(c, bo_trainer_evaluate(c, trainer, &score));
    bo_trainer_destroy(trainer);
    assert_memory_equal(evaluation.reserved, zero, sizeof zero);
    assert_memory_equal(classification.reserved, zero, sizeof zero);
    assert_memory_equal(translation.reserved, zero, sizeof zero);
    assert_memory_equal(translation.bleu.reserved, zero, sizeof zero);
    assert_memory_equal(bleu.reserved, zero, sizeof zero);
    assert_memory_equal(cost.reserved, zero, sizeof zero);
    assert_memory_equal(score.reserved, zero, sizeof zero);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null),
        cmocka_unit_test_setup_teardown(test_failures, make_things, free_things),
        cmocka_unit_test_setup_teardown(test_reserved, make_things, free_things),
        cmocka_unit_test_setup_teardown(test_outputs, make_things, free_things),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
