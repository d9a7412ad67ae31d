/* Adapters in the file format of PEFT: adapter_config.json and adapter_model.safetensors.
 *
 * PEFT adapts the modules of transformers. A module has the layout of the model's family (families.h). Several of
 * Bochner's layers may share a module, such as q, k and v in c_attn of GPT-2. Their adapters are combined: A stacks
 * their matrices A, and B has their matrices B as blocks in separate rows and columns. Reading separates them again. */
#ifndef BO_MODEL_ADAPTER_H
#define BO_MODEL_ADAPTER_H

#include "../io/tensors.h"
#include "families.h"
#include "internal.h"

enum { BO_ADAPTER_NAME = 320 };

/* ---- layers and modules (adapter_tensors.c) ---------------------------------------------------------------------- */

/* A layer with an adapter, and its place in a module. */
typedef struct bo_adapter_layer {
    bo_lora_site site;
    bo_weight_place at;
    size_t module, index; /* the module, and the index of the layer among its adapted layers */
} bo_adapter_layer;

typedef struct bo_adapter_module {
    char name[BO_ADAPTER_NAME]; /* "transformer.h.0.attn.c_attn" */
    size_t layers;              /* adapted layers */
    size_t rows, columns;       /* of its weight, out x in */
} bo_adapter_module;

typedef struct bo_adapter_list {
    bo_adapter_layer *layers;
    bo_adapter_module *modules;
    size_t count, module_count;
} bo_adapter_list;

/* Lists the layers of the weights with adapters as modules of a family. */
bo_status bo_adapter_list_create(bo_context *context, const bo_model *model, bo_family family, bo_adapter_list *out);
void bo_adapter_list_free(bo_adapter_list *list);
/* Returns the weights with the adapters: the model's weights, or the separate set if the adapters are merged. */
bo_weights *bo_adapter_weights(const bo_model *model);

/* ---- adapter_config.json (adapter_config.c) ---------------------------------------------------------------------- */

/* A member of "alpha_pattern": the α of modules whose name matches. */
typedef struct bo_adapter_pattern {
    char *expression;
    double alpha;
} bo_adapter_pattern;

/* The contents of adapter_config.json: a module is changed by (α / rank) B A. init, known and digest are stored only in
 * files that Bochner writes. */
typedef struct bo_adapter_config {
    size_t rank;
    double alpha;
    double applied; /* α of Bochner's adapters, which all have this rank */
    /* targets NULL: a regular expression of PEFT, so the tensors determine the targets; base NULL: unknown; whole:
     * layers trained in full (NULL: none) */
    char *targets, *whole, *base;
    bool square_root; /* α / √rank instead of α / rank ("use_rslora") */
    bo_adapter_pattern *patterns;
    size_t pattern_count;
    bo_lora_init init;
    bool native; /* Bochner wrote the tensors */
    bool known;
    uint64_t digest; /* digest of the weights of the base, if known */
} bo_adapter_config;

/* Writes adapter_config.json. */
bo_status bo_adapter_config_write(bo_context *context, const bo_model *model, bo_output *output);
/* Parses the text of adapter_config.json. Error messages start with `where`. */
bo_status bo_adapter_config_parse(bo_context *context, const char *where, const char *text, size_t length,
                                  bo_adapter_config *out);
void bo_adapter_config_free(bo_adapter_config *config);
/* The factor of B A of a module with this rank. */
bo_status bo_adapter_config_scale(bo_context *context, const bo_adapter_config *config, const char *module, size_t rank,
                                  double *out);

/* ---- adapter_model.safetensors ----------------------------------------------------------------------------------- */

/* Returns the total number of values of the layers that are trained in full. */
size_t bo_adapter_whole_numbers(bo_weights *weights);
/* Returns the rank in the files divided by the rank in training. */
static inline size_t bo_adapter_ranks(const bo_lora *lora)
{
    return lora->init == BO_LORA_INIT_ZERO ? 1 : 2;
}

/* Writes the values of the adapters and of the layers that are trained in full. */
bo_status bo_adapter_write(bo_context *context, const bo_model *model, bo_output *output);
/* Read the values into a model that already has these adapters. config NULL: Bochner wrote the file. */
bo_status bo_adapter_read_tensors(bo_context *context, bo_model *model, const bo_tensors *file,
                                  const bo_adapter_config *config);
bo_status bo_adapter_read(bo_context *context, bo_model *model, const char *path);
/* Finds the layers of the base that a PEFT file adapts. Targets, ranks and layers trained in full follow from the names
 * and shapes of the tensors. Tensors that match no layer are refused. All adapters get the largest rank and are padded
 * with zeros. */
bo_status bo_adapter_derive(bo_context *context, const bo_model *base, const bo_tensors *file,
                            bo_adapter_config *config);
/* Writes base.safetensors, the original weights of the adapted layers. */
bo_status bo_adapter_write_base(bo_context *context, const bo_model *model, bo_output *output);

/* Load the model of an adapter directory without merging it, and the base of a merged model. */
bo_status bo_model_load_adapted(bo_context *context, const char *directory, bo_model **out);
bo_status bo_model_load_unmerged(bo_context *context, const char *directory, bo_model **out);

#endif
