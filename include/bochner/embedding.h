/** @file
 * Embeddings: principal component analysis in feature space. Experimental.
 *
 * An embedding maps a row x to its coordinates along the K directions in which the features φ(s(x)) vary most; s scales
 * the columns. With the LINEAR kernel this is principal component analysis (PCA). With another kernel it is kernel PCA
 * (Schölkopf, Smola and Müller 1998) by random features (Lopez-Paz et al. 2014): the eigenvectors of the R x R
 * covariance of the features instead of an n x n kernel matrix, so that the time is linear in the number of rows.
 *
 *     bo_embedding_desc desc = {.components = 2, .features = {.kernel = BO_KERNEL_RBF}};
 *     bo_samples train = {.rows = rows, .dim = dim, .x = x};
 *     bo_embedding *embedding;
 *     bo_embedding_fit(context, &desc, &train, &embedding);
 *     bo_embedding_apply(context, embedding, &(bo_inputs){.rows = rows, .x = x}, coordinates, NULL); // rows x 2
 *     bo_embedding_destroy(embedding);
 *
 * With μ and C the mean and the covariance of the features of the training rows, and C v_k = λ_k v_k:
 *
 *     coordinates       c_k(x) = v_k·(φ(s(x)) - μ)
 *     error             |φ(s(x)) - μ|² - |c(x)|², the squared distance to the subspace of the first K components
 *     pre-image         the inputs by ridge regression on the coordinates; for LINEAR exactly the projection
 *
 * The component of v_k with the largest absolute value is positive, so that signs are deterministic.
 *
 * **Ownership.** The caller destroys each object. **Threads.** An embedding is immutable and may be shared by threads;
 * a fitting needs exclusive access.
 */
#ifndef BOCHNER_EMBEDDING_H
#define BOCHNER_EMBEDDING_H

#include <bochner/base.h>
#include <bochner/data.h>
#include <bochner/features.h>
#include <bochner/machines.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/** An embedding. */
typedef struct bo_embedding bo_embedding;

/** The settings of an embedding. Zero is the default of each member. */
typedef struct bo_embedding_desc {
    size_t components; /**< number of components K (default: 2) */
    /** The feature map; `dim`, `seed` and `sample` are set by the fit. Default of `features`: 2048 if the map is
     * random. Default of `gamma`: 1 for LINEAR, otherwise the median heuristic (the kernel of two typical rows is about
     * 1/e). */
    bo_features_desc features;
    /** The scaling of the columns (default: each has variance 1, or a common factor if they share a unit). Values are
     * not clamped. */
    bo_scaling scaling;
    /** Precision of the products in the covariance: FLOAT32 or FLOAT64 (default: FLOAT64 up to 512 features). */
    bo_gram_precision precision;
    size_t memory;        /**< maximum number of bytes (default: three quarters of the memory of the process) */
    uint64_t seed;        /**< seed of the features */
    uint64_t reserved[4]; /**< must be zero */
} bo_embedding_desc;

/** What a fit chose and found.
 *
 * Allocated by the library and read-only for callers. Later versions may add members at the end.
 */
typedef struct bo_embedding_report {
    size_t rows;                 /**< number of rows fitted */
    size_t dim;                  /**< number of input columns */
    size_t components;           /**< number of components */
    size_t features;             /**< length of φ(x) */
    bo_kernel kernel;            /**< the kernel */
    bo_function function;        /**< the function */
    bo_draw draw;                /**< the draw */
    bo_scaling scaling;          /**< the scaling used */
    bo_gram_precision precision; /**< precision of the products in the covariance */
    double gamma;                /**< γ used */
    double variance;             /**< total variance of the features: the sum of all eigenvalues of their covariance */
    /** Mean squared distance of the features of the training rows to the subspace, as a fraction of `variance`. */
    double feature_error;
    /** Mean squared difference of the scaled inputs and their pre-images, as a fraction of the variance of the scaled
     * inputs. For LINEAR of all training rows, otherwise of the rows that the regression of pre-images was fitted
     * to. */
    double input_error;
    double seconds; /**< seconds of the fit; NAN if it was read from a file */
    /** The variances along the components, `components` numbers in descending order: the eigenvalues of the covariance
     * of the features, Σ (φ - μ)(φ - μ)ᵀ / (rows - 1). */
    const double *variances;
    const double *vectors; /**< the components v_k, orthonormal vectors in feature space; components x features */
} bo_embedding_report;

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/** Fits an embedding to rows in memory.
 *
 * @param context    the context
 * @param desc       the settings
 * @param samples  the rows: `rows`, `dim`, `x`, `common_unit` and `schema`; targets and classes are not used; not
 *     needed after the call
 * @param[out] out   the embedding; release it with bo_embedding_destroy()
 * @return BO_OK; BO_INVALID if there are fewer than 2 rows, no column varies, or there are more components than
 *     features; BO_UNSUPPORTED if the parts of the feature map do not fit together, or the rows are sparse or have
 *     weights; BO_MEMORY if the fit needs more than `desc->memory`
 */
BO_API bo_status bo_embedding_fit(bo_context *context, const bo_embedding_desc *desc, const bo_samples *samples,
                                  bo_embedding **out);

/** Destroys an embedding.
 *
 * @param embedding   the object, or NULL
 */
BO_API void bo_embedding_destroy(bo_embedding *embedding);

/** Computes the coordinates of rows, and their distances to the subspace.
 *
 * @param context            the context
 * @param embedding          the embedding
 * @param inputs             the rows, dense or sparse
 * @param[out] coordinates   rows x components
 * @param[out] error         squared distance of the features of each row to the subspace; or NULL
 * @return BO_OK; BO_INVALID if an input is not finite, or the rows do not have the columns of the fit
 */
BO_API bo_status bo_embedding_apply(bo_context *context, const bo_embedding *embedding, const bo_inputs *inputs,
                                    double *coordinates, double *error);

/** Computes pre-images: rows in the units of the inputs for given coordinates.
 *
 * For LINEAR these are the projections of the rows on the components, the best reconstruction of PCA. For other kernels
 * they are the ridge regression of the scaled inputs on the coordinates, with a penalty of 1e-8 times the total
 * variance of the features, fitted to at most 4096 evenly spaced rows of the sample.
 *
 * @param context       the context
 * @param embedding     the embedding
 * @param rows          the number of rows
 * @param coordinates   rows x components
 * @param[out] x        rows x dim
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_embedding_invert(bo_context *context, const bo_embedding *embedding, size_t rows,
                                     const double *coordinates, double *x);

/** Returns the report of an embedding.
 *
 * @param embedding   the embedding
 * @return the report, owned by the embedding
 */
BO_API const bo_embedding_report *bo_embedding_describe(const bo_embedding *embedding);

/** Writes an embedding to a safetensors file.
 *
 * @param context     the context
 * @param embedding   the embedding
 * @param schema      a schema to store with the embedding, or NULL
 * @param sink        where to write
 * @return BO_OK; BO_IO if the file cannot be written; BO_UNSUPPORTED if the features are CUSTOM
 */
BO_API bo_status bo_embedding_save(bo_context *context, const bo_embedding *embedding, const bo_schema *schema,
                                   const bo_sink *sink);

/** Reads an embedding from a file.
 *
 * As for bo_machine_load(), rows to embed must be read with the schema if the caller requests it; otherwise they are
 * the unmodified numbers of the table. Pre-images are rows of the same kind.
 *
 * @param context       the context
 * @param source        the file
 * @param[out] out      the embedding; release it with bo_embedding_destroy()
 * @param[out] schema   the stored schema, NULL if there is none; release it with bo_schema_destroy(); or NULL
 * @return BO_OK; BO_IO if the file cannot be read; BO_FORMAT if it is malformed or not an embedding; BO_VERSION if a
 *     newer version wrote it
 */
BO_API bo_status bo_embedding_load(bo_context *context, const bo_source *source, bo_embedding **out,
                                   bo_schema **schema);

/** Starts a fit from a stream.
 *
 * γ and the scaling are chosen from the sample: a uniform sample of the rows that will be added. The rows of the sample
 * are not added: the stream will contain them again. bo_fitting_add() adds rows, and bo_fitting_destroy() destroys the
 * fitting.
 *
 * @param context    the context
 * @param desc       the settings
 * @param sample     the sample; not needed after the call
 * @param[out] out   the fitting; release it with bo_fitting_destroy()
 * @return as bo_embedding_fit()
 */
BO_API bo_status bo_embedding_fitting_create(bo_context *context, const bo_embedding_desc *desc,
                                             const bo_samples *sample, bo_fitting **out);

/** Computes the components. More rows may be added afterwards, and the fitting may be finished again.
 *
 * @param context    the context
 * @param fitting    the fitting
 * @param[out] out   the embedding; release it with bo_embedding_destroy()
 * @return BO_OK; BO_INVALID if fewer than 2 rows were added, or the fitting belongs to a machine; BO_NUMERIC if the
 *     features do not vary or are not finite
 */
BO_API bo_status bo_embedding_fitting_finish(bo_context *context, const bo_fitting *fitting, bo_embedding **out);

#endif

#ifdef __cplusplus
}
#endif
#endif
