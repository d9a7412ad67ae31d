/* Parametrizations: how the first deviation of a weight, the factor in front of it and the rates of optimizers follow from
 * its shape. docs/guides/parametrization.md derives the table.
 *
 * In the maximal-update parametrization (2203.03466, Table 3) the weight is compared with that of the same name in the base
 * model. Its columns are the fan in, its rows the fan out; a vector has a fan out alone, and so has a table of embeddings,
 * whose rows are chosen, not summed. Extents that differ from the base model's are those that grow with the width. */
#include <math.h>
#include "weights.h"

static double or_one(double x)
{
    return x != 0 ? x : 1;
}

/* Fans of w as multiples of those of b. */
static void compare(bo_weight *w, const bo_weight *b)
{
    double rows = (double)w->rows / (double)b->rows, columns = (double)w->columns / (double)b->columns;
    bool vector = w->rank == 1;
    w->in = vector ? 1 : w->role == BO_WEIGHT_ROLE_EMBEDDING ? rows : columns;
    w->out = vector ? rows * columns : w->role == BO_WEIGHT_ROLE_EMBEDDING ? columns : rows;
}

/* Deviation σ, factor s in front of the weight and step η of each number with s σ ∝ 1/√in (1/in where the fan out does not
 * grow) and s η ∝ 1/in. Of the head, s ∝ 1/in: its own numbers and their steps are those of the base, and its gradient has
 * no part that grows in the norm of all. */
static void follow_base(bo_weight *w, const bo_weight *b)
{
    compare(w, b);
    if (w->role == BO_WEIGHT_ROLE_HEAD) w->scale /= w->in;
    double share = w->scale / b->scale, deviation = w->out == 1 ? 1 / w->in : 1 / sqrt(w->in);
    if (w->init.law == BO_WEIGHT_LAW_NORMAL) w->init.b = b->init.b * deviation / share;
    w->rate = 1 / (w->in * share);
}

/* Every product gives numbers of size 1, and so does a step of it times η base_width (2407.17465, Table 2; its η is ours times
 * base_width, so that rates mean the same as in the standard parametrization at that width). */
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
