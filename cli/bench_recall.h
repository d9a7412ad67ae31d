/* What the parts of `bochner bench recall` share: pairs of keys and values, memories that take them, what came back.
 *
 * bench_recall.c  the command     bench_recall_pairs.c  keys, questions, values     bench_recall_memory.c  kinds, write and ask */
#ifndef CLI_BENCH_RECALL_H
#define CLI_BENCH_RECALL_H

#include "bench.h"

enum { RECALL_TRIED = 6, RECALL_POINTS = 24 };

typedef struct recall_options {
    const char *sizes_text, *plot, *plot_distance;
    bench_list sizes;
    size_t tokens, lanes, width, codes, window, horizon;
    double noise;
} recall_options;

/* ---- pairs ------------------------------------------------------------------------------------------------------------ */

/* One pair a token in each of `lanes` sequences. A key is a random direction of length 1, or (`norms`) of a length drawn
 * log-uniformly from 1/2 to 2; its value is one of `codes` random directions of `width` dimensions. A question is the
 * direction of the key, disturbed by noise of length `noise` and of length 1 again. All of it follows from the seed. */
typedef struct recall_pairs {
    uint64_t seed;
    size_t lanes, dim, width, codes;
    bool norms;
    double noise;
    float *book; /* codes x width */
} recall_pairs;

void recall_pairs_open(recall_pairs *pairs); /* makes the book; the rest is given */
void recall_pairs_close(recall_pairs *pairs);
void recall_key(const recall_pairs *pairs, size_t lane, size_t token, float *out);
void recall_question(const recall_pairs *pairs, size_t lane, size_t token, float *out);
size_t recall_code(const recall_pairs *pairs, size_t lane, size_t token);
size_t recall_nearest(const recall_pairs *pairs, const float *value); /* of the codes */

/* ---- memories --------------------------------------------------------------------------------------------------------- */

typedef enum recall_size {
    RECALL_FEATURES, /* --sizes counts features: a state of size x (width + 1) numbers */
    RECALL_DIM,      /* dimensions of the keys: size x width numbers, of poly about half their square */
    RECALL_WINDOW,   /* pairs */
    RECALL_ALL       /* every pair is kept: no size */
} recall_size;

/* What a kind cannot be without and training would find: the best of a few is taken, on other pairs. */
typedef enum recall_knob {
    RECALL_NOTHING,
    RECALL_SCALE, /* s of exp(s q·k); of RFA 1 / temperature²; of elu and poly γ */
    RECALL_POWER,
    RECALL_BETA,
    RECALL_LAMBDA
} recall_knob;

typedef struct recall_kind {
    const char *name, *preset;
    recall_size size;
    recall_knob knob;
    double tried[RECALL_TRIED]; /* ended by 0, or full */
    size_t most;                /* size; 0: any */
    bo_function function;
    bool norms, plain; /* plain: the preset without its gate */
} recall_kind;

size_t recall_kind_count(void);
const recall_kind *recall_kind_at(size_t index);

/* Fractions of pairs whose value came back. */
typedef struct recall_result {
    size_t bytes;                    /* of a state */
    double knob;                     /* as chosen; NAN: it has none */
    size_t points;                   /* 1, 2, 4, … tokens: */
    double by_length[RECALL_POINTS]; /* of the pairs of a sequence of so many tokens, any of them asked for */
    double by_distance
        [RECALL_POINTS]; /* at the end of `tokens`, of those at most so many tokens ago but not half as many */
    double mean;         /* of by_length */
    double capacity;     /* tokens up to which nine of ten pairs come back, interpolated by the logarithm; 0: never */
} recall_result;

/* Chooses the knob on pairs of their own, then measures. False: after a message. */
bool recall_measure(cli_session *session, const recall_options *options, const recall_kind *kind, size_t size,
                    recall_result *out);

#endif
