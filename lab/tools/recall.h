/* Bochner: attention as a memory. Pairs of a key and a value go by, one per token; then a key comes again, and the value that stood
 * with it is asked for. Nothing is learned: keys are as far apart as chance makes them, and only the memory is on trial.
 *
 *     bo_recall_options options = {.tokens = 1024, .lanes = 4};
 *     bo_recall_result result;
 *     bo_recall_measure(context, bo_recall_find("rfa"), 64, &options, &result);
 *     printf("%.0f pairs\n", result.capacity); */
#ifndef BO_LAB_TOOLS_RECALL_H
#define BO_LAB_TOOLS_RECALL_H

#include <bochner/attention.h>

enum { BO_RECALL_TRIED = 6, BO_RECALL_POINTS = 24 };

/* ---- kinds of memory ----------------------------------------------------------------------------------------------------- */

/* What a size counts. */
typedef enum bo_recall_size {
    BO_RECALL_FEATURES = 0, /* features: a state of size x (width + 1) numbers */
    BO_RECALL_DIM = 1,      /* dimensions of the keys: size x width numbers, of poly about half their square */
    BO_RECALL_WINDOW = 2,   /* pairs */
    BO_RECALL_ALL = 3       /* every pair is kept: no size */
} bo_recall_size;

/* What a kind cannot be without and training would find: the best of a few is taken, on other pairs. */
typedef enum bo_recall_knob {
    BO_RECALL_NOTHING = 0,
    BO_RECALL_SCALE = 1, /* s of exp(s q·k); of RFA 1 / temperature²; of elu and poly γ */
    BO_RECALL_POWER = 2,
    BO_RECALL_BETA = 3,
    BO_RECALL_LAMBDA = 4
} bo_recall_knob;

typedef struct bo_recall_kind {
    const char *name, *preset;
    bo_recall_size size;
    bo_recall_knob knob;
    double tried[BO_RECALL_TRIED]; /* ended by 0, or full */
    size_t most;                   /* size; 0: any */
    bo_function function;
    bool norms, plain; /* norms: keys of lengths from 1/2 to 2; plain: the preset without its gate */
} bo_recall_kind;

const bo_recall_kind *bo_recall_at(size_t index);       /* NULL: past the last */
const bo_recall_kind *bo_recall_find(const char *name); /* "softmax", "identity", "rfa", …; NULL: none */

/* ---- measuring ------------------------------------------------------------------------------------------------------------ */

/* Zero means the default in every field but noise. */
typedef struct bo_recall_options {
    size_t tokens;  /* pairs of a sequence; 0: 16384 */
    size_t lanes;   /* sequences, each with its own draw of features; 0: 16 */
    size_t width;   /* dimensions of a value, and of a key where the size does not say; 0: 64 */
    size_t codes;   /* different values; 0: 256 */
    size_t window;  /* latest pairs that hybrid keeps; 0: 64 */
    size_t horizon; /* tokens after which a gate leaves 1/e; 0: 256 */
    double noise;   /* length of what is added to a key of length 1 when it is asked for */
    uint64_t seed;
} bo_recall_options;

/* Fractions of pairs whose value came back: the right one was the nearest of all codes. */
typedef struct bo_recall_result {
    size_t bytes;                       /* of a state */
    double knob;                        /* as chosen; NAN: it has none */
    size_t points;                      /* 1, 2, 4, … tokens: */
    double by_length[BO_RECALL_POINTS]; /* of the pairs of a sequence of so many tokens, any of them asked for */
    /* at the end of `tokens`, of those at most so many tokens ago but not half as many */
    double by_distance[BO_RECALL_POINTS];
    double mean;     /* of by_length */
    double capacity; /* tokens up to which nine of ten pairs come back, interpolated by the logarithm; 0: never */
} bo_recall_result;

/* Chooses the knob on pairs of their own, then measures. size 0 where the kind has none; a size that a kind cannot have is
 * refused as its attention refuses it. */
bo_status bo_recall_measure(bo_context *context, const bo_recall_kind *kind, size_t size,
                            const bo_recall_options *options, bo_recall_result *out);

#endif
