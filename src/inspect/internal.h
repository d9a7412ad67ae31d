/* Internals of inspection.
 *
 * inspect.c      settings, the passes over a text, the report    weights.c       weights of the heads of a layer
 * statistics.c   moments of queries and keys                     patterns.c      attention patterns
 * circuits.c     W_QK and W_OV                                   attribution.c   residual stream and logits
 * candidates.c   replacements and their order                    errors.c, predictions.c   their errors
 * arrays.c       arrays for the caller                           sizes.c         memory and operations */
#ifndef BO_INSPECT_INTERNAL_H
#define BO_INSPECT_INTERNAL_H

#include <bochner/inspect.h>
#include "../attention/attention.h"
#include "../attention/moments.h"
#include "../base/base.h"
#include "../model/capture.h"
#include "../nn/nn.h"

/* Memory of a report: a list of blocks that are freed together. */
typedef struct bo_inspection_block {
    struct bo_inspection_block *next;
    void *memory;
} bo_inspection_block;

/* A report under construction, and its writable arrays. */
typedef struct bo_inspection_builder {
    bo_inspection out; /* first member, so that bo_inspection_destroy() can access the others */
    bo_layer_report *layers;
    bo_head_report **heads; /* by layer */
    bo_inspect_candidate *candidates;
    bo_inspection_block *blocks;
} bo_inspection_builder;

/* Allocates zeroed memory that is freed with the report. NULL: out of memory. */
void *bo_inspection_alloc(bo_context *context, bo_inspection_builder *report, size_t count, size_t size);

/* Sums over the windows of one layer. */
typedef struct bo_layer_sums {
    /* STATISTICS: sums of x and x xᵀ; one per query head, one per key head */
    bo_second_moments *queries, *keys;
    double rows; /* tokens added to the sums */
    /* BEHAVIOR: per query head */
    struct bo_pattern_sums *patterns, *repeated;
    /* ERRORS: squares, per head and candidate; squares of the softmax output, per head */
    double *error2, *norm2;
    /* ATTRIBUTION: per head */
    double *written2, *logits, *logits2;
    double stream2, stream_numbers, predictions;
} bo_layer_sums;

/* The arrays of one layer in a batch, with rows of all heads: BO_LAYOUT_TOKENS_FIRST. */
typedef struct bo_layer_arrays {
    const bo_attention_desc *attention;
    size_t layer, tokens, windows;
    double scale;           /* s of exp(s q·k) */
    float *q, *k, *v, *out; /* buffers of the largest layer */
} bo_layer_arrays;

/* One inspection. */
typedef struct bo_inspection_run {
    bo_context *context;
    const bo_model *model;
    const bo_model_desc *d;
    bo_inspect_desc desc; /* without zeros */
    bo_inspection_builder *report;
    const int32_t *ids; /* the text */
    size_t count;
    size_t windows, batch; /* windows in all, and per batch */
    bo_layer_sums *sums;   /* by layer */
    bo_layer_arrays arrays;
    bo_capture *capture;
    int32_t *batch_ids;
    double done, steps; /* for progress */
} bo_inspection_run;

static inline bool bo_part_requested(const bo_inspection_run *in, bo_inspect_part part)
{
    return (in->desc.parts & (unsigned)part) && !in->desc.no_report;
}

static inline const bo_attention_desc *bo_inspection_attention(const bo_inspection_run *in, size_t layer)
{
    return bo_attention_describe(bo_model_attention(in->model, layer));
}

/* Returns s of exp(s q·k): the scale of the kind, or 1/√dim. */
double bo_inspection_scale(const bo_attention_desc *attention);

/* True if heads multiply by the weights as stored: false with unit scaling or separate adapters. */
bool bo_has_circuits(const bo_model *model);

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* The matrices of a layer in double, including the gains of norms (inspect.h). */
typedef struct bo_layer_weights {
    size_t width, heads, key_heads, dim, value_dim;
    double *q; /* heads x dim x width */
    double *k; /* key_heads x dim x width */
    double *v; /* key_heads x value_dim x width */
    double *o; /* width x heads x value_dim */
    /* norms that depend on the token: RMSNorm of the output of each head, norm of the summand */
    bool output_norm, summand_norm;
    double *o_plain; /* as o, without the norm of the summand; NULL: there is none */
    double *o_bias;  /* width: the bias of the summand before its norm; NULL: none or not required */
    bo_norm norm;
    double epsilon;
} bo_layer_weights;

/* The caller must free *out, also on failure. */
bo_status bo_layer_weights_read(bo_context *context, const bo_model *model, size_t layer, bo_layer_weights *out);
void bo_layer_weights_free(bo_layer_weights *weights);
/* Reads a weight in double, times its factor in the parametrization. *out: count doubles, or NULL if the model does not
 * have the weight. */
bo_status bo_weight_read(bo_context *context, const bo_model *model, const char *name, size_t count, double **out);
/* The matrix of the logits with the gain of the final norm (vocab x width, float), times the factors of the logits. */
bo_status bo_output_matrix(bo_context *context, const bo_model *model, float **out);
/* Subtracts the mean of the rows. For the output matrix, logits become logits minus the mean logit. */
bo_status bo_subtract_mean_row(bo_context *context, size_t rows, size_t width, float *matrix);

/* ---- parts ------------------------------------------------------------------------------------------------------- */

bo_status bo_statistics_begin(bo_inspection_run *in, size_t layer);
bo_status bo_statistics_add(bo_inspection_run *in);
bo_status bo_statistics_finish(bo_inspection_run *in, size_t layer);

typedef struct bo_pattern_sums {
    double entropy, share, several;               /* several: queries that see at least two keys */
    double previous, self, first, later, queries; /* later: queries after the first */
    double induction, uniform, occurred;
    double copy, copies; /* attention of a second copy */
} bo_pattern_sums;
/* True if the kind has weights exp(s q·k), or estimates them. */
bool bo_has_pattern(const bo_attention_desc *attention);
bo_status bo_patterns_begin(bo_inspection_run *in, size_t layer);
/* ids: tokens of the batch. period: length of a copy if the tokens are repeated once; 0: text. */
bo_status bo_patterns_add(bo_inspection_run *in, const int32_t *ids, size_t period);
void bo_patterns_finish(bo_inspection_run *in, size_t layer);
/* Computes the attention of a head in a window: tokens x tokens, rows sum to 1. m: the M of its key head (rank x dim),
 * or NULL. */
bo_status bo_pattern_of(bo_inspection_run *in, size_t window, size_t head, const float *m, float *out);
/* Reads M of all key heads of a DARK layer; *out is NULL for other kinds. */
bo_status bo_matrix_read(const bo_inspection_run *in, size_t layer, float **out);

/* All layers. */
bo_status bo_circuits(bo_inspection_run *in);
/* Computes an orthonormal basis (width x value_dim, its first *rank columns) of the column space of W_OV. */
bo_status bo_write_basis(bo_context *context, const bo_layer_weights *w, size_t head, double *basis, size_t *rank);

bo_status bo_attribution_begin(bo_inspection_run *in, size_t layer);
/* directions: derivatives of the logit of the next token minus the mean logit with respect to the final stream, rows x
 * width. */
bo_status bo_attribution_directions(bo_inspection_run *in, float **directions);
bo_status bo_attribution_add(bo_inspection_run *in, const float *directions, bool first);
void bo_attribution_finish(bo_inspection_run *in, size_t layer);

/* The maps of candidates with features. */
typedef enum bo_map {
    BO_MAP_FAVOR = 0,
    BO_MAP_OPRF = 1,
    BO_MAP_SDERF = 2,
    BO_MAP_GAUSSIAN = 3,
    BO_MAP_DARK = 4, /* whitened */
    BO_MAP_RFA = 5
} bo_map;
enum { BO_MAPS = 6, BO_FEATURE_COUNTS = 4 };
/* Returns the index of the candidate with only this map. count: index of the number of features in 64, 128, 256,
 * 512. */
static inline size_t bo_map_candidate(bo_map map, size_t count)
{
    return (size_t)map * BO_FEATURE_COUNTS + count;
}

bo_status bo_candidates_make(bo_inspection_run *in);
void bo_candidates_choose(bo_inspection_run *in);
/* Returns the descriptor of a candidate for heads of the current layer. norms: norm of √s q times norm of √s k. */
bo_attention_desc bo_candidate_desc(const bo_inspection_run *in, const bo_inspect_candidate *candidate, size_t heads,
                                    size_t key_heads, double norms);
/* Draws the frequencies of an attention for these rows; does nothing if it has no proposal. */
bo_status bo_candidate_fit(bo_context *context, bo_attention *attention, const bo_attention_shape *shape,
                           const float *q, const float *k);
bo_status bo_errors_begin(bo_inspection_run *in, size_t layer);
bo_status bo_errors_add(bo_inspection_run *in);
/* Predicts the errors of one head of the current layer. m: whitening of its key head. */
bo_status bo_errors_predict(bo_inspection_run *in, size_t head, const float *m, double norms, double *predicted);
/* Number of windows that maps are fitted to, and the first window that they are measured on. */
static inline size_t bo_fit_windows(const bo_layer_arrays *x)
{
    return x->windows > 1 ? x->windows / 2 : 1;
}
static inline size_t bo_first_measured(const bo_layer_arrays *x)
{
    return x->windows > 1 ? x->windows / 2 : 0;
}
bo_status bo_errors_finish(bo_inspection_run *in, size_t layer);

/* Pass the arrays of the current layer, and those of the residual stream, to the caller. */
bo_status bo_arrays_send(bo_inspection_run *in);
bo_status bo_arrays_send_stream(bo_inspection_run *in);

#endif
