#!/usr/bin/env python3
"""Training steps of GPT-2 small in PyTorch on a GPU: bfloat16 autocast, fused attention, clipping, fused AdamW; eager and compiled.

    scripts/cuda-peers/train.py --shapes 1024x32,8192x4

A shape is tokens x sequences. A step is forward, backward, clipping of the gradient to norm 1 and an update. Prints one line of JSON
per measurement."""
import functools, statistics, time
import torch
import gpt2, measure


def main():
    parser = measure.options(__doc__)
    parser.add_argument("--shapes", default="1024x32,8192x4", help="tokens x sequences, separated by commas")
    parser.add_argument("--steps", type=int, default=20, help="timed steps")
    parser.add_argument("--variants", default="compiled,eager")
    o = parser.parse_args()
    begin = measure.start()
    torch.set_float32_matmul_precision("high")
    for shape in o.shapes.split(","):
        tokens, sequences = (int(word) for word in shape.split("x"))
        for variant in o.variants.split(","):
            if time.monotonic() - begin > o.seconds:
                return measure.note("no time left")
            measure.attempt("%s, %s" % (shape, variant), functools.partial(run, o, tokens, sequences, variant))


def run(o, tokens, sequences, variant):
    torch._dynamo.reset()
    torch.cuda.reset_peak_memory_stats()
    model = gpt2.GPT2(tokens).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    forward = torch.compile(model) if variant == "compiled" else model
    ids = torch.randint(gpt2.VOCABULARY, (sequences, tokens + 1), device="cuda")

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = forward(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    started = time.monotonic()
    for _ in range(5):
        loss = step()
    torch.cuda.synchronize()
    warmup = time.monotonic() - started
    samples = [measure.elapsed(step, 1) for _ in range(o.steps)]
    milliseconds = statistics.median(samples)
    parameters = sum(p.numel() for p in model.parameters())
    operations = (6 * parameters + 6 * gpt2.LAYERS * gpt2.WIDTH * tokens) * tokens * sequences
    measure.emit(what="train", kind="softmax", variant=variant, tokens=tokens, sequences=sequences, parameters=parameters,
                 milliseconds=milliseconds, tokens_per_second=1e3 * tokens * sequences / milliseconds,
                 teraflops=1e-9 * operations / milliseconds, peak_bytes=torch.cuda.max_memory_allocated(),
                 warmup_seconds=warmup, loss=loss.item())


if __name__ == "__main__":
    main()
