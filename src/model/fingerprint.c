/* One number that tells weights apart, as a saved state must: two models of one shape are not one model. */
#include <string.h>
#include "files.h"

enum { BLOCK_FLOATS = 1 << 16, BLOCKS = 16, LANES = 4 }; /* of 256 KiB; so many are read and hashed at a time */

typedef struct round_of_blocks {
    const float *floats;
    size_t count;
    uint64_t hashes[BLOCKS];
} round_of_blocks;

/* One to one in `hash` and in `word`, so that a single change is never lost. */
static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash << 29 | hash >> 35;
}

/* Lanes do not wait for each other's products. */
static void hash_block(void *arg, size_t index, int worker)
{
    round_of_blocks *round = arg;
    const float *floats = round->floats + index * BLOCK_FLOATS;
    const size_t left = round->count - index * BLOCK_FLOATS, count = left < BLOCK_FLOATS ? left : BLOCK_FLOATS;
    uint64_t lanes[LANES] = {1, 2, 3, 4}, words[LANES], hash = count;
    size_t at = 0;
    (void)worker;
    for (; at + 2 * LANES <= count; at += 2 * LANES) {
        memcpy(words, floats + at, sizeof words);
        for (int l = 0; l < LANES; l++) lanes[l] = mix(lanes[l], words[l]);
    }
    for (; at < count; at++) {
        uint32_t word;
        memcpy(&word, floats + at, sizeof word);
        hash = mix(hash, word);
    }
    for (int l = 0; l < LANES; l++) hash = mix(hash, lanes[l]);
    round->hashes[index] = hash;
}

bo_status bo_model_digest(bo_context *context, const bo_model *model, uint64_t *out)
{
    const bo_backend *backend = bo_weights_backend(model->weights);
    const char *data = bo_weights_memory(model->weights); /* as it is kept: in fewer bits it is another model */
    const size_t all = bo_weights_bytes(model->weights) / sizeof(float);
    float *floats = bo_alloc_raw(context, (size_t)BLOCKS * BLOCK_FLOATS, sizeof *floats, "weights to be compared");
    bo_status status = floats ? BO_OK : BO_MEMORY;
    uint64_t hash = all;
    for (size_t at = 0; at < all && status == BO_OK; at += (size_t)BLOCKS * BLOCK_FLOATS) {
        const size_t most = (size_t)BLOCKS * BLOCK_FLOATS;
        round_of_blocks round = {.floats = floats, .count = all - at < most ? all - at : most};
        const size_t blocks = (round.count + BLOCK_FLOATS - 1) / BLOCK_FLOATS;
        status = backend->read(context, floats, data + at * sizeof *floats, round.count * sizeof *floats);
        if (status == BO_OK) bo_parallel(context, blocks, hash_block, &round);
        for (size_t b = 0; b < blocks && status == BO_OK; b++) hash = mix(hash, round.hashes[b]);
    }
    bo_free(floats);
    *out = hash;
    return status;
}
