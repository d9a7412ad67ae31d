/* Parametrizations: the initial standard deviation of a weight, its scale and its learning rate as functions of its
 * shape. docs/guides/parametrization.md derives the table.
 *
 * In the maximal-update parametrization (2203.03466, Table 3) a weight is compared with the weight of the same name in
 * the base model. Its columns are the fan-in, its rows the fan-out. A vector has only a fan-out, and so has an
 * embedding table, whose rows are selected and not summed. Dimensions that differ from those of the base model are
 * those that grow with the width. */
#include <math.h>
#include "weights.h"

static double or_one(double x)
{
    return x != 0 ? x : 1;
}

/* Sets in and out of w to the ratios of its fans to those of b. */
static void compare(bo_weight *w, const bo_weight *b)
{
    double rows = (double)w->rows / (double)b->rows, columns = (double)w->columns / (double)b->columns;
    bool vector = w->rank == 1;
    w->in = vector ? 1 : w->role == BO_WEIGHT_ROLE_EMBEDDING ? rows : columns;
    w->out = vector ? rows * columns : w->role == BO_WEIGHT_ROLE_EMBEDDING ? columns : rows;
}

/* The standard deviation σ, the scale s and the step η per entry satisfy s σ ∝ 1/√in (1/in if the fan-out does not
 * grow) and s η ∝ 1/in. For the head, s ∝ 1/in: its entries and steps equal those of the base, and its share of the
 * gradient norm does not grow. */
static void follow_base(bo_weight *w, const bo_weight *b)
{
    compare(w, b);
    if (w->role == BO_WEIGHT_ROLE_HEAD) w->scale /= w->in;
    double share = w->scale / b->scale, deviation = w->out == 1 ? 1 / w->in : 1 / sqrt(w->in);
    if (w->init.kind == BO_WEIGHT_INIT_KIND_NORMAL) w->init.b = b->init.b * deviation / share;
    w->rate = 1 / (w->in * share);
}

/* Every product has entries of size 1, and so has a step of it times η base_width (2407.17465, Table 2). The η of that
 * paper is this η times base_width, so that learning rates mean the same as in the standard parametrization at that
 * width. */
static void unit_rate(const bo_rules *rules, bo_weight *w)
{
    double base = or_one((double)rules->base_width), columns = (double)w->columns;
    if (w->role == BO_WEIGHT_ROLE_EMBEDDING)
        w->rate = base / sqrt(columns);
    else if (w->rank > 1 && (w->role != BO_WEIGHT_ROLE_VECTOR || w->scale != 1))
        w->rate = base / (columns * w->scale);
}

void bo_weight_parametrize(const bo_rules *rules, bo_weight *w)
{
    const bo_weight *base = rules->base ? bo_weights_find(rules->base, w->name) : NULL;
    w->scale = or_one(w->scale);
    w->in = w->out = w->rate = 1;
    if (rules->kind == BO_PARAMETRIZATION_MUP && base) follow_base(w, base);
    if (rules->kind == BO_PARAMETRIZATION_UNIT) unit_rate(rules, w);
}
