/* Small runs for the tests of src/train: a folder with a made text, a model of a few thousand weights, a trainer. */
#ifndef BO_TEST_RUNS_H
#define BO_TEST_RUNS_H

#include "testing.h"
#include "model/kinds.h"
#include "model/model.h"
#include <bochner/data.h>
#include <bochner/train.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct runs {
    bo_context *context;
    char folder[64], path[160];
    bo_tokenizer *tokenizer;
    bo_corpus *text, *held, *noise; /* to learn from, its end, and letters without order */
} runs;

/* Words that a few rules make, so that a model soon predicts them. */
static inline void runs_write_text(const char *path, size_t words, uint64_t seed)
{
    static const char *const animals[] = {"the cat ", "a dog ", "the hen ", "a cow "};
    static const char *const deeds[] = {"sleeps.\n", "eats.\n", "runs away.\n"};
    bo_rng rng = bo_rng_make(seed, 1);
    FILE *file = fopen(path, "w");
    for (size_t i = 0; i < words; i++) {
        const size_t animal = bo_rng_below(&rng, 4);
        fprintf(file, "%s%s", animals[animal], deeds[animal % 3]);
    }
    fclose(file);
}

static inline void runs_write_noise(const char *path, size_t letters)
{
    bo_rng rng = bo_rng_make(5, 2);
    FILE *file = fopen(path, "w");
    for (size_t i = 0; i < letters; i++) fputc('a' + (int)bo_rng_below(&rng, 26), file);
    fclose(file);
}

static inline const char *runs_path(runs *r, const char *name)
{
    snprintf(r->path, sizeof r->path, "%s/%.90s", r->folder, name);
    return r->path;
}

static inline bo_corpus *runs_open(runs *r, const char *name, double skip, double take)
{
    const char *path = runs_path(r, name);
    const bo_corpus_desc desc = {
        .paths = &path, .path_count = 1, .tokenizer = r->tokenizer, .separator = "\n", .skip = skip, .take = take};
    bo_corpus *corpus = NULL;
    assert_ok(r->context, bo_corpus_open(r->context, &desc, &corpus));
    return corpus;
}

static inline int runs_setup(void **state)
{
    runs *r = calloc(1, sizeof *r);
    strcpy(r->folder, "/tmp/bochner-train-XXXXXX");
    if (!mkdtemp(r->folder)) return -1;
    r->context = test_context(2);
    runs_write_text(runs_path(r, "text"), 1500, 1);
    runs_write_noise(runs_path(r, "noise"), 2000);
    assert_ok(r->context, bo_tokenizer_create(r->context, &r->tokenizer));
    r->text = runs_open(r, "text", 0, 0.9);
    r->held = runs_open(r, "text", 0.9, 0);
    r->noise = runs_open(r, "noise", 0, 0);
    *state = r;
    return 0;
}

static inline int runs_remove(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about, (void)kind, (void)where;
    return remove(path);
}

static inline int runs_teardown(void **state)
{
    runs *r = *state;
    bo_corpus_close(r->text);
    bo_corpus_close(r->held);
    bo_corpus_close(r->noise);
    bo_tokenizer_destroy(r->tokenizer);
    bo_context_destroy(r->context);
    nftw(r->folder, runs_remove, 8, FTW_DEPTH | FTW_PHYS);
    free(r);
    return 0;
}

/* Of an attention or another mixer. */
static inline bo_model_desc runs_desc(const char *kind)
{
    bo_model_desc desc = {.layers = 2, .width = 16, .heads = 2, .context = 16, .vocab = 256, .seed = 3};
    test_set_kind(kind, &desc);
    if (desc.attention.kind == BO_ATTENTION_RFA) desc.attention.features.features = 16;
    return desc;
}

static inline bo_model *runs_model_of(runs *r, const bo_model_desc *desc)
{
    bo_model *model = NULL;
    assert_ok(r->context, bo_model_create(r->context, desc, r->tokenizer, &model));
    return model;
}

static inline bo_model *runs_model(runs *r, const char *kind)
{
    const bo_model_desc desc = runs_desc(kind);
    return runs_model_of(r, &desc);
}

/* A run of 12 steps in the folder of this name (NULL: none). */
static inline bo_trainer_desc runs_trainer(runs *r, bo_model *model, const char *name)
{
    return (bo_trainer_desc){.model = model,
                             .train = r->text,
                             .valid = r->held,
                             .folder = name ? runs_path(r, name) : NULL,
                             .batch = 4,
                             .steps = 12,
                             .eval_every = 4,
                             .eval_tokens = 200,
                             .seed = 7};
}

static inline bool runs_same_weights(const bo_model *a, const bo_model *b)
{
    const size_t floats = bo_weights_floats(a->weights);
    assert_int_equal(floats, bo_weights_floats(b->weights));
    return memcmp(bo_weights_data(a->weights), bo_weights_data(b->weights), floats * sizeof(float)) == 0;
}

static inline bool runs_exists(runs *r, const char *name)
{
    return access(runs_path(r, name), F_OK) == 0;
}

static inline size_t runs_lines(runs *r, const char *name)
{
    size_t lines = 0;
    FILE *file = fopen(runs_path(r, name), "r");
    for (int c; file && (c = fgetc(file)) != EOF;) lines += c == '\n';
    if (file) fclose(file);
    return lines;
}

#endif
