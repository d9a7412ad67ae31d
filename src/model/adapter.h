/* Adapters as PEFT keeps them: adapter_config.json and adapter_model.safetensors. */
#ifndef BO_MODEL_ADAPTER_H
#define BO_MODEL_ADAPTER_H

#include "internal.h"

/* What the files of an adapter say: of a layer (α / rank) B A, with these, and what those of ours know beside it. */
typedef struct bo_adapter_config {
    size_t rank;
    double alpha;
    char *targets, *whole, *base; /* base NULL: not named; whole: none */
    bo_lora_init init;
    bool known;
    uint64_t digest; /* of the base's weights, where it is known */
} bo_adapter_config;

bo_status bo_adapter_config_write(bo_context *context, const bo_model *model, const char *path);
/* `where` starts the message of a failure. */
bo_status bo_adapter_config_parse(bo_context *context, const char *where, const char *text, size_t length,
                                  bo_adapter_config *out);
void bo_adapter_config_free(bo_adapter_config *config);

/* Of the layers in it that are trained themselves. */
size_t bo_adapter_whole_numbers(bo_weights *weights);
/* How often the rank of training stands in the files. */
static inline size_t bo_adapter_ranks(const bo_lora *lora)
{
    return lora->init == BO_LORA_INIT_ZERO ? 1 : 2;
}

/* adapter_model.safetensors: the values of the adapters, which a model to be read into has already, and of layers that are
 * trained themselves. */
bo_status bo_adapter_write(bo_context *context, const bo_model *model, const char *path);
bo_status bo_adapter_read(bo_context *context, bo_model *model, const char *path);
/* base.safetensors: the weights of these layers as they were. */
bo_status bo_adapter_write_base(bo_context *context, const bo_model *model, const char *path);

#endif
