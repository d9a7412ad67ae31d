"""A language model of the library as a module of PyTorch, whose state_dict has the names of the model's file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Optional, Union

import torch
from torch import Tensor, nn
from torch.nn import functional

from .._attention import Attention
from .._library import Handle, UnsupportedError, lib
from .._model_settings import read_layers
from ..model import Model
from . import _ops
from ._modules import _compute

_ACTIVATIONS: dict[str, Any] = {
    "relu2": lambda x: functional.relu(x).square(),
    "relu": functional.relu,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu-tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "swiglu": functional.silu,
    "geglu": functional.gelu,
    "geglu-tanh": lambda x: functional.gelu(x, approximate="tanh"),
}
# The norms of each residual rule (src/nn/residual.c): before and after the mixer, before and after the MLP.
_RESIDUALS: dict[str, tuple[Optional[str], Optional[str], Optional[str], Optional[str]]] = {
    "sequential": ("input_layernorm", None, "post_attention_layernorm", None),
    "parallel": ("input_layernorm", None, "post_attention_layernorm", None),
    "shared": ("input_layernorm", None, "input_layernorm", None),
    "sandwich": ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"),
    "after": (None, "post_attention_layernorm", None, "post_feedforward_layernorm"),
}
# Settings with which this module computes what the library computes: of models, and of their blocks.
_MODELS: dict[str, tuple[Any, ...]] = {
    "task": ("language",),
    "parametrization": ("standard",),
    "storage": ("float32",),
    "dropout": (0,),
}
_BLOCKS: dict[str, tuple[Any, ...]] = {
    "mixer": ("attention",),
    "mlp": ("none", *_ACTIVATIONS),
    "norm": ("rms", "layer"),
    "positions": ("rope", "none", "learned"),
    "joint_norm": (False,),
    "residual": tuple(_RESIDUALS),
    "rope_scaling": (None,),
}


def _check(settings: Mapping[str, Any], supported: Mapping[str, tuple[Any, ...]]) -> None:
    for name, allowed in supported.items():
        if settings.get(name) not in allowed:
            known = " or ".join(map(repr, allowed))
            raise UnsupportedError(f"LanguageModel: {name} {settings.get(name)!r} is not supported; expected {known}")


class LanguageModel(nn.Module):
    """A language model of Bochner, computed by PyTorch around the library's attention, with gradients.

    Its state_dict has the names and shapes of the model's safetensors file. The random features are those of the model and
    are not trained. Models with attention, RMSNorm or LayerNorm, RoPE, learned or no positions and the usual MLPs are
    supported, and each layer may have another block: another kind of attention, window, base of RoPE, MLP, ... For other
    models, the error names the setting that is not supported.

    Parameters
    ----------
    model : bochner.Model or path
        The model, or a directory to load.

    Examples
    --------
    >>> import torch, bochner, bochner.torch
    >>> model = bochner.Model.create(layers=2, width=32, heads=2, context=64, attention="favor", features=32)
    >>> module = bochner.torch.LanguageModel(model)
    >>> ids = torch.randint(0, 256, (1, 20))
    >>> bool(torch.allclose(module(ids)[0], torch.from_numpy(model.logits(ids[0].numpy())), atol=1e-4))
    True
    >>> loss = torch.nn.functional.cross_entropy(module(ids[:, :-1])[0], ids[0, 1:])
    >>> loss.backward()
    >>> module.to_model().parameters == model.parameters      # a copy with the module's weights
    True
    """

    def __init__(self, model: Union[Model, str, os.PathLike[str]]) -> None:
        super().__init__()
        model = model if isinstance(model, Model) else Model.load(model)
        self._source = model
        self.config = model.config
        self.blocks = read_layers(model._open.desc)
        _check(self.config, _MODELS)
        for block in self.config["blocks"]:
            _check(block, _BLOCKS)
        self._find_attentions()
        for name, values in model.weights.items():
            self._add(name, nn.Parameter(torch.from_numpy(values)))

    def _find_attentions(self) -> None:
        self.attentions = [_attention_of(self._source, layer) for layer in range(self.config["layers"])]
        self._keys = [_ops.key_of_object(attention) for attention in self.attentions]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("attentions", "_keys")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call,unused-ignore]
        self._find_attentions()

    def _add(self, name: str, parameter: nn.Parameter) -> None:
        """Registers a parameter under a name with dots."""
        *parents, last = name.split(".")
        place: nn.Module = self
        for parent in parents:
            if parent not in place._modules:
                place.add_module(parent, nn.Module())
            place = place._modules[parent]  # type: ignore[assignment]
        place.register_parameter(last, parameter)

    def _weight(self, name: str) -> Optional[Tensor]:
        """A parameter by its name; None if the model has none."""
        place: Any = self
        for part in name.split("."):
            place = getattr(place, part, None)
            if place is None:
                return None
        return place  # type: ignore[no-any-return]

    def _linear(self, x: Tensor, name: str) -> Tensor:
        weight = self._weight(f"{name}.weight")
        assert weight is not None, name
        return functional.linear(x, weight, self._weight(f"{name}.bias"))

    def _norm(self, x: Tensor, name: str, width: int, layer: int) -> Tensor:
        """RMSNorm, or LayerNorm where the block of the layer has it, of groups of `width` columns."""
        block, weight, shape = self.blocks[layer], self._weight(f"{name}.weight"), x.shape
        x = x.reshape(*shape[:-1], -1, width)
        if block["norm"] == "layer" and ("layernorm" in name or name == "model.norm"):
            return functional.layer_norm(x, (width,), weight, self._weight(f"{name}.bias"), block["norm_epsilon"]).reshape(shape)
        scaled = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + block["norm_epsilon"])
        return (scaled if weight is None else scaled * weight).reshape(shape)

    def _rotated(self, x: Tensor, layer: int) -> Tensor:
        """RoPE in halves, of (batch, tokens, heads, columns)."""
        block = self.blocks[layer]
        if block["positions"] != "rope":
            return x
        columns = block["rotated"] or x.shape[-1]
        half = columns // 2
        rates = block["rope_base"] ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.arange(x.shape[1], dtype=torch.float64)[:, None] * rates
        cosine, sine = angles.cos().to(x.dtype)[:, None], angles.sin().to(x.dtype)[:, None]
        first, second, rest = x[..., :half], x[..., half:columns], x[..., columns:]
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine, rest], -1)

    def _attention(self, x: Tensor, layer: int) -> Tensor:
        prefix, mixer = f"model.layers.{layer}.self_attn", self.attentions[layer]
        q, k, v = (self._linear(x, f"{prefix}.{name}_proj") for name in "qkv")
        if self._weight(f"{prefix}.q_norm.weight") is not None:
            q, k = self._norm(q, f"{prefix}.q_norm", mixer.dim, layer), self._norm(k, f"{prefix}.k_norm", mixer.dim, layer)
        q, k, v = q.view(*x.shape[:2], mixer.heads, -1), k.view(*x.shape[:2], mixer.key_heads, -1), v.view(*x.shape[:2], mixer.key_heads, -1)
        inputs: dict[str, Optional[Tensor]] = {"q": self._rotated(q, layer), "k": self._rotated(k, layer), "v": v}
        inputs.update(self._inputs(x, prefix, mixer))
        out = _compute(lambda precision: self._keys[layer], inputs, True).flatten(-2)
        if self._weight(f"{prefix}.o_norm.weight") is not None:
            out = self._norm(out, f"{prefix}.o_norm", mixer.value_dim, layer)
        return self._linear(out, f"{prefix}.o_proj")

    def _inputs(self, x: Tensor, prefix: str, mixer: Attention) -> dict[str, Optional[Tensor]]:
        """The other inputs of the attention, from the weights that its kind has (src/nn/attention.c)."""
        found: dict[str, Optional[Tensor]] = {"sigma": self._weight(f"{prefix}.sigma"), "m": self._weight(f"{prefix}.m")}
        if self._weight(f"{prefix}.g_proj.weight") is not None:
            found["log_gate"] = functional.logsigmoid(self._linear(x, f"{prefix}.g_proj"))
        if self._weight(f"{prefix}.gk_proj.0.weight") is not None:
            gates = self._linear(self._linear(x, f"{prefix}.gk_proj.0"), f"{prefix}.gk_proj.1")
            found["log_gate"] = (functional.logsigmoid(gates) / 16).view(*x.shape[:2], mixer.key_heads, -1)
        if self._weight(f"{prefix}.b_proj.weight") is not None:
            found["beta"] = torch.sigmoid(self._linear(x, f"{prefix}.b_proj"))
        if (decay := self._weight(f"{prefix}.decay")) is not None:
            found["log_decay"] = functional.logsigmoid(decay)
        if (raw := self._weight(f"{prefix}.lambda")) is not None:
            found["lambda_"] = functional.softplus(raw) + 0.25
        if (mix := self._weight(f"{prefix}.mix")) is not None:
            found["mix"] = mix.exp()
        if self._weight(f"{prefix}.map_q.weight") is not None:
            found["m"], found["bias"] = self._weight(f"{prefix}.map_q.weight"), self._weight(f"{prefix}.map_q.bias")
            found["m_k"], found["bias_k"] = self._weight(f"{prefix}.map_k.weight"), self._weight(f"{prefix}.map_k.bias")
        return found

    def _mlp(self, x: Tensor, prefix: str, name: str) -> Tensor:
        act = _ACTIVATIONS[name]
        if self._weight(f"{prefix}.gate_proj.weight") is not None:
            return self._linear(act(self._linear(x, f"{prefix}.gate_proj")) * self._linear(x, f"{prefix}.up_proj"), f"{prefix}.down_proj")
        return self._linear(act(self._linear(x, f"{prefix}.up_proj")), f"{prefix}.down_proj")

    def _layer(self, x: Tensor, layer: int) -> Tensor:
        """One layer, with the joints of bo_residual."""
        prefix, block, width = f"model.layers.{layer}", self.blocks[layer], self.config["width"]
        before_mixer, after_mixer, before_mlp, after_mlp = _RESIDUALS[block["residual"]]

        def norm(value: Tensor, name: Optional[str]) -> Tensor:
            return self._norm(value, f"{prefix}.{name}", width, layer) if name else value

        mixed = norm(self._attention(norm(x, before_mixer), layer) * block["residual_scale"], after_mixer)
        if block["mlp"] == "none":
            return x + mixed
        read = x if block["residual"] in ("parallel", "shared") else x + mixed
        inner = self._mlp(norm(read, before_mlp), f"{prefix}.mlp", block["mlp"])
        return x + mixed + norm(inner * block["residual_scale"], after_mlp)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the logits of (batch, tokens) ids: (batch, tokens, vocabulary)."""
        table = self._weight("model.embed_tokens.weight")
        assert table is not None
        x = functional.embedding(ids, table) * self.config["embedding_scale"]
        if (positions := self._weight("model.embed_positions.weight")) is not None:
            x = x + positions[: ids.shape[1]]
        for layer in range(self.config["layers"]):
            x = self._layer(x, layer)
        head = self._weight("lm_head.weight")
        out = functional.linear(self._norm(x, "model.norm", self.config["width"], -1), table if head is None else head)
        bias = self._weight("lm_head.bias")
        scaled: Tensor = out * self.config["logit_scale"]
        return scaled if bias is None else scaled + bias

    def to_model(self) -> Model:
        """Return a new bochner.Model with the weights of this module; `to_model().save(directory)` writes its files."""
        copy = Model.frombytes(self._source.tobytes(), precision=self._source.precision)
        return load_state_dict(copy, self.state_dict())


def _attention_of(model: Model, layer: int) -> Attention:
    """The attention of a layer, which belongs to the model."""
    core = model._open
    attention = object.__new__(Attention)
    attention._adopt(Handle(lib.bo_model_attention(core.handle, layer), lambda _: None, core))
    attention._desc, attention._double, attention._draw = None, False, None
    attention._arguments = {"kind": attention.kind, "heads": attention.heads, "dim": attention.dim}
    return attention


def state_dict(model: Model) -> dict[str, Tensor]:
    """Return the weights of a model as tensors, under the names of its safetensors file.

    >>> import bochner, bochner.torch
    >>> model = bochner.Model.create(layers=1, width=32, heads=2)
    >>> tuple(bochner.torch.state_dict(model)["model.norm.weight"].shape)
    (32,)
    """
    return {name: torch.from_numpy(values) for name, values in model.weights.items()}


def load_state_dict(model: Model, weights: dict[str, Tensor]) -> Model:
    """Copy tensors into the weights of a model, by name, and return the model. Names and shapes must be those of the model."""
    names = set(model.weights)
    if missing := sorted(names - set(weights)):
        raise KeyError(f"load_state_dict: there is no tensor {missing[0]!r} ({len(missing)} are missing)")
    if unknown := sorted(set(weights) - names):
        raise KeyError(f"load_state_dict: the model has no weight {unknown[0]!r} ({len(unknown)} are unknown)")
    for name, tensor in weights.items():
        model.weights[name] = torch.as_tensor(tensor).detach().float().contiguous().numpy()
    return model
