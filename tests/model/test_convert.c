/* Conversion of GGUF and llama2.c models: numbers, configuration, tokenizer, and the function of the result, which is
 * compared with a forward pass on the numbers of the source. */
#include <stdlib.h>
#include <bochner/convert.h>
#include <bochner/generate.h>
#include "foreign.h"
#include "io/files.h"
#include "io/json.h"
#include "io/tensors.h"
#include "model/import.h"
#include "model/model.h"

static const char *const files[] = {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
                                    "model.safetensors"};
enum { FILES = sizeof files / sizeof *files };

/* Removes the directory of a result. */
static void clear(const char *directory)
{
    DIR *listing = opendir(directory);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        char name[1024];
        snprintf(name, sizeof name, "%s/%.300s", directory, entry->d_name);
        if (entry->d_name[0] != '.') unlink(name);
    }
    if (listing) closedir(listing);
    rmdir(directory);
}

static bo_import_source source_of(const foreign_bytes *bytes, const foreign_bytes *tokenizer)
{
    return (bo_import_source){.path = "model",
                              .bytes = bytes->data,
                              .size = bytes->size,
                              .tokenizer_path = "tokenizer.bin",
                              .tokenizer = tokenizer ? tokenizer->data : NULL,
                              .tokenizer_size = tokenizer ? tokenizer->size : 0,
                              .keep = true};
}

/* ---- a forward pass ---------------------------------------------------------------------------------------------- */

typedef struct numbers {
    float items[TINY_VOCAB * TINY_WIDTH];
} numbers;

static void multiply(size_t tensor, size_t layer, const double *x, double *y)
{
    const tiny_tensor *t = &tiny_tensors[tensor];
    numbers w;
    tiny_fill(tensor, layer, w.items);
    for (size_t r = 0; r < t->rows; r++) {
        y[r] = 0;
        for (size_t c = 0; c < t->columns; c++) y[r] += (double)w.items[r * t->columns + c] * x[c];
    }
}

static void normalize(size_t tensor, size_t layer, const double *x, double *y)
{
    numbers w;
    double sum = 0;
    tiny_fill(tensor, layer, w.items);
    for (size_t i = 0; i < TINY_WIDTH; i++) sum += x[i] * x[i] / TINY_WIDTH;
    for (size_t i = 0; i < TINY_WIDTH; i++) y[i] = (double)w.items[i] * x[i] / sqrt(sum + 1e-5);
}

/* Turns neighboring numbers, as llama2.c does. */
static void rotate(double *x, size_t count, size_t position)
{
    const size_t head = TINY_WIDTH / TINY_HEADS;
    for (size_t i = 0; i < count; i += 2) {
        const double angle = (double)position * pow(10000, -(double)(i % head) / (double)head);
        const double a = x[i], b = x[i + 1];
        x[i] = a * cos(angle) - b * sin(angle);
        x[i + 1] = a * sin(angle) + b * cos(angle);
    }
}

enum { STEPS = 7, HEAD = TINY_WIDTH / TINY_HEADS };

/* The keys and values of all tokens so far. */
typedef struct past {
    double k[TINY_LAYERS][STEPS][HEAD], v[TINY_LAYERS][STEPS][HEAD];
} past;

static void attend(const past *p, size_t layer, size_t now, const double *q, double *out)
{
    for (size_t h = 0; h < TINY_HEADS; h++) {
        double sum = 0, weights[STEPS];
        for (size_t t = 0; t <= now; t++) {
            double score = 0;
            for (size_t i = 0; i < HEAD; i++) score += q[h * HEAD + i] * p->k[layer][t][i];
            sum += weights[t] = exp(score / sqrt(HEAD));
        }
        for (size_t i = 0; i < HEAD; i++) {
            out[h * HEAD + i] = 0;
            for (size_t t = 0; t <= now; t++) out[h * HEAD + i] += weights[t] / sum * p->v[layer][t][i];
        }
    }
}

/* The logits of the next token. Tensors are those of tiny_tensors. */
static void step(past *p, size_t now, int32_t id, double logits[TINY_VOCAB])
{
    double x[TINY_WIDTH], y[TINY_WIDTH], q[TINY_WIDTH], gate[TINY_HIDDEN], up[TINY_HIDDEN];
    numbers embedding;
    tiny_fill(0, 0, embedding.items);
    for (size_t i = 0; i < TINY_WIDTH; i++) x[i] = (double)embedding.items[(size_t)id * TINY_WIDTH + i];
    for (size_t layer = 0; layer < TINY_LAYERS; layer++) {
        normalize(1, layer, x, y);
        multiply(2, layer, y, q);
        multiply(3, layer, y, p->k[layer][now]);
        multiply(4, layer, y, p->v[layer][now]);
        rotate(q, TINY_WIDTH, now);
        rotate(p->k[layer][now], HEAD, now);
        attend(p, layer, now, q, y);
        multiply(5, layer, y, q);
        for (size_t i = 0; i < TINY_WIDTH; i++) x[i] += q[i];
        normalize(6, layer, x, y);
        multiply(7, layer, y, gate);
        multiply(9, layer, y, up);
        for (size_t i = 0; i < TINY_HIDDEN; i++) up[i] *= gate[i] / (1 + exp(-gate[i]));
        multiply(8, layer, up, y);
        for (size_t i = 0; i < TINY_WIDTH; i++) x[i] += y[i];
    }
    normalize(10, 0, x, y);
    multiply(0, 0, y, logits);
}

/* A float32 forward pass of sums of at most 20 products differs by rounding only: 1e-5 is 80 units of 2^-23. */
static void check_function(bo_context *context, const char *directory)
{
    static const int32_t ids[STEPS] = {1, 10, 5, 19, 7, 7, 3};
    bo_model *model;
    bo_session *session;
    past p;
    assert_ok(context, bo_model_load(context, &(bo_source){.path = directory}, NULL, &model));
    assert_ok(context, bo_session_create(context, model, NULL, &session));
    for (size_t t = 0; t < STEPS; t++) {
        double expected[TINY_VOCAB];
        float logits[TINY_VOCAB];
        step(&p, t, ids[t], expected);
        assert_ok(context, bo_session_feed(context, session, &ids[t], 1, logits));
        for (size_t i = 0; i < TINY_VOCAB; i++) assert_close(logits[i], expected[i], 1e-5);
    }
    bo_session_destroy(session);
    bo_model_destroy(model);
}

/* ---- the tiny model in all formats ------------------------------------------------------------------------------- */

static void check_tokenizer(bo_context *context, const char *directory)
{
    static const struct {
        const char *text;
        int32_t ids[8];
        size_t count;
    } cases[] = {{"abc", {1, 3, 9}, 3},    /* "ab" first, then "abc" before "▁ab" */
                 {"aaaa", {1, 10, 15}, 3}, /* "▁a", then "aa", then "aaa" */
                 {"dab", {1, 3, 11, 7}, 4},
                 {"", {1}, 1},
                 {"x", {1, 3, 0}, 3}};
    bo_tokenizer *tokenizer;
    assert_ok(context, bo_tokenizer_load(context, &(bo_source){.path = directory}, &tokenizer));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_ids ids = {0};
        assert_ok(context, bo_tokenizer_encode(context, tokenizer, cases[i].text, strlen(cases[i].text),
                                               BO_ENCODE_TEMPLATE, &ids));
        if (ids.count != cases[i].count) fail_msg("'%s' has %zu tokens", cases[i].text, ids.count);
        assert_memory_equal(ids.items, cases[i].ids, ids.count * sizeof *ids.items);
        bo_ids_free(&ids);
    }
    bo_tokenizer_destroy(tokenizer);
}

static void check_json(bo_context *context, const char *directory, const char *file, const char *member,
                       const char *expected)
{
    char path[1024], text[4096] = {0};
    snprintf(path, sizeof path, "%s/%s", directory, file);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    const size_t length = fread(text, 1, sizeof text - 1, in);
    fclose(in);
    bo_json *json;
    assert_ok(context, bo_json_parse(context, path, text, length, 8, &json));
    char *found = bo_json_print(bo_json_member(json, member));
    if (!found || strcmp(found, expected) != 0) fail_msg("%s: %s is %s, expected %s", file, member, found, expected);
    free(found);
    bo_json_delete(json);
}

static void check_directory(bo_context *context, const char *directory)
{
    check_function(context, directory);
    check_tokenizer(context, directory);
    check_json(context, directory, "config.json", "model_type", "\"llama\"");
    check_json(context, directory, "config.json", "rms_norm_eps", "1e-05");
    check_json(context, directory, "config.json", "num_key_value_heads", "1");
    check_json(context, directory, "config.json", "tie_word_embeddings", "true");
    check_json(context, directory, "tokenizer_config.json", "bos_token", "\"<s>\"");
}

/* The five files of the same model in four formats become the same function and tokenizer. */
static void formats(void **state)
{
    test_directory *f = *state;
    bo_context *context = f->context;
    foreign_bytes tokenizer = tiny_tokenizer();
    char directory[1024];
    snprintf(directory, sizeof directory, "%s/out", f->path);
    char path[640];
    snprintf(path, sizeof path, "%s", test_write(f, "tokenizer.bin", tokenizer.data, tokenizer.size));
    for (unsigned version = 0; version < 4; version++) { /* 3: GGUF */
        foreign_bytes bytes = version == 3 ? tiny_gguf() : tiny_llama2c(version);
        const bo_convert_desc desc = {.from = test_write(f, "model.any", bytes.data, bytes.size),
                                      .tokenizer = version == 3 ? NULL : path,
                                      .to = directory};
        assert_ok(context, bo_convert(context, &desc));
        check_directory(context, directory);
        /* llama2.c ends a text where the next one starts */
        check_json(context, directory, "generation_config.json", "eos_token_id", version == 3 ? "2" : "[1,2]");
        clear(directory);
        free(bytes.data);
    }
    free(tokenizer.data);
}

/* ---- types and shards -------------------------------------------------------------------------------------------- */

static void types(void **state)
{
    test_directory *f = *state;
    bo_context *context = f->context;
    foreign_bytes bytes = tiny_gguf();
    char directory[1024], path[1100], from[640];
    snprintf(directory, sizeof directory, "%s/out", f->path);
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    snprintf(from, sizeof from, "%s", test_write(f, "model.gguf", bytes.data, bytes.size));
    for (unsigned dtype = 0; dtype < 4; dtype++) {
        static const bo_dtype expected[] = {BO_F32, BO_F32, BO_F16, BO_BF16};
        bo_tensors *file;
        assert_ok(context, bo_convert(context, &(bo_convert_desc){
                                                   .from = from, .to = directory, .dtype = (bo_convert_dtype)dtype}));
        assert_ok(context, bo_tensors_open(context, path, &file)); /* and its checksum is right */
        const bo_file_tensor *tensor = bo_tensors_find(file, "model.embed_tokens.weight");
        assert_int_equal(tensor->dtype, expected[dtype]);
        for (size_t i = 0; i < TINY_VOCAB * TINY_WIDTH; i++) { /* all numbers are exact in every type */
            float value = 0;
            const uint16_t half = dtype >= 2 ? ((const uint16_t *)tensor->data)[i] : 0;
            const uint32_t bits = (uint32_t)half << 16;
            if (dtype < 2) value = ((const float *)tensor->data)[i];
            if (dtype == 2)
                bo_blocks_decode(bo_block_format_find(BO_BLOCK_F16), (const unsigned char *)&half, 1, &value);
            if (dtype == 3) memcpy(&value, &bits, sizeof value);
            assert_true(value == tiny_number(0, i));
        }
        bo_tensors_close(file);
        assert_ok(context, bo_convert(context, &(bo_convert_desc){.from = from, .to = directory})); /* replaces */
        clear(directory);
    }
    free(bytes.data);
}

static void shards(void **state)
{
    test_directory *f = *state;
    bo_context *context = f->context;
    foreign_bytes bytes = tiny_gguf();
    char directory[1024], path[1100];
    snprintf(directory, sizeof directory, "%s/out", f->path);
    const char *from = test_write(f, "model.gguf", bytes.data, bytes.size);
    assert_ok(context, bo_convert(context, &(bo_convert_desc){.from = from, .to = directory, .shard_bytes = 1000}));
    size_t tensors = 0, count = 0;
    for (count = 0; count < 100; count++) { /* their number is part of their names */
        bool found = false;
        for (size_t of = 1; of < 100 && !found; of++) {
            snprintf(path, sizeof path, "%s/model-%05zu-of-%05zu.safetensors", directory, count + 1, of);
            found = access(path, F_OK) == 0;
        }
        if (!found) break;
        bo_tensors *file;
        assert_ok(context, bo_tensors_open(context, path, &file));
        size_t sum = 0;
        for (size_t i = 0; i < bo_tensors_count(file); i++) sum += bo_tensors_at(file, i)->bytes;
        assert_true(sum <= 1000);
        tensors += bo_tensors_count(file);
        bo_tensors_close(file);
    }
    assert_true(count > 3);
    assert_int_equal(tensors, 2 + 9 * TINY_LAYERS);
    check_json(context, directory, "model.safetensors.index.json", "metadata", "{\"total_size\":4640}");
    clear(directory);
    free(bytes.data);
}

/* ---- refused ----------------------------------------------------------------------------------------------------- */

static void refuse_bytes(bo_context *context, foreign_bytes bytes, const foreign_bytes *tokenizer, bo_status status,
                         const char *message)
{
    const bo_import_source source = source_of(&bytes, tokenizer);
    bo_import import;
    assert_fails(context, status, message, bo_import_any(context, &source, &import));
    free(bytes.data);
}

/* A truncated file of long tokens: it is large enough for the tokens of the model, if they were short. */
static foreign_bytes few_long_tokens(void)
{
    static const unsigned lengths[] = {5, 5, 6, 100, 60};
    foreign_bytes out = {0};
    char name[100];
    memset(name, 'x', sizeof name);
    foreign_word(&out, 100);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        foreign_word(&out, 0);
        foreign_word(&out, lengths[i]);
        foreign_put(&out, name, lengths[i] - (i == 4 ? 30 : 0));
    }
    return out;
}

static void refuse_llama2c(void **state)
{
    bo_context *context = ((test_directory *)*state)->context;
    foreign_bytes tokenizer = tiny_tokenizer();
    foreign_bytes bytes = tiny_llama2c(0);
    bytes.size -= 1;
    refuse_bytes(context, bytes, NULL, BO_FORMAT, "the file may be truncated");
    bytes = tiny_llama2c(1);
    foreign_put(&bytes, "more", 4);
    refuse_bytes(context, bytes, NULL, BO_FORMAT, "bytes for the sizes in the header");
    bytes = tiny_llama2c(0);
    memset(bytes.data + 4, 0x7F, 4); /* the hidden size */
    refuse_bytes(context, bytes, NULL, BO_FORMAT, "hidden_dim in the header: expected 1 to 16777216");
    bytes = tiny_llama2c(0);
    bytes.data[12] = 3; /* heads */
    refuse_bytes(context, bytes, NULL, BO_FORMAT, "an even multiple of n_heads, found 8 and 3");
    bytes = tiny_llama2c(1);
    bytes.data[4] = 7;
    refuse_bytes(context, bytes, NULL, BO_UNSUPPORTED, "expected a llama2.c file of version 0, 1 or 2, found 7");
    bytes = tiny_llama2c(2);
    bytes.data[37] = 7;
    refuse_bytes(context, bytes, NULL, BO_FORMAT, "expected a multiple of the group size 7");
    refuse_bytes(context, (foreign_bytes){.data = calloc(1, 1)}, NULL, BO_FORMAT, "expected a header of 28 bytes");
    tokenizer.size -= 1;
    refuse_bytes(context, tiny_llama2c(0), &tokenizer, BO_FORMAT, "token 19 at byte");
    tokenizer.size += 1;
    foreign_put(&tokenizer, "more", 4);
    refuse_bytes(context, tiny_llama2c(0), &tokenizer, BO_FORMAT, "found 4 more bytes; it is the tokenizer of another");
    tokenizer.size -= 4;
    tokenizer.data[tokenizer.size - 1] = 'h'; /* as token 18 */
    refuse_bytes(context, tiny_llama2c(0), &tokenizer, BO_FORMAT, "tokens 18 and 19 have the same text 'h'");
    tokenizer.data[tokenizer.size - 1] = 0xFF;
    refuse_bytes(context, tiny_llama2c(0), &tokenizer, BO_FORMAT, "token 19 is not UTF-8");
    free(tokenizer.data);
    tokenizer = few_long_tokens();
    refuse_bytes(context, tiny_llama2c(0), &tokenizer, BO_FORMAT, "more bytes than the file declares");
    free(tokenizer.data);
}

/* A GGUF file that differs from the tiny one. */
static foreign_bytes changed(const char *architecture, size_t without, const char *key, const char *text,
                             const char *extra, uint32_t type)
{
    static const float zeros[256] = {0};
    foreign_gguf file = {0};
    tiny_metadata(&file, architecture);
    tiny_pieces(&file);
    if (key) foreign_text(&file, key, text);
    tiny_add_tensors(&file, without);
    if (extra) foreign_tensor(&file, extra, TINY_VOCAB, extra[0] == 'o' ? TINY_WIDTH : 0, type, zeros, 1024);
    return foreign_join(&file);
}

static void refuse_gguf(void **state)
{
    bo_context *context = ((test_directory *)*state)->context;
    const size_t all = TINY_TENSORS;
    refuse_bytes(context, changed("mamba", all, NULL, NULL, NULL, 0), NULL, BO_UNSUPPORTED,
                 "the architecture 'mamba' is not supported; expected one of: llama, qwen2");
    refuse_bytes(context, changed("llama", 2, NULL, NULL, NULL, 0), NULL, BO_FORMAT,
                 "2 tensors of a llama model are missing: blk.0.attn_q.weight, blk.1.attn_q.weight");
    refuse_bytes(context, changed("qwen2", all, NULL, NULL, NULL, 0), NULL, BO_FORMAT, "blk.0.attn_q.bias");
    refuse_bytes(context, changed("llama", all, NULL, NULL, "strange.weight", 0), NULL, BO_UNSUPPORTED,
                 "tensor 'strange.weight' is not part of a llama model");
    refuse_bytes(context, changed("llama", all, NULL, NULL, "blk.0.attn_q.bias", 0), NULL, BO_FORMAT,
                 "tensor 'blk.0.attn_q.bias': expected shape (8), found (20)");
    refuse_bytes(context, changed("llama", all, NULL, NULL, "output.weight", 26), NULL, BO_UNSUPPORTED,
                 "tensor 'output.weight': type I32 is not supported; supported types: F32");
    refuse_bytes(context, changed("llama", all, "llama.rope.scaling.type", "su", NULL, 0), NULL, BO_UNSUPPORTED,
                 "expected none, linear, yarn or longrope, found 'su'");
    refuse_bytes(context, changed("llama", all, "llama.logit_scale", "8", NULL, 0), NULL, BO_UNSUPPORTED,
                 "metadata 'llama.logit_scale' is not supported");
    refuse_bytes(context, changed("llama", all, "llama.expert_count", "8", NULL, 0), NULL, BO_FORMAT,
                 "'llama.expert_count': expected a whole number");
    refuse_bytes(context, changed("llama", all, NULL, NULL, "rope_freqs.weight", 0), NULL, BO_FORMAT,
                 "tensor 'rope_freqs.weight': expected 2 numbers of type F32, found 20");
    foreign_bytes tokenizer = tiny_tokenizer();
    refuse_bytes(context, tiny_gguf(), &tokenizer, BO_INVALID, "a GGUF file has its own tokenizer");
    free(tokenizer.data);
}

/* Numbers out of range of the type are refused, and the directory is unchanged. */
static void outside(void **state)
{
    test_directory *f = *state;
    bo_context *context = f->context;
    static const float large[] = {70000, NAN};
    char directory[1024], path[1100];
    snprintf(directory, sizeof directory, "%s/out", f->path);
    for (int i = 0; i < 2; i++) {
        foreign_bytes bytes = tiny_llama2c(0);
        memcpy(bytes.data + 28 + 4 * 5, &large[i], 4);
        const char *from = test_write(f, "model.bin", bytes.data, bytes.size);
        const bo_convert_desc desc = {.from = from, .to = directory, .dtype = BO_CONVERT_DTYPE_FLOAT16};
        assert_fails(context, i ? BO_FORMAT : BO_INVALID,
                     i ? "tensor 'model.embed_tokens.weight' contains a NaN or infinity"
                       : "tensor 'model.embed_tokens.weight': 70000 is outside the range of float16: choose bfloat16",
                     bo_convert(context, &desc));
        for (size_t k = 0; k < FILES; k++) {
            snprintf(path, sizeof path, "%s/%s", directory, files[k]);
            if (access(path, F_OK) == 0) fail_msg("%s was written", files[k]);
        }
        free(bytes.data);
    }
    clear(directory);
}

static bo_status import_once(bo_context *context, const void *arg)
{
    const bo_import_source *source = arg;
    bo_import import;
    BO_TRY(bo_import_any(context, source, &import));
    bo_import_free(&import);
    return BO_OK;
}

static void memory(void **state)
{
    (void)state;
    foreign_bytes tokenizer = tiny_tokenizer();
    for (unsigned i = 0; i < 2; i++) {
        foreign_bytes bytes = i ? tiny_gguf() : tiny_llama2c(0);
        const bo_import_source source = source_of(&bytes, i ? NULL : &tokenizer);
        test_starve(import_once, &source);
        free(bytes.data);
    }
    free(tokenizer.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(formats),     cmocka_unit_test(types),
                                       cmocka_unit_test(shards),      cmocka_unit_test(refuse_llama2c),
                                       cmocka_unit_test(refuse_gguf), cmocka_unit_test(outside),
                                       cmocka_unit_test(memory)};
    return cmocka_run_group_tests(tests, test_setup, test_teardown);
}
