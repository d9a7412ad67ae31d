/* circuits: its two parts and their shared data. */
#ifndef BO_LAB_ARCHITECTURES_CIRCUITS_H
#define BO_LAB_ARCHITECTURES_CIRCUITS_H

#include "../experiment.h"

enum {
    LAYERS = 2,
    WIDTH = 64,
    HEADS = 4,
    DIM = 16,
    TOKENS = 64,
    ALPHABET = 16,
    FIRST_TOKEN = 'A',
    PARTS = 1 + 2 * LAYERS,
    OFFSETS = 9
};
enum { SQUARE = WIDTH * WIDTH, STREAM = TOKENS * WIDTH };

/* The tokens of a sequence, its residual stream, and the components of the stream. */
typedef struct lab_scene {
    lab_run *run;
    bo_context *context;
    bo_model *model;
    int32_t tokens[TOKENS];
    float stream[PARTS * STREAM], other[PARTS * STREAM];
    float written[HEADS][STREAM], together[STREAM];
    float projection[SQUARE], masked[SQUARE];
    double x[STREAM], weights[TOKENS * TOKENS], circuit[SQUARE], u[SQUARE], vt[SQUARE], values[WIDTH];
    double mixed[STREAM], formula[STREAM];
} lab_scene;

/* Records the tables and claims that are valid for every model, trained or not. */
bo_status lab_circuits_identities(lab_scene *s);

/* Attention scores of heads on repeated sequences. */
typedef struct lab_head_score {
    double previous;  /* mean attention to the previous token */
    double induction; /* mean attention to the tokens that followed earlier occurrences of this token */
    double copying;   /* Σ Re λ / Σ |λ| of (output) W_O W_V (embedding) */
} lab_head_score;
typedef struct lab_circuit_scores {
    lab_head_score heads[LAYERS][HEADS]; /* best first: layer 0 by previous, other layers by induction */
    double offsets[OFFSETS];             /* attention of the first head of layer 0 by distance in tokens */
    double spectrum[DIM];  /* singular values of both circuits relative to the largest, mean over all heads */
    double effective_rank; /* (Σσ)² / Σσ², mean over all heads */
} lab_circuit_scores;
bo_status lab_circuits_score(lab_scene *s, lab_circuit_scores *out);

#endif
