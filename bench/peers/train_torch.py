"""A training step in PyTorch on the CPU: train_torch.py LAYERS,WIDTH,HEADS,CONTEXT,VOCAB,BATCH [repeats]

A GPT: LayerNorm before attention and MLP, causal softmax attention with one masked softmax, a GELU MLP of four times the
width, linear layers without biases, learned positions, tied embeddings; AdamW; random tokens. A step is forward, backward and
update. It is timed with one thread and with all; the fastest counts. Prints one JSON object."""
import json, math, os, sys, time
import torch
from torch import nn
from torch.nn import functional as F

ALL = len(os.sched_getaffinity(0))  # torch may choose fewer by default


class Block(nn.Module):
    def __init__(self, width, heads, mask):
        super().__init__()
        self.heads = heads
        self.register_buffer("mask", mask, persistent=False)
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def attend(self, x):
        batch, tokens, width = x.shape
        dim = width // self.heads
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, dim).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) * dim ** -0.5 + self.mask, -1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x):
        x = x + self.attend(self.before_attention(x))
        return x + self.down(F.gelu(self.up(self.before_mlp(x))))


class Model(nn.Module):
    def __init__(self, layers, width, heads, context, vocab):
        super().__init__()
        mask = torch.full((context, context), -math.inf).triu(1)
        self.embed, self.position = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads, mask) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens, targets):
        x = self.blocks(self.embed(tokens) + self.position.weight)
        return F.cross_entropy((self.norm(x) @ self.embed.weight.T).flatten(0, 1), targets.flatten())


def fastest(model, vocab, batch, context, repeats):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    ids = torch.randint(0, vocab, (batch, context + 1))
    best = {"seconds": math.inf}
    for threads in sorted({1, ALL}):
        torch.set_num_threads(threads)
        for i in range(repeats + 1):  # the first is a warmup
            start = time.perf_counter()
            model(ids[:, :-1], ids[:, 1:]).backward()
            optimizer.step()
            optimizer.zero_grad()
            seconds = time.perf_counter() - start
            if i and seconds < best["seconds"]:
                best = {"seconds": seconds, "threads": threads}
    return best


def main():
    layers, width, heads, context, vocab, batch = (int(item) for item in sys.argv[1].split(","))
    repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    torch.manual_seed(0)
    model = Model(layers, width, heads, context, vocab)
    best = fastest(model, vocab, batch, context, repeats)
    print(json.dumps({"peer": f"PyTorch {torch.__version__}", "parameters": sum(p.numel() for p in model.parameters()),
                      **best}))


main()
