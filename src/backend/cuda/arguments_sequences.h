/* Arguments of operations within sequences and images: device/convolution.cu, device/mix.cu,
 * device/recurrent.cu. */
#ifndef BO_CUDA_ARGUMENTS_SEQUENCES_H
#define BO_CUDA_ARGUMENTS_SEQUENCES_H

/* Convolution of images, or causal within sequences: then windows.before[1] rows before the first of sequence s are
 * those at states[s] + offset (float32), or zeros if there are no states. A weight has the columns (taps, in). */
typedef struct bo_cuda_convolution {
    bo_cuda_windows windows; /* channels: of x */
    bool causal;
    bo_cuda_rows sequences; /* causal */
    size_t groups, in, out; /* channels of a group */
    size_t rows, places;    /* of x and of y */
    float scale;
    void *const *states;
    size_t offset;
    bool update; /* the states are updated after forward */
    bo_cuda_source x, weight, bias;
    bo_cuda_target y;
} bo_cuda_convolution;

/* partial: parts x (the larger of the numbers of dweight and dbias) doubles. */
typedef struct bo_cuda_convolution_back {
    bo_cuda_convolution of;
    bo_cuda_source dy;
    bo_cuda_target dx, dweight, dbias;
    size_t parts;
    double *partial;
} bo_cuda_convolution_back;

/* The cells of RECURRENT (bo_recurrence): gates in the order of operations.h. `kept` has, for each token, r, z, n and q =
 * U_n h + b_n for GRU, and i, f, g, o and c for LSTM; NULL: not kept. A state is h and, for LSTM, c, in float32. */
typedef struct bo_cuda_recurrent {
    int cell;
    bo_cuda_rows sequences;
    size_t size, gates;
    void *const *states;
    size_t offset;
    bool update;
    bo_cuda_source x, weight, bias;
    bo_cuda_target y;
    float *kept;
} bo_cuda_recurrent;

/* dproduct: the gradient of U h + b of every token (gates x size numbers), before: h of the token before. */
typedef struct bo_cuda_recurrent_back {
    int cell;
    bo_cuda_rows sequences;
    size_t size, gates;
    bo_cuda_source weight, y, dy;
    const float *kept;
    bo_cuda_target dx;
    float *dproduct, *before;
} bo_cuda_recurrent_back;
enum { BO_CUDA_RECURRENT_LARGEST = 4096 }; /* size of h: h, U h and gradients are in shared memory */

/* y_t = Σ_s W_h[t, s] x_s over the tokens of a sequence, at most `most`. A state holds the number of its tokens (uint32)
 * and, from byte `head`, their rows in float32: new rows are appended first, unless `again`. */
typedef struct bo_cuda_mix {
    bo_cuda_rows sequences;
    size_t columns, heads, most;
    bool causal, again;
    void *const *states;
    size_t offset, head;
    bo_cuda_source x, weight;
    bo_cuda_target y;
} bo_cuda_mix;

typedef struct bo_cuda_mix_back {
    bo_cuda_mix of; /* without states */
    bo_cuda_source dy;
    bo_cuda_target dx, dweight;
} bo_cuda_mix_back;

#define BO_CUDA_LAUNCHES_SEQUENCES(X)                                                                                  \
    X(convolution, bo_cuda_convolution)                                                                                \
    X(convolution_back, bo_cuda_convolution_back)                                                                      \
    X(recurrent, bo_cuda_recurrent)                                                                                    \
    X(recurrent_back, bo_cuda_recurrent_back)                                                                          \
    X(mix, bo_cuda_mix)                                                                                                \
    X(mix_back, bo_cuda_mix_back)

#endif
