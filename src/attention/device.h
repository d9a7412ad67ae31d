/* What a device that computes an attention itself needs to know of it. */
#ifndef BO_ATTENTION_DEVICE_H
#define BO_ATTENTION_DEVICE_H

#include "attention.h"

typedef enum bo_row_transform_type {
    BO_ROW_TRANSFORM_NONE,   /* t = x */
    BO_ROW_TRANSFORM_UNIT,   /* t = σ ∘ x / (|x| + e) */
    BO_ROW_TRANSFORM_MATRIX, /* t = M x */
    BO_ROW_TRANSFORM_AFFINE  /* t = W x + b; queries and keys may have different W and b */
} bo_row_transform_type;

bo_row_transform_type bo_row_transform_type_of(const bo_attention_desc *desc);

enum { BO_STATE_HEADER_BYTES = 64 };

typedef struct bo_attention_view {
    const bo_attention_desc *desc;      /* with the defaults filled in */
    unsigned traits;                    /* bits of bo_attention_trait */
    size_t group;                       /* query heads per key head */
    const bo_features *const *features; /* one per key head; NULL: a kind without features */
    size_t count;                       /* length of φ; 0 for kinds without features */
    bool scaled;                        /* φ has log scales */
    uint64_t fingerprint;               /* changes with the frequencies */
    const float *decay;                 /* gate FIXED: the default log g of each key head; else NULL */
    size_t held;                        /* keys that a state holds: 0, the window, or the capacity */
    size_t gates_held;                  /* log gates that a state holds: 0, or `held` */
    size_t panel;                       /* keys per panel of kept keys (kv_cache.h) */
    size_t gates_at;                    /* bytes of these keys and their values, which their log gates follow */
    /* A state is a header, then for each key head sums_bytes and kept_bytes (internal.h, kv_cache.h). */
    size_t sums_bytes, kept_bytes;
    unsigned char header[BO_STATE_HEADER_BYTES]; /* of an empty state */
    size_t tokens_at;                            /* of the number of tokens (uint64) in the header */
} bo_attention_view;
bo_attention_view bo_attention_view_of(const bo_attention *attention);

#endif
