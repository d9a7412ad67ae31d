/* Maps in the form in which devices compute them: u = W x + shift, then one function of each u. */
#ifndef BO_FEATURES_PROJECTION_H
#define BO_FEATURES_PROJECTION_H

#include <bochner/features.h>

/* With h = Σ_j square_j x_j² and the numbers of frequency i, the features are, by function:
 *
 *   SINCOS          amplitude_i e^h cos u_i, and the same with sin after those of all frequencies
 *   COSBIAS         amplitude_i cos u_i
 *   RELU            amplitude_i max(u_i, 0)
 *   POSITIVE, OPRF  e^{u_i + h} */
typedef struct bo_projection {
    bo_function function;
    size_t dim, frequencies, features;
    float *w;         /* frequencies x dim */
    float *shift;     /* frequencies */
    float *amplitude; /* frequencies */
    float *square;    /* dim; NULL: h = 0 */
} bo_projection;

/* True if the map has this form: a map of dense rows with one of these functions. */
bool bo_projection_exists(const bo_features *features);
bo_status bo_projection_create(bo_context *context, const bo_features *features, bo_projection *out);
void bo_projection_free(bo_projection *projection);

#endif
