/* The weights of a model: named matrices in one piece of device memory, their gradients in another of the same layout, so
 * that norms, sums over machines and averages take them as one vector. Graphs declare them while they are recorded; a
 * second graph of the same model finds them by name. */
#ifndef BO_TAPE_WEIGHTS_H
#define BO_TAPE_WEIGHTS_H

#include "../backend/backend.h"

/* What an optimizer should know of a weight. */
typedef enum bo_weight_role {
    BO_WEIGHT_MATRIX = 0,    /* hidden: Muon's */
    BO_WEIGHT_EMBEDDING = 1, /* rows of tokens or positions */
    BO_WEIGHT_HEAD = 2,      /* the output projection */
    BO_WEIGHT_VECTOR = 3,    /* gains, biases, scales, and small matrices of attention */
} bo_weight_role;

typedef enum bo_init_law {
    BO_INIT_ZERO = 0,
    BO_INIT_ONE = 1,
    BO_INIT_NORMAL = 2,   /* mean a, deviation b */
    BO_INIT_SPREAD = 3,   /* from a in the first column to b in the last, evenly; columns: the shape's last extent */
    BO_INIT_IDENTITY = 4, /* in blocks of `a` rows, each the first rows of the identity, block i moved down by b i rows;
                           * columns alike */
    BO_INIT_DELAYS = 5,   /* rows of one 1 each, in row i at column i mod a from the last */
} bo_init_law;
typedef struct bo_init {
    bo_init_law law;
    double a, b;
} bo_init;

/* Invariants: data and gradient are NULL before bo_weights_allocate; `offset` counts floats from the start of the set, and
 * weights lie in the order in which they were declared, each beginning at a multiple of 16. */
typedef struct bo_weight {
    char *name;            /* "model.layers.0.self_attn.q_proj.weight" */
    size_t rows, columns;  /* as operations see it; both 0 in a description: the last extent is the columns */
    size_t rank, shape[4]; /* as files have it; the product is rows x columns */
    bo_weight_role role;
    bo_init init;
    bool frozen; /* no gradient, never updated */
    /* What it is multiplied with wherever it is used: of a description, or as the parametrization has it; 0: 1. The layer
     * sees to it. */
    double scale;
    /* How it follows the width, set when it is declared. `in` and `out`: its fans as multiples of the base model's; `rate`:
     * of optimizers whose steps do not depend on the gradient's size. 1, 1, 1 in the standard parametrization. */
    double in, out, rate;
    size_t offset;
    bo_element element; /* FLOAT32, but for what bo_weights_store made of it */
    void *data, *gradient;
} bo_weight;

typedef struct bo_weights bo_weights;

/* How first values and rates follow from shapes (docs/parametrization.md), and what all layers of a set have in common. */
typedef struct bo_rules {
    bo_parametrization kind;
    bo_weights *base;      /* MUP: the same weights at the base width, declared; NULL: this is the base */
    size_t base_width;     /* UNIT: rates count as at this width; 0: 1 */
    size_t branches;       /* UNIT: additions to the residual stream of a graph; 0: not known */
    double gradient_scale; /* backward gives this multiple of all gradients, which optimizers undo; 0: 1 */
    bool float8;           /* linear layers see values rounded to E4M3 and gradients to E5M2 */
} bo_rules;

bo_status bo_weights_create(bo_context *context, const bo_backend *backend, bo_weights **out);
void bo_weights_destroy(bo_weights *weights); /* NULL is fine */
/* Before anything is declared. The base is taken over. */
void bo_weights_set_rules(bo_weights *weights, const bo_rules *rules);
const bo_rules *bo_weights_rules(const bo_weights *weights);
/* Adapters of linear layers (nn/lora.h), which must outlive the set; before anything is declared. NULL: none. */
typedef struct bo_lora bo_lora;
void bo_weights_set_lora(bo_weights *weights, const bo_lora *lora);
const bo_lora *bo_weights_lora(const bo_weights *weights);
/* Sets scale, in, out, rate and the deviation of a weight by the rules of its set. */
void bo_weight_parametrize(const bo_rules *rules, bo_weight *weight);
/* Adds it, or finds the one of that name, which must be alike (shape, role). Of `desc`: name, shape, rows and columns, role,
 * init, frozen, scale. After bo_weights_allocate nothing can be added. */
bo_status bo_weights_declare(bo_context *context, bo_weights *weights, const bo_weight *desc, size_t *index);
size_t bo_weights_count(const bo_weights *weights);
bo_weight *bo_weights_at(bo_weights *weights, size_t index);
bo_weight *bo_weights_find(bo_weights *weights, const char *name); /* NULL: none */
/* Floats from the first weight to the end of the last, gaps (zeros, and so are their gradients) included. */
size_t bo_weights_floats(const bo_weights *weights);
size_t bo_weights_numbers(const bo_weights *weights, bool trained); /* without gaps; trained: that are not frozen */
/* Memory for values and, where asked for, gradients (none for the frozen); called again, it adds what is missing. */
bo_status bo_weights_allocate(bo_context *context, bo_weights *weights, bool gradients);
/* Keeps those marked in `which` (by index; with `element` BFLOAT16 or INT8) in fewer bits, for good, and gives their float32
 * back: for models that are only read. Graphs are recorded afterwards; there are no gradients. */
bo_status bo_weights_store(bo_context *context, bo_weights *weights, const bool *which, bo_element element);
size_t bo_weights_bytes(const bo_weights *weights);       /* of the values, with or without memory yet */
const void *bo_weights_memory(const bo_weights *weights); /* the values as they are kept; NULL: none yet */
void *bo_weights_data(bo_weights *weights);               /* of all; NULL: none yet, or they are stored */
void *bo_weights_gradients(bo_weights *weights);          /* of all; NULL: none */
/* Draws every weight by its law: number i of weight `name` is a function of seed, name and i. */
bo_status bo_weights_init(bo_context *context, bo_weights *weights, uint64_t seed);
bo_status bo_weights_init_one(bo_context *context, bo_weights *weights, size_t index, uint64_t seed);
const bo_backend *bo_weights_backend(const bo_weights *weights);

#endif
