/* recall: the number of key-value pairs that a state of fixed size can store. */
#include "../experiment.h"
#include <math.h>

static const bo_lab_claim claims[] = {
    {.name = "law",
     .statement = "A sum Σ k vᵀ holds a number of pairs proportional to the key dimension, as predicted by a signal "
                  "of 1 against crosstalk of variance n/d.",
     .number = "pairs held by a plain sum divided by the predicted number, mean over sizes",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.85,
     .upper = 1.15,
     .source = "signal-to-crosstalk analysis of a linear associative memory (Kohonen 1972)"},
    {.name = "linear",
     .statement = "With sine and cosine features of unit keys, the number of pairs held is proportional to the number "
                  "of features.",
     .number = "exponent of the number of pairs held as a power of the number of features",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.85,
     .upper = 1.15,
     .source = "RFA, arXiv 2103.02143"},
    {.name = "positive",
     .statement = "Positive features hold at most a quarter as many pairs as sines and cosines, because every pair "
                  "adds to the mean of their products.",
     .number = "pairs held with sines and cosines divided by pairs held with positive features, at the largest size",
     .rule = BO_LAB_AT_LEAST,
     .bound = 4,
     .source = "FAVOR+, arXiv 2009.14794, against RFA, arXiv 2103.02143"},
    {.name = "unit-norm",
     .statement = "Sine and cosine features need keys of equal length: they hold at most a quarter as many pairs if "
                  "key lengths vary from 1/2 to 2.",
     .number =
         "pairs held with unit keys divided by pairs held with keys of lengths 1/2 to 2, for trigonometric features "
         "of the softmax kernel at the largest size",
     .rule = BO_LAB_AT_LEAST,
     .bound = 4,
     .source = "RFA, arXiv 2103.02143"},
    {.name = "normalized",
     .statement = "Control: key lengths do not matter if the attention normalizes its keys, as RFA does.",
     .number = "pairs held with unit keys divided by pairs held with keys of lengths 1/2 to 2, for RFA at the largest "
               "size",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.98,
     .upper = 1.02,
     .source = "RFA, arXiv 2103.02143"},
    {.name = "ridge",
     .statement = "Ridge regression of values on keys holds more pairs than a plain sum of the same dimension.",
     .number = "pairs held by ridge regression divided by pairs held by a plain sum, mean over sizes",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.2,
     .source = "MesaNet, arXiv 2506.05233"},
    {.name = "delta",
     .statement = "Past its capacity, a plain sum loses all pairs equally, while the delta rule keeps the newest.",
     .number = "fraction of the latest 16 pairs recalled by the delta rule minus the fraction recalled by a plain sum",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.3,
     .source = "DeltaNet, arXiv 2406.06484"},
    {.name = "exact",
     .statement = "Control: softmax attention, which keeps every pair, recalls all of them.",
     .number = "fraction of all pairs recalled",
     .rule = BO_LAB_EACH_AT_LEAST,
     .bound = 0.999},
};

static const bo_lab_table tables[] = {
    {.name = "held",
     .title = "Number of pairs that a state holds",
     .rows = "features, or key dimension",
     .values = "pairs at which 90% are recalled",
     .log_x = true,
     .log_y = true,
     .theory = "plain sum, predicted"},
    {.name = "newest",
     .title = "A memory past its capacity: recall by age of the pair",
     .rows = "age in tokens",
     .values = "fraction recalled",
     .log_x = true},
    {.name = "bytes",
     .title = "Bytes of state per pair held, at the largest size",
     .rows = "memory",
     .values = "bytes",
     .plot = BO_LAB_BARS,
     .log_y = true},
};

/* The memories. lab/tools/recall.h explains their names. */
enum { SUM, SINES, NORMS, POSITIVE, ELU, DELTA, RIDGE, MEMORIES };
static const struct {
    const char *kind, *name;
} memories[MEMORIES] = {
    [SUM] = {"identity", "plain sum"},
    [SINES] = {"rfa", "sines and cosines"},
    [NORMS] = {"trig-norms", "sines and cosines, raw keys"},
    [POSITIVE] = {"favor", "positive"},
    [ELU] = {"elu", "elu + 1"},
    [DELTA] = {"delta", "delta rule"},
    [RIDGE] = {"ridge", "ridge"},
};

enum { SIZES = 4, WIDTH = 64, CODES = 256 };
static const double noise = 0.1;

static size_t size_at(const lab_run *run, size_t i)
{
    return lab_size(run, 32, 8) << i;
}

static bo_recall_options options_of(const lab_run *run)
{
    return (bo_recall_options){.tokens = lab_size(run, 2048, 256),
                               .lanes = lab_size(run, 8, 2),
                               .width = WIDTH,
                               .codes = CODES,
                               .noise = noise,
                               .seed = lab_seed(run)};
}

/* ---- the prediction ---------------------------------------------------------------------------------------------- */

/* Computes the predicted fraction recalled with n pairs in d dimensions, where ρ = n/d. The other pairs add ρ (1/w +
 * 1/C) to the variance of the score of a value: 1/w from values correlated with it and 1/C from equal values. The score
 * of the right value has the cosine of key and query as its mean; the scores of the others have the overlap of random
 * values, of variance 1/w. The fraction is P(the right value has the largest of C scores). */
static double predicted_share(double rho)
{
    const double crosstalk = rho * (1.0 / WIDTH + 1.0 / CODES), signal = 1 / sqrt(1 + noise * noise);
    const double right = sqrt(crosstalk), wrong = sqrt(crosstalk + signal * signal / WIDTH), step = 0.01;
    double share = 0;
    for (double x = -6; x < 6; x += step) {
        const double below = 0.5 * erfc(-(signal + right * x) / (wrong * sqrt(2)));
        share += step * exp(-0.5 * x * x) / sqrt(2 * acos(-1)) * pow(below, CODES - 1);
    }
    return share;
}

/* Returns the ρ at which 90% are recalled. */
static double predicted_ratio(void)
{
    double low = 0.01, high = 100;
    for (int i = 0; i < 60; i++) {
        const double middle = sqrt(low * high);
        *(predicted_share(middle) > 0.9 ? &low : &high) = middle;
    }
    return low;
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static bo_status recall(lab_run *run, const char *kind, size_t size, bo_recall_result *out)
{
    const bo_recall_options options = options_of(run);
    return bo_recall_measure(lab_context(run), bo_recall_find(kind), size, &options, out);
}

static bo_status measure_sizes(lab_run *run, double recalled[MEMORIES][SIZES], bo_recall_result last[MEMORIES])
{
    for (size_t i = 0; i < SIZES; i++)
        for (int m = 0; m < MEMORIES; m++) {
            const size_t size = size_at(run, i), max_size = bo_recall_find(memories[m].kind)->max_size;
            recalled[m][i] = NAN;
            BO_TRY(lab_progress(run, 0.9 * (double)(i * MEMORIES + (size_t)m) / (SIZES * MEMORIES)));
            if (max_size && size > max_size) continue;
            BO_TRY(recall(run, memories[m].kind, size, &last[m]));
            recalled[m][i] = last[m].capacity;
            lab_point(run, "held", memories[m].name, (double)size, recalled[m][i]);
        }
    return BO_OK;
}

/* Returns the mean ratio over the sizes that both have. */
static double mean_ratio(const double *a, const double *b)
{
    double sum = 0, count = 0;
    for (size_t i = 0; i < SIZES; i++)
        if (a[i] > 0 && b[i] > 0) {
            sum += a[i] / b[i];
            count++;
        }
    return sum / count;
}

static void conclude_sizes(lab_run *run, double recalled[MEMORIES][SIZES], const bo_recall_result last[MEMORIES])
{
    double sizes[SIZES], law[SIZES];
    const double ratio = predicted_ratio();
    for (size_t i = 0; i < SIZES; i++) {
        sizes[i] = (double)size_at(run, i);
        law[i] = ratio * sizes[i];
        lab_point(run, "held", "plain sum, predicted", sizes[i], law[i]);
    }
    for (int m = 0; m < MEMORIES; m++)
        lab_cell(run, "bytes", memories[m].name, "bytes per pair", (double)last[m].bytes / fmax(last[m].capacity, 1));
    lab_cell(run, "bytes", "softmax attention", "bytes per pair", 2.0 * WIDTH * sizeof(float));
    lab_claim(run, "law", mean_ratio(recalled[SUM], law));
    lab_claim(run, "linear", lab_exponent(sizes, recalled[SINES], SIZES));
    lab_claim(run, "positive", recalled[SINES][SIZES - 1] / fmax(recalled[POSITIVE][SIZES - 1], 1));
    lab_claim(run, "ridge", mean_ratio(recalled[RIDGE], recalled[SUM]));
    lab_note(run, "Predicted: %.3f pairs per dimension, with values chosen from %d directions in %d dimensions.", ratio,
             CODES, WIDTH);
}

/* Tests the second smallest size of each memory after all tokens, many times more pairs than its capacity. */
static bo_status measure_newest(lab_run *run)
{
    static const int shown[] = {SUM, SINES, DELTA, RIDGE};
    double newest[MEMORIES] = {0};
    for (size_t s = 0; s < LAB_COUNT_OF(shown); s++) {
        const int m = shown[s];
        bo_recall_result result;
        BO_TRY(recall(run, memories[m].kind, size_at(run, 1), &result));
        for (size_t i = 0; i < result.points; i++)
            lab_point(run, "newest", memories[m].name, ldexp(1, (int)i), result.by_distance[i]);
        for (size_t i = 0; i < 5; i++) newest[m] += result.by_distance[i] / 5; /* 1, 2, … 16 */
    }
    lab_claim(run, "delta", newest[DELTA] - newest[SUM]);
    return BO_OK;
}

static bo_status measure_controls(lab_run *run, const bo_recall_result last[MEMORIES])
{
    const size_t largest = size_at(run, SIZES - 1);
    bo_recall_result unit, norms, exact;
    BO_TRY(recall(run, "trig", largest, &unit));
    lab_claim(run, "unit-norm", unit.capacity / fmax(last[NORMS].capacity, 1));
    BO_TRY(recall(run, "rfa-norms", largest, &norms));
    lab_claim(run, "normalized", last[SINES].capacity / norms.capacity);
    BO_TRY(recall(run, "softmax", 0, &exact));
    for (size_t i = 0; i < exact.points; i++) lab_point(run, "newest", "exact", ldexp(1, (int)i), exact.by_distance[i]);
    lab_claim(run, "exact", exact.mean);
    return BO_OK;
}

static bo_status measure(lab_run *run)
{
    double recalled[MEMORIES][SIZES];
    bo_recall_result last[MEMORIES];
    BO_TRY(measure_sizes(run, recalled, last));
    conclude_sizes(run, recalled, last);
    BO_TRY(measure_newest(run));
    return measure_controls(run, last);
}

const lab_experiment lab_recall = {
    {.name = "recall",
     .group = LAB_FEATURES,
     .title = "Number of key-value pairs that a state of fixed size remembers",
     .claim = "Attention through features keeps a state of fixed size, so it must forget. The number of pairs that it "
              "holds is proportional to the number of features if these have mean 0 and all keys have the same length. "
              "Memories that correct themselves (delta rule, ridge regression) hold more than sums.",
     .source = "RFA, arXiv 2103.02143; Based, arXiv 2402.18668, for recall as a function of state size",
     .method =
         "Pairs of a random key and one of 256 random values of dimension 64 are written, one per token. The memory "
         "is then queried with keys that carry noise of a tenth of their length. A pair counts as recalled if its "
         "value is the nearest of the 256. The number of pairs held is the sequence length up to which 90% are "
         "recalled, for sequences of up to 2,048 pairs, 8 sequences with one draw of features each, and 32 to 256 "
         "features (or key dimensions). Nothing is trained. The parameters that a memory requires (sharpness, β, λ) "
         "are the best of up to five values, chosen on other pairs by the total number recalled. Another β might be "
         "better for the newest pairs, and two of the five are so close that seeds differ in their choice. Past "
         "capacity: 2,048 pairs in 64 features or dimensions.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
