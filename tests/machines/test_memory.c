/* Every allocation fails once: BO_MEMORY, nothing leaks, no crash, and a second call succeeds. */
#include "base/counting.h"
#include "oracle.h"
#include <bochner/drift.h>
#include <bochner/embedding.h>
#include <bochner/explain.h>
#include <unistd.h>

enum { ROWS = 20, DIM = 2, FEATURES = 8, NEW_ROWS = 10 };

typedef struct setting {
    counting counted;
    bo_context *context;
    bo_machine_desc desc;
    bo_samples samples;
    bo_machine *machine; /* used by predict, save and load */
    char path[64];
} setting;

typedef bo_status (*work_fn)(void *setting);

/* Allocations that only speed up a fit may fail without an error. */
static void inject_every(setting *s, work_fn work, size_t stride)
{
    counting_inject(&(injection){&s->counted, s->context, work, s, 100, stride, "the features of all rows"});
}

static void inject(setting *s, work_fn work)
{
    inject_every(s, work, 1);
}

static void open_setting(setting *s, bool classes)
{
    *s = (setting){.desc = {.features = {.features = FEATURES, .gamma = 0.5}, .lambda = 0.5, .seed = 1}};
    s->context = counting_context(&s->counted, 1);
    s->samples = classes ? oracle_classes(ROWS, DIM, 3, 2, 1) : oracle_regression(ROWS, DIM, 1, 0.2, 1);
    s->desc.solver = BO_SOLVER_PRIMAL;
}

static void close_setting(setting *s)
{
    bo_machine_destroy(s->machine);
    oracle_drop(&s->samples);
    bo_context_destroy(s->context);
    assert_true(s->counted.live == 0);
}

/* ---- fitting ----------------------------------------------------------------------------------------------------- */

static bo_status fit(void *what)
{
    setting *s = what;
    bo_machine *machine = (bo_machine *)s;
    bo_status status = bo_machine_fit(s->context, &s->desc, &s->samples, &machine);
    if (status != BO_OK) assert_null(machine);
    bo_machine_destroy(machine);
    return status;
}

static void test_fit(void **state)
{
    (void)state;
    for (int classes = 0; classes < 2; classes++)
        for (int solver = BO_SOLVER_PRIMAL; solver <= (classes ? BO_SOLVER_DUAL : BO_SOLVER_SGD); solver++) {
            setting s;
            open_setting(&s, classes);
            s.desc.solver = (bo_solver)solver;
            inject(&s, fit);
            close_setting(&s);
        }
}

static void test_fit_exact(void **state)
{
    (void)state;
    for (int classes = 0; classes < 2; classes++) {
        setting s;
        open_setting(&s, classes);
        s.desc.features.kernel = BO_KERNEL_NTK;
        s.desc.features.function = BO_FUNCTION_SECTIONS;
        s.desc.solver = BO_SOLVER_AUTO;
        inject(&s, fit);
        s.desc.solver = BO_SOLVER_CG;
        inject(&s, fit);
        s.desc.solver = BO_SOLVER_AUTO;
        s.desc.lambda = s.desc.features.gamma = 0;
        inject_every(&s, fit, 11);
        close_setting(&s);
    }
}

static void test_fit_adam(void **state)
{
    (void)state;
    setting s;
    open_setting(&s, false);
    s.desc.solver = BO_SOLVER_ADAM;
    inject_every(&s, fit, 17);
    close_setting(&s);
}

static void test_fit_logistic(void **state)
{
    (void)state;
    setting s;
    open_setting(&s, true);
    s.desc.loss = BO_LOSS_LOGISTIC;
    inject_every(&s, fit, 11);
    s.desc.lambda = 0;
    inject_every(&s, fit, 11);
    close_setting(&s);
}

static void test_fit_with_search(void **state)
{
    (void)state;
    setting s;
    open_setting(&s, false);
    s.desc.lambda = s.desc.features.gamma = 0;
    inject_every(&s, fit, 23);
    static const float class_weights[3] = {1, 2, 3};
    close_setting(&s);
    open_setting(&s, true);
    s.desc.class_weights = class_weights;
    s.desc.features.sampling = BO_SAMPLING_LEVERAGE;
    inject_every(&s, fit, 23);
    close_setting(&s);
}

/* Rows are held out only from 200 rows on. */
static void test_fit_held_out(void **state)
{
    (void)state;
    static const bo_solver solvers[] = {BO_SOLVER_CG, BO_SOLVER_SGD, BO_SOLVER_CG};
    for (size_t k = 0; k < 3; k++) {
        setting s;
        open_setting(&s, false);
        oracle_drop(&s.samples);
        s.samples = oracle_regression(200, DIM, 1, 0.2, 1);
        s.samples.weights = oracle_weights(200, 1);
        s.desc.solver = solvers[k];
        if (k == 2) s.desc.features.function = BO_FUNCTION_SECTIONS;
        inject_every(&s, fit, 11);
        close_setting(&s);
    }
}

static bo_status stream(void *what)
{
    setting *s = what;
    bo_fitting *one = NULL, *two = NULL;
    bo_machine *machine = NULL;
    bo_status status = bo_fitting_create(s->context, &s->desc, &s->samples, &one);
    if (status == BO_OK) status = bo_fitting_create(s->context, &s->desc, &s->samples, &two);
    if (status == BO_OK) status = bo_fitting_add(s->context, one, &s->samples);
    if (status == BO_OK) status = bo_fitting_add(s->context, two, &s->samples);
    if (status == BO_OK) status = bo_fitting_merge(s->context, one, two);
    if (status == BO_OK) status = bo_fitting_finish(s->context, one, &machine);
    if (status != BO_OK) assert_null(machine);
    bo_machine_destroy(machine);
    bo_fitting_destroy(one);
    bo_fitting_destroy(two);
    return status;
}

static void test_stream(void **state)
{
    (void)state;
    setting s;
    open_setting(&s, false);
    inject(&s, stream);
    close_setting(&s);
}

/* ---- use --------------------------------------------------------------------------------------------------------- */

static bo_status predict(void *what)
{
    setting *s = what;
    double mean[3 * NEW_ROWS], std[3 * NEW_ROWS];
    int labels[NEW_ROWS];
    bool classes = s->samples.classes > 0;
    bo_status status = bo_machine_predict(s->context, s->machine, &(bo_inputs){.rows = NEW_ROWS, .x = s->samples.x},
                                          &(bo_prediction){.mean = mean, .std = classes ? NULL : std});
    if (status == BO_OK && classes)
        status = bo_machine_predict(s->context, s->machine, &(bo_inputs){.rows = NEW_ROWS, .x = s->samples.x},
                                    &(bo_prediction){.probabilities = mean});
    if (status == BO_OK && classes)
        status = bo_machine_predict(s->context, s->machine, &(bo_inputs){.rows = NEW_ROWS, .x = s->samples.x},
                                    &(bo_prediction){.classes = labels});
    return status;
}

static bo_status save(void *what)
{
    setting *s = what;
    return bo_machine_save(s->context, s->machine, NULL, &(bo_sink){.path = s->path});
}

/* In memory instead of a file. */
static bo_status copy(void *what)
{
    setting *s = what;
    bo_machine *machine = NULL;
    void *bytes = s;
    size_t size;
    bo_status status = bo_machine_save(s->context, s->machine, NULL, &(bo_sink){.bytes = &bytes, .size = &size});
    if (status != BO_OK) assert_null(bytes);
    if (status == BO_OK)
        status = bo_machine_load(s->context, &(bo_source){.bytes = bytes, .size = size}, &machine, NULL);
    bo_machine_destroy(machine);
    bo_free(bytes);
    return status;
}

static bo_status load(void *what)
{
    setting *s = what;
    bo_machine *machine = (bo_machine *)s;
    bo_schema *schema = (bo_schema *)s;
    bo_status status = bo_machine_load(s->context, &(bo_source){.path = s->path}, &machine, &schema);
    if (status != BO_OK) assert_null(machine);
    assert_null(schema);
    bo_machine_destroy(machine);
    return status;
}

static void test_use(void **state)
{
    (void)state;
    static const struct {
        bool classes;
        bo_solver solver;
    } cases[] = {{false, BO_SOLVER_PRIMAL}, {false, BO_SOLVER_DUAL}, {true, BO_SOLVER_PRIMAL}};
    for (size_t k = 0; k < 3; k++) {
        setting s;
        open_setting(&s, cases[k].classes);
        s.desc.solver = cases[k].solver;
        s.machine = oracle_fit(s.context, &s.desc, &s.samples);
        snprintf(s.path, sizeof s.path, "%s/bochner-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        int file = mkstemp(s.path);
        assert_true(file >= 0);
        close(file);
        inject(&s, predict);
        inject(&s, save);
        inject(&s, load);
        inject(&s, copy);
        unlink(s.path);
        close_setting(&s);
    }
}

/* ---- embeddings and two-sample tests ----------------------------------------------------------------------------- */

static bo_status embed(void *what)
{
    setting *s = what;
    const bo_embedding_desc desc = {.components = 2, .features = {.features = FEATURES}};
    const bo_samples rows = {.rows = ROWS, .dim = DIM, .x = s->samples.x};
    double c[ROWS * 2], x[ROWS * DIM];
    bo_embedding *embedding = (bo_embedding *)s, *loaded = NULL;
    void *bytes = NULL;
    size_t size = 0;
    bo_status status = bo_embedding_fit(s->context, &desc, &rows, &embedding);
    if (status != BO_OK) assert_null(embedding);
    if (status == BO_OK)
        status = bo_embedding_apply(s->context, embedding, &(bo_inputs){.rows = ROWS, .x = rows.x}, c, NULL);
    if (status == BO_OK) status = bo_embedding_invert(s->context, embedding, ROWS, c, x);
    if (status == BO_OK)
        status = bo_embedding_save(s->context, embedding, NULL, &(bo_sink){.bytes = &bytes, .size = &size});
    if (status == BO_OK)
        status = bo_embedding_load(s->context, &(bo_source){.bytes = bytes, .size = size}, &loaded, NULL);
    bo_free(bytes);
    bo_embedding_destroy(embedding);
    bo_embedding_destroy(loaded);
    return status;
}

static bo_status compare_samples(void *what)
{
    setting *s = what;
    const size_t categories[2] = {0, 3};
    double x[ROWS * 2];
    for (size_t i = 0; i < ROWS; i++) x[2 * i] = s->samples.y[i], x[2 * i + 1] = (double)(i % 3);
    bo_drift_report report;
    bo_drift_column columns[2];
    bo_status status = BO_OK;
    for (bo_p_value kind = BO_P_VALUE_PERMUTATION; kind <= BO_P_VALUE_ASYMPTOTIC && status == BO_OK; kind++) {
        const bo_drift_desc desc = {.columns = 2,
                                    .categories = categories,
                                    .rows_a = ROWS / 2,
                                    .rows_b = ROWS / 2,
                                    .features = {.features = FEATURES},
                                    .p_value = kind,
                                    .permutations = 3};
        bo_drift *drift = (bo_drift *)s;
        status = bo_drift_create(s->context, &desc, ROWS, x, &drift);
        if (status != BO_OK) assert_null(drift);
        if (status == BO_OK) status = bo_drift_add(s->context, drift, BO_DRIFT_A, ROWS / 2, x, 2);
        if (status == BO_OK) status = bo_drift_add(s->context, drift, BO_DRIFT_B, ROWS / 2, x + ROWS, 2);
        if (status == BO_OK) status = bo_drift_finish(s->context, drift, &report, columns);
        bo_drift_destroy(drift);
    }
    return status;
}

static void test_embedding_and_drift(void **state)
{
    (void)state;
    setting s;
    open_setting(&s, false);
    inject(&s, embed);
    inject(&s, compare_samples);
    close_setting(&s);
}

/* ---- explanations ------------------------------------------------------------------------------------------------ */

static bo_status explain(void *what)
{
    const setting *s = what;
    const bo_samples *rows = &s->samples;
    const bo_explain_desc desc = {.repeats = 1, .samples = 2};
    double gradients[DIM], shares[DIM], vectors[DIM * DIM], base[3], prediction[3], parts[DIM * 3], curve[2 * 3];
    bo_explain_errors errors;
    bo_column_importance importance[DIM];
    size_t values[2], points;
    bo_context *c = s->context;
    BO_TRY(bo_explain_gradients(c, s->machine, &desc, &(bo_inputs){.rows = ROWS, .x = rows->x}, gradients, DIM, shares,
                                vectors));
    BO_TRY(bo_explain_permutations(c, s->machine, &desc, &(bo_inputs){.rows = ROWS, .x = rows->x}, rows->y, NULL,
                                   &errors, importance));
    BO_TRY(bo_explain_permutations(c, s->machine, &desc, &(bo_inputs){.rows = ROWS, .x = rows->x}, NULL, NULL, &errors,
                                   importance));
    BO_TRY(bo_explain_values(c, s->machine, &desc, &(bo_inputs){.rows = ROWS, .x = rows->x}, 0, 2, values, &points));
    BO_TRY(bo_explain_curve(c, s->machine, &desc, &(bo_inputs){.rows = ROWS, .x = rows->x}, 0, points, values, curve,
                            curve, curve));
    return bo_explain_row(c, s->machine, &desc, &(bo_inputs){.rows = ROWS, .x = rows->x}, rows->x, base, prediction,
                          parts, NULL);
}

static void test_explain(void **state)
{
    (void)state;
    for (int mode = 0; mode < 4; mode++) { /* classes, and exact kernels */
        setting s;
        open_setting(&s, mode & 1);
        if (mode & 2) s.desc.features.function = BO_FUNCTION_SECTIONS, s.desc.solver = BO_SOLVER_AUTO;
        assert_ok(s.context, bo_machine_fit(s.context, &s.desc, &s.samples, &s.machine));
        inject(&s, explain);
        close_setting(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding_and_drift),
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_explain),
        cmocka_unit_test(test_fit_exact),
        cmocka_unit_test(test_fit_adam),
        cmocka_unit_test(test_fit_logistic),
        cmocka_unit_test(test_fit_with_search),
        cmocka_unit_test(test_fit_held_out),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_use),
    };
    return cmocka_run_group_tests_name("machines.memory", tests, NULL, NULL);
}
