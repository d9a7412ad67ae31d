/* A network that an earlier version saved to memory predicts with the same bits. */
#include "network.h"
#include "results.h"

static void predictions(void **state)
{
    (void)state;
    char path[1024];
    frozen *expected = frozen_expected("networks", "memory"), *file = calloc(1, sizeof *file);
    frozen_path(path, "networks", "memory", ".safetensors");
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    file->size = fread(file->bytes, 1, sizeof file->bytes, stream);
    fclose(stream);
    for (int threads = 1; threads <= 2; threads++) {
        bo_context *context = frozen_context(threads);
        frozen *found = calloc(1, sizeof *found);
        assert_ok(context, frozen_network(context, file->bytes, file->size, found));
        assert_int_equal(found->size, expected->size);
        assert_int_equal(frozen_differ("networks", "memory", "predictions", expected, found), 0);
        free(found);
        bo_context_destroy(context);
    }
    free(expected);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
