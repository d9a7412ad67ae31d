/* Loading text models: configuration, tokenizer, weights and special tokens. */
#include "../text/facts.h"
#include <string.h>
#include <unistd.h>
#include "../attention/attention.h"
#include "../text/tokenizer.h"
#include "origin.h"

/* ---- tokenizer --------------------------------------------------------------------------------------------------- */

bo_status bo_tokenizer_sum(bo_context *context, const bo_tokenizer *tokenizer, char sum[BO_CHECKSUM_TEXT])
{
    void *text;
    size_t size;
    BO_TRY(bo_tokenizer_save(context, tokenizer, &(bo_sink){.bytes = &text, .size = &size}));
    bo_checksum_text(text, size, sum);
    bo_free(text);
    return BO_OK;
}

static bo_status has_tokenizer(bo_context *context, const bo_origin *from, bool *out)
{
    if (from->image) {
        *out = bo_tensors_meta(from->image, BO_TOKENIZER_FILE) != NULL;
        return BO_OK;
    }
    char *path = bo_model_path(context, from->name, BO_TOKENIZER_FILE);
    if (!path) return BO_MEMORY;
    *out = access(path, F_OK) == 0;
    bo_free(path);
    return BO_OK;
}

/* Loads the tokenizer. *out is NULL if there is no tokenizer and none is required: Bochner's models without a
 * tokenizer, and other models of any vocabulary. *same: it matches the fingerprint in the configuration. */
static bo_status load_tokenizer(bo_context *context, const bo_origin *from, const bo_config *config, bo_tokenizer **out,
                                bool *same)
{
    bool present;
    *same = true;
    BO_TRY(has_tokenizer(context, from, &present));
    if (!present && (config->no_tokenizer || (config->family != BO_FAMILY_BOCHNER && !config->knows_tokenizer))) {
        bo_log(context, BO_LOG_WARNING, "%s: tokenizer.json is missing", from->name);
        return BO_OK;
    }
    if (from->image) {
        const char *text = bo_tensors_meta(from->image, BO_TOKENIZER_FILE);
        if (!text) return bo_fail(context, BO_FORMAT, "%s: \"tokenizer.json\" is missing in the metadata", from->name);
        BO_TRY(bo_tokenizer_parse(context, from->name, text, strlen(text), out));
    } else {
        BO_TRY(bo_tokenizer_load(context, &(bo_source){.path = from->name}, out));
    }
    *same = !config->knows_tokenizer || bo_tokenizer_fingerprint(*out) == config->tokenizer_fingerprint;
    if (!*same)
        bo_log(context, BO_LOG_WARNING, "%s: tokenizer.json is not the tokenizer that the model was created with",
               from->name);
    return BO_OK;
}

/* Warns if the tokenizer is not the one that was written with the tensors. The fingerprint covers only the encoding of
 * text. The checksum also covers special tokens around a text, and decoding. */
static bo_status compare_tokenizer(bo_context *context, const bo_origin *from, const bo_tensors *file,
                                   const bo_tokenizer *tokenizer)
{
    char sum[BO_CHECKSUM_TEXT];
    if (!bo_tensors_meta(file, BO_TENSORS_COMPANION(BO_TOKENIZER_FILE))) return BO_OK;
    BO_TRY(bo_tokenizer_sum(context, tokenizer, sum));
    char *path = bo_model_path(context, from->name, BO_TOKENIZER_FILE);
    if (!path) return BO_MEMORY;
    bo_tensors_compare(context, file, BO_TENSORS_COMPANION(BO_TOKENIZER_FILE), path, sum);
    bo_free(path);
    return BO_OK;
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

/* Returns the number of values of the largest weights of an MLP. */
static double min_mlp(const bo_block *b, double width)
{
    double matrix = (double)b->hidden * width;
    if (b->mlp == BO_MLP_CUSTOM || b->mlp == BO_MLP_LAYERS) return 0;
    if (b->mlp == BO_MLP_QUADRATIC) return matrix * (double)b->hidden;
    return b->mlp == BO_MLP_RANDOM_FEATURES ? matrix : 2 * matrix;
}

/* Returns the number of values of the frequencies of an attention. */
static double min_maps(const bo_attention_desc *a)
{
    const bo_features_desc *f = &a->features;
    bool drawn = f->features && f->draw != BO_DRAW_HADAMARD && f->function != BO_FUNCTION_TENSORSKETCH &&
                 f->kernel != BO_KERNEL_POLYNOMIAL;
    return drawn ? (a->one_draw ? 1 : (double)a->key_heads) * (double)f->features / 2 : 0;
}

/* Returns the number of values of a place: of a layer, or of a cross attention. */
static double min_numbers(const bo_model_desc *d, size_t place)
{
    const bo_block *b = bo_block_at(d, place);
    const bo_attention_desc *a = bo_attention_at(d, place);
    const double width = (double)d->width, heads = (double)(b->heads + b->key_heads) * (double)b->head_dim;
    const double maps = a ? min_maps(a) : 0;
    if (bo_model_part_of(d, place) == BO_MODEL_PART_CROSS) return a ? 2 * heads * width + maps : 0;
    return (b->mixer == BO_MIXER_ATTENTION ? 2 * heads * width : width * width) + min_mlp(b, width) + maps;
}

/* A small configuration can specify any size. Before memory is allocated, this checks that the tensors are at least as
 * large as the largest weights of the configuration (in 16 bits). */
static bo_status check_claims(bo_context *context, const char *where, const bo_model_desc *d, double bytes)
{
    const double width = (double)d->width;
    double numbers = (double)d->vocab * width + (double)d->classes * width;
    for (size_t i = 0; i < bo_model_place(d, BO_MODEL_PART_END); i++) numbers += min_numbers(d, i);
    if (bo_model_positions_kind(d) == BO_POSITIONS_LEARNED) numbers += (double)d->context * width;
    if (2 * numbers <= bytes) return BO_OK;
    return bo_fail(context, BO_FORMAT,
                   "%s: the configuration needs at least %.0f numbers, but the tensors have %.0f bytes", where, numbers,
                   bytes);
}

/* Reports an invalid descriptor as an error in the file. */
static bo_status file_error(bo_context *context, bo_status status, const char *where)
{
    if (status != BO_INVALID && status != BO_UNSUPPORTED) return status;
    return bo_fail(context, BO_FORMAT, "%s: %s", where, bo_context_error(context));
}

/* Returns the number of bytes of the tensors before they are read. */
static double count_bytes(const bo_tensors *file)
{
    double bytes = 0;
    for (size_t i = 0; i < bo_tensors_count(file); i++) bytes += (double)bo_tensors_at(file, i)->bytes;
    return bytes;
}

/* Builds a model whose weights have not been read yet. */
static bo_status build(bo_context *context, const bo_origin *from, const bo_config *config,
                       const bo_tokenizer *tokenizer, const bo_tensors *file, bo_model **out)
{
    bo_model_desc resolved;
    BO_TRY(file_error(context, bo_model_resolve(context, &config->desc, tokenizer, &resolved), from->config_path));
    const bo_status status = check_claims(context, from->config_path, &resolved, count_bytes(file));
    bo_model_desc_release(&resolved);
    BO_TRY(status);
    return file_error(context, bo_model_build(context, &config->desc, tokenizer, out), from->config_path);
}

/* Reads the tensors of a directory, whose config.json has this checksum. `tokenizer` NULL: not compared.
 */
static bo_status read_beside(bo_context *context, const bo_origin *from, const char *sum, const bo_tokenizer *tokenizer,
                             bo_family family, const bo_tensors *file, bo_model *model)
{
    bo_tensors_compare(context, file, BO_TENSORS_COMPANION(BO_CONFIG_FILE), from->config_path, sum);
    if (tokenizer) BO_TRY(compare_tokenizer(context, from, file, tokenizer));
    BO_TRY(bo_model_compare_companions(context, from->name, file, model));
    return bo_model_fill(context, model, family, file, from->storage);
}

/* Finds the function of a custom layer, of which config.json contains only the name. */
static bo_status find_custom(bo_context *context, const bo_origin *from, bo_custom_layer *out)
{
    const char *name = out->name;
    for (size_t i = 0; i < from->custom_count; i++) {
        if (!from->custom[i].name || strcmp(from->custom[i].name, name) != 0) continue;
        *out = from->custom[i];
        out->name = name;
        return BO_OK;
    }
    return bo_fail(context, BO_UNSUPPORTED,
                   "%s: the MLP is the custom layer '%.60s', a function of the program that created the model: load it "
                   "with bo_model_load, with its bo_custom_layer of that name",
                   from->config_path, name);
}

static bo_status find_customs(bo_context *context, const bo_origin *from, bo_model_desc *d)
{
    for (int part = BO_MODEL_PART_LAYERS; part <= BO_MODEL_PART_ENCODER; part += BO_MODEL_PART_ENCODER) {
        const bo_block_list list = bo_blocks_of(d, (bo_model_part)part);
        for (size_t i = 0; i < list.count; i++)
            if (list.blocks[i].custom_mlp.name) BO_TRY(find_custom(context, from, &list.blocks[i].custom_mlp));
    }
    return BO_OK;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

bo_status bo_text_model_load(bo_context *context, const bo_origin *from, const bo_config_text *text, bo_model **out)
{
    bo_config config;
    bo_tokenizer *tokenizer = NULL;
    bo_model *model = NULL;
    bo_tensors *file = NULL;
    bool same;
    BO_TRY(bo_config_read(context, from->config_path, text->text, text->length, &config));
    bo_status status = find_customs(context, from, &config.desc);
    if (status == BO_OK) status = load_tokenizer(context, from, &config, &tokenizer, &same);
    if (status == BO_OK && !from->image) status = bo_model_open_weights(context, from->name, &file);
    if (status == BO_OK) status = build(context, from, &config, tokenizer, from->image ? from->image : file, &model);
    bo_config_free(&config);
    if (status == BO_OK) status = bo_model_read_specials(context, model, from->name, from->image);
    if (status == BO_OK)
        status = from->image
                     ? bo_model_fill(context, model, config.family, from->image, from->storage)
                     : read_beside(context, from, text->sum, same ? tokenizer : NULL, config.family, file, model);
    bo_tensors_close(file);
    if (status == BO_OK) status = bo_specials_settle(context, model);
    if (status != BO_OK) {
        bo_model_destroy(model);
        bo_tokenizer_destroy(tokenizer);
        return status;
    }
    model->owned = tokenizer;
    model->family = config.family;
    *out = model;
    return BO_OK;
}

/* ---- reading again ----------------------------------------------------------------------------------------------- */

/* Replaces the special tokens by the special tokens of a directory. After an error they are unchanged. */
static bo_status update_specials(bo_context *context, bo_model *model, const char *directory)
{
    bo_specials before = model->specials;
    model->specials = bo_specials_none();
    bo_status status = bo_model_read_specials(context, model, directory, NULL);
    if (status == BO_OK) status = bo_specials_settle(context, model);
    if (status != BO_OK) bo_specials_replace(model, &before);
    bo_specials_free(&before);
    return status;
}

bo_status bo_text_model_read(bo_context *context, bo_model *model, const bo_origin *from, const bo_config_text *text)
{
    bo_config config;
    bo_tensors *file;
    BO_TRY(bo_config_read(context, from->config_path, text->text, text->length, &config));
    const bo_family family = config.family;
    bo_config_free(&config);
    BO_TRY(update_specials(context, model, from->name));
    BO_TRY(bo_model_open_weights(context, from->name, &file));
    const bo_status status = bo_model_fill(context, model, family, file, BO_STORAGE_FLOAT32);
    bo_tensors_close(file);
    return status;
}
