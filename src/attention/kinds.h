/* The table of attention kinds: name, engine and accepted options. Code that depends on differences between kinds uses
 * this table (or bo_attention_may, bo_attention_has, … of <bochner/attention.h>) instead of naming kinds.
 *
 * A new kind is a line in kinds.c, and a file with its engine if no engine in internal.h fits. */
#ifndef BO_ATTENTION_KINDS_H
#define BO_ATTENTION_KINDS_H

#include "internal.h"

/* Invariants: name and engine are set; resolve_map is set exactly for kinds with FEATURES; a kind has exactly one of
 * MEMORY, CAPACITY and FEATURES; learned_traits and ranked_traits are not in traits; cross_kind is set if CROSS is not
 * in traits; no_scale is set if SCALE is not. */
typedef struct bo_kind {
    const char *name;
    const bo_engine *engine;
    unsigned traits;         /* bits of bo_attention_trait */
    unsigned learned_traits; /* additional traits if its map is learned (bo_kernel_is_learned) */
    unsigned ranked_traits;  /* additional traits if the field rank is set and its map is one of the softmax kernel */
    /* allowed kernels of its map: bits 1u << bo_kernel; AFFINE kinds also allow the learned ones */
    unsigned kernels;
    bo_kernel default_kernel; /* default kernel, used if features.kernel is 0 */
    const char *no_scale;     /* its replacement for a scale, as text for an error; NULL if it has a scale */
    const char *no_gate;      /* why it has no gate, as text for an error; NULL if the list of gates suffices */
    /* Checks and fills in the map after kernel, rank and features.dim are set. Scale and γ are the same number or not,
     * depending on the kind. */
    bo_status (*resolve_map)(bo_context *context, bo_attention_desc *desc);
    /* Returns the kind that replaces it in cross attention, where every query sees all keys. NULL: the kind itself. */
    bo_attention_kind (*cross_kind)(const bo_attention_desc *desc);
} bo_kind;

/* The default window of kinds that require one. */
enum { BO_DEFAULT_WINDOW = 64 };

/* kind must be a value of the enum. */
const bo_kind *bo_kind_of(bo_attention_kind kind);
/* Returns the traits of this descriptor: bits of bo_attention_trait. */
unsigned bo_attention_traits(const bo_attention_desc *desc);

/* Lists for messages, such as "softmax, hybrid and power". Each writes at most BO_KIND_LIST_BYTES bytes to `out` and
 * returns it. */
enum { BO_KIND_LIST_BYTES = 256 };
const char *bo_kinds_with(unsigned traits, char out[BO_KIND_LIST_BYTES]); /* kinds with at least one of the traits */
const char *bo_gates_accepted(bo_attention_kind kind, char out[BO_KIND_LIST_BYTES]);
const char *bo_kernels_accepted(bo_attention_kind kind, char out[BO_KIND_LIST_BYTES]);

/* defined in describe.c */
bo_status bo_resolve_linear_map(bo_context *context, bo_attention_desc *desc);
bo_status bo_resolve_rfa_map(bo_context *context, bo_attention_desc *desc);
bo_status bo_resolve_softmax_map(bo_context *context, bo_attention_desc *desc);
bo_status bo_resolve_learned_map(bo_context *context, bo_attention_desc *desc);

#endif
