/* Adapters written by PEFT: maps the tensors to layers of the base. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "../io/json.h"
#include "../io/names.h"
#include "adapter.h"

static const char PREFIX[] = "base_model.model.", A[] = ".lora_A.weight", B[] = ".lora_B.weight";

enum { MAX_RANK = 65536 };

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);
    return length > tail && strcmp(text + length - tail, end) == 0;
}

/* The properties found so far. */
typedef struct finding {
    bo_context *context;
    const bo_model *base;
    bo_json_text targets, whole; /* names of layers, comma-separated */
    size_t rank;                 /* the largest */
    bo_names unknown;
} finding;

/* Appends the name of the layer of a weight: the weight's name without ".weight". */
static void add_layer(bo_json_text *text, const bo_weight *weight)
{
    char layer[BO_ADAPTER_NAME];
    snprintf(layer, sizeof layer, "%.*s", (int)(strrchr(weight->name, '.') - weight->name), weight->name);
    if (text->length) bo_json_raw(text, ",");
    bo_json_raw(text, layer);
}

/* Adds the layers whose weight is in this tensor of the family. Returns their number. */
static size_t add_layers(finding *f, const char *tensor, bool adapted)
{
    const bo_model *base = f->base;
    size_t found = 0;
    for (size_t i = 0; i < bo_weights_count(base->weights); i++) {
        const bo_weight *weight = bo_weights_at(base->weights, i);
        const bo_weight_place at = bo_family_place(base->family, &base->desc, weight);
        if (strcmp(at.tensor, tensor) != 0) continue;
        if (adapted && weight->role != BO_WEIGHT_ROLE_MATRIX) continue; /* embeddings and the output have none */
        if (!adapted && (at.transposed || at.rows != weight->shape[0] || at.offset != 0)) continue;
        add_layer(adapted ? &f->targets : &f->whole, weight);
        found++;
    }
    return found;
}

static void add_tensor(finding *f, const bo_file_tensor *tensor)
{
    char name[BO_ADAPTER_NAME];
    const char *rest = tensor->name + (sizeof PREFIX - 1);
    const bool adapter = strncmp(tensor->name, PREFIX, sizeof PREFIX - 1) == 0;
    size_t found = 0;
    if (adapter && ends_with(rest, B)) return; /* found with A */
    if (adapter && strlen(rest) < sizeof name && ends_with(rest, A)) {
        snprintf(name, sizeof name, "%.*s.weight", (int)(strlen(rest) - strlen(A)), rest);
        found = add_layers(f, name, true);
        if (tensor->rank == 2 && tensor->shape[0] > f->rank) f->rank = tensor->shape[0];
    } else if (adapter && !strstr(rest, ".lora_")) {
        found = add_layers(f, rest, false);
    }
    if (!found) bo_names_add(&f->unknown, "%.200s", tensor->name);
}

/* Copies the result into the configuration. */
static bo_status conclude(finding *f, const bo_tensors *file, bo_adapter_config *config)
{
    if (f->unknown.count)
        return bo_fail(f->context, BO_FORMAT, "%s: tensors that match no layer of the base (%zu): %s",
                       bo_tensors_path(file), f->unknown.count, bo_names_text(&f->unknown));
    if (!f->targets.length)
        return bo_fail(f->context, BO_FORMAT, "%s: expected tensors named %sLAYER%s, found none", bo_tensors_path(file),
                       PREFIX, A);
    if (f->rank > MAX_RANK)
        return bo_fail(f->context, BO_UNSUPPORTED, "%s: expected a rank of at most %d, found %zu",
                       bo_tensors_path(file), MAX_RANK, f->rank);
    /* the same factor α / r or α / √r for the rank that all layers get */
    const double rank = (double)config->rank;
    config->applied = config->alpha * (double)f->rank / (config->square_root ? sqrt(rank) : rank);
    if (!config->square_root && f->rank == config->rank) config->applied = config->alpha;
    config->rank = f->rank;
    bo_free(config->targets);
    bo_free(config->whole);
    config->targets = f->targets.bytes;
    config->whole = f->whole.bytes;
    f->targets.bytes = f->whole.bytes = NULL;
    return BO_OK;
}

bo_status bo_adapter_derive(bo_context *context, const bo_model *base, const bo_tensors *file,
                            bo_adapter_config *config)
{
    finding f = {.context = context, .base = base, .targets = {.context = context}, .whole = {.context = context}};
    for (size_t i = 0; i < bo_tensors_count(file); i++) add_tensor(&f, bo_tensors_at(file, i));
    const bo_status status = f.targets.failed || f.whole.failed ? BO_MEMORY : conclude(&f, file, config);
    bo_free(f.targets.bytes);
    bo_free(f.whole.bytes);
    return status;
}
