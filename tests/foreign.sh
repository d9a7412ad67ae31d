# Tiny models of other programs, for tests of the program and of the documentation: `. foreign.sh`, then
#
#   tiny_llama2c NAME   a llama2.c model of version 0 with 5 tokens, whose weights are zero
#   tiny_words NAME     its tokenizer.bin
#   tiny_gguf NAME      the same model as a GGUF file with its tokenizer
byte() { printf '\\%03o' "$(($1 & 255))"; }
# word N: 32 bits, little-endian; long N: 64 bits
word() { printf "$(byte "$1")$(byte $(($1 >> 8)))$(byte $(($1 >> 16)))$(byte $(($1 >> 24)))"; }
long() { word "$1"; word 0; }
text() { long ${#1}; printf '%s' "$1"; } # ASCII
zeros() { head -c "$1" /dev/zero; }

# width 8, hidden 12, 1 layer, 2 heads, 2 key heads, 5 tokens, context 16
tiny_llama2c() {
    {
        for size in 8 12 1 2 2 5 16; do word $size; done
        zeros $((4 * (5 * 8 + 8 + 4 * 64 + 8 + 3 * 96 + 8 + 16 * 4)))
    } >"$1"
}

tiny_words() {
    {
        word 6
        word 0; word 5; printf '<unk>'
        word 0; word 5; printf '\n<s>\n'
        word 0; word 6; printf '\n</s>\n'
        word 0; word 1; printf ' '
        word 0; word 1; printf a
    } >"$1"
}

size() { text "$1"; word 4; word "$2"; }
# tensor NAME OFFSET DIMENSION…: zeros of type F32
tensor() {
    text "$1"
    place=$2
    shift 2
    word $#
    for dimension in "$@"; do long "$dimension"; done
    word 0
    long "$place"
}

tiny_gguf() {
    {
        printf GGUF
        word 3
        long 11
        long 11
        text general.architecture; word 8; text llama
        size llama.embedding_length 8
        size llama.block_count 1
        size llama.feed_forward_length 12
        size llama.attention.head_count 2
        size llama.context_length 16
        text tokenizer.ggml.model; word 8; text llama
        text tokenizer.ggml.tokens; word 9; word 8; long 5
        for token in '<unk>' '<s>' '</s>' b a; do text "$token"; done
        text tokenizer.ggml.scores; word 9; word 6; long 5; zeros 20
        text tokenizer.ggml.token_type; word 9; word 5; long 5
        for kind in 2 3 3 1 1; do word $kind; done
        size tokenizer.ggml.padding_token_id 0
        tensor token_embd.weight 0 8 5
        tensor blk.0.attn_norm.weight 160 8
        tensor blk.0.attn_q.weight 192 8 8
        tensor blk.0.attn_k.weight 448 8 8
        tensor blk.0.attn_v.weight 704 8 8
        tensor blk.0.attn_output.weight 960 8 8
        tensor blk.0.ffn_norm.weight 1216 8
        tensor blk.0.ffn_gate.weight 1248 8 12
        tensor blk.0.ffn_up.weight 1632 8 12
        tensor blk.0.ffn_down.weight 2016 12 8
        tensor output_norm.weight 2400 8
    } >"$1"
    zeros $(((32 - $(wc -c <"$1") % 32) % 32 + 2432)) >>"$1"
}
