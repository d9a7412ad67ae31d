"""The settings of a new model, and those of a model that exists."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Iterable, Mapping
from typing import Any, Union

from . import _bindings as c
from ._attention import ATTENTION_SETTINGS, FEATURE_SETTINGS, attention_desc
from ._library import InvalidArgumentError, lib, text_bytes
from ._settings import fill, flag, refuse_unknown

Kind = Union[str, Mapping[str, Any]]
"""A kind of attention: its name, or a mapping with "kind" and settings of bochner.Attention."""

# Members of bo_model_desc whose values are names, with the function that finds the number.
_NAMED = {
    "mixer": "bo_mixer_parse", "ssm": "bo_ssm_parse", "mlp": "bo_mlp_parse", "norm": "bo_norm_parse",
    "positions": "bo_positions_parse", "parametrization": "bo_parametrization_parse", "storage": "bo_storage_parse",
    "task": "bo_model_task_parse", "pooling": "bo_pooling_parse", "cross": "bo_cross_parse", "block": "bo_block_parse",
}  # fmt: skip
_CHOICES = ("query_norm", "output_norm", "attention_bias", "output_bias", "mlp_bias")
_ATTENTIONS = ("attention", "cross_attention", "encoder_attention", "kept_attention")
_OTHERS = ("mlp_features", "rope_scaling", "kept_layers", "custom_mlp", "labels", "reserved")
_FIELDS = [name for name, *_ in c.bo_model_desc._fields_]
_SCALARS = [name for name in _FIELDS if name not in (*_NAMED, *_CHOICES, *_ATTENTIONS, *_OTHERS)]
_SIZES = ("layers", "width", "heads", "context")
_ROPE = {"kind": "bo_rope_scaling_kind_parse"}
# Settings of attention that the model does not have itself.
_OF_ATTENTION = {name for name in FEATURE_SETTINGS + ATTENTION_SETTINGS if name not in _FIELDS} - {"value_dim", "causal"}
SETTINGS = [*(name for name in _FIELDS if name not in ("custom_mlp", "labels", "reserved")), *_OF_ATTENTION]


def kind_desc(kind: Kind, settings: Mapping[str, Any] | None = None) -> Any:
    """An attention by its name or by its settings."""
    if not isinstance(kind, (str, Mapping)):
        raise InvalidArgumentError(f"attention: expected a kind or a mapping with 'kind', found {kind!r}")
    given = {"kind": kind} if isinstance(kind, str) else dict(kind)
    given.update(settings or {})
    return attention_desc("attention", given.pop("kind", "softmax"), given)


def layer_list(layers: str | Iterable[int]) -> bytes:
    """Numbers of layers as the library takes them: "0,5-7"."""
    if isinstance(layers, str):
        return text_bytes(layers, "layers")
    try:
        return ",".join(str(operator.index(layer)) for layer in layers).encode()
    except TypeError:
        raise InvalidArgumentError(f'layers: expected a text such as "0,5-7" or numbers of layers, found {layers!r}') from None


def _items(given: Mapping[str, Any], name: str, allowed: Iterable[str]) -> Mapping[str, Any]:
    """A setting that is a mapping of settings."""
    items = given.get(name, {})
    if not isinstance(items, Mapping):
        raise InvalidArgumentError(f"{name}: expected a mapping of settings, found {items!r}")
    refuse_unknown(name, items, list(allowed))
    return items


def model_desc(preset: str | None, attention: Kind, settings: dict[str, Any]) -> Any:
    """The descriptor of a new model."""
    refuse_unknown("Model.create", settings, SETTINGS)
    desc = c.bo_model_desc()
    if not lib.bo_model_preset(text_bytes("tiny" if preset is None else preset, "preset"), ctypes.byref(desc)):
        names = iter(range(2**31))
        known = ", ".join(name.decode() for name in iter(lambda: lib.bo_model_preset_name(next(names)), None))
        raise InvalidArgumentError(f"preset: {preset!r} is not known; expected one of {known}")
    given = {name: value for name, value in settings.items() if value is not None}
    fill(desc, {name: value for name, value in given.items() if name in _NAMED or name in _SCALARS}, named=_NAMED)
    for name in _CHOICES:
        if name in given:
            setattr(desc, name, c.BO_CHOICE_YES if flag(name, given[name]) else c.BO_CHOICE_NO)
    desc.attention = kind_desc(attention, {name: given[name] for name in _OF_ATTENTION if name in given})
    for name in _ATTENTIONS[1:]:
        if name in given:
            setattr(desc, name, kind_desc(given[name]))
    fill(desc.mlp_features, _items(given, "mlp_features", FEATURE_SETTINGS))
    fill(desc.rope_scaling, _items(given, "rope_scaling", [name for name, *_ in c.bo_rope_scaling._fields_]), named=_ROPE)
    if "kept_layers" in given:
        desc.kept_layers = layer_list(given["kept_layers"])
    return desc


def read_model_desc(desc: Any) -> dict[str, Any]:
    """The settings of a model with names, as Model.create takes them."""
    values: dict[str, Any] = {}
    for name in _FIELDS:
        value = getattr(desc, name)
        if name in _NAMED:
            values[name] = getattr(lib, _NAMED[name].replace("_parse", "_name"))(value).decode()
        elif name in _CHOICES:
            values[name] = {c.BO_CHOICE_YES: True, c.BO_CHOICE_NO: False}.get(value)
        elif name in _SCALARS:
            values[name] = value
    values["attention"] = lib.bo_attention_name(ctypes.byref(desc.attention)).decode()
    values["features"] = desc.attention.features.features
    values["kept_layers"] = (desc.kept_layers or b"").decode()
    return values
