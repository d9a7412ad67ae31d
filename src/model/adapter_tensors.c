/* adapter_model.safetensors: adapters as the modules of PEFT, written and read.
 *
 * PEFT computes an adapter as (α / r) B A. An adapter that did not start at zero is written as [B, -B0] [A; A0] with
 * twice the rank and α. "bochner.init" in the metadata marks it, so that reading separates the two parts again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../nn/enums.h"
#include "../io/names.h"
#include "../io/numbers.h"
#include "../device/cpu/kernels.h"
#include "adapter.h"

static const char PREFIX[] = "base_model.model.";

bo_weights *bo_adapter_weights(const bo_model *model)
{
    return model->adapter->aside ? model->adapter->aside : model->weights;
}

static size_t numbers(const bo_weight *weight)
{
    return weight ? weight->rows * weight->columns : 0;
}

static size_t count_whole(bo_weights *weights)
{
    size_t count = 0;
    for (size_t i = 0; i < bo_weights_count(weights); i++)
        count += bo_lora_is_whole(weights, bo_weights_at(weights, i));
    return count;
}

size_t bo_adapter_whole_numbers(bo_weights *weights)
{
    size_t count = 0;
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        if (bo_lora_is_whole(weights, weight)) count += numbers(weight);
    }
    return count;
}

/* ---- layers and modules ------------------------------------------------------------------------------------------ */

static void add_layer(bo_adapter_list *list, const bo_lora_site *site, const bo_weight_place *at)
{
    bo_adapter_module made = {.layers = 0, .rows = at->rows, .columns = site->a->columns};
    snprintf(made.name, sizeof made.name, "%.*s", (int)(strlen(at->tensor) - strlen(".weight")), at->tensor);
    size_t m = list->module_count; /* layers that share a module are near each other */
    while (m > 0 && strcmp(list->modules[m - 1].name, made.name) != 0) m--;
    if (m == 0) list->modules[m = list->module_count++] = made, m++;
    list->layers[list->count++] = (bo_adapter_layer){*site, *at, m - 1, list->modules[m - 1].layers++};
}

bo_status bo_adapter_list_create(bo_context *context, const bo_model *model, bo_family family, bo_adapter_list *out)
{
    bo_weights *weights = bo_adapter_weights(model);
    const size_t max_layers = bo_weights_count(weights);
    *out = (bo_adapter_list){0};
    out->layers = bo_alloc(context, max_layers, sizeof *out->layers, "the layers of an adapter");
    out->modules = bo_alloc(context, max_layers, sizeof *out->modules, "the layers of an adapter");
    if (!out->layers || !out->modules) {
        bo_adapter_list_free(out);
        return BO_MEMORY;
    }
    for (size_t i = 0; i < max_layers; i++) {
        bo_lora_site site;
        if (!bo_lora_site_at(weights, i, &site)) continue;
        const bo_weight_place at = bo_family_place(family, &model->desc, site.weight);
        add_layer(out, &site, &at);
    }
    return BO_OK;
}

void bo_adapter_list_free(bo_adapter_list *list)
{
    bo_free(list->layers);
    bo_free(list->modules);
    *list = (bo_adapter_list){0};
}

/* Returns the row of the module for row r of a layer. */
static size_t row_of(const bo_weight_place *at, size_t r)
{
    return at->first + r / at->group * at->period + r % at->group;
}

/* The name of a tensor of a module. */
static void name_of(const char *module, const char *suffix, char out[BO_ADAPTER_NAME])
{
    snprintf(out, BO_ADAPTER_NAME, "%s%.280s.lora_%s.weight", PREFIX, module, suffix);
}

/* True if the tensor of the family stores the weight in the same layout. */
static bool is_same(const bo_weight *weight, const bo_weight_place *at)
{
    return !at->transposed && at->rows == weight->shape[0] && at->offset == 0;
}

/* The name of a layer that is trained in full. */
static bo_status name_of_whole(bo_context *context, const bo_model *model, bo_family family, const bo_weight *weight,
                               char out[BO_ADAPTER_NAME])
{
    const bo_weight_place at = bo_family_place(family, &model->desc, weight);
    snprintf(out, BO_ADAPTER_NAME, "%s%s", PREFIX, at.tensor);
    if (is_same(weight, &at)) return BO_OK;
    return bo_fail(context, BO_UNSUPPORTED,
                   "lora: %s cannot be saved in full: transformers stores it in another layout, in %s", weight->name,
                   at.tensor);
}

/* ====================================================================================================================
 * Writing. */

/* Tensors to be written into a file; `scratch` has space for one B. */
typedef struct package {
    bo_file_tensor *tensors;
    char (*names)[BO_ADAPTER_NAME];
    size_t count;
    float *host, *scratch;
} package;

static bo_status make_package(bo_context *context, bo_weights *weights, const bo_adapter_list *list, size_t block,
                              package *p)
{
    size_t floats = bo_adapter_whole_numbers(weights), largest = 0;
    const size_t tensors = 2 * list->module_count + count_whole(weights);
    for (size_t i = 0; i < list->module_count; i++) {
        const bo_adapter_module *module = &list->modules[i];
        floats += module->layers * block * (module->rows + module->columns);
        if (module->rows * block > largest) largest = module->rows * block;
    }
    *p = (package){0};
    p->tensors = bo_alloc(context, tensors, sizeof *p->tensors, "an adapter");
    p->names = bo_alloc(context, tensors, sizeof *p->names, "an adapter");
    p->host = bo_alloc(context, floats, sizeof *p->host, "an adapter");
    p->scratch = bo_alloc_raw(context, largest, sizeof *p->scratch, "an adapter");
    return p->tensors && p->names && p->host && p->scratch ? BO_OK : BO_MEMORY;
}

static void free_package(package *p)
{
    bo_free(p->tensors);
    bo_free(p->names);
    bo_free(p->host);
    bo_free(p->scratch);
}

static float *add_tensor(package *p, const char *module, const char *suffix, size_t rows, size_t columns, float *data)
{
    bo_file_tensor *tensor = &p->tensors[p->count];
    name_of(module, suffix, p->names[p->count]);
    *tensor = (bo_file_tensor){p->names[p->count], BO_F32, 2, {rows, columns}, data, rows * columns * sizeof *data};
    p->count++;
    return data + rows * columns;
}

/* Reads [A; A0]: the rows of A, then the rows of A0. */
static bo_status read_a(bo_context *context, bo_device *device, const bo_lora_site *site, float *out)
{
    BO_TRY(bo_buffer_read(context, device, out, site->a->data, numbers(site->a) * sizeof *out));
    if (!site->a0) return BO_OK;
    return bo_buffer_read(context, device, out + numbers(site->a), site->a0->data, numbers(site->a0) * sizeof *out);
}

/* Copies B, or -B0, into the rows of the module, which have the length `stride`. */
static void spread(const float *from, const bo_weight_place *at, size_t rows, size_t rank, size_t stride, float sign,
                   float *to)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < rank; k++) to[row_of(at, i) * stride + k] = sign * from[i * rank + k];
}

static bo_status read_b(bo_context *context, bo_device *device, const bo_adapter_layer *layer, float *scratch,
                        size_t stride, float *out)
{
    const bo_lora_site *site = &layer->site;
    const size_t rows = site->b->rows, rank = site->b->columns;
    BO_TRY(bo_buffer_read(context, device, scratch, site->b->data, numbers(site->b) * sizeof *out));
    spread(scratch, &layer->at, rows, rank, stride, 1, out);
    if (!site->b0) return BO_OK;
    BO_TRY(bo_buffer_read(context, device, scratch, site->b0->data, numbers(site->b0) * sizeof *out));
    spread(scratch, &layer->at, rows, rank, stride, -1, out + rank);
    return BO_OK;
}

/* Adds A and B of a module: stacks the A of its layers vertically and their B horizontally. */
static bo_status add_module(bo_context *context, bo_device *device, const bo_adapter_list *list, size_t number,
                            size_t block, package *p, float **at)
{
    const bo_adapter_module *module = &list->modules[number];
    const size_t rank = module->layers * block;
    float *a = *at, *b = add_tensor(p, module->name, "A", rank, module->columns, a);
    *at = add_tensor(p, module->name, "B", module->rows, rank, b);
    for (size_t i = 0; i < list->count; i++) {
        const bo_adapter_layer *layer = &list->layers[i];
        if (layer->module != number) continue;
        BO_TRY(read_a(context, device, &layer->site, a + layer->index * block * module->columns));
        BO_TRY(read_b(context, device, layer, p->scratch, rank, b + layer->index * block));
    }
    return BO_OK;
}

static bo_file_tensor tensor_of(const char *name, const bo_weight *weight, const float *data)
{
    bo_file_tensor tensor = {.name = name, .dtype = BO_F32, .rank = weight->rank, .data = data};
    memcpy(tensor.shape, weight->shape, weight->rank * sizeof *weight->shape);
    tensor.bytes = numbers(weight) * sizeof *data;
    return tensor;
}

static bo_status add_whole(bo_context *context, const bo_model *model, package *p, float *at)
{
    bo_weights *weights = bo_adapter_weights(model);
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        const size_t bytes = numbers(weight) * sizeof *at;
        if (!bo_lora_is_whole(weights, weight)) continue;
        BO_TRY(name_of_whole(context, model, model->family, weight, p->names[p->count]));
        BO_TRY(bo_buffer_read(context, bo_weights_device(weights), at, weight->data, bytes));
        p->tensors[p->count] = tensor_of(p->names[p->count], weight, at);
        p->count++;
        at += numbers(weight);
    }
    return BO_OK;
}

static bo_status fill_package(bo_context *context, const bo_model *model, const bo_adapter_list *list, size_t block,
                              package *p)
{
    bo_device *device = bo_weights_device(bo_adapter_weights(model));
    float *at = p->host;
    for (size_t i = 0; i < list->module_count; i++) BO_TRY(add_module(context, device, list, i, block, p, &at));
    return add_whole(context, model, p, at);
}

bo_status bo_adapter_write(bo_context *context, const bo_model *model, bo_output *output)
{
    const bo_lora *lora = &model->adapter->lora;
    const size_t block = bo_adapter_ranks(lora) * lora->rank;
    char digest[24], alpha[BO_NUMBER_TEXT];
    bo_adapter_list list;
    package p;
    BO_TRY(bo_adapter_list_create(context, model, model->family, &list));
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)model->adapter->digest);
    bo_number_format((double)bo_adapter_ranks(lora) * lora->alpha, alpha, sizeof alpha);
    const bo_meta metadata[] = {{"format", "pt"},
                                {"bochner.init", bo_lora_init_name(lora->init)},
                                {"bochner.base", digest},
                                {"bochner.alpha", alpha},
                                {"bochner.targets", lora->targets},
                                {"bochner.whole", lora->whole}};
    bo_status status = make_package(context, bo_adapter_weights(model), &list, block, &p);
    if (status == BO_OK) status = fill_package(context, model, &list, block, &p);
    if (status == BO_OK)
        status =
            bo_tensors_write_output(context, output, p.tensors, p.count, metadata, sizeof metadata / sizeof *metadata);
    free_package(&p);
    bo_adapter_list_free(&list);
    return status;
}

/* ====================================================================================================================
 * Reading. */

/* A tensor of a file as float32; data that had to be converted is in `copy`. */
typedef struct matrix {
    const float *data;
    float *copy;
    size_t rows, columns;
} matrix;

static float widen(const bo_file_tensor *tensor, size_t index)
{
    const uint16_t half = ((const uint16_t *)tensor->data)[index];
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    if (tensor->dtype == BO_F16) return bo_half_to_float(half);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Finds a matrix; a size of 0 accepts any. */
static bo_status find(bo_context *context, const bo_tensors *file, const char *module, const char *suffix, size_t rows,
                      size_t columns, matrix *out)
{
    char name[BO_ADAPTER_NAME];
    const bo_file_tensor *tensor;
    const size_t shape[] = {rows, columns};
    name_of(module, suffix, name);
    const bo_file_tensor *stored = bo_tensors_find(file, name);
    const bool half = stored && (stored->dtype == BO_F16 || stored->dtype == BO_BF16);
    BO_TRY(bo_tensors_require(context, file, name, half ? stored->dtype : BO_F32, 2, shape, &tensor));
    const size_t count = tensor->shape[0] * tensor->shape[1];
    *out = (matrix){.data = tensor->data, .rows = tensor->shape[0], .columns = tensor->shape[1]};
    if (half) {
        out->data = out->copy = bo_alloc_raw(context, count, sizeof *out->copy, "an adapter");
        if (!out->copy) return BO_MEMORY;
        for (size_t i = 0; i < count; i++) out->copy[i] = widen(tensor, i);
    }
    if (bo_context_kernels(context)->finite(count, out->data)) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: tensor '%s' contains a NaN or infinity", bo_tensors_path(file), name);
}

/* A part of the rank of a module: `count` components from `first` on, times `factor`. */
typedef struct slice {
    size_t first, count;
    double factor;
} slice;

/* Writes components of A into a weight, whose other rows become zero. */
static bo_status write_a(bo_context *context, bo_device *device, const matrix *a, slice part, const bo_weight *weight,
                         float *scratch)
{
    memset(scratch, 0, numbers(weight) * sizeof *scratch);
    memcpy(scratch, a->data + part.first * a->columns, part.count * a->columns * sizeof *scratch);
    return bo_buffer_write(context, device, weight->data, scratch, numbers(weight) * sizeof *scratch);
}

/* Likewise the rows of B that belong to the layer. */
static bo_status write_b(bo_context *context, bo_device *device, const matrix *b, slice part, const bo_weight_place *at,
                         const bo_weight *weight, float *scratch)
{
    memset(scratch, 0, numbers(weight) * sizeof *scratch);
    for (size_t i = 0; i < weight->rows; i++)
        for (size_t k = 0; k < part.count; k++)
            scratch[i * weight->columns + k] =
                (float)(part.factor * (double)b->data[row_of(at, i) * b->columns + part.first + k]);
    return bo_buffer_write(context, device, weight->data, scratch, numbers(weight) * sizeof *scratch);
}

static bo_status write_layer(bo_context *context, bo_device *device, const bo_adapter_layer *layer, const matrix *a,
                             const matrix *b, slice part, float *scratch)
{
    const bo_lora_site *site = &layer->site;
    const size_t half = site->a0 ? part.count / 2 : part.count;
    const slice trained = {part.first, half, part.factor}, first = {part.first + half, half, -part.factor};
    BO_TRY(write_a(context, device, a, trained, site->a, scratch));
    BO_TRY(write_b(context, device, b, trained, &layer->at, site->b, scratch));
    if (!site->a0) return BO_OK;
    BO_TRY(write_a(context, device, a, first, site->a0, scratch));
    return write_b(context, device, b, first, &layer->at, site->b0, scratch);
}

/* Reads all modules. config NULL: Bochner wrote the file, and every layer has a separate part of the rank. */
typedef struct taking {
    bo_context *context;
    const bo_model *model;
    const bo_tensors *file;
    const bo_adapter_config *config;
    bo_family family;
    bo_adapter_list list;
} taking;

/* Returns the part of a module's rank that belongs to a layer. */
static bo_status part_of(const taking *t, const bo_adapter_layer *layer, size_t rank, slice *out)
{
    const bo_lora *lora = &t->model->adapter->lora;
    const size_t block = bo_adapter_ranks(lora) * lora->rank;
    *out = (slice){layer->index * block, block, 1};
    if (!t->config) return BO_OK;
    double scale;
    BO_TRY(bo_adapter_config_scale(t->context, t->config, t->list.modules[layer->module].name, rank, &scale));
    *out = (slice){0, rank, scale / (lora->alpha / (double)lora->rank)};
    return BO_OK;
}

static bo_status read_layer(const taking *t, const bo_adapter_layer *layer, const matrix *a, const matrix *b)
{
    const size_t max_numbers =
        numbers(layer->site.a) > numbers(layer->site.b) ? numbers(layer->site.a) : numbers(layer->site.b);
    slice part;
    BO_TRY(part_of(t, layer, a->rows, &part));
    float *scratch = bo_alloc_raw(t->context, max_numbers, sizeof *scratch, "an adapter");
    if (!scratch) return BO_MEMORY;
    const bo_status status =
        write_layer(t->context, bo_weights_device(bo_adapter_weights(t->model)), layer, a, b, part, scratch);
    bo_free(scratch);
    return status;
}

static bo_status read_module(const taking *t, size_t number)
{
    const bo_adapter_module *module = &t->list.modules[number];
    const bo_lora *lora = &t->model->adapter->lora;
    const size_t rank = t->config ? 0 : module->layers * bo_adapter_ranks(lora) * lora->rank;
    matrix a = {0}, b = {0};
    bo_status status = find(t->context, t->file, module->name, "A", rank, module->columns, &a);
    if (status == BO_OK) status = find(t->context, t->file, module->name, "B", module->rows, a.rows, &b);
    if (status == BO_OK && t->config && a.rows > lora->rank)
        status = bo_fail(t->context, BO_FORMAT, "%s: %s has rank %zu, expected at most %zu", bo_tensors_path(t->file),
                         module->name, a.rows, lora->rank);
    for (size_t i = 0; status == BO_OK && i < t->list.count; i++)
        if (t->list.layers[i].module == number) status = read_layer(t, &t->list.layers[i], &a, &b);
    bo_free(a.copy);
    bo_free(b.copy);
    return status;
}

static bo_status read_whole(const taking *t)
{
    bo_weights *weights = bo_adapter_weights(t->model);
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        const bo_file_tensor *tensor;
        char name[BO_ADAPTER_NAME];
        if (!bo_lora_is_whole(weights, weight)) continue;
        BO_TRY(name_of_whole(t->context, t->model, t->family, weight, name));
        BO_TRY(bo_tensors_require(t->context, t->file, name, BO_F32, weight->rank, weight->shape, &tensor));
        BO_TRY(bo_buffer_write(t->context, bo_weights_device(weights), weight->data, tensor->data, tensor->bytes));
    }
    return BO_OK;
}

static bo_status read_all(const taking *t)
{
    const size_t whole = count_whole(bo_adapter_weights(t->model));
    if (bo_tensors_count(t->file) != 2 * t->list.module_count + whole)
        return bo_fail(
            t->context, BO_FORMAT,
            "%s: expected two tensors for each of the %zu adapted layers and %zu of modules_to_save, found %zu",
            bo_tensors_path(t->file), t->list.module_count, whole, bo_tensors_count(t->file));
    for (size_t i = 0; i < t->list.module_count; i++) BO_TRY(read_module(t, i));
    return read_whole(t);
}

/* True if the file has the A of every module. */
static bool holds_all(const bo_tensors *file, const bo_adapter_list *list)
{
    for (size_t i = 0; i < list->module_count; i++) {
        char name[BO_ADAPTER_NAME];
        name_of(list->modules[i].name, "A", name);
        if (!bo_tensors_find(file, name)) return false;
    }
    return true;
}

/* Lists the modules of the model's family. Earlier versions of Bochner wrote adapters of every family with the names of
 * Bochner's layers. Families share some of these names, such as q_proj. A file is therefore from an earlier version if
 * it lacks a module of the family and has every layer of Bochner. */
static bo_status list_modules(taking *t)
{
    bo_adapter_list earlier;
    t->family = t->model->family;
    BO_TRY(bo_adapter_list_create(t->context, t->model, t->family, &t->list));
    if (t->config || t->family == BO_FAMILY_BOCHNER || holds_all(t->file, &t->list)) return BO_OK;
    const bo_status status = bo_adapter_list_create(t->context, t->model, BO_FAMILY_BOCHNER, &earlier);
    if (status != BO_OK || !holds_all(t->file, &earlier)) {
        bo_adapter_list_free(&earlier);
        if (status != BO_OK) bo_adapter_list_free(&t->list);
        return status;
    }
    bo_adapter_list_free(&t->list);
    t->list = earlier;
    t->family = BO_FAMILY_BOCHNER;
    return BO_OK;
}

bo_status bo_adapter_read_tensors(bo_context *context, bo_model *model, const bo_tensors *file,
                                  const bo_adapter_config *config)
{
    taking t = {.context = context, .model = model, .file = file, .config = config};
    BO_TRY(list_modules(&t));
    const bo_status status = read_all(&t);
    bo_adapter_list_free(&t.list);
    return status;
}

bo_status bo_adapter_read(bo_context *context, bo_model *model, const char *path)
{
    bo_tensors *file;
    BO_TRY(bo_tensors_open(context, path, &file));
    const bo_status status = bo_adapter_read_tensors(context, model, file, NULL);
    bo_tensors_close(file);
    return status;
}

/* ====================================================================================================================
 * The original weights in a merged model. */

/* Collects the weights that have adapters, and the original weights of the layers that are trained in full. */
static bo_status fill_base(bo_context *context, const bo_adapter *adapter, bo_weights *weights, package *p)
{
    const float *whole = adapter->whole;
    float *at = p->host;
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        bo_lora_site site;
        const bo_weight *weight = bo_weights_at(weights, i);
        const size_t count = numbers(weight);
        if (bo_lora_site_at(weights, i, &site)) {
            BO_TRY(bo_buffer_read(context, bo_weights_device(weights), at, weight->data, count * sizeof *at));
        } else if (bo_lora_is_whole(weights, weight)) {
            memcpy(at, whole, count * sizeof *at);
            whole += count;
        } else {
            continue;
        }
        p->tensors[p->count++] = tensor_of(weight->name, weight, at);
        at += count;
    }
    return BO_OK;
}

bo_status bo_adapter_write_base(bo_context *context, const bo_model *model, bo_output *output)
{
    bo_weights *weights = bo_adapter_weights(model);
    size_t floats = bo_adapter_whole_numbers(weights), sites = 0;
    bo_lora_site site;
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        if (!bo_lora_site_at(weights, i, &site)) continue;
        floats += numbers(site.weight);
        sites++;
    }
    package p = {0};
    p.tensors = bo_alloc(context, sites + count_whole(weights), sizeof *p.tensors, "weights of the base");
    p.host = bo_alloc_raw(context, floats, sizeof *p.host, "weights of the base");
    bo_status status = p.tensors && p.host ? fill_base(context, model->adapter, weights, &p) : BO_MEMORY;
    if (status == BO_OK) status = bo_tensors_write_output(context, output, p.tensors, p.count, NULL, 0);
    free_package(&p);
    return status;
}
