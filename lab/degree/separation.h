/* The parts of separation-rank: each measures some of its claims and tables for one seed. */
#ifndef BO_LAB_DEGREE_SEPARATION_H
#define BO_LAB_DEGREE_SEPARATION_H

#include "../experiment.h"

bo_status lab_separation_networks(lab_run *run);  /* exact ranks of polynomial networks: degree, depth, width */
bo_status lab_separation_sums(lab_run *run);      /* sums of d monomials, with what measure they reach rank d */
bo_status lab_separation_losses(lab_run *run);    /* ε-ranks by metric */
bo_status lab_separation_attention(lab_run *run); /* attention across a cut of the sequence, drawn and trained */

#endif
