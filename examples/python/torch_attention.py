"""Linear attention inside a PyTorch model, trained: python torch_attention.py

The task: the class of a sequence is whether a marked token is above zero, at any position."""
import torch

import bochner.torch

torch.manual_seed(0)
encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True), 2)
replaced = bochner.torch.replace_attention(encoder, "favor", features=64)
embed, head = torch.nn.Linear(2, 32), torch.nn.Linear(32, 1)
parameters = [*encoder.parameters(), *embed.parameters(), *head.parameters()]
print(f"{replaced} attentions replaced, {sum(p.numel() for p in parameters):,} parameters")


def batch(sequences=32, tokens=30):
    values = torch.randn(sequences, tokens)
    at = torch.randint(0, tokens, (sequences,))
    marks = torch.nn.functional.one_hot(at, tokens).float()
    return torch.stack([values, marks], -1), (values[torch.arange(sequences), at] > 0).float()


optimizer = torch.optim.Adam(parameters, 3e-3)
for step in range(91):
    x, y = batch()
    scores = head(encoder(embed(x)).mean(1)).squeeze(-1)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(f"step {step:4}  loss {loss.item():.3f}")
with torch.no_grad():
    x, y = batch(500)
    accuracy = ((head(encoder.eval()(embed(x)).mean(1)).squeeze(-1) > 0) == (y > 0)).float().mean()
print(f"accuracy {accuracy:.3f}")
