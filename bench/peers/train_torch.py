"""A training step in PyTorch on the CPU: train_torch.py LAYERS,WIDTH,HEADS,CONTEXT,VOCAB,BATCH [repeats]

A GPT: LayerNorm before attention and MLP, causal softmax attention (scaled_dot_product_attention), a GELU MLP of four times the
width, linear layers without biases, learned positions, tied embeddings; fused AdamW; random tokens. A step is forward,
backward and update. Weights and their updates are float32. Variants: float32; float32 with bfloat16 products inside oneDNN;
bfloat16 autocast; each also compiled (torch.compile, bfloat16 also with max-autotune), which needs a C++ compiler; on all CPUs
and on half of them. The fastest step of each variant counts. Standard error lists all steps. Prints one JSON object, whose
first members are the fastest variant."""
import contextlib, json, math, sys, time
import peer_setup
peer_setup.for_torch()
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def attend(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(out.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x):
        x = x + self.attend(self.before_attention(x))
        return x + self.down(F.gelu(self.up(self.before_mlp(x))))


class Model(nn.Module):
    def __init__(self, layers, width, heads, context, vocab):
        super().__init__()
        self.embed, self.position = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens, targets):
        x = self.blocks(self.embed(tokens) + self.position.weight)
        return F.cross_entropy((self.norm(x) @ self.embed.weight.T).flatten(0, 1).float(), targets.flatten())


def autocast():
    return torch.autocast("cpu", torch.bfloat16)


# name, precision of float32 products (torch.set_float32_matmul_precision), context of the forward pass, arguments of torch.compile
VARIANTS = (
    ("float32", "highest", contextlib.nullcontext, None),
    ("float32, compiled", "highest", contextlib.nullcontext, {}),
    ("float32, bfloat16 products", "medium", contextlib.nullcontext, None),
    ("float32, bfloat16 products, compiled", "medium", contextlib.nullcontext, {}),
    ("bfloat16", "highest", autocast, None),
    ("bfloat16, compiled", "highest", autocast, {}),
    ("bfloat16, compiled, max-autotune", "highest", autocast, {"mode": "max-autotune"}),
)


def fastest(shape, ids, repeats, threads, variant):
    """Seconds of the fastest step after two warmup steps."""
    name, precision, context, compiled = variant
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)
    torch._dynamo.reset()
    model = Model(*shape)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    run = model if compiled is None else torch.compile(model, **compiled)
    seconds = math.inf
    for i in range(repeats + 2):
        start = time.perf_counter()
        with context():
            loss = run(ids[:, :-1], ids[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if i > 1:
            seconds = min(seconds, time.perf_counter() - start)
    return {"variant": name, "seconds": seconds, "threads": threads, "loss": round(loss.item(), 4)}


def measure(shape, ids, repeats):
    works = True  # whether torch.compile does
    for variant in VARIANTS:
        for threads in peer_setup.thread_counts() if variant[3] is None else [peer_setup.THREADS]:
            try:
                if works or variant[3] is None:
                    yield fastest(shape, ids, repeats, threads, variant)
            except Exception as error:  # torch.compile has exceptions of many types
                if variant[3] is None:
                    raise
                works = "max-autotune" in variant[0]
                peer_setup.note(f"{variant[0]}: {type(error).__name__}: {str(error).strip().splitlines()[0]}")


def main():
    layers, width, heads, context, vocab, batch = (int(item) for item in sys.argv[1].split(","))
    repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    shape = layers, width, heads, context, vocab
    ids = torch.randint(0, vocab, (batch, context + 1))
    runs = list(measure(shape, ids, repeats))
    plain = [run for run in runs if run["variant"] in ("float32", "float32, compiled")]
    best, best_plain = peer_setup.best(runs), min(plain, key=lambda run: run["seconds"])
    print(json.dumps({**best, "peer": f"PyTorch {torch.__version__}", "float32_seconds": best_plain["seconds"],
                      "parameters": sum(p.numel() for p in Model(*shape).parameters()), "runs": runs}))


main()
