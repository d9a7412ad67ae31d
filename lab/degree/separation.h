/* The parts of separation-rank. Each part measures some claims and tables for one seed. */
#ifndef BO_LAB_DEGREE_SEPARATION_H
#define BO_LAB_DEGREE_SEPARATION_H

#include "../experiment.h"

bo_status lab_separation_networks(lab_run *run); /* exact ranks of polynomial networks: degree, depth, width */
bo_status lab_separation_sums(lab_run *run);     /* sums of d monomials, and the fraction of them that has rank d */
bo_status lab_separation_losses(lab_run *run);   /* ε-ranks by distance */
/* attention across a cut of the sequence, at initialization and trained */
bo_status lab_separation_attention(lab_run *run);

#endif
