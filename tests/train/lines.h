/* Lines for classification and translation that small models learn quickly, and runs on them. */
#ifndef BO_TEST_TRAIN_LINES_H
#define BO_TEST_TRAIN_LINES_H

#include "text/facts.h"
#include "runs.h"

typedef struct lines {
    bo_texts *train, *held_out;
} lines;

enum { EXAMPLES = 240 };

static inline void write_characters(FILE *file, bo_rng *rng, size_t count)
{
    for (size_t i = 0; i < count; i++) fputc('a' + (int)bo_rng_below(rng, 6), file);
}

/* Label 1: the text contains a 'z'. */
static inline void write_labeled(FILE *file, bo_rng *rng)
{
    const bool marked = bo_rng_below(rng, 2);
    fprintf(file, marked ? "with\t" : "without\t");
    write_characters(file, rng, 2 + bo_rng_below(rng, 8));
    if (marked) fputc('z', file);
    write_characters(file, rng, bo_rng_below(rng, 8));
    fputc('\n', file);
}

/* Label 1: both texts use the same character. */
static inline void write_match(FILE *file, bo_rng *rng)
{
    const bool same = bo_rng_below(rng, 2);
    const int first = (int)bo_rng_below(rng, 2), second = same ? first : 1 - first;
    fprintf(file, "%d\t", same);
    for (size_t i = 3 + bo_rng_below(rng, 5); i > 0; i--) fputc('a' + first, file);
    fputc('\t', file);
    for (size_t i = 3 + bo_rng_below(rng, 5); i > 0; i--) fputc('a' + second, file);
    fputc('\n', file);
}

/* The target is the source in capitals. */
static inline void write_translation(FILE *file, bo_rng *rng)
{
    char word[8] = "";
    const size_t length = 1 + bo_rng_below(rng, 5);
    for (size_t i = 0; i < length; i++) word[i] = (char)('a' + (int)bo_rng_below(rng, 4));
    fprintf(file, "%s\t", word);
    for (size_t i = 0; i < length; i++) fputc(word[i] - 'a' + 'A', file);
    fputc('\n', file);
}

static const char *write_lines(runs *r, bo_model_task task)
{
    static const char *const names[] = {"", "labeled.tsv", "match.tsv", "translation.tsv"};
    void (*const writers[])(FILE *, bo_rng *) = {NULL, write_labeled, write_match, write_translation};
    const char *path = runs_path(r, names[task]);
    bo_rng rng = bo_rng_make(4, (uint64_t)task);
    FILE *file = fopen(path, "w");
    for (int i = 0; i < EXAMPLES; i++) writers[task](file, &rng);
    fclose(file);
    return path;
}

static inline bo_texts *open_lines(runs *r, bo_model_task task, const char *path, double skip, double take)
{
    static const bo_texts_kind kinds[] = {0, BO_TEXTS_LABELED, BO_TEXTS_LABELED_PAIR, BO_TEXTS_PAIR};
    const bo_texts_desc desc = {.kind = kinds[task],
                                .paths = &path,
                                .path_count = 1,
                                .tokenizer = r->tokenizer,
                                .end = task == BO_MODEL_TASK_TRANSLATE ? 257 : 0,
                                .skip = skip,
                                .take = take,
                                .seed = 9};
    bo_texts *texts = NULL;
    assert_ok(r->context, bo_texts_open(r->context, &desc, &texts));
    return texts;
}

static inline lines make_lines(runs *r, bo_model_task task)
{
    const char *path = write_lines(r, task);
    lines l = {.train = open_lines(r, task, path, 0, 0.8)};
    l.held_out = open_lines(r, task, path, 0.8, 0);
    return l;
}

static inline void close_lines(lines *l)
{
    bo_texts_close(l->train);
    bo_texts_close(l->held_out);
}

static inline bo_model_desc model_desc(bo_model_task task, const char *kind, const lines *l)
{
    bo_model_desc desc = runs_desc(kind);
    desc.task = task;
    desc.vocab = 0;
    desc.context = 32;
    desc.classes = bo_texts_classes(l->train);
    desc.labels = bo_texts_class_names(l->train);
    return desc;
}

static inline bo_model *make_model(runs *r, bo_model_task task, const char *kind, const lines *l)
{
    const bo_model_desc desc = model_desc(task, kind, l);
    return runs_model_of(r, &desc);
}

static inline bo_trainer_desc describe(runs *r, bo_model *model, const lines *l, const char *name)
{
    bo_trainer_desc desc = runs_trainer(r, model, name);
    desc.train.corpus = desc.valid.corpus = NULL;
    desc.train.texts = l->train;
    desc.valid.texts = l->held_out;
    desc.pack = 64;
    desc.eval_tokens = 0;
    desc.optimizer = (bo_optimizer_desc){.kind = BO_OPTIMIZER_ADAMW, .rate = 0.01};
    return desc;
}

#endif
