/* A saved and loaded map gives the same bits; invalid files are refused. */
#include <unistd.h>
#include "maps.h"
#include "../base/counting.h"
#include "io/tensors.h"
#include "features/files.h"

enum { ROWS = 20, MAX_LENGTH = 128 };

static char path[64];

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "test_features_%ld.safetensors", (long)getpid());
    return 0;
}

static int remove_path(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

/* An image in memory has the bytes of the file in `path` and loads the same; truncated images are refused. */
static void check_memory(bo_context *context, const bo_features *f, const bo_features_desc *map)
{
    bo_features *loaded;
    void *bytes, *again;
    size_t size, size_again;
    assert_ok(context, bo_features_save(context, f, &(bo_sink){.bytes = &bytes, .size = &size}));
    assert_file_equal(path, bytes, size);
    assert_ok(context, bo_features_load(context, &(bo_source){.bytes = bytes, .size = size}, &loaded));
    assert_ok(context, bo_features_save(context, loaded, &(bo_sink){.bytes = &again, .size = &size_again}));
    if (size != size_again || memcmp(bytes, again, size)) fail_msg("%s: other bytes after loading", map_name(map));
    bo_features_destroy(loaded);
    for (size_t cut = 0; cut < size; cut += 1 + size / 20) {
        loaded = (bo_features *)bytes;
        if (bo_features_load(context, &(bo_source){.bytes = bytes, .size = cut}, &loaded) == BO_OK || loaded)
            fail_msg("%s: %zu of %zu bytes were taken", map_name(map), cut, size);
    }
    bo_free(bytes);
    bo_free(again);
}

static void check_round_trip(bo_context *context, const bo_features_desc *map, void *user)
{
    const float *x = user;
    bo_features *f, *loaded;
    static float before[ROWS * MAX_LENGTH], after[ROWS * MAX_LENGTH];
    float scales[DIM] = {1, 2, 0.5f, 1.1f, 0.9f, 1};
    bo_features_desc desc = *map;
    desc.seed = 0xfedcba9876543210u; /* more digits than a double has */
    desc.length_scales = scales;
    if (desc.kernel == BO_KERNEL_CUSTOM) return;
    assert_ok(context, bo_features_create(context, &desc, &f));
    assert_ok(context, bo_features_save(context, f, &(bo_sink){.path = path}));
    assert_ok(context, bo_features_load(context, &(bo_source){.path = path}, &loaded));
    check_memory(context, f, map);
    bo_features_desc a = *bo_features_describe(f), b = *bo_features_describe(loaded);
    assert_memory_equal(a.length_scales, b.length_scales, sizeof scales);
    assert_true(a.kernel == b.kernel && a.function == b.function && a.draw == b.draw && a.sampling == b.sampling);
    assert_true(a.dim == b.dim && a.features == b.features && a.gamma == b.gamma && a.alpha == b.alpha);
    assert_true(a.degree == b.degree && a.pair_norm == b.pair_norm && a.seed == b.seed && a.candidates == b.candidates);
    assert_true(a.leverage_lambda == b.leverage_lambda);
    size_t length = a.features;
    assert_ok(context,
              bo_features_apply(context, f, &(bo_inputs){.rows = ROWS, .x = x, .stride = DIM}, before, length));
    assert_ok(context,
              bo_features_apply(context, loaded, &(bo_inputs){.rows = ROWS, .x = x, .stride = DIM}, after, length));
    if (memcmp(before, after, ROWS * length * sizeof *before)) fail_msg("%s: other bits after loading", map_name(map));
    bo_features_destroy(f);
    bo_features_destroy(loaded);
}

static void every_map_survives_a_file(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float x[ROWS * DIM];
    test_inputs(1, ROWS * DIM, x);
    assert_true(for_each_map(context, x, check_round_trip, x) > 200);
    bo_context_destroy(context);
}

/* Writes the tensors of a map with other JSON, or other tensors with its JSON. */
static void write_altered(bo_context *context, const char *json, const char *from, const char *to,
                          const bo_file_tensor *tensors, size_t count)
{
    char text[1200];
    const char *at = from ? strstr(json, from) : NULL;
    if (from) assert_non_null(at);
    if (from)
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - json), json, to, at + strlen(from));
    else
        snprintf(text, sizeof text, "%s", json);
    bo_meta meta = {"bochner.features", text};
    assert_ok(context, bo_tensors_write(context, path, tensors, count, &meta, 1));
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_features_desc desc = {.dim = 3, .features = 8, .seed = 1};
    bo_features *f, *loaded;
    bo_file_tensor tensors[BO_FEATURES_TENSORS];
    size_t count;
    char *json;
    void *owned;
    assert_ok(context, bo_features_create(context, &desc, &f));
    assert_ok(context, bo_features_pack(context, f, tensors, &count, &json, &owned));
    static const struct {
        const char *from, *to;
        bo_status status;
        const char *expected_text;
    } cases[] = {
        {"\"format\": 1", "\"format\": 2", BO_VERSION, "format version 2"},
        {"\"format\": 1", "\"format\": \"x\"", BO_FORMAT, "format"},
        {"\"rbf\"", "\"rbg\"", BO_FORMAT, "kernel"},
        {"\"sincos\"", "\"custom\"", BO_FORMAT, "function"},
        {"\"dim\": 3", "\"dim\": 4", BO_FORMAT, "features.w"},
        {"\"dim\": 3", "\"dim\": -3", BO_FORMAT, "dim"},
        {"\"dim\": 3", "\"dim\": 1e300", BO_FORMAT, "dim"},
        {"\"features\": 8", "\"features\": 10", BO_FORMAT, "features.w"},
        {"\"features\": 8", "\"features\": 7", BO_FORMAT, "multiple"},
        {"\"features\": 8", "\"features\": 8.5", BO_FORMAT, "whole"},
        {"\"sincos\"", "\"relu\"", BO_FORMAT, "cannot be used with"},
        {"\"gamma\": 1", "\"gamma\": -1", BO_FORMAT, "gamma"},
        {"\"orthogonal\"", "\"hadamard\"", BO_FORMAT, "features.signs"},
        {"\"seed\": \"1\"", "\"seed\": \"one\"", BO_FORMAT, "seed"},
        {"{", "[", BO_FORMAT, "JSON"},
        {"\"pair_norm\": 0", "\"pair_norm\": 1e999", BO_FORMAT, "pair_norm"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_altered(context, json, cases[i].from, cases[i].to, tensors, count);
        assert_fails(context, cases[i].status, cases[i].expected_text,
                     bo_features_load(context, &(bo_source){.path = path}, &loaded));
        assert_null(loaded);
    }
    write_altered(context, json, NULL, NULL, tensors, 0);
    assert_fails(context, BO_FORMAT, "features.w", bo_features_load(context, &(bo_source){.path = path}, &loaded));
    float poisoned[12] = {0, NAN};
    bo_file_tensor wrong = tensors[0];
    wrong.data = poisoned;
    write_altered(context, json, NULL, NULL, &wrong, 1);
    assert_fails(context, BO_FORMAT, "entry 1", bo_features_load(context, &(bo_source){.path = path}, &loaded));
    bo_meta other = {"something", "else"};
    assert_ok(context, bo_tensors_write(context, path, tensors, count, &other, 1));
    assert_fails(context, BO_FORMAT, "not a feature map",
                 bo_features_load(context, &(bo_source){.path = path}, &loaded));
    assert_fails(context, BO_IO, "no-such-file",
                 bo_features_load(context, &(bo_source){.path = "no-such-file.safetensors"}, &loaded));
    bo_free(json);
    bo_free(owned);
    bo_features_destroy(f);
    bo_context_destroy(context);
}

/* A descriptor may claim any size: no memory is allocated before the file is found to have it. A valid file of this
 * kind needs kilobytes; the smallest claim is 16 MB (4000037 floats). */
static void declared_sizes_allocate_nothing(void **state)
{
    (void)state;
    enum { MEMORY_LIMIT = 1 << 20 };
    static const struct {
        const char *kernel, *function, *draw, *dim, *features;
    } claims[] = {
        {"rbf", "sincos", "iid", "4294967295", "2"},
        {"rbf", "sincos", "iid", "3", "200000000"},
        {"rbf", "cosbias", "hadamard", "100000000", "8"},
        {"rbf", "sincos", "hadamard", "3", "2000000000"},
        {"elu", "elu", "iid", "100000000", "100000000"},
        {"taylor", "taylor", "iid", "16777216", "140737513521153"},
        {"polynomial", "polynomial", "iid", "10000", "50015001"},
        {"polynomial", "tensorsketch", "iid", "3", "200000003"},
        {"polynomial", "tensorsketch", "iid", "3", "4000037"},
        {"polynomial", "tensorsketch", "iid", "100000000", "8"},
        {"polynomial", "selftensor", "iid", "100000000", "10"},
        {"polynomial", "selftensor", "iid", "3", "4191960"},
        {"polynomial", "selftensor", "iid", "3", "200010000"},
        {"linear", "identity", "iid", "100000000", "100000000"},
        {"cosh", "exponential", "iid", "100000000", "200000000"},
        {"hedgehog", "hedgehog", "iid", "100000000", "200000000"},
        {"rectifier", "rectifier", "iid", "100000000", "100000000"},
    };
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        counting counter = {0};
        char json[512];
        bo_features *loaded;
        bo_context *context = counting_context(&counter, 1);
        snprintf(json, sizeof json,
                 "{\"format\": 1, \"kernel\": \"%s\", \"function\": \"%s\", \"draw\": \"%s\", "
                 "\"sampling\": \"drawn\", \"dim\": %s, \"features\": %s, \"gamma\": 1, \"alpha\": 0, "
                 "\"degree\": 2, \"pair_norm\": 0, \"seed\": \"1\", \"candidates\": 0, \"leverage_lambda\": 0}",
                 claims[i].kernel, claims[i].function, claims[i].draw, claims[i].dim, claims[i].features);
        write_altered(context, json, NULL, NULL, NULL, 0);
        counter.peak = 0;
        assert_fails(context, BO_FORMAT, path, bo_features_load(context, &(bo_source){.path = path}, &loaded));
        assert_true(counter.peak < MEMORY_LIMIT);
        bo_context_destroy(context);
        assert_int_equal(counter.live, 0);
    }
}

static bo_features *sketch(bo_context *context, bo_function function, size_t features)
{
    bo_features_desc desc = {.kernel = BO_KERNEL_POLYNOMIAL, .function = function, .dim = 3, .features = features};
    bo_features *f;
    assert_ok(context, bo_features_create(context, &desc, &f));
    return f;
}

/* The file of a map with one part of its description replaced (NULL: unchanged) is refused. */
static void refuse_altered(bo_context *context, const bo_features *f, const char *from, const char *to,
                           const char *message)
{
    bo_features *loaded;
    bo_file_tensor tensors[BO_FEATURES_TENSORS];
    size_t count;
    char *json;
    void *owned;
    assert_ok(context, bo_features_pack(context, f, tensors, &count, &json, &owned));
    write_altered(context, json, from, to, tensors, count);
    assert_fails(context, BO_FORMAT, message, bo_features_load(context, &(bo_source){.path = path}, &loaded));
    bo_free(json);
}

/* The hashes are present, but no array confirms the length of the sketch. */
static void long_sketches_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_features *f = sketch(context, BO_FUNCTION_TENSORSKETCH, 8);
    refuse_altered(context, f, "\"features\": 8", "\"features\": 200000003", "at most");
    bo_features_destroy(f);
    bo_context_destroy(context);
}

/* Hashes that point outside of the sketch would write out of bounds. */
static void hostile_hashes_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_features *f = sketch(context, BO_FUNCTION_TENSORSKETCH, 8);
    bo_sketch_hashes(f->sketch)[5] = 8;
    refuse_altered(context, f, NULL, NULL, "entry 5");
    bo_features_destroy(f);
    bo_context_destroy(context);
}

/* A matrix that is not finite would make every feature NaN; a matrix of another degree has another size. */
static void poisoned_sketches_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_features *f = sketch(context, BO_FUNCTION_SELFTENSOR, 6);
    bo_selftensor_matrices(f->selftensor)[7] = INFINITY;
    refuse_altered(context, f, NULL, NULL, "entry 7");
    refuse_altered(context, f, "\"degree\": 2", "\"degree\": 6", "features.selftensor");
    bo_features_destroy(f);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_map_survives_a_file, make_path, remove_path),
        cmocka_unit_test_setup_teardown(wrong_files_are_refused, make_path, remove_path),
        cmocka_unit_test_setup_teardown(declared_sizes_allocate_nothing, make_path, remove_path),
        cmocka_unit_test_setup_teardown(long_sketches_are_refused, make_path, remove_path),
        cmocka_unit_test_setup_teardown(hostile_hashes_are_refused, make_path, remove_path),
        cmocka_unit_test_setup_teardown(poisoned_sketches_are_refused, make_path, remove_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
