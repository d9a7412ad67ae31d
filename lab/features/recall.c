/* recall: how many pairs of a key and a value a state of fixed size remembers. */
#include "../experiment.h"
#include "../statistics.h"
#include "../tools/recall.h"
#include <math.h>

static const bo_lab_claim claims[] = {
    {.name = "law",
     .statement = "A sum Σ k vᵀ holds a number of pairs in proportion to the dimensions of the keys, the number "
                  "that a signal of 1 against crosstalk of variance n/d predicts.",
     .number = "pairs held / predicted, plain sum, mean over sizes",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.85,
     .upper = 1.15,
     .source = "signal and crosstalk of a linear associative memory (Kohonen 1972)"},
    {.name = "linear",
     .statement = "With sines and cosines of unit keys, pairs held grow as the number of features: features of mean "
                  "0 are as good as dimensions.",
     .number = "exponent of the pairs held in the number of features",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.85,
     .upper = 1.15,
     .source = "RFA, 2103.02143"},
    {.name = "positive",
     .statement = "Positive features hold far fewer: every pair adds to the mean of their products.",
     .number = "pairs held, sines and cosines / positive features, at the largest size",
     .rule = BO_LAB_AT_LEAST,
     .bound = 4,
     .source = "FAVOR+, 2009.14794, against RFA, 2103.02143"},
    {.name = "unit-norm",
     .statement = "Sines and cosines need keys of one length: with lengths from 1/2 to 2 most is lost.",
     .number =
         "pairs held, unit keys / keys of lengths from 1/2 to 2, trigonometric features of softmax at the largest size",
     .rule = BO_LAB_AT_LEAST,
     .bound = 4,
     .source = "RFA, 2103.02143"},
    {.name = "normalized",
     .statement = "Control: where the attention normalizes keys itself, as RFA does, their lengths do not matter.",
     .number = "pairs held, unit keys / keys of lengths from 1/2 to 2, RFA at the largest size",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.98,
     .upper = 1.02,
     .source = "RFA, 2103.02143"},
    {.name = "ridge",
     .statement = "Ridge regression of values on keys holds more than the sum of as many dimensions.",
     .number = "pairs held, ridge / plain sum, mean over sizes",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.2,
     .source = "MesaNet, 2506.05233"},
    {.name = "delta",
     .statement = "Overfull, a sum loses all pairs alike; the delta rule keeps the newest.",
     .number = "share of the latest 16 pairs that come back, delta rule - plain sum",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.3,
     .source = "DeltaNet, 2406.06484"},
    {.name = "exact",
     .statement = "Control: exact attention, which keeps every pair, recalls all of them.",
     .number = "share of all pairs that come back",
     .rule = BO_LAB_EACH_AT_LEAST,
     .bound = 0.999},
};

static const bo_lab_table tables[] = {
    {.name = "held",
     .title = "Pairs that a state holds",
     .rows = "features, or dimensions of a key",
     .values = "pairs of which nine of ten come back",
     .log_x = true,
     .log_y = true,
     .theory = "plain sum, predicted"},
    {.name = "newest",
     .title = "An overfull memory: pairs by age",
     .rows = "tokens ago",
     .values = "share that comes back",
     .log_x = true},
    {.name = "bytes",
     .title = "Bytes of state for a pair held, at the largest size",
     .rows = "memory",
     .values = "bytes",
     .picture = BO_LAB_BARS,
     .log_y = true},
};

/* The memories, by their names in lab/tools/recall.h. */
enum { SUM, SINES, NORMS, POSITIVE, ELU, DELTA, RIDGE, MEMORIES };
static const struct {
    const char *kind, *name;
} memories[MEMORIES] = {
    [SUM] = {"identity", "plain sum"},
    [SINES] = {"rfa", "sines and cosines"},
    [NORMS] = {"trig-norms", "… of any norm"},
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

/* ---- the prediction --------------------------------------------------------------------------------------------------------- */

/* With n pairs in d dimensions, ρ = n/d: other pairs add ρ (1/w + 1/C) to the variance of a code's score, by values that lean
 * toward it and by those that are the same; the right code's mean is the cosine of key and question, that of another the overlap of
 * random values, of variance 1/w. The share recalled is P(the right one is the largest of C). */
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

/* ρ at which nine of ten come back. */
static double predicted_ratio(void)
{
    double low = 0.01, high = 100;
    for (int i = 0; i < 60; i++) {
        const double middle = sqrt(low * high);
        *(predicted_share(middle) > 0.9 ? &low : &high) = middle;
    }
    return low;
}

/* ---- measuring ---------------------------------------------------------------------------------------------------------------- */

static bo_status recall(lab_run *run, const char *kind, size_t size, bo_recall_result *out)
{
    const bo_recall_options options = options_of(run);
    return bo_recall_measure(lab_context(run), bo_recall_find(kind), size, &options, out);
}

static bo_status measure_sizes(lab_run *run, double held[MEMORIES][SIZES], bo_recall_result last[MEMORIES])
{
    for (size_t i = 0; i < SIZES; i++)
        for (int m = 0; m < MEMORIES; m++) {
            const size_t size = size_at(run, i), most = bo_recall_find(memories[m].kind)->most;
            held[m][i] = NAN;
            BO_TRY(lab_progress(run, 0.9 * (double)(i * MEMORIES + (size_t)m) / (SIZES * MEMORIES)));
            if (most && size > most) continue;
            BO_TRY(recall(run, memories[m].kind, size, &last[m]));
            held[m][i] = last[m].capacity;
            lab_point(run, "held", memories[m].name, (double)size, held[m][i]);
        }
    return BO_OK;
}

/* Mean over the sizes that both have. */
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

static void conclude_sizes(lab_run *run, double held[MEMORIES][SIZES], const bo_recall_result last[MEMORIES])
{
    double sizes[SIZES], law[SIZES];
    const double ratio = predicted_ratio();
    for (size_t i = 0; i < SIZES; i++) {
        sizes[i] = (double)size_at(run, i);
        law[i] = ratio * sizes[i];
        lab_point(run, "held", "plain sum, predicted", sizes[i], law[i]);
    }
    for (int m = 0; m < MEMORIES; m++)
        lab_cell(run, "bytes", memories[m].name, "bytes a pair", (double)last[m].bytes / fmax(last[m].capacity, 1));
    lab_cell(run, "bytes", "exact attention", "bytes a pair", 2.0 * WIDTH * sizeof(float));
    lab_claim(run, "law", mean_ratio(held[SUM], law));
    lab_claim(run, "linear", lab_exponent(sizes, held[SINES], SIZES));
    lab_claim(run, "positive", held[SINES][SIZES - 1] / fmax(held[POSITIVE][SIZES - 1], 1));
    lab_claim(run, "ridge", mean_ratio(held[RIDGE], held[SUM]));
    lab_note(run, "Predicted: %.3f pairs for each dimension, with values out of %d directions of %d dimensions.", ratio,
             CODES, WIDTH);
}

/* The second smallest of each memory, after all tokens: many times what it holds. */
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
    double held[MEMORIES][SIZES];
    bo_recall_result last[MEMORIES];
    BO_TRY(measure_sizes(run, held, last));
    conclude_sizes(run, held, last);
    BO_TRY(measure_newest(run));
    return measure_controls(run, last);
}

const lab_experiment lab_recall = {
    {.name = "recall",
     .group = LAB_FEATURES,
     .title = "What a state of fixed size remembers",
     .claim =
         "Attention by features keeps a state of fixed size, so it forgets. How many pairs it holds grows in "
         "proportion to the features, if they have mean 0 and keys have one length; corrections (delta rule, ridge) "
         "do better than sums.",
     .source = "RFA, 2103.02143; Based, 2402.18668, for recall against the size of the state",
     .method =
         "Pairs of a random key and one of 256 random values of 64 dimensions are written a token each; then keys are "
         "asked for with noise of a tenth of their length, and a pair counts as recalled where its value is the "
         "nearest of the 256. Pairs held: the length of a sequence up to which nine of ten come back, of sequences up "
         "to 2,048 pairs, 8 sequences with a draw of features each, 32 to 256 features (or dimensions of the keys). "
         "Nothing is trained; what a memory cannot be without (sharpness, β, λ) is the best of up to five, chosen on "
         "other pairs by how many come back of all; for the newest another β may be better, and two of the five are "
         "so close that seeds differ in their choice. Overfull: 2,048 pairs in 64 features or dimensions.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
