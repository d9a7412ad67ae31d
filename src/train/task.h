/* A task defines what is trained on which data. The trainer handles steps, ranks, checkpoints and reports. A task
 * handles its data, and the graph of the model that computes the loss of a batch of items (sequences, examples). Each
 * task has a file: a struct that starts with bo_train_task, a table of functions, and one function that creates it from
 * the trainer's descriptor.
 *
 *     typedef struct language { bo_train_task task; … } language;
 *     static const bo_train_methods methods = {.subject = "model", …};
 *     bo_status bo_train_language(context, desc, &task);
 *
 * Data is a function of (seed, step): load returns the same items for the same place, so a resumed run continues with
 * the same bits. */
#ifndef BO_TRAIN_TASK_H
#define BO_TRAIN_TASK_H

#include <bochner/train.h>
#include "../io/json.h"
#include "../model/model.h"

typedef struct bo_train_task bo_train_task;

/* Items `first` … `first + count - 1` of the share of rank `rank` in the batch of a step. `count` is the
 * micro-batch. An item has task->windows parts, of which part `window` is loaded. */
typedef struct bo_train_place {
    uint64_t step;
    size_t rank, first, count, window;
    bool reset; /* without the final states of earlier steps, which only this rank has */
} bo_train_place;

/* All functions are required except where noted. The trainer owns the descriptor (task->desc). It is checked, and its
 * defaults are filled in. */
typedef struct bo_train_methods {
    const char *subject; /* the subject in messages: "model" */
    const char *data;    /* the data in messages: "text" */
    const char *unit;    /* the unit of reports: "tokens", "examples" */

    /* Checks that descriptor, subject and data fit together. */
    bo_status (*check)(bo_context *context, const bo_train_task *task);
    /* Approximate bytes of activations per item, for the default of micro_batch. This is a simple count. The plan of
     * the graph depends on the number of threads, but a run must be divided in the same way on every host. */
    double (*item_bytes)(const bo_train_task *task);
    /* Creates the graph of a micro-batch (bo_train_graph), whose loss is the mean over the items, and buffers for the
     * batch. close frees everything except the graph and the struct of the task. It is also called after a failure, and
     * if open was never called. */
    bo_status (*open)(bo_context *context, bo_train_task *task, size_t micro_batch);
    void (*close)(bo_train_task *task);
    /* Writes the items into the graph. The caller sets `training` and `seed` of *pass. The task sets the other members,
     * such as lengths. */
    bo_status (*load)(bo_context *context, bo_train_task *task, const bo_train_place *place, bo_graph_pass *pass);
    /* Called before the gradients of a step, on every rank. NULL: nothing to do. */
    bo_status (*prepare)(bo_context *context, bo_train_task *task, uint64_t step);
    /* Called after the update of a step. NULL: nothing to do. */
    void (*advance)(bo_train_task *task);
    /* Evaluates on the held-out data; called if `evaluates` is true. */
    bo_status (*evaluate)(bo_context *context, bo_train_task *task, bo_training_score *out);

    /* Write and read task->state_file, the state that lasts from step to step besides weights. gather collects it from
     * all ranks before it is written, and is called on every rank. Required if there is such a file. */
    bo_status (*gather_state)(bo_context *context, bo_train_task *task);
    bo_status (*write_state)(bo_context *context, bo_train_task *task, const char *path);
    bo_status (*read_state)(bo_context *context, bo_train_task *task, const char *path);
    /* Writes the settings that a resumed run must share, as members of training.json (bo_train_setting_…). */
    void (*settings)(const bo_train_task *task, bo_json_text *text);
    /* Computes the fingerprint of the data, which all ranks must share. */
    uint64_t (*fingerprint)(const bo_train_task *task);
    /* Adds task-specific bytes of states and of evaluation to a plan. NULL: none. */
    bo_status (*plan)(bo_context *context, const bo_train_task *task, bo_training_cost *plan);
} bo_train_methods;

/* Invariants: `files` ends with NULL, and the last file holds the weights. The graph is planned between open and
 * close. */
struct bo_train_task {
    const bo_train_methods *methods;
    const bo_trainer_desc *desc;
    const char *metric;       /* name of the second number of the score: "bits_per_byte", "accuracy" */
    const char *const *files; /* names of the files of a directory that loads as the model; set after creation */
    size_t units;             /* units per item: the tokens of a sequence, or 1 for an example; known after open */
    size_t batch;             /* default number of items per step; 0: the trainer's default */
    bool evaluates;           /* held-out data exists */
    bo_model_graph graph;
    double weight; /* weight of the loaded micro-batch in the mean of the step; 1 if load does not set it */
    /* Parts of an item, one graph run each; 0 means 1. The parts run forward in order and then, with gradients, in
     * reverse. A part can therefore use the states of the previous part and the state gradients of the next one. */
    size_t windows;
    const char *state_file; /* an additional file of checkpoints; NULL: none */
    bool redrawn;           /* prepare has replaced frequencies, so earlier states are invalid */
    bool *frozen;           /* trainable flags before bo_train_freeze; NULL: unchanged */
};

/* Plans the graph of `desc` with a loss and gradients, without memory. */
bo_status bo_train_graph(bo_context *context, bo_train_task *task, bo_model_graph_desc desc);

/* Tasks. `desc` must outlive the task. Before check, only its pointers are read. */
bo_status bo_train_language(bo_context *context, const bo_trainer_desc *desc, bo_train_task **out);
bo_status bo_train_texts(bo_context *context, const bo_trainer_desc *desc, bo_train_task **out);
bo_status bo_train_network(bo_context *context, const bo_trainer_desc *desc, bo_train_task **out);
/* Creates the task that the descriptor names. */
bo_status bo_train_task_create(bo_context *context, const bo_trainer_desc *desc, bo_train_task **out);
void bo_train_task_destroy(bo_train_task *task); /* closes the task and unfreezes its weights; NULL is allowed */

/* Freezes the weights that desc.freeze names until the task is destroyed. */
bo_status bo_train_freeze(bo_context *context, bo_train_task *task);

/* Members of the settings (run_file.c). */
void bo_train_setting_number(bo_json_text *text, const char *name, double value);
void bo_train_setting_word(bo_json_text *text, const char *name, const char *value); /* NULL is written as "" */
/* as text, because 64 bits do not fit into a JSON number */
void bo_train_setting_code(bo_json_text *text, const char *name, uint64_t value);

#endif
