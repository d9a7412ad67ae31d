"""The settings of a new model, and the settings of an existing model."""

from __future__ import annotations

import ctypes
import functools
import json
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

from . import _bindings as c
from ._attention import ATTENTION_SETTINGS, FEATURE_SETTINGS, attention_desc
from ._library import Handle, InvalidArgumentError, context, enum_name, lib, text_bytes
from ._settings import fill, flag, refuse_unknown
from .typing import AttentionKind, AttentionOfKind

Kind = Union[AttentionKind, AttentionOfKind]
"""An attention kind: its name, or a mapping with "kind" and settings of bochner.Attention."""

# Members of bo_model_desc and bo_block whose values are names, with the function that finds the number.
_NAMED = {
    "mixer": c.BO_ENUM_MIXER, "ssm": c.BO_ENUM_SSM, "mlp": c.BO_ENUM_MLP, "norm": c.BO_ENUM_NORM,
    "positions": c.BO_ENUM_POSITIONS, "parametrization": c.BO_ENUM_PARAMETRIZATION, "storage": c.BO_ENUM_STORAGE,
    "task": c.BO_ENUM_MODEL_TASK, "pooling": c.BO_ENUM_POOLING, "cross": c.BO_ENUM_CROSS,
    "residual": c.BO_ENUM_RESIDUAL,
}  # fmt: skip
_CHOICES = ("query_norm", "output_norm", "attention_bias", "output_bias", "mlp_bias")
_ATTENTIONS = ("attention", "cross_attention", "replaced")
_STRUCTS = ("mlp_features", "rope_scaling")
_LISTS = ("block", "blocks", "block_count", "encoder", "encoder_blocks", "encoder_block_count")


def _member_names(struct: Any, *excluded: str) -> list[str]:
    """The members of a struct that are numbers or names."""
    return [name for name, *_ in struct._fields_ if name not in (*excluded, "reserved")]


_MODEL = _member_names(c.bo_model_desc, *_LISTS, "labels")
_BLOCK = _member_names(c.bo_block, *_CHOICES, *_ATTENTIONS, *_STRUCTS, "custom_mlp", "layers")
_SCALING = [name for name, *_ in c.bo_rope_scaling._fields_]
_ROPE = {"kind": c.BO_ENUM_ROPE_SCALING_KIND}
# Settings of attention that are not settings of the model or its blocks.
_FILLED_IN = ("key_heads", "value_dim", "causal")  # in the attention of a model
_OF_ATTENTION = [name for name in ATTENTION_SETTINGS + FEATURE_SETTINGS
                 if name not in (*_MODEL, *_BLOCK, *_FILLED_IN)]  # fmt: skip
BLOCK_SETTINGS = [*_BLOCK, *_CHOICES, *_ATTENTIONS, *_STRUCTS, *_OF_ATTENTION, "layers"]
_OF_ALL = [name for name in BLOCK_SETTINGS if name not in ("repeat", "layers")]  # `layers` of a model is a number
_BLOCK_LISTS = ("blocks", "encoder", "encoder_blocks")


# ---- descriptors from settings --------------------------------------------------------------------------------------


def kind_desc(kind: str | Mapping[str, Any], settings: Mapping[str, Any] | None = None, shared: Mapping[str, Any] | None = None) -> Any:
    """An attention by its name or by its settings. `settings` replace those of the mapping, which replace `shared`."""
    if not isinstance(kind, (str, Mapping)):
        raise InvalidArgumentError(f"attention: expected a kind or a mapping with 'kind', found {kind!r}")
    arguments = {**(shared or {}), **({"kind": kind} if isinstance(kind, str) else kind), **(settings or {})}
    return attention_desc("attention", arguments.pop("kind", "softmax"), arguments)


def layer_list(layers: str | Iterable[int]) -> bytes:
    """Layer numbers in the form of the library: "0,5-7"."""
    if isinstance(layers, str):
        return text_bytes(layers, "layers")
    try:
        return ",".join(str(operator.index(layer)) for layer in layers).encode()
    except TypeError:
        raise InvalidArgumentError(f'layers: expected a text such as "0,5-7" or numbers of layers, found {layers!r}') from None


def _mapping(value: Any, name: str, allowed: Iterable[str]) -> Mapping[str, Any]:
    """A setting that is a mapping of settings."""
    if not isinstance(value, Mapping):
        raise InvalidArgumentError(f"{name}: expected a mapping of settings, found {value!r}")
    refuse_unknown(name, value, list(allowed))
    return value


def _chosen(settings: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The settings with these names that are not None, which means the default."""
    return {name: settings[name] for name in names if settings.get(name) is not None}


def _attention(shared: Mapping[str, Any], overrides: Mapping[str, Any]) -> Any:
    """The attention of a block, from the settings of all blocks and of this block."""
    kind = overrides.get("attention")
    common = {name: value for name, value in shared.items() if name not in overrides}
    if kind is not None:
        return kind_desc(kind, _chosen(overrides, _OF_ATTENTION), _chosen(common, _OF_ATTENTION))
    return kind_desc(shared.get("attention") or "softmax", _chosen({**common, **overrides}, _OF_ATTENTION))


def _block(shared: Mapping[str, Any], overrides: Mapping[str, Any]) -> Any:
    """A block, from the settings of all blocks and of this block, which take precedence."""
    block, merged = c.bo_block(), {**shared, **overrides}
    if overrides.get("layers") is not None and overrides.get("mlp") is None:
        merged.pop("mlp", None)  # the mlp of all blocks, which these layers replace
    arguments = _chosen(merged, BLOCK_SETTINGS)
    if arguments.get("mlp") == "layers":  # as in the settings of a model with lists of layers, which imply it
        del arguments["mlp"]
    fill(block, _chosen(arguments, _BLOCK), named=_NAMED)
    for name in _chosen(arguments, _CHOICES):
        setattr(block, name, c.BO_CHOICE_YES if flag(name, arguments[name]) else c.BO_CHOICE_NO)
    block.attention = _attention(shared, overrides)
    for name in _chosen(arguments, _ATTENTIONS[1:]):
        desc = kind_desc(arguments[name])
        desc.heads = block.heads  # marks it as present, also for softmax attention
        setattr(block, name, desc)
    if "mlp_features" in arguments:
        fill(block.mlp_features, _mapping(arguments["mlp_features"], "mlp_features", FEATURE_SETTINGS))
    if "rope_scaling" in arguments:
        fill(block.rope_scaling, _mapping(arguments["rope_scaling"], "rope_scaling", _SCALING), named=_ROPE)
    if "layers" in arguments:
        layers = overrides["layers"]
        block.layers = text_bytes(layers if isinstance(layers, str) else json.dumps(layers), "layers")
    return block


def _list(shared: Mapping[str, Any], blocks: Any, name: str) -> Any:
    """A list of blocks as an array."""
    if isinstance(blocks, (str, bytes, Mapping)) or not isinstance(blocks, Sequence) or not blocks:
        raise InvalidArgumentError(f"{name}: expected a list of mappings with the settings of blocks, found {blocks!r}")
    items = [_block(shared, _mapping(item, f"{name}[{i}]", BLOCK_SETTINGS)) for i, item in enumerate(blocks)]
    return (c.bo_block * len(items))(*items)


def model_desc(preset: str | None, attention: Any, settings: dict[str, Any]) -> Any:
    """The descriptor of a new model."""
    desc = c.bo_model_desc()
    if not lib.bo_model_preset(text_bytes("tiny" if preset is None else preset, "preset"), ctypes.byref(desc)):
        names = iter(range(2**31))
        known = ", ".join(name.decode() for name in iter(lambda: lib.bo_model_preset_name(next(names)), None))
        raise InvalidArgumentError(f"preset: {preset!r} is not known; expected one of {known}")
    fill(desc, _chosen(settings, _MODEL), named=_NAMED)
    if settings.get("labels") is not None:
        desc.names, count = label_array(settings["labels"])  # which must outlive the descriptor
        if desc.classes not in (0, count):
            raise InvalidArgumentError(f"labels: expected {desc.classes} names, one per class, found {count}")
        desc.labels, desc.classes = ctypes.addressof(desc.names), count
    shared = {"heads": desc.block.heads, **_chosen(settings, _OF_ALL), "attention": attention}
    desc.block = _block(shared, {})
    if settings.get("blocks") is not None:
        desc.blocks = _list(shared, settings["blocks"], "blocks")
        desc.block_count = len(settings["blocks"])
    encoder = settings.get("encoder")
    if encoder is not None:
        desc.encoder = _block(shared, _mapping(encoder, "encoder", _OF_ALL))
    if settings.get("encoder_blocks") is not None:
        common = {**shared, **(encoder or {})}
        desc.encoder_blocks = _list(common, settings["encoder_blocks"], "encoder_blocks")
        desc.encoder_block_count = len(settings["encoder_blocks"])
    return desc


def label_array(labels: Any) -> tuple[Any, int]:
    """Class names as C strings for the library."""
    if isinstance(labels, (str, bytes)) or not hasattr(labels, "__len__"):
        raise InvalidArgumentError(f"labels: expected a list of the names of classes, found {labels!r}")
    names = [text_bytes(str(label), "labels") for label in labels]
    return (ctypes.c_char_p * len(names))(*names), len(names)


# ---- settings from descriptors --------------------------------------------------------------------------------------


def class_names(desc: Any) -> list[str]:
    """The names of the classes of a classifier."""
    return [ctypes.string_at(at).decode() for at in (ctypes.c_void_p * desc.classes).from_address(desc.labels)]


def _value(struct: Any, name: str) -> Any:
    """A member, or the name of its number."""
    value = getattr(struct, name)
    if name in _NAMED:
        return enum_name(_NAMED[name], value)
    return value


_NAMES = ("kernel", "function", "draw", "sampling", "gate", "proposal")  # of attention and features


def _read_part(part: Any, names: Iterable[str], default: Any) -> dict[str, Any]:
    """The members of a struct that differ from a default struct, and are not 0, which means the default."""
    found: dict[str, Any] = {}
    for name in names:
        value = getattr(part, name)
        if value == getattr(default, name):
            continue
        if name in _NAMES:
            found[name] = enum_name(getattr(c, f"BO_ENUM_{name.upper()}"), value)
        elif name == "normalizer":
            found[name] = "none" if value == c.BO_NORMALIZER_NONE else "sum"
        elif value or isinstance(value, bool):
            found[name] = value
    return found


@functools.lru_cache(256)
def _default_desc(name: str, dim: int, features: int, causal: bool) -> Any:
    """The attention of a kind with its defaults for heads of `dim` columns."""
    desc, out = attention_desc("attention", name, {"causal": causal}), ctypes.c_void_p()
    desc.heads, desc.dim = 1, dim
    if lib.bo_attention_has(ctypes.byref(desc), c.BO_TRAIT_DRAWS) and lib.bo_features_has(ctypes.byref(desc.features), c.BO_FEATURES_TRAIT_LENGTH):
        desc.features.features = features
    with context() as ctx:
        lib.bo_attention_create(ctx, ctypes.byref(desc), ctypes.byref(out))
    handle = Handle(out.value, lib.bo_attention_destroy)
    return c.bo_attention_desc.from_buffer_copy(lib.bo_attention_describe(handle).contents)


def _read_attention(desc: Any, model: Any) -> tuple[str, dict[str, Any]]:
    """The name of an attention, and settings that differ from the defaults of its kind in a model."""
    name = lib.bo_attention_name(ctypes.byref(desc)).decode()
    default = _default_desc(name, desc.dim, desc.features.features, desc.causal)
    found = _read_part(desc, [name for name in ATTENTION_SETTINGS if name not in _FILLED_IN], default)
    if lib.bo_attention_has(ctypes.byref(desc), c.BO_TRAIT_FEATURES):
        found.update(_read_part(desc.features, FEATURE_SETTINGS, default.features))
    waves = desc.features.kernel == c.BO_KERNEL_RBF and lib.bo_attention_has(ctypes.byref(desc), c.BO_TRAIT_UNIT_ROWS)
    defaults = {"capacity": (desc.window or model.context, model.context + 1), "seed": (model.seed,), "clamp": (0.02,) if waves else ()}
    for setting, values in defaults.items():  # as the model fills them in
        if found.get(setting) in values:
            del found[setting]
    return name, found


def _kind(name: str, settings: dict[str, Any]) -> str | dict[str, Any]:
    return {"kind": name, **settings} if settings else name


def _read_block(block: Any, desc: Any) -> dict[str, Any]:
    """The settings of a block by name, as for Model.create."""
    values: dict[str, Any] = {name: _value(block, name) for name in _BLOCK}
    for name in _CHOICES:
        values[name] = {c.BO_CHOICE_YES: True, c.BO_CHOICE_NO: False}.get(getattr(block, name))
    attends = block.mixer == c.BO_MIXER_ATTENTION  # other mixers that attend determine their attention
    kind, found = _read_attention(block.attention, desc) if attends else ("softmax", {})
    attention = {name: value for name, value in found.items() if name in _OF_ATTENTION}
    rest = {name: value for name, value in found.items() if name not in attention}
    values.update({"attention": _kind(kind, rest), "features": block.attention.features.features,
                   "window": block.attention.window, **attention})  # fmt: skip
    for name in _ATTENTIONS[1:]:
        if getattr(block, name).heads:
            values[name] = _kind(*_read_attention(getattr(block, name), desc))
    if block.rope_scaling.kind:
        values["rope_scaling"] = _read_part(block.rope_scaling, _SCALING[1:], c.bo_rope_scaling())
        values["rope_scaling"]["kind"] = enum_name(c.BO_ENUM_ROPE_SCALING_KIND, block.rope_scaling.kind)
    if block.mlp == c.BO_MLP_RANDOM_FEATURES:
        values["mlp_features"] = _read_part(block.mlp_features, [name for name in FEATURE_SETTINGS if name != "features"], c.bo_features_desc())
    if block.layers:
        values["layers"] = block.layers.decode()
    return values


class Blocks(list[dict[str, Any]]):
    """Settings of blocks, in the order of the list. As text, the number of layers and the mixer of each."""

    def __str__(self) -> str:
        return ", ".join(f"{block['repeat']} x {_mixer_label(block)}" for block in self)


def _mixer_label(block: Mapping[str, Any]) -> str:
    if block["mixer"] != "attention":
        return str(block["mixer"])
    kind = block["attention"]
    name = kind if isinstance(kind, str) else kind["kind"]
    return f"{name} with window {block['window']}" if block["window"] else str(name)


def _read_list(desc: Any, name: str, one: str) -> Blocks:
    count = getattr(desc, "block_count" if name == "blocks" else "encoder_block_count")
    if not count:  # files do not have the number of layers of such a block
        return Blocks([{**_read_block(getattr(desc, one), desc), "repeat": 1}])
    return Blocks(_read_block(getattr(desc, name)[i], desc) for i in range(count))


def block_of(desc: Any, layer: int) -> Any:
    """The block of a layer."""
    return lib.bo_model_block(ctypes.byref(desc), layer).contents


def read_layers(desc: Any) -> list[dict[str, Any]]:
    """The settings of the block of each layer."""
    return [_read_block(block_of(desc, layer), desc) for layer in range(desc.layers)]


def read_model_desc(desc: Any) -> dict[str, Any]:
    """The settings of a model by name, as for Model.create. Settings that all blocks share are also members."""
    blocks = _read_list(desc, "blocks", "block")
    first, rest = blocks[0], blocks[1:]
    shared = {name: value for name, value in first.items() if name in _OF_ALL
              and all(name in block and block[name] == value for block in rest)}  # fmt: skip
    values = {**{name: _value(desc, name) for name in _MODEL}, **shared, "blocks": blocks}
    if desc.classes:
        values["labels"] = class_names(desc)
    if desc.task == c.BO_MODEL_TASK_TRANSLATE:
        values["encoder_blocks"] = _read_list(desc, "encoder_blocks", "encoder")
    return values
