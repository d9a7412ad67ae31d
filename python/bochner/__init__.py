"""Linear-time attention, kernel machines and models of any layers, from random features.

>>> import numpy as np, bochner
>>> q, k, v = np.random.default_rng(0).standard_normal((3, 8, 1024, 64), np.float32)
>>> bochner.attention(q, k, v, kind="favor", causal=True).shape
(8, 1024, 64)

`bochner.features` has feature maps, `bochner.machines` kernel machines with the scikit-learn API,
`bochner.Model` models of text, tables, images, sequences and graphs, and `bochner.torch` modules for PyTorch (imported
separately). NumPy is the only dependency; other packages are used if they are installed.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ._attention import Attention, AttentionAccuracy, State, attention, attention_kinds
from ._library import (
    BochnerError,
    CanceledError,
    FormatError,
    InputOutputError,
    InvalidArgumentError,
    NumericError,
    OutOfMemoryError,
    UnsupportedError,
    VersionError,
    get_isa,
    get_precision,
    get_threads,
    lib as _lib,
    set_precision,
    set_threads,
)
from .model import Generation, Model, Session, Tokenizer
from . import typing as typing

if _TYPE_CHECKING:
    from . import features, machines

__version__: str = _lib.bo_version().decode()

__all__ = [
    "Attention",
    "AttentionAccuracy",
    "BochnerError",
    "CanceledError",
    "FormatError",
    "Generation",
    "InputOutputError",
    "InvalidArgumentError",
    "Model",
    "NumericError",
    "OutOfMemoryError",
    "Session",
    "State",
    "Tokenizer",
    "UnsupportedError",
    "VersionError",
    "attention",
    "attention_kinds",
    "features",
    "get_isa",
    "get_precision",
    "get_threads",
    "machines",
    "set_precision",
    "set_threads",
]


def __getattr__(name: str) -> object:
    """Imports `features` and `machines` on first use, because they import scikit-learn if it is installed."""
    if name in ("features", "machines"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    modules = ["model", "typing", *(["torch"] if "torch" in globals() else [])]
    return sorted([*__all__, *modules, "__version__"])
