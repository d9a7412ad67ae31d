/* Models of llama2.c: weights in a fixed order after a header of integers, and tokenizer.bin.
 *
 *     version 0   7 integers; a negative vocabulary: the output matrix is not the embedding
 *     version 1   "ak42", 1, 7 integers, a byte: the output matrix is the embedding; zeros up to byte 256
 *     version 2   the same with 2, and after that byte the group size: int8 matrices with a float32 scale per group
 *
 * Integers have 32 bits. The two numbers of a rotary pair are adjacent. */
#include "import.h"
#include <stdio.h>
#include <string.h>

enum { MAGIC = 0x616b3432, HEADER = 256, OLD_HEADER = 28, TOKENS_BEFORE_BYTES = 3, MAX_SIZE = 1 << 24 };

typedef struct model {
    const bo_import_source *source;
    unsigned version;
    size_t width, hidden, layers, heads, key_heads, vocab, context;
    bool tied;
    size_t group; /* version 2 */
    size_t at;    /* the byte after the last tensor */
} model;

static uint32_t word_at(const void *bytes, size_t at)
{
    const unsigned char *b = (const unsigned char *)bytes + at;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* ---- header ------------------------------------------------------------------------------------------------------ */

static bo_status check_size(bo_context *context, const model *m, const char *name, size_t value)
{
    if (value >= 1 && value <= MAX_SIZE) return BO_OK;
    return bo_fail(context, BO_FORMAT,
                   "%s: not a model of llama2.c, or damaged: %s in the header: expected 1 to %d, found %d",
                   m->source->path, name, MAX_SIZE, (int)(int32_t)(uint32_t)value);
}

static bo_status check_header(bo_context *context, const model *m)
{
    const struct {
        const char *name;
        size_t value;
    } all[] = {{"dim", m->width},      {"hidden_dim", m->hidden},    {"n_layers", m->layers},
               {"n_heads", m->heads},  {"n_kv_heads", m->key_heads}, {"vocab_size", m->vocab},
               {"seq_len", m->context}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) BO_TRY(check_size(context, m, all[i].name, all[i].value));
    if (m->width % m->heads || m->width / m->heads % 2)
        return bo_fail(context, BO_FORMAT, "%s: expected a dim that is an even multiple of n_heads, found %zu and %zu",
                       m->source->path, m->width, m->heads);
    if (m->heads % m->key_heads)
        return bo_fail(context, BO_FORMAT,
                       "%s: expected an n_heads that is a multiple of n_kv_heads, found %zu and %zu", m->source->path,
                       m->heads, m->key_heads);
    if (m->version == 2 && (m->group == 0 || m->group > MAX_SIZE))
        return bo_fail(context, BO_FORMAT, "%s: expected a group size of 1 to %d, found %zu", m->source->path, MAX_SIZE,
                       m->group);
    return BO_OK;
}

static bo_status read_header(bo_context *context, model *m)
{
    const bo_import_source *source = m->source;
    const bool newer = source->size >= 8 && word_at(source->bytes, 0) == MAGIC;
    const size_t length = newer ? HEADER : OLD_HEADER, first = newer ? 8 : 0;
    if (source->size < length)
        return bo_fail(context, BO_FORMAT, "%s: expected a header of %zu bytes, found a file of %zu bytes",
                       source->path, length, source->size);
    m->version = newer ? word_at(source->bytes, 4) : 0;
    if (newer && m->version != 1 && m->version != 2)
        return bo_fail(context, BO_UNSUPPORTED, "%s: expected a llama2.c file of version 0, 1 or 2, found %u",
                       source->path, m->version);
    size_t *const fields[] = {&m->width, &m->hidden, &m->layers, &m->heads, &m->key_heads, &m->vocab, &m->context};
    for (size_t i = 0; i < 7; i++) *fields[i] = word_at(source->bytes, first + 4 * i);
    const int32_t vocab = (int32_t)(uint32_t)m->vocab;
    m->tied = newer ? ((const unsigned char *)source->bytes)[36] != 0 : vocab > 0;
    if (!newer && vocab < 0) m->vocab = (size_t)-(int64_t)vocab;
    m->group = m->version == 2 ? word_at(source->bytes, 37) : 0;
    m->at = length;
    return check_header(context, m);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Reads the bytes of the next tensor of the file. Sizes in the header are at most 2^24: products of two do not
 * overflow. */
static bo_status read_tensor(bo_context *context, model *m, const char *name, bo_import_tensor *tensor)
{
    const bool grouped = m->group && tensor->rank == 2;
    const size_t numbers = bo_import_numbers(tensor), bytes = grouped ? numbers : 4 * numbers;
    const size_t scales = grouped ? 4 * (numbers / m->group) : 0, left = m->source->size - m->at;
    if (grouped && numbers % m->group)
        return bo_fail(context, BO_FORMAT, "%s: %s: expected a multiple of the group size %zu, found %zu numbers",
                       m->source->path, name, m->group, numbers);
    if (bytes + scales > left)
        return bo_fail(context, BO_FORMAT,
                       "%s: %s at byte %zu: expected %zu bytes, found the end of the file after %zu; the file may be "
                       "truncated, or it is not a model of llama2.c",
                       m->source->path, name, m->at, bytes + scales, left);
    tensor->data = (const unsigned char *)m->source->bytes + m->at;
    tensor->format = bo_block_format_find(BO_BLOCK_F32);
    tensor->scales = grouped ? tensor->data + bytes : NULL;
    tensor->group = m->group;
    m->at += bytes + scales;
    return BO_OK;
}

/* A tensor of the model, or of every layer. */
typedef struct row {
    const char *name;     /* of Hugging Face */
    size_t rows, columns; /* columns 0: a vector */
    size_t heads;         /* of rotated rows; 0: not rotated */
    bool layers;
} row;

static bo_status add_row(bo_context *context, model *m, const row *r, bo_import *out)
{
    char name[96];
    for (size_t i = 0; i < (r->layers ? m->layers : 1); i++) {
        bo_import_tensor tensor = {.rank = r->columns ? 2 : 1,
                                   .shape = {r->rows, r->columns},
                                   .order = r->heads ? BO_ROWS_PAIRS : BO_ROWS_SAME,
                                   .heads = r->heads};
        if (r->layers)
            snprintf(name, sizeof name, "model.layers.%zu.%s.weight", i, r->name);
        else
            snprintf(name, sizeof name, "%s.weight", r->name);
        BO_TRY(read_tensor(context, m, name, &tensor));
        BO_TRY(bo_import_add(context, m->source, name, &tensor, out));
    }
    return BO_OK;
}

/* Version 0 also stores tables of the position encoding, between the last norm and the output matrix. */
static bo_status add_tensors(bo_context *context, model *m, bo_import *out)
{
    const size_t width = m->width, keys = width / m->heads * m->key_heads;
    const row embedding = {"model.embed_tokens", m->vocab, width, 0, false}, norm = {"model.norm", width, 0, 0, false};
    const row attention_norm = {"input_layernorm", width, 0, 0, true};
    const row mlp_norm = {"post_attention_layernorm", width, 0, 0, true};
    const row output = {"lm_head", m->vocab, width, 0, false};
    const row attention[] = {{"self_attn.q_proj", width, width, m->heads, true},
                             {"self_attn.k_proj", keys, width, m->key_heads, true},
                             {"self_attn.v_proj", keys, width, 0, true},
                             {"self_attn.o_proj", width, width, 0, true}};
    const row mlp[] = {{"mlp.gate_proj", m->hidden, width, 0, true},
                       {"mlp.down_proj", width, m->hidden, 0, true},
                       {"mlp.up_proj", m->hidden, width, 0, true}};
    const row *const oldest[] = {&embedding,    &attention_norm, attention, attention + 1,
                                 attention + 2, attention + 3,   &mlp_norm, mlp,
                                 mlp + 1,       mlp + 2,         &norm};
    const row *const newer[] = {&attention_norm, &mlp_norm,     &norm, &embedding, attention, attention + 1,
                                attention + 2,   attention + 3, mlp,   mlp + 1,    mlp + 2};
    for (size_t i = 0; i < 11; i++) BO_TRY(add_row(context, m, (m->version ? newer : oldest)[i], out));
    if (m->version == 0) {
        bo_import_tensor tables = {.rank = 2, .shape = {m->context, width / m->heads}};
        BO_TRY(read_tensor(context, m, "the tables of the position encoding", &tables));
    }
    if (!m->tied) BO_TRY(add_row(context, m, &output, out));
    if (m->at == m->source->size) return BO_OK;
    return bo_fail(context, BO_FORMAT,
                   "%s: expected %zu bytes for the sizes in the header, found %zu; it is not a model of llama2.c, or "
                   "damaged",
                   m->source->path, m->at, m->source->size);
}

/* ---- tokenizer.bin ----------------------------------------------------------------------------------------------- */

static bool is_byte(const char *text, size_t length, unsigned byte)
{
    char expected[8];
    snprintf(expected, sizeof expected, "<0x%02X>", byte);
    return length == 6 && memcmp(text, expected, 6) == 0;
}

static bo_status add_token(bo_context *context, bo_import_vocab *vocab, size_t index, const char *text, size_t length)
{
    static const char *const first[] = {"<unk>", "<s>", "</s>"};
    char piece[BO_PIECE_BYTES];
    if (index < TOKENS_BEFORE_BYTES) { /* the file has newlines around <s> and </s>, so that no text contains them */
        BO_TRY(bo_import_vocab_add(context, vocab, index, first[index], strlen(first[index])));
        vocab->kinds[index] = index ? BO_TOKEN_CONTROL : BO_TOKEN_UNKNOWN;
        return BO_OK;
    }
    const size_t used = bo_import_piece(text, length, piece, sizeof piece);
    if (used == SIZE_MAX)
        return bo_fail(context, BO_FORMAT, "%s: token %zu: expected at most %zu bytes, found %zu", vocab->where, index,
                       sizeof piece, length);
    BO_TRY(bo_import_vocab_add(context, vocab, index, piece, used));
    if (index < TOKENS_BEFORE_BYTES + 256 && is_byte(text, length, (unsigned)(index - TOKENS_BEFORE_BYTES)))
        vocab->kinds[index] = BO_TOKEN_BYTE;
    return BO_OK;
}

static bo_status read_tokens(bo_context *context, const bo_import_source *source, bo_import_vocab *vocab, size_t count)
{
    const char *bytes = source->tokenizer;
    size_t at = 4;
    for (size_t i = 0; i < count; i++) {
        if (source->tokenizer_size - at < 8)
            return bo_fail(context, BO_FORMAT,
                           "%s: token %zu at byte %zu: expected %zu tokens, found the end of the file; the file may be "
                           "truncated or belong to another model",
                           vocab->where, i, at, count);
        const uint32_t bits = word_at(bytes, at), length = word_at(bytes, at + 4);
        memcpy(&vocab->scores[i], &bits, sizeof bits);
        at += 8;
        if (length > source->tokenizer_size - at)
            return bo_fail(context, BO_FORMAT, "%s: token %zu at byte %zu: expected %u bytes, found %zu", vocab->where,
                           i, at, length, source->tokenizer_size - at);
        if (vocab->scores[i] != vocab->scores[i])
            return bo_fail(context, BO_FORMAT, "%s: token %zu at byte %zu: the score is not a number", vocab->where, i,
                           at - 8);
        BO_TRY(add_token(context, vocab, i, bytes + at, length));
        at += length;
    }
    if (at == source->tokenizer_size) return BO_OK;
    return bo_fail(
        context, BO_FORMAT,
        "%s: expected %zu tokens, as the model has, found %zu more bytes; it is the tokenizer of another model",
        vocab->where, count, source->tokenizer_size - at);
}

static bo_status read_vocab(bo_context *context, const bo_import_source *source, size_t count, bo_import_vocab *out)
{
    /* a token takes 8 bytes besides its text; a space becomes three bytes */
    const size_t min_size = 4 + 8 * count;
    if (source->tokenizer_size < min_size)
        return bo_fail(context, BO_FORMAT,
                       "%s: expected the %zu tokens of the model in at least %zu bytes, found %zu bytes",
                       source->tokenizer_path, count, min_size, source->tokenizer_size);
    BO_TRY(bo_import_vocab_create(context, source->tokenizer_path, count, 3 * (source->tokenizer_size - min_size) + 16,
                                  true, out));
    out->space_prefix = out->add_bos = true;
    out->unk = 0;
    out->bos = 1;
    out->eos = 1;
    out->eot = 2;
    if (count < TOKENS_BEFORE_BYTES)
        return bo_fail(context, BO_FORMAT, "%s: expected at least 3 tokens, found %zu", out->where, count);
    return read_tokens(context, source, out, count);
}

/* ---- config.json ------------------------------------------------------------------------------------------------- */

static void write_size(bo_json_text *text, const char *name, size_t value)
{
    bo_json_raw(text, "  \"");
    bo_json_raw(text, name);
    bo_json_raw(text, "\": ");
    bo_json_whole(text, value);
    bo_json_raw(text, ",\n");
}

static void write_config(const model *m, const bo_import *import, const bo_import_vocab *vocab, bo_json_text *text)
{
    bo_json_raw(text, "{\n  \"architectures\": [\"LlamaForCausalLM\"],\n  \"model_type\": \"llama\",\n");
    bo_import_write_dtype(import, text);
    bo_import_write_ids(vocab, text);
    write_size(text, "vocab_size", m->vocab);
    write_size(text, "hidden_size", m->width);
    write_size(text, "intermediate_size", m->hidden);
    write_size(text, "num_hidden_layers", m->layers);
    write_size(text, "num_attention_heads", m->heads);
    write_size(text, "num_key_value_heads", m->key_heads);
    write_size(text, "head_dim", m->width / m->heads);
    write_size(text, "max_position_embeddings", m->context);
    bo_json_raw(text, "  \"hidden_act\": \"silu\",\n  \"attention_bias\": false,\n  \"mlp_bias\": false,\n"
                      "  \"rms_norm_eps\": 1e-05,\n  \"rope_theta\": 10000.0,\n"
                      "  \"rope_parameters\": {\"rope_theta\": 10000.0, \"rope_type\": \"default\"},\n"
                      "  \"tie_word_embeddings\": ");
    bo_json_raw(text, m->tied ? "true\n}\n" : "false\n}\n");
}

static bo_status write_texts(bo_context *context, const model *m, bo_import_vocab *vocab, bo_import *out)
{
    for (size_t i = 0; i < BO_IMPORT_TEXTS; i++) out->texts[i].context = context;
    write_config(m, out, vocab, &out->texts[BO_IMPORT_CONFIG]);
    bo_import_write_generation(vocab, &out->texts[BO_IMPORT_GENERATION]);
    if (!vocab->count) return BO_OK;
    out->tokenizer = "SentencePiece BPE";
    out->tokens = vocab->count;
    return bo_import_tokenizer(context, vocab, m->context, &out->texts[BO_IMPORT_TOKENIZER],
                               &out->texts[BO_IMPORT_TOKENIZER_CONFIG]);
}

bo_status bo_import_llama2c(bo_context *context, const bo_import_source *source, bo_import *out)
{
    model m = {.source = source};
    /* llama2.c trains on texts that start with <s> and end where the next one starts, so <s> also ends a text */
    bo_import_vocab vocab = {.bos = 1, .eos = 1, .eot = 2, .unk = 0, .pad = BO_TOKEN_NONE};
    *out = (bo_import){0};
    bo_status status = read_header(context, &m);
    if (status == BO_OK) status = add_tensors(context, &m, out);
    if (status == BO_OK && source->tokenizer) status = read_vocab(context, source, m.vocab, &vocab);
    if (status == BO_OK) status = write_texts(context, &m, &vocab, out);
    bo_import_vocab_free(&vocab);
    if (status != BO_OK) {
        bo_import_free(out);
        return status;
    }
    snprintf(out->format, sizeof out->format, "llama2.c version %u", m.version);
    out->architecture = "llama";
    out->layers = m.layers;
    out->width = m.width;
    out->vocab = m.vocab;
    out->context = m.context;
    return BO_OK;
}
