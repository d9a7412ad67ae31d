/** @file
 * Includes all public headers.
 */
/** @mainpage C API
 *
 * Bochner is a C library for linear-time transformers and kernel machines on CPUs. This reference describes every
 * function, struct and enumeration of its public headers. docs/tutorials/c-library.md in the source tree is a tutorial.
 * A program includes bochner/bochner.h, which includes all headers, and is compiled with pkg-config:
 *
 *     cc program.c -o program $(pkg-config --cflags --libs bochner)
 *
 * C++17 programs may include bochner/bochner.hpp instead, which adds owners, exceptions, spans, sources and sinks.
 *
 * Each header is the manual of its module. Start with base.h, which states the rules that hold for all of them: names,
 * errors, ownership, threads.
 *
 * Basis:
 *
 * - base.h: rules of the API, version, status, context
 * - names.h: names of enumeration values
 * - json.h: numbers and strings as JSON text
 *
 * Tables and kernel machines:
 *
 * - data.h: tables and arrays: CSV, NumPy, libsvm, IDX
 * - features.h: feature maps: random features of kernels
 * - machines.h: kernel machines: regression and classification on features
 * - embedding.h: principal components of features, kernel PCA
 * - drift.h: two-sample tests for distribution drift between tables
 * - explain.h: explanations of kernel machines: importance of columns, curves, contributions
 * - metrics.h: the quality of predictions
 *
 * Attention and text models:
 *
 * - attention.h: softmax attention, linear attention, recurrent memories
 * - text.h: tokenizers, corpora, labeled texts and pairs of texts, BLEU
 * - chat.h: chat templates
 * - model.h: models: create, load, save, evaluate
 * - generate.h: text generation, sessions, samplers
 * - tasks.h: classification and translation with a model
 * - lora.h: low-rank adapters of models
 * - inspect.h: analysis of the attention heads of a language model, and candidates to replace them
 * - convert.h: conversion of models from other programs
 *
 * Training:
 *
 * - train.h: training of models and networks
 * - linearize.h: linear attention for models with softmax attention
 * - optim.h: optimizers and learning rate schedules
 * - plan.h: predicted time and loss of a training run
 * - profile.h: shapes, memory and time per operation of a training step
 * - widths.h: transfer of learning rates across widths
 *
 * Custom networks, from model descriptions to single operations. Each header needs only the headers below it:
 *
 * - network.h: models described as lists of layers, on arrays, images, sequences or graphs
 * - blocks.h: the block of a model: its components, or a custom layer
 * - layers.h: layers: functions that record operations and declare their weights
 * - graph.h: weights, and computations with gradients: recording and running
 * - operations.h: the operations that a graph can record, and their attributes
 * - kinds.h: enumerations that these headers share
 */
#ifndef BOCHNER_H
#define BOCHNER_H

#include <bochner/base.h>
#include <bochner/blocks.h>
#include <bochner/convert.h>
#include <bochner/data.h>
#include <bochner/drift.h>
#include <bochner/embedding.h>
#include <bochner/explain.h>
#include <bochner/features.h>
#include <bochner/generate.h>
#include <bochner/graph.h>
#include <bochner/inspect.h>
#include <bochner/json.h>
#include <bochner/kinds.h>
#include <bochner/machines.h>
#include <bochner/attention.h>
#include <bochner/chat.h>
#include <bochner/devices.h>
#include <bochner/layers.h>
#include <bochner/linearize.h>
#include <bochner/lora.h>
#include <bochner/metrics.h>
#include <bochner/model.h>
#include <bochner/names.h>
#include <bochner/network.h>
#include <bochner/operations.h>
#include <bochner/optim.h>
#include <bochner/plan.h>
#include <bochner/profile.h>
#include <bochner/tasks.h>
#include <bochner/text.h>
#include <bochner/train.h>
#include <bochner/widths.h>

#endif
