/* A task: what is trained on what. The trainer knows steps, ranks, checkpoints and reports; a task knows its subject (a
 * language model, a network), its data, and how a batch of items (sequences, examples) becomes the loss of a graph. A task
 * is a file of its own: a struct that begins with bo_train_task, a table of functions, and one function that makes it from
 * the trainer's descriptor.
 *
 *     typedef struct language { bo_train_task task; … } language;
 *     static const bo_train_methods methods = {.subject = "model", …};
 *     bo_status bo_train_language(context, desc, &task);
 *
 * Data follows from (seed, step): load gives the same items for the same place whenever it is asked, so that a resumed run
 * goes on to the same bits. */
#ifndef BO_TRAIN_TASK_H
#define BO_TRAIN_TASK_H

#include <bochner/train.h>
#include "../io/json.h"
#include "../tape/graph.h"

typedef struct bo_train_task bo_train_task;

/* Items `first` … `first + count - 1` of the share that rank `rank` has of a step's batch; count is the micro-batch. */
typedef struct bo_train_place {
    uint64_t step;
    size_t rank, first, count;
} bo_train_place;

/* All are there unless it says so. The descriptor (task->desc) is the trainer's: checked, defaults filled in. */
typedef struct bo_train_methods {
    const char *subject; /* what is trained, in messages: "model" */
    const char *data;    /* on what: "text" */
    const char *unit;    /* what reports count: "tokens", "examples" */

    /* Do descriptor, subject and data fit together? */
    bo_status (*check)(bo_context *context, const bo_train_task *task);
    /* Activations of one item, roughly, for the default of micro_batch. A count and not the plan's, which knows of threads:
     * the same run must be cut the same way on any machine. */
    double (*item_bytes)(const bo_train_task *task);
    /* The graph of a micro-batch, planned with gradients and without memory, its loss (the mean over the items) and room for
     * the batch. close frees them, all that a task has beside its own struct; it is called after a failure too, and where
     * open never was. */
    bo_status (*open)(bo_context *context, bo_train_task *task, size_t micro_batch);
    void (*close)(bo_train_task *task);
    /* Writes the items into the graph. *pass comes with `training` and `seed`; lengths and the like are the task's. */
    bo_status (*load)(bo_context *context, bo_train_task *task, const bo_train_place *place, bo_graph_pass *pass);
    /* Before the gradients of a step, on every rank alike; NULL: nothing is to be done. */
    bo_status (*prepare)(bo_context *context, bo_train_task *task, uint64_t step);
    /* Of the held-out data; called where `evaluates`. */
    bo_status (*evaluate)(bo_context *context, bo_train_task *task, bo_training_score *out);

    /* task->files into a folder, and back into the weights. */
    bo_status (*write)(bo_context *context, const bo_train_task *task, const char *folder);
    bo_status (*read)(bo_context *context, bo_train_task *task, const char *folder);
    /* What a resumed run must share, as members of the settings of training.json (bo_train_setting_…). */
    void (*settings)(const bo_train_task *task, bo_json_text *text);
    /* What ranks must share. */
    void (*fingerprints)(const bo_train_task *task, uint64_t *subject, uint64_t *data);
    /* Adds what only the task knows to a plan: bytes of states and of evaluation; NULL: nothing. */
    bo_status (*plan)(bo_context *context, const bo_train_task *task, bo_training_cost *plan);
} bo_train_methods;

/* Invariants: files ends with NULL, and the last name has the weights. Between open and close graph is planned. */
struct bo_train_task {
    const bo_train_methods *methods;
    const bo_trainer_desc *desc;
    bo_weights *weights;
    const char *metric;       /* the score's second number: "bits_per_byte", "accuracy" */
    const char *const *files; /* of a folder that loads as the subject */
    size_t units;   /* that an item counts for: the tokens of a sequence, 1 of an example; known once it is open */
    size_t batch;   /* items of a step unless the descriptor says; 0: as usual */
    bool evaluates; /* there is held-out data */
    bo_graph *graph;
    bo_value loss; /* 1 x 1 */
    double weight; /* of the micro-batch that load wrote, in the step's mean; 1, unless load says: all weigh the same */
    bool *frozen;  /* what the weights' flags were before bo_train_freeze; NULL: as they are */
};

/* Tasks. `desc` must outlive the task; only pointers of it are looked at before check. */
bo_status bo_train_language(bo_context *context, const bo_trainer_desc *desc, bo_train_task **out);
bo_status bo_train_texts(bo_context *context, const bo_trainer_desc *desc, bo_train_task **out);
bo_status bo_train_network(bo_context *context, const bo_trainer_desc *desc, bo_train_task **out);
/* The one that the descriptor names. */
bo_status bo_train_task_create(bo_context *context, const bo_trainer_desc *desc, bo_train_task **out);
void bo_train_task_destroy(bo_train_task *task); /* closes and thaws it; NULL is fine */

/* Freezes the weights that desc.freeze names, until the task is destroyed. */
bo_status bo_train_freeze(bo_context *context, bo_train_task *task);

/* Members of the settings (run_file.c). */
void bo_train_setting_number(bo_json_text *text, const char *name, double value);
void bo_train_setting_word(bo_json_text *text, const char *name, const char *value); /* NULL: "" */
void bo_train_setting_code(bo_json_text *text, const char *name, uint64_t value);    /* 64 bits do not fit a number */

#endif
