"""PyTorch's causal attention on the CPU: attention_torch.py LENGTHS FEATURES [repeats] [longest softmax]

Eight heads of 64 dimensions in float32; lists are separated by commas. Linear attention uses positive features of the softmax
kernel, whose time is included, and running sums by chunks, with all chunks in one batched product; it is timed forward, and
forward with the gradients of q, k and v. Softmax attention uses the whole masked matrix of scores, or blocks of queries that
skip the keys a block cannot see. Each is timed with several sizes of chunks or blocks, with one thread and with all; the
fastest run of the fastest setting counts. Prints one JSON object."""
import json, os, sys, time
import torch

HEADS, DIM = 8, 64
CHUNKS = (32, 64, 128, 256)
BLOCKS = (128, 256, 512)
ALL = len(os.sched_getaffinity(0))  # torch may choose fewer by default


def positive(x, w):
    """exp(w·x - |x|²/2) with x scaled by d^-1/4; the constant keeps the denominator away from 0."""
    x = x * DIM ** -0.25
    return torch.exp(x @ w - x.square().sum(-1, keepdim=True) / 2) + 1e-6


def linear(q, k, v, w, chunk):
    phi_q, phi_k = (positive(x, w).unflatten(1, (-1, chunk)) for x in (q, k))
    values = torch.cat((v, v.new_ones(*v.shape[:-1], 1)), -1).unflatten(1, (-1, chunk))
    sums = (phi_k.transpose(-1, -2) @ values).cumsum(1)
    before = torch.cat((torch.zeros_like(sums[:, :1]), sums[:, :-1]), 1)
    out = phi_q @ before + (phi_q @ phi_k.transpose(-1, -2)).tril() @ values
    out = out.flatten(1, 2)
    return out[..., :-1] / out[..., -1:]


def exact(q, k, v, mask):
    return torch.softmax(q @ k.transpose(-1, -2) * DIM ** -0.5 + mask, -1) @ v


def exact_blocks(q, k, v, mask, block):
    rows = range(0, q.shape[1], block)
    return torch.cat([exact(q[:, i:i + block], k[:, :i + block], v[:, :i + block], mask[i:i + block, :i + block])
                      for i in rows], 1)


def blas():
    """The BLAS libraries of this process; torch.set_num_threads does not control their threads."""
    with open("/proc/self/maps") as maps:
        return sorted({os.path.realpath(line.split()[-1]) for line in maps if "blas" in line or "mkl" in line})


def fastest(run, blocks, repeats):
    """The best setting: {"seconds", "block", "threads"}; a block of 0 is the whole sequence."""
    best = {"seconds": float("inf")}
    for threads in sorted({1, ALL}):
        torch.set_num_threads(threads)
        for block in blocks:
            for i in range(repeats + 1):  # the first is a warmup
                start = time.perf_counter()
                run(block)
                seconds = time.perf_counter() - start
                if i and seconds < best["seconds"]:
                    best = {"seconds": seconds, "block": block, "threads": threads}
    torch.set_num_threads(ALL)
    return best


def without_gradients(run):
    def quietly(block):
        with torch.no_grad():
            run(block)
    return quietly


def with_gradients(run, inputs, gradient):
    def both(block):
        torch.autograd.grad(run(block), inputs, gradient)
    return both


def measure(tokens, features, repeats, longest_exact):
    inputs = [torch.randn(HEADS, tokens, DIM, requires_grad=True) for _ in range(3)]
    gradient = torch.randn(HEADS, tokens, DIM)
    chunks = [c for c in CHUNKS if tokens % c == 0]
    for count in features if chunks else ():
        w = torch.randn(DIM, count)
        run = lambda chunk: linear(*inputs, w, chunk)
        yield {"form": "forward", "features": count, "tokens": tokens,
               **fastest(without_gradients(run), chunks, repeats)}
        yield {"form": "forward + backward", "features": count, "tokens": tokens,
               **fastest(with_gradients(run, inputs, gradient), chunks, repeats)}
    if tokens <= longest_exact:
        mask = torch.full((tokens, tokens), float("-inf")).triu(1)
        run = lambda block: exact_blocks(*inputs, mask, block)
        yield {"form": "forward", "features": 0, "tokens": tokens,
               **fastest(without_gradients(lambda _: exact(*inputs, mask)), (0,), repeats)}
        blocks = [b for b in BLOCKS if b < tokens] or (tokens,)
        yield {"form": "forward by blocks", "features": 0, "tokens": tokens,
               **fastest(without_gradients(run), blocks, repeats)}


def main():
    lengths, features = ([int(item) for item in text.split(",")] for text in sys.argv[1:3])
    repeats = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    longest_exact = int(sys.argv[4]) if len(sys.argv) > 4 else 4096
    torch.manual_seed(0)
    runs = [record for tokens in lengths for record in measure(tokens, features, repeats, longest_exact)]
    print(json.dumps({"peer": f"PyTorch {torch.__version__}", "blas": blas(), "threads": ALL, "heads": HEADS, "dim": DIM,
                      "runs": runs}))


main()
