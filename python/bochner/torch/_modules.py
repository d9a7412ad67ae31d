"""Modules: attention with its learned parameters, and a replacement of torch.nn.MultiheadAttention."""

from __future__ import annotations

import ctypes
import warnings
from typing import Any, Optional

import torch
from torch import Tensor, nn
from torch.nn import functional

from .. import _bindings as c
from .._attention import PARAMETERS, PER_TOKEN
from .._attention import Attention as _Attention
from .._library import InvalidArgumentError, lib
from .._settings import Unpack, checks_names, names_of, refuse_unknown
from ..typing import AttentionKind, AttentionPrecision, AttentionSettings, CallSettings, ModuleSettings
from . import _ops


def _autocast_dtype() -> Optional[torch.dtype]:
    """The dtype of CPU autocast, where it is on."""
    if hasattr(torch, "get_autocast_dtype"):
        return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
    return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None  # before PyTorch 2.4


def _compute(
    key: Any, inputs: dict[str, Optional[Tensor]], tokens_first: bool, lengths: Any = None, key_lengths: Any = None,
    double: bool = False,
) -> Tensor:  # fmt: skip
    """Runs an attention on tensors of any floating dtype. `key` is a function of the precision.

    If `double`, everything is computed in float64. Otherwise float32 and float64 are computed as they are. bfloat16 and
    float16, and everything under autocast, are computed with matrix products in bfloat16 and everything else in
    float32. The output has the dtype of q, or that of autocast.
    """
    q = inputs["q"]
    assert q is not None
    for name, tensor in inputs.items():
        if tensor is None:
            continue
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
            found = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
            raise InvalidArgumentError(f"{name}: expected a tensor of floating-point numbers, found {found}")
        if tensor.device != q.device or q.device.type not in ("cpu", "meta"):
            raise InvalidArgumentError(f"bochner.torch computes on the CPU; found a tensor on {tensor.device}")
    cast = _autocast_dtype()
    half = (torch.bfloat16, torch.float16)
    double = double or q.dtype == torch.float64
    low = not double and (cast if cast is not None else q.dtype) in half
    dtype = torch.float64 if double else torch.float32
    returned = cast if cast is not None and not double else q.dtype
    # The operator reads contiguous tensors of one dtype; these conversions are part of the graph of gradients.
    ready = {name: None if tensor is None else tensor.to(dtype).contiguous() for name, tensor in inputs.items()}
    return _ops.run(ready, key("bfloat16" if low else None), tokens_first, lengths, key_lengths).to(returned)


_KNOWN = ("q", "k", "v", "kind", "causal", "precision", "device", *names_of(CallSettings))


def attention(
    q: Tensor, k: Tensor, v: Tensor, *, kind: AttentionKind = "softmax", causal: Optional[bool] = None,
    precision: Optional[AttentionPrecision] = None, device: str = "cpu", **settings: Unpack[CallSettings],
) -> Tensor:  # fmt: skip
    """Compute attention on tensors, with gradients.

    Parameters
    ----------
    q, k, v : torch.Tensor
        (batch, heads, tokens, columns), as for torch.nn.functional.scaled_dot_product_attention. Keys and values may have
        fewer heads.
    device : str
        Only "cpu", where the tensors are.
    kind, causal, precision, **settings
        As in :func:`bochner.attention`. float64 tensors need no `precision`. Inputs such as `log_gate`, `sigma` and `m`
        may be tensors that need gradients.

    Examples
    --------
    >>> import torch, bochner.torch
    >>> q, k, v = torch.randn(3, 2, 4, 64, 16, requires_grad=True).unbind()
    >>> out = bochner.torch.attention(q, k, v, kind="favor", causal=True, features=64)
    >>> out.sum().backward()
    >>> tuple(out.shape)
    (2, 4, 64, 16)
    """
    if any(name not in _KNOWN for name in settings):
        refuse_unknown("attention", settings, _KNOWN)
    if device != "cpu":
        raise InvalidArgumentError(f"attention: bochner.torch computes on the CPU; found device {device!r}")
    for tensor in (q, k, v):
        if not isinstance(tensor, Tensor):
            raise InvalidArgumentError(f"attention: expected tensors, found {type(tensor).__name__}")
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4:
        raise InvalidArgumentError(
            "attention: q, k and v need 4 dimensions, (batch, heads, tokens, columns); found "
            f"{tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}"
        )
    inputs: dict[str, Any] = {"q": q, "k": k, "v": v}
    options: dict[str, Any] = {"kind": kind, "causal": causal, "heads": int(q.shape[1]), "key_heads": int(k.shape[1]),
                               "dim": int(q.shape[3]), "value_dim": int(v.shape[3])}  # fmt: skip
    for name, value in settings.items():
        (inputs if name in PARAMETERS else options)[name] = value
    _check_shapes(q, k, v)
    key = lambda low: _ops.key_of_settings({**options, "precision": precision or low})  # noqa: E731
    return _compute(key, inputs, False, double=precision == "float64")


def _check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    per_key = (q.shape[0], k.shape[1], k.shape[2])
    for name, tensor, expected in (("k", k, (*per_key, q.shape[3])), ("v", v, (*per_key, v.shape[3]))):
        if tuple(tensor.shape) != expected:
            raise InvalidArgumentError(f"{name} has shape {tuple(tensor.shape)}; expected {expected}")


class Attention(nn.Module):
    """Attention on queries, keys and values, with the learned parameters of its kind.

    The parameters are those that the kind has: `sigma` (RFA), `m` (DARK, learned maps), `bias` (learned maps), `mix`
    (hybrid), `log_lambda` (ridge). Their initial values leave the kind as :func:`attention` computes it.

    Parameters
    ----------
    kind : str
        A name of :func:`bochner.attention_kinds` (default: "softmax").
    heads, dim : int
        Number of query heads, and columns of a query and a key.
    causal, precision, **settings
        As in :class:`bochner.Attention`. By default, the dtype of the tensors determines the precision.
    device, dtype
        Those of the parameters, as in the modules of PyTorch. The computation is on the CPU.

    Examples
    --------
    >>> import torch, bochner.torch
    >>> rfa = bochner.torch.RandomFeatureAttention(heads=4, dim=16, features=64, causal=True)
    >>> q, k, v = torch.randn(3, 2, 4, 32, 16).unbind()
    >>> tuple(rfa(q, k, v).shape)
    (2, 4, 32, 16)
    >>> [name for name, _ in rfa.named_parameters()]
    ['sigma']
    """

    @checks_names(AttentionSettings)
    def __init__(
        self, kind: AttentionKind = "softmax", *, heads: int, dim: int, causal: Optional[bool] = None,
        precision: Optional[AttentionPrecision] = None, device: Any = None, dtype: Any = None,
        **settings: Unpack[AttentionSettings],
    ) -> None:  # fmt: skip
        super().__init__()
        arguments = {"causal": causal, "precision": precision, **settings}
        chosen = {name: value for name, value in arguments.items() if value is not None}
        self.settings: dict[str, Any] = {"kind": kind, "heads": heads, "dim": dim, **chosen}
        instance = _Attention(**self.settings)
        desc = lib.bo_attention_describe(instance._handle).contents
        self.heads, self.key_heads, self.dim, self.value_dim = instance.heads, instance.key_heads, instance.dim, instance.value_dim
        self.kind, self.causal = instance.kind, instance.causal

        def has(trait: int) -> bool:
            return bool(lib.bo_attention_has(ctypes.byref(desc), trait))

        factory = {"device": device, "dtype": dtype}
        shape = (self.key_heads, desc.rank, self.dim)
        self.gated = desc.gate in (c.BO_GATE_CONVEX, c.BO_GATE_DECAY)
        self.gated_channels, self.has_beta = has(c.BO_TRAIT_CHANNELS), has(c.BO_TRAIT_BETA)
        if has(c.BO_TRAIT_SIGMA):
            self.sigma = nn.Parameter(torch.ones(self.key_heads, self.dim, **factory))
        if has(c.BO_TRAIT_MATRIX | c.BO_TRAIT_AFFINE) and desc.rank:
            self.m = nn.Parameter(torch.eye(desc.rank, self.dim, **factory).repeat(shape[0], 1, 1))
        if has(c.BO_TRAIT_AFFINE):
            self.bias = nn.Parameter(torch.zeros(self.key_heads, desc.rank, **factory))
        if has(c.BO_TRAIT_MIX):
            self.mix = nn.Parameter(torch.ones(self.heads, **factory))
        if has(c.BO_TRAIT_LAMBDA):
            self.log_lambda = nn.Parameter(torch.zeros(self.key_heads, self.dim, **factory))
        self._draw = 0
        self._instances: dict[Optional[str], _Attention] = {}  # objects whose frequencies differ from those of the settings
        self._set_keys()

    def _set_keys(self) -> None:
        """The keys of attentions with these settings, by precision."""
        self._keys = {
            precision: _ops.key_of_settings({"precision": precision, **self.settings}) for precision in (None, "bfloat16")
        }

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.settings.items())

    def _key(self, precision: Optional[str]) -> str:
        return self._keys[precision]

    @property
    def _double(self) -> bool:
        return bool(self.settings.get("precision") == "float64")

    def _parameters_of_kind(self) -> dict[str, Optional[Tensor]]:
        found: dict[str, Optional[Tensor]] = {name: getattr(self, name, None) for name in ("sigma", "m", "bias", "mix")}
        if hasattr(self, "log_lambda"):
            found["lambda_"] = self.log_lambda.exp()
        return found

    def _adopt(self, change: Any) -> None:
        """Creates attention objects for this module, one per precision, and applies `change` to each."""
        for precision in (None, "bfloat16"):
            instance = _Attention(**{"precision": precision, **self.settings})
            change(instance)
            self._instances[precision], self._keys[precision] = instance, _ops.key_of_object(instance)

    def redraw(self, draw: int) -> None:
        """Replace the random features by another draw; draw 0 is the draw of the constructor. A state_dict does not
        contain it."""
        self._adopt(lambda instance: instance.redraw(draw))
        self._draw = draw

    def calibrate(self, q: Tensor, k: Tensor) -> None:
        """Draw the features from a distribution adapted to the data, for kinds with a proposal ("favor++", "favor#")."""
        queries, keys = (tensor.detach().float().numpy() for tensor in (q, k))
        found = {name: None if value is None else value.detach().float().numpy() for name, value in self._parameters_of_kind().items()}
        self._adopt(lambda instance: instance.calibrate(queries, keys, **found))
        self._draw = -1

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, log_gate: Optional[Tensor] = None, beta: Optional[Tensor] = None,
        *, tokens_first: bool = False, lengths: Optional[Tensor] = None, key_lengths: Optional[Tensor] = None,
    ) -> Tensor:  # fmt: skip
        """Compute the attention of (batch, heads, tokens, columns), or (batch, tokens, heads, columns) if `tokens_first`.

        `log_gate` and `beta` have one number per token and key head, in the same order; for GLA `log_gate` is shaped as
        the keys. `lengths`: the numbers of tokens of sequences that are concatenated along the token axis; the batch size
        must be 1. `key_lengths`: likewise for the keys (default: `lengths`).
        """
        if key_lengths is not None and lengths is None:
            raise InvalidArgumentError("key_lengths: expected lengths as well")
        lengths, key_lengths = (None if of is None else torch.as_tensor(of) for of in (lengths, key_lengths))
        inputs = {"q": q, "k": k, "v": v, "log_gate": log_gate, "beta": beta, **self._parameters_of_kind()}
        return _compute(self._key, inputs, tokens_first, lengths, key_lengths, self._double)

    def __getstate__(self) -> dict[str, Any]:
        if self._draw < 0:
            raise InvalidArgumentError("a calibrated module cannot be copied or pickled: create another, load its state_dict, and calibrate it")
        return {**self.__dict__, "_instances": {}, "_keys": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"_instances": {}, **state})  # type: ignore[no-untyped-call]
        self._set_keys()
        if self._draw:
            self.redraw(self._draw)


class RandomFeatureAttention(Attention):
    """Random feature attention (arXiv 2103.02143); "rfa-gate" is its gated form."""

    def __init__(self, kind: AttentionKind = "rfa", **settings: Unpack[ModuleSettings]) -> None:
        super().__init__(kind, **settings)


class FavorAttention(Attention):
    """FAVOR+ (Performer, arXiv 2009.14794)."""

    def __init__(self, kind: AttentionKind = "favor", **settings: Unpack[ModuleSettings]) -> None:
        super().__init__(kind, **settings)


class DarkAttention(Attention):
    """Data-aware random features (arXiv 2603.04127), with a learned matrix M."""

    def __init__(self, kind: AttentionKind = "dark", **settings: Unpack[ModuleSettings]) -> None:
        super().__init__(kind, **settings)


class HybridAttention(Attention):
    """Softmax attention in a window, random features for earlier keys."""

    def __init__(self, kind: AttentionKind = "hybrid", **settings: Unpack[ModuleSettings]) -> None:
        super().__init__(kind, **settings)


class DeltaAttention(Attention):
    """The delta rule (arXiv 2406.06484)."""

    def __init__(self, kind: AttentionKind = "delta", **settings: Unpack[ModuleSettings]) -> None:
        super().__init__(kind, **settings)


class RidgeAttention(Attention):
    """Ridge regression of the values on the keys (arXiv 2506.05233)."""

    def __init__(self, kind: AttentionKind = "ridge", **settings: Unpack[ModuleSettings]) -> None:
        super().__init__(kind, **settings)


class MultiheadAttention(nn.Module):
    """A replacement of torch.nn.MultiheadAttention with any attention kind.

    It has the same constructor, the same call and the same names in its state_dict, so that the weights are
    interchangeable. Kinds with a gate or a rate add `gate_proj` and `beta_proj`, and kinds with parameters add those of
    :class:`Attention`, which `load_state_dict(..., strict=False)` leaves at their initial values.

    Differences: `need_weights` is False by default, because weights take memory quadratic in the number of tokens;
    `attn_mask` may only be a causal mask; `dropout`, `add_bias_kv` and `add_zero_attn` are not supported.

    Parameters
    ----------
    embed_dim, num_heads, bias, kdim, vdim, batch_first, device, dtype
        As in torch.nn.MultiheadAttention.
    kind : str
        A name of :func:`bochner.attention_kinds` (default: "favor").
    causal : bool, optional
        If true, every call is causal. By default, a call is causal if `is_causal` is true or the mask is causal.
    precision, features, seed, **settings
        As in :class:`Attention`.

    Examples
    --------
    >>> import torch, bochner.torch
    >>> layer = torch.nn.TransformerEncoderLayer(64, 4, batch_first=True)
    >>> layer.self_attn = bochner.torch.MultiheadAttention(64, 4, batch_first=True, kind="favor", features=64)
    >>> tuple(layer(torch.randn(2, 100, 64)).shape)
    (2, 100, 64)
    """

    # If this is true, nn.TransformerEncoderLayer bypasses this module and computes softmax attention.
    _qkv_same_embed_dim = False

    @checks_names(AttentionSettings)
    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: Optional[int] = None, vdim: Optional[int] = None, batch_first: bool = False,
        device: Any = None, dtype: Any = None, *, kind: AttentionKind = "favor", causal: Optional[bool] = None,
        precision: Optional[AttentionPrecision] = None, **settings: Unpack[AttentionSettings],
    ) -> None:  # fmt: skip
        super().__init__()
        if embed_dim % num_heads:
            raise InvalidArgumentError(f"MultiheadAttention: embed_dim {embed_dim} is not a multiple of num_heads {num_heads}")
        if dropout or add_bias_kv or add_zero_attn:
            raise InvalidArgumentError("MultiheadAttention: dropout, add_bias_kv and add_zero_attn are not supported")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.batch_first, self.dropout = batch_first, 0.0
        factory = {"device": device, "dtype": dtype}
        sizes = {"heads": num_heads, "dim": self.head_dim}
        self.attention = Attention(kind, **sizes, causal=causal, precision=precision, **factory, **settings)
        self.causal = self.attention.causal
        if self.kdim == embed_dim and self.vdim == embed_dim:
            self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim, **factory))
        else:
            self.q_proj_weight = nn.Parameter(torch.empty(embed_dim, embed_dim, **factory))
            self.k_proj_weight = nn.Parameter(torch.empty(embed_dim, self.kdim, **factory))
            self.v_proj_weight = nn.Parameter(torch.empty(embed_dim, self.vdim, **factory))
        if bias:
            self.in_proj_bias = nn.Parameter(torch.zeros(3 * embed_dim, **factory))
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias, **factory)
        if self.attention.gated or self.attention.gated_channels:
            self.gate_proj = nn.Linear(self.kdim, embed_dim if self.attention.gated_channels else num_heads, **factory)
        if self.attention.has_beta:
            self.beta_proj = nn.Linear(self.kdim, num_heads, **factory)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for name, parameter in self.named_parameters(recurse=False):
            if name.endswith("weight"):
                nn.init.xavier_uniform_(parameter)
        if self.out_proj.bias is not None:
            nn.init.zeros_(self.out_proj.bias)
        if hasattr(self, "gate_proj"):
            nn.init.constant_(self.gate_proj.bias, 3.0)  # a gate of 0.95

    def _projections(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if hasattr(self, "in_proj_weight"):
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        q, k, v = (functional.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))
        return q, k, v

    def _split(self, x: Tensor) -> Tensor:
        """The columns of each head: (batch, tokens, heads, columns)."""
        return x.view(*x.shape[:-1], self.num_heads, -1)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Optional[Tensor] = None, need_weights: bool = False,
        attn_mask: Optional[Tensor] = None, average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Optional[Tensor]]:  # fmt: skip
        """Compute attention, as torch.nn.MultiheadAttention does. The weights are None without `need_weights`."""
        single = query.dim() == 2
        if single or not self.batch_first:
            axis = 0 if single else 1
            query, key, value = (x.unsqueeze(0) if single else x.transpose(0, axis) for x in (query, key, value))
            if single and key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        if attn_mask is not None and attn_mask.shape[-2:] != (query.shape[1], key.shape[1]):
            raise InvalidArgumentError(
                f"MultiheadAttention: attn_mask has shape {tuple(attn_mask.shape)}; expected ({query.shape[1]}, {key.shape[1]})"
            )
        if key_padding_mask is not None and key_padding_mask.shape != key.shape[:2]:
            raise InvalidArgumentError(
                f"MultiheadAttention: key_padding_mask has shape {tuple(key_padding_mask.shape)}; expected {tuple(key.shape[:2])}"
            )
        causal = self.causal or is_causal or _is_causal_mask(attn_mask)
        q, k, v = (self._split(x) for x in self._projections(query, key, value))
        log_gate = functional.logsigmoid(self.gate_proj(key)) if hasattr(self, "gate_proj") else None
        if log_gate is not None and self.attention.gated_channels:
            log_gate = self._split(log_gate)
        beta = torch.sigmoid(self.beta_proj(key)) if hasattr(self, "beta_proj") else None
        out = self._attend(q, k, v, log_gate, beta, causal, key_padding_mask)
        weights = self._weights(q, k, log_gate, beta, causal, key_padding_mask) if need_weights else None
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        out = self.out_proj(out.flatten(-2))
        if single:
            return out.squeeze(0), None if weights is None else weights.squeeze(0)
        return (out if self.batch_first else out.transpose(0, 1)), weights

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, log_gate: Optional[Tensor], beta: Optional[Tensor], causal: bool, padding: Optional[Tensor]
    ) -> Tensor:
        """Attention of (batch, tokens, heads, columns). Padding is removed: the remaining tokens are packed."""
        inputs = {"log_gate": log_gate, "beta": beta, **self.attention._parameters_of_kind()}
        key = self._key_for(causal, v)
        if padding is None:
            return _compute(key, {"q": q, "k": k, "v": v, **inputs}, True, double=self.attention._double)
        if padding.dtype != torch.bool and not bool(((padding == 0) | (padding == float("-inf"))).all()):
            raise InvalidArgumentError("MultiheadAttention: key_padding_mask must be boolean, or have the numbers 0 and -inf only")
        keep = ~padding if padding.dtype == torch.bool else padding == 0
        lengths = keep.sum(1)
        if not bool((lengths > 0).all()):
            raise InvalidArgumentError("MultiheadAttention: key_padding_mask leaves a sequence without keys")
        packed = {name: x[keep].unsqueeze(0) for name, x in {"k": k, "v": v, **{n: inputs[n] for n in PER_TOKEN}}.items() if x is not None}
        if causal and q.shape[1] != k.shape[1]:
            raise InvalidArgumentError("MultiheadAttention: causal attention with padding needs as many queries as keys")
        packed["q"] = (q[keep] if causal else q.flatten(0, 1)).unsqueeze(0)
        queries = lengths if causal else torch.full_like(lengths, q.shape[1])
        out = _compute(key, {**inputs, **packed}, True, queries, lengths, self.attention._double)[0]
        if not causal:
            return out.view(*q.shape[:3], v.shape[3])
        return q.new_zeros(*q.shape[:3], v.shape[3], dtype=out.dtype).masked_scatter(keep[..., None, None], out)

    def _key_for(self, causal: bool, v: Tensor) -> Any:
        """The key of the attention, or of an attention that differs in causality or in the columns of the values."""
        if causal == self.causal and v.shape[-1] == self.head_dim:
            return self.attention._key
        if self.attention._instances:
            raise InvalidArgumentError("MultiheadAttention: redrawn or calibrated features support one kind of call; set `causal` in the constructor")
        settings = {**self.attention.settings, "causal": causal, "value_dim": int(v.shape[-1])}
        return lambda precision: _ops.key_of_settings({"precision": precision, **settings})

    def _weights(
        self, q: Tensor, k: Tensor, log_gate: Optional[Tensor], beta: Optional[Tensor], causal: bool, padding: Optional[Tensor]
    ) -> Tensor:
        """The weights: the attention of values that are the rows of the identity."""
        tokens = k.shape[1]
        identity = torch.eye(tokens, dtype=q.dtype).view(1, tokens, 1, tokens).expand(k.shape[0], tokens, self.num_heads, tokens)
        return self._attend(q, k, identity, log_gate, beta, causal, padding).transpose(1, 2)


def _is_causal_mask(mask: Optional[Tensor]) -> bool:
    """Whether a mask is causal. Any other mask is refused."""
    if mask is None:
        return False
    hidden = mask if mask.dtype == torch.bool else mask != 0
    if hidden.dim() == 3:
        hidden = hidden[0] if bool((hidden == hidden[:1]).all()) else hidden
    if hidden.dim() == 2 and hidden.shape[0] == hidden.shape[1]:
        upper = torch.ones_like(hidden).triu(1)
        finite = mask.dtype != torch.bool and not bool((mask[..., upper] < -1e4).all())
        if bool((hidden == upper).all()) and not finite:
            return True
        if not bool(hidden.any()):
            return False
    raise InvalidArgumentError("MultiheadAttention: attn_mask must be a causal mask: True or -inf above the diagonal")


@checks_names(AttentionSettings)
def replace_attention(
    module: nn.Module, kind: AttentionKind = "favor", *, causal: Optional[bool] = None,
    precision: Optional[AttentionPrecision] = None, **settings: Unpack[AttentionSettings],
) -> int:  # fmt: skip
    """Replace every torch.nn.MultiheadAttention inside a module by bochner.torch.MultiheadAttention, with its weights.

    Returns the number of replaced modules. Dropout of attention weights is ignored, with a warning.

    >>> import torch, bochner.torch
    >>> layer = torch.nn.TransformerEncoderLayer(32, 4, dropout=0.0, batch_first=True)
    >>> encoder = torch.nn.TransformerEncoder(layer, 2)
    >>> bochner.torch.replace_attention(encoder, "favor", features=64)
    2
    """
    count = 0
    for parent in list(module.modules()):
        if isinstance(parent, nn.TransformerEncoder):
            parent.use_nested_tensor = False
        for name, child in list(parent.named_children()):
            if not isinstance(child, nn.MultiheadAttention):
                continue
            if child.bias_k is not None or child.add_zero_attn:
                raise InvalidArgumentError("replace_attention: add_bias_kv and add_zero_attn are not supported")
            if child.dropout:
                warnings.warn(f"replace_attention: the dropout of {child.dropout} of attention weights is ignored", stacklevel=2)
            first = next(child.parameters())
            new = MultiheadAttention(
                child.embed_dim, child.num_heads, bias=child.in_proj_bias is not None, kdim=child.kdim, vdim=child.vdim,
                batch_first=child.batch_first, device=first.device, dtype=first.dtype, kind=kind, causal=causal,
                precision=precision, **settings,
            )  # fmt: skip
            new.load_state_dict(child.state_dict(), strict=False)
            new.train(child.training)
            setattr(parent, name, new)
            count += 1
    return count
