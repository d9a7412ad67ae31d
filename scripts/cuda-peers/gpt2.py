"""GPT-2 for the scripts of this directory: a minimal model with PyTorch's fused attention."""
import torch
from torch import nn
from torch.nn import functional as F

LAYERS, WIDTH, HEADS, VOCABULARY = 12, 768, 12, 50257
PADDED = 50304  # a multiple of 64 is faster; nanoGPT pads as well


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def split(self, x):
        """Queries, keys and values of shape [batch, heads, tokens, dim]."""
        return (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(self.first(x)).chunk(3, -1))

    def finish(self, x, mixed):
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.second(x)), approximate="tanh"))

    def forward(self, x):
        q, k, v = self.split(x)
        return self.finish(x, F.scaled_dot_product_attention(q, k, v, is_causal=True))


class GPT2(nn.Module):
    def __init__(self, context, layers=LAYERS, width=WIDTH, heads=HEADS, vocabulary=PADDED):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def logits(self, x):
        return F.linear(self.norm(x), self.tokens.weight)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.logits(x).flatten(0, 1), targets.flatten())
