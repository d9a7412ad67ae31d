/* The table of attention kinds: what each is called, which engine computes it, what it takes and what it refuses. Whoever must
 * know how kinds differ asks here (or <bochner/attention.h>: bo_attention_may, bo_attention_has, …) instead of naming them.
 *
 * A new kind is a line in kinds.c, and a file with its engine where none of those in internal.h will do. */
#ifndef BO_ATTENTION_KINDS_H
#define BO_ATTENTION_KINDS_H

#include "internal.h"

/* Invariants: name and engine are set; resolve_map is set for kinds with FEATURES and for no other; a kind has MEMORY,
 * CAPACITY or FEATURES, one of them; MEMORY is CAUSAL; learned_traits are not among traits; cross_kind is set where CROSS is
 * not among them; no_scale where SCALE is not. */
typedef struct bo_kind {
    const char *name;
    const bo_engine *engine;
    unsigned traits;         /* bits of bo_attention_trait */
    unsigned learned_traits; /* those it has as well where its map is learned (bo_kernel_is_learned) */
    unsigned kernels;        /* kernels of its map: bits 1u << bo_kernel. AFFINE kinds take the learned ones besides */
    bo_kernel usual_kernel;  /* what features.kernel 0 stands for */
    const char *no_scale;    /* what it has instead of a scale, as an error says it; NULL where it has one */
    const char *no_gate;     /* why it takes no gate, as an error says it; NULL where the list of gates says enough */
    /* Checks and fills in the map once kernel, rank and features.dim are: the scale and γ are one number, or two. */
    bo_status (*resolve_map)(bo_context *context, bo_attention_desc *desc);
    /* The kind that stands for it across streams, where all of a source is seen at once. NULL: it does so itself. */
    bo_attention_kind (*cross_kind)(const bo_attention_desc *desc);
} bo_kind;

/* The window of kinds that must have one, where a descriptor leaves it open. */
enum { BO_USUAL_WINDOW = 64 };

/* kind is one of the enum. */
const bo_kind *bo_kind_of(bo_attention_kind kind);
/* What this descriptor has: bits of bo_attention_trait. */
unsigned bo_attention_traits(const bo_attention_desc *desc);

/* Lists for messages: "exact, hybrid and power". Each writes at most BO_KIND_WORDS bytes into `out` and returns it. */
enum { BO_KIND_WORDS = 256 };
const char *bo_kinds_with(unsigned traits, char out[BO_KIND_WORDS]); /* kinds with one of them */
const char *bo_gates_taken(bo_attention_kind kind, char out[BO_KIND_WORDS]);
const char *bo_kernels_taken(bo_attention_kind kind, char out[BO_KIND_WORDS]);

/* describe.c */
bo_status bo_resolve_linear_map(bo_context *context, bo_attention_desc *desc);
bo_status bo_resolve_rfa_map(bo_context *context, bo_attention_desc *desc);
bo_status bo_resolve_softmax_map(bo_context *context, bo_attention_desc *desc);
bo_status bo_resolve_learned_map(bo_context *context, bo_attention_desc *desc);

#endif
