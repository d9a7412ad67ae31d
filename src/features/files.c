/* Feature maps in files: the descriptor as JSON, arrays as tensors. Everything that is read is treated as untrusted. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include "enums.h"
#include "../io/json.h"
#include "internal.h"
#include "files.h"
#include "sections.h"

enum { FORMAT = 1 };

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* The members that only networks of infinite width have; empty for other kernels. */
static void network_to_json(const bo_features_desc *desc, char *json, size_t size)
{
    json[0] = 0;
    if (!bo_kernel_of_networks(desc->kernel)) return;
    snprintf(json, size,
             ", \"depth\": %d, \"activation\": \"%s\", \"weight_variance\": %.17g, \"bias_variance\": %.17g",
             desc->depth, bo_hidden_activation_name(desc->activation), desc->weight_variance, desc->bias_variance);
}

static char *descriptor_to_json(bo_context *context, const bo_features_desc *desc)
{
    enum { SIZE = 1024 };
    char network[192];
    network_to_json(desc, network, sizeof network);
    char *json = bo_alloc(context, SIZE, 1, "the descriptor of features as JSON");
    if (!json) return NULL;
    /* the seed is text: JSON numbers have 53 bits */
    snprintf(
        json, SIZE,
        "{\"format\": %d, \"kernel\": \"%s\", \"function\": \"%s\", \"draw\": \"%s\", \"sampling\": \"%s\", "
        "\"dim\": %zu, \"features\": %zu, \"gamma\": %.17g, \"alpha\": %.17g, \"degree\": %d, \"pair_norm\": %.17g, "
        "\"seed\": \"%llu\", \"candidates\": %zu, \"leverage_lambda\": %.17g%s%s}",
        FORMAT, bo_kernel_name(desc->kernel), bo_function_name(desc->function), bo_draw_name(desc->draw),
        bo_sampling_name(desc->sampling), desc->dim, desc->features, desc->gamma, desc->alpha, desc->degree,
        desc->pair_norm, (unsigned long long)desc->seed, desc->candidates, desc->leverage_lambda,
        desc->sparse ? ", \"sparse\": true" : "", network);
    return json;
}

static void add_tensor(bo_file_tensor *tensors, size_t *count, const char *name, bo_dtype type, size_t rows,
                       size_t columns, const void *data)
{
    if (!data) return;
    size_t entries = rows * (columns ? columns : 1);
    tensors[(*count)++] = (bo_file_tensor){.name = name,
                                           .dtype = type,
                                           .rank = columns ? 2 : 1,
                                           .shape = {rows, columns},
                                           .data = data,
                                           .bytes = entries * 4};
}

bo_status bo_features_pack(bo_context *context, const bo_features *f, bo_file_tensor *tensors, size_t *count,
                           char **json, void **owned)
{
    size_t m = f->frequencies, dim = f->desc.dim, n = 0;
    *json = NULL;
    *owned = NULL;
    *count = 0;
    if (f->desc.function == BO_FUNCTION_CUSTOM)
        return bo_fail(context, BO_UNSUPPORTED, "function custom cannot be saved: a file cannot contain a callback");
    *json = descriptor_to_json(context, &f->desc);
    if (!*json) return BO_MEMORY;
    add_tensor(tensors, &n, "features.w", BO_F32, m, dim, f->w);
    add_tensor(tensors, &n, "features.length_scales", BO_F32, dim, 0, f->length_scales);
    add_tensor(tensors, &n, "features.weights", BO_F32, m, 0, f->weights);
    add_tensor(tensors, &n, "features.proposal", BO_F32, dim, dim, f->proposal);
    add_tensor(tensors, &n, "features.chosen", BO_F32, m, 0, f->chosen);
    add_tensor(tensors, &n, "features.bias", BO_F32, m, 0, f->bias);
    add_tensor(tensors, &n, "features.signs", BO_F32, f->hadamard.blocks * 3, f->hadamard.padded, f->hadamard.signs);
    add_tensor(tensors, &n, "features.norms", BO_F32, m, 0, f->hadamard.norms);
    if (f->sketch) {
        size_t degree = (size_t)f->desc.degree;
        add_tensor(tensors, &n, "features.sketch_hashes", BO_I32, degree, dim + 1, bo_sketch_hashes(f->sketch));
        add_tensor(tensors, &n, "features.sketch_signs", BO_F32, degree, dim + 1, bo_sketch_signs(f->sketch));
    }
    if (f->network)
        add_tensor(tensors, &n, "features.network", BO_F32, bo_random_network_count(&f->desc), 0,
                   bo_random_network_matrices(f->network));
    if (f->landmarks) {
        const size_t rows = f->landmarks->count;
        add_tensor(tensors, &n, "features.landmarks", BO_F32, rows, dim, f->landmarks->rows);
        add_tensor(tensors, &n, "features.factor", BO_F32, rows * (rows + 1) / 2, 0, f->landmarks->lower);
    }
    if (f->selftensor)
        add_tensor(tensors, &n, "features.selftensor", BO_F32, bo_selftensor_count(&f->desc), 0,
                   bo_selftensor_matrices(f->selftensor));
    *count = n;
    return BO_OK;
}

/* Writes the map and closes the output. */
static bo_status save(bo_context *context, const bo_features *features, bo_output *output)
{
    bo_file_tensor tensors[BO_FEATURES_TENSORS];
    size_t count;
    char *json;
    void *owned;
    bo_status status = bo_features_pack(context, features, tensors, &count, &json, &owned);
    bo_meta meta = {"bochner.features", json};
    if (status == BO_OK) status = bo_tensors_write_output(context, output, tensors, count, &meta, 1);
    bo_free(json);
    bo_free(owned);
    return bo_output_finish(context, output, status);
}

bo_status bo_features_save(bo_context *context, const bo_features *features, const bo_sink *sink)
{
    bo_sink_clear(sink);
    BO_REQUIRE(context, features, sink);
    bo_output *output;
    BO_TRY(bo_output_open_sink(context, sink, &output));
    return save(context, features, output);
}

/* ---- reading the descriptor -------------------------------------------------------------------------------------- */

typedef struct json_reader {
    bo_context *context;
    const char *path;
    const bo_json *root;
    bo_status status; /* the first error */
} json_reader;

static void complain(json_reader *r, const char *name, const char *expected)
{
    if (r->status != BO_OK) return;
    r->status = bo_fail(r->context, BO_FORMAT, "%s: feature map: \"%s\" must be %s", r->path, name, expected);
}

static double read_number(json_reader *r, const char *name, double low, double high)
{
    const bo_json *item = bo_json_member(r->root, name);
    if (bo_json_is(item, BO_JSON_NUMBER) && isfinite(item->number) && item->number >= low && item->number <= high)
        return item->number; /* 1e999 reads as infinity, which could not be written again */
    complain(r, name, "a number in the allowed range");
    return low;
}

static double read_integer(json_reader *r, const char *name, double low, double high)
{
    double value = read_number(r, name, low, high);
    if (value != floor(value)) complain(r, name, "a whole number");
    return value;
}

static const char *read_text(json_reader *r, const char *name)
{
    const bo_json *item = bo_json_member(r->root, name);
    if (bo_json_is(item, BO_JSON_TEXT) && item->text) return item->text;
    complain(r, name, "a string");
    return "";
}

static void read_descriptor(json_reader *r, bo_features_desc *desc)
{
    const double max_exact = 9007199254740992.0;
    if (!bo_kernel_parse(read_text(r, "kernel"), &desc->kernel)) complain(r, "kernel", "the name of a kernel");
    if (!bo_function_parse(read_text(r, "function"), &desc->function))
        complain(r, "function", "the name of a function");
    if (!bo_draw_parse(read_text(r, "draw"), &desc->draw)) complain(r, "draw", "the name of a draw");
    if (!bo_sampling_parse(read_text(r, "sampling"), &desc->sampling))
        complain(r, "sampling", "the name of a sampling policy");
    if (desc->function == BO_FUNCTION_CUSTOM) complain(r, "function", "a function that can be saved");
    desc->dim = (size_t)read_integer(r, "dim", 1, max_exact);
    desc->features = (size_t)read_integer(r, "features", 1, max_exact);
    desc->gamma = read_number(r, "gamma", 0, INFINITY);
    desc->alpha = read_number(r, "alpha", 0, INFINITY);
    desc->degree = (int)read_integer(r, "degree", 0, 64);
    desc->pair_norm = read_number(r, "pair_norm", 0, INFINITY);
    desc->candidates = (size_t)read_integer(r, "candidates", 0, max_exact);
    desc->leverage_lambda = read_number(r, "leverage_lambda", 0, INFINITY);
    desc->sparse = bo_json_is(bo_json_member(r->root, "sparse"), BO_JSON_TRUE);
    if (!bo_json_uint64(bo_json_member(r->root, "seed"), &desc->seed))
        complain(r, "seed", "a whole number below 2^64 as text");
}

static void read_network(json_reader *r, bo_features_desc *desc)
{
    if (!bo_kernel_of_networks(desc->kernel)) return;
    desc->depth = (int)read_integer(r, "depth", 1, BO_DEEPEST);
    desc->weight_variance = read_number(r, "weight_variance", 0, INFINITY);
    desc->bias_variance = read_number(r, "bias_variance", 0, INFINITY);
    if (!bo_hidden_activation_parse(read_text(r, "activation"), &desc->activation))
        complain(r, "activation", "the name of an activation");
}

static bo_status descriptor_from_json(bo_context *context, const char *path, const char *json, bo_features_desc *desc)
{
    size_t length = strlen(json);
    bo_json *root = length <= 65536 ? bo_json_read(json, length, NULL) : NULL;
    if (!root) return bo_fail(context, BO_FORMAT, "%s: feature map: the descriptor is not valid JSON", path);
    json_reader r = {.context = context, .path = path, .root = root, .status = BO_OK};
    double format = read_number(&r, "format", 1, 1e9);
    if (r.status == BO_OK && format > FORMAT)
        r.status = bo_fail(context, BO_VERSION,
                           "%s: the feature map has format version %.0f; this library reads versions up to %d", path,
                           format, FORMAT);
    if (r.status == BO_OK) read_descriptor(&r, desc);
    if (r.status == BO_OK) read_network(&r, desc);
    bo_json_delete(root);
    return r.status;
}

/* ---- reading the arrays ------------------------------------------------------------------------------------------ */

/* Returns the shape of the signs of HADAMARD. */
static void hadamard_shape(const bo_features_desc *desc, size_t *blocks, size_t *padded)
{
    *padded = 1;
    while (*padded < desc->dim) *padded *= 2;
    *blocks = (bo_frequencies_of(desc) + *padded - 1) / *padded;
}

/* The number of landmarks in the file, at most the number of features. */
static bo_status find_landmarks(bo_context *context, const bo_tensors *file, const bo_features_desc *desc,
                                size_t *count)
{
    const bo_file_tensor *found = bo_tensors_find(file, "features.landmarks");
    *count = found && found->rank == 2 ? found->shape[0] : desc->features;
    const size_t shape[2] = {*count, desc->dim};
    if (*count == 0 || *count > desc->features)
        return bo_fail(context, BO_FORMAT, "%s: expected 1 to %zu landmarks, found %zu", bo_tensors_path(file),
                       desc->features, *count);
    return bo_tensors_require(context, file, "features.landmarks", BO_F32, 2, shape, &found);
}

/* A few hundred bytes of JSON may claim any size. Before memory is allocated, this function checks that the file
 * contains the arrays of the claimed sizes; maps without arrays are limited by BO_EXACT_MAX_SIZE. */
static bo_status check_claims(bo_context *context, const bo_tensors *file, const bo_features_desc *desc)
{
    size_t m = bo_frequencies_of(desc), blocks, padded;
    const bo_file_tensor *unused;
    if (desc->function == BO_FUNCTION_TENSORSKETCH) {
        const size_t shape[2] = {(size_t)desc->degree, desc->dim + 1};
        BO_TRY(bo_tensors_require(context, file, "features.sketch_hashes", BO_I32, 2, shape, &unused));
        return bo_tensors_require(context, file, "features.sketch_signs", BO_F32, 2, shape, &unused);
    }
    if (desc->function == BO_FUNCTION_SELFTENSOR) {
        const size_t count = bo_selftensor_count(desc);
        return bo_tensors_require(context, file, "features.selftensor", BO_F32, 1, &count, &unused);
    }
    if (desc->function == BO_FUNCTION_NETWORK) {
        const size_t count = bo_random_network_count(desc);
        return bo_tensors_require(context, file, "features.network", BO_F32, 1, &count, &unused);
    }
    if (desc->function == BO_FUNCTION_LANDMARKS) return find_landmarks(context, file, desc, &blocks);
    if (m && desc->draw == BO_DRAW_HADAMARD) {
        hadamard_shape(desc, &blocks, &padded);
        const size_t signs[2] = {blocks * 3, padded};
        BO_TRY(bo_tensors_require(context, file, "features.signs", BO_F32, 2, signs, &unused));
        return bo_tensors_require(context, file, "features.norms", BO_F32, 1, &m, &unused);
    }
    const size_t shape[2] = {m, desc->dim};
    return m ? bo_tensors_require(context, file, "features.w", BO_F32, 2, shape, &unused) : BO_OK;
}

/* Copies the tensor. *out stays NULL if the tensor is optional and absent. */
static bo_status read_array(bo_context *context, const bo_tensors *file, const char *name, bo_dtype type, size_t rows,
                            size_t columns, bool optional, void *out)
{
    const size_t shape[2] = {rows, columns};
    const bo_file_tensor *tensor = NULL;
    void **array = out;
    if (optional && !bo_tensors_find(file, name)) return BO_OK;
    BO_TRY(bo_tensors_require(context, file, name, type, columns ? 2 : 1, shape, &tensor));
    *array = bo_alloc_raw(context, rows, (columns ? columns : 1) * 4, name);
    if (!*array) return BO_MEMORY;
    memcpy(*array, tensor->data, tensor->bytes);
    return BO_OK;
}

static bo_status check_finite(bo_context *context, const bo_tensors *file, const char *name, const float *values,
                              size_t count, bool positive)
{
    for (size_t i = 0; values && i < count; i++)
        if (!isfinite(values[i]) || (positive && !(values[i] > 0)))
            return bo_fail(context, BO_FORMAT, "%s: tensor %s, entry %zu must be %s, found %g", bo_tensors_path(file),
                           name, i, positive ? "positive" : "finite", (double)values[i]);
    return BO_OK;
}

static bo_status read_hadamard(bo_context *context, const bo_tensors *file, bo_features *f)
{
    bo_hadamard *h = &f->hadamard;
    size_t blocks, padded;
    hadamard_shape(&f->desc, &blocks, &padded);
    BO_TRY(read_array(context, file, "features.signs", BO_F32, blocks * 3, padded, false, &h->signs));
    BO_TRY(read_array(context, file, "features.norms", BO_F32, f->frequencies, 0, false, &h->norms));
    h->padded = padded;
    h->blocks = blocks;
    BO_TRY(check_finite(context, file, "features.signs", h->signs, blocks * 3 * padded, false));
    return check_finite(context, file, "features.norms", h->norms, f->frequencies, false);
}

static bo_status read_sketch(bo_context *context, const bo_tensors *file, bo_features *f)
{
    size_t degree = (size_t)f->desc.degree, columns = f->desc.dim + 1, count = degree * columns;
    const size_t shape[2] = {degree, columns};
    const bo_file_tensor *hashes = NULL, *signs = NULL;
    BO_TRY(bo_tensors_require(context, file, "features.sketch_hashes", BO_I32, 2, shape, &hashes));
    BO_TRY(bo_tensors_require(context, file, "features.sketch_signs", BO_F32, 2, shape, &signs));
    BO_TRY(bo_sketch_create(context, f->desc.dim, f->desc.features, f->desc.degree, &f->sketch));
    memcpy(bo_sketch_hashes(f->sketch), hashes->data, count * sizeof(int32_t));
    memcpy(bo_sketch_signs(f->sketch), signs->data, count * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        int32_t hash = bo_sketch_hashes(f->sketch)[i];
        if (hash < 0 || (size_t)hash >= f->desc.features)
            return bo_fail(context, BO_FORMAT,
                           "%s: tensor features.sketch_hashes, entry %zu must be below %zu, found %d",
                           bo_tensors_path(file), i, f->desc.features, (int)hash);
    }
    return check_finite(context, file, "features.sketch_signs", bo_sketch_signs(f->sketch), count, false);
}

static bo_status read_selftensor(bo_context *context, const bo_tensors *file, bo_features *f)
{
    const size_t count = bo_selftensor_count(&f->desc);
    const bo_file_tensor *tensor = NULL;
    BO_TRY(bo_tensors_require(context, file, "features.selftensor", BO_F32, 1, &count, &tensor));
    BO_TRY(bo_selftensor_create(context, &f->desc, &f->selftensor));
    float *matrices = bo_selftensor_matrices(f->selftensor);
    memcpy(matrices, tensor->data, count * sizeof(float));
    return check_finite(context, file, "features.selftensor", matrices, count, false);
}

/* The factor is absent if the features are kernel values. */
static bo_status read_landmarks(bo_context *context, const bo_tensors *file, bo_features *f)
{
    size_t count, dim = f->desc.dim;
    const bo_file_tensor *rows = bo_tensors_find(file, "features.landmarks"), *factor = NULL;
    BO_TRY(find_landmarks(context, file, &f->desc, &count));
    const size_t entries = count * (count + 1) / 2;
    const bool whitened = bo_tensors_find(file, "features.factor");
    if (whitened) BO_TRY(bo_tensors_require(context, file, "features.factor", BO_F32, 1, &entries, &factor));
    BO_TRY(bo_landmarks_create(context, &f->desc, count, whitened, &f->landmarks));
    memcpy(f->landmarks->rows, rows->data, count * dim * sizeof(float));
    if (whitened) memcpy(f->landmarks->lower, factor->data, entries * sizeof(float));
    BO_TRY(check_finite(context, file, "features.landmarks", f->landmarks->rows, count * dim, false));
    return check_finite(context, file, "features.factor", f->landmarks->lower, entries, false);
}

static bo_status read_network_matrices(bo_context *context, const bo_tensors *file, bo_features *f)
{
    const size_t count = bo_random_network_count(&f->desc);
    const bo_file_tensor *tensor = NULL;
    BO_TRY(bo_tensors_require(context, file, "features.network", BO_F32, 1, &count, &tensor));
    BO_TRY(bo_random_network_create(context, &f->desc, &f->network));
    float *matrices = bo_random_network_matrices(f->network);
    memcpy(matrices, tensor->data, count * sizeof(float));
    return check_finite(context, file, "features.network", matrices, count, false);
}

static bo_status read_arrays(bo_context *context, const bo_tensors *file, bo_features *f)
{
    size_t m = f->frequencies, dim = f->desc.dim;
    if (m && f->desc.draw == BO_DRAW_HADAMARD)
        BO_TRY(read_hadamard(context, file, f));
    else if (m)
        BO_TRY(read_array(context, file, "features.w", BO_F32, m, dim, false, &f->w));
    if (f->w) BO_TRY(check_finite(context, file, "features.w", f->w, m * dim, false));
    if (m) BO_TRY(read_array(context, file, "features.weights", BO_F32, m, 0, true, &f->weights));
    BO_TRY(check_finite(context, file, "features.weights", f->weights, m, true));
    if (f->desc.function == BO_FUNCTION_POSITIVE && f->w && f->weights)
        BO_TRY(read_array(context, file, "features.proposal", BO_F32, dim, dim, true, &f->proposal));
    BO_TRY(check_finite(context, file, "features.proposal", f->proposal, f->proposal ? dim * dim : 0, false));
    if (f->proposal) BO_TRY(read_array(context, file, "features.chosen", BO_F32, m, 0, true, &f->chosen));
    BO_TRY(check_finite(context, file, "features.chosen", f->chosen, f->chosen ? m : 0, true));
    if (f->desc.function == BO_FUNCTION_COSBIAS)
        BO_TRY(read_array(context, file, "features.bias", BO_F32, m, 0, false, &f->bias));
    BO_TRY(check_finite(context, file, "features.bias", f->bias, m, false));
    if (f->desc.function == BO_FUNCTION_SELFTENSOR) return read_selftensor(context, file, f);
    if (f->desc.function == BO_FUNCTION_NETWORK) return read_network_matrices(context, file, f);
    if (f->desc.function == BO_FUNCTION_LANDMARKS) return read_landmarks(context, file, f);
    return f->desc.function == BO_FUNCTION_TENSORSKETCH ? read_sketch(context, file, f) : BO_OK;
}

/* Resolves a loaded descriptor. A resampled map is loaded without resampling, since the sample is not stored. An
 * invalid descriptor is reported as an error of the file. */
static bo_status resolve_loaded(bo_context *context, const char *path, const bo_features_desc *read,
                                bo_features_desc *resolved)
{
    bo_features_desc drawn = *read;
    drawn.sampling = BO_SAMPLING_DRAWN;
    bo_status status = drawn.function == BO_FUNCTION_SECTIONS ? bo_sections_resolve(context, &drawn, resolved)
                                                              : bo_features_resolve(context, &drawn, resolved);
    if (status == BO_INVALID || status == BO_UNSUPPORTED)
        return bo_fail(context, BO_FORMAT, "%s: invalid feature map: %s", path, bo_context_error(context));
    resolved->sampling = read->sampling;
    return status;
}

static bo_status unpack_into(bo_context *context, const bo_tensors *file, bo_features_desc *desc, bo_features **out)
{
    float *length_scales = NULL;
    bo_features_desc resolved;
    bo_features *f = NULL;
    BO_TRY(read_array(context, file, "features.length_scales", BO_F32, desc->dim, 0, true, &length_scales));
    desc->length_scales = length_scales;
    bo_status status = resolve_loaded(context, bo_tensors_path(file), desc, &resolved);
    if (status == BO_OK) status = check_claims(context, file, &resolved);
    if (status == BO_OK) status = bo_features_begin(context, &resolved, &f);
    if (status == BO_OK) status = read_arrays(context, file, f);
    if (status == BO_OK) status = bo_features_finish(context, f);
    if (status == BO_NUMERIC) /* the factor of a proposal */
        status = bo_fail(context, BO_FORMAT, "%s: invalid feature map: %s", bo_tensors_path(file),
                         bo_context_error(context));
    bo_free(length_scales);
    if (status != BO_OK) {
        bo_features_destroy(f);
        return status;
    }
    *out = f;
    return BO_OK;
}

bo_status bo_features_unpack(bo_context *context, const bo_tensors *file, const char *json, bo_features **out)
{
    bo_features_desc desc = {0};
    *out = NULL;
    BO_TRY(descriptor_from_json(context, bo_tensors_path(file), json, &desc));
    return unpack_into(context, file, &desc, out);
}

/* Reads the map and closes the file. */
static bo_status load(bo_context *context, bo_tensors *file, bo_features **out)
{
    const char *json = bo_tensors_meta(file, "bochner.features");
    bo_status status =
        json ? bo_features_unpack(context, file, json, out)
             : bo_fail(context, BO_FORMAT, "%s: not a feature map: its metadata has no \"bochner.features\"",
                       bo_tensors_path(file));
    bo_tensors_close(file);
    return status;
}

bo_status bo_features_load(bo_context *context, const bo_source *source, bo_features **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, source, out);
    bo_tensors *file;
    BO_TRY(bo_tensors_open_source(context, source, &file));
    return load(context, file, out);
}
