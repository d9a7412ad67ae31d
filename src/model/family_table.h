/* Rows of the table of families: the members of a family's config.json and their meaning. */
#ifndef BO_MODEL_FAMILY_TABLE_H
#define BO_MODEL_FAMILY_TABLE_H

#include "families.h"

/* Where a family states that layers have a sliding window. */
typedef enum bo_family_windows {
    BO_WINDOWS_NONE,
    BO_WINDOWS_MEMBER, /* "sliding_window": all layers, or null */
    BO_WINDOWS_TYPES,  /* likewise, or the layers of "layer_types" if it is present */
    BO_WINDOWS_PERIOD, /* "sliding_window", and "layer_types" or "sliding_window_pattern" */
    BO_WINDOWS_LAYERS, /* "use_sliding_window", "sliding_window", and "layer_types" or "max_window_layers" */
    BO_WINDOWS_NOPE    /* "use_sliding_window", "sliding_window", and "layer_types" or the layers without RoPE */
} bo_family_windows;

/* A member that must have this value if it is present and not null. */
typedef enum bo_family_value { BO_VALUE_FALSE, BO_VALUE_TRUE, BO_VALUE_NULL } bo_family_value;
typedef struct bo_family_requirement {
    const char *name;
    bo_family_value value;
} bo_family_requirement;

/* Special tokens of configurations that lack these members; -1: none. */
typedef struct bo_family_ids {
    bool known; /* false: the members have no defaults */
    int32_t begin, end, pad;
} bo_family_ids;

typedef struct bo_family_row {
    const char *type, *architecture;
    const bo_field *fields;
    size_t count;
    bo_model_desc defaults;        /* properties of all models of the family, and the defaults of absent members */
    const char *act, *default_act; /* the member with the activation function, and its default */
    bool gated;                    /* the MLP has a gate */
    bool tanh;                     /* "gelu" means the approximation by tanh, as in the first releases of Gemma */
    bool scaled;                   /* embeddings are multiplied by √width */
    bool divides;                  /* heads must divide the width */
    const char *theta;             /* RoPE: the member with the base before "rope_parameters"; NULL: no RoPE */
    const char *local;         /* RoPE: likewise, with the base of layers with a window; NULL: the base of all layers */
    const char *share;         /* RoPE: likewise, with the share of a head that is rotated; NULL: all */
    double default_share;      /* its default */
    double default_local;      /* the default of `local` */
    size_t default_nope;       /* "no_rope_layers": the default of "no_rope_layer_interval"; 0: no such members */
    bo_family_windows windows; /* sliding windows */
    size_t default_window;     /* the default of their size */
    const char *parallel;      /* the member that is true for the rule `parallel_residual`; NULL: none */
    bo_residual parallel_residual;
    bo_family_requirement required[3]; /* members with a single supported value */
    bo_family_ids ids;
} bo_family_row;

const bo_family_row *bo_family_row_of(bo_family family);

/* Activation functions: the MLP of a name, and the name of an MLP. */
enum { BO_FAMILY_NO_MLP = -1 };
int bo_family_mlp(const bo_family_row *row, const char *act);    /* NO_MLP: none */
const char *bo_family_act(const bo_family_row *row, bo_mlp mlp); /* NULL: none */
/* Writes all names that the family accepts, separated by ", ". */
void bo_family_acts(const bo_family_row *row, char *out, size_t size);

#endif
