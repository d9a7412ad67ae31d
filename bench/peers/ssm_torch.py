#!/usr/bin/python3
"""A diagonal state-space layer (S4D, 2206.11893) in PyTorch, by FFT convolution: what `bochner bench layers` compares with.

The same system as Bochner's: A = exp(dt lambda), lambda = -softplus(a) + i w, B = (A - 1) / lambda,
y = Re(C s) + D u. The kernel is a Vandermonde product, the convolution torch.fft.rfft and irfft of twice the length,
gradients are autograd's. Alone it times forward + backward, one thread: ssm_torch.py [BATCH LENGTH CHANNELS STATES].
"""
import math
import sys
import time

import torch


def parameters(channels, states, seed=0):
    """log_step (c), a, w (c x N), C (c x N x 2), D (c), as a layer begins."""
    generator = torch.Generator().manual_seed(seed)
    log_step = torch.linspace(math.log(1e-3), math.log(1e-1), channels)
    a = torch.full((channels, states), math.log(math.expm1(0.5)))
    w = math.pi * torch.arange(states, dtype=torch.float32).repeat(channels, 1)
    c = torch.randn(channels, states, 2, generator=generator) * math.sqrt(0.5)
    return [p.requires_grad_() for p in (log_step, a, w, c, torch.ones(channels))]


def kernel(log_step, a, w, c, length):
    """Re(C B A^k) for k < length: channels x length."""
    step = torch.exp(log_step)[:, None]
    rate = torch.complex(-torch.nn.functional.softplus(a), w)
    weight = torch.view_as_complex(c) * (torch.exp(step * rate) - 1) / rate
    powers = torch.exp((step * rate)[:, :, None] * torch.arange(length))
    return torch.einsum("cn,cnl->cl", weight, powers).real


def ssm(x, log_step, a, w, c, d):
    """x: batch x length x channels, and so is what comes out."""
    u = x.transpose(1, 2)
    length = u.shape[-1]
    spectrum = torch.fft.rfft(kernel(log_step, a, w, c, length), n=2 * length)
    y = torch.fft.irfft(torch.fft.rfft(u, n=2 * length) * spectrum, n=2 * length)[..., :length]
    return (y + u * d[:, None]).transpose(1, 2)


def time_ssm(batch, length, channels, states, repeats=5):
    """Seconds of CPU time of forward + backward, the median."""
    x = torch.randn(batch, length, channels).requires_grad_()
    weights = parameters(channels, states)
    gradient = torch.randn(batch, length, channels)
    seconds = []
    for _ in range(repeats):
        for tensor in [x, *weights]:
            tensor.grad = None
        start = time.process_time()
        ssm(x, *weights).backward(gradient)
        seconds.append(time.process_time() - start)
    return sorted(seconds)[len(seconds) // 2]


if __name__ == "__main__":
    torch.set_num_threads(1)
    shape = [int(word) for word in sys.argv[1:5]] or [8, 2048, 256, 16]
    print("%.4f s" % time_ssm(*shape))
