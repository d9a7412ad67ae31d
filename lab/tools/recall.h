/* Attention as an associative memory. Key-value pairs are written, one per token; then a key is presented again, and
 * its value is requested. Nothing is trained: keys are random, and only the memory is tested.
 *
 *     bo_recall_options options = {.tokens = 1024, .lanes = 4};
 *     bo_recall_result result;
 *     bo_recall_measure(context, bo_recall_find("rfa"), 64, &options, &result);
 *     printf("%.0f pairs\n", result.capacity); */
#ifndef BO_LAB_TOOLS_RECALL_H
#define BO_LAB_TOOLS_RECALL_H

#include <bochner/attention.h>

enum { BO_RECALL_TRIED = 6, BO_RECALL_POINTS = 24 };

/* ---- kinds of memory --------------------------------------------------------------------------------------------- */

/* The meaning of a size. */
typedef enum bo_recall_size {
    BO_RECALL_FEATURES = 0, /* features: a state of size x (width + 1) numbers */
    BO_RECALL_DIM = 1,      /* key dimension: size x width numbers; for poly about half its square */
    BO_RECALL_WINDOW = 2,   /* pairs */
    BO_RECALL_ALL = 3       /* every pair is kept: no size */
} bo_recall_size;

/* A parameter that a kind requires and that training would find: the best of a few values, chosen on separate pairs. */
typedef enum bo_recall_knob {
    BO_RECALL_NO_KNOB = 0,
    BO_RECALL_SCALE = 1, /* s of exp(s q·k); for RFA 1 / temperature²; for elu and poly γ */
    BO_RECALL_POWER = 2,
    BO_RECALL_BETA = 3,
    BO_RECALL_LAMBDA = 4
} bo_recall_knob;

typedef struct bo_recall_kind {
    const char *name, *preset;
    bo_recall_size size;
    bo_recall_knob knob;
    double tried[BO_RECALL_TRIED]; /* terminated by 0 unless full */
    size_t max_size;               /* maximum size; 0: any */
    bo_function function;
    bool norms, plain; /* norms: keys of lengths from 1/2 to 2; plain: the preset without its gate */
} bo_recall_kind;

const bo_recall_kind *bo_recall_at(size_t index);       /* NULL: past the last */
const bo_recall_kind *bo_recall_find(const char *name); /* "softmax", "identity", "rfa", …; NULL: unknown */

/* ---- measurement ------------------------------------------------------------------------------------------------- */

/* Zero means the default in every field except noise. */
typedef struct bo_recall_options {
    size_t tokens;  /* pairs per sequence; 0: 16384 */
    size_t lanes;   /* sequences, each with a separate draw of features; 0: 16 */
    size_t width;   /* dimension of values, and of keys if the size does not determine it; 0: 64 */
    size_t codes;   /* number of different values; 0: 256 */
    size_t window;  /* number of latest pairs that hybrid keeps; 0: 64 */
    size_t horizon; /* number of tokens after which a gate leaves 1/e; 0: 256 */
    double noise;   /* length of the noise added to a query of length 1 */
    uint64_t seed;
} bo_recall_options;

/* Fractions of pairs recalled: the right value was the nearest of all codes. */
typedef struct bo_recall_result {
    size_t bytes;                       /* size of a state */
    double knob;                        /* the chosen value; NAN: the kind has no parameter */
    size_t points;                      /* numbers of tokens 1, 2, 4, …: */
    double by_length[BO_RECALL_POINTS]; /* fraction of all pairs of a sequence of this length */
    /* after `tokens` tokens, the fraction of pairs seen 2^(i−1) to 2^i positions earlier */
    double by_distance[BO_RECALL_POINTS];
    double mean; /* mean of by_length */
    /* sequence length up to which 90% of the pairs are recalled, interpolated in the logarithm; 0: no length */
    double capacity;
} bo_recall_result;

/* Chooses the parameter on separate pairs, then measures. size: 0 if the kind has no size. An unsupported size is
 * refused with the message of the attention. */
bo_status bo_recall_measure(bo_context *context, const bo_recall_kind *kind, size_t size,
                            const bo_recall_options *options, bo_recall_result *out);

#endif
