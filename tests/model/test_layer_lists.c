/* Layers and their weights, named by blocks of a model. */
#include "model/blocks.h"
#include "models.h"

/* Two blocks: layers 0, 1, 3, 4, 6 and layers 2, 5. */
static bo_model_desc desc_of(bo_block blocks[2])
{
    bo_model_desc d = test_desc("softmax");
    blocks[0] = blocks[1] = d.block;
    blocks[0].repeat = 2, d.layers = 7, d.blocks = blocks, d.block_count = 2;
    return d;
}

static void lists_of_layers(void **state)
{
    (void)state;
    static const struct {
        const char *list, *marked, *message; /* message: it is refused */
    } cases[] = {{"", "0000000", NULL},
                 {"block-0", "1101101", NULL},
                 {"block-1", "0010010", NULL},
                 {"block-1,block-1,2", "0010010", NULL},
                 {"block-0,block-1", "1111111", NULL},
                 {"0,block-1", "1010010", NULL},
                 {"block-1,5-6", "0010011", NULL},
                 {"0-1,block-1,6", "1110011", NULL},
                 {"block-2", NULL, "kept: block-2: the model has 2 blocks, numbered from 0"},
                 {"block-99999999999999999999999", NULL, "the model has 2 blocks"},
                 {"block-", NULL, "found 'block-'"},
                 {"block", NULL, "blocks such as block-1"},
                 {"block--1", NULL, "blocks such as block-1"},
                 {"block-1,", NULL, "blocks such as block-1"},
                 {"block-1-2", NULL, "blocks such as block-1"},
                 {"block-1x", NULL, "blocks such as block-1"},
                 {"block-1 ", NULL, "blocks such as block-1"},
                 {"Block-1", NULL, "blocks such as block-1"},
                 {",block-1", NULL, "blocks such as block-1"},
                 {"block-0,7", NULL, "below 7, the number of layers, found 7"}};
    bo_context *context = test_context(1);
    bo_block blocks[2];
    const bo_model_desc d = desc_of(blocks);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool marked[7] = {false};
        const bo_status status = bo_layers_list(context, "kept", cases[i].list, &d, marked);
        if ((status == BO_OK) != !cases[i].message || (status && !strstr(bo_context_error(context), cases[i].message)))
            fail_msg("'%s': %s", cases[i].list, status ? bo_context_error(context) : "accepted");
        for (size_t l = 0; !cases[i].message && l < 7; l++)
            if (marked[l] != (cases[i].marked[l] == '1')) fail_msg("'%s': layer %zu", cases[i].list, l);
    }
    bo_context_destroy(context);
}

#define BOTH(rest) "model.layers.2." rest ",model.layers.5." rest
static void lists_of_weights(void **state)
{
    (void)state;
    static const struct {
        const char *targets, *expected, *message;
    } cases[] = {{"all", "all", NULL},
                 {"", "", NULL},
                 {"q_proj,v_proj", "q_proj,v_proj", NULL},
                 {"block-1", BOTH("*"), NULL},
                 {"block-1.q_proj", BOTH("*.q_proj"), NULL},
                 {"block-1.linear.3", BOTH("*.linear.3"), NULL},
                 {"block-1.*_proj", BOTH("*.*_proj"), NULL},
                 {"block-1.self_attn.q_proj", BOTH("self_attn.q_proj"), NULL},
                 {"block-1.mlp.*", BOTH("mlp.*"), NULL},
                 {"o_proj,block-1.up,k_proj", "o_proj," BOTH("*.up") ",k_proj", NULL},
                 {"block-", "block-", NULL}, /* a name, which no layer has */
                 {"block-1x", "block-1x", NULL},
                 {"blocks-1", "blocks-1", NULL},
                 {"block-2.q_proj", NULL, "lora: targets: block-2: the model has 2 blocks"},
                 {"q_proj,block-2", NULL, "lora: targets: block-2: the model has 2 blocks"}};
    bo_context *context = test_context(1);
    bo_block blocks[2];
    const bo_model_desc d = desc_of(blocks);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *found;
        const bo_status status = bo_block_targets(context, &d, cases[i].targets, &found);
        if (cases[i].message ? status != BO_INVALID || !strstr(bo_context_error(context), cases[i].message) || found
                             : status != BO_OK || strcmp(found, cases[i].expected) != 0)
            fail_msg("'%s': %s", cases[i].targets, status ? bo_context_error(context) : found);
        bo_free(found);
    }
    /* names that are too long are refused, and not cut */
    char *found, *name = malloc(1000);
    memset(name, 'x', 999);
    name[999] = 0;
    assert_fails(context, BO_INVALID, "too long", bo_block_targets(context, &d, name, &found));
    memcpy(name, "block-1.", 8);
    assert_fails(context, BO_INVALID, "too long", bo_block_targets(context, &d, name, &found));
    assert_null(found);
    free(name);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lists_of_layers), cmocka_unit_test(lists_of_weights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
