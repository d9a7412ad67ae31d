/* Common promises of the headers of tables, features, machines, metrics and networks: output pointers are NULL after a
 * failure, destroy functions accept NULL, reserved fields that are not zero are refused, and reserved fields of outputs
 * are zero. */
#include "io/splits.h"
#include "files.h"
#include "features/facts.h"
#include <bochner/embedding.h>
#include <bochner/machines.h>
#include <bochner/network.h>

static const float X[] = {1, 2, 3, 4, 5, 6};
static const double Y[] = {1, 2, 3};
static const char CSV[] = "a,b,y\n1,2,1\n3,4,2\n5,7,3\n";
static const char MODEL[] = "{\"input\": {\"kind\": \"array\"}, \"layers\": [{\"type\": \"linear\", \"width\": "
                            "\"targets\"}], \"loss\": \"mse\"}";

/* ---- failures ---------------------------------------------------------------------------------------------------- */

/* Calls that fail. Each sets out[0], and out[1] if it has a second output pointer or a size. */
typedef bo_status (*failing)(bo_context *context, void **out);

#define FAILS(name, ...)                                                                                               \
    static bo_status name(bo_context *context, void **out)                                                             \
    {                                                                                                                  \
        return __VA_ARGS__;                                                                                            \
    }

/* The features of a custom map: its projections. */
static void copy_projections(void *user, size_t rows, size_t frequencies, const float *u, size_t dim, const float *x,
                             size_t features, float *out)
{
    (void)user, (void)dim, (void)x;
    assert_int_equal(features, frequencies);
    memcpy(out, u, rows * frequencies * sizeof *out);
}

FAILS(data, bo_data_load(context, &(bo_data_desc){.path = "/nowhere"}, NULL, (bo_data **)out))
FAILS(schema_fit, bo_schema_fit(context, &(bo_table_desc){.data = {.path = "/nowhere"}}, (bo_schema **)out))
FAILS(schema_memory, bo_schema_load(context, &(bo_source){.bytes = "{}", .size = 2}, (bo_schema **)out))
FAILS(table, bo_table_load(context, &(bo_table_desc){.data = {.path = "/nowhere"}, .split = {.test = 0.5}},
                           (bo_data **)out, NULL, (bo_data **)out + 1))
FAILS(table_open,
      bo_table_open(context, &(bo_table_desc){.data = {.path = "/nowhere"}}, NULL, BO_SPLIT_TRAIN, (bo_table **)out))
FAILS(reader, bo_reader_open(context, &(bo_source){.path = "/nowhere"}, BO_FORMAT_AUTO, 0, (bo_reader **)out))
FAILS(reader_memory,
      bo_reader_open(context, &(bo_source){.bytes = "", .size = 0}, BO_FORMAT_AUTO, 0, (bo_reader **)out))
FAILS(array, bo_array_load(context, &(bo_source){.path = "/nowhere"}, (bo_array **)out))
FAILS(array_memory, bo_array_load(context, &(bo_source){.bytes = "\x93NUMPY", .size = 6}, (bo_array **)out))
FAILS(array_image,
      bo_array_save(context, &(bo_array){.rank = 9}, &(bo_sink){.bytes = out, .size = (size_t *)(out + 1)}))
FAILS(features, bo_features_create(context, &(bo_features_desc){.dim = 0}, (bo_features **)out))
FAILS(features_file, bo_features_load(context, &(bo_source){.path = "/nowhere"}, (bo_features **)out))
FAILS(features_memory, bo_features_load(context, &(bo_source){.bytes = "abc", .size = 3}, (bo_features **)out))
FAILS(machine, bo_machine_fit(context, &(bo_machine_desc){.lambda = -1}, &(bo_samples){.rows = 3}, (bo_machine **)out))
FAILS(machine_file,
      bo_machine_load(context, &(bo_source){.path = "/nowhere"}, (bo_machine **)out, (bo_schema **)out + 1))
FAILS(machine_memory,
      bo_machine_load(context, &(bo_source){.bytes = "abc", .size = 3}, (bo_machine **)out, (bo_schema **)out + 1))
FAILS(fitting,
      bo_fitting_create(context, &(bo_machine_desc){.lambda = -1}, &(bo_samples){.rows = 3}, (bo_fitting **)out))
FAILS(metrics, bo_metrics_create(context, &(bo_metrics_desc){.targets = 0}, (bo_metrics **)out))
FAILS(examples, bo_examples_load(context, &(bo_examples_desc){.data = {.path = "/nowhere"}}, NULL, (bo_examples **)out))
FAILS(examples_arrays, bo_examples_create(context, &(bo_examples_arrays){.rows = 0}, (bo_examples **)out))
FAILS(network, bo_model_create_described(context, &(bo_description){.text = "{}"}, (bo_model **)out))
FAILS(network_file, bo_model_load(context, &(bo_source){.path = "/nowhere"}, NULL, (bo_model **)out))
FAILS(network_memory, bo_model_load(context, &(bo_source){.bytes = "abc", .size = 3}, NULL, (bo_model **)out))

/* A custom map cannot be saved, and neither can a machine that uses it. */
static bo_status features_image(bo_context *context, void **out)
{
    const bo_features_desc desc = {.kernel = BO_KERNEL_CUSTOM, .dim = 2, .features = 4, .custom = copy_projections};
    bo_features *map;
    assert_ok(context, bo_features_create(context, &desc, &map));
    const bo_status status = bo_features_save(context, map, &(bo_sink){.bytes = out, .size = (size_t *)(out + 1)});
    bo_features_destroy(map);
    return status;
}

static bo_status machine_image(bo_context *context, void **out)
{
    const bo_machine_desc desc = {
        .features = {.kernel = BO_KERNEL_CUSTOM, .features = 2, .custom = copy_projections, .gamma = 1},
        .solver = BO_SOLVER_PRIMAL,
        .loss = BO_LOSS_RIDGE,
        .lambda = 1};
    const bo_samples samples = {.rows = 3, .dim = 2, .targets = 1, .x = X, .y = Y};
    bo_machine *fitted;
    assert_ok(context, bo_machine_fit(context, &desc, &samples, &fitted));
    const bo_status status =
        bo_machine_save(context, fitted, NULL, &(bo_sink){.bytes = out, .size = (size_t *)(out + 1)});
    bo_machine_destroy(fitted);
    return status;
}

static void out_is_null_after_failure(void **state)
{
    test_directory *f = *state;
    static const struct {
        const char *name;
        failing call;
        bool second;
    } calls[] = {{"bo_data_load", data, false},
                 {"bo_schema_fit", schema_fit, false},
                 {"bo_schema_load memory", schema_memory, false},
                 {"bo_table_load", table, true},
                 {"bo_table_open", table_open, false},
                 {"bo_reader_open", reader, false},
                 {"bo_reader_open memory", reader_memory, false},
                 {"bo_array_load", array, false},
                 {"bo_array_load memory", array_memory, false},
                 {"bo_array_save memory", array_image, true},
                 {"bo_features_create", features, false},
                 {"bo_features_load", features_file, false},
                 {"bo_features_load memory", features_memory, false},
                 {"bo_features_save memory", features_image, true},
                 {"bo_machine_fit", machine, false},
                 {"bo_machine_load", machine_file, true},
                 {"bo_machine_load memory", machine_memory, true},
                 {"bo_machine_save memory", machine_image, true},
                 {"bo_fitting_create", fitting, false},
                 {"bo_metrics_create", metrics, false},
                 {"bo_examples_load", examples, false},
                 {"bo_examples_create", examples_arrays, false},
                 {"bo_model_create_described", network, false},
                 {"bo_model_load", network_file, false},
                 {"bo_model_load memory", network_memory, false}};
    _Static_assert(sizeof(size_t) == sizeof(void *), "a size takes the place of a pointer");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; ++i) {
        void *out[2] = {f, f};
        if (calls[i].call(f->context, out) == BO_OK) fail_msg("%s does not fail", calls[i].name);
        if (!*bo_context_error(f->context)) fail_msg("%s does not say why", calls[i].name);
        if (out[0] || (calls[i].second && out[1])) fail_msg("%s leaves something in out", calls[i].name);
    }
}

static void destructors_accept_null(void **state)
{
    (void)state;
    bo_data_destroy(NULL);
    bo_schema_destroy(NULL);
    bo_table_close(NULL);
    bo_reader_close(NULL);
    bo_array_destroy(NULL);
    bo_features_destroy(NULL);
    bo_machine_destroy(NULL);
    bo_fitting_destroy(NULL);
    bo_metrics_destroy(NULL);
    bo_examples_destroy(NULL);
    bo_model_destroy(NULL);
    bo_free(NULL);
}

/* ---- reserved fields --------------------------------------------------------------------------------------------- */

#define LATER       .reserved = {0, 0, 0, 1}
#define LATER_ROWS  .reserved = {0, 0, 1}
#define LATER_SPLIT .reserved = {0, 1}
#define TABLE       .bytes = CSV, .size = sizeof CSV - 1
#define ROWS        .rows = 3, .dim = 2, .targets = 1, .x = X, .y = Y

FAILS(later_data, bo_data_load(context, &(bo_data_desc){TABLE, LATER}, NULL, (bo_data **)out))
FAILS(later_schema, bo_schema_fit(context, &(bo_table_desc){.data = {TABLE, LATER}}, (bo_schema **)out))
FAILS(later_table, bo_table_load(context, &(bo_table_desc){.data = {TABLE}, LATER}, (bo_data **)out, NULL, NULL))
FAILS(later_split,
      bo_table_load(context, &(bo_table_desc){.data = {TABLE}, .split = {LATER_SPLIT}}, (bo_data **)out, NULL, NULL))
FAILS(later_rows, (*out = NULL, bo_split_rows(context, &(bo_split_desc){LATER_SPLIT}, 0, NULL)))
FAILS(later_array, bo_array_save(context, &(bo_array){LATER}, &(bo_sink){.bytes = out, .size = (size_t *)(out + 1)}))
FAILS(later_features,
      bo_features_create(context, &(bo_features_desc){.dim = 2, .features = 4, LATER}, (bo_features **)out))
FAILS(later_estimate,
      bo_features_estimate(context, &(bo_features_desc){.dim = 2, .features = 4, LATER}, (size_t *)(out + 1)))
FAILS(later_machine, bo_machine_fit(context, &(bo_machine_desc){LATER}, &(bo_samples){ROWS}, (bo_machine **)out))
FAILS(later_samples,
      bo_machine_fit(context, &(bo_machine_desc){0}, &(bo_samples){ROWS, LATER_ROWS}, (bo_machine **)out))
FAILS(later_embedding,
      bo_embedding_fit(context, &(bo_embedding_desc){0}, &(bo_samples){ROWS, LATER_ROWS}, (bo_embedding **)out))
FAILS(later_fitting, bo_fitting_create(context, &(bo_machine_desc){LATER}, &(bo_samples){ROWS}, (bo_fitting **)out))
FAILS(later_metrics, bo_metrics_create(context, &(bo_metrics_desc){.targets = 1, LATER}, (bo_metrics **)out))
FAILS(later_examples, bo_examples_load(context, &(bo_examples_desc){.data = {TABLE}, LATER}, NULL, (bo_examples **)out))
FAILS(later_arrays, bo_examples_create(context, &(bo_examples_arrays){ROWS, LATER}, (bo_examples **)out))
FAILS(later_network, bo_model_create_described(context, &(bo_description){.text = MODEL, LATER}, (bo_model **)out))

static bo_status later_cost(bo_context *context, void **out)
{
    bo_fit_cost cost;
    (void)out;
    return bo_machine_estimate(context, &(bo_machine_desc){LATER}, &(bo_fit_shape){.rows = 10, .dim = 2, .outputs = 1},
                               &cost);
}

static void reserved_words_must_be_zero(void **state)
{
    test_directory *f = *state;
    static const struct {
        const char *name;
        failing call;
    } calls[] = {{"bo_data_desc", later_data},         {"bo_data_desc", later_schema},
                 {"bo_table_desc", later_table},       {"bo_split_desc", later_split},
                 {"bo_split_desc", later_rows},        {"bo_array", later_array},
                 {"bo_features_desc", later_features}, {"bo_features_desc", later_estimate},
                 {"bo_machine_desc", later_machine},   {"bo_samples", later_samples},
                 {"bo_samples", later_embedding},      {"bo_machine_desc", later_fitting},
                 {"bo_machine_desc", later_cost},      {"bo_metrics_desc", later_metrics},
                 {"bo_examples_desc", later_examples}, {"bo_examples_arrays", later_arrays},
                 {"bo_description", later_network}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; ++i) {
        void *out[2] = {NULL, NULL};
        char message[80];
        snprintf(message, sizeof message, "%s: its reserved members are not zero", calls[i].name);
        assert_fails(f->context, BO_INVALID, message, calls[i].call(f->context, out));
        assert_null(out[0]);
    }
}

static const uint64_t ZERO[4];

#define assert_reserved(object) assert_memory_equal((object).reserved, ZERO, sizeof(object).reserved)

/* Outputs with arbitrary contents before they are filled in. */
static void outputs_have_zero_reserved(void **state)
{
    test_directory *f = *state;
    bo_reader *reader;
    bo_data_block block;
    memset(&block, 7, sizeof block);
    assert_ok(f->context, bo_reader_open(f->context, &(bo_source){.bytes = CSV, .size = sizeof CSV - 1}, BO_FORMAT_AUTO,
                                         0, &reader));
    assert_ok(f->context, bo_reader_next(f->context, reader, 10, &block));
    assert_reserved(block);
    bo_reader_close(reader);
    bo_data *loaded;
    bo_samples samples;
    memset(&samples, 7, sizeof samples);
    assert_ok(f->context, bo_data_load(f->context, &(bo_data_desc){TABLE}, NULL, &loaded));
    bo_data_get_samples(loaded, &samples);
    assert_reserved(samples);
    bo_data_destroy(loaded);
    bo_fit_cost cost;
    memset(&cost, 7, sizeof cost);
    assert_ok(f->context, bo_machine_estimate(f->context, &(bo_machine_desc){.lambda = 1},
                                              &(bo_fit_shape){.rows = 10, .dim = 2, .outputs = 1}, &cost));
    assert_reserved(cost);
    bo_features *map;
    bo_features_accuracy accuracy;
    memset(&accuracy, 7, sizeof accuracy);
    assert_ok(f->context, bo_features_create(f->context, &(bo_features_desc){.dim = 2, .features = 4}, &map));
    assert_ok(f->context, bo_features_measure(f->context, map, &(bo_inputs){.rows = 3, .x = X}, 10, 1, &accuracy));
    assert_reserved(accuracy);
    bo_features_destroy(map);
    bo_description_needs needs;
    memset(&needs, 7, sizeof needs);
    assert_ok(f->context, bo_description_inspect(f->context, MODEL, NULL, &needs));
    assert_reserved(needs);
    bo_examples *made;
    bo_model *built;
    bo_examples_evaluation found;
    memset(&found, 7, sizeof found);
    assert_ok(f->context, bo_examples_create(f->context, &(bo_examples_arrays){ROWS}, &made));
    assert_ok(f->context,
              bo_model_create_described(f->context, &(bo_description){.text = MODEL, .examples = made}, &built));
    assert_ok(f->context, bo_model_evaluate_examples(f->context, built, made, BO_SPLIT_ALL, &found));
    assert_reserved(found);
    bo_model_destroy(built);
    bo_examples_destroy(made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(out_is_null_after_failure), cmocka_unit_test(destructors_accept_null),
        cmocka_unit_test(reserved_words_must_be_zero), cmocka_unit_test(outputs_have_zero_reserved)};
    return cmocka_run_group_tests_name("io.contract", tests, test_setup, test_teardown);
}
