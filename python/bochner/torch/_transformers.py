"""Attention of the library as an attention implementation of Hugging Face transformers."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor, nn

from .._library import InvalidArgumentError
from .._settings import Unpack, checks_names
from ..typing import AttentionKind, AttentionPrecision, CallSettings
from ._modules import attention


@checks_names(CallSettings)
def register_transformers(
    name: str = "bochner", kind: AttentionKind = "favor", *, precision: Optional[AttentionPrecision] = None,
    **settings: Unpack[CallSettings],
) -> str:  # fmt: skip
    """Register a kind of attention with Hugging Face transformers, under a name.

    A model uses it with ``attn_implementation=name`` or ``model.set_attn_implementation(name)``. The scale, causality and
    grouped queries are those of the model. Padding on either side and caches of keys and values are supported. Other masks
    (packed sequences, sliding windows) and soft caps are refused.

    Parameters
    ----------
    name : str
        The name of the implementation.
    kind, precision, **settings
        As in :func:`bochner.attention`: a kind with weights of q and k, such as "favor", "softmax" or "hybrid".

    Returns
    -------
    str
        The name.
    """
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, bidirectional_mask_function, causal_mask_function, sdpa_mask

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
        out = _attend(query, key, value, attention_mask, causal, {"kind": kind, "precision": precision, **scale, **settings})
        return out.transpose(1, 2).contiguous(), None

    def mask(
        batch_size: int, q_length: int, kv_length: int, q_offset: int = 0, kv_offset: int = 0,
        mask_function: Any = causal_mask_function, attention_mask: Optional[Tensor] = None, **options: Any,
    ) -> Optional[Tensor]:  # fmt: skip
        """The tokens that are not padding, (batch, keys), up to the last query; None if no key is padding."""
        shape = (batch_size, q_length, kv_length, q_offset, kv_offset)
        bidirectional = mask_function is bidirectional_mask_function
        if not bidirectional and mask_function is not causal_mask_function:
            arguments = {**options, "attention_mask": attention_mask, "allow_is_causal_skip": False}
            found, plain = (sdpa_mask(*shape, function, **arguments) for function in (mask_function, causal_mask_function))
            if found is None or plain is None or not torch.equal(found, plain):
                raise InvalidArgumentError(f"{name}: masks other than causal ones and padding are not supported, such as packed sequences")
        visible = kv_length if bidirectional else min(kv_length, int(q_offset) + q_length - kv_offset)
        if attention_mask is None:
            return None if visible == kv_length else torch.ones(batch_size, visible, dtype=torch.bool)
        kept = attention_mask[:, kv_offset : kv_offset + visible].bool()
        return None if visible == kv_length and bool(kept.all()) else kept

    AttentionInterface.register(name, implementation)
    AttentionMaskInterface.register(name, mask)
    return name


def _attend(query: Tensor, key: Tensor, value: Tensor, kept: Optional[Tensor], causal: bool, settings: dict[str, Any]) -> Tensor:
    """Attention with a cache and padding. `kept` are the keys up to the last query; a static cache has empty keys after
    them."""
    if kept is not None and kept.dim() != 2:
        raise InvalidArgumentError("register_transformers: masks other than causal ones and padding are not supported")
    if kept is not None:
        key, value = key[:, :, : kept.shape[1]], value[:, :, : kept.shape[1]]
    queries, keys = query.shape[2], key.shape[2]
    if kept is None or bool(kept.all()):
        if not causal or queries == 1:
            return attention(query, key, value, causal=False, **settings)
        padded = nn.functional.pad(query, (0, 0, keys - queries, 0)) if keys > queries else query
        return attention(padded, key, value, causal=True, **settings)[:, :, keys - queries :]
    out = query.new_zeros(*query.shape[:3], value.shape[3])
    for at in range(query.shape[0]):  # the number of tokens differs between sequences
        keep = kept[at]
        queried = keep[keys - queries :] if causal else torch.ones(queries, dtype=torch.bool)
        if not bool(queried.any()):
            continue
        result = _attend(query[at : at + 1, :, queried], key[at : at + 1, :, keep], value[at : at + 1, :, keep], None, causal, settings)
        out[at, :, queried] = result[0].to(out.dtype)
    return out
