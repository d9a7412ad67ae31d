#include "language.h"
#include "../../src/io/mapping.h"
#include "../../src/train/train.h"
#include "reading.h"
#include <math.h>
#include <string.h>

/* ---- text -------------------------------------------------------------------------------------------------------- */

bo_status lab_text_of(lab_run *run, const int32_t *train, size_t train_count, const int32_t *valid, size_t valid_count,
                      lab_text *out)
{
    bo_context *context = lab_context(run);
    *out = (lab_text){0};
    bo_status status = bo_tokenizer_create(context, &out->tokenizer);
    if (status == BO_OK)
        status = bo_corpus_open(context,
                                &(bo_corpus_desc){.tokenizer = out->tokenizer, .ids = train, .id_count = train_count},
                                &out->train);
    if (status == BO_OK)
        status = bo_corpus_open(context,
                                &(bo_corpus_desc){.tokenizer = out->tokenizer, .ids = valid, .id_count = valid_count},
                                &out->valid);
    if (status != BO_OK) lab_text_close(out);
    return status;
}

void lab_text_close(lab_text *text)
{
    bo_corpus_close(text->train);
    bo_corpus_close(text->valid);
    bo_tokenizer_destroy(text->tokenizer);
    *text = (lab_text){0};
}

static bo_status split(lab_run *run, const char *bytes, size_t count, lab_text *out)
{
    int32_t *ids = bo_alloc_raw(lab_context(run), count, sizeof *ids, "a text");
    if (!ids) return BO_MEMORY;
    for (size_t i = 0; i < count; i++) ids[i] = (unsigned char)bytes[i];
    const size_t train = count - count / 10;
    const bo_status status = lab_text_of(run, ids, train, ids + train, count - train, out);
    bo_free(ids);
    return status;
}

static bo_status made_up(lab_run *run, size_t bytes, lab_text *out)
{
    char *text = bo_alloc_raw(lab_context(run), bytes, 1, "a text");
    if (!text) return BO_MEMORY;
    lab_synthetic_text(lab_seed(run), bytes, text);
    const bo_status status = split(run, text, bytes, out);
    bo_free(text);
    return status;
}

bo_status lab_text_open(lab_run *run, size_t bytes, lab_text *out)
{
    enum { MIN_BYTES = 4096 };
    const char *path = lab_options(run)->text;
    const size_t max_bytes = bytes ? bytes : (size_t)1 << 20;
    if (!path) return made_up(run, max_bytes, out);
    bo_mapping file;
    BO_TRY(bo_mapping_open(lab_context(run), path, &file));
    const size_t count = file.size < max_bytes ? file.size : max_bytes;
    bo_status status = count < MIN_BYTES
                           ? bo_fail(lab_context(run), BO_INVALID,
                                     "%s has %zu bytes of text; experiments need at least %d", path, count, MIN_BYTES)
                           : split(run, file.data, count, out);
    bo_mapping_close(&file);
    return status;
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

static bo_status run_steps(lab_run *run, bo_trainer *trainer, const lab_training *training, lab_trained *out)
{
    const uint64_t tail = training->steps - training->steps / 10;
    double sum = 0;
    for (uint64_t step = 0; step < training->steps; step++) {
        double loss;
        const double start = bo_seconds();
        BO_TRY(bo_trainer_step(lab_context(run), trainer, &loss));
        out->seconds += bo_seconds() - start;
        out->steps = step + 1;
        if (!isfinite(loss)) return BO_NUMERIC;
        if (step >= tail) sum += loss;
        if (training->watch) training->watch(training->user, step, loss);
        const double part = (double)(step + 1) / (double)training->steps;
        if (training->to > 0) BO_TRY(lab_progress(run, training->from + (training->to - training->from) * part));
    }
    out->last = sum / (double)(training->steps - tail);
    return BO_OK;
}

static bo_status train_and_score(lab_run *run, bo_trainer *trainer, const lab_training *training, lab_trained *out)
{
    bo_training_score score;
    bo_status status = run_steps(run, trainer, training, out);
    if (status == BO_OK) status = bo_trainer_evaluate(lab_context(run), trainer, &score);
    if (status == BO_OK) out->loss = score.loss;
    if (status == BO_NUMERIC || (status == BO_OK && !isfinite(out->loss))) {
        out->diverged = true;
        out->loss = out->last = INFINITY;
        return BO_OK;
    }
    return status;
}

bo_status lab_train(lab_run *run, bo_model *model, const lab_text *text, const lab_training *training, lab_trained *out)
{
    bo_trainer *trainer;
    *out = (lab_trained){0};
    const bo_trainer_desc desc = {.model = model,
                                  .train.corpus = text->train,
                                  .valid.corpus = text->valid,
                                  .optimizer = training->optimizer,
                                  .schedule = training->schedule,
                                  .batch = training->batch,
                                  .steps = training->steps,
                                  .eval_tokens = training->eval_tokens ? training->eval_tokens : 16384,
                                  .freeze = training->freeze,
                                  .stateful = training->stateful,
                                  .state_windows = training->state_windows,
                                  .redraw_every = training->redraw_every,
                                  .seed = lab_seed(run)};
    BO_TRY(bo_trainer_create(lab_context(run), &desc, &trainer));
    const bo_status status = train_and_score(run, trainer, training, out);
    bo_trainer_destroy(trainer);
    return status;
}

bo_status lab_train_new(lab_run *run, const bo_model_desc *desc, const lab_text *text, const lab_training *training,
                        bo_model **model, lab_trained *out)
{
    bo_model_desc seeded = *desc;
    *model = NULL;
    if (!seeded.seed) seeded.seed = lab_seed(run);
    BO_TRY(bo_model_create(lab_context(run), &seeded, text->tokenizer, model));
    const bo_status status = lab_train(run, *model, text, training, out);
    if (status != BO_OK) {
        bo_model_destroy(*model);
        *model = NULL;
    }
    return status;
}

bo_status lab_swap(lab_run *run, const bo_model_desc *desc, const bo_model *from, bo_model **out)
{
    bo_model_desc seeded = *desc;
    if (!seeded.seed) seeded.seed = lab_seed(run);
    BO_TRY(bo_model_create(lab_context(run), &seeded, bo_model_tokenizer(from), out));
    const bo_status status = bo_model_adopt(lab_context(run), *out, from, NULL);
    if (status != BO_OK) {
        bo_model_destroy(*out);
        *out = NULL;
    }
    return status;
}

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

bo_status lab_loss(lab_run *run, const bo_model *model, const lab_text *text, size_t tokens, double *out)
{
    bo_evaluation score;
    const bo_status status = bo_model_evaluate(lab_context(run), model, text->valid, 0, tokens, &score);
    *out = status == BO_OK && isfinite(score.loss) ? score.loss : INFINITY;
    return status == BO_NUMERIC ? BO_OK : status;
}

static size_t best_of(const float *logits, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* Predicts every token of a window except the first from the preceding ones. */
static size_t window_hits(const int32_t *ids, size_t count, const float *logits, size_t vocab)
{
    size_t hits = 0;
    for (size_t i = 0; i + 1 < count; i++) hits += best_of(logits + i * vocab, vocab) == (size_t)ids[i + 1];
    return hits;
}

static bo_status count_hits(lab_run *run, lab_reader *reader, const lab_text *text, size_t tokens, int32_t *ids,
                            float *logits, double *out)
{
    const size_t vocab = lab_reader_vocab(reader);
    size_t hits = 0, guessed = 0;
    for (size_t at = 0; at + reader->context <= tokens; at += reader->context) {
        BO_TRY(lab_reader_held_out(run, reader, text, at, ids));
        BO_TRY(lab_reader_read(run, reader, ids, 0));
        BO_TRY(lab_reader_logits(run, reader, logits));
        hits += window_hits(ids, reader->context, logits, vocab);
        guessed += reader->context - 1;
    }
    *out = guessed ? (double)hits / (double)guessed : NAN;
    return BO_OK;
}

bo_status lab_accuracy(lab_run *run, const bo_model *model, const lab_text *text, size_t tokens, double *out)
{
    const bo_model_desc *desc = bo_model_describe(model);
    const uint64_t held_out = bo_corpus_tokens(text->valid);
    lab_reader reader;
    BO_TRY(lab_reader_open(run, model, &(lab_reading){.logits = true}, &reader));
    int32_t *ids = bo_alloc(lab_context(run), reader.rows, sizeof *ids, "a window");
    float *logits = bo_alloc(lab_context(run), reader.rows * desc->vocab, sizeof *logits, "logits");
    bo_status status = ids && logits ? BO_OK : BO_MEMORY;
    if (status == BO_OK)
        status = count_hits(run, &reader, text, tokens < held_out ? tokens : (size_t)held_out, ids, logits, out);
    bo_free(ids);
    bo_free(logits);
    lab_reader_close(&reader);
    if (status != BO_NUMERIC) return status;
    *out = 0; /* a diverged model predicts nothing */
    return BO_OK;
}
