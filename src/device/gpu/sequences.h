/* Arguments of operations on sequences and images: cuda/convolution.cu, cuda/mix.cu, cuda/recurrent.cu. */
#ifndef BO_DEVICE_GPU_SEQUENCES_H
#define BO_DEVICE_GPU_SEQUENCES_H

/* Convolution of images, or causal within sequences: then the windows.before[1] rows before sequence s are stored at
 * states[s] + offset (float32); without states they are zeros. A weight has the columns (taps, in). */
typedef struct bo_gpu_convolution {
    bo_gpu_windows windows; /* channels: of x */
    bool causal;
    bo_gpu_rows sequences;  /* causal */
    size_t groups, in, out; /* channels of a group */
    size_t rows, places;    /* of x and of y */
    float scale;
    void *const *states;
    size_t offset;
    bool update; /* the states are updated after forward */
    bo_gpu_source x, weight, bias;
    bo_gpu_target y;
} bo_gpu_convolution;

/* partial: parts x max(elements of dweight, elements of dbias) doubles. */
typedef struct bo_gpu_convolution_back {
    bo_gpu_convolution of;
    bo_gpu_source dy;
    bo_gpu_target dx, dweight, dbias;
    size_t parts;
    double *partial;
} bo_gpu_convolution_back;

/* The cells of RECURRENT (bo_recurrence): gates in the order of operations.h. `kept` has, for each token, r, z, n and q
 * = U_n h + b_n for GRU, and i, f, g, o and c for LSTM; NULL: not stored. A state is h and, for LSTM, c, in float32. */
typedef struct bo_gpu_recurrent {
    bo_recurrence cell;
    bo_gpu_rows sequences;
    size_t size, gates;
    void *const *states;
    size_t offset;
    bool update;
    bo_gpu_source x, weight, bias;
    bo_gpu_target y;
    float *kept;
} bo_gpu_recurrent;

/* dproduct: the gradient of U h + b of every token (gates x size elements); before: h of the previous token. */
typedef struct bo_gpu_recurrent_back {
    bo_recurrence cell;
    bo_gpu_rows sequences;
    size_t size, gates;
    bo_gpu_source weight, y, dy;
    const float *kept;
    bo_gpu_target dx;
    float *dproduct, *before;
} bo_gpu_recurrent_back;
enum { BO_GPU_RECURRENT_LARGEST = 4096 }; /* size of h: h, U h and gradients are in shared memory */

/* y_t = Σ_s W_h[t, s] x_s over at most `max_tokens` tokens of a sequence. A state stores its number of tokens (uint32)
 * and, from byte `head` on, their rows in float32. New rows are appended first, unless `again`. */
typedef struct bo_gpu_mix {
    bo_gpu_rows sequences;
    size_t columns, heads, max_tokens;
    bool causal, again;
    void *const *states;
    size_t offset, head;
    bo_gpu_source x, weight;
    bo_gpu_target y;
} bo_gpu_mix;

typedef struct bo_gpu_mix_back {
    bo_gpu_mix of; /* without states */
    bo_gpu_source dy;
    bo_gpu_target dx, dweight;
} bo_gpu_mix_back;

#define BO_GPU_LAUNCHES_SEQUENCES(X)                                                                                   \
    X(convolution, bo_gpu_convolution)                                                                                 \
    X(convolution_back, bo_gpu_convolution_back)                                                                       \
    X(recurrent, bo_gpu_recurrent)                                                                                     \
    X(recurrent_back, bo_gpu_recurrent_back)                                                                           \
    X(mix, bo_gpu_mix)                                                                                                 \
    X(mix_back, bo_gpu_mix_back)

#endif
