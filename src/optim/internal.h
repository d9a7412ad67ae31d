/* The layout of an optimizer: one part per trained weight, with its update rule and its state. */
#ifndef BO_OPTIM_INTERNAL_H
#define BO_OPTIM_INTERNAL_H

#include "optim.h"
#include "../backend/updates.h"

enum { BO_MAX_SLOTS = 2 }; /* maximum number of state vectors per weight: the two moments of AdamW */

/* Invariant: among the states (names, and vectors as long as the weight) those of the rule come first, then the
 * average. */
typedef struct bo_optim_part {
    const bo_weight *weight;
    bo_optimizer_kind rule; /* ADAMW for weights that Muon does not update */
    /* learning rate and weight decay at factor 1; decay is not yet multiplied by the rate */
    double rate, decay;
    void *state[BO_MAX_SLOTS], *average; /* NULL: unused */
} bo_optim_part;

/* Initializes the part of a weight, without state. False: the weight is not trained. */
bool bo_optim_part_init(const bo_optimizer_desc *desc, const bo_weight *weight, bo_optim_part *out);
/* Returns Muon's factor for the shape and the parametrization. */
double bo_optim_part_shape_factor(const bo_optimizer_desc *desc, const bo_optim_part *part);

/* Invariants: parts are in the order of the weights. Matrices (those of Muon, in order of decreasing work) and lists
 * point to the state and the weight of their part. In `average`, g and m are the weight, and w is its average. swapped:
 * the weights contain the average, and the average contains the weights. */
struct bo_optimizer {
    bo_optimizer_info info; /* the descriptor, and the number of steps */
    bo_device *device;
    double gradient_scale; /* scale of the stored gradients */
    bool swapped;
    size_t parts, states, matrices, vectors, averages;
    bo_optim_part *part;
    bo_optimizer_state *state;
    bo_muon_matrix *matrix;
    /* lists for the backend: the gradients of all parts, the parts that are not matrices, and the averages */
    bo_update *gradient, *vector, *average;
    double *sum; /* of each gradient */
    char *names;
    void *memory, *scratch; /* on the device: states; scratch memory of sums and of Muon */
};

#endif
