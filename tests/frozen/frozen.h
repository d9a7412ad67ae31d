/* What the models of tests/frozen compute, as bytes: the program that made the files and the tests of later versions
 * share this header. It uses no member of a model's descriptor. */
#ifndef BO_TEST_FROZEN_H
#define BO_TEST_FROZEN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bochner/model.h>
#include <bochner/tasks.h>

enum { FROZEN_IDS = 16, FROZEN_HALF = 14, FROZEN_CHUNK = 5, FROZEN_SOURCES = 3 };

/* Results of several calls, one after another. */
typedef struct frozen {
    size_t size;
    char bytes[1 << 16];
} frozen;

#define FROZEN_TRY(call)                                                                                               \
    do {                                                                                                               \
        const bo_status status_ = (call);                                                                              \
        if (status_ != BO_OK) return status_;                                                                          \
    } while (0)

/* A context with the plain C kernels, whose bits do not depend on the CPU. */
static inline bo_context *frozen_context(int threads)
{
    bo_context *context = NULL;
    return bo_context_create(&(bo_context_desc){.threads = threads, .isa = "ref"}, &context) == BO_OK ? context : NULL;
}

static inline bo_status frozen_add(bo_context *context, frozen *out, const void *bytes, size_t size)
{
    if (size > sizeof out->bytes - out->size) return bo_context_fail(context, BO_MEMORY, "more than 64 KiB of results");
    memcpy(out->bytes + out->size, bytes, size);
    out->size += size;
    return BO_OK;
}

static inline void frozen_ids(size_t vocab, int32_t *ids)
{
    for (size_t i = 0; i < FROZEN_IDS; i++) ids[i] = (int32_t)((7 * i * i + 3 * i + 1) % vocab);
}

/* ---- language models --------------------------------------------------------------------------------------------- */

/* The second half of the ids, token by token. */
static inline bo_status frozen_second_half(bo_context *context, bo_session *session, size_t vocab, frozen *out)
{
    int32_t ids[FROZEN_IDS];
    float *logits = malloc(vocab * sizeof *logits);
    bo_status status = logits ? BO_OK : BO_MEMORY;
    frozen_ids(vocab, ids);
    for (size_t i = FROZEN_HALF; i < FROZEN_IDS && status == BO_OK; i++) {
        status = bo_session_feed(context, session, ids + i, 1, logits);
        if (status == BO_OK) status = frozen_add(context, out, logits, vocab * sizeof *logits);
    }
    free(logits);
    return status;
}

/* Losses and logits of all ids; the first half in chunks, of which `state` becomes a file unless it is NULL; then the
 * second half. */
static inline bo_status frozen_read_ids(bo_context *context, bo_session *session, size_t vocab, const char *state,
                                        frozen *out)
{
    int32_t ids[FROZEN_IDS];
    float losses[FROZEN_IDS - 1];
    const size_t late = FROZEN_HALF * vocab;
    float *logits = malloc(FROZEN_IDS * vocab * sizeof *logits);
    bo_status status = logits ? BO_OK : BO_MEMORY;
    frozen_ids(vocab, ids);
    if (status == BO_OK)
        status = bo_session_read(
            context, session,
            &(bo_session_reading){.ids = ids, .count = FROZEN_IDS - 1, .losses = losses, .targets = ids + 1});
    if (status == BO_OK) status = bo_session_reset(context, session);
    if (status == BO_OK)
        status =
            bo_session_read(context, session, &(bo_session_reading){.ids = ids, .count = FROZEN_IDS, .logits = logits});
    if (status == BO_OK) status = bo_session_reset(context, session);
    if (status == BO_OK) status = bo_session_feed(context, session, ids, FROZEN_HALF, NULL);
    if (status == BO_OK && state) status = bo_session_save(context, session, &(bo_sink){.path = state});
    if (status == BO_OK) status = frozen_add(context, out, losses, sizeof losses);
    if (status == BO_OK) status = frozen_add(context, out, logits + late, (FROZEN_IDS * vocab - late) * sizeof *logits);
    free(logits);
    return status == BO_OK ? frozen_second_half(context, session, vocab, out) : status;
}

/* `vocab` of a result of this many bytes. */
static inline size_t frozen_vocab(size_t size)
{
    return (size / sizeof(float) - (FROZEN_IDS - 1)) / (2 * (FROZEN_IDS - FROZEN_HALF));
}

static inline bo_status frozen_language(bo_context *context, const bo_model *model, size_t vocab, const char *state,
                                        frozen *out)
{
    bo_session *session;
    FROZEN_TRY(bo_session_create(context, model, &(bo_session_desc){.chunk = FROZEN_CHUNK, .capacity = 32}, &session));
    const bo_status status = frozen_read_ids(context, session, vocab, state, out);
    bo_session_destroy(session);
    return status;
}

/* The second half after a saved state. */
static inline bo_status frozen_continue(bo_context *context, const bo_model *model, size_t vocab, const char *state,
                                        frozen *out)
{
    bo_session *session;
    FROZEN_TRY(bo_session_create(context, model, &(bo_session_desc){.chunk = FROZEN_CHUNK, .capacity = 32}, &session));
    bo_status status = bo_session_load(context, session, &(bo_source){.path = state});
    if (status == BO_OK) status = frozen_second_half(context, session, vocab, out);
    bo_session_destroy(session);
    return status;
}

/* ---- labels and translations ------------------------------------------------------------------------------------- */

static const char frozen_labeled[] = "no\tthe cat sleeps.\nyes\ta\nno\tand then a ship, a boat and a raft.\n";
static const char frozen_pairs[] = "no\tthe cat\tsleeps.\nyes\ta\ta\nno\tand then a ship,\ta boat and a raft.\n";
static const char frozen_sources[] = "the cat sleeps.\ta b\na\tbb\nand then a ship\tccc c\n";

static inline bo_status frozen_open(bo_context *context, const bo_model *model, const char *lines, bo_texts **out)
{
    bo_texts_desc desc = {.memory = lines, .memory_bytes = strlen(lines)};
    bo_model_preset_texts(model, false, &desc);
    return bo_texts_open(context, &desc, out);
}

/* Probabilities of two classes, and the loss. */
static inline bo_status frozen_labels(bo_context *context, const bo_model *model, bool pairs, frozen *out)
{
    bo_texts *texts;
    bo_classification quality;
    float probabilities[2 * FROZEN_SOURCES];
    FROZEN_TRY(frozen_open(context, model, pairs ? frozen_pairs : frozen_labeled, &texts));
    bo_status status = bo_model_classify(context, model, texts, 0, FROZEN_SOURCES, probabilities);
    if (status == BO_OK) status = bo_model_evaluate_labels(context, model, texts, 0, &quality, NULL);
    bo_texts_close(texts);
    FROZEN_TRY(status);
    FROZEN_TRY(frozen_add(context, out, probabilities, sizeof probabilities));
    return frozen_add(context, out, &quality.loss, sizeof quality.loss);
}

/* Ids and log probabilities of translations. */
static inline bo_status frozen_translate(bo_context *context, const bo_model *model, const bo_texts *texts, size_t beam,
                                         frozen *out)
{
    bo_ids ids[FROZEN_SOURCES] = {{0}};
    double scores[FROZEN_SOURCES];
    const bo_translate_desc desc = {.beam = beam, .max_tokens = 9};
    bo_status status = bo_model_translate(context, model, texts, 0, FROZEN_SOURCES, &desc, ids, scores);
    for (size_t i = 0; i < FROZEN_SOURCES; i++) {
        if (status == BO_OK) status = frozen_add(context, out, ids[i].items, ids[i].count * sizeof *ids[i].items);
        bo_ids_free(&ids[i]);
    }
    return status == BO_OK ? frozen_add(context, out, scores, sizeof scores) : status;
}

/* Greedy decoding, beam search, and the loss of reference translations. */
static inline bo_status frozen_translations(bo_context *context, const bo_model *model, frozen *out)
{
    bo_texts *texts;
    bo_translation quality;
    FROZEN_TRY(frozen_open(context, model, frozen_sources, &texts));
    bo_status status = frozen_translate(context, model, texts, 1, out);
    if (status == BO_OK) status = frozen_translate(context, model, texts, 3, out);
    if (status == BO_OK) status = bo_model_evaluate_translation(context, model, texts, 0, NULL, true, false, &quality);
    bo_texts_close(texts);
    FROZEN_TRY(status);
    return frozen_add(context, out, &quality.loss, sizeof quality.loss);
}

#endif
