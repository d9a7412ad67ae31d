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
static const char CONFIG[] = CONFIG_NAME, TOKENIZER[] = TOKENIZER_NAME,
                  CONFIG_SUM[] = BO_TENSORS_COMPANION(CONFIG_NAME),
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

/* Writes the tensors. image: includes the texts of the other files. */
static bo_status write_tensors(bo_context *context, const bo_model *model, bool image, bo_output *output)
{
    bo_package package = {0};
    bo_family family;
    BO_TRY(bo_family_of(context, model, &family));
    bo_status status = family == BO_FAMILY_BOCHNER
                           ? bo_package_weights(context, model->weights, bo_maps_count(model), 0, &package)
                           : bo_family_pack(context, model, family, &package);
    if (status == BO_OK) status = bo_maps_pack(context, model, &package);
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
static double least_mlp(const bo_model_desc *d)
{
    double matrix = (double)d->hidden * (double)d->width;
    if (d->mlp == BO_MLP_CUSTOM) return 0;
    if (d->mlp == BO_MLP_QUADRATIC) return matrix * (double)d->hidden;
    return d->mlp == BO_MLP_RANDOM_FEATURES ? matrix : 2 * matrix;
}

/* Returns the number of values of the frequencies of an attention. */
static double least_maps(const bo_attention_desc *a, size_t key_heads)
{
    const bo_features_desc *f = &a->features;
    bool drawn = f->features && f->draw != BO_DRAW_HADAMARD && f->function != BO_FUNCTION_TENSORSKETCH &&
                 f->kernel != BO_KERNEL_POLYNOMIAL;
    return drawn ? (a->one_draw ? 1 : (double)key_heads) * (double)f->features / 2 : 0;
}

/* A small configuration can specify any size. Before memory is allocated, this checks that the tensors are at least as
 * large as the largest weights of the configuration (in 16 bits). */
static bo_status check_claims(bo_context *context, const char *where, const bo_model_desc *d, double bytes)
{
    double width = (double)d->width, heads = (double)(d->heads + d->key_heads) * (double)d->head_dim;
    double mixer = d->mixer == BO_MIXER_ATTENTION ? 2 * heads * width : width * width;
    double layers = (double)d->layers + (double)d->encoder_layers;
    double maps = (double)d->encoder_layers * least_maps(bo_model_kind(d, BO_MODEL_PART_ENCODER), d->key_heads);
    for (size_t i = 0; i < d->layers; i++) maps += least_maps(bo_model_kind_at(d, i), d->key_heads);
    double numbers = (double)d->vocab * width + (double)d->classes * width;
    numbers += layers * (mixer + least_mlp(d)) + maps;
    if (bo_model_attends(d, BO_MODEL_PART_CROSS))
        numbers += (double)d->layers * (2 * heads * width + least_maps(&d->cross_attention, d->key_heads));
    if (d->positions == BO_POSITIONS_LEARNED) numbers += (double)d->context * width;
    if (2 * numbers <= bytes) return BO_OK;
    return bo_fail(context, BO_FORMAT,
                   "%s: the configuration needs at least %.0f numbers, but the tensors have %.0f bytes", where, numbers,
                   bytes);
}

/* The origin of a model: a folder, or one file that contains all of it. */
typedef struct origin {
    const char *name;              /* path of the folder or file */
    const char *config_path;       /* file of the folder */
    const bo_tensors *image;       /* NULL: a folder */
    const bo_custom_layer *custom; /* custom layers of the caller */
    size_t custom_count;
    bo_storage storage; /* of the matrices of the model */
} origin;

/* Reads the configuration and computes the checksum of its text. */
static bo_status read_config(bo_context *context, const origin *from, bo_config *out, char sum[BO_CHECKSUM_TEXT])
{
    char *text;
    size_t length;
    if (from->image) {
        const char *json = bo_tensors_meta(from->image, CONFIG);
        return bo_config_read(context, from->config_path, json, strlen(json), out);
    }
    BO_TRY(bo_bytes_text(context, from->config_path, &bo_limits_config, &text, &length));
    bo_checksum_text(text, length, sum);
    const bo_status status = bo_config_read(context, from->config_path, text, length, out);
    bo_free(text);
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
    BO_TRY(check_claims(context, from->config_path, &resolved, count_bytes(file)));
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
        return BO_OK;
    }
    return bo_fail(
        context, BO_UNSUPPORTED,
        "%s: the MLP is the custom layer '%.60s', a function of the program that created the model: load it with bo_model_load_custom and a bo_custom_layer of that name",
        from->config_path, name);
}

static bo_status load(bo_context *context, const origin *from, bo_model **out)
{
    bo_config config;
    bo_tokenizer *tokenizer = NULL;
    bo_model *model = NULL;
    bo_tensors *file = NULL;
    char sum[BO_CHECKSUM_TEXT];
    bool same;
    BO_TRY(read_config(context, from, &config, sum));
    bo_status status = config.custom ? find_custom(context, from, &config.desc.custom_mlp) : BO_OK;
    if (status == BO_OK) status = load_tokenizer(context, from, &config, &tokenizer, &same);
    if (status == BO_OK && !from->image) status = bo_model_open_weights(context, from->name, &file);
    if (status == BO_OK) status = build(context, from, &config, tokenizer, from->image ? from->image : file, &model);
    bo_config_free(&config);
    if (status == BO_OK) status = bo_model_read_specials(context, model, from->name, from->image);
    if (status == BO_OK)
        status = from->image ? bo_model_fill(context, model, config.family, from->image, from->storage)
                             : read_beside(context, from, sum, same ? tokenizer : NULL, config.family, file, model);
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

/* Loads a single file, or its bytes. */
static bo_status load_image(bo_context *context, const bo_tensors *image, origin from, bo_model **out)
{
    from.image = image;
    from.name = bo_tensors_path(image);
    if (!bo_tensors_meta(image, CONFIG))
        return bo_fail(
            context, BO_FORMAT,
            "%s: not a model: \"config.json\" is missing in the metadata; a model is a folder, or a file that "
            "bo_model_save wrote",
            from.name);
    char *where = bo_model_path(context, from.name, CONFIG);
    from.config_path = where;
    const bo_status status = where ? load(context, &from, out) : BO_MEMORY;
    bo_free(where);
    return status;
}

static bo_status load_folder(bo_context *context, const char *folder, origin from, bo_model **out)
{
    char *config = bo_model_path(context, folder, CONFIG);
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
    return bo_model_holds(path, CONFIG) || (is_file(path) && bo_tensors_mention(context, path, CONFIG));
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
        if (!bo_model_holds(path, CONFIG)) BO_TRY(bo_model_refuse_folder(context, path));
        return load_folder(context, path, from, out);
    }
    BO_TRY(bo_model_refuse_file(context, path));
    BO_TRY(bo_tensors_open(context, path, &image));
    bo_status status = bo_tensors_meta(image, CONFIG) ? BO_OK : bo_model_refuse_weights(context, path);
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
    char sum[BO_CHECKSUM_TEXT], *path = bo_model_path(context, folder, CONFIG);
    if (!path) return BO_MEMORY;
    const bo_status status = read_config(context, &(origin){.name = folder, .config_path = path}, &config, sum);
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

bo_status bo_model_read(bo_context *context, bo_model *model, const char *folder)
{
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
