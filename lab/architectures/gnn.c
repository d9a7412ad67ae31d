/* gnn: neighbor aggregation in graph networks: walks and reachability, structures it cannot distinguish, and
 * oversmoothing. */
#include <math.h>
#include <string.h>
#include "nets.h"

static const bo_lab_claim claims[] = {
    {.name = "walks",
     .statement =
         "With one-hot node features, k layers of sums over neighbors compute Aᵏ: column i of node j is the number of "
         "walks of k steps from i to j.",
     .number = "number of entries that differ, k = 1 to 6",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0,
     .passage =
         LAB_NOTES "lines 438-440: \"the i-th output of j-th node at layer k, equals to the number of path from i "
                   "to j who total distance is k\", where a path may visit a node twice"},
    {.name = "not-paths",
     .statement = "Control: walks are not paths that visit no node twice. Most walks of 6 steps visit some node twice.",
     .number = "number of walks of 6 steps divided by number of paths of 6 steps that visit no node twice",
     .rule = BO_LAB_AT_LEAST,
     .bound = 2,
     .source = "Bochner"},
    {.name = "reachability",
     .statement =
         "With the maximum instead of the sum, k layers compute whether there is a walk of exactly k steps, or of at "
         "most k steps if every node has a self-loop.",
     .number = "number of entries that differ, k = 1 to 6",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0,
     .passage = LAB_NOTES "line 444: \"If replace 'sum' func with 'max'. Then the i-th output of node j at layer k "
                          "represents: if there's a path\""},
    {.name = "order",
     .statement =
         "Three message-passing layers with sum, mean or maximum, and a mean over all nodes after them, do not depend "
         "on the numbering of nodes or the order of neighbors.",
     .number = "largest |difference| / |output|, for nodes and for the graph",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-5,
     .passage = LAB_NOTES "lines 458-467: \"a function which satisfies permutation invariance is valid\""},
    {.name = "order-control",
     .statement = "Control: a recurrent layer that reads the nodes one after another depends on their order.",
     .number = "|difference| / |output|",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.1},
    {.name = "blind",
     .statement =
         "Sum, mean and maximum distinguish exactly the neighborhoods that theory predicts: the mean ignores the "
         "number of neighbors, the maximum ignores multiplicity, the sum ignores the individual values, and none "
         "distinguishes a ring of six from two rings of three.",
     .number = "number of table cells that are zero and should not be, or are not zero and should be",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0,
     .source = "Xu, Hu, Leskovec, Jegelka: How powerful are graph neural networks?, arXiv 1810.00826"},
    {.name = "smoothing",
     .statement =
         "Repeated averaging makes all nodes of a connected graph equal, at the rate of the second eigenvalue of D⁻¹A.",
     .number = "logarithm of the measured decay of the spread per layer divided by ln |λ₂|",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.9,
     .upper = 1.1,
     .source = "Li, Han, Wu: Deeper insights into graph convolutional networks, arXiv 1801.07606"},
};

static const bo_lab_table tables[] = {
    {.name = "walks",
     .title = "Walks and paths of k steps between two nodes, mean over pairs",
     .rows = "k",
     .values = "number of walks or paths",
     .log_y = true,
     .theory = "entries of Aᵏ"},
    {.name = "order",
     .title = "The same graph in another order: three message-passing layers, and one aggregation",
     .rows = "aggregation",
     .values = "relative difference; fraction of numbers with different bits",
     .plot = BO_LAB_NO_PLOT},
    {.name = "blind",
     .title = "Difference between two neighborhoods, by aggregation",
     .rows = "neighborhoods",
     .values = "difference of the output of the node",
     .plot = BO_LAB_BARS},
    {.name = "smoothing",
     .title = "Spread of the nodes after k averaging layers",
     .rows = "k",
     .values = "standard deviation between nodes relative to k = 0",
     .log_y = true,
     .theory = "|λ₂|ᵏ, through the last"},
};

enum { COLUMNS = 16 };

/* ---- walks and reachability -------------------------------------------------------------------------------------- */

enum { NODES = 12, STEPS = 6, PAIRS = NODES * NODES, GRAPHS = 20 };

/* Extends the counts of walks i -> j in counts[j, i] by one step. */
static void step_walks(const bool *sees, const uint64_t *counts, uint64_t *out)
{
    memset(out, 0, PAIRS * sizeof *out);
    for (size_t j = 0; j < NODES; j++)
        for (size_t via = 0; via < NODES; via++)
            for (size_t i = 0; sees[j * NODES + via] && i < NODES; i++) out[j * NODES + i] += counts[via * NODES + i];
}

/* Counts paths that end at `node`, continue backward for `steps` steps, and avoid the nodes in `used`. */
static uint64_t count_paths(const bool *sees, size_t node, size_t steps, unsigned used)
{
    uint64_t count = 0;
    if (steps == 0) return 1;
    used |= 1u << node;
    for (size_t via = 0; via < NODES; via++)
        if (sees[node * NODES + via] && !(used >> via & 1)) count += count_paths(sees, via, steps - 1, used);
    return count;
}

static double mean_paths(const bool *sees, size_t steps)
{
    uint64_t count = 0;
    for (size_t j = 0; j < NODES; j++) count += count_paths(sees, j, steps, 0);
    return (double)count / PAIRS;
}

/* Compares `layers` of sums with the counts, and `layers` of maxima with whether the counts are nonzero. */
static bo_status compare_walks(lab_run *run, const lab_net *n, size_t steps, const uint64_t *counts, double *sum,
                               double *max)
{
    float names[PAIRS] = {0}, by_sum[PAIRS], by_max[PAIRS];
    for (size_t i = 0; i < NODES; i++) names[i * NODES + i] = 1;
    lab_layers l = {LAB_AGGREGATES, BO_AGGREGATE_SUM, steps, NODES, false};
    BO_TRY(lab_net_apply(run, n, &l, names, by_sum));
    l.aggregate = BO_AGGREGATE_MAX;
    BO_TRY(lab_net_apply(run, n, &l, names, by_max));
    for (size_t i = 0; i < PAIRS; i++) {
        *sum += (double)by_sum[i] != (double)counts[i];
        *max += by_max[i] != (counts[i] ? 1.0f : 0.0f);
    }
    return BO_OK;
}

static double mean_count(const uint64_t *counts)
{
    double sum = 0;
    for (size_t i = 0; i < PAIRS; i++) sum += (double)counts[i] / PAIRS;
    return sum;
}

/* Results of one graph, or means over several. */
typedef struct mismatches {
    double wrong_sum, wrong_max;
    double walks[STEPS + 1], paths[STEPS + 1]; /* over k steps, mean over pairs */
} mismatches;

static bo_status count_on(lab_run *run, const bool *sees, mismatches *t)
{
    bool near[PAIRS];
    uint64_t walks[2][PAIRS] = {{0}}, within[2][PAIRS] = {{0}};
    lab_net plain, loops;
    for (size_t i = 0; i < PAIRS; i++) near[i] = sees[i] || i / NODES == i % NODES;
    lab_net_make(NODES, sees, &plain);
    lab_net_make(NODES, near, &loops);
    for (size_t i = 0; i < NODES; i++) walks[0][i * NODES + i] = within[0][i * NODES + i] = 1;
    for (size_t k = 1; k <= STEPS; k++) {
        step_walks(sees, walks[(k + 1) % 2], walks[k % 2]);
        step_walks(near, within[(k + 1) % 2], within[k % 2]);
        BO_TRY(compare_walks(run, &plain, k, walks[k % 2], &t->wrong_sum, &t->wrong_max));
        BO_TRY(compare_walks(run, &loops, k, within[k % 2], &t->wrong_sum, &t->wrong_max));
        t->walks[k] += mean_count(walks[k % 2]) / GRAPHS;
        t->paths[k] += mean_paths(sees, k) / GRAPHS;
    }
    return BO_OK;
}

static bo_status measure_walks(lab_run *run)
{
    bool sees[PAIRS];
    mismatches t = {0};
    bo_rng rng = lab_rng(run, "lab.gnn.walks");
    for (size_t graph = 0; graph < GRAPHS; graph++) {
        lab_net_draw(&rng, NODES, 0.25, sees);
        BO_TRY(count_on(run, sees, &t));
    }
    for (size_t k = 1; k <= STEPS; k++) {
        lab_point(run, "walks", "entries of Aᵏ", (double)k, t.walks[k]);
        lab_point(run, "walks", "paths that visit no node twice", (double)k, t.paths[k]);
    }
    lab_claim(run, "walks", t.wrong_sum);
    lab_claim(run, "not-paths", t.walks[STEPS] / t.paths[STEPS]);
    lab_claim(run, "reachability", t.wrong_max);
    return lab_progress(run, 0.3);
}

/* ---- order of nodes and neighbors -------------------------------------------------------------------------------- */

/* Renumbers node i as to[i] and shuffles the neighbors. */
static void permute_net(bo_rng *rng, const lab_net *n, const size_t *to, lab_net *out)
{
    size_t from[LAB_NET_NODES], order[LAB_NET_NODES];
    for (size_t i = 0; i < n->nodes; i++) from[to[i]] = i;
    out->nodes = n->nodes;
    out->first[0] = 0;
    for (size_t i = 0; i < n->nodes; i++) {
        const int32_t *neighbors = n->neighbors + n->first[from[i]];
        const size_t count = (size_t)(n->first[from[i] + 1] - n->first[from[i]]);
        bo_rng_permutation(rng, count, order);
        for (size_t k = 0; k < count; k++) out->neighbors[(size_t)out->first[i] + k] = (int32_t)to[neighbors[order[k]]];
        out->first[i + 1] = out->first[i] + (int32_t)count;
    }
}

typedef struct reordering {
    lab_net plain, other;
    size_t to[LAB_NET_NODES];
    float x[LAB_NET_NODES * COLUMNS], x_other[LAB_NET_NODES * COLUMNS];
} reordering;

static void draw_reordering(bo_rng *rng, reordering *r)
{
    bool sees[LAB_NET_EDGES];
    lab_net_draw(rng, LAB_NET_NODES, 0.15, sees);
    lab_net_make(LAB_NET_NODES, sees, &r->plain);
    bo_rng_permutation(rng, LAB_NET_NODES, r->to);
    permute_net(rng, &r->plain, r->to, &r->other);
    lab_fill_normal(rng, 1, LAB_NET_NODES * COLUMNS, r->x);
    for (size_t i = 0; i < LAB_NET_NODES; i++)
        memcpy(r->x_other + r->to[i] * COLUMNS, r->x + i * COLUMNS, COLUMNS * sizeof(float));
}

/* Computes |difference| / |output| and the fraction of numbers with different bits. */
static bo_status reorder(lab_run *run, const reordering *r, const lab_layers *l, double *difference, double *bits)
{
    float a[LAB_NET_NODES * COLUMNS], b[LAB_NET_NODES * COLUMNS];
    const size_t rows = l->kind == LAB_READOUT ? 1 : LAB_NET_NODES;
    double squares = 0, size = 0, changed = 0;
    BO_TRY(lab_net_apply(run, &r->plain, l, r->x, a));
    BO_TRY(lab_net_apply(run, &r->other, l, r->x_other, b));
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < COLUMNS; c++) {
            const double one = (double)a[i * COLUMNS + c];
            const double two = (double)b[(rows == 1 ? 0 : r->to[i]) * COLUMNS + c];
            squares += (one - two) * (one - two), size += one * one, changed += one != two;
        }
    *difference = sqrt(squares / size);
    *bits = changed / (double)(rows * COLUMNS);
    return BO_OK;
}

static bo_status measure_order(lab_run *run)
{
    static const char *const names[BO_AGGREGATE_COUNT] = {"sum", "mean", "maximum"};
    reordering r;
    bo_rng rng = lab_rng(run, "lab.gnn.order");
    double worst = 0, difference, bits;
    draw_reordering(&rng, &r);
    for (int kind = 0; kind < BO_AGGREGATE_COUNT; kind++) {
        const bo_aggregate_kind aggregate = (bo_aggregate_kind)kind;
        for (lab_layers_kind what = LAB_MESSAGES; what <= LAB_READOUT; what++) {
            BO_TRY(reorder(run, &r, &(lab_layers){what, aggregate, 3, COLUMNS, false}, &difference, &bits));
            worst = fmax(worst, difference);
            lab_cell(run, "order", names[kind], what == LAB_MESSAGES ? "difference, nodes" : "difference, graph",
                     difference);
        }
        BO_TRY(reorder(run, &r, &(lab_layers){LAB_AGGREGATES, aggregate, 1, COLUMNS, false}, &difference, &bits));
        lab_cell(run, "order", names[kind], "different bits, one aggregation", bits);
    }
    lab_claim(run, "order", worst);
    BO_TRY(reorder(run, &r, &(lab_layers){.kind = LAB_RECURRENT, .columns = COLUMNS}, &difference, &bits));
    lab_claim(run, "order-control", difference);
    return lab_progress(run, 0.6);
}

/* ---- neighborhoods that cannot be distinguished ------------------------------------------------------------------ */

enum { RING = 6 };

/* Node 0 has `count` neighbors with the features `numbers`. */
static bo_status star(lab_run *run, const lab_layers *l, size_t count, const float *numbers, double *out)
{
    bool sees[64] = {false};
    float x[8] = {0}, y[8];
    lab_net n;
    for (size_t i = 1; i <= count; i++) sees[i] = true, x[i] = numbers[i - 1];
    lab_net_make(count + 1, sees, &n);
    BO_TRY(lab_net_apply(run, &n, l, x, y));
    *out = (double)y[0];
    return BO_OK;
}

/* Computes the output of node 0 of a ring of six, or of one of two rings of three, where all features are 1; three
 * layers. */
static bo_status ring(lab_run *run, const lab_layers *l, bool two, double *out)
{
    bool sees[RING * RING] = {false};
    float x[RING], y[RING];
    const size_t length = two ? RING / 2 : RING;
    lab_net n;
    for (size_t i = 0; i < RING; i++) {
        const size_t base = i / length * length, at = i % length;
        sees[i * RING + base + (at + 1) % length] = sees[i * RING + base + (at + length - 1) % length] = true;
        x[i] = 1;
    }
    lab_net_make(RING, sees, &n);
    lab_layers deep = *l;
    deep.depth = 3;
    BO_TRY(lab_net_apply(run, &n, &deep, x, y));
    *out = (double)y[0];
    return BO_OK;
}

typedef struct comparison {
    const char *name;
    size_t counts[2];
    float numbers[2][4];
    bool separated[4]; /* by sum, mean, maximum, sum of tanh */
} comparison;

static bo_status compare_pair(lab_run *run, const comparison *c, double *wrong)
{
    static const char *const names[4] = {"sum", "mean", "maximum", "sum of tanh"};
    static const bo_aggregate_kind kinds[4] = {BO_AGGREGATE_SUM, BO_AGGREGATE_MEAN, BO_AGGREGATE_MAX, BO_AGGREGATE_SUM};
    for (size_t k = 0; k < 4; k++) {
        const lab_layers l = {LAB_AGGREGATES, kinds[k], 1, 1, k == 3};
        double outputs[2];
        for (size_t side = 0; side < 2; side++)
            BO_TRY(c->counts[0] ? star(run, &l, c->counts[side], c->numbers[side], &outputs[side])
                                : ring(run, &l, side == 1, &outputs[side]));
        const double difference = fabs(outputs[0] - outputs[1]);
        lab_cell(run, "blind", c->name, names[k], difference);
        *wrong += (difference > 1e-6) != c->separated[k];
    }
    return BO_OK;
}

static bo_status measure_blind(lab_run *run)
{
    static const comparison contests[] = {
        {"{1, 2} and {1, 1, 2, 2}", {2, 4}, {{1, 2}, {1, 1, 2, 2}}, {true, false, false, true}},
        {"{1, 2} and {1, 2, 2}", {2, 3}, {{1, 2}, {1, 2, 2}}, {true, true, false, true}},
        {"{1, 3} and {2, 2}", {2, 2}, {{1, 3}, {2, 2}}, {false, false, true, true}},
        {"a ring of 6, two rings of 3", {0}, {{0}}, {false}},
    };
    double wrong = 0;
    for (size_t i = 0; i < LAB_COUNT_OF(contests); i++) BO_TRY(compare_pair(run, &contests[i], &wrong));
    lab_claim(run, "blind", wrong);
    return lab_progress(run, 0.8);
}

/* ---- depth ------------------------------------------------------------------------------------------------------- */

enum { DEPTHS = 7, DEPTH_STEP = 4, SETTLED = 3 }; /* after 16 layers only the slowest mode remains */

/* |λ₂| of D⁻¹A, whose eigenvalues are those of D^-½ A D^-½. */
static bo_status second_eigenvalue(lab_run *run, const bool *sees, const double *degree, double *out)
{
    double a[LAB_NET_EDGES], values[LAB_NET_NODES];
    for (size_t i = 0; i < LAB_NET_EDGES; i++)
        a[i] = sees[i] ? 1 / sqrt(degree[i / LAB_NET_NODES] * degree[i % LAB_NET_NODES]) : 0;
    BO_TRY(lab_eigen(lab_context(run), LAB_NET_NODES, a, values));
    *out = fmax(fabs(values[0]), fabs(values[LAB_NET_NODES - 2]));
    return BO_OK;
}

/* Draws undirected edges, a self-loop for every node, and a ring, so that the graph is connected and not bipartite. */
static void draw_connected(bo_rng *rng, bool *sees, double *degree)
{
    lab_net_draw(rng, LAB_NET_NODES, 0.04, sees);
    for (size_t i = 0; i < LAB_NET_NODES; i++)
        sees[i * LAB_NET_NODES + i] = sees[i * LAB_NET_NODES + (i + 1) % LAB_NET_NODES] = true;
    for (size_t i = 0; i < LAB_NET_EDGES; i++)
        if (sees[i]) sees[i % LAB_NET_NODES * LAB_NET_NODES + i / LAB_NET_NODES] = true;
    for (size_t i = 0; i < LAB_NET_NODES; i++) {
        degree[i] = 0;
        for (size_t j = 0; j < LAB_NET_NODES; j++) degree[i] += sees[i * LAB_NET_NODES + j];
    }
}

/* Returns the standard deviation of the nodes from their degree-weighted mean, which averaging preserves, over all
 * columns. */
static double spread(const float *x, const double *degree)
{
    double squares = 0, all = 0;
    for (size_t i = 0; i < LAB_NET_NODES; i++) all += degree[i];
    for (size_t c = 0; c < COLUMNS; c++) {
        double mean = 0;
        for (size_t i = 0; i < LAB_NET_NODES; i++) mean += degree[i] / all * (double)x[i * COLUMNS + c];
        for (size_t i = 0; i < LAB_NET_NODES; i++) {
            const double d = (double)x[i * COLUMNS + c] - mean;
            squares += degree[i] / all * d * d / COLUMNS;
        }
    }
    return sqrt(squares);
}

/* Measures the decay rate of the spread of one graph as a multiple of ln |λ₂|. The table shows the first graph. */
static bo_status smooth(lab_run *run, bo_rng *rng, bool shown, double *rate)
{
    bool sees[LAB_NET_EDGES];
    double degree[LAB_NET_NODES], depths[DEPTHS], logs[DEPTHS], second;
    float x[LAB_NET_NODES * COLUMNS], y[LAB_NET_NODES * COLUMNS];
    lab_net n;
    draw_connected(rng, sees, degree);
    lab_net_make(LAB_NET_NODES, sees, &n);
    BO_TRY(second_eigenvalue(run, sees, degree, &second));
    lab_fill_normal(rng, 1, LAB_NET_NODES * COLUMNS, x);
    const double first = spread(x, degree);
    for (size_t i = 0; i < DEPTHS; i++) {
        const size_t depth = DEPTH_STEP * (i + 1);
        BO_TRY(lab_net_apply(run, &n, &(lab_layers){LAB_AGGREGATES, BO_AGGREGATE_MEAN, depth, COLUMNS, false}, x, y));
        depths[i] = (double)depth;
        logs[i] = log(spread(y, degree) / first);
    }
    for (size_t i = 0; shown && i < DEPTHS; i++) {
        lab_point(run, "smoothing", "measured", depths[i], exp(logs[i]));
        lab_point(run, "smoothing", "|λ₂|ᵏ, through the last", depths[i],
                  exp(logs[DEPTHS - 1]) * pow(second, depths[i] - depths[DEPTHS - 1]));
    }
    *rate = lab_slope(depths + SETTLED, logs + SETTLED, DEPTHS - SETTLED) / log(second);
    return BO_OK;
}

static bo_status measure_smoothing(lab_run *run)
{
    bo_rng rng = lab_rng(run, "lab.gnn.smoothing");
    double sum = 0, rate;
    for (size_t graph = 0; graph < GRAPHS; graph++) {
        BO_TRY(smooth(run, &rng, graph == 0, &rate));
        sum += rate / GRAPHS;
    }
    lab_claim(run, "smoothing", sum);
    return BO_OK;
}

static bo_status measure(lab_run *run)
{
    BO_TRY(measure_walks(run));
    BO_TRY(measure_order(run));
    BO_TRY(measure_blind(run));
    return measure_smoothing(run);
}

const lab_experiment lab_gnn = {
    {.name = "gnn",
     .group = LAB_ARCHITECTURES,
     .title = "Neighbor aggregation: walks, reachability, and indistinguishable neighborhoods",
     .claim =
         "Sums over neighbors count walks, and maxima compute reachability. Neither depends on the order of nodes or "
         "neighbors. Each aggregation fails to distinguish some neighborhoods, and many layers make all nodes equal.",
     .source = "course notes, connection between graph dynamics and GNN",
     .method =
         "Walks: on 20 directed graphs of 12 nodes with edge probability 1/4, one to six aggregations of one-hot "
         "features are compared with powers of A in integers and with a search for paths. Order: 48 nodes with 16 "
         "normal features are renumbered, their neighbors are shuffled, and both versions pass through three "
         "message-passing layers with random weights. Neighborhoods: pairs that theory says an aggregation cannot "
         "distinguish are given to each. Depth: on 20 connected graphs of 48 nodes with undirected edges and "
         "self-loops, 4 to 28 averaging layers are applied; the decay rate from 16 layers on is compared with the "
         "second eigenvalue.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
