#include "container.h"
#include <bochner/embedding.h>

static void apply(bo_context *context, const bo_embedding *embedding)
{
    static float x[FUZZ_APPLIED_ROWS * FUZZ_MAX_DIM];
    static double c[FUZZ_APPLIED_ROWS * FUZZ_MAX_OUTPUTS], error[FUZZ_APPLIED_ROWS];
    static double back[FUZZ_APPLIED_ROWS * FUZZ_MAX_DIM];
    const bo_embedding_report *report = bo_embedding_describe(embedding);
    const size_t rows = FUZZ_APPLIED_ROWS, dim = report->dim;
    if (dim > FUZZ_MAX_DIM || report->features > FUZZ_MAX_OUTPUTS) return; /* components <= features */
    fuzz_inputs(rows * dim, x);
    fuzz_ok(context, bo_embedding_apply(context, embedding, &(bo_inputs){.rows = rows, .x = x}, c, error));
    fuzz_ok(context, bo_embedding_invert(context, embedding, rows, c, back));
}

/* Written data can be read. */
static void again(bo_context *context, const bo_embedding *embedding, const bo_schema *schema)
{
    bo_embedding *copy;
    void *bytes;
    size_t size;
    if (!fuzz_ok(context, bo_embedding_save(context, embedding, schema, &(bo_sink){.bytes = &bytes, .size = &size})))
        abort();
    if (!fuzz_ok(context, bo_embedding_load(context, &(bo_source){.bytes = bytes, .size = size}, &copy, NULL))) abort();
    bo_embedding_destroy(copy);
    bo_free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    bo_embedding *embedding;
    bo_schema *schema;
    uint8_t *image = fuzz_image(data, size);
    const bool loaded =
        fuzz_ok(context, bo_embedding_load(context, &(bo_source){.bytes = image, .size = size}, &embedding, &schema));
    free(image);
    if (!loaded) return 0;
    apply(context, embedding);
    again(context, embedding, schema);
    bo_embedding_destroy(embedding);
    bo_schema_destroy(schema);
    return 0;
}
