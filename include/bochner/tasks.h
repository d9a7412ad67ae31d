/* Bochner: labels and translations. A model whose task (model.h) is to classify, match or translate, used on texts.
 *
 *     bo_model_load(context, "reviews", &model);
 *     bo_texts_desc desc = {.paths = paths, .path_count = 1};
 *     bo_model_preset_texts(model, true, &desc);                                  // kind, tokenizer, …
 *     bo_texts_open(context, &desc, &texts);
 *     bo_model_classify(context, model, texts, 0, count, probabilities);          // count x classes */
#ifndef BOCHNER_TASKS_H
#define BOCHNER_TASKS_H

#include <bochner/metrics.h>
#include <bochner/model.h>
#include <bochner/texts.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/* Sets the fields of a descriptor that the task of the model determines: kind, tokenizer, labels, longest (0 if texts of any
 * length can be read) and end. The other fields are unchanged. `alone`: the texts have no labels or targets. */
BO_API void bo_model_preset_texts(const bo_model *model, bool alone, bo_texts_desc *desc);

/* ---- labels -------------------------------------------------------------------------------------------------------- */

/* Probabilities of the classes for `count` examples from `first` on: count x classes. Texts of any length: if all layers read
 * forward they stream through the state in constant memory, else a text is read whole. */
BO_API bo_status bo_model_classify(bo_context *context, const bo_model *model, const bo_texts *texts, size_t first,
                                   size_t count, float *probabilities);

typedef struct bo_classification {
    double loss;     /* mean nats per example */
    double accuracy; /* in [0, 1] */
    uint64_t examples, tokens;
    double seconds;
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_classification;
/* `most`: examples (0: all). `metrics` (or NULL) receives the confusion matrix and more (metrics.h), to be released with
 * bo_metrics_destroy. */
BO_API bo_status bo_model_evaluate_labels(bo_context *context, const bo_model *model, const bo_texts *texts,
                                          uint64_t most, bo_classification *out, bo_metrics **metrics);

/* ---- translations -------------------------------------------------------------------------------------------------- */

/* Zero means the default. */
typedef struct bo_translate_desc {
    size_t beam;    /* hypotheses kept, at most 1024 (default: 1, greedy) */
    double penalty; /* a score is log p / ((5 + length) / 6)^penalty (1609.08144); < 0: none (default: 1 if beam > 1) */
    size_t most;    /* tokens of a translation (default: twice those of the source and 50, within the context) */
    size_t together;      /* sources that are translated together (default: 64 / beam, at least 1) */
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_translate_desc;
/* ids[i] (begins as {0}, released with bo_ids_free) becomes the translation of side 0 of example first + i, without its end;
 * scores[i] (`scores` may be NULL) its log probability. Each source is read once into states of fixed size (with exact
 * attention: its keys and values), from which its hypotheses are decoded. `desc` may be NULL. */
BO_API bo_status bo_model_translate(bo_context *context, const bo_model *model, const bo_texts *texts, size_t first,
                                    size_t count, const bo_translate_desc *desc, bo_ids *ids, double *scores);

typedef struct bo_translation {
    double loss, perplexity; /* of the targets, nats per token */
    bo_bleu bleu;            /* of the translations, against the targets as they stand in the file */
    uint64_t examples, tokens;
    size_t state_bytes;   /* of one hypothesis, its share of the source included */
    double seconds;       /* of decoding */
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_translation;
/* `desc` may be NULL: greedy. `tokenize`: by the 13a rules; else the files are tokenized already. `decode` false: the loss alone
 * (bleu is 0). `most`: examples (0: all). */
BO_API bo_status bo_model_evaluate_translation(bo_context *context, const bo_model *model, const bo_texts *texts,
                                               uint64_t most, const bo_translate_desc *desc, bool tokenize, bool decode,
                                               bo_translation *out);

/* ==== Advanced ==================================================================================================== */

/* Bytes of the state that a text streams through; 0: texts are read whole. */
BO_API size_t bo_model_state_bytes(const bo_model *model);

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/* ---- lanes: several timelines that step together --------------------------------------------------------------------- */

/* Language models and decoders: `count` sequences of one model, which read one token each at a time. The size of the state of a
 * lane is known beforehand. */
typedef struct bo_lanes bo_lanes;
/* Zero means the default, except count. */
typedef struct bo_lanes_desc {
    size_t count;         /* lanes */
    size_t capacity;      /* most tokens of a lane if attention keeps every key (default: the context of the model) */
    size_t source;        /* TRANSLATE: likewise of a source */
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_lanes_desc;
/* The model must outlive the lanes. */
BO_API bo_status bo_lanes_create(bo_context *context, const bo_model *model, const bo_lanes_desc *desc, bo_lanes **out);
BO_API void bo_lanes_destroy(bo_lanes *lanes);
/* Of one lane, with the state of its source, which lanes of the same source share. */
BO_API size_t bo_lanes_state_bytes(const bo_lanes *lanes);
/* All lanes begin anew; their sources stay. */
BO_API bo_status bo_lanes_reset(bo_context *context, bo_lanes *lanes);
/* TRANSLATE: source i goes to lanes i n … (i + 1) n - 1, n = lanes / count. The lanes begin anew. */
BO_API bo_status bo_lanes_read(bo_context *context, bo_lanes *lanes, const bo_text_view *sources, size_t count);
/* Lanes 0 … active - 1 read ids[i]; `logits` (or NULL) receives active x vocab numbers for the next token. */
BO_API bo_status bo_lanes_step(bo_context *context, bo_lanes *lanes, size_t active, const int32_t *ids, float *logits);
/* Lane i becomes what lane from[i] was, for i < active: for beams, and to close gaps when lanes end. Nothing is copied if no
 * lane is taken twice. The content of lanes from `active` on is lost. */
BO_API bo_status bo_lanes_choose(bo_context *context, bo_lanes *lanes, size_t active, const size_t *from);

#endif

#ifdef __cplusplus
}
#endif
#endif
