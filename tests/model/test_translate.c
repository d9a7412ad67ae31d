/* Translation of texts: results are in the order of the file and do not depend on the batch; loss and BLEU equal those
 * of the single texts; bad input; every allocation fails once. */
#include "text/facts.h"
#include <bochner/data.h>
#include <bochner/tasks.h>
#include "base/counting.h"
#include "models.h"

static const char *const lines[] = {"ein haus\ta house\n", "der hund\tthe dog\n", "ja\tyes\n",
                                    "ein hund und ein haus\ta dog and a house\n", "nein\tno\n"};
enum { LINES = sizeof lines / sizeof *lines };

static bo_model *bytes_model(bo_context *context, const char *kind, const bo_tokenizer *tokenizer, bo_model_task task)
{
    bo_model_desc desc = test_desc(kind);
    bo_model *model;
    desc.task = task, desc.vocab = 0, desc.width = 8, desc.block.hidden = 12;
    assert_ok(context, bo_model_create(context, &desc, tokenizer, &model));
    shake(context, model);
    return model;
}

/* Lines first … first + count - 1. */
static bo_status open_lines(bo_context *context, const bo_model *model, size_t first, size_t count, bo_texts **out)
{
    char memory[512] = "";
    bo_texts_desc desc = {0};
    for (size_t i = 0; i < count; i++) strcat(memory, lines[first + i]);
    bo_model_preset_texts(model, false, &desc);
    desc.memory = memory, desc.memory_bytes = strlen(memory);
    return bo_texts_open(context, &desc, out);
}

static void free_all(bo_ids *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) bo_ids_free(&ids[i]);
}

/* ---- any number of texts together -------------------------------------------------------------------------------- */

static void check_together(bo_context *context, const bo_model *model, const bo_texts *texts, size_t beam)
{
    bo_ids alone[LINES] = {{0}}, together[LINES] = {{0}};
    double alone_scores[LINES], scores[LINES];
    bo_translate_desc desc = {.beam = beam, .max_tokens = 9};
    for (size_t i = 0; i < LINES; i++)
        assert_ok(context, bo_model_translate(context, model, texts, i, 1, &desc, &alone[i], &alone_scores[i]));
    for (desc.together = 0; desc.together < 4; desc.together++) {
        assert_ok(context, bo_model_translate(context, model, texts, 0, LINES, &desc, together, scores));
        for (size_t i = 0; i < LINES; i++) {
            assert_true(alone[i].count <= desc.max_tokens);
            assert_int_equal(together[i].count, alone[i].count);
            assert_memory_equal(together[i].items, alone[i].items, alone[i].count * sizeof *alone[i].items);
            assert_close(scores[i], alone_scores[i], 1e-4);
            assert_true(scores[i] <= 0);
        }
        free_all(together, LINES);
    }
    free_all(alone, LINES);
}

static void any_number_together(void **state)
{
    (void)state;
    static const char *const kinds[] = {"softmax", "rfa", "ridge", "gru"};
    bo_context *context = test_context(2);
    bo_tokenizer *tokenizer;
    assert_ok(context, bo_tokenizer_create(context, &tokenizer));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bo_model *model = bytes_model(context, kinds[i], tokenizer, BO_MODEL_TASK_TRANSLATE);
        bo_texts *texts;
        assert_ok(context, open_lines(context, model, 0, LINES, &texts));
        check_together(context, model, texts, 1);
        check_together(context, model, texts, 3);
        bo_texts_close(texts);
        bo_model_destroy(model);
    }
    bo_tokenizer_destroy(tokenizer);
    bo_context_destroy(context);
}

/* ---- scores ------------------------------------------------------------------------------------------------------ */

static void add_bleu(bo_context *context, const bo_model *model, const bo_texts *texts, bo_bleu_counts *counts)
{
    for (size_t i = 0; i < bo_texts_count(texts); i++) {
        bo_ids ids = {0};
        char *text;
        size_t bytes, reference_bytes;
        const char *reference = bo_texts_text(texts, i, 1, &reference_bytes);
        assert_ok(context, bo_model_translate(context, model, texts, i, 1, NULL, &ids, NULL));
        assert_ok(context,
                  bo_tokenizer_decode(context, bo_model_tokenizer(model), ids.items, ids.count, &text, &bytes));
        assert_ok(context, bo_bleu_add(context, counts, text, bytes, reference, reference_bytes, true));
        bo_free(text);
        bo_ids_free(&ids);
    }
}

static void all_is_the_sum_of_each(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_tokenizer *tokenizer;
    bo_texts *texts;
    bo_translation all, first;
    bo_bleu_counts counts = {0};
    double nats = 0, nats_of_two = 0;
    assert_ok(context, bo_tokenizer_create(context, &tokenizer));
    bo_model *model = bytes_model(context, "rfa", tokenizer, BO_MODEL_TASK_TRANSLATE);
    for (size_t i = 0; i < LINES; i++) {
        bo_translation one;
        assert_ok(context, open_lines(context, model, i, 1, &texts));
        assert_ok(context, bo_model_evaluate_translation(context, model, texts, 0, NULL, true, false, &one));
        assert_int_equal(one.tokens, bo_texts_tokens(texts, 1));
        nats += one.loss * (double)one.tokens;
        if (i < 2) nats_of_two += one.loss * (double)one.tokens;
        add_bleu(context, model, texts, &counts);
        bo_texts_close(texts);
    }
    assert_ok(context, open_lines(context, model, 0, LINES, &texts));
    assert_ok(context, bo_model_evaluate_translation(context, model, texts, 0, NULL, true, true, &all));
    assert_ok(context, bo_model_evaluate_translation(context, model, texts, 2, NULL, true, false, &first));
    assert_close(all.loss * (double)all.tokens, nats, 1e-3);
    assert_close(first.loss * (double)first.tokens, nats_of_two, 1e-3);
    assert_close(all.perplexity, exp(all.loss), 1e-9 * all.perplexity);
    assert_int_equal(all.examples, LINES);
    assert_int_equal(first.examples, 2);
    bo_bleu bleu;
    bo_bleu_score(&counts, &bleu);
    assert_int_equal(all.bleu.length, bleu.length);
    assert_close(all.bleu.precisions[0], bleu.precisions[0], 1e-9);
    assert_true(all.state_bytes > 0);
    bo_texts_close(texts);
    bo_model_destroy(model);
    bo_tokenizer_destroy(tokenizer);
    bo_context_destroy(context);
}

/* ---- bad input --------------------------------------------------------------------------------------------------- */

static void test_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_tokenizer *tokenizer;
    bo_texts *texts, *without_end, *alone;
    bo_translation out;
    bo_ids ids[LINES] = {{0}};
    assert_ok(context, bo_tokenizer_create(context, &tokenizer));
    bo_model *model = bytes_model(context, "softmax", tokenizer, BO_MODEL_TASK_TRANSLATE);
    bo_model *language = bytes_model(context, "softmax", tokenizer, BO_MODEL_TASK_LANGUAGE);
    assert_ok(context, open_lines(context, model, 0, LINES, &texts));
    bo_texts_desc desc = {.kind = BO_TEXTS_PAIR, .memory = lines[0], .memory_bytes = strlen(lines[0])};
    desc.tokenizer = tokenizer;
    assert_ok(context, bo_texts_open(context, &desc, &without_end));
    desc.kind = BO_TEXTS_ALONE, desc.end = 257, desc.memory_bytes = strcspn(lines[0], "\t");
    assert_ok(context, bo_texts_open(context, &desc, &alone));
#define REFUSED(message, ...) assert_fails(context, BO_INVALID, message, bo_model_translate(context, __VA_ARGS__))
    REFUSED("found language", language, texts, 0, 1, NULL, ids, NULL);
    REFUSED("argument 'model' is NULL", NULL, texts, 0, 1, NULL, ids, NULL);
    REFUSED("argument 'texts' is NULL", model, NULL, 0, 1, NULL, ids, NULL);
    REFUSED("argument 'ids' is NULL", model, texts, 0, 1, NULL, NULL, NULL);
    REFUSED("there are 5", model, texts, 4, 2, NULL, ids, NULL);
    REFUSED("line 1: the text does not end", model, without_end, 0, 1, NULL, ids, NULL);
    REFUSED("penalty should be", model, texts, 0, 1, (&(bo_translate_desc){.beam = 2, .penalty = NAN}), ids, NULL);
    REFUSED("at most 1024", model, texts, 0, 1, (&(bo_translate_desc){.beam = 1025}), ids, NULL);
    assert_fails(context, BO_INVALID, "found texts without targets",
                 bo_model_evaluate_translation(context, model, alone, 0, NULL, true, true, &out));
    assert_fails(context, BO_INVALID, "argument 'out' is NULL",
                 bo_model_evaluate_translation(context, model, texts, 0, NULL, true, true, NULL));
    assert_ok(context, bo_model_translate(context, model, alone, 0, 0, NULL, NULL, NULL));
    bo_texts_close(texts);
    bo_texts_close(without_end);
    bo_texts_close(alone);
    bo_model_destroy(model);
    bo_model_destroy(language);
    bo_tokenizer_destroy(tokenizer);
    bo_context_destroy(context);
}

/* ---- cancellation ------------------------------------------------------------------------------------------------ */

static bool until_second_step(void *user, const char *what, double done, double total)
{
    (void)total;
    *(size_t *)user += 1;
    return strcmp(what, "searching") != 0 || done < 2;
}

/* Cancellation between the steps of a search, which may be the only work. */
static void test_stopped(void **state)
{
    (void)state;
    size_t calls = 0;
    bo_context *context;
    bo_context_desc how = {.threads = 1, .progress = until_second_step, .user = &calls};
    assert_int_equal(bo_context_create(&how, &context), BO_OK);
    bo_tokenizer *tokenizer;
    bo_texts *texts;
    bo_ids ids[1] = {{0}};
    assert_ok(context, bo_tokenizer_create(context, &tokenizer));
    bo_model *model = bytes_model(context, "rfa", tokenizer, BO_MODEL_TASK_TRANSLATE);
    assert_ok(context, open_lines(context, model, 0, 1, &texts));
    bo_translate_desc desc = {
        .beam = 300, .max_tokens = 9}; /* wider than the number of tokens: not all hypotheses can end in one step */
    assert_int_equal(bo_model_translate(context, model, texts, 0, 1, &desc, ids, NULL), BO_CANCELED);
    assert_true(calls >= 3);
    assert_null(ids[0].items);
    bo_texts_close(texts);
    bo_model_destroy(model);
    bo_tokenizer_destroy(tokenizer);
    bo_context_destroy(context);
}

/* ---- no memory --------------------------------------------------------------------------------------------------- */

static void starve(const bo_model *model, const bo_texts *texts, size_t beam)
{
    for (size_t at = 1;; at++) {
        counting memory = {0};
        bo_context *context = counting_context(&memory, 1);
        size_t before = atomic_load(&memory.live);
        bo_translation out;
        memory.fail_at = atomic_load(&memory.calls) + at;
        bo_translate_desc desc = {.beam = beam, .max_tokens = 3};
        bo_status status = bo_model_evaluate_translation(context, model, texts, 2, &desc, true, true, &out);
        bool reached = atomic_load(&memory.calls) >= memory.fail_at;
        if (atomic_load(&memory.live) != before) fail_msg("beam %zu: allocation %zu failing leaks", beam, at);
        if (status != (reached ? BO_MEMORY : BO_OK))
            fail_msg("beam %zu: allocation %zu failing: %s, %s", beam, at, bo_status_string(status),
                     bo_context_error(context));
        bo_context_destroy(context);
        if (!reached) return;
    }
}

static void test_starved(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_tokenizer *tokenizer;
    bo_texts *texts;
    assert_ok(context, bo_tokenizer_create(context, &tokenizer));
    bo_model *model = bytes_model(context, "softmax", tokenizer, BO_MODEL_TASK_TRANSLATE);
    assert_ok(context, open_lines(context, model, 0, LINES, &texts));
    starve(model, texts, 2);
    bo_texts_close(texts);
    bo_model_destroy(model);
    bo_tokenizer_destroy(tokenizer);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_together), cmocka_unit_test(all_is_the_sum_of_each), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_stopped),        cmocka_unit_test(test_starved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
