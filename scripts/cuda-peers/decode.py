#!/usr/bin/env python3
"""Decoding with GPT-2 small in PyTorch on a GPU from a full KV cache: bfloat16, one CUDA graph per step.

    scripts/cuda-peers/decode.py --tokens 1024,32768 --sequences 64

The cache has a fixed size of --tokens. A step writes the keys and values of the last position, attends to the entire cache, and
chooses the most likely token. Prints one line of JSON per measurement."""
import functools, time
import torch
from torch.nn import functional as F
import gpt2, measure


def main():
    parser = measure.options(__doc__)
    parser.add_argument("--tokens", default="1024,32768", help="numbers of tokens in the cache")
    parser.add_argument("--sequences", default="64", help="batch size of decoding")
    parser.add_argument("--variants", default="compiled,eager")
    o = parser.parse_args()
    begin = measure.start()
    for tokens in measure.numbers(o.tokens):
        for sequences in measure.numbers(o.sequences):
            for variant in o.variants.split(","):
                if time.monotonic() - begin > o.seconds:
                    return measure.note("no time left")
                measure.attempt("%d tokens, %d sequences, %s" % (tokens, sequences, variant),
                                functools.partial(run, o, tokens, sequences, variant))


def make_cache(sequences, tokens):
    """Keys and values of every layer, as separate tensors, which compiled code changes in place."""
    size = sequences, gpt2.HEADS, tokens, gpt2.WIDTH // gpt2.HEADS
    return [[torch.empty(*size, device="cuda", dtype=torch.bfloat16).normal_() for _ in range(2)] for _ in range(gpt2.LAYERS)]


def decode(model, cache, last, ids):
    """The next token of every sequence: ids of shape [sequences, 1]; last: the position in the cache, of shape [1]."""
    x = model.tokens(ids) + model.positions(last)
    for block, (keys, values) in zip(model.blocks, cache):
        q, k, v = block.split(x)
        keys[:, :, last] = k
        values[:, :, last] = v
        x = block.finish(x, F.scaled_dot_product_attention(q, keys, values))
    return model.logits(x)[:, -1].argmax(-1, keepdim=True)


@torch.no_grad()
def run(o, tokens, sequences, variant):
    torch._dynamo.reset()
    torch.cuda.reset_peak_memory_stats()
    model = gpt2.GPT2(tokens).cuda().to(torch.bfloat16)
    cache = make_cache(sequences, tokens)
    last = torch.tensor([tokens - 1], device="cuda")
    ids = torch.randint(gpt2.VOCABULARY, (sequences, 1), device="cuda")
    step = torch.compile(decode, dynamic=False) if variant == "compiled" else decode
    milliseconds, graph = measure.median_ms(lambda: ids.copy_(step(model, cache, last, ids)), o.repeats)
    kept = sum(2 * keys.numel() * keys.element_size() for keys, _ in cache)
    moved = kept + 2 * sum(p.numel() for p in model.parameters())
    measure.emit(what="decode", kind="softmax", variant=variant, tokens=tokens, sequences=sequences, graph=graph,
                 milliseconds=milliseconds, tokens_per_second=1e3 * sequences / milliseconds, cache_bytes=kept,
                 terabytes_per_second=1e-9 * moved / milliseconds, peak_bytes=torch.cuda.max_memory_allocated())


if __name__ == "__main__":
    main()
