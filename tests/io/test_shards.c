/* Tensors in several files: an index opens them as one, and every inconsistency is refused with the names. */
#include "files.h"
#include "io/shards.h"

static const float values[] = {1, 2, 3, 4, 5, 6};

/* Writes a shard with one tensor of two numbers for each letter. */
static void write_shard(test_directory *f, const char *name, const char *tensor_names)
{
    bo_file_tensor tensors[8];
    char names[8][2];
    const size_t count = strlen(tensor_names);
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], 2, "%c", tensor_names[i]);
        tensors[i] = (bo_file_tensor){.name = names[i], .dtype = BO_F32, .rank = 1, .shape = {2}, .bytes = 8};
        tensors[i].data = values + (tensor_names[i] - 'a') % 5;
    }
    const bo_meta meta[] = {{"format", "pt"}, {name, "here"}};
    assert_ok(f->context, bo_tensors_write(f->context, test_path(f, name), tensors, count, meta, 2));
}

static const char GOOD[] = "{\"metadata\": {\"total_size\": 7}, \"weight_map\": {\"a\": \"1.safetensors\", "
                           "\"b\": \"1.safetensors\", \"c\": \"2.safetensors\", \"d\": \"3.safetensors\"}}";

static const char *write_good(test_directory *f)
{
    write_shard(f, "1.safetensors", "ba");
    write_shard(f, "2.safetensors", "c");
    write_shard(f, "3.safetensors", "d");
    return test_text(f, "model.safetensors.index.json", GOOD);
}

static void opened_as_one(void **state)
{
    test_directory *f = *state;
    bo_tensors *file;
    assert_ok(f->context, bo_shards_open(f->context, write_good(f), &file));
    assert_int_equal(bo_tensors_count(file), 4);
    for (size_t i = 0; i < 4; i++) {
        const bo_file_tensor *tensor = bo_tensors_at(file, i);
        assert_int_equal(tensor->name[0], 'a' + (int)i);
        assert_ptr_equal(bo_tensors_find(file, tensor->name), tensor);
        assert_memory_equal(tensor->data, values + i, 8);
    }
    assert_string_equal(bo_tensors_meta(file, "3.safetensors"), "here");
    assert_string_equal(bo_tensors_meta(file, "format"), "pt");
    assert_null(bo_tensors_meta(file, "4.safetensors"));
    assert_string_equal(bo_tensors_path(file), test_path(f, "model.safetensors.index.json"));
    bo_tensors_close(file);
}

static void refuse(test_directory *f, const char *index, bo_status status, const char *message)
{
    bo_tensors *file;
    const char *path = test_text(f, "model.safetensors.index.json", index);
    assert_fails(f->context, status, message, bo_shards_open(f->context, path, &file));
    assert_null(file);
}

#define MAP(lines) "{\"weight_map\": {" lines "}}"

static void refused(void **state)
{
    test_directory *f = *state;
    write_good(f);
    refuse(f, "", BO_FORMAT, "index.json");
    refuse(f, "[]", BO_FORMAT, "expected an object \"weight_map\"");
    refuse(f, "{}", BO_FORMAT, "expected an object \"weight_map\"");
    refuse(f, "{\"weight_map\": []}", BO_FORMAT, "expected an object \"weight_map\"");
    refuse(f, MAP(""), BO_FORMAT, "expected an object \"weight_map\"");
    refuse(f, MAP("\"a\": 3"), BO_FORMAT, "tensor 'a': expected the name of a file");
    refuse(f, MAP("\"a\": null"), BO_FORMAT, "tensor 'a': expected the name of a file");
    refuse(f, MAP("\"a\": \"1.safe\\u0000tensors\""), BO_FORMAT, "\\u0000");
    static const char *const outside[] = {"../1.safetensors",   "/etc/passwd",    "..", ".", "",
                                          "x/../1.safetensors", "./1.safetensors"};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        char text[256], message[256];
        snprintf(text, sizeof text, MAP("\"a\": \"%s\""), outside[i]);
        snprintf(message, sizeof message, "expected the name of a file in the same directory, found '%s'", outside[i]);
        refuse(f, text, BO_FORMAT, message);
    }
    refuse(f, MAP("\"a\": \"1.safetensors\", \"a\": \"2.safetensors\""), BO_FORMAT,
           "tensor 'a' occurs twice in \"weight_map\"");
    refuse(f,
           MAP("\"a\": \"8.safetensors\", \"b\": \"1.safetensors\", \"c\": \"9.safetensors\", \"d\": "
               "\"8.safetensors\""),
           BO_IO, "missing shards (2 of 3): 8.safetensors, 9.safetensors");
    refuse(f, MAP("\"a\": \"model.safetensors.index.json\""), BO_FORMAT, "index.json: expected a model"); /* itself */
    refuse(f,
           MAP("\"a\": \"1.safetensors\", \"b\": \"1.safetensors\", \"x\": \"1.safetensors\", \"y\": "
               "\"2.safetensors\", \"c\": \"2.safetensors\""),
           BO_FORMAT, "tensors that are not in their shards (2): 'x' (1.safetensors), 'y' (2.safetensors)");
    refuse(f, MAP("\"a\": \"1.safetensors\", \"c\": \"2.safetensors\""), BO_FORMAT,
           "tensors of the shards that are not in the index (1): 'b' (1.safetensors)");
    refuse(f, MAP("\"a\": \"2.safetensors\", \"b\": \"1.safetensors\", \"c\": \"2.safetensors\""), BO_FORMAT,
           "tensors that are not in their shards (1): 'a' (2.safetensors)");
    write_shard(f, "2.safetensors", "ca");
    refuse(f, GOOD, BO_FORMAT, "tensor 'a' is in two shards, 1.safetensors and 2.safetensors");
    /* a damaged shard is named */
    test_text(f, "2.safetensors", "short");
    refuse(f, GOOD, BO_FORMAT, "2.safetensors: expected a model");
    unlink(test_path(f, "2.safetensors"));
    mkdir(test_path(f, "2.safetensors"), 0777);
    refuse(f, GOOD, BO_IO, "2.safetensors: not a regular file");
    rmdir(test_path(f, "2.safetensors"));
}

/* A list that does not fit into a message ends with the number of the remaining names. */
static void many_names(void **state)
{
    test_directory *f = *state;
    char *text = malloc(1 << 20);
    size_t used = (size_t)sprintf(text, "{\"weight_map\": {");
    for (int i = 0; i < 5000; i++)
        used += (size_t)sprintf(text + used, "%s\"t%d\": \"shard-%05d-of-05000.safetensors\"", i ? "," : "", i, i);
    strcpy(text + used, "}}");
    refuse(f, text, BO_IO, "missing shards (5000 of 5000): shard-00000-of-05000.safetensors, shard-00001");
    assert_non_null(strstr(bo_context_error(f->context), " more"));
    free(text);
}

static bo_status open_and_close(bo_context *context, const void *path)
{
    bo_tensors *file = NULL;
    const bo_status status = bo_shards_open(context, path, &file);
    bo_tensors_close(file);
    return status;
}

static void out_of_memory(void **state)
{
    test_directory *f = *state;
    test_starve(open_and_close, write_good(f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(opened_as_one), cmocka_unit_test(refused),
                                       cmocka_unit_test(many_names), cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, test_setup, test_teardown);
}
