"""Attention on arrays: softmax attention, linear attention through feature maps, and recurrent memories."""

from __future__ import annotations

import ctypes
import functools
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _bindings as c
from . import _library
from ._arrays import address, aligned, as_array, as_bytes, new_array
from ._library import (
    BochnerError, FormatError, Handle, InvalidArgumentError, alone, context, device_name, lib, long_context, new_lock,
    precision_number, text_bytes, whole,
)  # fmt: skip
from ._reports import Report
from ._settings import Unpack, checks_names, fill, names_of, read_struct, refuse_unknown, refuse_zero
from .typing import (
    AttentionInputs, AttentionKind, AttentionPrecision, AttentionSettings, CallSettings, FeatureSettings, StateSettings,
)  # fmt: skip

Array = np.ndarray[Any, Any]

# Settings of the feature map and of the attention itself, named as the members of their structs.
FEATURE_SETTINGS = names_of(FeatureSettings)
ATTENTION_SETTINGS = ("causal", *(name for name in names_of(AttentionSettings) if name not in FEATURE_SETTINGS))
_SETTINGS = FEATURE_SETTINGS + ATTENTION_SETTINGS
# Inputs in addition to q, k and v, named as the members of the struct; inputs of the second list have one number per
# token and key head.
PARAMETERS = names_of(AttentionInputs)
PER_TOKEN = ("log_gate", "beta")
_CHECKSUM = 4  # bytes at the end of a saved state
_LONG_WORK = 1 << 24  # numbers in q, above which Ctrl-C can stop a call


def attention_kinds() -> list[str]:
    """Return the names of all kinds of attention.

    >>> import bochner
    >>> bochner.attention_kinds()[:4]
    ['softmax', 'linear', 'rfa', 'rfa-gate']
    """
    names: list[str] = []
    while name := lib.bo_enum_name(c.BO_ENUM_ATTENTION_PRESET, len(names)):
        names.append(name.decode())
    return names


def attention_desc(function: str, kind: str, settings: Mapping[str, Any]) -> Any:
    """The descriptor of a kind with settings of the attention and of its feature map. `function` is named in errors."""
    refuse_unknown(function, settings, _SETTINGS)
    refuse_zero({name: value for name, value in settings.items() if name != "features"})  # some maps determine the number of features
    desc = c.bo_attention_desc()
    if not isinstance(kind, str) or not lib.bo_attention_preset(text_bytes(kind, "kind"), ctypes.byref(desc)):
        raise InvalidArgumentError(f"{function}: kind {kind!r} is not known; expected one of {', '.join(attention_kinds())}")
    fill(desc, {name: value for name, value in settings.items() if name in ATTENTION_SETTINGS})
    fill(desc.features, {name: value for name, value in settings.items() if name in FEATURE_SETTINGS})
    return desc


class AttentionAccuracy(Report):
    """The error of an attention against softmax attention, from :meth:`Attention.measure`.

    `against_softmax` is the relative error of the output; `against_kernel` is the error against the closed form of the
    kind's own kernel; `kernel_error` and `kernel_predicted` are the measured and the predicted relative error of single
    kernel values. NaN: unknown.
    """

    _title = "Accuracy of attention"


class Attention:
    """An attention with fixed settings and frequencies.

    Parameters
    ----------
    kind : str
        A name of :func:`attention_kinds` or an alias, such as "performer" (default: "softmax").
    heads, dim : int
        Number of query heads, and columns of a query and a key.
    causal : bool, optional
        Whether a query sees only the keys up to its own position (default: False, except for kinds that are always
        causal).
    precision : {"float32", "bfloat16", "float64"}, optional
        Precision of matrix products (default: that of :func:`bochner.set_precision`). "float64" computes everything in
        float64 with plain code, to check results: it takes time quadratic in the number of tokens.
    device : str
        Where outputs and states are computed: "cpu" (default), "cuda" or "cuda:N" for a GPU, or "auto" for a GPU if there is
        one. Arrays and states are in the memory of the host. :meth:`measure` and :meth:`calibrate` use the CPU.
    features, seed, kernel, function, draw, gamma, degree, ... :
        The feature map, as in :class:`bochner.features.RandomFeatures` (default of `features`: 128).
    key_heads, value_dim, scale, window, gate, normalizer, temperature, rank, power, ... :
        Settings of the kind, named as in the C header attention.h; :class:`bochner.typing.AttentionSettings` lists all.
        `key_heads` is a divisor of `heads` (default: heads); `value_dim` is the number of columns of a value (default: dim).

    Examples
    --------
    >>> import numpy as np, bochner
    >>> q, k, v = np.random.default_rng(0).standard_normal((3, 8, 256, 32), np.float32)    # heads, tokens, columns
    >>> favor = bochner.Attention("favor", heads=8, dim=32, causal=True, features=256)
    >>> favor(q, k, v).shape
    (8, 256, 32)
    >>> favor.state_bytes < 300_000                         # a state does not grow with the number of tokens
    True
    """

    _device = "cpu"

    @checks_names(AttentionSettings)
    def __init__(
        self,
        kind: AttentionKind = "softmax",
        *,
        heads: int,
        dim: int,
        causal: bool | None = None,
        precision: AttentionPrecision | None = None,
        device: str = "cpu",
        **settings: Unpack[AttentionSettings],
    ) -> None:
        desc = attention_desc("Attention", kind, {"causal": causal, **settings})
        fill(desc, {"heads": heads, "dim": dim})
        if not desc.features.features:
            desc.features.features = _default_features(desc)
        self._desc = desc
        self._double = precision == "float64"
        self._device = device_name(device)
        if self._double and self._device != "cpu":
            raise InvalidArgumentError(f"Attention: precision 'float64' is computed on the CPU; found device {device!r}")
        self._precision = precision_number(precision) if precision is not None and not self._double else _library._precision
        self._adopt(self._created())
        chosen = {} if device == "cpu" else {"device": device}
        self._arguments = {"kind": kind, "heads": heads, "dim": dim, "causal": causal, "precision": precision, **chosen, **settings}
        self._draw: int | None = 0
        self._calibration: tuple[Handle, int] | None = None  # calibration of the frequencies, and their draw

    def _created(self) -> Handle:
        """A new library object with the frequencies of the constructor."""
        if self._desc is None:
            raise InvalidArgumentError("the attention belongs to a model and cannot be changed")
        out = ctypes.c_void_p()
        with context(self._precision, self._device) as ctx:
            lib.bo_attention_create(ctx, ctypes.byref(self._desc), ctypes.byref(out))
        return Handle(out.value, lib.bo_attention_destroy)

    def _adopt(self, handle: Handle) -> None:
        """Adopts a library object, and caches the sizes that every call needs."""
        self._handle = handle
        info = lib.bo_attention_describe(handle).contents
        self._channels = bool(lib.bo_attention_has(ctypes.byref(info), c.BO_TRAIT_CHANNELS))  # one gate per channel of a key
        self._heads, self._key_heads, self._dim, self._value_dim = info.heads, info.key_heads, info.dim, info.value_dim

    @property
    def kind(self) -> str:
        """The name of the kind."""
        return str(lib.bo_attention_name(lib.bo_attention_describe(self._handle)).decode())

    @property
    def heads(self) -> int:
        """Number of query heads."""
        return int(self._heads)

    @property
    def key_heads(self) -> int:
        """Number of heads of keys and values."""
        return int(self._key_heads)

    @property
    def dim(self) -> int:
        """Columns of a query and a key."""
        return int(self._dim)

    @property
    def value_dim(self) -> int:
        """Columns of a value."""
        return int(self._value_dim)

    @property
    def causal(self) -> bool:
        """Whether a query sees only the keys up to its own position."""
        return bool(lib.bo_attention_describe(self._handle).contents.causal)

    @property
    def features(self) -> int:
        """Length of the feature map; 0 for kinds without features."""
        first = lib.bo_attention_features(self._handle, 0)
        return int(lib.bo_features_describe(first).contents.features) if first else 0

    @property
    def state_bytes(self) -> int:
        """Bytes of the state of one sequence."""
        return int(lib.bo_attention_state_bytes(self._handle))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self._arguments.items() if name != "kind" and value is not None)
        return f"Attention({self._arguments['kind']!r}, {shown})"

    def __call__(self, q: Any, k: Any, v: Any, **parameters: Unpack[AttentionInputs]) -> Array:
        """Compute the output of the attention.

        Parameters
        ----------
        q, k, v : array_like
            Queries, keys and values: (batch, heads, tokens, columns), (heads, tokens, columns) or (tokens, columns). A
            view of an array in the order (batch, tokens, heads, columns) is read without a copy.
        log_gate, beta : array_like, optional
            One number per token and key head, shaped as k without its last dimension. GLA: `log_gate` is shaped as k.
        sigma, m, mix, log_decay, lambda_, m_k, bias, bias_k : array_like, optional
            Parameters of the kind, named as in the C header attention.h.

        Returns
        -------
        numpy.ndarray
            The output, shaped as q with the columns of v, in the dtype of q (float32 or float64).
        """
        call = Call(self, q, k, v, parameters)
        call.forward()
        return call.result()

    def measure(
        self, q: Any, k: Any, v: Any, *, queries: int = 128, **parameters: Unpack[AttentionInputs]
    ) -> AttentionAccuracy:
        """Measure the error against softmax attention, and predict it, over evenly spaced queries.

        >>> import numpy as np, bochner
        >>> q, k, v = np.random.default_rng(0).standard_normal((3, 4, 128, 16), np.float32) * 0.5
        >>> few, many = (bochner.Attention("favor", heads=4, dim=16, features=n).measure(q, k, v) for n in (32, 512))
        >>> many.against_softmax < few.against_softmax
        True
        """
        call = Call(self, q, k, v, parameters, double=False)
        out = c.bo_attention_accuracy()
        with long_context() as ctx:
            call.call.out.data = None  # a forward pass is measured
            lib.bo_attention_measure(ctx, self._handle, ctypes.byref(call.call), whole(queries, "queries"), ctypes.byref(out))
        return AttentionAccuracy(read_struct(out))

    def redraw(self, draw: int) -> None:
        """Replace the frequencies by another draw. Draw 0 is the draw of the constructor. Earlier states are refused."""
        handle, draw = self._created(), whole(draw, "draw", bits=64)  # other threads may use the previous object
        with context() as ctx:
            if self._calibration is not None:
                statistics, first = self._calibration
                lib.bo_calibration_apply(ctx, statistics, handle, first, None)
            lib.bo_attention_redraw(ctx, handle, draw)
        self._handle = handle
        self._draw = draw if self._calibration is None else None

    def calibrate(self, q: Any, k: Any, *, draw: int = 0, **parameters: Unpack[AttentionInputs]) -> dict[str, Any]:
        """Draw the frequencies from a distribution adapted to the data, for kinds with a proposal or optimal sampling.

        Use separate data, not the sequences that the attention will process; otherwise outputs are not causal. Returns
        the expected accuracy; see bo_calibration_report in attention.h.
        """
        call = Call(self, q, k, np.zeros((*np.shape(k)[:-1], self._value_dim), np.float32), parameters, double=False)
        pointer, draw, handle = ctypes.c_void_p(), whole(draw, "draw", bits=64), self._created()
        report = c.bo_calibration_report()
        with long_context() as ctx:
            lib.bo_calibration_create(ctx, handle, 0.0, ctypes.byref(pointer))
            statistics = Handle(pointer.value, lib.bo_calibration_destroy)
            lib.bo_calibration_add(ctx, statistics, ctypes.byref(call.call))
            lib.bo_calibration_apply(ctx, statistics, handle, draw, ctypes.byref(report))
        self._handle, self._calibration, self._draw = handle, (statistics, draw), None
        return read_struct(report)

    def __getstate__(self) -> dict[str, Any]:
        if self._desc is None:
            raise BochnerError("an attention that belongs to a model cannot be pickled; pickle the model")
        if self._draw is None:
            raise BochnerError("an attention with calibrated frequencies cannot be pickled; calibrate it after loading")
        return {"arguments": self._arguments, "draw": self._draw}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["arguments"])  # type: ignore[misc]
        if state["draw"]:
            self.redraw(state["draw"])


def _default_features(desc: Any) -> int:
    """128 features, except for kinds without features and for maps that determine their number."""
    if not lib.bo_attention_has(ctypes.byref(desc), c.BO_TRAIT_DRAWS):
        return 0
    return 128 if desc.kind != c.BO_ATTENTION_LINEAR or lib.bo_features_has(ctypes.byref(desc.features), c.BO_FEATURES_TRAIT_LENGTH) else 0


class Call:
    """One call of an attention: the struct of the library, and the arrays that it points to."""

    __slots__ = ("attention", "call", "double", "dtype", "keep_alive", "out", "returned", "tokens_first")

    def __init__(
        self, attention: Attention, q: Any, k: Any, v: Any, parameters: Mapping[str, Any], double: bool | None = None
    ) -> None:
        q, k, v = as_array(q, "q"), as_array(k, "k"), as_array(v, "v")
        dims = q.ndim
        if not 2 <= dims <= 4 or k.ndim != dims or v.ndim != dims:
            raise InvalidArgumentError(
                "attention: q, k and v need the same number of dimensions, 2 to 4, as in (batch, heads, tokens, columns); "
                f"found {q.shape}, {k.shape} and {v.shape}"
            )
        self.attention = attention
        self.double = attention._double if double is None else double
        self.dtype = np.float64 if q.dtype == np.float64 else np.float32
        self.returned = q.shape[:-1]
        if dims < 4:
            ones = (1,) * (4 - dims)
            q, k, v = q.reshape(ones + q.shape), k.reshape(ones + k.shape), v.reshape(ones + v.shape)
        batch, heads, tokens, _ = q.shape
        key_heads, keys, value_dim = attention._key_heads, k.shape[2], attention._value_dim
        _expect("q", q, (batch, attention._heads, tokens, attention._dim))
        _expect("k", k, (batch, key_heads, keys, attention._dim))
        _expect("v", v, (batch, key_heads, keys, value_dim))
        if keys == 0 and tokens:
            raise InvalidArgumentError(f"k has shape {k.shape}, without a key; expected at least one")
        element = np.float64 if self.double else np.float32
        self.tokens_first = _is_tokens_first(q, k, v)
        if self.tokens_first:
            q, k, v = q.transpose(0, 2, 1, 3), k.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3)
        q, k, v = (np.ascontiguousarray(q, element), np.ascontiguousarray(k, element), np.ascontiguousarray(v, element))
        self.keep_alive = [q, k, v]
        order = (batch, tokens, heads, value_dim) if self.tokens_first else (batch, heads, tokens, value_dim)
        self.out = new_array(order, element)
        self.call = call = c.bo_attention_call()
        call.sequences, call.tokens, call.key_tokens, call.layout = batch, tokens, keys, self.tokens_first
        call.element = c.BO_ELEMENT_FLOAT64 if self.double else c.BO_ELEMENT_FLOAT32
        call.q.data, call.k.data, call.v.data, call.out.data = address(q), address(k), address(v), address(self.out)
        for name, value in parameters.items():
            _check_input(name)
            if value is not None:
                set_input(call, name, address(self._parameter(name, value, element, (batch, key_heads, keys), dims)))

    def _parameter(self, name: str, value: Any, dtype: Any, per_token: tuple[int, ...], dims: int) -> Array:
        array = as_array(value, name)
        if name in PER_TOKEN:
            channels = name == "log_gate" and self.attention._channels
            shape = (*per_token, self.attention._dim) if channels else per_token
            if array.ndim == dims - (not channels):
                array = array.reshape((1,) * (len(shape) - array.ndim) + array.shape)
            _expect(name, array, shape)
            if self.tokens_first:
                array = array.swapaxes(1, 2)
        else:
            _expect(name, array, parameter_shape(self.attention, name))
        array = np.ascontiguousarray(array, dtype)
        self.keep_alive.append(array)
        return array

    def forward(self, states: Any = None) -> None:
        """Computes `out`, with optional states before and after the tokens."""
        self.call.initial = self.call.final = None if states is None else ctypes.addressof(states)
        device = "cpu" if self.double else self.attention._device
        with long_context(device=device) if self.out.size > _LONG_WORK else context(device=device) as ctx:
            lib.bo_attention_forward(ctx, self.attention._handle, ctypes.byref(self.call))

    def result(self) -> Array:
        """The output in the order and the dtype of q."""
        out = self.out.transpose(0, 2, 1, 3) if self.tokens_first else self.out
        return out.reshape(*self.returned, out.shape[-1]).astype(self.dtype, copy=False)


def _check_input(name: str) -> None:
    """Refuses names that are not inputs of a call."""
    if name not in PARAMETERS:
        refuse_unknown("attention", [name], PARAMETERS + _SETTINGS)
        raise TypeError(f"attention: {name!r} is a setting of the attention: pass it to Attention(...)")


def set_input(call: Any, name: str, at: int | None) -> None:
    """Sets the address of an input of a call: an array with one row per token, or a parameter."""
    if name in PER_TOKEN:
        getattr(call, name).data = at
    else:
        setattr(call, name, at)


def parameter_shape(attention: Attention, name: str) -> tuple[int, ...]:
    """The shape of a parameter that does not depend on the tokens."""
    info = lib.bo_attention_describe(attention._handle).contents
    columns, rows = (info.key_heads, info.dim), (info.key_heads, info.rank)
    return {"mix": (info.heads,), "log_decay": (info.key_heads,), "sigma": columns, "lambda_": columns, "bias": rows,
            "bias_k": rows, "m": (*rows, info.dim), "m_k": (*rows, info.dim)}[name]  # fmt: skip


def _is_tokens_first(*arrays: Array) -> bool:
    """Whether all arrays are views of memory in the order (batch, tokens, heads, columns), and not in the order (batch,
    heads, tokens, columns)."""
    for array in arrays:
        if array.flags.c_contiguous or not array.transpose(0, 2, 1, 3).flags.c_contiguous:
            return False
    return True


def _expect(name: str, array: Array, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise InvalidArgumentError(f"{name} has shape {array.shape}; expected {shape}")


class State:
    """The past of one or several sequences, of fixed size for attention with features.

    Parameters
    ----------
    attention : Attention or str
        The attention of the state. A kind with the settings of :class:`Attention` creates one.
    sequences : int
        Number of sequences (default: 1).

    Examples
    --------
    >>> import numpy as np, bochner
    >>> q, k, v = np.random.default_rng(0).standard_normal((3, 4, 100, 16), np.float32)    # heads, tokens, columns
    >>> favor = bochner.Attention("favor", heads=4, dim=16, causal=True)
    >>> state = bochner.State(favor)
    >>> first = state.extend(q[:, :99], k[:, :99], v[:, :99])                              # a block of tokens
    >>> last = state.step(q[:, 99], k[:, 99], v[:, 99])                                    # one token
    >>> bool(np.allclose(last, favor(q, k, v)[:, 99], rtol=1e-4, atol=1e-5))
    True
    >>> fork = bochner.State.frombytes(favor, state.tobytes())
    >>> fork.tokens
    100
    """

    @checks_names(StateSettings)
    def __init__(
        self, attention: Attention | AttentionKind, *, sequences: int = 1, **settings: Unpack[StateSettings]
    ) -> None:
        if isinstance(attention, str):
            arguments: dict[str, Any] = {"causal": True, **settings}
            attention = Attention(attention, **arguments)
        elif settings:
            raise TypeError(f"State: {next(iter(settings))!r} is a setting of the attention: pass it to Attention(...)")
        if not isinstance(attention, Attention):
            raise TypeError(f"State: expected an Attention or a kind, found {type(attention).__name__}")
        if attention._double:
            raise InvalidArgumentError("State: attention with precision 'float64' has no states")
        if not attention.causal:
            raise InvalidArgumentError("State: the attention must be causal; create it with causal=True")
        if whole(sequences, "sequences") < 1:
            raise InvalidArgumentError(f"State: sequences is {sequences!r}; expected a number of at least 1")
        self._attention = attention
        self._lock = new_lock()
        self._allocate(sequences)
        with context() as ctx:
            for at in self._addresses:
                lib.bo_attention_state_init(ctx, attention._handle, at)

    def _allocate(self, sequences: int) -> None:
        size = self._attention.state_bytes
        stride = -(-size // 64) * 64
        self._memory = aligned(stride * sequences).reshape(sequences, stride)[:, :size]
        self._addresses = [address(row) for row in self._memory]
        self._pointers = (ctypes.c_void_p * sequences)(*self._addresses)

    @property
    def attention(self) -> Attention:
        """The attention that the state belongs to."""
        return self._attention

    @property
    def sequences(self) -> int:
        """Number of sequences."""
        return len(self._addresses)

    @property
    def tokens(self) -> int:
        """Number of tokens that each sequence has absorbed."""
        return int(lib.bo_attention_state_tokens(self._addresses[0]))

    @property
    def nbytes(self) -> int:
        """Bytes of all sequences."""
        return int(self._memory.size)

    def __repr__(self) -> str:
        return f"<State of {self._attention.kind} attention: {self.sequences} sequences, {self.tokens} tokens, {self.nbytes} bytes>"

    def step(self, q: Any, k: Any, v: Any, **parameters: Unpack[AttentionInputs]) -> Array:
        """Process one token per sequence. q, k, v: (sequences, heads, columns), or (heads, columns) for one sequence."""
        q, k, v = as_array(q, "q"), as_array(k, "k"), as_array(v, "v")
        if q.ndim not in (2, 3) or k.ndim != q.ndim or v.ndim != q.ndim:
            raise InvalidArgumentError(
                "step: q, k and v need the same number of dimensions, (sequences, heads, columns) or (heads, columns); "
                f"found {q.shape}, {k.shape} and {v.shape}"
            )
        per_token = {name: as_array(value, name) for name, value in parameters.items() if name in PER_TOKEN and value is not None}
        for name, array in per_token.items():
            channels = name == "log_gate" and self._attention._channels
            if array.ndim != q.ndim - (not channels):
                raise InvalidArgumentError(f"{name} has shape {array.shape}; expected that of k{'' if channels else ' without its columns'}")
            per_token[name] = np.expand_dims(array, -2 if channels else -1)
        out = self.extend(q[..., None, :], k[..., None, :], v[..., None, :], **{**parameters, **per_token})
        return out[..., 0, :]

    def extend(self, q: Any, k: Any, v: Any, **parameters: Unpack[AttentionInputs]) -> Array:
        """Process a block of tokens. Shapes are as in :meth:`Attention.__call__`, with one batch entry per sequence."""
        call = Call(self._attention, q, k, v, parameters)
        if call.call.sequences != self.sequences:
            raise InvalidArgumentError(f"q has {call.call.sequences} sequences; the state has {self.sequences}")
        if call.call.tokens != call.call.key_tokens:
            raise InvalidArgumentError(f"q has {call.call.tokens} tokens, k has {call.call.key_tokens}; a state reads as many keys as queries")
        with alone(self._lock):
            call.forward(self._pointers)
        return call.result()

    def copy(self) -> State:
        """Return an independent copy: a fork of the sequences."""
        other = object.__new__(State)
        other._attention, other._lock = self._attention, new_lock()
        other._allocate(self.sequences)
        with alone(self._lock):
            other._memory[...] = self._memory
        return other

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> State:
        return self.copy()

    def tobytes(self) -> bytes:
        """Return the state as bytes, for a file or another process."""
        with alone(self._lock):
            data = self._memory.tobytes()
        return data + zlib.crc32(data).to_bytes(_CHECKSUM, "little")

    @classmethod
    def frombytes(cls, attention: Attention, data: bytes | bytearray | memoryview) -> State:
        """Restore a state from :meth:`tobytes`. Bytes of another attention and damaged bytes are refused."""
        if not isinstance(attention, Attention):
            raise TypeError(f"State.frombytes: expected an Attention, found {type(attention).__name__}")
        size = attention.state_bytes
        data = as_bytes(data, "data")
        values = np.frombuffer(data, np.uint8)[:-_CHECKSUM]
        if not values.size or values.size % size:
            raise InvalidArgumentError(f"State.frombytes: found {len(data)} bytes; expected a multiple of {size}, and {_CHECKSUM}")
        if zlib.crc32(memoryview(data)[:-_CHECKSUM]) != int.from_bytes(data[-_CHECKSUM:], "little"):
            raise FormatError("State.frombytes: the bytes are damaged: their checksum is wrong")
        state = cls(attention, sequences=values.size // size)
        state._memory[...] = values.reshape(-1, size)
        with context() as ctx:
            for at in state._addresses:
                lib.bo_attention_state_check(ctx, attention._handle, at)
        return state

    def __reduce__(self) -> Any:
        return State.frombytes, (self._attention, self.tobytes())


@functools.lru_cache(maxsize=64)
def _cached(precision: int, items: tuple[tuple[str, Any], ...]) -> Attention:
    """An attention with these settings. `precision` is the current default."""
    return Attention(**dict(items))


@checks_names(CallSettings)
def attention(
    q: Any, k: Any, v: Any, *, kind: AttentionKind = "softmax", causal: bool | None = None,
    precision: AttentionPrecision | None = None, device: str = "cpu", **settings: Unpack[CallSettings],
) -> Array:  # fmt: skip
    """Compute attention.

    Parameters
    ----------
    q, k, v : array_like
        Queries, keys and values: (batch, heads, tokens, columns), (heads, tokens, columns) or (tokens, columns). k and v
        may have fewer heads than q (grouped queries). Any real dtype is accepted; the computation is in float32 unless
        `precision` is "float64". A view of an array in the order (batch, tokens, heads, columns) is read without a copy.
    kind : str
        A name of :func:`attention_kinds`: "softmax" (default), "favor", "dark", "rfa", "hybrid", "delta", ...
    causal : bool, optional
        Whether a query sees only the keys up to its own position (default: False, except for kinds that are always
        causal).
    precision : {"float32", "bfloat16", "float64"}, optional
        As in :class:`Attention`.
    device : str
        Where it is computed: "cpu" (default), "cuda" or "cuda:N" for a GPU, or "auto" for a GPU if there is one.
    **settings
        Settings of :class:`Attention` (features, seed, scale, window, ...) and inputs of :meth:`Attention.__call__`
        (log_gate, beta, sigma, m, ...); :class:`bochner.typing.CallSettings` lists all.

    Returns
    -------
    numpy.ndarray
        The output, shaped as q with the columns of v. Its dtype is float64 if q is float64, otherwise float32.

    Notes
    -----
    The attention object of the last settings is cached, so that features are drawn once.

    Examples
    --------
    >>> import numpy as np, bochner
    >>> q, k, v = np.random.default_rng(0).standard_normal((3, 8, 1024, 64), np.float32) / 2
    >>> exact = bochner.attention(q, k, v, causal=True)
    >>> linear = bochner.attention(q, k, v, kind="rfa", causal=True, features=256)
    >>> bool(np.linalg.norm(linear - exact) < 0.2 * np.linalg.norm(exact))
    True
    """
    inputs: dict[str, Any] = {name: value for name, value in settings.items() if name in PARAMETERS}
    options: dict[str, Any] = {name: value for name, value in settings.items() if name not in PARAMETERS}
    q, k, v = as_array(q, "q"), as_array(k, "k"), as_array(v, "v")
    if not 2 <= q.ndim <= 4 or k.ndim != q.ndim or v.ndim != q.ndim:
        raise InvalidArgumentError(
            f"attention: q, k and v need the same number of dimensions, 2 to 4; found {q.shape}, {k.shape} and {v.shape}"
        )
    heads, key_heads = (q.shape[-3], k.shape[-3]) if q.ndim > 2 else (1, 1)
    items = {"kind": kind, "causal": causal, "heads": heads, "key_heads": key_heads, "dim": q.shape[-1],
             "value_dim": v.shape[-1], "precision": precision, "device": device, **options}  # fmt: skip
    try:
        prepared = _cached(_library._precision, tuple(items.items()))
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        prepared = Attention(**items)
    return prepared(q, k, v, **inputs)
