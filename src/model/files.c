/* A model as a directory or as one file. */
#include <assert.h>
#include <string.h>
#include <sys/stat.h>
#include "../nn/enums.h"
#include "../base/trace.h"
#include "../io/bytes.h"
#include "../io/output.h"
#include "adapter.h"
#include "families.h"
#include "origin.h"

/* ====================================================================================================================
 * A model as a directory: config.json, model.safetensors, tokenizer.json; or as one file (image), with the texts of the
 * other two in its metadata. */

static const char CONFIG[] = BO_CONFIG_FILE, TOKENIZER[] = BO_TOKENIZER_FILE, FORMER_CONFIG[] = BO_NETWORK_FORMER_FILE,
                  CONFIG_SUM[] = BO_TENSORS_COMPANION(BO_CONFIG_FILE),
                  FORMER_SUM[] = BO_TENSORS_COMPANION(BO_NETWORK_FORMER_FILE),
                  TOKENIZER_SUM[] = BO_TENSORS_COMPANION(BO_TOKENIZER_FILE);

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Adds the texts of the directory's other files as metadata. */
static bo_status note_texts(bo_context *context, const bo_model *model, bo_package *package)
{
    char *config;
    void *tokenizer = NULL;
    size_t size;
    BO_TRY(bo_config_write(context, model, &config));
    bo_status status = bo_package_text(context, package, CONFIG, config);
    bo_free(config);
    if (status != BO_OK || !model->tokenizer) return status;
    BO_TRY(bo_tokenizer_save(context, model->tokenizer, &(bo_sink){.bytes = &tokenizer, .size = &size}));
    status = bo_package_text(context, package, TOKENIZER, tokenizer);
    bo_free(tokenizer);
    return status;
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
    BO_TRY(bo_tokenizer_sum(context, model->tokenizer, sum));
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
        status = bo_tensors_write_output(context, output, package.tensors, package.count, package.metadata,
                                         package.meta_count);
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
    BO_TRY(bo_tokenizer_save(context, model->tokenizer, &(bo_sink){.bytes = &text, .size = &size}));
    bo_status status = bo_output_write(context, output, text, size);
    bo_free(text);
    return status;
}

/* A file of a directory, and the function that writes it; NULL: it is a companion. */
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

static bo_status write_piece(bo_context *context, const bo_model *model, const char *directory, const piece *file,
                             bo_output **out)
{
    char *path = bo_model_path(context, directory, file->write ? file->name : bo_companion_name(file->companion));
    if (!path) return BO_MEMORY;
    bo_status status = bo_output_open(context, path, out);
    bo_free(path);
    BO_TRY(status);
    status = file->write ? file->write(context, model, *out)
                         : bo_model_write_companion(context, model, file->companion, *out);
    return status == BO_OK ? BO_OK : bo_output_finish(context, *out, status);
}

/* All files are complete before the first one is renamed. model.safetensors is renamed last and contains the checksums
 * of the other files, so that a load detects a directory in which only some files were replaced. */
static bo_status write_pieces(bo_context *context, const bo_model *model, const char *directory, const piece *files,
                              size_t count)
{
    enum { MAX_OUTPUTS = 3 + BO_COMPANION_COUNT };
    bo_output *outputs[MAX_OUTPUTS];
    size_t written = 0;
    bo_status status = BO_OK;
    assert(count <= MAX_OUTPUTS);
    for (size_t i = 0; i < count && status == BO_OK; i++) {
        if (!is_written(model, &files[i])) continue;
        status = write_piece(context, model, directory, &files[i], &outputs[written]);
        written += status == BO_OK;
    }
    return bo_output_finish_all(context, outputs, written, status);
}

/* Writes the adapter of a merged model and the original weights that it changed. */
static bo_status write_apart(bo_context *context, const bo_model *model, const char *directory, const piece *files,
                             size_t count)
{
    char *place = bo_model_path(context, directory, "adapter");
    bo_status status = place ? bo_output_directory(context, place) : BO_MEMORY;
    if (status == BO_OK) status = write_pieces(context, model, place, files, count);
    bo_free(place);
    return status;
}

bo_status bo_model_write(bo_context *context, const bo_model *model, const char *directory)
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
    if (adapted && !merged) return write_pieces(context, model, directory, adapter + 1, 3); /* the base is not copied */
    BO_TRY(write_pieces(context, model, directory, whole, sizeof whole / sizeof *whole));
    return merged ? write_apart(context, model, directory, adapter, 4) : BO_OK;
}

/* An unmerged adapter cannot be written into a single file, because its base has the weights. */
static bo_status check_image(bo_context *context, const bo_model *model)
{
    if (!model->adapter || model->adapter->aside) return BO_OK;
    return bo_fail(context, BO_UNSUPPORTED,
                   "model: it has adapters, and their base is not part of the file: merge them first (bo_model_merge), "
                   "or save a directory");
}

static bool ends_as_image(const char *path)
{
    static const char ending[] = ".safetensors";
    const size_t length = strlen(path);
    struct stat about;
    if (length < sizeof ending || strcmp(path + length - (sizeof ending - 1), ending) != 0) return false;
    return stat(path, &about) != 0 || !S_ISDIR(about.st_mode);
}

static bo_status save_image(bo_context *context, const bo_model *model, const bo_sink *sink)
{
    bo_output *output;
    BO_TRY(check_image(context, model));
    BO_TRY(bo_output_open_sink(context, sink, &output));
    return bo_output_finish(context, output, write_tensors(context, model, true, output));
}

bo_status bo_model_save(bo_context *context, const bo_model *model, const bo_sink *sink)
{
    bo_sink_clear(sink);
    BO_REQUIRE(context, model, sink);
    BO_SPAN(context, "data", "save model");
    BO_TRY(bo_sink_check(context, sink));
    if (!sink->path || ends_as_image(sink->path)) return save_image(context, model, sink);
    if (!*sink->path) return bo_fail(context, BO_INVALID, "model: expected a directory, found NULL");
    BO_TRY(bo_output_directory(context, sink->path));
    return bo_model_write(context, model, sink->path);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bo_status read_config_text(bo_context *context, const bo_origin *from, bo_config_text *out)
{
    *out = (bo_config_text){.text = NULL};
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

static bo_status fill_network(bo_context *context, const bo_origin *from, const char *sum, bo_network *network)
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
static bo_status load_network(bo_context *context, const bo_origin *from, const bo_config_text *config, bo_model **out)
{
    bo_network *network;
    BO_TRY(bo_network_parse(context, from->config_path, config->text, config->length, &network));
    const bo_status status = fill_network(context, from, config->sum, network);
    if (status == BO_OK) return bo_model_of_network(context, network, out);
    bo_network_destroy(network);
    return status;
}

static bo_status load(bo_context *context, const bo_origin *from, bo_model **out)
{
    bo_config_text config;
    BO_TRY(read_config_text(context, from, &config));
    bo_status status = (config.network ? load_network : bo_text_model_load)(context, from, &config, out);
    bo_free(config.owned);
    if (status == BO_OK && config.network) status = bo_model_set_storage(context, *out, from->storage);
    return status;
}

/* Loads a single file, or its bytes. */
static bo_status load_image(bo_context *context, const bo_tensors *image, bo_origin from, bo_model **out)
{
    from.image = image;
    from.name = bo_tensors_path(image);
    from.config = bo_tensors_meta(image, FORMER_CONFIG) ? FORMER_CONFIG : CONFIG;
    if (!bo_tensors_meta(image, from.config))
        return bo_fail(
            context, BO_FORMAT,
            "%s: not a model: \"config.json\" is missing in the metadata; a model is a directory, or a file that "
            "bo_model_save wrote",
            from.name);
    char *where = bo_model_path(context, from.name, from.config);
    from.config_path = where;
    const bo_status status = where ? load(context, &from, out) : BO_MEMORY;
    bo_free(where);
    return status;
}

static bo_status load_directory(bo_context *context, const char *directory, bo_origin from, bo_model **out)
{
    from.config =
        bo_model_holds(directory, CONFIG) || !bo_model_holds(directory, FORMER_CONFIG) ? CONFIG : FORMER_CONFIG;
    char *config = bo_model_path(context, directory, from.config);
    from.name = directory;
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
static bo_status load_merged(bo_context *context, const char *directory, bo_model **out)
{
    bo_model *model;
    BO_TRY(bo_model_load_adapted(context, directory, &model));
    const bo_status status = bo_model_merge(context, model);
    if (status == BO_OK) {
        bo_model_drop_adapters(model);
        *out = model;
    } else {
        bo_model_destroy(model);
    }
    return status;
}

static bo_status load_path(bo_context *context, const char *path, bo_origin from, bo_model **out)
{
    bo_tensors *image;
    if (!*path) return bo_fail(context, BO_INVALID, "model: expected a directory, found NULL");
    if (!bo_model_holds(path, CONFIG) && bo_model_holds(path, "adapter_config.json")) {
        BO_TRY(load_merged(context, path, out));
        return bo_model_set_storage(context, *out, from.storage);
    }
    if (!is_file(path)) {
        if (!bo_model_is_whole(context, path)) BO_TRY(bo_model_refuse_directory(context, path));
        return load_directory(context, path, from, out);
    }
    BO_TRY(bo_model_refuse_file(context, path));
    BO_TRY(bo_tensors_open(context, path, &image));
    const bool whole = bo_tensors_meta(image, CONFIG) || bo_tensors_meta(image, FORMER_CONFIG);
    bo_status status = whole ? BO_OK : bo_model_refuse_weights(context, path);
    if (status == BO_OK) status = load_image(context, image, from, out);
    bo_tensors_close(image);
    return status;
}

static bo_status load_bytes(bo_context *context, const bo_source *source, bo_origin from, bo_model **out)
{
    bo_tensors *image;
    BO_TRY(bo_tensors_open_source(context, source, &image));
    const bo_status status = load_image(context, image, from, out);
    bo_tensors_close(image);
    return status;
}

/* Loads the model of an adapter, or the base of a merged one. */
static bo_status load_apart(bo_context *context, const bo_source *source, const bo_model_load_desc *desc,
                            bo_model **out)
{
    if (!source->path)
        return bo_fail(context, BO_INVALID, "model: adapters are in directories, but the source has no path");
    if (desc->storage != BO_STORAGE_FLOAT32)
        return bo_fail(context, BO_INVALID, "model: a model with unmerged adapters must be stored as float32, not %s",
                       bo_storage_name(desc->storage));
    if (desc->adapters == BO_ADAPTERS_KEEP) return bo_model_load_adapted(context, source->path, out);
    return bo_model_load_unmerged(context, source->path, out);
}

static bo_status load_model(bo_context *context, const bo_source *source, const bo_model_load_desc *desc,
                            bo_model **out)
{
    const bo_origin from = {.custom = desc->layers, .custom_count = desc->layer_count, .storage = desc->storage};
    bo_element element;
    BO_TRY(bo_check_reserved(context, "bo_model_load_desc", desc->reserved));
    BO_TRY(bo_source_check(context, source));
    BO_TRY(bo_storage_check(context, desc->storage, &element));
    if (desc->adapters != BO_ADAPTERS_MERGE) return load_apart(context, source, desc, out);
    if (!source->path) return load_bytes(context, source, from, out);
    return load_path(context, source->path, from, out);
}

bo_status bo_model_load(bo_context *context, const bo_source *source, const bo_model_load_desc *desc, bo_model **out)
{
    static const bo_model_load_desc defaults = {0};
    if (out) *out = NULL;
    if (!desc) desc = &defaults;
    BO_REQUIRE(context, source, out);
    BO_REQUIRE_IF(context, desc->layer_count > 0, desc->layers);
    BO_SPAN(context, "data", "load model");
    const bo_status status = load_model(context, source, desc, out);
    if (status != BO_OK && *out) {
        bo_model_destroy(*out);
        *out = NULL;
    }
    return status;
}

static bo_status read_network(bo_context *context, bo_model *model, const char *directory)
{
    bo_tensors *file;
    BO_TRY(bo_model_open_weights(context, directory, &file));
    const bo_status status = bo_network_fill(context, model->network, file);
    bo_tensors_close(file);
    return status;
}

static bo_status read_directory(bo_context *context, bo_model *model, const char *directory)
{
    bo_config_text text;
    char *path = bo_model_path(context, directory, CONFIG);
    const bo_origin from = {.name = directory, .config = CONFIG, .config_path = path};
    if (!path) return BO_MEMORY;
    bo_status status = read_config_text(context, &from, &text);
    if (status == BO_OK) {
        status = bo_text_model_read(context, model, &from, &text);
        bo_free(text.owned);
    }
    bo_free(path);
    return status;
}

bo_status bo_model_read(bo_context *context, bo_model *model, const char *directory)
{
    if (model->network) return read_network(context, model, directory);
    if (!model->adapter) return read_directory(context, model, directory);
    char *path = bo_model_path(context, directory, "adapter_model.safetensors");
    if (!path) return BO_MEMORY;
    const bo_status status = bo_adapter_read(context, model, path);
    bo_free(path);
    return status;
}
