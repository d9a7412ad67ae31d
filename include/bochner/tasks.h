/* Bochner: labels and translations. A model whose task (model.h) is to classify, match or translate, used on texts.
 *
 *     bo_model_load(context, "reviews", &model);
 *     bo_texts_desc desc = {.kind = BO_TEXTS_ALONE, .paths = paths, .path_count = 1, .tokenizer = bo_model_tokenizer(model)};
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

/* How texts for a model are to be opened: kind, tokenizer, labels, longest (0 where texts of any length can be read), end as
 * its task wants them; paths and the rest are the caller's. alone: without labels or targets. */
BO_API void bo_model_texts(const bo_model *model, bool alone, bo_texts_desc *out);

/* ---- labels ----------------------------------------------------------------------------------------------------------- */

/* Probabilities of the classes for examples first … first + count - 1: count x classes. Texts of any length: where all layers
 * read forwards they stream through the state in constant memory, else a text is read whole. */
BO_API bo_status bo_model_classify(bo_context *context, const bo_model *model, const bo_texts *texts, size_t first,
                                   size_t count, float *probabilities);

/* Bytes of the state that a text streams through; 0: texts are read whole. */
BO_API size_t bo_model_state_bytes(const bo_model *model);

typedef struct bo_classification {
    double loss;         /* mean nats per example */
    double accuracy;     /* in [0, 1] */
    bo_metrics *metrics; /* the same and the confusion matrix; freed by bo_classification_free */
    uint64_t examples, tokens;
    double seconds;
} bo_classification;
/* most 0: all examples. */
BO_API bo_status bo_model_evaluate_labels(bo_context *context, const bo_model *model, const bo_texts *texts,
                                          uint64_t most, bo_classification *out);
BO_API void bo_classification_free(bo_classification *found);

/* ---- translations ------------------------------------------------------------------------------------------------------- */

/* Zero means the default. */
typedef struct bo_translate_desc {
    size_t beam;     /* hypotheses kept, at most 1024; 0: 1, greedy */
    double penalty;  /* scores are log p / ((5 + length) / 6)^penalty (1609.08144); 0: 1 where beam > 1; < 0: none */
    size_t most;     /* tokens of a translation; 0: twice the source's and 50, within the context */
    size_t together; /* sources taken at once; 0: 64 / beam, at least 1 */
} bo_translate_desc;
/* ids[i] (begun as {0}, freed with bo_ids_free) becomes the translation of side 0 of example first + i, without its end; score
 * (NULL: not wanted) its log probability. Each source is read once into states of fixed size (of exact attention: its keys and
 * values), from which its hypotheses are decoded. */
BO_API bo_status bo_model_translate(bo_context *context, const bo_model *model, const bo_texts *texts, size_t first,
                                    size_t count, const bo_translate_desc *desc, bo_ids *ids, double *scores);

typedef struct bo_translation {
    double loss, perplexity; /* of the targets, nats per token */
    bo_bleu bleu;            /* of what is decoded, against the targets as they stand in the file */
    uint64_t examples, tokens;
    size_t state_bytes; /* of one hypothesis, its share of the source included */
    double seconds;     /* of decoding */
} bo_translation;
/* desc NULL: greedy. tokenize: by the 13a rules; else the files are tokenized already. decode false: loss alone (bleu 0). most
 * 0: all examples. */
BO_API bo_status bo_model_evaluate_translation(bo_context *context, const bo_model *model, const bo_texts *texts,
                                               uint64_t most, const bo_translate_desc *desc, bool tokenize, bool decode,
                                               bo_translation *out);

/* ---- lanes: several timelines that step together ------------------------------------------------------------------------ */

/* Language models and decoders: `count` sequences of one model, a token each at a time. The state of a lane has a size that is
 * known beforehand. */
typedef struct bo_lanes bo_lanes;
typedef struct bo_lanes_desc {
    size_t count;    /* lanes */
    size_t capacity; /* most tokens of a lane where attention keeps every key; 0: the model's context */
    size_t source;   /* TRANSLATE: most tokens of a source, likewise; 0: the context */
} bo_lanes_desc;
BO_API bo_status bo_lanes_create(bo_context *context, const bo_model *model, const bo_lanes_desc *desc, bo_lanes **out);
BO_API void bo_lanes_destroy(bo_lanes *lanes); /* NULL is fine */
/* Of one lane, with what it asks of its source (which lanes of the same source share). */
BO_API size_t bo_lanes_state_bytes(const bo_lanes *lanes);
/* Lanes begin anew; their sources stay. */
BO_API bo_status bo_lanes_reset(bo_context *context, bo_lanes *lanes);
/* TRANSLATE: source i (ids with the end) goes to lanes i n … (i + 1) n - 1, n = count / sources. Lanes begin anew. */
BO_API bo_status bo_lanes_read(bo_context *context, bo_lanes *lanes, const bo_text_view *sources, size_t count);
/* Lanes 0 … active - 1 take ids[i]; logits (active x vocab; NULL: not wanted) of what follows. */
BO_API bo_status bo_lanes_step(bo_context *context, bo_lanes *lanes, size_t active, const int32_t *ids, float *logits);
/* Lane i becomes what lane from[i] was, for i < active: beams, and lanes that ended making room. Nothing is copied where no lane
 * is taken twice. What was in the lanes from `active` on is gone. */
BO_API bo_status bo_lanes_choose(bo_context *context, bo_lanes *lanes, size_t active, const size_t *from);

#ifdef __cplusplus
}
#endif
#endif
