/* Seeds of the targets of foreign models: small files of all versions, tokenizers and types. */
#ifndef BO_FUZZ_FOREIGN_SEEDS_H
#define BO_FUZZ_FOREIGN_SEEDS_H

#include "tests/foreign.h"

/* A byte-level BPE with two merges. */
static inline void seed_bpe(foreign_gguf *file, const char *pre)
{
    static const char *const tokens[] = {"a", "b", "ab", "abb", "<|end|>", "c"}, *const merges[] = {"a b", "ab b"};
    foreign_text(file, "tokenizer.ggml.model", "gpt2");
    foreign_text(file, "tokenizer.ggml.pre", pre);
    foreign_texts(file, "tokenizer.ggml.tokens", tokens, 6);
    foreign_texts(file, "tokenizer.ggml.merges", merges, 2);
    foreign_size(file, "tokenizer.ggml.bos_token_id", 4);
    foreign_size(file, "tokenizer.ggml.eos_token_id", 4);
    foreign_flag(file, "tokenizer.ggml.add_bos_token", 1);
    foreign_text(file, "tokenizer.chat_template", "{{ messages }}");
}

static inline foreign_bytes seed_llama_bpe(void)
{
    static const float factors[] = {1, 8};
    foreign_gguf file = {.version = 2};
    tiny_metadata(&file, "llama");
    foreign_real(&file, "llama.rope.freq_base", 1e10f); /* the second pair is slow enough to be scaled */
    seed_bpe(&file, "llama-bpe");
    tiny_add_tensors(&file, TINY_TENSORS);
    foreign_tensor(&file, "rope_freqs.weight", 2, 0, 0, factors, sizeof factors);
    return foreign_join(&file);
}

/* GPT-2 with one layer: biases everywhere, transposed matrices. */
static inline foreign_bytes seed_gpt2(void)
{
    static const struct {
        const char *name;
        size_t rows, columns;
    } tensors[] = {{"token_embd", 6, 4},      {"position_embd", 5, 4},   {"output_norm", 4, 0},
                   {"blk.0.attn_norm", 4, 0}, {"blk.0.attn_qkv", 12, 4}, {"blk.0.attn_output", 4, 4},
                   {"blk.0.ffn_norm", 4, 0},  {"blk.0.ffn_up", 8, 4},    {"blk.0.ffn_down", 4, 8}};
    static const float numbers[64] = {0.5f, -1, 2};
    foreign_gguf file = {0};
    char name[64];
    foreign_text(&file, "general.architecture", "gpt2");
    foreign_size(&file, "gpt2.embedding_length", 4);
    foreign_size(&file, "gpt2.block_count", 1);
    foreign_size(&file, "gpt2.feed_forward_length", 8);
    foreign_size(&file, "gpt2.attention.head_count", 2);
    foreign_size(&file, "gpt2.context_length", 5);
    foreign_real(&file, "gpt2.attention.layer_norm_epsilon", 1e-5f);
    seed_bpe(&file, "gpt-2");
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        const size_t columns = tensors[i].columns ? tensors[i].columns : 1;
        snprintf(name, sizeof name, "%s.weight", tensors[i].name);
        foreign_tensor(&file, name, tensors[i].rows, tensors[i].columns, 0, numbers, tensors[i].rows * columns * 4);
        snprintf(name, sizeof name, "%s.bias", tensors[i].name);
        if (i > 1) foreign_tensor(&file, name, tensors[i].rows, 0, 0, numbers, tensors[i].rows * 4);
    }
    return foreign_join(&file);
}

/* A Llama of width 256 with otherwise minimal sizes, whose matrices have quantized types. */
static inline foreign_bytes seed_blocks(void)
{
    static const struct {
        const char *name;
        size_t rows, columns;
        uint32_t type;
        size_t block; /* bytes of 256 numbers */
    } tensors[] = {{"token_embd", 13, 256, 12, 144},   {"output", 13, 256, 14, 210},
                   {"output_norm", 256, 0, 0, 1024},   {"blk.0.attn_norm", 256, 0, 30, 512},
                   {"blk.0.attn_q", 4, 256, 10, 84},   {"blk.0.attn_k", 4, 256, 11, 110},
                   {"blk.0.attn_v", 4, 256, 13, 176},  {"blk.0.attn_output", 256, 4, 1, 512},
                   {"blk.0.ffn_norm", 256, 0, 8, 272}, {"blk.0.ffn_gate", 1, 256, 2, 144},
                   {"blk.0.ffn_up", 1, 256, 7, 192},   {"blk.0.ffn_down", 256, 1, 0, 1024}};
    unsigned char bytes[4096];
    foreign_gguf file = {0};
    char name[64];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i % 50);
    foreign_text(&file, "general.architecture", "llama");
    foreign_size(&file, "llama.embedding_length", 256);
    foreign_size(&file, "llama.block_count", 1);
    foreign_size(&file, "llama.feed_forward_length", 1);
    foreign_size(&file, "llama.attention.head_count", 2);
    foreign_size(&file, "llama.attention.key_length", 2);
    foreign_size(&file, "llama.attention.value_length", 2);
    foreign_size(&file, "llama.context_length", 5);
    foreign_text(&file, "llama.rope.scaling.type", "linear");
    foreign_real(&file, "llama.rope.scaling.factor", 2);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        const size_t columns = tensors[i].columns ? tensors[i].columns : 1;
        snprintf(name, sizeof name, "%s.weight", tensors[i].name);
        foreign_tensor(&file, name, tensors[i].rows, tensors[i].columns, tensors[i].type, bytes,
                       tensors[i].rows * columns / 256 * tensors[i].block);
    }
    return foreign_join(&file);
}

/* A llama2.c model after its tokenizer, whose length comes first. */
static inline foreign_bytes seed_llama2c(unsigned version)
{
    foreign_bytes out = {0}, tokenizer = tiny_tokenizer(), model = tiny_llama2c(version);
    foreign_put(&out, &(uint16_t){(uint16_t)tokenizer.size}, 2);
    foreign_put(&out, tokenizer.data, tokenizer.size);
    foreign_put(&out, model.data, model.size);
    free(tokenizer.data);
    free(model.data);
    return out;
}

#endif
