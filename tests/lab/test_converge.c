/* Training until convergence: when it ends, and what it reports. The balance of parameters. */
#include "testing.h"
#include "lab/degree/degree.h"
#include "lab/degree/mixing_tasks.h"
#include "lab/internal.h"
#include "lab/tools/converge.h"

typedef struct place {
    lab_job job;
    lab_run run;
    lab_mixing_rows rows;
    bo_model *network;
    size_t improved;
    double part;
} place;

/* A linear network, which cannot learn a parity of two signs, or which learns a parity of one. */
static void open_place(place *p, bo_context *context, size_t signs)
{
    static const char model[] = "{\"input\": {\"kind\": \"array\", \"standardize\": false}, \"layers\": [{\"type\": "
                                "\"linear\", \"width\": \"classes\"}], \"loss\": \"cross-entropy\"}";
    *p = (place){.job = {.options = {.seed = 5}, .context = context}};
    p->run = (lab_run){.job = &p->job, .context = context};
    const lab_mixing_desc desc = {.kind = LAB_MIXING_PARITY, .places = signs, .rows = 400};
    assert_ok(context, lab_mixing_rows_open(&p->run, &desc, &p->rows));
    const bo_description network = {.text = model, .examples = p->rows.examples, .seed = 1};
    assert_ok(context, bo_model_create_described(context, &network, &p->network));
}

static void close_place(place *p)
{
    bo_model_destroy(p->network);
    lab_mixing_rows_close(&p->rows);
}

static bo_status improved(void *user)
{
    ((place *)user)->improved++;
    return BO_OK;
}

static bo_status report(void *user, double part)
{
    place *p = user;
    assert_true(part > p->part && part <= 1);
    p->part = part;
    return BO_OK;
}

static lab_converged train(place *p, bo_context *context, lab_patience rule)
{
    lab_converged out;
    const bo_trainer_desc desc = {.model = p->network,
                                  .train.examples = p->rows.examples,
                                  .valid.examples = p->rows.examples,
                                  .optimizer = {.kind = BO_OPTIMIZER_ADAMW, .rate = 0.02},
                                  .batch = 16};
    rule.improved = improved, rule.report = report, rule.user = p;
    assert_ok(context, lab_converge(&p->run, &desc, &rule, &out));
    return out;
}

/* Training on an unlearnable task ends by patience, with a loss near ln 2: at least patience · every steps per phase.
 */
static void test_patience(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    place p;
    open_place(&p, context, 2);
    const lab_converged out =
        train(&p, context, (lab_patience){.every = 10, .max_steps = 100000, .phases = 2, .patience = 3, .gain = 0.002});
    assert_true(out.settled && !out.diverged);
    assert_true(out.steps >= 60 && out.steps < 100000 && out.steps % 10 == 0);
    assert_true(out.best > 0 && out.best <= out.steps && p.improved > 0);
    assert_close(out.loss, log(2), 0.05);
    close_place(&p);
    bo_context_destroy(context);
}

static void test_solved_and_limit(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    place p;
    open_place(&p, context, 1);
    const lab_converged limited =
        train(&p, context, (lab_patience){.every = 10, .max_steps = 25, .phases = 3, .patience = 9, .gain = 0.002});
    assert_true(!limited.settled && limited.steps == 25 && limited.best == 25 && p.improved == 3);
    assert_close(p.part, 1, 0);
    p.part = 0;
    const lab_converged solved = train(
        &p, context,
        (lab_patience){.every = 10, .max_steps = 5000, .phases = 3, .patience = 9, .gain = 0.002, .solved = 0.05});
    assert_true(solved.settled && solved.loss <= 0.05 && solved.steps < 5000 && solved.best == solved.steps);
    close_place(&p);
    bo_context_destroy(context);
}

/* ---- budgets ----------------------------------------------------------------------------------------------------- */

/* Three layers of w x w numbers and one of w x (w + more). */
static bo_status count(void *user, lab_degree_shape shape, double *parameters)
{
    (void)user;
    const double w = (double)shape.width;
    *parameters = 3 * w * w + w * (w + shape.more);
    return BO_OK;
}

static void test_balance(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    place p = {.job = {.context = context}};
    lab_degree_shape shape;
    double found;
    p.run = (lab_run){.job = &p.job, .context = context};
    for (double budget = 1500; budget < 3000; budget += 41) {
        assert_ok(context, lab_degree_balance(&p.run, count, NULL, 24, budget, &shape));
        assert_ok(context, count(NULL, shape, &found));
        assert_true(fabs(found / budget - 1) <= 0.005);
    }
    assert_ok(context, lab_degree_balance(&p.run, count, NULL, 24, 4 * 24 * 24, &shape));
    assert_true(shape.width == 24 && shape.more == 0);
    assert_fails(context, BO_INVALID, "no width near 24", lab_degree_balance(&p.run, count, NULL, 24, 1e6, &shape));
    bo_context_destroy(context);
}

static void test_margins(void **state)
{
    (void)state;
    const double numbers[LAB_DEGREES] = {[LAB_D2] = 4, [LAB_DE] = 0.5, [LAB_D3] = 1, [LAB_D4] = 2};
    assert_close(lab_degree_margin_3(numbers), log(2), 1e-15);
    assert_close(lab_degree_margin_e(numbers), log(2), 1e-15);
    assert_close(lab_degree_spread(numbers), 7, 1e-15);
    assert_int_equal(lab_degree_layers(LAB_WRITTEN, LAB_D3, 12), 4);
    assert_int_equal(lab_degree_layers(LAB_WRITTEN, LAB_DE, 12), 6);
    assert_int_equal(lab_degree_layers(LAB_OUTPUT, LAB_D4, 24), 5);
    assert_int_equal(lab_degree_layers(LAB_OUTPUT, LAB_D4, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_patience), cmocka_unit_test(test_solved_and_limit),
                                       cmocka_unit_test(test_balance), cmocka_unit_test(test_margins)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
