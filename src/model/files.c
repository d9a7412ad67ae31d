/* A model as a folder or as one file. */
#include <bochner/data.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../base/trace.h"
#include "../attention/attention.h"
#include "../features/files.h"
#include "../io/bytes.h"
#include "../io/checksum.h"
#include "../io/output.h"
#include "adapter.h"
#include "families.h"
#include "files.h"
#include "../text/tokenizer.h"

/* ====================================================================================================================
 * A model as a folder: config.json, model.safetensors, tokenizer.json; or as one file (image), with the texts of the
 * other two in its metadata. */

/* Files of a folder, and metadata keys of a single file. */
#define CONFIG_NAME    "config.json"
#define TOKENIZER_NAME "tokenizer.json"
static const char CONFIG[] = CONFIG_NAME, TOKENIZER[] = TOKENIZER_NAME, FORMER_CONFIG[] = BO_NETWORK_FORMER_FILE,
                  CONFIG_SUM[] = BO_TENSORS_COMPANION(CONFIG_NAME),
                  FORMER_SUM[] = BO_TENSORS_COMPANION(BO_NETWORK_FORMER_FILE),
                  TOKENIZER_SUM[] = BO_TENSORS_COMPANION(TOKENIZER_NAME);

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Adds the texts of the folder's other files as metadata. */
static bo_status note_texts(bo_context *context, const bo_model *model, bo_package *package)
{
    char *config;
    void *tokenizer = NULL;
    size_t size;
    BO_TRY(bo_config_write(context, model, &config));
    bo_status status = bo_package_text(context, package, CONFIG, config);
    bo_free(config);
    if (status != BO_OK || !model->tokenizer) return status;
    BO_TRY(bo_tokenizer_save_memory(context, model->tokenizer, &tokenizer, &size));
    status = bo_package_text(context, package, TOKENIZER, tokenizer);
    bo_free(tokenizer);
    return status;
}

/* Computes the checksum of the tokenizer.json that a tokenizer was loaded from, or is saved as. */
static bo_status sum_tokenizer(bo_context *context, const bo_tokenizer *tokenizer, char sum[BO_CHECKSUM_TEXT])
{
    void *text;
    size_t size;
    BO_TRY(bo_tokenizer_save_memory(context, tokenizer, &text, &size));
    bo_checksum_text(text, size, sum);
    bo_free(text);
    return BO_OK;
}

/* Adds the checksums of config.json and tokenizer.json as metadata. */
static bo_status note_sums(bo_context *context, const bo_model *model, bo_package *package)
{
    char *config, sum[BO_CHECKSUM_TEXT];
    BO_TRY(bo_config_write(context, model, &config));
    bo_checksum_text(config, strlen(config), sum);
    bo_free(config);
    BO_TRY(bo_package_text(context, package, CONFIG_SUM, sum));
    if (!model->tokenizer) return BO_OK;
    BO_TRY(sum_tokenizer(context, model->tokenizer, sum));
    return bo_package_text(context, package, TOKENIZER_SUM, sum);
}

static bo_status pack_tensors(bo_context *context, const bo_model *model, bo_package *package)
{
    bo_family family;
    if (model->network) return bo_network_pack(context, model->network, package);
    BO_TRY(bo_family_of(context, model, &family));
    BO_TRY(family == BO_FAMILY_BOCHNER ? bo_package_weights(context, model->weights, bo_maps_count(model), 0, package)
                                       : bo_family_pack(context, model, family, package));
    return bo_maps_pack(context, model, package);
}

/* Writes the tensors. image: includes the texts of the other files. */
static bo_status write_tensors(bo_context *context, const bo_model *model, bool image, bo_output *output)
{
    bo_package package = {0};
    bo_status status = pack_tensors(context, model, &package);
    if (status == BO_OK) status = (image ? note_texts : note_sums)(context, model, &package);
    if (status == BO_OK) status = (image ? bo_package_companions : bo_package_companion_sums)(context, model, &package);
    if (status == BO_OK)
        status =
            bo_tensors_write_output(context, output, package.tensors, package.count, package.metas, package.meta_count);
    bo_package_free(&package);
    return status;
}

static bo_status write_weights(bo_context *context, const bo_model *model, bo_output *output)
{
    return write_tensors(context, model, false, output);
}

static bo_status write_config(bo_context *context, const bo_model *model, bo_output *output)
{
    char *json;
    BO_TRY(bo_config_write(context, model, &json));
    bo_status status = bo_output_write(context, output, json, strlen(json));
    bo_free(json);
    return status;
}

static bo_status write_tokenizer(bo_context *context, const bo_model *model, bo_output *output)
{
    void *text;
    size_t size;
    BO_TRY(bo_tokenizer_save_memory(context, model->tokenizer, &text, &size));
    bo_status status = bo_output_write(context, output, text, size);
    bo_free(text);
    return status;
}

/* A file of a folder, and the function that writes it; NULL: it is a companion. */
typedef struct piece {
    const char *name;
    bo_status (*write)(bo_context *, const bo_model *, bo_output *);
    bo_companion companion;
} piece;

static bool is_written(const bo_model *model, const piece *file)
{
    if (!file->write) return bo_specials_has(model, file->companion);
    return file->write != write_tokenizer || model->tokenizer;
}

static bo_status write_piece(bo_context *context, const bo_model *model, const char *folder, const piece *file,
                             bo_output **out)
{
    char *path = bo_model_path(context, folder, file->write ? file->name : bo_companion_name(file->companion));
    if (!path) return BO_MEMORY;
    bo_status status = bo_output_open(context, path, out);
    bo_free(path);
    BO_TRY(status);
    status = file->write ? file->write(context, model, *out)
                         : bo_model_write_companion(context, model, file->companion, *out);
    return status == BO_OK ? BO_OK : bo_output_finish(context, *out, status);
}

/* All files are complete before one of them gets its name. model.safetensors is the last and holds the checksums of the
 * other files, so that a load detects a folder in which only some files were replaced. */
static bo_status write_pieces(bo_context *context, const bo_model *model, const char *folder, const piece *files,
                              size_t count)
{
    enum { MOST = 3 + BO_COMPANION_COUNT };
    bo_output *outputs[MOST];
    size_t written = 0;
    bo_status status = BO_OK;
    assert(count <= MOST);
    for (size_t i = 0; i < count && status == BO_OK; i++) {
        if (!is_written(model, &files[i])) continue;
        status = write_piece(context, model, folder, &files[i], &outputs[written]);
        written += status == BO_OK;
    }
    return bo_output_finish_all(context, outputs, written, status);
}

/* Writes the adapter of a merged model and the original weights that it changed. */
static bo_status write_apart(bo_context *context, const bo_model *model, const char *folder, const piece *files,
                             size_t count)
{
    char *place = bo_model_path(context, folder, "adapter");
    bo_status status = place ? bo_output_folder(context, place) : BO_MEMORY;
    if (status == BO_OK) status = write_pieces(context, model, place, files, count);
    bo_free(place);
    return status;
}

bo_status bo_model_write(bo_context *context, const bo_model *model, const char *folder)
{
    static const piece whole[] = {{.name = TOKENIZER, write_tokenizer},
                                  {.companion = BO_COMPANION_TOKENIZER},
                                  {.companion = BO_COMPANION_MAP},
                                  {.companion = BO_COMPANION_CHAT},
                                  {.companion = BO_COMPANION_GENERATION},
                                  {.name = CONFIG, write_config},
                                  {.name = "model.safetensors", write_weights}};
    static const piece adapter[] = {{.name = "base.safetensors", bo_adapter_write_base},
                                    {.name = TOKENIZER, write_tokenizer},
                                    {.name = "adapter_config.json", bo_adapter_config_write},
                                    {.name = "adapter_model.safetensors", bo_adapter_write}};
    const bool adapted = model->adapter, merged = adapted && model->adapter->aside;
    if (adapted && !merged) return write_pieces(context, model, folder, adapter + 1, 3); /* the base is not copied */
    BO_TRY(write_pieces(context, model, folder, whole, sizeof whole / sizeof *whole));
    return merged ? write_apart(context, model, folder, adapter, 4) : BO_OK;
}

/* An unmerged adapter cannot be written into a single file: the weights that it belongs to are in its base. */
static bo_status check_image(bo_context *context, const bo_model *model)
{
    if (!model->adapter || model->adapter->aside) return BO_OK;
    return bo_fail(
        context, BO_UNSUPPORTED,
        "model: it has adapters, and their base is not part of the file: merge them first (bo_model_merge), or save a folder");
}

static bool ends_as_image(const char *path)
{
    static const char ending[] = ".safetensors";
    const size_t length = strlen(path);
    struct stat about;
    if (length < sizeof ending || strcmp(path + length - (sizeof ending - 1), ending) != 0) return false;
    return stat(path, &about) != 0 || !S_ISDIR(about.st_mode);
}

static bo_status save_image(bo_context *context, const bo_model *model, const char *path)
{
    bo_output *output;
    BO_TRY(check_image(context, model));
    BO_TRY(bo_output_open(context, path, &output));
    return bo_output_finish(context, output, write_tensors(context, model, true, output));
}

bo_status bo_model_save(bo_context *context, const bo_model *model, const char *path)
{
    BO_REQUIRE(context, model, path);
    BO_SPAN(context, "data", "save model");
    if (!*path) return bo_fail(context, BO_INVALID, "model: no folder is given");
    if (ends_as_image(path)) return save_image(context, model, path);
    BO_TRY(bo_output_folder(context, path));
    return bo_model_write(context, model, path);
}

bo_status bo_model_save_memory(bo_context *context, const bo_model *model, void **bytes, size_t *size)
{
    if (bytes) *bytes = NULL;
    if (size) *size = 0;
    BO_REQUIRE(context, model, bytes, size);
    BO_SPAN(context, "data", "save model");
    bo_output *output;
    BO_TRY(check_image(context, model));
    BO_TRY(bo_output_open_memory(context, bytes, size, &output));
    return bo_output_finish(context, output, write_tensors(context, model, true, output));
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Returns the number of values of the largest weights of an MLP. */
static double least_mlp(const bo_block *b, double width)
{
    double matrix = (double)b->hidden * width;
    if (b->mlp == BO_MLP_CUSTOM || b->mlp == BO_MLP_LAYERS) return 0;
    if (b->mlp == BO_MLP_QUADRATIC) return matrix * (double)b->hidden;
    return b->mlp == BO_MLP_RANDOM_FEATURES ? matrix : 2 * matrix;
}

/* Returns the number of values of the frequencies of an attention. */
static double least_maps(const bo_attention_desc *a)
{
    const bo_features_desc *f = &a->features;
    bool drawn = f->features && f->draw != BO_DRAW_HADAMARD && f->function != BO_FUNCTION_TENSORSKETCH &&
                 f->kernel != BO_KERNEL_POLYNOMIAL;
    return drawn ? (a->one_draw ? 1 : (double)a->key_heads) * (double)f->features / 2 : 0;
}

/* Returns the number of values of a place: of a layer, or of a cross attention. */
static double least_numbers(const bo_model_desc *d, size_t place)
{
    const bo_block *b = bo_block_at(d, place);
    const bo_attention_desc *a = bo_attention_at(d, place);
    const double width = (double)d->width, heads = (double)(b->heads + b->key_heads) * (double)b->head_dim;
    const double maps = a ? least_maps(a) : 0;
    if (bo_model_part_of(d, place) == BO_MODEL_PART_CROSS) return a ? 2 * heads * width + maps : 0;
    return (b->mixer == BO_MIXER_ATTENTION ? 2 * heads * width : width * width) + least_mlp(b, width) + maps;
}

/* A small configuration can specify any size. Before memory is allocated, this checks that the tensors are at least as
 * large as the largest weights of the configuration (in 16 bits). */
static bo_status check_claims(bo_context *context, const char *where, const bo_model_desc *d, double bytes)
{
    const double width = (double)d->width;
    double numbers = (double)d->vocab * width + (double)d->classes * width;
    for (size_t i = 0; i < bo_model_place(d, BO_MODEL_PART_END); i++) numbers += least_numbers(d, i);
    if (bo_model_positions_kind(d) == BO_POSITIONS_LEARNED) numbers += (double)d->context * width;
    if (2 * numbers <= bytes) return BO_OK;
    return bo_fail(context, BO_FORMAT,
                   "%s: the configuration needs at least %.0f numbers, but the tensors have %.0f bytes", where, numbers,
                   bytes);
}

/* The origin of a model: a folder, or one file that contains all of it. */
typedef struct origin {
    const char *name;              /* path of the folder or file */
    const char *config;            /* name of its configuration: that of earlier versions for networks, or CONFIG */
    const char *config_path;       /* file of the folder */
    const bo_tensors *image;       /* NULL: a folder */
    const bo_custom_layer *custom; /* custom layers of the caller */
    size_t custom_count;
    bo_storage storage; /* of the matrices of the model */
} origin;

/* The text of a configuration, and the checksum of that of a folder. */
typedef struct config_text {
    const char *text;
    char *owned; /* that of a folder; freed by the caller */
    size_t length;
    char sum[BO_CHECKSUM_TEXT];
    bool network; /* it describes a network */
} config_text;

static bo_status read_config_text(bo_context *context, const origin *from, config_text *out)
{
    *out = (config_text){.text = NULL};
    if (from->image) {
        out->text = bo_tensors_meta(from->image, from->config);
        out->length = strlen(out->text);
    } else {
        BO_TRY(bo_bytes_text(context, from->config_path, &bo_limits_network, &out->owned, &out->length));
        out->text = out->owned;
        bo_checksum_text(out->text, out->length, out->sum);
    }
    const bo_status status = bo_network_config_is(context, from->config_path, out->text, out->length, &out->network);
    if (status != BO_OK) bo_free(out->owned);
    return status;
}

static bo_status has_tokenizer(bo_context *context, const origin *from, bool *out)
{
    if (from->image) {
        *out = bo_tensors_meta(from->image, TOKENIZER) != NULL;
        return BO_OK;
    }
    char *path = bo_model_path(context, from->name, TOKENIZER);
    if (!path) return BO_MEMORY;
    *out = access(path, F_OK) == 0;
    bo_free(path);
    return BO_OK;
}

/* Loads the tokenizer. *out is NULL if there is none and none is needed: models of Bochner that were made without a
 * tokenizer, other models of any vocabulary. *same: it does not differ from the fingerprint in the configuration. */
static bo_status load_tokenizer(bo_context *context, const origin *from, const bo_config *config, bo_tokenizer **out,
                                bool *same)
{
    bool there;
    *same = true;
    BO_TRY(has_tokenizer(context, from, &there));
    if (!there && (config->no_tokenizer || (config->family != BO_FAMILY_BOCHNER && !config->knows_tokenizer))) {
        bo_log(context, BO_LOG_WARNING, "%s: tokenizer.json is missing", from->name);
        return BO_OK;
    }
    if (from->image) {
        const char *text = bo_tensors_meta(from->image, TOKENIZER);
        if (!text) return bo_fail(context, BO_FORMAT, "%s: \"tokenizer.json\" is missing in the metadata", from->name);
        BO_TRY(bo_tokenizer_parse(context, from->name, text, strlen(text), out));
    } else {
        BO_TRY(bo_tokenizer_load(context, from->name, out));
    }
    *same = !config->knows_tokenizer || bo_tokenizer_fingerprint(*out) == config->tokenizer_fingerprint;
    if (!*same)
        bo_log(context, BO_LOG_WARNING, "%s: tokenizer.json is not the tokenizer that the model was created with",
               from->name);
    return BO_OK;
}

/* Reports an error that would be the caller's mistake in a descriptor as an error in the file. */
static bo_status blame_file(bo_context *context, bo_status status, const char *where)
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
static bo_status build(bo_context *context, const origin *from, const bo_config *config, const bo_tokenizer *tokenizer,
                       const bo_tensors *file, bo_model **out)
{
    bo_model_desc resolved;
    BO_TRY(blame_file(context, bo_model_resolve(context, &config->desc, tokenizer, &resolved), from->config_path));
    const bo_status status = check_claims(context, from->config_path, &resolved, count_bytes(file));
    bo_model_desc_release(&resolved);
    BO_TRY(status);
    return blame_file(context, bo_model_build(context, &config->desc, tokenizer, out), from->config_path);
}

static bo_status read_tensors(bo_context *context, bo_model *model, bo_family family, const char *folder)
{
    bo_tensors *file;
    BO_TRY(bo_model_open_weights(context, folder, &file));
    const bo_status status = bo_model_fill(context, model, family, file, BO_STORAGE_FLOAT32);
    bo_tensors_close(file);
    return status;
}

/* Warns if the tokenizer is not the one that was written with the tensors. The fingerprint covers only what determines
 * the ids of a text; the checksum covers special tokens around a text and decoding, too. */
static bo_status compare_tokenizer(bo_context *context, const origin *from, const bo_tensors *file,
                                   const bo_tokenizer *tokenizer)
{
    char sum[BO_CHECKSUM_TEXT];
    if (!bo_tensors_meta(file, TOKENIZER_SUM)) return BO_OK;
    BO_TRY(sum_tokenizer(context, tokenizer, sum));
    char *path = bo_model_path(context, from->name, TOKENIZER);
    if (!path) return BO_MEMORY;
    bo_tensors_compare(context, file, TOKENIZER_SUM, path, sum);
    bo_free(path);
    return BO_OK;
}

/* Reads the tensors of a folder, whose config.json has this checksum. `tokenizer` may be NULL: it is not compared. */
static bo_status read_beside(bo_context *context, const origin *from, const char *sum, const bo_tokenizer *tokenizer,
                             bo_family family, const bo_tensors *file, bo_model *model)
{
    bo_tensors_compare(context, file, CONFIG_SUM, from->config_path, sum);
    if (tokenizer) BO_TRY(compare_tokenizer(context, from, file, tokenizer));
    BO_TRY(bo_model_compare_companions(context, from->name, file, model));
    return bo_model_fill(context, model, family, file, from->storage);
}

/* Finds the function of a custom layer, of which config.json contains only the name. */
static bo_status find_custom(bo_context *context, const origin *from, bo_custom_layer *out)
{
    const char *name = out->name;
    for (size_t i = 0; i < from->custom_count; i++) {
        if (!from->custom[i].name || strcmp(from->custom[i].name, name) != 0) continue;
        *out = from->custom[i];
        out->name = name;
        return BO_OK;
    }
    return bo_fail(
        context, BO_UNSUPPORTED,
        "%s: the MLP is the custom layer '%.60s', a function of the program that created the model: load it with bo_model_load_custom and a bo_custom_layer of that name",
        from->config_path, name);
}

static bo_status find_customs(bo_context *context, const origin *from, bo_model_desc *d)
{
    for (int part = BO_MODEL_PART_LAYERS; part <= BO_MODEL_PART_ENCODER; part += BO_MODEL_PART_ENCODER) {
        const bo_block_list list = bo_blocks_of(d, (bo_model_part)part);
        for (size_t i = 0; i < list.count; i++)
            if (list.blocks[i].custom_mlp.name) BO_TRY(find_custom(context, from, &list.blocks[i].custom_mlp));
    }
    return BO_OK;
}

static bo_status fill_network(bo_context *context, const origin *from, const char *sum, bo_network *network)
{
    bo_tensors *file;
    if (from->image) return bo_network_fill(context, network, from->image);
    BO_TRY(bo_model_open_weights(context, from->name, &file));
    bo_tensors_compare(context, file, from->config == CONFIG ? CONFIG_SUM : FORMER_SUM, from->config_path, sum);
    const bo_status status = bo_network_fill(context, network, file);
    bo_tensors_close(file);
    return status;
}

/* Loads a model of the task `predict`. */
static bo_status load_network(bo_context *context, const origin *from, const config_text *config, bo_model **out)
{
    bo_network *network;
    BO_TRY(bo_network_parse(context, from->config_path, config->text, config->length, &network));
    const bo_status status = fill_network(context, from, config->sum, network);
    if (status == BO_OK) return bo_model_of_network(context, network, out);
    bo_network_destroy(network);
    return status;
}

static bo_status load_text_model(bo_context *context, const origin *from, const config_text *text, bo_model **out)
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

static bo_status load(bo_context *context, const origin *from, bo_model **out)
{
    config_text config;
    BO_TRY(read_config_text(context, from, &config));
    bo_status status = (config.network ? load_network : load_text_model)(context, from, &config, out);
    bo_free(config.owned);
    if (status == BO_OK && config.network) status = bo_model_set_storage(context, *out, from->storage);
    return status;
}

/* Loads a single file, or its bytes. */
static bo_status load_image(bo_context *context, const bo_tensors *image, origin from, bo_model **out)
{
    from.image = image;
    from.name = bo_tensors_path(image);
    from.config = bo_tensors_meta(image, FORMER_CONFIG) ? FORMER_CONFIG : CONFIG;
    if (!bo_tensors_meta(image, from.config))
        return bo_fail(
            context, BO_FORMAT,
            "%s: not a model: \"config.json\" is missing in the metadata; a model is a folder, or a file that "
            "bo_model_save wrote",
            from.name);
    char *where = bo_model_path(context, from.name, from.config);
    from.config_path = where;
    const bo_status status = where ? load(context, &from, out) : BO_MEMORY;
    bo_free(where);
    return status;
}

static bo_status load_folder(bo_context *context, const char *folder, origin from, bo_model **out)
{
    from.config = bo_model_holds(folder, CONFIG) || !bo_model_holds(folder, FORMER_CONFIG) ? CONFIG : FORMER_CONFIG;
    char *config = bo_model_path(context, folder, from.config);
    from.name = folder;
    from.config_path = config;
    const bo_status status = config ? load(context, &from, out) : BO_MEMORY;
    bo_free(config);
    return status;
}

static bool is_file(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

bool bo_model_is_whole(bo_context *context, const char *path)
{
    return bo_model_holds(path, CONFIG) || bo_model_holds(path, FORMER_CONFIG) ||
           (is_file(path) &&
            (bo_tensors_mention(context, path, CONFIG) || bo_tensors_mention(context, path, FORMER_CONFIG)));
}

bool bo_model_exists(bo_context *context, const char *path)
{
    if (!context || !path) return false;
    return bo_model_is_whole(context, path) || bo_model_holds(path, "adapter_config.json");
}

/* Loads the base with the adapter merged into it. */
static bo_status load_merged(bo_context *context, const char *folder, bo_model **out)
{
    bo_model *model;
    BO_TRY(bo_model_load_adapted(context, folder, &model));
    const bo_status status = bo_model_merge(context, model);
    if (status == BO_OK) {
        bo_model_drop_adapters(model);
        *out = model;
    } else {
        bo_model_destroy(model);
    }
    return status;
}

static bo_status load_path(bo_context *context, const char *path, origin from, bo_model **out)
{
    bo_tensors *image;
    if (!*path) return bo_fail(context, BO_INVALID, "model: no folder is given");
    if (!bo_model_holds(path, CONFIG) && bo_model_holds(path, "adapter_config.json")) {
        BO_TRY(load_merged(context, path, out));
        return bo_model_set_storage(context, *out, from.storage);
    }
    if (!is_file(path)) {
        if (!bo_model_is_whole(context, path)) BO_TRY(bo_model_refuse_folder(context, path));
        return load_folder(context, path, from, out);
    }
    BO_TRY(bo_model_refuse_file(context, path));
    BO_TRY(bo_tensors_open(context, path, &image));
    const bool whole = bo_tensors_meta(image, CONFIG) || bo_tensors_meta(image, FORMER_CONFIG);
    bo_status status = whole ? BO_OK : bo_model_refuse_weights(context, path);
    if (status == BO_OK) status = load_image(context, image, from, out);
    bo_tensors_close(image);
    return status;
}

bo_status bo_model_load_custom(bo_context *context, const char *path, const bo_custom_layer *layers, size_t count,
                               bo_model **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, path, out);
    BO_REQUIRE_IF(context, count > 0, layers);
    BO_SPAN(context, "data", "load model");
    return load_path(context, path, (origin){.custom = layers, .custom_count = count}, out);
}

bo_status bo_model_load_stored(bo_context *context, const char *path, bo_storage storage, bo_model **out)
{
    bo_element element;
    if (out) *out = NULL;
    BO_REQUIRE(context, path, out);
    BO_SPAN(context, "data", "load model");
    BO_TRY(bo_storage_check(context, storage, &element));
    const bo_status status = load_path(context, path, (origin){.storage = storage}, out);
    if (status != BO_OK && *out) {
        bo_model_destroy(*out);
        *out = NULL;
    }
    return status;
}

bo_status bo_model_load(bo_context *context, const char *path, bo_model **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, path, out);
    return bo_model_load_custom(context, path, NULL, 0, out);
}

bo_status bo_model_load_custom_memory(bo_context *context, const void *bytes, size_t size,
                                      const bo_custom_layer *layers, size_t count, bo_model **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, out);
    BO_REQUIRE_IF(context, size > 0, bytes);
    BO_REQUIRE_IF(context, count > 0, layers);
    BO_SPAN(context, "data", "load model");
    bo_tensors *image;
    BO_TRY(bo_tensors_open_memory(context, "memory", bytes, size, &image));
    const bo_status status = load_image(context, image, (origin){.custom = layers, .custom_count = count}, out);
    bo_tensors_close(image);
    return status;
}

bo_status bo_model_load_memory(bo_context *context, const void *bytes, size_t size, bo_model **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, out);
    BO_REQUIRE_IF(context, size > 0, bytes);
    return bo_model_load_custom_memory(context, bytes, size, NULL, 0, out);
}

/* Reads the family of a folder. */
static bo_status read_family(bo_context *context, const char *folder, bo_family *out)
{
    bo_config config;
    config_text text;
    char *path = bo_model_path(context, folder, CONFIG);
    if (!path) return BO_MEMORY;
    bo_status status =
        read_config_text(context, &(origin){.name = folder, .config = CONFIG, .config_path = path}, &text);
    if (status == BO_OK) {
        status = bo_config_read(context, path, text.text, text.length, &config);
        bo_free(text.owned);
    }
    bo_free(path);
    BO_TRY(status);
    *out = config.family;
    bo_config_free(&config);
    return BO_OK;
}

/* Replaces the special tokens by those of a folder; after an error they are unchanged. */
static bo_status update_specials(bo_context *context, bo_model *model, const char *folder)
{
    bo_specials before = model->specials;
    model->specials = bo_specials_none();
    bo_status status = bo_model_read_specials(context, model, folder, NULL);
    if (status == BO_OK) status = bo_specials_settle(context, model);
    if (status != BO_OK) bo_specials_replace(model, &before);
    bo_specials_free(&before);
    return status;
}

static bo_status read_network(bo_context *context, bo_model *model, const char *folder)
{
    bo_tensors *file;
    BO_TRY(bo_model_open_weights(context, folder, &file));
    const bo_status status = bo_network_fill(context, model->network, file);
    bo_tensors_close(file);
    return status;
}

bo_status bo_model_read(bo_context *context, bo_model *model, const char *folder)
{
    if (model->network) return read_network(context, model, folder);
    if (!model->adapter) {
        bo_family family;
        BO_TRY(read_family(context, folder, &family));
        BO_TRY(update_specials(context, model, folder));
        return read_tensors(context, model, family, folder);
    }
    char *path = bo_model_path(context, folder, "adapter_model.safetensors");
    if (!path) return BO_MEMORY;
    const bo_status status = bo_adapter_read(context, model, path);
    bo_free(path);
    return status;
}
