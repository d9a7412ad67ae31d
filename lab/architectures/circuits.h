/* circuits: its two halves, and what they look at. */
#ifndef BO_LAB_ARCHITECTURES_CIRCUITS_H
#define BO_LAB_ARCHITECTURES_CIRCUITS_H

#include "../tools/heads.h"

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

/* Tokens of a sequence, the stream they make, and the parts of it. */
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

/* Tables and claims of what holds whatever a model has learned. */
bo_status lab_circuits_identities(lab_scene *s);

/* What heads do where a round of tokens is repeated. */
typedef struct lab_head_score {
    double previous;  /* mean attention to the token before */
    double induction; /* … to what followed this token in rounds before */
    double copying;   /* Σ Re λ / Σ |λ| of (output) W_O W_V (embedding) */
} lab_head_score;
typedef struct lab_circuit_scores {
    lab_head_score heads[LAYERS][HEADS]; /* the best first: of layer 0 by previous, of others by induction */
    double offsets[OFFSETS];             /* attention of the first head of layer 0 to so many tokens back */
    double spectrum[DIM];                /* singular values of both circuits over the largest, mean over all heads */
    double effective_rank;               /* (Σσ)² / Σσ², likewise */
} lab_circuit_scores;
bo_status lab_circuits_score(lab_scene *s, lab_circuit_scores *out);

#endif
