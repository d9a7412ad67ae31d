/* Bochner: all of it. Each header is the manual of its module. */
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
