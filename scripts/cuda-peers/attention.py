#!/usr/bin/env python3
"""Causal attention of PyTorch and flash-linear-attention on a GPU, in bfloat16, forward and forward with the gradients of all inputs.

    scripts/cuda-peers/attention.py --tokens 1024,4096,16384,65536 --features 64,128,256

Every length has the same number of tokens over all sequences (--batch-tokens), at least one sequence. Kinds:

    softmax      scaled_dot_product_attention with the kernels of FlashAttention and of cuDNN
    favor        positive features and chunked linear attention in plain PyTorch, compiled
    fla          the same with chunk_linear_attn of flash-linear-attention, with the time of the features and without it
    fla-gate     chunk_simple_gla: features given, one gate per token and head
    fla-delta    chunk_gated_delta_rule: keys of --dim dimensions

flash-linear-attention is used if it can be imported (PYTHONPATH). Prints one line of JSON per measurement."""
import functools, time
import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
import measure


def main():
    parser = measure.options(__doc__)
    parser.add_argument("--tokens", default="1024,4096,16384,65536", help="lengths")
    parser.add_argument("--batch-tokens", type=int, default=65536, help="tokens over all sequences")
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--features", default="128", help="numbers of features")
    parser.add_argument("--kinds", default="softmax,favor,fla,fla-gate,fla-delta")
    o = parser.parse_args()
    begin = measure.start()
    for tokens in measure.numbers(o.tokens):
        for kind in o.kinds.split(","):
            for features in measure.numbers(o.features) if kind not in ("softmax", "fla-delta") else [0]:
                if time.monotonic() - begin > o.seconds:
                    return measure.note("no time left")
                shape = Shape(tokens, max(1, o.batch_tokens // tokens), o.heads, o.dim, features)
                measure.attempt("%s, %d tokens, %d features" % (kind, tokens, features),
                                functools.partial(KINDS[kind], o, shape))


class Shape:
    def __init__(self, tokens, sequences, heads, dim, features):
        self.tokens, self.sequences, self.heads, self.dim, self.features = tokens, sequences, heads, dim, features

    def noise(self, columns, heads_first=False):
        """A normal array of shape [sequences, tokens, heads, columns], or with heads before tokens."""
        rows = (self.heads, self.tokens) if heads_first else (self.tokens, self.heads)
        return torch.randn(self.sequences, *rows, columns, device="cuda", dtype=torch.bfloat16)

    def fields(self):
        return dict(tokens=self.tokens, sequences=self.sequences, heads=self.heads, dim=self.dim, features=self.features)


def report(o, shape, kind, variant, function, inputs):
    """Times a function of inputs, forward and with their gradients."""
    with torch.no_grad():
        forward, graph = measure.median_ms(lambda: function(*inputs), o.repeats)
    measure.emit(what="attention", kind=kind, variant=variant, passes="forward", milliseconds=forward, graph=graph,
                 **shape.fields())
    inputs = [x.detach().requires_grad_(True) for x in inputs]
    gradient = torch.randn_like(function(*inputs))
    both, graph = measure.median_ms(lambda: torch.autograd.grad(function(*inputs), inputs, gradient), o.repeats)
    measure.emit(what="attention", kind=kind, variant=variant, passes="forward+backward", milliseconds=both, graph=graph,
                 **shape.fields())


# ---- softmax ------------------------------------------------------------------------------------------------------------------

def softmax(o, shape):
    inputs = [shape.noise(shape.dim, True) for _ in range(3)]
    for name, backend in (("FlashAttention", SDPBackend.FLASH_ATTENTION), ("cuDNN", SDPBackend.CUDNN_ATTENTION)):
        def attend(q, k, v):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        measure.attempt("softmax, %s" % name, lambda: report(o, shape, "softmax", name, attend, inputs))


# ---- features -----------------------------------------------------------------------------------------------------------------

def positive(x, w):
    """exp(w·x - |x|²/2) with x scaled by d^-1/4 (2009.14794); the constant keeps the denominator away from 0."""
    x = x * x.shape[-1] ** -0.25
    return torch.exp(x @ w - x.float().square().sum(-1, keepdim=True).to(x.dtype) / 2) + 1e-6


def frequencies(shape):
    return torch.randn(shape.dim, shape.features, device="cuda", dtype=torch.bfloat16)


def before(sums):
    """The sums over earlier chunks, added in float32."""
    wide = sums.float()
    return (wide.cumsum(2) - wide).to(sums.dtype)


def chunked(w, chunk, q, k, v):
    """Linear attention with heads before tokens; the denominator is one more column of v."""
    phi_q, phi_k = (positive(x, w).unflatten(2, (-1, chunk)) for x in (q, k))
    values = torch.cat((v, v.new_ones(*v.shape[:-1], 1)), -1).unflatten(2, (-1, chunk))
    states = before(phi_k.transpose(-1, -2) @ values)
    out = (phi_q @ states + (phi_q @ phi_k.transpose(-1, -2)).tril() @ values).flatten(2, 3)
    return out[..., :-1] / out[..., -1:]


def favor(o, shape):
    inputs = [shape.noise(shape.dim, True) for _ in range(3)]
    for chunk in (128, 256):
        torch._dynamo.reset()
        function = torch.compile(functools.partial(chunked, frequencies(shape), chunk), dynamic=False)
        measure.attempt("favor, chunks of %d" % chunk,
                        lambda: report(o, shape, "favor", "compiled, chunks of %d" % chunk, function, inputs))


def fla(o, shape):
    from fla.ops.linear_attn import chunk_linear_attn
    w = frequencies(shape)
    torch._dynamo.reset()
    feature_map = torch.compile(positive, dynamic=False)

    def core(phi_q, phi_k, v):
        return chunk_linear_attn(phi_q, phi_k, v, scale=1.0, normalize=True)[0]

    inputs = [shape.noise(shape.dim) for _ in range(3)]
    with torch.no_grad():
        features_and_values = [positive(inputs[0], w), positive(inputs[1], w), inputs[2]]
    report(o, shape, "fla", "features given", core, features_and_values)
    report(o, shape, "fla", "with features", lambda q, k, v: core(feature_map(q, w), feature_map(k, w), v), inputs)


def fla_gate(o, shape):
    from fla.ops.simple_gla import chunk_simple_gla
    w = frequencies(shape)
    with torch.no_grad():
        q, k = (positive(shape.noise(shape.dim), w) for _ in range(2))
    gate = -0.1 * torch.rand(shape.sequences, shape.tokens, shape.heads, device="cuda", dtype=torch.float32)
    report(o, shape, "fla-gate", "features given",
           lambda q, k, v, g: chunk_simple_gla(q, k, v, g, scale=1.0)[0], [q, k, shape.noise(shape.dim), gate])


def fla_delta(o, shape):
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    size = shape.sequences, shape.tokens, shape.heads
    gate = -0.1 * torch.rand(*size, device="cuda", dtype=torch.float32)
    beta = torch.rand(*size, device="cuda", dtype=torch.bfloat16)
    k = F.normalize(shape.noise(shape.dim).float(), dim=-1).to(torch.bfloat16)
    report(o, shape, "fla-delta", "gated delta rule",
           lambda q, k, v, g, b: chunk_gated_delta_rule(q, k, v, g, b)[0],
           [shape.noise(shape.dim), k, shape.noise(shape.dim), gate, beta])


KINDS = {"softmax": softmax, "favor": favor, "fla": fla, "fla-gate": fla_gate, "fla-delta": fla_delta}

if __name__ == "__main__":
    main()
