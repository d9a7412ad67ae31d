/* time-law: the time of a training step, and the loss that a time budget achieves. */
#include "time_law.h"

static const bo_lab_claim claims[] = {
    {.name = "copies",
     .statement = "The amount of data copied predicts the time of a training step better than the number of "
                  "operations.",
     .number = "prediction error from copies divided by prediction error from operations, for shapes not used in the "
               "fit",
     .rule = BO_LAB_AT_MOST,
     .bound = 1,
     .passage = LAB_PAPERS "line 23: \"popular time estimates based on FLOPs are poor estimates, and construct a more "
                           "accurate proxy based on memory copies\""},
    {.name = "steps",
     .statement =
         "Four costs (layers, copies, operations, attention) predict the step times of shapes not used in the fit "
         "within 20%.",
     .number = "root mean square of predicted time / measured time - 1",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.2,
     .passage = LAB_PAPERS "line 23: \"This allows us to accurately estimate the training speed of a transformer model "
                           "from its hyperparameters\", there by copies; we add the other three costs"},
    {.name = "wider",
     .statement = "With the same number of parameters, a step of the wider model takes less time (AdamW).",
     .number = "seconds per step with 8 layers divided by seconds per step with 2 layers of twice the width",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.1},
    {.name = "wider-muon",
     .statement = "This also holds with Muon, whose update costs more per parameter for wide matrices.",
     .number = "seconds per step with 8 layers divided by seconds per step with 2 layers of twice the width",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.1},
    {.name = "losses",
     .statement = "A law E + A N^-α + B D^-β fitted to small models predicts the loss of larger and longer trained "
                  "ones within 5%.",
     .number = "mean |predicted loss / measured loss - 1| over three models not used in the fit",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.05,
     .source = "Training Compute-Optimal Large Language Models (arXiv 2203.15556)",
     .passage = LAB_PAPERS
     "line 23: \"Combined with a scaling law curve like Chinchilla, this allows us to accurately "
     "predict the final loss of a model from a simple equation\"; tested for given numbers of parameters "
     "and tokens, without the estimate of time"},
    {.name = "equivalence",
     .statement =
         "With the same number of parameters and tokens, the shape changes the loss by less than half as much as "
         "reducing the parameters to a third.",
     .number = "|loss with 8 layers - loss with 2 layers| divided by (loss with a third of the parameters - loss with "
               "2 layers)",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.5},
    {.name = "equal-time",
     .statement = "In equal training time, the wider model reaches the lower held-out loss.",
     .number = "held-out loss with 8 layers minus held-out loss with 2 layers of twice the width, in nats per byte",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.01,
     .passage =
         LAB_PAPERS "line 23: \"models should be wider rather than deeper, as the benefits of speed outweigh the "
                    "benefits of depth\""},
};

static const bo_lab_table tables[] = {
    {.name = "proxies",
     .title = "Prediction of step times not used in the fit",
     .rows = "predictor",
     .values = "|predicted / measured - 1|; R²",
     .plot = BO_LAB_BARS},
    {.name = "depth",
     .title = "Time per step at equal numbers of parameters",
     .rows = "layers",
     .values = "seconds / seconds with 2 layers",
     .log_x = true,
     .log_y = true},
    {.name = "losses",
     .title = "Losses to which the law is fitted",
     .rows = "tokens",
     .values = "held-out loss, nats per byte",
     .log_x = true},
    {.name = "law",
     .title = "The fitted law",
     .rows = "coefficient",
     .values = "E + A N^-α + B D^-β, nats per byte",
     .plot = BO_LAB_NO_PLOT},
    {.name = "held-out",
     .title = "Models not used in the fit",
     .rows = "model",
     .values = "held-out loss, nats per byte",
     .plot = BO_LAB_BARS},
    {.name = "equal",
     .title = "Deep and wide models with equal numbers of parameters",
     .rows = "layers x width",
     .values = "held-out loss, nats per byte",
     .plot = BO_LAB_BARS},
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
     .title = "Time of a training step, and loss for a time budget",
     .claim =
         "The time of a training step is linear in the amount of data it copies, which is a better predictor than its "
         "operations. Loss depends on the numbers of parameters and tokens, not on the shape of the model. Shapes "
         "therefore compete on speed, and wider models win over deeper ones.",
     .source = "Time Matters: Scaling Laws for Any Budget (arXiv 2406.18922)",
     .method =
         "Byte-level language models with gated random feature attention (128 features, heads of dimension 32) and an "
         "MLP of four widths, as in bochner train. Times: 24 shapes of 0.1, 0.4 and 1.6 million parameters, 2 to 32 "
         "layers, contexts of 64 to 1024 and 512 to 2048 tokens per step are measured alternately on all threads; "
         "medians. A random two thirds of them are fitted by relative least squares with nonnegative costs: a "
         "constant and copies, a constant and operations, or the four counts of bochner plan; the others are "
         "predicted. Losses: 12 models of 20 to 115 thousand parameters after 82, 164 and 328 thousand bytes, 512 per "
         "step, are fitted, and three larger or longer trained ones are predicted. 8 layers of width 64 and 2 layers "
         "of width 128 have equal numbers of parameters; equal time is computed from the step times measured here. "
         "Everything except the seed (of weights, batches and the selection of held-out shapes) is fixed in advance.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables),
     .text = true,
     .timed = true},
    measure};
