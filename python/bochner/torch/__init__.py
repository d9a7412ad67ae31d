"""Modules and operators for PyTorch, computed by the library on the CPU with gradients by its backward pass.

>>> import torch, bochner.torch
>>> q, k, v = torch.randn(3, 2, 4, 64, 16).unbind()
>>> tuple(bochner.torch.attention(q, k, v, kind="favor", causal=True).shape)
(2, 4, 64, 16)

The operators support torch.compile and autocast (with PyTorch 2.4 or later). float64 tensors are computed in float64 by plain
reference code, so that torch.autograd.gradcheck can check gradients.
"""

from ._language import LanguageModel, load_state_dict, state_dict
from ._modules import (
    Attention,
    DarkAttention,
    DeltaAttention,
    FavorAttention,
    HybridAttention,
    MultiheadAttention,
    RandomFeatureAttention,
    RidgeAttention,
    attention,
    replace_attention,
)
from ._transformers import register_transformers

__all__ = [
    "Attention",
    "DarkAttention",
    "DeltaAttention",
    "FavorAttention",
    "HybridAttention",
    "LanguageModel",
    "MultiheadAttention",
    "RandomFeatureAttention",
    "RidgeAttention",
    "attention",
    "load_state_dict",
    "register_transformers",
    "replace_attention",
    "state_dict",
]


def __dir__() -> list[str]:
    return sorted(__all__)
