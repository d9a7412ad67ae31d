/* Adapters in the file format of PEFT: adapter_config.json and adapter_model.safetensors. */
#ifndef BO_MODEL_ADAPTER_H
#define BO_MODEL_ADAPTER_H

#include "../io/tensors.h"
#include "internal.h"

/* The contents of adapter_config.json: a layer is changed by (α / rank) B A. init, known and digest are stored only in
 * files that Bochner writes. */
typedef struct bo_adapter_config {
    size_t rank;
    double alpha;
    char *targets, *whole, *base; /* base NULL: unknown; whole: layers trained in full (NULL: none) */
    bo_lora_init init;
    bool known;
    uint64_t digest; /* digest of the weights of the base, if known */
} bo_adapter_config;

/* Writes adapter_config.json. */
bo_status bo_adapter_config_write(bo_context *context, const bo_model *model, bo_output *output);
/* Parses the text of adapter_config.json. Error messages start with `where`. */
bo_status bo_adapter_config_parse(bo_context *context, const char *where, const char *text, size_t length,
                                  bo_adapter_config *out);
void bo_adapter_config_free(bo_adapter_config *config);

/* Returns the total number of values of the layers that are trained in full. */
size_t bo_adapter_whole_numbers(bo_weights *weights);
/* Returns the rank in the files divided by the rank in training. */
static inline size_t bo_adapter_ranks(const bo_lora *lora)
{
    return lora->init == BO_LORA_INIT_ZERO ? 1 : 2;
}

/* adapter_model.safetensors: the values of the adapters and of the layers that are trained in full. The model that
 * reads them has these adapters already. */
bo_status bo_adapter_write(bo_context *context, const bo_model *model, bo_output *output);
bo_status bo_adapter_read(bo_context *context, bo_model *model, const char *path);
bo_status bo_adapter_take(bo_context *context, bo_model *model, const bo_tensors *file); /* the same for an open file */
/* base.safetensors: the original weights of these layers. */
bo_status bo_adapter_write_base(bo_context *context, const bo_model *model, bo_output *output);

#endif
