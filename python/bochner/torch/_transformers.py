"""Attention of the library as an attention implementation of Hugging Face transformers."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor, nn

from .._library import InvalidArgumentError
from ._modules import attention


def register_transformers(name: str = "bochner", kind: str = "favor", **settings: Any) -> str:
    """Register a kind of attention with Hugging Face transformers, under a name.

    A model uses it with ``attn_implementation=name`` or ``model.set_attn_implementation(name)``. The scale, causality and
    grouped queries are those of the model. Padding on either side and a cache of keys and values are supported; other
    masks (packed documents, sliding windows, soft caps) are refused.

    Parameters
    ----------
    name : str
        The name of the implementation.
    kind, **settings
        As in :func:`bochner.attention`: a kind with weights of q and k, such as "favor", "softmax" or "hybrid".

    Returns
    -------
    str
        The name.
    """
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    def implementation(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Optional[Tensor],
        scaling: Optional[float] = None, dropout: float = 0.0, is_causal: Optional[bool] = None, **options: Any,
    ) -> tuple[Tensor, None]:  # fmt: skip
        for option in ("softcap", "sliding_window", "position_bias", "s_aux"):
            if options.get(option) is not None:
                raise InvalidArgumentError(f"{name}: {option} is not supported by attention of kind {kind!r}")
        if dropout:
            raise InvalidArgumentError(f"{name}: dropout of attention weights is not supported; set attention_dropout to 0")
        causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
        scale = {} if scaling is None or "scale" in settings else {"scale": float(scaling)}
        out = _attend(query, key, value, attention_mask, causal, {"kind": kind, **scale, **settings})
        return out.transpose(1, 2).contiguous(), None

    def mask(
        batch_size: int, q_length: int, kv_length: int, q_offset: int = 0, kv_offset: int = 0,
        mask_function: Any = None, attention_mask: Optional[Tensor] = None, **options: Any,
    ) -> Optional[Tensor]:  # fmt: skip
        """The tokens that are not padding, (batch, keys); None if there is no padding."""
        if attention_mask is None or bool(attention_mask.all()):
            return None
        return attention_mask[:, kv_offset : kv_offset + kv_length].bool()

    AttentionInterface.register(name, implementation)
    AttentionMaskInterface.register(name, mask)
    return name


def _attend(query: Tensor, key: Tensor, value: Tensor, kept: Optional[Tensor], causal: bool, settings: dict[str, Any]) -> Tensor:
    """Attention with a cache and padding. The queries are the last tokens of the keys."""
    if kept is not None and kept.dim() != 2:
        raise InvalidArgumentError("bochner: masks other than padding are not supported")
    queries, keys = query.shape[2], key.shape[2]
    if kept is None:
        if not causal or queries == 1:
            return attention(query, key, value, causal=False, **settings)
        padded = nn.functional.pad(query, (0, 0, keys - queries, 0)) if keys > queries else query
        return attention(padded, key, value, causal=True, **settings)[:, :, keys - queries :]
    out = query.new_zeros(*query.shape[:3], value.shape[3])
    for at in range(query.shape[0]):  # each sequence has its own number of tokens
        keep = kept[at, :keys]
        asked = keep[keys - queries :] if causal else torch.ones(queries, dtype=torch.bool)
        if not bool(asked.any()):
            continue
        result = _attend(query[at : at + 1, :, asked], key[at : at + 1, :, keep], value[at : at + 1, :, keep], None, causal, settings)
        out[at, :, asked] = result[0].to(out.dtype)
    return out
