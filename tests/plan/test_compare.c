/* Models of one law: equal descriptions in files of any format, of any size, and differences by name. */
#include "../frozen/results.h"
#include <bochner/plan.h>
#include <unistd.h>

/* A model of a former format equals the model of the file that it is saved to. */
static int check_saved(const char *directory, const char *name)
{
    bo_context *context = test_context(1);
    bo_model *model, *saved;
    char path[1024];
    void *bytes;
    size_t size;
    frozen_path(path, directory, name, ".safetensors");
    if (access(path, F_OK) != 0) frozen_path(path, directory, name, "");
    assert_ok(context, bo_model_load(context, &(bo_source){.path = path}, NULL, &model));
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.bytes = &bytes, .size = &size}));
    assert_ok(context, bo_model_load(context, &(bo_source){.bytes = bytes, .size = size}, NULL, &saved));
    const bo_model_desc *a = bo_model_describe(model), *b = bo_model_describe(saved);
    const int wrong = bo_plan_compare(context, a, b) != BO_OK || bo_plan_compare(context, b, a) != BO_OK;
    if (wrong) print_message("%s/%s: %s\n", directory, name, bo_context_error(context));
    bo_free(bytes);
    bo_model_destroy(saved);
    bo_model_destroy(model);
    bo_context_destroy(context);
    return wrong;
}

static void formats_do_not_matter(void **state)
{
    (void)state;
    int wrong = 0;
    assert_true(frozen_each("language", check_saved, &wrong) >= 20);
    assert_int_equal(wrong, 0);
}

/* ---- one description --------------------------------------------------------------------------------------------- */

static const bo_block pattern[] = {{.heads = 2, .attention.window = 4, .repeat = 2}, {.heads = 2}};
static const bo_block unrolled[] = {
    {.heads = 2, .attention.window = 4}, {.heads = 2, .attention.window = 4}, {.heads = 2},
    {.heads = 2, .attention.window = 4}, {.heads = 2, .attention.window = 4}, {.heads = 2}};

static bo_model_desc base(void)
{
    return (bo_model_desc){.layers = 6, .width = 8, .context = 16, .vocab = 5, .block = {.heads = 2}};
}

/* Compares two models; NULL: no difference. */
static void compared(const bo_model_desc *a, const bo_model_desc *b, const char *message)
{
    bo_context *context = test_context(1);
    const bo_model_desc *both[] = {a, b};
    bo_model *models[2];
    for (size_t i = 0; i < 2; i++) assert_ok(context, bo_model_create(context, both[i], NULL, &models[i]));
    const bo_status status = bo_plan_compare(context, bo_model_describe(models[0]), bo_model_describe(models[1]));
    assert_int_equal(status, message ? BO_INVALID : BO_OK);
    if (message && !strstr(bo_context_error(context), message))
        fail_msg("'%s' does not contain '%s'", bo_context_error(context), message);
    for (size_t i = 0; i < 2; i++) bo_model_destroy(models[i]);
    bo_context_destroy(context);
}

static void sizes_do_not_matter(void **state)
{
    (void)state;
    const bo_model_desc small = base();
    bo_model_desc large = base(), scaled = base(), listed = base(), again = base();
    large.layers = 9;
    large.width = 24;
    large.vocab = 7;
    large.seed = 3;
    large.block.heads = 3;
    large.block.key_heads = 1;
    large.block.hidden = 40;
    large.block.attention.scale = 0.1;
    compared(&small, &large, NULL);
    scaled.embedding_scale = sqrt(8);
    large.embedding_scale = sqrt(24);
    compared(&scaled, &large, NULL); /* families scale embeddings by √width */
    compared(&small, &scaled, "\"embedding_scale\": 1 and \"embedding_scale\": 2.8");
    scaled = again; /* attention that the mixer does not have, and features that the attention does not have */
    scaled.block.attention.features.kernel = BO_KERNEL_SOFTMAX;
    compared(&small, &scaled, NULL);
    scaled.block = large.block = (bo_block){.heads = 2, .mixer = BO_MIXER_SSM};
    scaled.block.attention.kind = BO_ATTENTION_LINEAR;
    scaled.embedding_scale = large.embedding_scale = 1;
    compared(&scaled, &large, NULL);
    listed.blocks = pattern;
    listed.block_count = 2;
    again.blocks = unrolled;
    again.block_count = 6;
    compared(&listed, &again, NULL); /* two lists of one pattern */
    again.block_count = 3;
    again.layers = 12;
    compared(&listed, &again, NULL);
}

static void differences_are_named(void **state)
{
    (void)state;
    const bo_model_desc first = base();
    bo_model_desc other = base();
    other.context = 32;
    compared(&first, &other, "\"max_position_embeddings\": 16 and \"max_position_embeddings\": 32");
    other = base();
    other.untied = true;
    compared(&first, &other, "\"tie_word_embeddings\": true and \"tie_word_embeddings\": false");
    other = base();
    other.block.mixer = BO_MIXER_SSM;
    compared(&first, &other, "layer 0: \"mixer\": \"attention\" and \"mixer\": \"ssm\"");
    other = base();
    other.block.attention.kind = BO_ATTENTION_LINEAR;
    compared(&first, &other, "layer 0: \"kind\": \"softmax\" and \"kind\": \"linear\"");
    other = base();
    other.blocks = pattern;
    other.block_count = 2;
    compared(&first, &other, "layer 0: \"window\": 0 and \"window\": 4");
    bo_model_desc short_one = other;
    short_one.blocks = unrolled + 1; /* the pattern starts elsewhere */
    short_one.block_count = 3;
    compared(&other, &short_one, "layer 1: \"window\": 4 and \"window\": 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(formats_do_not_matter), cmocka_unit_test(sizes_do_not_matter),
                                       cmocka_unit_test(differences_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
