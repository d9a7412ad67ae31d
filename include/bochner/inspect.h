/** @file
 * Inspection of language models with attention: what every head computes, and how well it can be replaced.
 * Experimental.
 *
 *     bo_inspection *report;
 *     bo_inspect(context, model, ids, count, NULL, &report);          // ids: the tokens of a text
 *     const bo_head_report *head = &report->layers[3].heads[0];       // layer 3, head 0
 *     printf("%g %g\n", head->moments.largest, head->induction_repeated);
 *     bo_inspection_destroy(report);
 *
 * A report has parts (bo_inspect_part), which can be requested separately:
 *
 * - STATISTICS: norms and second moments of queries and keys, and the eigenvalues of Λ. Positive features of softmax
 *   attention have a finite variance on Gaussian data if these are below 1/6; the optimal distribution of frequencies
 *   exists if they are below 1/2 (2603.04127).
 * - ERRORS: the relative error of the outputs of each head if softmax attention is replaced by features, by a window or
 *   by both; measured, and predicted by the variance formula. A recommendation for each head and for the model.
 * - CIRCUITS: W_QK = s W_Qᵀ W_K and W_OV = W_O W_V of each head: singular values and eigenvalues (Elhage et al. 2021,
 *   "A Mathematical Framework for Transformer Circuits"). They need no text.
 * - BEHAVIOR: entropy of attention, attention to the previous token, to the token itself, to the first token, and to
 *   the tokens that followed earlier occurrences of the current one (Olsson et al. 2022, "In-context Learning and
 *   Induction Heads"), on the text and on random tokens that are repeated.
 * - ATTRIBUTION: what each head adds to the residual stream and, directly, to the logit of the next token of the text.
 *
 * The text is cut into windows that are read separately. The memory is proportional to one batch of windows: about 2048
 * tokens, or two windows if they are longer.
 *
 * **Norms.** The gain of a norm is part of the matrix that follows or precedes it: of W_Q, W_K and W_V (input norm,
 * norms of q and k), of W_O (norm of the heads, norm of the summand), of the output matrix (final norm). The mean that
 * a layer norm subtracts is subtracted from the matrix. Circuits leave out biases and the scale of a norm, which
 * depends on the token; attribution uses the scale of the full stream at that token. W_QK is computed without RoPE: it
 * gives the score of a query and a key at the same position.
 *
 * **Threads.** A report is immutable and may be shared. Results do not depend on the number of threads.
 */
#ifndef BOCHNER_INSPECT_H
#define BOCHNER_INSPECT_H

#include <bochner/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Advanced ==================================================================================================== */

/* ---- settings ---------------------------------------------------------------------------------------------------- */

/** Parts of a report; combine them with |. */
typedef enum bo_inspect_part {
    BO_INSPECT_PART_STATISTICS = 1,  /**< second moments of queries and keys */
    BO_INSPECT_PART_ERRORS = 2,      /**< errors of replacements of softmax attention */
    BO_INSPECT_PART_CIRCUITS = 4,    /**< W_QK and W_OV */
    BO_INSPECT_PART_BEHAVIOR = 8,    /**< attention patterns */
    BO_INSPECT_PART_ATTRIBUTION = 16 /**< contributions to the residual stream and to logits */
} bo_inspect_part;

/** An array inside a model. */
typedef enum bo_inspect_array_kind {
    BO_INSPECT_ARRAY_Q = 0,       /**< queries, after norm and RoPE: (windows, heads, tokens, dim) */
    BO_INSPECT_ARRAY_K = 1,       /**< keys, after norm and RoPE: (windows, key_heads, tokens, dim) */
    BO_INSPECT_ARRAY_V = 2,       /**< values: (windows, key_heads, tokens, value_dim) */
    BO_INSPECT_ARRAY_OUT = 3,     /**< outputs of the heads: (windows, heads, tokens, value_dim) */
    BO_INSPECT_ARRAY_PATTERN = 4, /**< attention of the first window: (heads, tokens, tokens), rows sum to 1 */
    /** The residual stream: (windows, tokens, width). `layer` is the place: 0 is the embedding, 1 + 2 l and 2 + 2 l
     * follow the attention and the MLP of layer l. */
    BO_INSPECT_ARRAY_STREAM = 5,
    BO_INSPECT_ARRAY_WRITES = 6 /**< an orthonormal basis of what each head can write: (heads, width, value_dim) */
} bo_inspect_array_kind;

/** An array that is passed to bo_inspect_desc::receive. */
typedef struct bo_inspect_array {
    bo_inspect_array_kind kind; /**< the array */
    size_t layer;               /**< the layer, or the place of the residual stream */
    size_t rank;                /**< number of dimensions */
    const size_t *shape;        /**< `rank` numbers */
    const float *values;        /**< in C order; valid during the call */
    uint64_t reserved[4];       /**< zero */
} bo_inspect_array;

/** Receives an array. Returns false to stop (BO_CANCELED). */
typedef bool (*bo_inspect_receive_fn)(void *user, const bo_inspect_array *array);

/** The settings of an inspection. Zero means the default in every field. */
typedef struct bo_inspect_desc {
    unsigned parts; /**< bits of bo_inspect_part (default: all; without a text CIRCUITS and BEHAVIOR) */
    size_t tokens;  /**< tokens per window (default: the context of the model, at most 256) */
    size_t windows; /**< maximum number of windows, evenly spaced over the text (default: 8) */
    double target;  /**< ERRORS: relative error that a replacement should reach (default: 0.2) */
    uint64_t seed;  /**< seed of features and of random tokens */
    bool moments;   /**< STATISTICS: keep the moments of every head (bo_head_moments::query_second, …) */
    bool no_report; /**< compute no parts; only `receive` is called */
    /** Receives the arrays of the first batch of windows, one call per array, on the calling thread; NULL: not
     * called. */
    bo_inspect_receive_fn receive;
    void *user;           /**< passed to `receive` */
    uint64_t reserved[4]; /**< must be zero */
} bo_inspect_desc;

/* ---- heads ------------------------------------------------------------------------------------------------------- */

/** Moments of the queries of a head and the keys that it sees, both multiplied by √s, the root of the scale.
 *
 * Λ is the mean of the second moments Λ_q and Λ_k. */
typedef struct bo_head_moments {
    size_t dim;                 /**< length of queries and keys; 0: no moments */
    double query_norm;          /**< root mean square of |√s q| */
    double key_norm;            /**< root mean square of |√s k| */
    const double *eigenvalues;  /**< eigenvalues of Λ, descending, `dim` numbers */
    double largest;             /**< largest eigenvalue: below 1/6, plain positive features have finite variance */
    double smallest;            /**< smallest eigenvalue */
    double condition;           /**< largest / smallest; INFINITY if the smallest is 0 */
    double effective;           /**< effective dimension (Σλ)² / Σλ² */
    double mean_share;          /**< |mean|² / E|x|² of both; the theory assumes 0 */
    bool isotropic_finite;      /**< plain positive features have finite variance for these Λ_q and Λ_k */
    bool proposal_finite;       /**< features drawn from N(0, Σ*) have finite variance */
    double log_gain;            /**< log of the ratio of second moments, isotropic over Σ*; NAN if both are infinite */
    const double *query_mean;   /**< mean of √s q; NULL if moments are not kept */
    const double *query_second; /**< Λ_q, dim x dim; NULL if moments are not kept */
    const double *key_mean;     /**< mean of √s k; NULL if moments are not kept */
    const double *key_second;   /**< Λ_k, dim x dim; NULL if moments are not kept */
    uint64_t reserved[4];       /**< zero */
} bo_head_moments;

/** A matrix of low rank. */
typedef struct bo_circuit {
    size_t rank; /**< number of singular values: the minimum of width and columns of a head; 0: not computed */
    const double *singular; /**< singular values, descending */
    double effective;       /**< effective rank (Σσ)² / Σσ² */
    /** Σ Re λ / Σ |λ| over the eigenvalues, from -1 to 1. W_OV: 1 if the head copies its input, -1 if it removes it.
     * W_QK: 1 if a query attends to equal tokens. */
    double positive;
    uint64_t reserved[4]; /**< zero */
} bo_circuit;

/** The report of one head. Values of parts that were not requested, or that the head does not have, are NAN. */
typedef struct bo_head_report {
    bo_head_moments moments; /**< STATISTICS: of q and k */
    bo_head_moments mapped;  /**< STATISTICS: of M q and M k, for DARK with a matrix; dim 0: no M */
    bo_circuit qk;           /**< CIRCUITS: W_QK; without RoPE */
    bo_circuit ov;           /**< CIRCUITS: W_OV */
    /** CIRCUITS: Σ Re λ / Σ |λ| of (output matrix) W_OV (embedding), vocab x vocab, with the mean logit subtracted: 1
     * if attention to a token raises the logit of that token. */
    double copying;
    double entropy;       /**< BEHAVIOR: mean entropy of attention, in nats */
    double entropy_share; /**< BEHAVIOR: entropy over log(number of keys seen) */
    double previous;      /**< BEHAVIOR: mean attention to the previous token */
    double self;          /**< BEHAVIOR: mean attention to the token itself */
    double first;         /**< BEHAVIOR: mean attention to the first token of the window, except by itself */
    /** BEHAVIOR: mean attention to the tokens that followed earlier occurrences of the current token, over the tokens
     * that occurred before. */
    double induction;
    double induction_uniform; /**< BEHAVIOR: the same for attention that is equal for all keys */
    double previous_repeated; /**< BEHAVIOR: attention to the previous token, on random tokens that are repeated */
    /** BEHAVIOR: attention of the second copy of random tokens to the token after the same token of the first copy. */
    double induction_repeated;
    /** ATTRIBUTION: root mean square of what the head adds, over that of the residual stream after it */
    double written;
    /** ATTRIBUTION: mean contribution to the logit of the next token minus that to the mean logit, directly: through
     * the final norm (with the scale of the whole stream) and the output matrix. */
    double logit;
    double logit_size; /**< ATTRIBUTION: root mean square of the same contribution */
    /** ATTRIBUTION: share of the variance of the residual stream after the head that lies in the subspace that the head
     * can write to, the column space of W_OV; a random subspace has writes_dim / width. */
    double subspace_share;
    size_t writes_dim;       /**< ATTRIBUTION: dimension of that subspace; 0: not computed */
    const double *errors;    /**< ERRORS: measured, one per candidate; NAN: not measured; NULL: not computed */
    const double *predicted; /**< ERRORS: predicted by the variance formula; NAN: there is none; NULL: not computed */
    size_t choice;           /**< ERRORS: the recommended candidate */
    uint64_t reserved[8];    /**< zero */
} bo_head_report;

/* ---- replacements ------------------------------------------------------------------------------------------------ */

/** A replacement of softmax attention. */
typedef struct bo_inspect_candidate {
    bo_attention_desc attention; /**< kind, proposal, features and window; with the sizes of a layer */
    const char *name;            /**< such as "favor# 256" or "window 64 + gaussian 128" */
    const char *options;         /**< as options of the program: "--attention hybrid --features 128 --window 64" */
    bool whitened;               /**< DARK: with the M of bo_attention_whiten() */
    size_t features;             /**< number of features; 0: none */
    size_t window;               /**< number of keys in the window; 0: none */
    size_t state;                /**< numbers in the state of one head */
    double error;                /**< root mean square of the measured errors of all heads; NAN: not measured */
    uint64_t reserved[4];        /**< zero */
} bo_inspect_candidate;

/** The report of a layer. */
typedef struct bo_layer_report {
    const bo_head_report *heads;        /**< one report per query head */
    size_t head_count;                  /**< number of query heads */
    const bo_attention_desc *attention; /**< the attention of the layer, owned by the model */
    bool weights;         /**< the attention has weights exp(s q·k) or an estimate of them, so BEHAVIOR has numbers */
    double error;         /**< ERRORS: root mean square error of its heads with the recommended replacement */
    double logit;         /**< ATTRIBUTION: sum of the contributions of its heads to the logit */
    double stream_norm;   /**< ATTRIBUTION: root mean square of the residual stream after attention */
    uint64_t reserved[4]; /**< zero */
} bo_layer_report;

/* ---- the report -------------------------------------------------------------------------------------------------- */

/** A report on a model. Made by the library and read-only; later versions may add members at the end. */
typedef struct bo_inspection {
    const bo_layer_report *layers;          /**< one report per layer, with its heads */
    size_t layer_count;                     /**< number of layers */
    const bo_inspect_candidate *candidates; /**< ERRORS: the replacements of softmax attention that were measured */
    size_t candidate_count;                 /**< number of replacements; 0: ERRORS was not requested */
    size_t choice;                          /**< ERRORS: the replacement that is recommended for all layers */
    bool reachable;                         /**< ERRORS: its error is at most the target */
    double target;                          /**< ERRORS: the target */
    unsigned parts;                         /**< bits of bo_inspect_part */
    size_t tokens;                          /**< tokens per window */
    size_t windows;                         /**< windows of the text that were read; 0: no text */
    size_t repeated;                        /**< random tokens that were repeated: length of one copy */
    bool rotated;                           /**< the model uses RoPE, which W_QK does not include */
} bo_inspection;

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/** Sizes of a model for a given text length. */
typedef struct bo_model_sizes {
    size_t context;              /**< tokens of the text */
    uint64_t parameters;         /**< number of parameters */
    size_t weight_bytes;         /**< bytes of the weights */
    size_t cache_bytes;          /**< bytes of the keys and values of one sequence, in layers with a KV cache */
    size_t state_bytes;          /**< bytes of the fixed-size states of one sequence, in the other layers */
    double operations;           /**< floating-point operations per token, mean over the text */
    double attention_operations; /**< operations of attention without projections */
    uint64_t reserved[4];        /**< zero */
} bo_model_sizes;

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/** Inspects a language model.
 *
 * @param context   the context; progress is reported as "inspecting"
 * @param model     a language model whose mixer is attention of any kind
 * @param ids       the tokens of a text, or NULL without a text
 * @param count     the number of tokens; 0: no text
 * @param desc      the settings; NULL: all defaults
 * @param[out] out  the report; release it with bo_inspection_destroy() before the model
 * @return BO_OK; BO_INVALID if the text is shorter than one window or contains ids outside the vocabulary, or if a part
 *     needs a text and none is given; BO_UNSUPPORTED if the mixer is not attention, or for circuits and attribution of
 *     a model with unit scaling or with adapters that are not merged
 */
BO_API bo_status bo_inspect(bo_context *context, const bo_model *model, const int32_t *ids, size_t count,
                            const bo_inspect_desc *desc, bo_inspection **out);

/** Destroys a report. @param report  the report, or NULL */
BO_API void bo_inspection_destroy(bo_inspection *report);

/** Computes the sizes of a language model. Nothing is run.
 *
 * @param context   the context
 * @param model     a language model
 * @param tokens    the length of the text; 0: the context of the model
 * @param[out] out  the sizes
 * @return BO_OK; BO_INVALID if the model is not a language model or has fewer positions
 */
BO_API bo_status bo_model_measure(bo_context *context, const bo_model *model, size_t tokens, bo_model_sizes *out);

#endif

#ifdef __cplusplus
}
#endif
#endif
