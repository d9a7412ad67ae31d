/* A hash of shapes, attention and tokenizer, which saved states and checkpoints contain.
 *
 * Files of earlier versions remain valid: models that these versions could describe keep their hash. They had one block
 * for all layers, except that some layers could have a window with a separate RoPE base, or a replaced attention. */
#include "../text/facts.h"
#include <string.h>
#include "../features/fingerprint.h"
#include "internal.h"

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++) hash = (hash ^ at[i]) * 0x100000001b3u; /* FNV-1a */
    return hash;
}

#define HASH_WORDS(hash, ...) hash_bytes(hash, (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}))
#define HASH_NUMBERS(hash, ...) hash_bytes(hash, (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}))

/* ---- blocks that earlier versions could describe ----------------------------------------------------------------- */

typedef struct former {
    const bo_block *block;               /* the block of all layers */
    const bo_attention_desc *attention;  /* of all layers, or of those that are not kept */
    const bo_attention_desc *kept;       /* NULL: the model is not linearized */
    const bo_block *windowed, *full;     /* blocks with a window and without, before linearization; NULL: none */
    size_t window, first_window, period; /* of the layers with a window */
    double local_base;                   /* 0: the base of all layers */
} former;

/* The attention of a block before linearization. */
static const bo_attention_desc *original(const bo_block *b)
{
    return bo_block_replaces(b) ? &b->replaced : &b->attention;
}

static uint64_t hash_attention(uint64_t hash, const bo_attention_desc *a, size_t window)
{
    hash = HASH_WORDS(hash, a->kind, a->gate, a->normalizer, window, a->unit);
    return HASH_NUMBERS(hash, a->scale, a->clamp, a->power, a->temperature);
}

static uint64_t hash_rope(uint64_t hash, const bo_block *b)
{
    const bo_rope_scaling *s = &b->rope_scaling;
    hash = HASH_WORDS(hash, b->positions, b->rotated, s->kind);
    return HASH_NUMBERS(hash, b->rope_base, s->factor, s->low, s->high, s->original);
}

/* Everything but attention, windows and RoPE. */
static uint64_t hash_rest(const bo_block *b)
{
    const bo_block_biases biases = bo_block_biases_of(b);
    uint64_t hash = HASH_WORDS(0, b->residual, b->norm, b->mixer, b->heads, b->key_heads, b->head_dim, b->query_norm,
                               b->joint_norm, b->ssm, b->state_size, b->state_rank, b->kernel, b->mlp, b->hidden,
                               b->degree_heads, biases.attention, biases.output, biases.mlp);
    hash = HASH_NUMBERS(hash, b->residual_scale, b->norm_epsilon);
    return b->layers ? hash_bytes(hash, b->layers, strlen(b->layers) + 1) : hash;
}

static bool same_attention(const bo_attention_desc *a, const bo_attention_desc *b)
{
    return hash_attention(0, a, 0) == hash_attention(0, b, 0);
}

static bool has_window(const former *f, size_t layer)
{
    return layer >= f->first_window && !(f->period && (layer + 1) % f->period == 0);
}

/* Finds first_window and period. */
static bool find_pattern(const bo_model_desc *d, former *f)
{
    size_t first = 0;
    while (first < d->layers && !original(bo_model_block(d, first))->window) first++;
    for (size_t period = 0; period <= d->layers; period += 1 + (period == 0))
        for (int from = 0; from < 2; from++) {
            size_t i = 0;
            f->period = period;
            f->first_window = from ? first : 0;
            while (i < d->layers && has_window(f, i) == (original(bo_model_block(d, i))->window != 0)) i++;
            if (i == d->layers) return true;
        }
    return false;
}

static bool same_layer(const bo_block *a, const bo_block *b)
{
    const char *first = a->custom_mlp.name, *second = b->custom_mlp.name;
    return first == second || (first && second && strcmp(first, second) == 0);
}

/* Layers that keep their attention have its default. */
static bo_choice former_output_norm(const bo_block *b, const former *f)
{
    return f->kept && !bo_block_replaces(b) ? bo_output_norm(&b->attention) : f->block->output_norm;
}

/* Checks that the blocks of a part differ as the layers of an earlier version could. */
static bool is_uniform(const bo_block_list *list, const former *f)
{
    for (size_t i = 0; i < list->count; i++) {
        const bo_block *b = &list->blocks[i], *rope = original(b)->window ? f->windowed : f->full;
        if (hash_rest(b) != hash_rest(f->block) || hash_rope(0, b) != hash_rope(0, rope)) return false;
        if (b->output_norm != former_output_norm(b, f) || !same_layer(b, f->block)) return false;
        if (!same_attention(&b->cross_attention, &f->block->cross_attention)) return false;
        if (!same_attention(original(b), f->kept ? f->kept : f->attention)) return false;
        if (bo_block_replaces(b) && !same_attention(&b->attention, f->attention)) return false;
        if (original(b)->window && original(b)->window != f->window) return false;
    }
    return true;
}

/* True if the encoder has the block of the decoder, except for attention. */
static bool has_former_encoder(const bo_model_desc *d, const former *f)
{
    const bo_block_list list = bo_blocks_of(d, BO_MODEL_PART_ENCODER);
    if (d->task != BO_MODEL_TASK_TRANSLATE) return true;
    bo_block b = list.blocks[0];
    b.query_norm = f->block->query_norm; /* follows the attention; its weights are hashed by name */
    return list.count == 1 && hash_rest(&b) == hash_rest(f->block) && hash_rope(0, &b) == hash_rope(0, f->block) &&
           same_layer(&b, f->block);
}

static bool find_former(const bo_model_desc *d, former *f)
{
    const bo_block_list list = bo_blocks_of(d, BO_MODEL_PART_LAYERS);
    *f = (former){.block = list.blocks};
    for (size_t i = list.count; i-- > 0;) {
        const bo_block *b = &list.blocks[i];
        if (bo_block_replaces(b)) f->block = b, f->kept = &b->replaced;
        *(original(b)->window ? &f->windowed : &f->full) = b;
    }
    f->attention = &f->block->attention;
    if (!f->kept && f->full) f->block = f->full, f->attention = &f->full->attention;
    if (f->windowed) f->window = original(f->windowed)->window;
    if (f->windowed && f->full) {
        if (f->windowed->rope_base != f->full->rope_base) f->local_base = f->windowed->rope_base;
        if (d->task != BO_MODEL_TASK_LANGUAGE || !find_pattern(d, f)) return false;
    }
    return is_uniform(&list, f) && has_former_encoder(d, f);
}

/* ---- parts of the hash ------------------------------------------------------------------------------------------- */

static uint64_t hash_mixer(uint64_t hash, const bo_block *b)
{
    if (b->mixer == BO_MIXER_ATTENTION) return hash;
    return HASH_WORDS(hash, b->mixer, b->ssm, b->state_size, b->state_rank, b->kernel);
}

/* Leaves the hash unchanged if the encoder has the attention of the decoder. */
static uint64_t hash_encoder(uint64_t hash, const bo_model_desc *d, const former *f)
{
    const bo_attention_desc *a = &d->encoder.attention;
    if (d->task != BO_MODEL_TASK_TRANSLATE || f->block->mixer != BO_MIXER_ATTENTION) return hash;
    return hash_attention(0, a, a->window) == hash_attention(0, f->attention, f->attention->window)
               ? hash
               : hash_attention(hash, a, a->window);
}

/* Leaves the hash of language models unchanged. */
static uint64_t hash_task(uint64_t hash, const bo_model_desc *d, const former *f)
{
    const bo_attention_desc *a = &f->block->cross_attention;
    if (d->task == BO_MODEL_TASK_LANGUAGE) return hash;
    hash = HASH_WORDS(hash, d->task, d->classes, d->pooling, d->forward, d->encoder_layers, d->cross, a->kind, a->gate,
                      a->normalizer);
    hash = HASH_NUMBERS(hash, a->scale, a->clamp, a->power, a->temperature);
    hash = hash_encoder(hash, d, f);
    for (size_t i = 0; d->labels && i < d->classes; i++)
        hash = hash_bytes(hash, d->labels[i], strlen(d->labels[i]) + 1);
    return hash;
}

/* Leaves the hash unchanged if all these options are the default. */
static uint64_t hash_options(uint64_t hash, const bo_model_desc *d, const former *f)
{
    const bo_block *b = f->block;
    const bo_rope_scaling *s = &(f->full ? f->full : b)->rope_scaling;
    const uint64_t words[] = {b->residual, b->rotated, s->kind, f->first_window, f->period, b->joint_norm};
    const double numbers[] = {
        d->embedding_scale - 1, b->residual_scale - 1, d->logit_scale - 1, s->factor, s->low, s->high, s->original,
        f->local_base};
    bool plain = true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) plain = plain && !words[i];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) plain = plain && numbers[i] == 0;
    return plain ? hash : hash_bytes(hash_bytes(hash, words, sizeof words), numbers, sizeof numbers);
}

static uint64_t hash_kept(uint64_t hash, const bo_model_desc *d, const former *f)
{
    if (!f->kept) return hash;
    hash = hash_attention(hash, f->kept, f->window);
    for (size_t i = 0; i < d->layers; i++) {
        const bool kept = !bo_block_replaces(bo_model_block(d, i));
        hash = hash_bytes(hash, &kept, sizeof kept);
    }
    return hash;
}

static uint64_t hash_former(uint64_t hash, const bo_model *model, const former *f)
{
    const bo_model_desc *d = &model->desc;
    const bo_block *b = f->block, *rope = f->full ? f->full : b;
    const bo_attention_desc *a = f->attention;
    const uint64_t tokenizer = model->tokenizer ? bo_tokenizer_fingerprint(model->tokenizer) : 0;
    const size_t window = f->kept ? a->window : f->window;
    hash = HASH_WORDS(hash, d->layers, b->heads, b->key_heads, b->head_dim, b->mlp, b->norm, b->positions, a->kind,
                      a->gate, a->normalizer, window, a->unit, b->query_norm, b->output_norm, tokenizer);
    hash = HASH_NUMBERS(hash, rope->rope_base, b->norm_epsilon, a->scale, a->clamp, a->power, a->temperature);
    hash = hash_mixer(hash, b);
    if (d->parametrization || d->storage) hash = HASH_WORDS(hash, d->parametrization, d->base_width, d->storage);
    hash = hash_kept(hash_options(hash_task(hash, d, f), d, f), d, f);
    const char *custom = b->custom_mlp.name;
    if (b->layers) hash = hash_bytes(hash, b->layers, strlen(b->layers) + 1);
    return custom ? hash_bytes(hash, custom, strlen(custom) + 1) : hash;
}

/* Blocks with other differences are hashed layer by layer. */
static uint64_t hash_places(uint64_t hash, const bo_model_desc *d)
{
    for (size_t i = 0; i < bo_model_place(d, BO_MODEL_PART_END); i++) {
        const bo_block *b = bo_block_at(d, i);
        const bo_attention_desc *all[] = {&b->attention, &b->replaced, &b->cross_attention};
        const uint64_t rest = hash_rest(b);
        hash = hash_bytes(hash, &rest, sizeof rest);
        for (size_t k = 0; k < 3; k++) hash = hash_attention(hash, all[k], all[k]->window);
        hash = HASH_WORDS(hash_rope(hash, b), b->output_norm);
        if (b->custom_mlp.name) hash = hash_bytes(hash, b->custom_mlp.name, strlen(b->custom_mlp.name) + 1);
    }
    return hash;
}

uint64_t bo_model_fingerprint(const bo_model *model)
{
    const bo_model_desc *d = &model->desc;
    if (model->network) return bo_network_fingerprint(model->network);
    former f;
    const bool uniform = find_former(d, &f);
    uint64_t hash = hash_former(0xcbf29ce484222325u, model, &f);
    if (!uniform) hash = hash_places(hash, d);
    for (size_t i = 0; i < bo_weights_count(model->weights); i++) {
        const bo_weight *weight = bo_weights_at(model->weights, i);
        hash = hash_bytes(hash, weight->name, strlen(weight->name) + 1);
        hash = hash_bytes(hash, weight->shape, weight->rank * sizeof *weight->shape);
    }
    for (size_t i = 0; i < bo_model_place(d, BO_MODEL_PART_END); i++)
        for (size_t h = 0; model->attentions[i] && bo_attention_features(model->attentions[i], h); h++) {
            uint64_t map = bo_features_fingerprint(bo_attention_features(model->attentions[i], h));
            hash = hash_bytes(hash, &map, sizeof map);
        }
    for (size_t i = 0; model->mlp_maps && i < bo_model_place(d, BO_MODEL_PART_END); i++) {
        if (!model->mlp_maps[i]) continue;
        uint64_t map = bo_features_fingerprint(model->mlp_maps[i]);
        hash = hash_bytes(hash, &map, sizeof map);
    }
    for (size_t i = 0; i < bo_model_place(d, BO_MODEL_PART_END); i++) {
        const uint64_t maps = model->mlp_layers[i] ? bo_network_maps_fingerprint(model->mlp_layers[i]) : 0;
        if (maps) hash = hash_bytes(hash, &maps, sizeof maps);
    }
    return hash;
}
