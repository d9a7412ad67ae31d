"""Layers in PyTorch on the CPU: layers_torch.py NAME [repeats]

Times the forward and backward pass of one layer and of the mean square of its output, with the gradients of input and
parameters: in float32 and with bfloat16 autocast, eager and compiled (torch.compile, which needs a C++ compiler), on all
CPUs and on half of them and, for images, in both memory layouts. Standard error lists all variants. Prints one JSON object:
`seconds` is the fastest time in float32, `best_seconds` the fastest of all. `bochner bench layers` has the same shapes."""
import contextlib, json, math, sys, time
import peer_setup
peer_setup.for_torch()
import torch
from torch import nn
from torch.nn import functional as F

class Features(nn.Module):
    """sin and cos of fixed projections, then a trained readout"""

    def __init__(self, width, features):
        super().__init__()
        self.register_buffer("w", torch.randn(features // 2, width) * width ** -0.5)
        self.scale = nn.Parameter(torch.ones(()))
        self.readout = nn.Linear(features, width, bias=False)
        self.norm = (features // 2) ** -0.5

    def forward(self, x):
        u = (self.scale * x) @ self.w.T
        return self.readout(torch.cat([torch.cos(u), torch.sin(u)], -1) * self.norm)


class Relu(nn.Module):
    """the maximum of 0 and fixed projections, then a trained readout"""

    def __init__(self, width, features):
        super().__init__()
        self.register_buffer("w", torch.randn(features, width) * width ** -0.5)
        self.scale = nn.Parameter(torch.ones(()))
        self.readout = nn.Linear(features, width, bias=False)
        self.norm = features ** -0.5

    def forward(self, x):
        return self.readout(torch.relu((self.scale * x) @ self.w.T) * self.norm)


class Degree(nn.Module):
    """(W_1 x) (W_2 x) (W_3 x) elementwise, divided by its root mean square"""

    def __init__(self, width, hidden):
        super().__init__()
        self.factors = nn.Linear(width, 3 * hidden, bias=False)
        self.gain = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        a, b, c = self.factors(x).chunk(3, -1)
        y = a * b * c
        return y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6) * self.gain


class Systems(nn.Module):
    """One diagonal state-space system per channel (arXiv 2206.11893), as an FFT convolution"""

    def __init__(self, channels, size):
        super().__init__()
        self.log_step = nn.Parameter(torch.empty(channels, 1).uniform_(math.log(1e-3), math.log(1e-1)))
        self.a = nn.Parameter(torch.full((channels, size), 0.5))
        self.w = nn.Parameter(math.pi * torch.arange(size).float().repeat(channels, 1))
        self.b = nn.Parameter(torch.ones(channels, size, 2))
        self.c = nn.Parameter(torch.randn(channels, size, 2) * size ** -0.5)
        self.d = nn.Parameter(torch.ones(channels))

    def kernel(self, length):
        pole = torch.complex(-F.softplus(self.a), self.w) * self.log_step.exp()
        powers = torch.exp(pole[..., None] * torch.arange(length))
        weights = torch.view_as_complex(self.b) * torch.view_as_complex(self.c)
        return torch.einsum("cn,cnl->cl", weights, powers).real

    def forward(self, u):
        length = u.shape[1]
        x = u.transpose(1, 2)
        spectrum = torch.fft.rfft(self.kernel(length), n=2 * length) * torch.fft.rfft(x, n=2 * length)
        y = torch.fft.irfft(spectrum, n=2 * length)[..., :length] + self.d[:, None] * x
        return y.transpose(1, 2)


class Recurrent(nn.Module):
    def __init__(self, kind, width, hidden):
        super().__init__()
        self.cell = kind(width, hidden, batch_first=True)

    def forward(self, x):
        return self.cell(x)[0]


class Along(nn.Module):
    """A convolution along tokens, which are rows"""

    def __init__(self, *arguments, **options):
        super().__init__()
        self.conv = nn.Conv1d(*arguments, **options)

    def forward(self, x):
        return self.conv(x.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)


class Neighbors(nn.Module):
    """The mean over the neighbors of each node, by gathering and adding rows as graph libraries do"""

    def __init__(self, nodes, degree):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.register_buffer("source", torch.randint(0, nodes, (nodes * degree,), generator=generator))
        self.register_buffer("target", torch.arange(nodes).repeat_interleave(degree))
        self.degree = degree

    def forward(self, x):
        return torch.zeros_like(x).index_add(0, self.target, x[self.source]) / self.degree


CASES = {
    "linear": lambda: (nn.Linear(512, 512), torch.randn(4096, 512)),
    "features-sincos": lambda: (Features(128, 512), torch.randn(4096, 128)),
    "features-relu": lambda: (Relu(128, 512), torch.randn(4096, 128)),
    "degree-3": lambda: (Degree(256, 256), torch.randn(4096, 256)),
    "ssm": lambda: (Systems(256, 16), torch.randn(8, 2048, 256)),
    "conv-28x28x32": lambda: (nn.Conv2d(32, 64, 3, padding=1), torch.randn(64, 32, 28, 28)),
    "conv-14x14x64": lambda: (nn.Conv2d(64, 128, 3, padding=1), torch.randn(64, 64, 14, 14)),
    "conv-tokens": lambda: (Along(256, 256, 9, padding=8), torch.randn(8, 256, 256)),
    "conv-depthwise": lambda: (Along(256, 256, 4, padding=3, groups=256), torch.randn(8, 2048, 256)),
    "pool-max": lambda: (nn.MaxPool2d(2), torch.randn(64, 64, 28, 28)),
    "batch-norm": lambda: (nn.BatchNorm2d(64), torch.randn(64, 64, 28, 28)),
    "rnn": lambda: (Recurrent(nn.RNN, 128, 128), torch.randn(16, 256, 128)),
    "gru": lambda: (Recurrent(nn.GRU, 128, 128), torch.randn(16, 256, 128)),
    "lstm": lambda: (Recurrent(nn.LSTM, 128, 128), torch.randn(16, 256, 128)),
    "lstm-512": lambda: (Recurrent(nn.LSTM, 512, 512), torch.randn(16, 128, 512)),
    "graph-mean": lambda: (Neighbors(10000, 10), torch.randn(10000, 128)),
}


def autocast():
    return torch.autocast("cpu", torch.bfloat16)


VARIANTS = (("float32", contextlib.nullcontext, False), ("float32, compiled", contextlib.nullcontext, True),
            ("bfloat16", autocast, False), ("bfloat16, compiled", autocast, True))


def median(layer, x, repeats, context):
    """Seconds of forward and backward, without zeroing the gradients."""
    x = x.detach().requires_grad_(True)
    with context():
        target, samples = torch.zeros_like(layer(x)), []
    for i in range(repeats + 1):  # the first is a warmup
        layer.zero_grad(set_to_none=True)
        x.grad = None
        start = time.perf_counter()
        with context():
            loss = F.mse_loss(layer(x), target)
        loss.backward()
        if i:
            samples.append(time.perf_counter() - start)
    return sorted(samples)[len(samples) // 2]


def measure(layer, x, repeats):
    layouts = [torch.contiguous_format] + ([torch.channels_last] if x.dim() == 4 else [])
    for name, context, compiled in VARIANTS:
        for threads in [peer_setup.THREADS] if compiled else peer_setup.thread_counts():
            torch.set_num_threads(threads)
            for layout in layouts:
                torch._dynamo.reset()
                placed = layer.to(memory_format=layout)
                run = torch.compile(placed) if compiled else placed
                try:
                    seconds = median(run, x.to(memory_format=layout), repeats, context)
                except Exception as error:  # torch.compile has exceptions of many types
                    if not compiled:
                        raise
                    peer_setup.note(f"{name}: {type(error).__name__}: {str(error).strip().splitlines()[0]}")
                    continue
                yield {"variant": name, "layout": str(layout).split(".")[1], "seconds": seconds, "threads": threads}


def main():
    name = sys.argv[1]
    repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    torch.manual_seed(0)
    layer, x = CASES[name]()
    runs = list(measure(layer, x, repeats))
    best = peer_setup.best(runs)
    plain = min((run for run in runs if run["variant"].startswith("float32")), key=lambda run: run["seconds"])
    print(json.dumps({"peer": f"PyTorch {torch.__version__}", **plain, "best_seconds": best["seconds"],
                      "best_variant": best["variant"], "runs": runs}))


main()
