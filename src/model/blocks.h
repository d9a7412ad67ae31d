/* The blocks of a model: the block of each layer, descriptors that own their lists, and derived properties. */
#ifndef BO_MODEL_BLOCKS_H
#define BO_MODEL_BLOCKS_H

#include <bochner/model.h>

/* Larger sizes are treated as errors. */
enum { BO_MAX_BLOCKS = 1 << 12 };

/* Indices of places, for attentions, states, calibrations and dropout: first the layers, then (TRANSLATE) the cross
 * attentions, one per layer, then the encoder layers. */
typedef enum bo_model_part {
    BO_MODEL_PART_LAYERS = 0,
    BO_MODEL_PART_CROSS = 1,
    BO_MODEL_PART_ENCODER = 2,
    BO_MODEL_PART_END = 3
} bo_model_part;
/* Returns the first place of a part; END: the number of places. */
static inline size_t bo_model_place(const bo_model_desc *d, bo_model_part part)
{
    if (part == BO_MODEL_PART_LAYERS) return 0;
    if (part == BO_MODEL_PART_CROSS || d->task != BO_MODEL_TASK_TRANSLATE) return d->layers;
    return 2 * d->layers + (part == BO_MODEL_PART_END ? d->encoder_layers : 0);
}
bo_model_part bo_model_part_of(const bo_model_desc *desc, size_t place);

/* ---- blocks of a descriptor -------------------------------------------------------------------------------------- */

/* The blocks of a part, LAYERS or ENCODER, in the order of the list. */
typedef struct bo_block_list {
    bo_block *blocks; /* in the descriptor or its list */
    size_t count;
} bo_block_list;
bo_block_list bo_blocks_of(const bo_model_desc *desc, bo_model_part part);
/* Returns the block of a place. Cross attention has the block of its layer. */
const bo_block *bo_block_at(const bo_model_desc *desc, size_t place);
/* Likewise, for modification in an owned descriptor. */
bo_block *bo_block_edit(bo_model_desc *desc, size_t place);
/* Returns the attention of a place of a resolved descriptor; NULL: the place has none. */
const bo_attention_desc *bo_attention_at(const bo_model_desc *desc, size_t place);

/* Adds the index of a block to its error message if its list has several blocks. */
bo_status bo_block_fail(bo_context *context, bo_status status, const bo_model_desc *desc, bo_model_part part,
                        const bo_block *block);

/* Sets layer i of a part of an owned descriptor to the block kinds[which[i]], with the shortest list. The blocks are
 * copied; `kinds` may be blocks of the descriptor. */
bo_status bo_blocks_arrange(bo_context *context, bo_model_desc *desc, bo_model_part part, const bo_block *kinds,
                            const size_t *which);

/* Removes unused blocks from the list of an owned descriptor. */
void bo_blocks_cut(bo_model_desc *desc, bo_model_part part);
/* Sets `block` and `encoder` to the blocks of the first layers, after the blocks of a list have changed. */
void bo_blocks_mirror(bo_model_desc *desc);

/* Marks the layers in a list of indices, ranges and blocks such as "0,5-7,block-1". */
bo_status bo_layers_list(bo_context *context, const char *where, const char *list, const bo_model_desc *desc,
                         bool *marked);
/* Replaces the blocks in a list of targets (bo_lora_desc), "block-1" and "block-1.q_proj", by patterns. *out is freed
 * with bo_free. */
bo_status bo_block_targets(bo_context *context, const bo_model_desc *desc, const char *targets, char **out);

/* ---- derived properties ------------------------------------------------------------------------------------------ */

/* Checks a block of a part and fills in its defaults, after the sizes of the model have been resolved. */
bo_status bo_block_resolve(bo_context *context, const bo_model_desc *desc, bo_model_part part, bo_block *block);
/* True if the attention (or cross attention) is always causal. */
bool bo_attention_looks_back(const bo_attention_desc *desc);
/* The default normalization of queries and keys, and of head outputs, for an attention. */
bo_choice bo_query_norm(const bo_attention_desc *a);
bo_choice bo_output_norm(const bo_attention_desc *a);
/* Sets the attention of a block, and the default norms and initial values if the kind changes. */
void bo_block_attend(bo_block *block, const bo_attention_desc *attention);
/* True if the attention of the block replaces another one. */
static inline bool bo_block_replaces(const bo_block *block)
{
    return block->replaced.heads > 0;
}
/* True if the model is linearized: a layer has such a block. The model then has a teacher. */
bool bo_model_is_linearized(const bo_model_desc *desc);
/* Returns the descriptor of the teacher of a linearized model, owned by the caller: each block has its original
 * attention. The teacher shares the model's weights except the weights of the new attention. */
bo_status bo_model_original(bo_context *context, const bo_model_desc *desc, bo_model_desc *out);
/* Returns the block that represents a model in settings: the first linearized block, otherwise the first block. */
const bo_block *bo_model_main_block(const bo_model_desc *desc);
/* Returns the number of key heads of all layers. */
size_t bo_model_key_heads(const bo_model_desc *desc);
/* True if positions are added to the embedding. */
bool bo_positions_embedded(bo_positions positions);
/* The kind of positions that the layers of a model share. */
bo_positions bo_model_positions_kind(const bo_model_desc *desc);

#endif
