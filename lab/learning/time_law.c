/* time-law: what a step of training takes, and what loss a budget of time buys. */
#include "time_law.h"

static const bo_lab_claim claims[] = {
    {.name = "copies",
     .statement = "Numbers copied predict the time of a step better than operations do.",
     .number = "error of predictions by copies / by operations, of shapes that were not fitted",
     .rule = BO_LAB_AT_MOST,
     .bound = 1},
    {.name = "steps",
     .statement =
         "Four costs, of layers, copies, operations and attention, predict steps of shapes that were not fitted "
         "within a fifth.",
     .number = "root mean square of predicted / measured - 1",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.2},
    {.name = "wider",
     .statement = "At equal parameters a step of the wider model takes less time (AdamW).",
     .number = "seconds of 8 layers / of 2 layers of twice the width",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.1},
    {.name = "wider-muon",
     .statement = "So it does with Muon, whose update costs a wide matrix more for each parameter.",
     .number = "seconds of 8 layers / of 2 layers of twice the width",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.1},
    {.name = "losses",
     .statement = "A law E + A N^-α + B D^-β of small models predicts larger and longer trained ones within 5%.",
     .number = "mean |predicted / measured - 1| of three models that were not fitted",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.05,
     .source = "Training Compute-Optimal Large Language Models (2203.15556)"},
    {.name = "equivalence",
     .statement =
         "At equal parameters and tokens the shape changes the loss by less than half of what it costs to have a "
         "third of the parameters.",
     .number = "|loss of 8 layers - of 2| / loss of a third of the parameters less that of 2 layers",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.5},
    {.name = "equal-time",
     .statement = "In equal time the wider model ends with the lower loss.",
     .number = "loss of 8 layers - of 2 layers of twice the width, nats",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.01},
};

static const bo_lab_table tables[] = {
    {.name = "proxies",
     .title = "Predicting the time of steps that were not fitted",
     .rows = "counted",
     .values = "|predicted / measured - 1|, and R²",
     .picture = BO_LAB_BARS},
    {.name = "depth",
     .title = "Time of a step at equal parameters",
     .rows = "layers",
     .values = "seconds / seconds of 2 layers",
     .log_x = true,
     .log_y = true},
    {.name = "losses",
     .title = "Losses that the law is fitted to",
     .rows = "tokens",
     .values = "nats a byte, held out",
     .log_x = true},
    {.name = "law",
     .title = "The law",
     .rows = "coefficient",
     .values = "E + A N^-α + B D^-β, nats a byte",
     .picture = BO_LAB_NO_PICTURE},
    {.name = "held-out",
     .title = "Models that the law was not fitted to",
     .rows = "model",
     .values = "nats a byte, held out",
     .picture = BO_LAB_BARS},
    {.name = "equal",
     .title = "Deep and wide at equal parameters",
     .rows = "layers x width",
     .values = "nats a byte, held out",
     .picture = BO_LAB_BARS},
};

static bo_status measure(lab_run *run)
{
    double slower;
    BO_TRY(time_law_steps(run, &slower));
    BO_TRY(lab_progress(run, 0.3));
    return time_law_losses(run, slower);
}

const lab_experiment lab_time_law = {
    {.name = "time-law",
     .group = LAB_LEARNING,
     .title = "How long a step takes, and what loss a time buys",
     .claim =
         "The time of a training step is linear in the numbers that it copies, a better proxy than its operations. "
         "Loss depends on parameters and tokens, not on where the parameters are, so that shapes compete on speed: "
         "wider, not deeper.",
     .source = "Time Matters: Scaling Laws for Any Budget (2406.18922)",
     .method =
         "Models of bytes with gated random feature attention (128 features, heads of 32) and an MLP of four widths, "
         "as bochner train has them. Times: 24 shapes of 0.1, 0.4 and 1.6 million parameters, 2 to 32 layers, "
         "contexts of 64 to 1024, 512 to 2048 tokens a step, take turns on all threads; medians. Two thirds of them, "
         "drawn by the seed, are fitted with relative least squares and costs that are not negative: a constant and "
         "copies, a constant and operations, or the four counts of bochner plan; the others are predicted. Losses: 12 "
         "models of 20 to 115 thousand parameters after 82, 164 and 328 thousand bytes, 512 a step, are fitted, three "
         "larger or longer trained ones are predicted; 8 layers of 64 and 2 of 128 have equal parameters, and equal "
         "time is by the steps timed here. Everything but the seed, of weights, of batches and of what is held out, "
         "is fixed beforehand.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables),
     .text = true,
     .timed = true},
    measure};
