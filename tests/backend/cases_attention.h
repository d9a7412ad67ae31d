/* Test cases of attention with their reference: trials of tests/attention. Their float64 reference has analytic
 * gradients, which are checked against finite differences there. */
#ifndef BO_TEST_BACKEND_CASES_ATTENTION_H
#define BO_TEST_BACKEND_CASES_ATTENTION_H

#include <bochner/names.h>
#include "harness.h"
#include "attention/verify.h"
#include "attention/kind_cases.h"

/* Inputs after q, k, v in the order of bo_attention_given. */
static const trial_array attention_given[] = {LOG_GATE, SIGMA, M, MIX, BETA, LOG_DECAY, LAMBDA, M_K, BIAS, BIAS_K};
enum { ATTENTION_GIVEN = sizeof attention_given / sizeof *attention_given };

/* The array of input k, given the arrays that are present. */
static inline trial_array attention_input(const trial *t, size_t k)
{
    static const trial_array always[] = {Q, K, V};
    if (k < 3) return always[k];
    for (size_t i = 0, at = 3; i < ATTENTION_GIVEN; i++)
        if (t->count[attention_given[i]] && at++ == k) return attention_given[i];
    fail_msg("%s: no input %zu", t->desc.name, k);
    return OUT;
}

static inline unsigned attention_bits(const trial *t)
{
    unsigned bits = 0;
    for (size_t i = 0; i < ATTENTION_GIVEN; i++) bits |= (unsigned)(t->count[attention_given[i]] > 0) << i;
    return bits;
}

static inline plain_tensor attention_tensor(const trial *t, trial_array which)
{
    bool queries = which == Q || which == OUT, keys = !queries && which < SIGMA;
    plain_tensor p = {.rows = queries ? t->queries_total : keys ? t->keys_total : 1};
    p.columns = t->count[which] / (p.rows ? p.rows : 1);
    p.x = plain_zeros(t->count[which]);
    for (size_t i = 0; i < t->count[which]; i++) p.x[i] = (double)t->array[which][i];
    return p;
}

static inline plain_op attention_plain(const trial *t, const bo_attention_attributes *attributes)
{
    plain_op op = {.kind = BO_OPERATION_ATTENTION, .attributes = attributes, .inputs = 3, .outputs = 1};
    for (unsigned bits = attributes->given; bits; bits >>= 1) op.inputs += bits & 1;
    for (size_t k = 0; k < op.inputs; k++) op.in[k] = attention_tensor(t, attention_input(t, k));
    op.out[0] = attention_tensor(t, OUT);
    return op;
}

static inline void attention_copy(truth_array *a, const double *from, size_t shake)
{
    memcpy(truth_slot(a, shake), from, a->rows * a->columns * sizeof *from);
}

/* Uses the reference of attention and its perturbation. */
static inline op_truth attention_truth(const op_case *c, const trial *t, const plain_op *op)
{
    op_truth found = truth_begin(c, op);
    for (size_t i = 0; i < t->count[OUT]; i++) t->gradient[OUT][i] = (float)found.dout[0][i];
    verify_expected verdict = verify_make(t);
    for (size_t shake = 0; shake <= TRUTH_SHAKES; shake++) {
        const trial_result *a = shake ? &verdict.shaken[shake - 1] : &verdict.truth;
        attention_copy(&found.out[0], a->out, shake);
        for (size_t k = 0; k < op->inputs; k++)
            attention_copy(&found.gradient[0][k], a->gradient[attention_input(t, k)], shake);
    }
    verify_drop(&verdict);
    truth_tolerances(&found, t->queries_total * t->d->heads / t->d->key_heads, 0);
    return found;
}

/* Converts a trial in layout TOKENS_FIRST to a case. `lengths`: sequence lengths come from the pass instead of the
 * attributes. */
static inline void attention_check(harness *h, const trial_desc *desc, bool lengths)
{
    const bo_op *op = bo_backend_of(h->device)->ops[BO_OPERATION_ATTENTION];
    if (!op) return; /* test_ops_all.c reports this */
    trial t = trial_make(h->contexts[1], desc);
    bo_attention_attributes attributes = {.attention = t.attention, .given = attention_bits(&t)};
    attributes.tokens = desc->shape.lengths ? 0 : desc->shape.tokens;
    attributes.key_tokens = desc->shape.lengths ? 0 : desc->shape.key_tokens;
    attributes.cross = desc->across;
    attributes.max_sequences = lengths ? desc->shape.sequences + 1 : 0;
    op_case c = {.name = desc->name, .op = BO_OPERATION_ATTENTION, .attributes = &attributes, .seed = desc->seed};
    if (lengths) c.pass.sequences = desc->shape.sequences, c.pass.lengths = t.queries;
    if (lengths && desc->across) c.pass.source_lengths = t.keys;
    plain_op plain = attention_plain(&t, &attributes);
    if (harness_supports(h->contexts[0], op, &plain)) {
        op_truth found = attention_truth(&c, &t, &plain);
        harness_compare(h, op, &c, &plain, &found);
        truth_drop(&found);
        h->cases++;
    }
    op_drop(&plain);
    trial_drop(&t);
}

/* ---- the cases --------------------------------------------------------------------------------------------------- */

/* The named preset with the requested number of features; fewer if the map fixes their number. */
static inline bo_attention_desc attention_preset(bo_context *context, const char *name, bo_attention_desc desc)
{
    bo_attention *attention = NULL;
    assert_true(bo_attention_preset(name, &desc));
    desc.causal = true, desc.features.seed = 5;
    if (desc.kind == BO_ATTENTION_HYBRID) desc.window = 6;
    if (bo_attention_create(context, &desc, &attention) != BO_OK) desc.features.features = 16;
    bo_attention_destroy(attention);
    return desc;
}

/* Every preset: one sequence, several of equal length, packed ones; grouped heads; with and without parameters. */
static inline void cases_attention_presets(harness *h)
{
    static const size_t packed[] = {5, 0, 1, 17};
    char name[128];
    const char *preset;
    for (size_t i = 0; (preset = bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)i)); i++)
        for (size_t n = 0; n < 4; n++) {
            bo_attention_desc shape = {.heads = n % 2 ? 4 : 2, .key_heads = n % 2 ? 2 : 0, .dim = n == 2 ? 8 : 5};
            shape.value_dim = n % 2 ? 3 : 0;
            trial_desc desc = {.attention = attention_preset(h->contexts[1], preset, shape),
                               .shape = {.sequences = 1, .tokens = 19, .layout = BO_LAYOUT_TOKENS_FIRST},
                               .no_parameters = n == 2,
                               .seed = i};
            snprintf(name, sizeof name, "%s, case %zu", preset, n);
            desc.name = name;
            if (n == 1) desc.shape.sequences = 3, desc.shape.tokens = 7;
            if (n == 3) desc.shape = (bo_attention_shape){4, .lengths = packed, .layout = BO_LAYOUT_TOKENS_FIRST};
            attention_check(h, &desc, n >= 2);
        }
}

/* Every kind with every map, gate and window, and kinds without a causal mask. */
static inline void cases_attention_kinds(harness *h)
{
    for (size_t i = 0; i < KINDS; i++) {
        trial_desc desc = {.name = kinds[i].name,
                           .attention = kind_desc(&kinds[i], 4, 2, 6, 5, i % 2, 14),
                           .shape = {.sequences = 2, .tokens = 11, .layout = BO_LAYOUT_TOKENS_FIRST},
                           .one_map = i % 3 == 1,
                           .seed = i};
        attention_check(h, &desc, i % 2);
    }
}

/* |q| = |k| = 30: exponents of several hundred; and lengths of several chunks. */
static inline void cases_attention_extremes(harness *h)
{
    static const char *const names[] = {"softmax",     "favor", "rfa-gate", "hybrid", "hedgehog, convex",
                                        "gated delta", "ridge", "gla",      "power"};
    char name[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t n = 0; n < 2; n++) {
            trial_desc desc = {.attention = kind_desc(kind_named(names[i]), 2, 1, 8, 4, true, 16),
                               .shape = {.sequences = 1, .tokens = n ? 150 : 20, .layout = BO_LAYOUT_TOKENS_FIRST},
                               .norm = n ? 0 : 30,
                               .seed = i};
            snprintf(name, sizeof name, "%s, %s", names[i], n ? "long" : "norm 30");
            desc.name = name;
            attention_check(h, &desc, n);
        }
}

/* Queries of one stream and keys of another: every preset with a causal mask, which reads the source into states, and
 * without mask if the kind supports it; sequences without queries, without keys, and with different numbers of both. */
static inline void cases_attention_across(harness *h)
{
    static const size_t queries[] = {5, 0, 1, 9, 3}, keys[] = {2, 4, 7, 0, 70};
    char name[128];
    const char *preset;
    for (size_t i = 0; (preset = bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)i)); i++)
        for (size_t n = 0; n < 4; n++) {
            bo_attention_desc shape = {.heads = 4, .key_heads = n % 2 ? 2 : 0, .dim = 5, .value_dim = n % 2 ? 3 : 0};
            trial_desc desc = {
                .attention = attention_preset(h->contexts[1], preset, shape),
                .shape = {.sequences = 2, .tokens = 3, .key_tokens = 8, .layout = BO_LAYOUT_TOKENS_FIRST},
                .across = true,
                .one_map = n == 2,
                .seed = i};
            snprintf(name, sizeof name, "%s across, case %zu", preset, n);
            desc.name = name, desc.attention.chunk = n == 1 ? 4 : 0;
            if (n % 2)
                desc.shape =
                    (bo_attention_shape){5, .lengths = queries, .key_lengths = keys, .layout = BO_LAYOUT_TOKENS_FIRST};
            bo_attention *free_order = NULL;
            if (n >= 2) desc.attention.causal = false, desc.attention.window = 0;
            if (bo_attention_create(h->contexts[1], &desc.attention, &free_order) != BO_OK) continue;
            bo_attention_destroy(free_order);
            attention_check(h, &desc, n % 2);
        }
}

#endif
