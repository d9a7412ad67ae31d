/* Standard deviations, factors and learning rates of every kind of weight compared with the table of
 * docs/guides/parametrization.md. */
#include "testing.h"
#include "optim/internal.h"

/* A weight at width 32 and at the base width 8, and its values under the maximal-update parametrization, with m = 4. */
typedef struct expectation {
    bo_weight_desc weight;
    size_t base[2];
    double deviation, scale; /* relative to the base */
    double adamw, sgd, linf; /* relative to the learning rate */
    double muon;             /* its factor; 0: not trained by Muon */
} expectation;

#define ROOT2 1.4142135623730951

static const expectation expected[] = {
    {{.name = "embed", .rank = 2, .shape = (size_t[]){30, 32}, .role = BO_WEIGHT_ROLE_EMBEDDING},
     {30, 8},
     1,
     1,
     1,
     4,
     1,
     0},
    {{.name = "square", .rank = 2, .shape = (size_t[]){32, 32}}, {8, 8}, 0.5, 1, 0.25, 1, 0.0625, 1},
    {{.name = "up", .rank = 2, .shape = (size_t[]){128, 32}}, {32, 8}, 0.5, 1, 0.25, 1, 0.0625, 2},
    {{.name = "down", .rank = 2, .shape = (size_t[]){32, 128}}, {8, 32}, 0.5, 1, 0.25, 1, 0.0625, 1},
    /* a constant fan-out: the low rank of a gate. Twice as tall as wide in the base: √2, times √(1/4) */
    {{.name = "narrow", .rank = 2, .shape = (size_t[]){16, 32}}, {16, 8}, 0.25, 1, 0.25, 0.25, 0.0625, ROOT2 / 2},
    /* a constant fan-in: pixels */
    {{.name = "input", .rank = 2, .shape = (size_t[]){32, 9}}, {8, 9}, 1, 1, 1, 4, 1, 2},
    {{.name = "gate", .rank = 2, .shape = (size_t[]){4, 32}, .role = BO_WEIGHT_ROLE_VECTOR},
     {1, 8},
     0.5,
     1,
     0.25,
     1,
     0.0625,
     0},
    {{.name = "forms", .rank = 2, .shape = (size_t[]){32, 1024}}, {8, 64}, 0.25, 1, 0.0625, 0.25, 0.00390625, 0.5},
    {{.name = "sigma", .rank = 2, .shape = (size_t[]){4, 8}, .role = BO_WEIGHT_ROLE_VECTOR}, {1, 8}, 1, 1, 1, 4, 1, 0},
    {{.name = "m", .rank = 3, .shape = (size_t[]){4, 8, 8}, .role = BO_WEIGHT_ROLE_VECTOR}, {8, 8}, 1, 1, 1, 4, 1, 0},
    {{.name = "gain", .rank = 1, .shape = (size_t[]){32}, .role = BO_WEIGHT_ROLE_VECTOR}, {1, 8}, 1, 1, 1, 4, 1, 0},
    {{.name = "head", .rank = 2, .shape = (size_t[]){30, 32}, .role = BO_WEIGHT_ROLE_HEAD},
     {30, 8},
     1,
     0.25,
     1,
     4,
     1,
     0},
    {{.name = "class", .rank = 2, .shape = (size_t[]){1, 32}, .role = BO_WEIGHT_ROLE_HEAD},
     {1, 8},
     1,
     0.25,
     1,
     4,
     1,
     0},
};
enum { EXPECTED = sizeof expected / sizeof *expected };

static void declare(bo_context *context, bo_weights *weights, bo_weight_desc desc)
{
    size_t index;
    desc.init = (bo_weight_init){.kind = BO_WEIGHT_INIT_KIND_NORMAL, .a = 0.5, .b = 0.3};
    assert_ok(context, bo_weights_declare(context, weights, &desc, &index));
}

static bo_weights *create(bo_context *context, bo_rules rules)
{
    bo_weights *weights;
    assert_ok(context, bo_weights_create(context, &weights));
    if (rules.kind == BO_PARAMETRIZATION_MUP) {
        assert_ok(context, bo_weights_create(context, &rules.base));
        for (size_t i = 0; i < EXPECTED; i++) {
            bo_weight_desc base = expected[i].weight;
            size_t shape[] = {expected[i].base[0], expected[i].base[1], 0};
            if (base.rank == 3) shape[0] = 1, shape[1] = base.shape[1], shape[2] = base.shape[2];
            if (base.rank == 1) shape[0] = expected[i].base[1];
            base.shape = shape;
            declare(context, rules.base, base);
        }
    }
    bo_weights_set_rules(weights, &rules);
    for (size_t i = 0; i < EXPECTED; i++) declare(context, weights, expected[i].weight);
    return weights;
}

static bo_optim_part part_of(bo_optimizer_kind kind, const bo_weight *weight)
{
    bo_optimizer_desc desc = {.kind = kind, .rate = 1, .other_rate = 1, .decay = 0.125};
    bo_optim_part part;
    assert_true(bo_optim_part_init(&desc, weight, &part));
    return part;
}

static void expect(const char *name, const char *label, double found, double reference)
{
    if (!(fabs(found - reference) <= 1e-12 * reference))
        fail_msg("%s, %s: found %g, expected %g", name, label, found, reference);
}

static void follows_the_table(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_weights *weights = create(context, (bo_rules){.kind = BO_PARAMETRIZATION_MUP});
    for (size_t i = 0; i < EXPECTED; i++) {
        const expectation *e = &expected[i];
        const bo_weight *w = bo_weights_at(weights, i);
        expect(w->name, "deviation", w->init.b, 0.3 * e->deviation);
        expect(w->name, "mean", w->init.a, 0.5);
        expect(w->name, "factor", w->scale, e->scale);
        expect(w->name, "AdamW's rate", part_of(BO_OPTIMIZER_ADAMW, w).rate, e->adamw);
        expect(w->name, "the rate of signs", part_of(BO_OPTIMIZER_SIGN, w).rate, e->adamw);
        expect(w->name, "SGD's rate", part_of(BO_OPTIMIZER_SGD, w).rate, e->sgd);
        expect(w->name, "the rate in ℓ∞", part_of(BO_OPTIMIZER_LINF, w).rate, e->linf);
        bo_optim_part muon = part_of(BO_OPTIMIZER_MUON, w);
        expect(w->name, "Muon's rate", muon.rate, e->muon > 0 ? 1 : e->adamw);
        if (e->muon > 0)
            expect(w->name, "Muon's factor", bo_optim_part_shape_factor(&(bo_optimizer_desc){0}, &muon), e->muon);
        /* weight decay does not depend on the width */
        for (bo_optimizer_kind kind = 0; kind < BO_OPTIMIZER_COUNT; kind++) {
            bo_optim_part part = part_of(kind, w);
            expect(w->name, "decay", part.rate * part.decay, w->role == BO_WEIGHT_ROLE_VECTOR ? 0 : 0.125);
        }
    }
    bo_weights_destroy(weights);
    bo_context_destroy(context);
}

/* Without a base, or under the standard parametrization, everything is as declared. */
static void base_is_standard(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_weights *weights = create(context, (bo_rules){0});
    for (size_t i = 0; i < EXPECTED; i++) {
        const bo_weight *w = bo_weights_at(weights, i);
        expect(w->name, "deviation", w->init.b, 0.3);
        expect(w->name, "factor", w->scale, 1);
        for (bo_optimizer_kind kind = 0; kind < BO_OPTIMIZER_COUNT; kind++)
            expect(w->name, "rate", part_of(kind, w).rate, 1);
    }
    bo_weights_destroy(weights);
    bo_context_destroy(context);
}

/* Unit scale with base_width 8: a step changes products by η 8, for any factor of the weight. */
static void unit_rates(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_weights *weights;
    assert_ok(context, bo_weights_create(context, &weights));
    bo_weights_set_rules(weights, &(bo_rules){.kind = BO_PARAMETRIZATION_UNIT, .base_width = 8});
    const struct {
        bo_weight_desc weight;
        double rate, muon;
    } list[] = {
        {{.name = "scaled", .rank = 2, .shape = (size_t[]){64, 16}, .scale = 0.25},
         2,
         2 / 0.25},                                                          /* 8 / √16; √(64/16) / s */
        {{.name = "plain", .rank = 2, .shape = (size_t[]){16, 16}}, 0.5, 1}, /* 8 / 16 */
        {{.name = "embed", .rank = 2, .shape = (size_t[]){30, 16}, .role = BO_WEIGHT_ROLE_EMBEDDING}, 2, 0},
        {{.name = "head", .rank = 2, .shape = (size_t[]){30, 16}, .role = BO_WEIGHT_ROLE_HEAD, .scale = 0.0625}, 8, 0},
        {{.name = "sigma", .rank = 2, .shape = (size_t[]){4, 4}, .role = BO_WEIGHT_ROLE_VECTOR}, 1, 0},
        {{.name = "gate", .rank = 2, .shape = (size_t[]){4, 16}, .role = BO_WEIGHT_ROLE_VECTOR, .scale = 0.25}, 2, 0},
        {{.name = "gain", .rank = 1, .shape = (size_t[]){16}, .role = BO_WEIGHT_ROLE_VECTOR}, 1, 0},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        declare(context, weights, list[i].weight);
        const bo_weight *w = bo_weights_at(weights, i);
        expect(w->name, "AdamW's rate", part_of(BO_OPTIMIZER_ADAMW, w).rate, list[i].rate);
        if (list[i].muon == 0) continue;
        bo_optim_part muon = part_of(BO_OPTIMIZER_MUON, w);
        expect(w->name, "Muon's factor", bo_optim_part_shape_factor(&(bo_optimizer_desc){0}, &muon), list[i].muon);
    }
    assert_ok(context, bo_weights_allocate(context, weights, true));
    bo_optimizer *optimizer;
    for (int kind = 0; kind < 2; kind++)
        assert_fails(context, BO_INVALID, "unit-scaled",
                     bo_optimizer_create(context,
                                         &(bo_optimizer_desc){.kind = kind ? BO_OPTIMIZER_SGD : BO_OPTIMIZER_LINF},
                                         weights, &optimizer));
    bo_weights_destroy(weights);
    bo_context_destroy(context);
}

/* Gradients that are 1024 times larger, with the scale given to the optimizer, give the same steps and the same norm
 * bit by bit. */
static void gradient_scale_is_undone(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float after[2][6];
    double norms[2];
    for (int scaled = 0; scaled < 2; scaled++) {
        bo_weights *weights;
        bo_optimizer *optimizer;
        assert_ok(context, bo_weights_create(context, &weights));
        bo_weights_set_rules(weights, &(bo_rules){.gradient_scale = scaled ? 1024 : 0});
        declare(context, weights, (bo_weight_desc){.name = "w", .rank = 2, .shape = (size_t[]){2, 3}});
        assert_ok(context, bo_weights_allocate(context, weights, true));
        assert_ok(context, bo_weights_init(context, weights, 1));
        assert_ok(context,
                  bo_optimizer_create(context, &(bo_optimizer_desc){.kind = BO_OPTIMIZER_SGD}, weights, &optimizer));
        const bo_weight *w = bo_weights_at(weights, 0);
        for (int i = 0; i < 6; i++) ((float *)w->gradient)[i] = (float)(i + 1) * (scaled ? 1024 : 1);
        assert_ok(context, bo_optimizer_step(context, optimizer, 1, &norms[scaled]));
        memcpy(after[scaled], w->data, sizeof after[0]);
        bo_optimizer_destroy(optimizer);
        bo_weights_destroy(weights);
    }
    assert_memory_equal(after[0], after[1], sizeof after[0]);
    assert_close(norms[1], norms[0], 0);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_table),
        cmocka_unit_test(base_is_standard),
        cmocka_unit_test(unit_rates),
        cmocka_unit_test(gradient_scale_is_undone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
