/* Weights of a model from a file, in the layout of its family. Numbers are converted from the mapped file a block of
 * rows at a time. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "../device/cpu/kernels.h"
#include "families.h"
#include "files.h"
#include "internal.h"

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Finds the tensor of a weight. Files of a model without its output projection have no root, and GPT-NeoX has two names
 * of the output projection. */
static const bo_file_tensor *find_tensor(const bo_tensors *file, bo_family family, const bo_weight_place *at)
{
    const char *root = bo_family_root(family);
    const bo_file_tensor *found = bo_tensors_find(file, at->tensor);
    if (found || family == BO_FAMILY_BOCHNER) return found;
    if (strncmp(at->tensor, root, strlen(root)) == 0) return bo_tensors_find(file, at->tensor + strlen(root));
    return strcmp(at->tensor, "embed_out.weight") == 0 ? bo_tensors_find(file, "lm_head.weight") : NULL;
}

/* The shape of the tensor that contains a weight. */
static void shape_of(const bo_weight *weight, const bo_weight_place *at, size_t shape[4])
{
    memcpy(shape, weight->shape, weight->rank * sizeof *shape);
    shape[0] = at->rows;
    if (!at->transposed) return;
    shape[0] = weight->shape[1];
    shape[1] = at->rows;
}

/* ---- problems ---------------------------------------------------------------------------------------------------- */

/* A list of tensors that do not fit the configuration, for one message. */
typedef struct problems {
    char text[3072];
    size_t length, count;
} problems;

enum { MAX_PROBLEMS = 20, NAME = 100 };

/* Adds a line if it fits. */
static void add_problem(problems *c, const char *tensor, const char *problem)
{
    char line[2 * NAME + 80];
    const int length = snprintf(line, sizeof line, "\n  tensor '%.*s'%s", NAME, tensor, problem);
    if (c->count++ >= MAX_PROBLEMS || c->length + (size_t)length >= sizeof c->text) return;
    memcpy(c->text + c->length, line, (size_t)length + 1);
    c->length += (size_t)length;
}

static size_t lines(const char *text)
{
    size_t count = 0;
    for (; *text; text++) count += *text == '\n';
    return count;
}

static bo_status refuse(bo_context *context, const bo_tensors *file, const problems *c)
{
    const size_t shown = lines(c->text);
    char more[40] = "";
    if (!c->count) return BO_OK;
    if (c->count == 1) return bo_fail(context, BO_FORMAT, "%s: %s", bo_tensors_path(file), c->text + 3);
    if (c->count > shown) snprintf(more, sizeof more, "\n  and %zu more", c->count - shown);
    return bo_fail(context, BO_FORMAT, "%s: %zu tensors do not fit config.json:%s%s", bo_tensors_path(file), c->count,
                   c->text, more);
}

static void print_shape(size_t rank, const size_t *shape, char *out, size_t size)
{
    size_t length = (size_t)snprintf(out, size, "(");
    for (size_t i = 0; i < rank && length < size; i++)
        length += (size_t)snprintf(out + length, size - length, "%s%zu", i ? ", " : "", shape[i]);
    if (length < size) snprintf(out + length, size - length, ")");
}

static bool is_read(bo_dtype dtype)
{
    return dtype == BO_F32 || dtype == BO_F16 || dtype == BO_BF16;
}

/* Checks the tensor of one weight. */
static void check_tensor(const bo_weight *weight, const bo_weight_place *at, const bo_file_tensor *tensor,
                         problems *out)
{
    char expected[NAME], found[NAME], problem[2 * NAME + 40];
    size_t shape[4];
    shape_of(weight, at, shape);
    print_shape(weight->rank, shape, expected, sizeof expected);
    if (!tensor) {
        snprintf(problem, sizeof problem, " is missing, expected shape %s", expected);
    } else if (!is_read(tensor->dtype)) {
        snprintf(problem, sizeof problem, ": expected dtype F32, F16 or BF16");
    } else if (tensor->rank != weight->rank || memcmp(tensor->shape, shape, weight->rank * sizeof *shape) != 0) {
        print_shape(tensor->rank, tensor->shape, found, sizeof found);
        snprintf(problem, sizeof problem, ": expected shape %s, found %s", expected, found);
    } else {
        return;
    }
    add_problem(out, at->tensor, problem);
}

/* True if an earlier weight is in the same tensor, so that its problem has been reported. */
static bool is_repeated(const bo_model *model, bo_family family, size_t index, const bo_weight_place *at)
{
    for (size_t i = index; i-- > 0 && index - i <= 4;) {
        const bo_weight_place other = bo_family_place(family, &model->desc, bo_weights_at(model->weights, i));
        if (strcmp(other.tensor, at->tensor) == 0) return true;
    }
    return false;
}

/* Checks that every weight is present with its shape, and that the file has no other tensors: a configuration smaller
 * than the file is wrong, too. */
/* True if an output matrix that is not read, because it is tied, has the numbers of the embedding. */
static bool same_as_embedding(const bo_model *model, bo_family family, const bo_tensors *file, size_t head)
{
    const bo_weight *embedding = bo_weights_find(model->weights, "model.embed_tokens.weight");
    const bo_weight_place at = bo_family_place(family, &model->desc, embedding);
    const bo_file_tensor *a = find_tensor(file, family, &at), *b = bo_tensors_at(file, head);
    return a && a->dtype == b->dtype && a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

static bo_status check_tensors(bo_context *context, const bo_model *model, bo_family family, const bo_tensors *file,
                               bool *used)
{
    problems found = {0};
    for (size_t i = 0; i < bo_weights_count(model->weights); i++) {
        const bo_weight *weight = bo_weights_at(model->weights, i);
        const bo_weight_place at = bo_family_place(family, &model->desc, weight);
        const bo_file_tensor *tensor = find_tensor(file, family, &at);
        if (tensor) used[tensor - bo_tensors_at(file, 0)] = true;
        if (!is_repeated(model, family, i, &at)) check_tensor(weight, &at, tensor, &found);
    }
    for (size_t i = 0; i < bo_tensors_count(file); i++) {
        const char *name = bo_tensors_at(file, i)->name;
        if (used[i]) continue;
        if (!bo_family_ignores(family, &model->desc, name))
            add_problem(&found, name, " is not part of the model that config.json describes");
        else if (bo_family_is_head(family, name) && !same_as_embedding(model, family, file, i))
            add_problem(&found, name,
                        " differs from the embedding: \"tie_word_embeddings\" of config.json should be false");
    }
    return refuse(context, file, &found);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

enum { BLOCK_FLOATS = BO_SIZE(1 << 18, 64) }; /* 1 MiB of numbers at a time */

/* A block of rows of a weight. */
typedef struct block {
    const bo_kernels *kernels;
    const bo_file_tensor *tensor;
    const bo_weight_place *at;
    size_t columns, first, end; /* rows first … end - 1 */
    float *out;
} block;

/* Half precision without branches, so that the loop is vectorized. The exponent bias differs by 112, and the largest
 * exponent means infinity or NaN. */
static void widen_halves(size_t count, const uint16_t *halves, float *out)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t rest = (uint32_t)(halves[i] & 0x7fff) << 13, sign = (uint32_t)(halves[i] & 0x8000) << 16;
        float size;
        memcpy(&size, &rest, sizeof size);
        size *= 0x1p112f;
        uint32_t bits;
        memcpy(&bits, &size, sizeof bits);
        bits |= sign | (rest >= 0x7c00u << 13 ? 0x7f800000u : 0);
        memcpy(&out[i], &bits, sizeof bits);
    }
}

static void convert(const block *b, size_t index, size_t count, float *out)
{
    const char *data = b->tensor->data;
    const uint16_t *halves = (const uint16_t *)(const void *)data + index;
    if (b->tensor->dtype == BO_F32)
        memcpy(out, data + index * sizeof *out, count * sizeof *out);
    else if (b->tensor->dtype == BO_BF16)
        b->kernels->widen_bf16(count, halves, out);
    else
        widen_halves(count, halves, out);
}

static size_t row_in_file(const bo_weight_place *at, size_t row)
{
    return at->first + row / at->group * at->period + row % at->group;
}

enum { STRIP = BO_SIZE(16, 4) }; /* rows of a task */

/* Reads rows from the columns of a transposed tensor, one strip of its rows at a time. */
static void read_transposed(const block *b, size_t first, size_t count, float *out)
{
    float strip[STRIP];
    assert(b->at->group == b->at->period); /* rows are adjacent */
    for (size_t c = 0; c < b->columns; c++) {
        convert(b, c * b->at->rows + row_in_file(b->at, first), count, strip);
        for (size_t i = 0; i < count; i++) out[i * b->columns + c] = strip[i];
    }
}

/* Task: some rows of the block. */
static void read_rows(void *arg, size_t index, int worker)
{
    (void)worker;
    const block *b = arg;
    const size_t first = b->first + index * STRIP, count = bo_min(b->end - first, (size_t)STRIP);
    float *out = b->out + index * STRIP * b->columns;
    if (b->at->transposed)
        read_transposed(b, first, count, out);
    else
        for (size_t i = 0; i < count; i++)
            convert(b, row_in_file(b->at, first + i) * b->columns, b->columns, out + i * b->columns);
    for (size_t i = 0; b->at->offset != 0 && i < count * b->columns; i++) out[i] += b->at->offset;
}

static bo_status check_finite(bo_context *context, const bo_tensors *file, const bo_file_tensor *tensor, size_t count,
                              const float *numbers)
{
    if (bo_context_kernels(context)->finite(count, numbers)) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: tensor '%.100s' contains a NaN or infinity", bo_tensors_path(file),
                   tensor->name);
}

/* True if the file stores the values of the weight unchanged. */
static bool is_plain(const bo_weight *weight, const bo_weight_place *at, const bo_file_tensor *tensor)
{
    return tensor->dtype == BO_F32 && at->rows == weight->shape[0] && !at->transposed && at->offset == 0;
}

/* Reads a weight through `buffer`, which has BLOCK_FLOATS numbers, or one row if that is longer. */
static bo_status read_weight(bo_context *context, const bo_tensors *file, bo_device *device, const bo_weight *weight,
                             const bo_weight_place *at, const bo_file_tensor *tensor, float *buffer)
{
    const size_t rows = weight->shape[0], count = weight->rows * weight->columns, columns = count / rows;
    const size_t block_rows = columns < BLOCK_FLOATS ? BLOCK_FLOATS / columns : 1;
    if (is_plain(weight, at, tensor)) {
        BO_TRY(check_finite(context, file, tensor, count, tensor->data));
        return bo_buffer_write(context, device, weight->data, tensor->data, count * sizeof *buffer);
    }
    block b = {.kernels = bo_context_kernels(context), .tensor = tensor, .at = at, .columns = columns, .out = buffer};
    for (; b.first < rows; b.first += block_rows) {
        const size_t part = bo_min(rows - b.first, block_rows);
        b.end = b.first + part;
        bo_parallel(context, (part + STRIP - 1) / STRIP, read_rows, &b);
        BO_TRY(check_finite(context, file, tensor, part * columns, buffer));
        BO_TRY(bo_buffer_write(context, device, (char *)weight->data + b.first * columns * sizeof *buffer, buffer,
                               part * columns * sizeof *buffer));
    }
    return BO_OK;
}

static size_t longest_row(const bo_weights *weights)
{
    size_t longest = BLOCK_FLOATS;
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        const size_t columns = weight->rows * weight->columns / weight->shape[0];
        if (columns > longest) longest = columns;
    }
    return longest;
}

/* Returns the numbers of the largest weight that is stored in fewer bits; 0: there is none. */
static size_t max_stored(const bo_weights *weights)
{
    size_t max_numbers = 0;
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        if (weight->element != BO_ELEMENT_FLOAT32) max_numbers = bo_max(max_numbers, weight->rows * weight->columns);
    }
    return max_numbers;
}

/* Reads weight number `i`. One that is stored in fewer bits is read into `whole` first. */
static bo_status read_any(bo_context *context, const bo_model *model, bo_family family, const bo_tensors *file,
                          size_t i, float *buffer, void *whole)
{
    bo_device *device = bo_weights_device(model->weights);
    const bo_weight *weight = bo_weights_at(model->weights, i);
    const bo_weight_place at = bo_family_place(family, &model->desc, weight);
    const bool stored = weight->element != BO_ELEMENT_FLOAT32;
    bo_weight floats = *weight;
    if (stored) floats.data = whole;
    BO_TRY(read_weight(context, file, device, &floats, &at, find_tensor(file, family, &at), buffer));
    if (!stored) return BO_OK;
    return bo_backend_of(device)->narrow(context, weight->element, weight->rows, weight->columns, whole, weight->data);
}

static bo_status read_all(bo_context *context, bo_model *model, bo_family family, const bo_tensors *file)
{
    bo_device *device = bo_weights_device(model->weights);
    const size_t max_numbers = max_stored(model->weights);
    float *buffer = bo_alloc_raw(context, longest_row(model->weights), sizeof *buffer, "weights that are read");
    void *whole = buffer && max_numbers
                      ? bo_buffer_allocate(context, device, max_numbers * sizeof *buffer, "a weight that is read")
                      : NULL;
    bo_status status = buffer && (whole || !max_numbers) ? BO_OK : BO_MEMORY;
    for (size_t i = 0; status == BO_OK && i < bo_weights_count(model->weights); i++)
        status = read_any(context, model, family, file, i, buffer, whole);
    if (whole) bo_buffer_release(device, whole);
    bo_free(buffer);
    return status;
}

bo_status bo_model_fill(bo_context *context, bo_model *model, bo_family family, const bo_tensors *file,
                        bo_storage storage)
{
    bool *used = bo_alloc(context, bo_tensors_count(file), sizeof *used, "a list of tensors");
    if (!used) return BO_MEMORY;
    bo_status status = BO_OK;
    if (family == BO_FAMILY_BOCHNER) status = bo_maps_read(context, model, file, used);
    if (status == BO_OK) status = check_tensors(context, model, family, file, used);
    bo_free(used);
    if (status == BO_OK && !bo_weights_memory(model->weights)) status = bo_model_reserve(context, model, storage);
    return status == BO_OK ? read_all(context, model, family, file) : status;
}
