/* Model files: a loaded model predicts the same bits as the saved one; damaged files are refused and never crash the
 * program. */
#include "oracle.h"
#include "io/tensors.h"
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROWS = 80, DIM = 3, FEATURES = 16, NEW_ROWS = 30 };

typedef struct fixture {
    bo_context *context;
    bo_samples train, classes, fresh, positive;
    char directory[64], path[96], other[96];
} fixture;

static int open_fixture(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->context = test_context(1);
    f->train = oracle_regression(ROWS, DIM, 2, 0.3, 1);
    f->classes = oracle_classes(ROWS, DIM, 3, 2, 2);
    f->fresh = oracle_regression(NEW_ROWS, DIM, 1, 0, 3);
    f->positive = oracle_regression(ROWS, DIM, 2, 0.3, 1);
    for (size_t k = 0; k < ROWS * 2; k++) ((double *)f->positive.y)[k] = exp(f->positive.y[k]);
    /* in memory if possible, because every save waits for the disk */
    snprintf(f->directory, sizeof f->directory, "%s/bochner-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(f->directory)) return -1;
    snprintf(f->path, sizeof f->path, "%s/model", f->directory);
    snprintf(f->other, sizeof f->other, "%s/other", f->directory);
    *state = f;
    return 0;
}

static int close_fixture(void **state)
{
    fixture *f = *state;
    unlink(f->path), unlink(f->other);
    int left = rmdir(f->directory); /* fails if a partial file remains */
    oracle_drop(&f->train), oracle_drop(&f->classes), oracle_drop(&f->fresh), oracle_drop(&f->positive);
    bo_context_destroy(f->context);
    free(f);
    return left;
}

static char *slurp(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*size + 1);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static void spill(const char *path, const char *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

/* The kinds of machines, with small sizes. */
typedef enum kind {
    PRIMAL,
    DUAL,
    CONJUGATE,
    CLASSES,
    DUAL_CLASSES,
    LOGISTIC,
    MATERN,
    POLYNOMIAL,
    LOGARITHMS,
    KINDS
} kind;

static bo_machine *fit_kind(fixture *f, kind k)
{
    bo_machine_desc desc = {
        .features = {.features = FEATURES, .gamma = 0.4}, .lambda = 0.3, .loss = BO_LOSS_RIDGE, .seed = 7};
    desc.solver = k == DUAL || k == DUAL_CLASSES ? BO_SOLVER_DUAL : k == CONJUGATE ? BO_SOLVER_CG : BO_SOLVER_PRIMAL;
    if (k == LOGISTIC) desc.loss = BO_LOSS_LOGISTIC;
    if (k == MATERN) desc.features.kernel = BO_KERNEL_MATERN32, desc.features.draw = BO_DRAW_HADAMARD;
    if (k == POLYNOMIAL) desc.features = (bo_features_desc){.kernel = BO_KERNEL_POLYNOMIAL, .gamma = 0.4};
    if (k == LOGARITHMS) desc.target_scale = BO_TARGET_SCALE_LOG;
    bool classes = k == CLASSES || k == DUAL_CLASSES || k == LOGISTIC;
    return oracle_fit(f->context, &desc, classes ? &f->classes : k == LOGARITHMS ? &f->positive : &f->train);
}

static void expect_same_bits(fixture *f, const bo_machine *a, const bo_machine *b)
{
    size_t count = NEW_ROWS * a->report.outputs;
    double mean[2][NEW_ROWS * 3], std[2][NEW_ROWS * 3], low[2][NEW_ROWS * 3], high[2][NEW_ROWS * 3];
    const bo_machine *machines[] = {a, b};
    assert_int_equal(a->report.outputs, b->report.outputs);
    assert_int_equal(a->report.has_std, b->report.has_std);
    for (size_t k = 0; k < 2; k++) {
        if (a->report.has_std)
            assert_ok(
                f->context,
                bo_machine_predict(
                    f->context, machines[k], &(bo_inputs){.rows = NEW_ROWS, .x = f->fresh.x},
                    &(bo_prediction){.mean = mean[k], .low = low[k], .high = high[k], .level = 0.8, .std = std[k]}));
        else
            assert_ok(f->context,
                      bo_machine_predict(f->context, machines[k], &(bo_inputs){.rows = NEW_ROWS, .x = f->fresh.x},
                                         &(bo_prediction){.mean = mean[k]}));
    }
    assert_memory_equal(mean[0], mean[1], count * sizeof(double));
    if (a->report.has_std) {
        assert_memory_equal(std[0], std[1], count * sizeof(double));
        assert_memory_equal(low[0], low[1], count * sizeof(double));
        assert_memory_equal(high[0], high[1], count * sizeof(double));
    }
    if (!a->report.classes) return;
    for (size_t k = 0; k < 2; k++)
        assert_ok(f->context,
                  bo_machine_predict(f->context, machines[k], &(bo_inputs){.rows = NEW_ROWS, .x = f->fresh.x},
                                     &(bo_prediction){.probabilities = mean[k]}));
    assert_memory_equal(mean[0], mean[1], count * sizeof(double));
}

static bool same_number(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static void expect_same_report(const bo_fit_report *a, const bo_fit_report *b)
{
    assert_true(a->task == b->task && a->loss == b->loss && a->solver == b->solver && a->scaling == b->scaling);
    assert_true(a->rows == b->rows && a->dim == b->dim && a->classes == b->classes && a->features == b->features);
    assert_true(a->kernel == b->kernel && a->function == b->function && a->draw == b->draw &&
                a->precision == b->precision);
    assert_true(same_number(a->gamma, b->gamma) && same_number(a->lambda, b->lambda));
    assert_true(same_number(a->spectrum, b->spectrum) && same_number(a->noise_std, b->noise_std));
    assert_true(same_number(a->search_score, b->search_score) && same_number(a->residual, b->residual));
    assert_true(a->target_scale == b->target_scale);
    assert_true(a->validation_rows == b->validation_rows && same_number(a->validation_rmse, b->validation_rmse));
    assert_true(same_number(a->validation_r2, b->validation_r2));
    assert_true(same_number(a->validation_accuracy, b->validation_accuracy));
    assert_true(same_number(a->validation_log_loss, b->validation_log_loss));
    assert_true(same_number(a->accuracy.error_rms, b->accuracy.error_rms) && a->iterations == b->iterations);
    assert_string_equal(a->why_solver, b->why_solver);
}

static void test_round_trip(void **state)
{
    fixture *f = *state;
    for (int k = 0; k < KINDS; k++) {
        bo_machine *machine = fit_kind(f, (kind)k), *loaded = NULL;
        bo_schema *schema = (bo_schema *)f;
        assert_ok(f->context, bo_machine_save(f->context, machine, NULL, &(bo_sink){.path = f->path}));
        assert_ok(f->context, bo_machine_load(f->context, &(bo_source){.path = f->path}, &loaded, &schema));
        assert_null(schema);
        expect_same_bits(f, machine, loaded);
        expect_same_report(bo_machine_report(machine), bo_machine_report(loaded));
        /* a loaded model saves to the same bytes */
        assert_ok(f->context, bo_machine_save(f->context, loaded, NULL, &(bo_sink){.path = f->other}));
        size_t size, again;
        char *bytes = slurp(f->path, &size), *copy = slurp(f->other, &again);
        assert_int_equal(size, again);
        assert_memory_equal(bytes, copy, size);
        free(bytes), free(copy);
        bo_machine_destroy(loaded);
        /* and an image in memory has the same bytes */
        void *image;
        assert_ok(f->context, bo_machine_save(f->context, machine, NULL, &(bo_sink){.bytes = &image, .size = &size}));
        assert_file_equal(f->path, image, size);
        assert_ok(f->context, bo_machine_load(f->context, &(bo_source){.bytes = image, .size = size}, &loaded, NULL));
        bo_free(image); /* no longer needed */
        expect_same_bits(f, machine, loaded);
        bo_machine_destroy(machine);
        bo_machine_destroy(loaded);
    }
}

static void test_schema(void **state)
{
    fixture *f = *state;
    static const char csv[] = "rooms,town,price,rent\n3,Rye,10,1\n4,\"Bath, Avon\",12,2\n2,Rye,9,1\n5,Rye,20,3\n";
    spill(f->other, csv, sizeof csv - 1);
    bo_data_desc data = {.path = f->other, .target = "price,rent", .categorical = "auto", .task = BO_TASK_REGRESSION};
    bo_schema *schema, *loaded_schema = NULL;
    assert_ok(f->context, bo_schema_fit(f->context, &(bo_table_desc){.data = data}, &schema));
    bo_machine *machine = fit_kind(f, PRIMAL), *loaded;
    assert_ok(f->context, bo_machine_save(f->context, machine, schema, &(bo_sink){.path = f->path}));
    assert_ok(f->context, bo_machine_load(f->context, &(bo_source){.path = f->path}, &loaded, &loaded_schema));
    assert_non_null(loaded_schema);
    void *a, *b;
    size_t size, other;
    assert_ok(f->context, bo_schema_save(f->context, schema, &(bo_sink){.bytes = &a, .size = &size}));
    assert_ok(f->context, bo_schema_save(f->context, loaded_schema, &(bo_sink){.bytes = &b, .size = &other}));
    assert_int_equal(size, other);
    assert_memory_equal(a, b, size);
    bo_free(a), bo_free(b);
    bo_schema_destroy(loaded_schema);
    bo_machine_destroy(loaded);
    assert_ok(f->context, bo_machine_save(f->context, machine, schema, &(bo_sink){.bytes = &a, .size = &size}));
    assert_file_equal(f->path, a, size);
    assert_ok(f->context, bo_machine_load(f->context, &(bo_source){.bytes = a, .size = size}, &loaded, &loaded_schema));
    assert_string_equal(bo_schema_describe(loaded_schema)->input_names[1], bo_schema_describe(schema)->input_names[1]);
    bo_free(a);
    expect_same_bits(f, machine, loaded);
    bo_machine_destroy(loaded);
    assert_ok(f->context,
              bo_machine_load(f->context, &(bo_source){.path = f->path}, &loaded, NULL)); /* no schema requested */
    bo_machine_destroy(loaded), bo_machine_destroy(machine);
    bo_schema_destroy(schema), bo_schema_destroy(loaded_schema);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

/* Rewrites the metadata value `key` (NULL value: removes it) and the tensor `name` (removed if shape is NULL). */
static void rewrite(fixture *f, const char *key, const char *value, const char *drop)
{
    bo_tensors *file;
    assert_ok(f->context, bo_tensors_open(f->context, f->path, &file));
    bo_file_tensor tensors[32];
    bo_meta meta[16];
    size_t count = 0, meta_count = 0;
    for (size_t i = 0; i < bo_tensors_count(file); i++)
        if (!drop || strcmp(bo_tensors_at(file, i)->name, drop) != 0) tensors[count++] = *bo_tensors_at(file, i);
    for (size_t i = 0; i < bo_tensors_meta_count(file); i++) {
        bo_meta m = bo_tensors_meta_at(file, i);
        if (key && strcmp(m.key, key) == 0) m.value = value;
        if (m.value) meta[meta_count++] = m;
    }
    assert_ok(f->context, bo_tensors_write(f->context, f->other, tensors, count, meta, meta_count));
    bo_tensors_close(file);
}

static void expect_refused(fixture *f, bo_status status, const char *expected_text)
{
    bo_machine *machine = (bo_machine *)f;
    bo_schema *schema = (bo_schema *)f;
    bo_status found = bo_machine_load(f->context, &(bo_source){.path = f->other}, &machine, &schema);
    if (found != status || !strstr(bo_context_error(f->context), expected_text))
        fail_msg("expected %s with '%s', found %s: %s", bo_status_string(status), expected_text,
                 bo_status_string(found), bo_context_error(f->context));
    assert_null(machine);
    assert_null(schema);
}

static void test_versions(void **state)
{
    fixture *f = *state;
    bo_machine *machine = fit_kind(f, PRIMAL);
    assert_ok(f->context, bo_machine_save(f->context, machine, NULL, &(bo_sink){.path = f->path}));
    bo_machine_destroy(machine);
    rewrite(f, "format_version", "7", NULL);
    expect_refused(f, BO_VERSION, "format 7");
    rewrite(f, "format_version", "99999999999999999999", NULL);
    expect_refused(f, BO_VERSION, "format");
    rewrite(f, "format_version", "0", NULL);
    expect_refused(f, BO_FORMAT, "version");
    rewrite(f, "format_version", "new", NULL);
    expect_refused(f, BO_FORMAT, "version");
    rewrite(f, "format_version", NULL, NULL);
    expect_refused(f, BO_FORMAT, "version");
    rewrite(f, "format", "pt", NULL);
    expect_refused(f, BO_FORMAT, "pt");
    rewrite(f, "format", NULL, NULL);
    expect_refused(f, BO_FORMAT, "expected a kernel machine");
    rewrite(f, "machine", NULL, NULL);
    expect_refused(f, BO_FORMAT, "missing");
    rewrite(f, "machine", "{", NULL);
    expect_refused(f, BO_FORMAT, "JSON");
    rewrite(f, "machine", "[1,2]", NULL);
    expect_refused(f, BO_FORMAT, "missing or invalid");
    rewrite(f, "features", "{}", NULL);
    expect_refused(f, BO_FORMAT, "");
}

static void test_other_files(void **state)
{
    fixture *f = *state;
    unlink(f->other);
    expect_refused(f, BO_IO, "other");
    spill(f->other, "", 0);
    expect_refused(f, BO_FORMAT, "other");
    static const char text[] = "rooms,town,price\n3,Rye,10\n";
    spill(f->other, text, sizeof text - 1);
    expect_refused(f, BO_FORMAT, "other");
    float values[4] = {1, 2, 3, 4};
    bo_file_tensor tensor = {
        .name = "model.weight", .dtype = BO_F32, .rank = 2, .shape = {2, 2}, .data = values, .bytes = 16};
    assert_ok(f->context, bo_tensors_write(f->context, f->other, &tensor, 1, NULL, 0));
    expect_refused(f, BO_FORMAT, "a safetensors file of another program");
    bo_features_desc map = {.dim = 2, .features = 4};
    bo_features *phi;
    assert_ok(f->context, bo_features_create(f->context, &map, &phi));
    assert_ok(f->context, bo_features_save(f->context, phi, &(bo_sink){.path = f->other}));
    bo_features_destroy(phi);
    expect_refused(f, BO_FORMAT, "expected a kernel machine");
}

static void test_missing_tensors(void **state)
{
    fixture *f = *state;
    static const kind kinds[] = {PRIMAL, DUAL, CLASSES};
    for (size_t k = 0; k < 3; k++) {
        bo_machine *machine = fit_kind(f, kinds[k]);
        assert_ok(f->context, bo_machine_save(f->context, machine, NULL, &(bo_sink){.path = f->path}));
        bo_machine_destroy(machine);
        bo_tensors *file;
        char name[64];
        assert_ok(f->context, bo_tensors_open(f->context, f->path, &file));
        size_t count = bo_tensors_count(file);
        bo_tensors_close(file);
        assert_true(count >= 7);
        for (size_t i = 0; i < count; i++) {
            assert_ok(f->context, bo_tensors_open(f->context, f->path, &file));
            snprintf(name, sizeof name, "%s", bo_tensors_at(file, i)->name);
            bo_tensors_close(file);
            rewrite(f, NULL, NULL, name);
            expect_refused(f, BO_FORMAT, name);
        }
    }
}

/* Replaces the number after `"field":` in the description of the machine. */
static void contradict(fixture *f, const char *field, const char *number)
{
    bo_tensors *file;
    assert_ok(f->context, bo_tensors_open(f->context, f->path, &file));
    const char *json = bo_tensors_meta(file, "machine");
    char quoted[64], *text = malloc(strlen(json) + 64);
    snprintf(quoted, sizeof quoted, "\"%s\":", field);
    const char *at = strstr(json, quoted);
    assert_non_null(at);
    at += strlen(quoted);
    size_t skip = strcspn(at, ",}");
    sprintf(text, "%.*s%s%s", (int)(at - json), json, number, at + skip);
    bo_tensors_close(file);
    rewrite(f, "machine", text, NULL);
    free(text);
}

static void test_contradictions(void **state)
{
    fixture *f = *state;
    static const char *const sizes[] = {"dim", "outputs", "classes", "features", "task", "solver", "uncertainty"};
    static const char *const numbers[] = {"7", "1e15", "-1", "1e300", "null"};
    static const kind kinds[] = {DUAL, CLASSES};
    for (size_t k = 0; k < 2; k++) {
        bo_machine *machine = fit_kind(f, kinds[k]);
        assert_ok(f->context, bo_machine_save(f->context, machine, NULL, &(bo_sink){.path = f->path}));
        bo_machine_destroy(machine);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
                contradict(f, sizes[s], numbers[n]);
                expect_refused(f, BO_FORMAT, "");
            }
        contradict(f, "outputs", "0");
        expect_refused(f, BO_FORMAT, "inconsistent");
        static const char *const quanta[] = {"0.3", "1", "-0.5", "1e-40",
                                             "1e300"}; /* not powers of two, or out of bounds */
        for (size_t n = 0; n < sizeof quanta / sizeof *quanta; n++) {
            contradict(f, "quantum", quanta[n]);
            expect_refused(f, BO_FORMAT, "inconsistent");
        }
        contradict(f, "quantum", "0.0078125");
        assert_ok(f->context, bo_machine_load(f->context, &(bo_source){.path = f->other}, &machine, NULL));
        bo_machine_destroy(machine);
        if (kinds[k] != DUAL) continue;
        for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
            contradict(f, "train_rows", numbers[n]);
            expect_refused(f, BO_FORMAT, "");
        }
        contradict(f, "train_rows", "0");
        expect_refused(f, BO_FORMAT, "");
    }
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

/* Loading succeeds or reports an error; a loaded model can be used. */
static bo_status try_damaged(fixture *f, const char *bytes, size_t size)
{
    bo_machine *machine = NULL;
    bo_schema *schema = NULL;
    spill(f->other, bytes, size);
    bo_status status = bo_machine_load(f->context, &(bo_source){.path = f->other}, &machine, &schema);
    bo_machine *same;
    assert_int_equal(bo_machine_load(f->context, &(bo_source){.bytes = bytes, .size = size}, &same, NULL), status);
    bo_machine_destroy(same);
    if (status == BO_OK) {
        double mean[NEW_ROWS * 8], std[NEW_ROWS * 8];
        bool fits = machine->report.dim == DIM && machine->report.outputs <= 8;
        if (fits)
            (void)bo_machine_predict(f->context, machine, &(bo_inputs){.rows = NEW_ROWS, .x = f->fresh.x},
                                     &(bo_prediction){.mean = mean, .std = machine->report.has_std ? std : NULL});
        if (fits)
            (void)bo_machine_predict(f->context, machine, &(bo_inputs){.rows = NEW_ROWS, .x = f->fresh.x},
                                     &(bo_prediction){.probabilities = mean});
    } else {
        assert_true(status == BO_FORMAT || status == BO_VERSION || status == BO_MEMORY || status == BO_INVALID ||
                    status == BO_UNSUPPORTED);
        assert_true(bo_context_error(f->context)[0] != 0);
        assert_null(machine);
        assert_null(schema);
    }
    bo_machine_destroy(machine);
    bo_schema_destroy(schema);
    return status;
}

static void test_truncated(void **state)
{
    fixture *f = *state;
    static const kind kinds[] = {PRIMAL, DUAL, LOGISTIC};
    for (size_t k = 0; k < 3; k++) {
        bo_machine *machine = fit_kind(f, kinds[k]);
        assert_ok(f->context, bo_machine_save(f->context, machine, NULL, &(bo_sink){.path = f->path}));
        bo_machine_destroy(machine);
        size_t size;
        char *bytes = slurp(f->path, &size);
        for (size_t at = 0; at < size; at += at < 40 ? 1 : 1 + size / 200)
            assert_true(try_damaged(f, bytes, at) != BO_OK);
        assert_true(try_damaged(f, bytes, size - 1) != BO_OK);
        assert_int_equal(try_damaged(f, bytes, size), BO_OK);
        free(bytes);
    }
}

static void test_mutations(void **state)
{
    fixture *f = *state;
    enum { MUTATIONS = 900 };
    static const kind kinds[] = {PRIMAL, DUAL, CLASSES};
    size_t refused = 0;
    for (size_t k = 0; k < 3; k++) {
        bo_machine *machine = fit_kind(f, kinds[k]);
        assert_ok(f->context, bo_machine_save(f->context, machine, NULL, &(bo_sink){.path = f->path}));
        bo_machine_destroy(machine);
        size_t size, header = 0;
        char *bytes = slurp(f->path, &size), *copy = malloc(size);
        memcpy(&header, bytes, 8);
        assert_true(header < size);
        bo_rng rng = bo_rng_make(k, bo_rng_stream("test.mutations", 0));
        for (int m = 0; m < MUTATIONS; m++) {
            memcpy(copy, bytes, size);
            size_t flips = 1 + (size_t)bo_rng_below(&rng, 4);
            for (size_t i = 0; i < flips; i++) { /* mostly in the header, which contains sizes */
                size_t at = (size_t)bo_rng_below(&rng, bo_rng_below(&rng, 4) ? 8 + header : size);
                if (bo_rng_below(&rng, 2))
                    copy[at] ^= (char)(1 << bo_rng_below(&rng, 8));
                else
                    copy[at] = "0123456789{}[]\",:-eE."[bo_rng_below(&rng, 21)];
            }
            refused += try_damaged(f, copy, size) != BO_OK;
        }
        free(bytes), free(copy);
    }
    assert_true(refused > 3 * MUTATIONS / 4); /* most changes hit the header, so the checks are reached */
}

static void test_not_a_number(void **state)
{
    fixture *f = *state;
    bo_machine *machine = fit_kind(f, PRIMAL);
    machine->beta[3] = NAN;
    assert_ok(f->context, bo_machine_save(f->context, machine, NULL, &(bo_sink){.path = f->other}));
    bo_machine_destroy(machine);
    expect_refused(f, BO_FORMAT, "machine.beta");
}

/* An unwritable location: an error, and no file remains. */
static void test_unwritable(void **state)
{
    fixture *f = *state;
    bo_machine *machine = fit_kind(f, PRIMAL);
    char path[128];
    snprintf(path, sizeof path, "%s/no/such/directory", f->directory);
    assert_fails(f->context, BO_IO, "directory", bo_machine_save(f->context, machine, NULL, &(bo_sink){.path = path}));
    assert_int_equal(mkdir(f->other, 0700), 0); /* the name belongs to a directory */
    assert_true(bo_machine_save(f->context, machine, NULL, &(bo_sink){.path = f->other}) != BO_OK);
    assert_int_equal(rmdir(f->other), 0);
    /* a failed save does not change the old file */
    spill(f->path, "old", 3);
    if (chmod(f->directory, 0500) == 0 && geteuid() != 0) {
        assert_fails(f->context, BO_IO, "", bo_machine_save(f->context, machine, NULL, &(bo_sink){.path = f->path}));
        size_t size;
        char *bytes = slurp(f->path, &size);
        assert_true(size == 3 && memcmp(bytes, "old", 3) == 0);
        free(bytes);
    }
    chmod(f->directory, 0700);
    bo_machine_destroy(machine);
}

int main(void)
{
#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, open_fixture, close_fixture)
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_round_trip),  WITH_FIXTURE(test_schema),          WITH_FIXTURE(test_versions),
        WITH_FIXTURE(test_other_files), WITH_FIXTURE(test_missing_tensors), WITH_FIXTURE(test_contradictions),
        WITH_FIXTURE(test_truncated),   WITH_FIXTURE(test_mutations),       WITH_FIXTURE(test_not_a_number),
        WITH_FIXTURE(test_unwritable),
    };
    return cmocka_run_group_tests_name("machines.files", tests, NULL, NULL);
}
