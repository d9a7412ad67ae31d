/* Every optimizer reduces a least-squares problem: min |W X - Y|² / n, with Y = W* X. */
#include "optim/enums.h"
#include "testing.h"
#include "optim/optim.h"
#include "math/linalg.h"

enum { OUT = 12, IN = 20, ROWS = 64, STEPS = 300 };

typedef struct problem {
    float x[ROWS * IN], y[ROWS * OUT], residual[ROWS * OUT];
} problem;

static void create(bo_context *context, problem *p)
{
    float truth[OUT * IN];
    bo_rng rng = bo_rng_make(1, 1);
    for (size_t i = 0; i < ROWS * IN; i++) p->x[i] = (float)bo_rng_normal(&rng);
    for (size_t i = 0; i < OUT * IN; i++) truth[i] = (float)(bo_rng_normal(&rng) / sqrt(IN));
    assert_ok(context, bo_gemm(context, false, true, ROWS, OUT, IN, 1, p->x, IN, truth, IN, 0, p->y, OUT));
}

/* The loss at w, and its gradient. */
static double evaluate(bo_context *context, problem *p, const bo_weight *w)
{
    double loss = 0;
    memcpy(p->residual, p->y, sizeof p->y);
    assert_ok(context, bo_gemm(context, false, true, ROWS, OUT, IN, 1, p->x, IN, w->data, IN, -1, p->residual, OUT));
    for (size_t i = 0; i < ROWS * OUT; i++) loss += (double)p->residual[i] * p->residual[i] / ROWS;
    assert_ok(context, bo_gemm(context, true, false, OUT, IN, ROWS, 2.0f / ROWS, p->residual, OUT, p->x, IN, 0,
                               w->gradient, IN));
    return loss;
}

/* The loss after the steps, relative to the initial loss. */
static double descend(bo_context *context, problem *p, const bo_optimizer_desc *desc)
{
    static const bo_schedule schedule = {.kind = BO_SCHEDULE_LINEAR};
    bo_weights *weights;
    bo_optimizer *optimizer;
    size_t index;
    bo_weight_desc weight = {.name = "w", .rows = OUT, .columns = IN, .rank = 2, .shape = (size_t[]){OUT, IN}};
    assert_ok(context, bo_weights_create(context, &weights));
    assert_ok(context, bo_weights_declare(context, weights, &weight, &index));
    assert_ok(context, bo_weights_allocate(context, weights, true));
    assert_ok(context, bo_optimizer_create(context, desc, weights, &optimizer));
    const bo_weight *w = bo_weights_at(weights, index);
    double start = evaluate(context, p, w), loss = start, norm;
    for (uint64_t t = 0; t < STEPS; t++) {
        assert_ok(context, bo_optimizer_step(context, optimizer, bo_schedule_factor(&schedule, t, STEPS), &norm));
        loss = evaluate(context, p, w);
    }
    bo_optimizer_destroy(optimizer);
    bo_weights_destroy(weights);
    return loss / start;
}

static void test_descent(void **state)
{
    (void)state;
    static const bo_optimizer_desc descs[] = {
        {.kind = BO_OPTIMIZER_MUON, .rate = 0.1},
        {.kind = BO_OPTIMIZER_MUON, .rate = 0.1, .iteration = BO_MUON_ITERATION_CUBIC},
        {.kind = BO_OPTIMIZER_ADAMW, .rate = 0.03},
        {.kind = BO_OPTIMIZER_SGD, .rate = 0.02},
        {.kind = BO_OPTIMIZER_SGD, .rate = 0.1, .momentum = -1},
        {.kind = BO_OPTIMIZER_SIGN, .rate = 0.01},
        {.kind = BO_OPTIMIZER_LINF, .rate = 0.005, .clip = -1},
    };
    bo_context *context = test_context(1);
    static problem p;
    create(context, &p);
    for (size_t i = 0; i < sizeof descs / sizeof *descs; i++) {
        double left = descend(context, &p, &descs[i]);
        if (!(left < 0.01))
            fail_msg("%s at %g leaves %g of the loss", bo_optimizer_kind_name(descs[i].kind), descs[i].rate, left);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_descent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
