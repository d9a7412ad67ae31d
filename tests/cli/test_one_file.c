/* The program accepts a model in one file wherever it accepts a model directory, and prints the same. */
#include "program.h"
#include <bochner/bochner.h>

static void save_both(bo_context *context, const char *directory, const char *name, bo_model_desc desc)
{
    char path[256];
    bo_tokenizer *bytes;
    bo_model *model;
    desc.layers = desc.block.heads = 1;
    desc.width = desc.context = 16;
    desc.seed = 5;
    assert_ok(context, bo_tokenizer_create(context, &bytes));
    assert_ok(context, bo_model_create(context, &desc, bytes, &model));
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = path}));
    snprintf(path, sizeof path, "%s/%s.safetensors", directory, name);
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = path}));
    bo_model_destroy(model);
    bo_tokenizer_destroy(bytes);
}

static void write_text(const char *directory, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_models(void **state)
{
    char *directory = strdup("/tmp/bochner-file-XXXXXX");
    if (!mkdtemp(directory)) return -1;
    bo_context *context = test_context(1);
    save_both(context, directory, "words", (bo_model_desc){0});
    save_both(context, directory, "labels", (bo_model_desc){.task = BO_MODEL_TASK_CLASSIFY, .classes = 2});
    write_text(directory, "text.txt", "the cat sat on the mat, and the bat sat on the cat; the cat sat on the mat.\n");
    write_text(directory, "labeled.tsv", "0\tno cat\n1\ta cat\n");
    write_text(directory, "alone.txt", "no cat\na cat\n");
    bo_context_destroy(context);
    *state = directory;
    return 0;
}

/* The output of the command, without times. */
static char *printed(const char *directory, int status, const char *arguments)
{
    return program_prints(directory, status, arguments, "second");
}

/* `%s` is replaced by the model. */
static void same(const char *directory, const char *format, const char *name)
{
    char file[128], first[512], second[512];
    snprintf(file, sizeof file, "%s.safetensors", name);
    snprintf(first, sizeof first, format, name);
    snprintf(second, sizeof second, format, file);
    char *a = printed(directory, 0, first), *b = printed(directory, 0, second);
    if (strcmp(a, b) != 0) fail_msg("bochner %s prints '%.300s', of the directory '%.300s'", second, b, a);
    assert_true(strlen(a) > 0);
    free(a);
    free(b);
}

static void test_commands(void **state)
{
    same(*state, "generate %s --prompt 'the cat' --tokens 20 --greedy --quiet", "words");
    same(*state, "eval %s --data text.txt --json --quiet", "words");
    same(*state, "eval %s --data labeled.tsv --json --quiet", "labels");
    same(*state, "predict %s alone.txt --quiet", "labels");
    same(*state, "predict %s labeled.tsv --labeled --proba --quiet", "labels");
}

static void expect(const char *directory, int status, const char *arguments, const char *expected)
{
    char *text = printed(directory, status, arguments);
    if (!strstr(text, expected)) fail_msg("bochner %s prints '%.300s' without '%s'", arguments, text, expected);
    free(text);
}

static void test_more(void **state)
{
    expect(*state, 0, "info words.safetensors --json", "\"layers\": 1");
    expect(*state, 0, "info labels.safetensors", "labels.safetensors");
    free(printed(*state, 0, "train --init words.safetensors --data text.txt --out more --steps 1 --batch 1 --quiet"));
    free(printed(*state, 0,
                 "train --init words.safetensors --lora 2 --data text.txt --out adapter --steps 1 --batch 1 --quiet"));
    free(printed(*state, 0, "lora merge adapter --out merged.safetensors"));
    expect(*state, 2, "lora merge adapter --out merged.safetensors", "already exists");
    expect(*state, 0, "info merged.safetensors --json", "\"layers\": 1");
    /* a model is not replaced by a state, and tensors alone are not a model */
    expect(*state, 2, "generate words.safetensors --prompt a --tokens 1 --save-state words.safetensors",
           "would replace");
    expect(*state, 1, "generate words/model.safetensors --prompt a --tokens 1", "config.json");
    expect(*state, 1, "generate text.txt --prompt a --tokens 1", "text.txt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_commands, make_models, remove_directory),
        cmocka_unit_test_setup_teardown(test_more, make_models, remove_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
