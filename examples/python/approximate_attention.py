"""Linear attention in place of softmax attention: its error, measured and predicted, and its time."""
import time

import numpy as np

import bochner

rng = np.random.default_rng(0)
q, k, v = rng.standard_normal((3, 8, 4096, 64), np.float32) / 2  # heads, tokens, columns

start = time.perf_counter()
exact = bochner.attention(q, k, v, causal=True)
print(f"softmax attention: {1e3 * (time.perf_counter() - start):.0f} ms")

print("kind    features   error   predicted (single kernel values)     time")
for kind in ("favor", "hybrid", "rfa"):
    for features in (64, 256):
        made = bochner.Attention(kind, heads=8, dim=64, causal=True, features=features, seed=1)
        start = time.perf_counter()
        out = made(q, k, v)
        seconds = time.perf_counter() - start
        report = made.measure(q, k, v)
        error = np.linalg.norm(out - exact) / np.linalg.norm(exact)
        print(f"{kind:8} {features:7} {error:7.3f}   {report.kernel_error:.3f} measured, {report.kernel_predicted:.3f} predicted"
              f"   {1e3 * seconds:6.0f} ms")  # fmt: skip

state = bochner.State(made)
state.extend(q[:, :4000], k[:, :4000], v[:, :4000])
print(f"a state after 4,000 tokens: {state.nbytes:,} bytes, the same as after the first token")
