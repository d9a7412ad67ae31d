/* Models whose layers differ: windows, mixers, attentions, shapes, MLPs, norms and residual rules by layer. */
#ifndef BO_TEST_MODEL_STACKS_H
#define BO_TEST_MODEL_STACKS_H

#include "models.h"

enum { STACK_BLOCKS = 5, STACK_LAYERS = 7 };

/* A block of a stack. 0: the default of test_desc. */
typedef struct stack_block {
    const char *kind; /* of kinds.h */
    size_t repeat, window;
    double rope_base;
    size_t heads, key_heads, head_dim, hidden;
    bo_mlp mlp;
    bo_residual residual;
    bo_norm norm;
    bo_positions positions;
    bool bias;
    const char *layers; /* in the place of the MLP */
} stack_block;

typedef struct stack {
    const char *name;
    size_t layers;
    stack_block blocks[STACK_BLOCKS]; /* up to the first without a kind */
} stack;

/* Lists of layers that map 8 numbers to 8: several types, wiring, maps, noise. */
#define STACK_GATE                                                                                                     \
    "[{\"name\": \"gate\", \"type\": \"linear\", \"width\": 6}, {\"name\": \"open\", \"type\": \"sigmoid\"}, "         \
    "{\"name\": \"up\", "                                                                                              \
    "\"type\": \"linear\", \"width\": 6, \"bias\": false, \"from\": \"input\"}, {\"name\": \"both\", \"type\": "       \
    "\"product\", \"from\": "                                                                                          \
    "[\"open\", \"up\"]}, {\"name\": \"wide\", \"type\": \"concat\", \"from\": [\"both\", \"input\"]}, {\"type\": "    \
    "\"norm\", \"kind\": "                                                                                             \
    "\"layer\"}, {\"name\": \"down\", \"type\": \"linear\", \"width\": 8}, {\"type\": \"add\", \"from\": [\"down\", "  \
    "\"input\"]}, "                                                                                                    \
    "{\"type\": \"scale\", \"first\": 0.5}]"
#define STACK_MAPS                                                                                                     \
    "[ {\"type\": \"random-features\", \"features\": 12},\n  {\"type\": \"linear\", \"width\": 8.0, \"bias\": false} " \
    "]"
#define STACK_NOISE                                                                                                    \
    "[{\"type\": \"noise\", \"amount\": 0.20}, {\"type\": \"linear\", \"width\": \"input\"}, {\"type\": \"dropout\", " \
    "\"rate\": 0.30}, "                                                                                                \
    "{\"type\": \"tanh\"}]"
#define STACK_DEGREE                                                                                                   \
    "[{\"type\": \"degree\", \"degree\": 3, \"width\": 5}, {\"type\": \"quadratic\", \"width\": 3}, {\"type\": "       \
    "\"mlp\", \"kind\": "                                                                                              \
    "\"swiglu\", \"hidden\": 6}, {\"type\": \"linear\", \"width\": 8}]"

static const stack stacks[] = {
    {"windows 5:1, as in Gemma 3",
     7,
     {{.kind = "softmax", .repeat = 5, .window = 4, .rope_base = 50, .residual = BO_RESIDUAL_SANDWICH},
      {.kind = "softmax", .residual = BO_RESIDUAL_SANDWICH}}},
    {"windows of several lengths",
     3,
     {{.kind = "softmax", .window = 3}, {.kind = "softmax", .window = 8}, {.kind = "softmax"}}},
    {"gated-delta 3:1 softmax, as in Qwen3-Next",
     5,
     {{.kind = "gated-delta", .repeat = 3, .positions = BO_POSITIONS_NONE}, {.kind = "softmax", .key_heads = 1}}},
    {"mixers", 4, {{.kind = "ssm"}, {.kind = "conv"}, {.kind = "softmax"}, {.kind = "lstm"}}},
    {"other mixers", 4, {{.kind = "gru"}, {.kind = "degree-3"}, {.kind = "ssm low-rank"}, {.kind = "rnn"}}},
    {"attentions",
     5,
     {{.kind = "rfa-gate"}, {.kind = "dark"}, {.kind = "gla"}, {.kind = "hedgehog"}, {.kind = "ridge"}}},
    {"a hybrid and a power", 4, {{.kind = "hybrid"}, {.kind = "power"}, {.kind = "favor", .repeat = 2}}},
    {"shapes",
     3,
     {{.kind = "softmax", .heads = 4, .head_dim = 6},
      {.kind = "softmax", .key_heads = 1, .head_dim = 10},
      {.kind = "delta", .heads = 1}}},
    {"MLPs",
     5,
     {{.kind = "softmax", .mlp = BO_MLP_SWIGLU, .hidden = 10},
      {.kind = "softmax", .mlp = BO_MLP_NONE},
      {.kind = "softmax", .mlp = BO_MLP_RANDOM_FEATURES, .hidden = 20},
      {.kind = "softmax", .mlp = BO_MLP_DEGREE_3},
      {.kind = "softmax", .mlp = BO_MLP_GELU, .bias = true}}},
    {"norms and residual rules",
     5,
     {{.kind = "softmax", .norm = BO_NORM_LAYER, .bias = true},
      {.kind = "softmax", .residual = BO_RESIDUAL_PARALLEL},
      {.kind = "softmax", .residual = BO_RESIDUAL_SHARED},
      {.kind = "softmax", .residual = BO_RESIDUAL_AFTER},
      {.kind = "softmax", .residual = BO_RESIDUAL_SANDWICH, .norm = BO_NORM_RMS}}},
    {"layers in the place of MLPs",
     5,
     {{.kind = "softmax", .layers = STACK_GATE, .repeat = 2},
      {.kind = "ssm", .layers = STACK_MAPS, .norm = BO_NORM_LAYER},
      {.kind = "softmax", .layers = STACK_NOISE, .residual = BO_RESIDUAL_PARALLEL},
      {.kind = "rfa-gate", .layers = STACK_DEGREE, .residual = BO_RESIDUAL_SHARED}}},
    {"norms of what layers add",
     3,
     {{.kind = "softmax", .layers = STACK_GATE, .residual = BO_RESIDUAL_SANDWICH},
      {.kind = "softmax", .layers = STACK_MAPS, .residual = BO_RESIDUAL_AFTER, .norm = BO_NORM_LAYER},
      {.kind = "softmax", .layers = STACK_NOISE, .residual = BO_RESIDUAL_SANDWICH}}},
    {"layers beside MLPs",
     4,
     {{.kind = "softmax", .mlp = BO_MLP_RANDOM_FEATURES, .hidden = 20},
      {.kind = "conv", .layers = STACK_MAPS},
      {.kind = "softmax", .layers = STACK_MAPS, .window = 4}}},
    {"windows, and full attention with another MLP",
     4,
     {{.kind = "softmax", .window = 4},
      {.kind = "softmax", .layers = STACK_MAPS},
      {.kind = "softmax", .mlp = BO_MLP_DEGREE_2}}},
    {"positions in some layers",
     3,
     {{.kind = "softmax", .positions = BO_POSITIONS_NONE}, {.kind = "softmax"}, {.kind = "conv"}}},
};
enum { STACKS = sizeof stacks / sizeof *stacks };

static inline bo_block stack_make_block(const stack_block *from, const bo_model_desc *base)
{
    bo_model_desc made = *base;
    test_set_kind(from->kind, &made);
    bo_block b = made.block;
    if (from->window) b.attention.window = from->window;
    if (from->heads) b.heads = from->heads;
    if (from->hidden) b.hidden = from->hidden;
    b.repeat = from->repeat, b.rope_base = from->rope_base, b.key_heads = from->key_heads, b.head_dim = from->head_dim;
    b.mlp = from->mlp, b.residual = from->residual, b.norm = from->norm, b.bias = from->bias;
    b.positions = from->positions, b.layers = from->layers;
    if (b.layers) b.hidden = 0;
    return b;
}

/* Describes the blocks of a stack; `blocks` has STACK_BLOCKS entries and must outlive the descriptor. */
static inline size_t stack_list(const stack *from, const bo_model_desc *base, bo_block *blocks)
{
    size_t count = 0;
    while (count < STACK_BLOCKS && from->blocks[count].kind) {
        blocks[count] = stack_make_block(&from->blocks[count], base);
        count++;
    }
    return count;
}

static inline bo_model_desc stack_desc(const stack *from, bo_block *blocks)
{
    bo_model_desc desc = test_desc("softmax");
    desc.width = 8, desc.block.hidden = 12, desc.layers = from->layers;
    desc.block_count = stack_list(from, &desc, blocks);
    desc.blocks = blocks;
    return desc;
}

#endif
