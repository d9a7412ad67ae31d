/* A claim at a glance: where its side of the bound is, where every seed came out, where the interval lies. */
#include "lab.h"
#include <math.h>

enum { WIDTH = 150, HEIGHT = 22, EDGE = 6 };

typedef struct scale {
    double low, high;
} scale;

static double at(const scale *s, double value)
{
    const double x = EDGE + (value - s->low) / (s->high - s->low) * (WIDTH - 2 * EDGE);
    return fmin(fmax(x, 1), WIDTH - 1);
}

static void include(scale *s, double value)
{
    if (!isfinite(value)) return;
    s->low = fmin(s->low, value);
    s->high = fmax(s->high, value);
}

static scale scale_of(const bo_lab_outcome *o, size_t seeds)
{
    scale s = {INFINITY, -INFINITY};
    include(&s, o->claim->bound);
    if (o->claim->rule == BO_LAB_BETWEEN) include(&s, o->claim->upper);
    include(&s, o->low);
    include(&s, o->high);
    for (size_t i = 0; i < seeds; i++) include(&s, o->values[i]);
    const double margin = s.high > s.low ? 0.12 * (s.high - s.low) : 1;
    return (scale){s.low - margin, s.high + margin};
}

static void claimed_side(FILE *out, const scale *s, const bo_lab_claim *claim)
{
    const bool up = claim->rule == BO_LAB_AT_LEAST || claim->rule == BO_LAB_EACH_AT_LEAST;
    const bool between = claim->rule == BO_LAB_BETWEEN;
    const double from = up || between ? at(s, claim->bound) : 0;
    const double to = between ? at(s, claim->upper) : up ? WIDTH : at(s, claim->bound);
    fprintf(out, "<rect class=\"side\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"%d\"/>", from, to - from, HEIGHT);
    fprintf(out, "<path class=\"bound\" d=\"M%.1f 0V%d", at(s, claim->bound), HEIGHT);
    if (between) fprintf(out, "M%.1f 0V%d", at(s, claim->upper), HEIGHT);
    fputs("\"/>", out);
}

void cli_lab_strip(FILE *out, const bo_lab_outcome *o, size_t seeds)
{
    const scale s = scale_of(o, seeds);
    const double middle = HEIGHT / 2.0;
    fprintf(out, "<svg class=\"strip\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" aria-hidden=\"true\">", WIDTH,
            HEIGHT, WIDTH, HEIGHT);
    claimed_side(out, &s, o->claim);
    for (size_t i = 0; i < seeds; i++)
        if (isfinite(o->values[i]))
            fprintf(out, "<circle class=\"seed\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.2\"/>", at(&s, o->values[i]), middle);
    if (isfinite(o->low) && isfinite(o->high))
        fprintf(out, "<path class=\"interval\" d=\"M%.1f %.1fH%.1f\"/>", at(&s, o->low), middle, at(&s, o->high));
    if (isfinite(o->mean))
        fprintf(out, "<path class=\"mean\" d=\"M%.1f %.1fV%.1f\"/>", at(&s, o->mean), middle - 5, middle + 5);
    fputs("</svg>", out);
}
