/* ListOps: trees are drawn from the root on, written as they come, and worked out on the way back. */
#include "generate.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_DEPTH = 64, MOST_ARGUMENTS = 64, OPERATIONS = 4 };

typedef struct bo_tree {
    bo_context *context;
    const bo_listops_desc *desc;
    bo_rng *rng;
    bo_buffer *text;
    size_t tokens;
} bo_tree;

static bo_status write_token(bo_tree *tree, char letter, const char *word)
{
    ++tree->tokens;
    if (!tree->desc->words) return bo_buffer_append(tree->context, tree->text, &letter, 1);
    BO_TRY(bo_buffer_append(tree->context, tree->text, " ", tree->tokens > 1 ? 1 : 0));
    return bo_buffer_append(tree->context, tree->text, word, strlen(word));
}

/* ---- operations ----------------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static int least(int *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return values[0];
}

static int greatest(int *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return values[count - 1];
}

static int median(int *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static int sum(int *values, size_t count)
{
    int total = 0;
    for (size_t i = 0; i < count; ++i) total += values[i];
    return total % 10;
}

static const struct {
    char letter;
    const char *word;
    int (*of)(int *values, size_t count); /* may order them */
} operations[OPERATIONS] = {{'m', "[MIN", least}, {'M', "[MAX", greatest}, {'d', "[MED", median}, {'s', "[SM", sum}};

/* ---- trees ---------------------------------------------------------------------------------------------------------------- */

/* One that has become too long is left as it is: nobody keeps it. */
static bo_status draw_value(bo_tree *tree, size_t depth, int *value)
{
    *value = 0;
    if (tree->tokens >= tree->desc->most) return BO_OK;
    if (depth == tree->desc->depth || bo_rng_below(tree->rng, 4) > 0) {
        *value = (int)bo_rng_below(tree->rng, 10);
        const char digit[2] = {(char)('0' + *value), 0};
        return write_token(tree, *digit, digit);
    }
    int values[MOST_ARGUMENTS];
    const size_t operation = (size_t)bo_rng_below(tree->rng, OPERATIONS);
    const size_t count = 2 + (size_t)bo_rng_below(tree->rng, tree->desc->arguments - 1);
    BO_TRY(write_token(tree, operations[operation].letter, operations[operation].word));
    for (size_t i = 0; i < count; ++i) BO_TRY(draw_value(tree, depth + 1, &values[i]));
    *value = operations[operation].of(values, count);
    return write_token(tree, ']', "]");
}

static bo_status draw_line(bo_context *context, const void *what, bo_rng *rng, bo_draft *out)
{
    const bo_listops_desc *desc = what;
    bo_tree tree = {.context = context, .desc = desc, .rng = rng, .text = &out->text};
    int value;
    BO_TRY(bo_buffer_append(context, &out->text, "0\t", 2));
    BO_TRY(draw_value(&tree, 1, &value));
    out->text.bytes[0] = (char)('0' + value);
    out->label = (size_t)value;
    out->tokens = tree.tokens;
    out->kept = tree.tokens > desc->least && tree.tokens < desc->most;
    return bo_buffer_append(context, &out->text, "\n", 1);
}

bo_status bo_generate_listops(bo_context *context, const bo_listops_desc *desc, uint64_t count, uint64_t seed,
                              bo_write_fn write, void *user, bo_generated *made)
{
    bo_listops_desc d = *desc;
    if (d.least == 0 && d.most == 0) d.least = 500;
    if (d.most == 0) d.most = 2000;
    if (d.depth == 0) d.depth = 10;
    if (d.arguments == 0) d.arguments = 10;
    if (d.depth > MOST_DEPTH || d.arguments < 2 || d.arguments > MOST_ARGUMENTS)
        return bo_fail(context, BO_INVALID, "ListOps of depth %zu with %zu arguments: expected 1 to %d, and 2 to %d",
                       d.depth, d.arguments, MOST_DEPTH, MOST_ARGUMENTS);
    if (d.most < d.least + 2)
        return bo_fail(context, BO_INVALID,
                       "ListOps of more than %zu and fewer than %zu tokens: there is no such length", d.least, d.most);
    char wanted[96];
    snprintf(wanted, sizeof wanted, "more than %zu and fewer than %zu tokens", d.least, d.most);
    const bo_drawing drawing = {"text.listops", wanted, true, &d, draw_line};
    return bo_generate(context, &drawing, count, seed, write, user, made);
}
