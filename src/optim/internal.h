/* How an optimizer is laid out: a part for every trained weight, with the rule it follows and its state. */
#ifndef BO_OPTIM_INTERNAL_H
#define BO_OPTIM_INTERNAL_H

#include "optim.h"
#include "../backend/updates.h"

enum { BO_MOST_SLOTS = 2 }; /* vectors a rule keeps for a weight: AdamW's two moments */

/* Invariant: of the states (names and vectors as long as the weight) the rule's come first, then the average. */
typedef struct bo_optim_part {
    const bo_weight *weight;
    bo_optimizer_kind rule;               /* ADAMW for what Muon leaves */
    double rate, decay;                   /* at factor 1; decay is not yet times the rate */
    void *state[BO_MOST_SLOTS], *average; /* NULL: none */
} bo_optim_part;

/* The part of a weight, without state; false where it is not trained. */
bool bo_optim_part_make(const bo_optimizer_desc *desc, const bo_weight *weight, bo_optim_part *out);
/* Muon's factor for the shape and the parametrization. */
double bo_optim_part_shape_factor(const bo_optimizer_desc *desc, const bo_optim_part *part);

/* Invariants: parts stand in the order of the weights; matrices (Muon's, by falling work) point to the state and the weight
 * of their part; swapped: the weights hold the average and the other way round. */
struct bo_optimizer {
    bo_optimizer_desc desc;
    const bo_backend *backend;
    double gradient_scale; /* of what lies in the memory of gradients */
    uint64_t steps;
    bool swapped;
    size_t parts, states, matrices;
    bo_optim_part *part;
    bo_optimizer_state *state;
    bo_muon_matrix *matrix;
    char *names;
    void *memory, *scratch; /* on the device: states; Muon's work */
};

#endif
