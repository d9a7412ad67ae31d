/* Language modelling: a model learns to predict the next token of a text. Items are windows of the model's context. */
#ifndef BO_TRAIN_LANGUAGE_H
#define BO_TRAIN_LANGUAGE_H

#include "../model/model.h"
#include "task.h"

/* Room for the batch of one run of the graph, in the host's memory. */
typedef struct bo_language_batch {
    int32_t *tokens, *targets, *positions; /* micro_batch x context each */
    size_t *lengths;                       /* of documents' runs; NULL: a run is a window */
    size_t room;                           /* runs there is room for */
} bo_language_batch;

/* Invariant: task.graph and task.loss are those of `graph`. */
typedef struct bo_language_task {
    bo_train_task task;
    bo_model_graph graph;
    bo_language_batch batch;
} bo_language_task;

bool bo_language_calibrates(const bo_model *model); /* Its frequencies are drawn from data. */
/* New frequencies for attention that draws them from data, where this step wants them (calibrate.c). */
bo_status bo_language_calibrate(bo_context *context, bo_train_task *task, uint64_t step);

#endif
