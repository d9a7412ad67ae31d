"""Attention of the library as operators of PyTorch, with gradients by the library's backward pass.

With torch.library (PyTorch 2.4 or later), they are custom operators, which torch.compile records as single nodes; with
earlier versions, an autograd function calls them. An operator receives tensors and text only. The text is the key of an
attention object: its settings, or the number of an object whose frequencies were calibrated.
"""

from __future__ import annotations

import ast
import ctypes
import functools
import itertools
import weakref
from typing import Any, Optional

import torch
from torch import Tensor

from .. import _bindings as c
from .._attention import PARAMETERS, Attention, parameter_shape
from .._library import InvalidArgumentError, context, lib

# The inputs of an attention in the order of the operators, named as the members of the struct.
NAMES = ("q", "k", "v", *PARAMETERS)

_kept: weakref.WeakValueDictionary[str, Attention] = weakref.WeakValueDictionary()
_numbers = itertools.count(1)


def key_of_settings(settings: dict[str, Any]) -> str:
    """The key of an attention with these settings. torch.compile can evaluate it."""
    plain = {name: value.item() if hasattr(value, "item") else value for name, value in settings.items()}  # NumPy scalars
    return ", ".join([f"{name!r}: {value!r}" for name, value in sorted(plain.items()) if value is not None])


def key_of_object(attention: Attention) -> str:
    """A key of this object, valid during its lifetime."""
    key = f"#{next(_numbers)}"
    _kept[key] = attention
    return key


@functools.lru_cache(maxsize=256)
def _from_settings(key: str) -> Attention:
    try:
        settings = ast.literal_eval(f"{{{key}}}")
    except (ValueError, SyntaxError):
        raise InvalidArgumentError(f"attention: expected settings that are numbers, strings or booleans, found {key}") from None
    return Attention(**settings)


def find(key: str) -> Attention:
    return _kept[key] if key.startswith("#") else _from_settings(key)


# ---- calls of the library -------------------------------------------------------------------------------------------


def _shape(q: Any, k: Any, tokens_first: bool) -> c.bo_attention_call:
    """A call without arrays."""
    tokens = 1 if tokens_first else 2
    return c.bo_attention_call(sequences=int(q[0]), tokens=int(q[tokens]), key_tokens=int(k[tokens]), layout=int(tokens_first))


def _check(attention: Attention, inputs: dict[str, Optional[Tensor]], tokens_first: bool) -> None:
    """Refuses tensors with unsupported shapes."""
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    assert q is not None and k is not None and v is not None
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4:
        order = "tokens, heads" if tokens_first else "heads, tokens"
        raise InvalidArgumentError(
            f"attention: q, k and v need 4 dimensions, (batch, {order}, columns); found "
            f"{tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}"
        )
    batch, queries, keys = q.shape[0], q.shape[1 if tokens_first else 2], k.shape[1 if tokens_first else 2]
    if keys == 0 and queries:
        raise InvalidArgumentError(f"k has shape {tuple(k.shape)}, without a key; expected at least one")

    def of(heads: int, tokens: int, *columns: int) -> tuple[int, ...]:
        return (batch, tokens, heads, *columns) if tokens_first else (batch, heads, tokens, *columns)

    per_key = of(attention._key_heads, keys)
    shapes = {
        "q": of(attention._heads, queries, attention._dim), "k": (*per_key, attention._dim),
        "v": (*per_key, attention._value_dim), "beta": per_key,
        "log_gate": (*per_key, attention._dim) if attention._channels else per_key,
    }  # fmt: skip
    for name, tensor in inputs.items():
        if tensor is None:
            continue
        expected = shapes.get(name) or parameter_shape(attention, name)
        if tuple(tensor.shape) != expected:
            raise InvalidArgumentError(f"{name} has shape {tuple(tensor.shape)}; expected {expected}")
        if tensor.dtype != q.dtype:
            raise InvalidArgumentError(f"{name} has dtype {tensor.dtype}; expected {q.dtype}")


def _check_lengths(both: list[list[int]], q: Tensor, k: Tensor, tokens_first: bool) -> None:
    """Refuses lengths that do not match a batch of one packed sequence."""
    axis = 1 if tokens_first else 2
    for name, lengths, tensor in zip(("lengths", "key_lengths"), both, (q, k)):
        if not isinstance(lengths, list) or not all(isinstance(length, int) and length >= 0 for length in lengths):
            raise InvalidArgumentError(f"{name}: expected a vector of numbers of tokens, found {lengths}")
        if tensor.shape[0] != 1 or sum(lengths) != tensor.shape[axis] or len(lengths) != len(both[0]):
            raise InvalidArgumentError(
                f"{name}: expected {len(both[0])} numbers whose sum is the number of tokens of a batch of 1; "
                f"found {lengths} for the shape {tuple(tensor.shape)}"
            )
    if any(queries and not keys for queries, keys in zip(*both)):
        raise InvalidArgumentError("key_lengths: a sequence has no keys; expected at least one")


def _tape_bytes(attention: Attention, call: c.bo_attention_call) -> int:
    size = ctypes.c_size_t()
    with context() as library_context:
        lib.bo_attention_call_bytes(library_context, attention._handle, ctypes.byref(call), False, ctypes.byref(size), None)
    return size.value


class _Call:
    """The call of the library, and its tensors. They are contiguous, in the order of `tokens_first`, all of one dtype."""

    def __init__(
        self, key: str, tensors: list[Optional[Tensor]], tokens_first: bool, lengths: Optional[Tensor], key_lengths: Optional[Tensor]
    ) -> None:
        q, k = tensors[0], tensors[1]
        assert q is not None and k is not None
        self.attention = find(key)
        self.double = q.dtype == torch.float64
        _check(self.attention, dict(zip(NAMES, tensors)), tokens_first)
        self.tensors = [None if tensor is None else tensor.detach().contiguous() for tensor in tensors]
        if lengths is None:
            self.call = _shape(q.shape, k.shape, tokens_first)
        else:
            both = [lengths.tolist(), (lengths if key_lengths is None else key_lengths).tolist()]
            _check_lengths(both, q, k, tokens_first)
            self.lengths = [(ctypes.c_size_t * len(of))(*of) for of in both]
            at, key_at = (ctypes.addressof(of) for of in self.lengths)
            self.call = c.bo_attention_call(sequences=len(both[0]), lengths=at, key_lengths=key_at, layout=int(tokens_first))
        self.call.element = c.BO_ELEMENT_FLOAT64 if self.double else c.BO_ELEMENT_FLOAT32
        for name, tensor in zip(NAMES, self.tensors):
            if tensor is not None:
                self._set(name, tensor.data_ptr())

    def _set(self, name: str, at: int) -> None:
        member = getattr(self.call, name)
        if hasattr(member, "data"):  # one row per token; other inputs are parameters
            member.data = at
        else:
            setattr(self.call, name, at)

    def tape_bytes(self) -> int:
        return 0 if self.double or not self.call.sequences else _tape_bytes(self.attention, self.call)  # the backward pass in float64 has no tape

    def forward(self, out: Tensor, tape: Optional[Tensor]) -> None:
        if not out.numel():  # has no address
            return
        self.call.out.data = out.data_ptr()
        self.call.tape = None if tape is None else tape.data_ptr()
        with context() as library_context:
            lib.bo_attention_forward(library_context, self.attention._handle, ctypes.byref(self.call))

    def backward(self, out: Tensor, tape: Tensor, gradient: Tensor, needed: list[bool]) -> list[Tensor]:
        results = [gradient.new_empty(0) for _ in NAMES]
        for at, tensor in enumerate(self.tensors):
            if tensor is not None and needed[at]:
                results[at] = torch.zeros_like(tensor) if not gradient.numel() else torch.empty_like(tensor)
                self._set(f"d{NAMES[at].rstrip('_')}", results[at].data_ptr())
        if not gradient.numel():
            return results
        gradient, out = gradient.contiguous(), out.contiguous()
        self.call.out.data, self.call.dout.data, self.call.tape = out.data_ptr(), gradient.data_ptr(), tape.data_ptr()
        with context() as library_context:
            lib.bo_attention_backward(library_context, self.attention._handle, ctypes.byref(self.call))
        return results


def _empty_output(q: Tensor, v: Tensor) -> Tensor:
    return q.new_empty((*q.shape[:-1], v.shape[-1]))


def _forward(
    q: Tensor, k: Tensor, v: Tensor, log_gate: Optional[Tensor], sigma: Optional[Tensor], m: Optional[Tensor],
    mix: Optional[Tensor], beta: Optional[Tensor], log_decay: Optional[Tensor], lambda_: Optional[Tensor],
    m_k: Optional[Tensor], bias: Optional[Tensor], bias_k: Optional[Tensor], lengths: Optional[Tensor],
    key_lengths: Optional[Tensor], key: str, tokens_first: bool,
) -> Tensor:  # fmt: skip
    """The output of an attention, without a tape for a backward pass."""
    inputs = [q, k, v, log_gate, sigma, m, mix, beta, log_decay, lambda_, m_k, bias, bias_k]
    out = _empty_output(q, v)
    _Call(key, inputs, tokens_first, lengths, key_lengths).forward(out, None)
    return out


def _forward_tape(
    q: Tensor, k: Tensor, v: Tensor, log_gate: Optional[Tensor], sigma: Optional[Tensor], m: Optional[Tensor],
    mix: Optional[Tensor], beta: Optional[Tensor], log_decay: Optional[Tensor], lambda_: Optional[Tensor],
    m_k: Optional[Tensor], bias: Optional[Tensor], bias_k: Optional[Tensor], lengths: Optional[Tensor],
    key_lengths: Optional[Tensor], key: str, tokens_first: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The output of an attention, and the tape that its backward pass reads."""
    inputs = [q, k, v, log_gate, sigma, m, mix, beta, log_decay, lambda_, m_k, bias, bias_k]
    call = _Call(key, inputs, tokens_first, lengths, key_lengths)
    out, tape = _empty_output(q, v), torch.empty(call.tape_bytes(), dtype=torch.uint8)
    call.forward(out, tape)
    return out, tape


def _backward(
    gradient: Tensor, out: Tensor, tape: Tensor, q: Tensor, k: Tensor, v: Tensor, log_gate: Optional[Tensor],
    sigma: Optional[Tensor], m: Optional[Tensor], mix: Optional[Tensor], beta: Optional[Tensor],
    log_decay: Optional[Tensor], lambda_: Optional[Tensor], m_k: Optional[Tensor], bias: Optional[Tensor],
    bias_k: Optional[Tensor], lengths: Optional[Tensor], key_lengths: Optional[Tensor], key: str, tokens_first: bool,
    needed: list[bool],
) -> list[Tensor]:  # fmt: skip
    """The gradients of the inputs; an empty tensor for inputs without gradient."""
    inputs = [q, k, v, log_gate, sigma, m, mix, beta, log_decay, lambda_, m_k, bias, bias_k]
    return _Call(key, inputs, tokens_first, lengths, key_lengths).backward(out, tape, gradient, needed)


# ---- operators ------------------------------------------------------------------------------------------------------

_INPUTS = len(NAMES)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *tensors, ctx.key, ctx.tokens_first = inputs
    ctx.present = [tensor is not None for tensor in tensors]
    ctx.save_for_backward(*output, *(tensor for tensor in tensors if tensor is not None))


def _gradients(ctx: Any, gradient: Tensor, run: Any) -> tuple[Any, ...]:
    out, tape, *saved = ctx.saved_tensors
    rest = iter(saved)
    tensors = [next(rest) if is_present else None for is_present in ctx.present]
    needed = [bool(ctx.needs_input_grad[at]) and ctx.present[at] for at in range(_INPUTS)]
    results = run(gradient, out, tape, *tensors, ctx.key, ctx.tokens_first, needed)
    return (*(result if is_needed else None for result, is_needed in zip(results, needed)), None, None, None, None)


if hasattr(torch.library, "custom_op"):
    forward = torch.library.custom_op("bochner::attention", _forward, mutates_args=(), device_types="cpu")
    forward_tape = torch.library.custom_op("bochner::attention_tape", _forward_tape, mutates_args=(), device_types="cpu")
    backward = torch.library.custom_op("bochner::attention_backward", _backward, mutates_args=(), device_types="cpu")

    @forward.register_fake
    def _(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
        return _empty_output(q, v)

    @forward_tape.register_fake
    def _(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        """The size of the tape is not a formula of the shape: for a symbolic shape, the size is symbolic."""
        *_, lengths, key_lengths, key, tokens_first = rest
        size: Any
        if lengths is not None or any(isinstance(n, torch.SymInt) for n in (*q.shape, *k.shape)):
            size = torch.library.get_ctx().new_dynamic_size()
        elif q.dtype == torch.float64 or q.shape[0] == 0:
            size = 0
        else:
            size = _tape_bytes(find(key), _shape(q.shape, k.shape, tokens_first))
        return _empty_output(q, v), q.new_empty(size, dtype=torch.uint8)

    @backward.register_fake
    def _(gradient: Tensor, out: Tensor, tape: Tensor, *rest: Any) -> list[Tensor]:
        tensors, needed = rest[:_INPUTS], rest[-1]
        return [
            torch.empty_like(tensor, memory_format=torch.contiguous_format) if tensor is not None and is_needed else gradient.new_empty(0)
            for tensor, is_needed in zip(tensors, needed)
        ]

    forward_tape.register_autograd(lambda ctx, gradient, _: _gradients(ctx, gradient, backward), setup_context=_save)

    def _with_tape(*arguments: Any) -> Tensor:
        return forward_tape(*arguments)[0]  # type: ignore[no-any-return]

else:
    forward = _forward  # type: ignore[assignment]

    class _Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> Any:
            out, tape = _forward_tape(*arguments)
            _save(ctx, arguments, (out, tape))
            return out

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, gradient: Tensor) -> Any:
            return _gradients(ctx, gradient, _backward)

    def _with_tape(*arguments: Any) -> Tensor:
        return _Function.apply(*arguments)  # type: ignore[no-any-return]


def run(inputs: dict[str, Optional[Tensor]], key: str, tokens_first: bool, lengths: Any = None, key_lengths: Any = None) -> Tensor:
    """The output of an attention. All tensors have one dtype, float32 or float64, and the shapes of the library."""
    tensors = [inputs.get(name) for name in NAMES]
    graded = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)
    arguments = (*tensors, lengths, key_lengths, key, tokens_first)
    operator: Any = _with_tape if graded else forward
    return operator(*arguments)  # type: ignore[no-any-return]
