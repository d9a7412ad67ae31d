/* Sampling of the next token: repetition penalty, temperature, top-k, top-p, min-p, and the random draw. All steps are
 * in place, without additional memory. Logits become weights; excluded tokens get -INFINITY, then the weight 0. */
#include <math.h>
#include <string.h>
#include "../base/rng.h"
#include "../device/cpu/kernels.h"
#include "internal.h"
#include "sampler.h"

enum { WINDOW = 64 };

/* Invariants: `desc` has all defaults filled in; `recent` is a ring buffer of the latest desc.window tokens;
 * `remembered` is the number of tokens ever added to it. */
struct bo_sampler {
    bo_sampler_desc desc;
    const bo_kernels *kernels;
    uint64_t drawn; /* number of random numbers drawn */
    uint64_t remembered;
    int32_t *recent;
};

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

static bo_status resolve(bo_context *context, const bo_sampler_desc *desc, bo_sampler_desc *out)
{
#define REFUSE(...) return bo_fail(context, BO_INVALID, "sampler: " __VA_ARGS__)
    *out = desc ? *desc : (bo_sampler_desc){0};
    BO_TRY(bo_check_reserved(context, "bo_sampler_desc", out->reserved));
    if (!isfinite(out->temperature) || out->temperature < 0)
        REFUSE("temperature must be a positive number (0: 1), found %g", out->temperature);
    if (!(out->top_p >= 0 && out->top_p <= 1)) REFUSE("top_p must be in (0, 1] (0: 1), found %g", out->top_p);
    if (!(out->min_p >= 0 && out->min_p <= 1)) REFUSE("min_p must be in [0, 1], found %g", out->min_p);
    if (!isfinite(out->repetition_penalty) || out->repetition_penalty < 0)
        REFUSE("repetition_penalty must be a positive number (0: 1), found %g", out->repetition_penalty);
    if (out->temperature == 0) out->temperature = 1;
    if (out->top_p == 0) out->top_p = 1;
    if (out->repetition_penalty == 0) out->repetition_penalty = 1;
    if (out->window == 0) out->window = WINDOW;
    return BO_OK;
#undef REFUSE
}

bo_status bo_sampler_create(bo_context *context, const bo_sampler_desc *desc, bo_sampler **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, out);
    bo_sampler_desc resolved;
    BO_TRY(resolve(context, desc, &resolved));
    bo_sampler *sampler = bo_alloc(context, 1, sizeof *sampler, "a sampler");
    if (!sampler) return BO_MEMORY;
    sampler->desc = resolved;
    sampler->drawn = resolved.drawn;
    sampler->kernels = bo_context_kernels(context);
    sampler->recent =
        bo_alloc(context, resolved.window, sizeof *sampler->recent, "the tokens that a sampler remembers");
    if (!sampler->recent) {
        bo_sampler_destroy(sampler);
        return BO_MEMORY;
    }
    *out = sampler;
    return BO_OK;
}

void bo_sampler_destroy(bo_sampler *sampler)
{
    if (!sampler) return;
    bo_free(sampler->recent);
    bo_free(sampler);
}

void bo_sampler_remember(bo_sampler *sampler, int32_t id)
{
    if (!sampler) return;
    sampler->recent[sampler->remembered++ % sampler->desc.window] = id;
}

uint64_t bo_sampler_drawn(const bo_sampler *sampler)
{
    return sampler ? sampler->drawn : 0;
}

/* ---- logits ------------------------------------------------------------------------------------------------------ */

/* Penalizes each recent token once (1909.05858). */
static void penalize(const bo_sampler *sampler, float *logits, size_t vocab)
{
    const float penalty = (float)sampler->desc.repetition_penalty;
    const uint64_t remembered = sampler->remembered;
    const size_t count = remembered < sampler->desc.window ? (size_t)remembered : sampler->desc.window;
    for (size_t i = 0; i < count; i++) {
        int32_t id = sampler->recent[i];
        bool before = id < 0 || (size_t)id >= vocab;
        for (size_t j = 0; !before && j < i; j++) before = sampler->recent[j] == id;
        if (!before) logits[id] = logits[id] > 0 ? logits[id] / penalty : logits[id] * penalty;
    }
}

/* Replaces NaN by -INFINITY. Returns the index of the largest logit, the first if there are several; vocab: there is
 * none. The maximum is found in lanes that the compiler vectorizes. */
static size_t find_largest(float *logits, size_t vocab)
{
    enum { LANES = 16 };
    float lanes[LANES], top = -INFINITY;
    for (size_t l = 0; l < LANES; l++) lanes[l] = -INFINITY;
    for (size_t i = 0; i < vocab; i++)
        if (isnan(logits[i])) logits[i] = -INFINITY;
    for (size_t i = 0; i + LANES <= vocab; i += LANES)
        for (size_t l = 0; l < LANES; l++) lanes[l] = logits[i + l] > lanes[l] ? logits[i + l] : lanes[l];
    for (size_t i = vocab / LANES * LANES; i < vocab; i++) top = logits[i] > top ? logits[i] : top;
    for (size_t l = 0; l < LANES; l++) top = lanes[l] > top ? lanes[l] : top;
    size_t best = 0;
    while (best < vocab && !(logits[best] > -INFINITY && logits[best] == top)) best++;
    return best;
}

/* ---- top-k and top-p --------------------------------------------------------------------------------------------- */

/* Maps floats to integers in the same order. */
static uint32_t rank_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* Keeps the `target` largest numbers (by_weight: the largest numbers up to the sum `target`) and sets the others to
 * `out`. Ties are kept in the order of the ids. A radix search finds the smallest kept number, eight bits at a time. */
static void keep_largest(float *numbers, size_t vocab, bool by_weight, double target, float out)
{
    uint32_t prefix = 0;
    double above = 0; /* sum over ranks larger than all those that start with prefix */
    for (int shift = 24; shift >= 0; shift -= 8) {
        double bins[256] = {0};
        for (size_t i = 0; i < vocab; i++) {
            uint32_t rank = rank_of(numbers[i]);
            bool inside = shift == 24 || rank >> (shift + 8) == prefix >> (shift + 8);
            if (inside && numbers[i] > out) bins[rank >> shift & 255] += by_weight ? (double)numbers[i] : 1;
        }
        int bin = 255;
        while (bin > 0 && above + bins[bin] < target) above += bins[bin--];
        prefix |= (uint32_t)bin << shift;
    }
    for (size_t i = 0; i < vocab; i++) {
        uint32_t rank = rank_of(numbers[i]);
        if (rank > prefix) continue;
        if (rank == prefix && above < target)
            above += by_weight ? (double)numbers[i] : 1;
        else
            numbers[i] = out;
    }
}

/* Sums in lanes that the compiler vectorizes. */
static double sum(const float *weights, size_t count)
{
    enum { LANES = 8 };
    double lanes[LANES] = {0}, total = 0;
    for (size_t i = 0; i + LANES <= count; i += LANES)
        for (size_t l = 0; l < LANES; l++) lanes[l] += (double)weights[i + l];
    for (size_t i = count / LANES * LANES; i < count; i++) total += (double)weights[i];
    for (size_t l = 0; l < LANES; l++) total += lanes[l];
    return total;
}

/* ---- random draw ------------------------------------------------------------------------------------------------- */

/* The token is found by sums over blocks, then within its block. */
static size_t draw(bo_sampler *sampler, const float *weights, size_t vocab, size_t best)
{
    enum { BLOCK = 256 };
    bo_rng rng = bo_rng_make(sampler->desc.seed, bo_rng_stream("sampler", 0));
    rng.next = sampler->drawn;
    double left = bo_rng_uniform(&rng) * sum(weights, vocab);
    sampler->drawn = rng.next;
    for (size_t first = 0; first < vocab; first += BLOCK) {
        const size_t end = bo_min(first + BLOCK, vocab);
        const double block = sum(weights + first, end - first);
        if (block <= left) {
            left -= block;
            continue;
        }
        for (size_t i = first; i < end; i++) {
            left -= (double)weights[i];
            if (left < 0 && weights[i] > 0) return i;
        }
    }
    return best;
}

/* Makes weights of logits, relative to the largest one. */
static void weigh(const bo_sampler *sampler, float *logits, size_t vocab, float largest)
{
    const double temperature = sampler->desc.temperature;
    const bool divides = temperature != 1;
    for (size_t i = 0; divides && i < vocab; i++)
        logits[i] = (float)(((double)logits[i] - (double)largest) / temperature);
    sampler->kernels->exp_shift(vocab, logits, divides ? 0 : -largest, logits);
}

static size_t choose(bo_sampler *sampler, float *logits, size_t vocab)
{
    const bo_sampler_desc *d = &sampler->desc;
    if (d->repetition_penalty != 1) penalize(sampler, logits, vocab);
    size_t best = find_largest(logits, vocab);
    if (best == vocab) return 0;
    if (d->greedy || isinf(logits[best])) return best;
    const float largest = logits[best];
    if (d->top_k && d->top_k < vocab) keep_largest(logits, vocab, false, (double)d->top_k, -INFINITY);
    weigh(sampler, logits, vocab, largest);
    if (d->top_p < 1) keep_largest(logits, vocab, true, d->top_p * sum(logits, vocab), 0);
    for (size_t i = 0; d->min_p > 0 && i < vocab; i++) /* the most likely token has weight 1 */
        if ((double)logits[i] < d->min_p) logits[i] = 0;
    return draw(sampler, logits, vocab, best);
}

int32_t bo_sampler_next(bo_sampler *sampler, float *logits, size_t vocab)
{
    if (!sampler || (vocab > 0 && !logits)) return -1;
    int32_t id = (int32_t)choose(sampler, logits, vocab);
    bo_sampler_remember(sampler, id);
    return id;
}
