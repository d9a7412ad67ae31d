/* The blocks of a text model. */
#ifndef CLI_MODEL_BLOCKS_H
#define CLI_MODEL_BLOCKS_H

#include <bochner/model.h>
#include <stdint.h>

typedef struct cli_blocks {
    const bo_block *blocks;
    size_t count;
} cli_blocks;

/* The list of blocks of the layers, or the single block of all layers. */
static inline cli_blocks cli_blocks_of(const bo_model_desc *d)
{
    return d->blocks ? (cli_blocks){d->blocks, d->block_count} : (cli_blocks){&d->block, 1};
}

/* The blocks of an encoder that differs from the decoder; otherwise an empty list. */
static inline cli_blocks cli_encoder_blocks_of(const bo_model_desc *d)
{
    return d->encoder_blocks ? (cli_blocks){d->encoder_blocks, d->encoder_block_count}
                             : (cli_blocks){&d->encoder, d->encoder.heads > 0};
}

/* The blocks of a descriptor that belongs to the caller. */
static inline bo_block *cli_mutable_blocks(const cli_blocks list)
{
    return (bo_block *)(uintptr_t)list.blocks;
}

static inline bool cli_rotates(const bo_block *b)
{
    return b->positions == BO_POSITIONS_ROPE || b->positions == BO_POSITIONS_ROPE_NEIGHBORS;
}

static inline bool cli_is_softmax(const bo_block *b)
{
    return b->mixer == BO_MIXER_ATTENTION && b->attention.kind == BO_ATTENTION_SOFTMAX;
}

#endif
