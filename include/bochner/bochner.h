/** @file
 * Includes all public headers.
 */
/** @mainpage C API
 *
 * Each header is the manual of its module. Start with base.h, which states the rules that hold for all of them.
 *
 * - base.h: rules of the API, version, status, context
 * - data.h: tables and arrays: CSV, NumPy, libsvm, IDX
 * - features.h: feature maps: random features of kernels
 * - machines.h: kernel machines: regression and classification on features
 * - metrics.h: the quality of predictions
 * - attention.h: softmax attention, linear attention, recurrent memories
 * - graph.h: computations with gradients
 * - operations.h: the operations of a graph
 * - nn.h: layers that record their operations on a graph
 * - layers.h: the parts of models other than attention
 * - network.h: networks of any layers, on arrays, images or graphs
 * - optim.h: optimizers and learning-rate schedules
 * - text.h: tokenizers, corpora, batches
 * - texts.h: labeled texts and pairs of texts, BLEU
 * - model.h: language models: create, load, save, evaluate, generate
 * - tasks.h: classification and translation with a model
 * - lora.h: low-rank adapters of models
 * - train.h: training of models
 * - plan.h: predicted time and loss of a training run
 * - profile.h: shapes, memory and time per operation of a training step
 * - widths.h: transfer of learning rates across widths
 * - json.h: numbers and strings as JSON text
 */
#ifndef BOCHNER_H
#define BOCHNER_H

#include <bochner/base.h>
#include <bochner/data.h>
#include <bochner/features.h>
#include <bochner/graph.h>
#include <bochner/json.h>
#include <bochner/machines.h>
#include <bochner/attention.h>
#include <bochner/layers.h>
#include <bochner/lora.h>
#include <bochner/metrics.h>
#include <bochner/model.h>
#include <bochner/network.h>
#include <bochner/nn.h>
#include <bochner/operations.h>
#include <bochner/optim.h>
#include <bochner/plan.h>
#include <bochner/profile.h>
#include <bochner/tasks.h>
#include <bochner/text.h>
#include <bochner/texts.h>
#include <bochner/train.h>
#include <bochner/widths.h>

#endif
