/* The options of `bochner train` that say how a model learns: optimizer, schedule, batches, length. */
#include "../common/rows.h"
#include "train.h"
#include <string.h>

static const char *optim_choice(int index)
{
    return index < BO_OPTIMIZER_COUNT ? bo_optimizer_name((bo_optimizer_kind)index) : NULL;
}

static const char *activations_choice(int index)
{
    return index <= BO_STORAGE_BFLOAT16 ? bo_storage_name((bo_storage)index) : NULL;
}

static const char *schedule_choice(int index)
{
    return index < BO_SCHEDULE_COUNT ? bo_schedule_name((bo_schedule_kind)index) : NULL;
}

static const char *factor_choice(int index)
{
    return index < BO_MUON_FACTOR_COUNT ? bo_muon_factor_name((bo_muon_factor)index) : NULL;
}

static const char *iteration_choice(int index)
{
    return index < BO_MUON_ITERATION_COUNT ? bo_muon_iteration_name((bo_muon_iteration)index) : NULL;
}

size_t cli_train_learning_table(cli_train_options *o, cli_option *out)
{
    const cli_option options[] = {
        SECTION("Learning"),
        CHOICE("optim", "KIND", "muon is for hidden matrices, adamw then takes the rest", &o->optim, optim_choice),
        POSITIVE("lr", "rate: 0.02 for muon, 0.003 adamw, 0.1 sgd, 0.001 sign, 1e-4 linf unless given", &o->lr),
        POSITIVE("other-lr", "muon: of what adamw takes; 0.003 unless given", &o->other_lr),
        REAL("decay", "X", "of weights, times the rate; 0 unless given", &o->decay, 0, 1e3),
        REAL("momentum", "X", "muon: 0.95, sgd and sign: 0.9 unless given; negative: none", &o->momentum, -1, 0.9999),
        CHOICE("schedule", "KIND", "how the rate falls", &o->schedule, schedule_choice),
        COUNT("warmup", "N", "steps in which it rises; 2% of all, at least 10, unless given", &o->warmup, 0, 0),
        REAL("floor", "X", "what it falls to, as a part of the rate; 0 unless given", &o->floor, 0, 1),
        REAL("clip", "X", "most norm of a gradient; 1 unless given, negative: any", &o->clip, -1, 1e30),
        REAL("average", "X", "test and keep a moving average of the weights, whose past counts X; none unless given",
             &o->average, 0, 0.999999),
        CHOICE("muon-factor", "KIND", "by the shape of a matrix", &o->muon_factor, factor_choice),
        CHOICE("muon-iteration", "KIND", "of Newton and Schulz", &o->muon_iteration, iteration_choice),
        COUNT("batch", "N",
              "sequences of a step, over all ranks; 16 unless given; with a --task packs: of 16384 tokens together, to "
              "translate 4096",
              &o->batch, 1, 1 << 24),
        COUNT("micro-batch", "N", "sequences or packs computed at a time; by memory unless given", &o->micro_batch, 1,
              1 << 24),
        FLAG("checkpointing", "keep activations of one layer at a time and compute them again: less memory, more time",
             &o->checkpointing),
        CHOICE("activations", "HOW", "wait for the backward pass; bfloat16: in half the memory", &o->activations,
               activations_choice),
        COUNT("steps", "N", "how long", &o->steps, 1, 0),
        REAL("minutes", "M", "or so, turned into steps once; 5 where neither is given", &o->minutes, 0.001, 1e7),
        COUNT("patience", "N", "stop after so many tests without a better one; never unless given", &o->patience, 1, 0),
    };
    memcpy(out, options, sizeof options);
    return CLI_COUNT_OF(options);
}
