"""PyTorch's causal attention on the CPU: attention_torch.py LENGTHS FEATURES [repeats] [longest softmax]

Eight heads of 64 dimensions; lists are separated by commas. Linear attention uses positive features of the softmax kernel,
whose time is included; it is timed forward, and forward with the gradients of q, k and v. Its forms:

    column      states of all chunks in one batched product, then running sums; the denominator is one more column of v
    separate    the same with separate denominators
    scan        one chunk after the other, which needs less memory

Softmax attention is scaled_dot_product_attention, timed forward. Every form is timed in float32 and in bfloat16 (bfloat16
inputs, float32 running sums), eager and compiled (torch.compile, which needs a C++ compiler), with several chunk sizes, on all
CPUs; the fastest setting also on half of them. The fastest run of the fastest setting counts. Standard
error lists all settings. Prints one JSON object."""
import json, math, sys, time
import peer_setup
peer_setup.for_torch()
import torch
from torch.nn import functional as F

HEADS, DIM = 8, 64


def positive(x, w):
    """exp(w·x - |x|²/2) with x scaled by d^-1/4; the constant bounds the denominator away from 0."""
    x = x * DIM ** -0.25
    return torch.exp(x @ w - x.square().sum(-1, keepdim=True) / 2) + 1e-6


def before(sums):
    """The sums over earlier chunks, added in float32."""
    wide = sums.float()
    return (wide.cumsum(1) - wide).to(sums.dtype)


def column(q, k, v, w, chunk):
    phi_q, phi_k = (positive(x, w).unflatten(1, (-1, chunk)) for x in (q, k))
    values = torch.cat((v, v.new_ones(*v.shape[:-1], 1)), -1).unflatten(1, (-1, chunk))
    states = before(phi_k.transpose(-1, -2) @ values)
    out = (phi_q @ states + (phi_q @ phi_k.transpose(-1, -2)).tril() @ values).flatten(1, 2)
    return out[..., :-1] / out[..., -1:]


def separate(q, k, v, w, chunk):
    phi_q, phi_k = (positive(x, w).unflatten(1, (-1, chunk)) for x in (q, k))
    values = v.unflatten(1, (-1, chunk))
    scores = (phi_q @ phi_k.transpose(-1, -2)).tril()
    below = scores.sum(-1, keepdim=True) + phi_q @ before(phi_k.sum(2)).unsqueeze(-1)
    out = phi_q @ before(phi_k.transpose(-1, -2) @ values) + scores @ values
    return (out / below).flatten(1, 2)


def scan(q, k, v, w, chunk):
    state, keys, out = torch.zeros(HEADS, w.shape[1], DIM), torch.zeros(HEADS, w.shape[1], 1), []
    for i in range(0, q.shape[1], chunk):
        phi_q, phi_k = (positive(x[:, i:i + chunk], w) for x in (q, k))
        values = v[:, i:i + chunk]
        scores = torch.bmm(phi_q, phi_k.transpose(1, 2)).tril()
        sums = torch.baddbmm(torch.bmm(scores, values), phi_q, state.to(q.dtype))
        out.append(sums / (scores.sum(-1, keepdim=True) + torch.bmm(phi_q, keys.to(q.dtype))))
        state = state + torch.bmm(phi_k.transpose(1, 2), values)
        keys = keys + phi_k.sum(1).unsqueeze(-1)
    return torch.cat(out, 1)


def softmax(q, k, v, w, chunk):
    return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]


# form, whether it is compiled, chunk sizes
LINEAR = ((column, False, (64, 128)), (column, True, (64, 128, 256)), (separate, False, (64, 128, 256)),
          (separate, True, (64, 128, 256)), (scan, False, (128, 256, 512)))
EXACT = ((softmax, False, (0,)),)


def seconds_of(run, repeats):
    best = math.inf
    for i in range(repeats + 1):  # the first is a warmup
        start = time.perf_counter()
        run()
        if i:
            best = min(best, time.perf_counter() - start)
    return best


def timed(form, compiled, inputs, gradient, w, chunk, repeats):
    """gradient: None for a forward pass."""
    torch._dynamo.reset()
    run = torch.compile(form, dynamic=False) if compiled else form
    if gradient is None:
        with torch.no_grad():
            return seconds_of(lambda: run(*inputs, w, chunk), repeats)
    return seconds_of(lambda: torch.autograd.grad(run(*inputs, w, chunk), inputs, gradient), repeats)


def settings(forms, data, tokens, gradients, repeats):
    works = True  # whether torch.compile does
    for dtype in (torch.float32, torch.bfloat16):
        inputs = [x.detach().to(dtype).requires_grad_(gradients) for x in data[:3]]
        gradient, w = data[3].to(dtype) if gradients else None, data[4].to(dtype)
        for form, compiled, chunks in forms:
            for chunk in chunks:
                if chunk and tokens % chunk or compiled and not works:
                    continue
                name = f"{str(dtype).split('.')[1]}, {form.__name__}" + (", compiled" if compiled else "")
                call = form, compiled, inputs, gradient, w, chunk, repeats
                try:
                    yield {"variant": name, "seconds": timed(*call), "block": chunk, "threads": peer_setup.THREADS}, call
                except Exception as error:  # torch.compile has exceptions of many types
                    if not compiled:
                        raise
                    works = False
                    peer_setup.note(f"{name}: {type(error).__name__}: {str(error).strip().splitlines()[0]}")


def fastest(forms, data, tokens, gradients, repeats):
    """The best setting, the best seconds in float32, and all settings."""
    torch.set_num_threads(peer_setup.THREADS)
    runs = list(settings(forms, data, tokens, gradients, repeats))
    best, call = min(runs, key=lambda run: run[0]["seconds"])
    records = [run[0] for run in runs]
    for threads in peer_setup.thread_counts()[1:]:
        torch.set_num_threads(threads)
        records.append({**best, "seconds": timed(*call), "threads": threads})
    torch.set_num_threads(peer_setup.THREADS)
    plain = min(run["seconds"] for run in records if run["variant"].startswith("float32"))
    return {**peer_setup.best(records), "float32_seconds": plain, "runs": records}


def measure(tokens, features, repeats, longest_exact):
    data = [torch.randn(HEADS, tokens, DIM) for _ in range(4)]
    for count in features if tokens % 64 == 0 else ():
        w = torch.randn(DIM, count)
        for form, gradients in (("forward", False), ("forward + backward", True)):
            peer_setup.note(f"{form}, {count} features, {tokens} tokens")
            yield {"form": form, "features": count, "tokens": tokens,
                   **fastest(LINEAR, [*data, w], tokens, gradients, repeats)}
    if tokens <= longest_exact:
        peer_setup.note(f"softmax, {tokens} tokens")
        yield {"form": "forward", "features": 0, "tokens": tokens,
               **fastest(EXACT, [*data, torch.zeros(1)], tokens, False, repeats)}


def main():
    lengths, features = ([int(item) for item in text.split(",")] for text in sys.argv[1:3])
    repeats = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    longest_exact = int(sys.argv[4]) if len(sys.argv) > 4 else 4096
    torch.manual_seed(0)
    runs = [record for tokens in lengths for record in measure(tokens, features, repeats, longest_exact)]
    print(json.dumps({"peer": f"PyTorch {torch.__version__}", "heads": HEADS, "dim": DIM, "runs": runs}))


main()
