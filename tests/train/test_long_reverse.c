/* Translators learn to reverse words exactly: greedy and beam decoding are right for words that were not in the
 * examples. */
#include "text/facts.h"
#include <bochner/tasks.h>
#include "model/enums.h"
#include "runs.h"
#include "text/packs.h"

enum { LINES = 5000, HELD_OUT = 100, MIN_LENGTH = 3, MAX_LENGTH = 6, ALPHABET = 6 };

static void write_words(const char *path)
{
    bo_rng rng = bo_rng_make(8, 1);
    FILE *file = fopen(path, "w");
    for (size_t i = 0; i < LINES; i++) {
        char word[MAX_LENGTH + 1] = "";
        size_t length = MIN_LENGTH + bo_rng_below(&rng, MAX_LENGTH - MIN_LENGTH + 1);
        for (size_t j = 0; j < length; j++) word[j] = (char)('a' + (int)bo_rng_below(&rng, ALPHABET));
        fprintf(file, "%s\t", word);
        for (size_t j = length; j--;) fputc(word[j], file);
        fputc('\n', file);
    }
    fclose(file);
}

static bo_texts *open_words(runs *r, const bo_model *model, const char *path, double skip, double take)
{
    bo_texts_desc desc = {0};
    bo_texts *texts;
    bo_model_preset_texts(model, false, &desc);
    desc.paths = &path, desc.path_count = 1, desc.skip = skip, desc.take = take, desc.seed = 2;
    assert_ok(r->context, bo_texts_open(r->context, &desc, &texts));
    return texts;
}

static void learn(runs *r, bo_model *model, const bo_texts *texts, uint64_t steps)
{
    bo_trainer_desc desc = {.model = model, .train.texts = texts, .pack = 256, .batch = 4, .steps = steps, .seed = 7};
    bo_trainer *trainer;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_ok(r->context, bo_trainer_run(r->context, trainer));
    bo_trainer_destroy(trainer);
}

static size_t right_ones(runs *r, const bo_model *model, const bo_texts *texts, size_t beam)
{
    bo_ids ids[HELD_OUT] = {{0}};
    size_t right = 0;
    assert_int_equal(bo_texts_count(texts), HELD_OUT);
    bo_translate_desc desc = {.beam = beam};
    assert_ok(r->context, bo_model_translate(r->context, model, texts, 0, HELD_OUT, &desc, ids, NULL));
    for (size_t i = 0; i < HELD_OUT; i++) {
        bo_text_view target = bo_text_at(texts, i, 1);
        right += ids[i].count + 1 == target.count &&
                 memcmp(ids[i].items, target.ids, ids[i].count * sizeof *target.ids) == 0;
        bo_ids_free(&ids[i]);
    }
    return right;
}

static void check(runs *r, const char *kind, bo_cross cross, uint64_t steps, size_t min_right)
{
    bo_model_desc desc = runs_desc(kind);
    desc.task = BO_MODEL_TASK_TRANSLATE, desc.cross = cross, desc.vocab = 0, desc.context = MAX_LENGTH, desc.layers = 1;
    desc.width = 48, desc.block.heads = 4, desc.encoder_layers = 2;
    if (desc.block.attention.kind == BO_ATTENTION_RFA) desc.block.attention.features.features = 64;
    bo_model *model = runs_model_of(r, &desc);
    char path[200];
    snprintf(path, sizeof path, "%s", runs_path(r, "words.tsv"));
    write_words(path);
    const double part = 1 - (double)HELD_OUT / LINES;
    bo_texts *texts = open_words(r, model, path, 0, part), *held_out = open_words(r, model, path, part, 0);
    learn(r, model, texts, steps);
    for (size_t beam = 1; beam < 5; beam += 3) {
        size_t right = right_ones(r, model, held_out, beam);
        print_message("%s, %s, beam %zu: %zu of %d right\n", kind, bo_cross_name(cross), beam, right, HELD_OUT);
        if (right < min_right) fail_msg("%s, %s: %zu of %d right", kind, bo_cross_name(cross), right, HELD_OUT);
    }
    bo_texts_close(texts);
    bo_texts_close(held_out);
    bo_model_destroy(model);
}

static void words_are_reversed(void **state)
{
    check(*state, "softmax", BO_CROSS_ATTENTION, 120, 97);
    check(*state, "rfa", BO_CROSS_ATTENTION, 300, 90);
    check(*state, "gru", BO_CROSS_ATTENTION, 150, 90);
    check(*state, "gru", BO_CROSS_SUMMARY, 300, 50); /* one vector encodes the whole word */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(words_are_reversed, runs_setup, runs_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
