"""The Python package against the C benchmark, PyTorch and scikit-learn, in one run: compare.py PROGRAM [PART ...]

Parts (default: all):

    overhead   a call of attention with one token, and the call of the library inside it
    c          attention from Python against `bochner bench attention`, 8 heads of 64 columns
    torch      causal attention against PyTorch in its fastest form, precision and number of threads (bench/peers)
    sklearn    random features and ridge regression on them against scikit-learn with its fastest OpenBLAS core

Runs alternate, and a ratio is the median of the ratios of neighboring runs. PROGRAM is build/bochner."""
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time

PEERS = pathlib.Path(__file__).resolve().parent.parent / "peers"
sys.path.insert(0, str(PEERS))
import peer_setup  # noqa: E402

peer_setup.for_numpy()
import numpy as np  # noqa: E402

import bochner  # noqa: E402

HEADS, DIM, FEATURES = 8, 64, 128


def show(name, value, detail=""):
    print(f"{name:58} {value:>10}   {detail}", flush=True)


def seconds_of(call, repeats, warmup=0.0):
    """The median of several runs, after runs for some seconds, at least one."""
    until = time.perf_counter() + warmup
    call()
    while time.perf_counter() < until:
        call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def overhead():
    """The time of a call whose computation takes almost none."""
    import ctypes

    from bochner import _library
    from bochner._attention import Call

    bochner.set_threads(1)
    q = np.ones((1, 1, 1, 8), np.float32)
    for kind in ("softmax", "favor"):
        prepared = bochner.Attention(kind, heads=1, dim=8, causal=True)
        call = Call(prepared, q, q, q, {})

        def library(context):
            _library.lib.bo_attention_forward(context, prepared._handle, ctypes.byref(call.call))

        def many(function, *arguments):
            def run():
                for _ in range(1000):
                    function(*arguments)

            return seconds_of(run, 9) / 1000

        with _library.context() as context:
            inside = many(library, context)
        whole = many(lambda: bochner.attention(q, q, q, kind=kind, causal=True))
        show(f"overhead of bochner.attention, {kind}", f"{1e6 * (whole - inside):.1f} us", f"goal 20 us; the call takes {1e6 * whole:.1f} us")
    bochner.set_threads(0)


def c_seconds(program, part, tokens):
    command = [program, "bench", "attention", "--only", part, "--lengths", str(tokens), "--features", str(FEATURES), "--repeats", "9", "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    for result in json.loads(done.stdout)["figures"]:
        if found := re.match(r"([\d.]+) ms", result.get("detail", "")):
            return float(found.group(1)) / 1e3
    raise RuntimeError(done.stdout)


def c(program):
    rng = np.random.default_rng(0)
    for part, kind, lengths in (("forward", "favor", (1024, 4096, 16384)), ("softmax", "softmax", (1024, 4096))):
        for tokens in lengths:
            q, k, v = rng.standard_normal((3, 1, HEADS, tokens, DIM), np.float32)
            settings = {"features": FEATURES} if kind == "favor" else {}
            bochner_call = lambda: seconds_of(lambda: bochner.attention(q, k, v, kind=kind, causal=True, **settings), 25, 0.2)  # noqa: E731
            pairs = [(bochner_call(), c_seconds(program, part, tokens)) for _ in range(7)]
            ratio = statistics.median(a / b for a, b in pairs)
            show(f"{kind}, {tokens} tokens: Python / C benchmark", f"{ratio:.3f}", f"goal 1.05; {1e3 * statistics.median(a for a, _ in pairs):.2f} ms")


def torch():
    rng = np.random.default_rng(0)
    for tokens in (1024, 4096, 16384):
        command = [sys.executable, str(PEERS / "attention_torch.py"), str(tokens), str(FEATURES), "3", "4096"]
        runs = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        q, k, v = rng.standard_normal((3, 1, HEADS, tokens, DIM), np.float32)
        for run in runs["runs"]:
            if run["form"] != "forward":
                continue
            kind = "favor" if run["features"] else "softmax"
            settings = {"features": FEATURES} if run["features"] else {}
            times = {
                precision: seconds_of(lambda: bochner.attention(q, k, v, kind=kind, causal=True, precision=precision, **settings), 7)
                for precision in ("float32", "bfloat16")
            }
            best = min(times, key=times.get)
            show(f"{kind}, {tokens} tokens: {runs['peer']} / Bochner", f"{run['seconds'] / times[best]:.2f}",
                 f"{1e3 * run['seconds']:.2f} ms ({run['variant']}) against {1e3 * times[best]:.2f} ms ({best})")  # fmt: skip


def sklearn():
    import sklearn as peer
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import Ridge

    from bochner.features import RandomFeatures
    from bochner.machines import KernelRegressor

    rng = np.random.default_rng(0)
    rows, columns, features, gamma = 20000, 20, 2048, 0.02
    x = rng.standard_normal((rows + 5000, columns)).astype(np.float32)
    y = (np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.standard_normal(len(x))).astype(np.float32)
    train, test = slice(None, rows), slice(rows, None)
    sampler = RBFSampler(gamma=gamma, n_components=features, random_state=0).fit(x)
    random_features = RandomFeatures(kernel="rbf", features=features, gamma=gamma).fit(x)
    pairs = [(seconds_of(lambda: sampler.transform(x[train]), 1), seconds_of(lambda: random_features.transform(x[train]), 1)) for _ in range(7)]
    show(f"random features: scikit-learn {peer.__version__} / Bochner", f"{statistics.median(a / b for a, b in pairs):.2f}",
         f"{rows} x {columns}, {features} features, {1e3 * statistics.median(b for _, b in pairs):.1f} ms")  # fmt: skip

    def ridge(solver):
        z = sampler.transform(x[train])
        return Ridge(alpha=0.1, solver=solver).fit(z, y[train])

    def machine():
        return KernelRegressor(kernel="rbf", features=features, gamma=gamma, regularization=0.1, metric="none").fit(x[train], y[train])

    pairs = [(min(seconds_of(lambda: ridge(solver), 1) for solver in ("auto", "cholesky")), seconds_of(machine, 1)) for _ in range(3)]
    scores = ridge("auto").score(sampler.transform(x[test]), y[test]), machine().score(x[test], y[test])
    show("ridge on random features: scikit-learn / Bochner", f"{statistics.median(a / b for a, b in pairs):.2f}",
         f"{1e3 * statistics.median(b for _, b in pairs):.0f} ms; R2 {scores[0]:.4f} and {scores[1]:.4f}")  # fmt: skip


def main():
    program, *chosen = sys.argv[1:]
    parts = {"overhead": overhead, "c": lambda: c(program), "torch": torch, "sklearn": sklearn}
    show("instruction set, threads", bochner.get_isa(), f"{bochner.get_threads()} threads; NumPy {np.__version__}; {', '.join(peer_setup.blas())}")
    for name in chosen or parts:
        parts[name]()


main()
