"""Settings of descriptors by name: keyword arguments become members of a struct of the library."""

from __future__ import annotations

import ctypes
import difflib
import functools
import inspect
import operator
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Optional, ParamSpec, TypeVar

import numpy as np

from . import _bindings as c
from ._library import InvalidArgumentError, parse

if sys.version_info >= (3, 11):
    from typing import Unpack as Unpack
elif TYPE_CHECKING:
    from typing_extensions import Unpack as Unpack
else:
    Unpack = Optional  # for typing.get_type_hints

P = ParamSpec("P")
R = TypeVar("R")

# Settings whose values are names, with the enumeration that they belong to.
_NAMED: dict[str, int] = {
    "kernel": c.BO_ENUM_KERNEL,
    "function": c.BO_ENUM_FUNCTION,
    "draw": c.BO_ENUM_DRAW,
    "sampling": c.BO_ENUM_SAMPLING,
    "gate": c.BO_ENUM_GATE,
    "proposal": c.BO_ENUM_PROPOSAL,
    "activation": c.BO_ENUM_HIDDEN_ACTIVATION,
    "loss": c.BO_ENUM_LOSS,
    "solver": c.BO_ENUM_SOLVER,
    "scaling": c.BO_ENUM_SCALING,
    "metric": c.BO_ENUM_METRIC_CHOICE,
    "precision": c.BO_ENUM_GRAM_PRECISION,
    "target_scale": c.BO_ENUM_TARGET_SCALE,
}
_NORMALIZERS = {"sum": c.BO_NORMALIZER_SUM, "none": c.BO_NORMALIZER_NONE}


# Types of members that hold a count, a seed or a number of an enumeration. ctypes would wrap numbers out of range.
_WHOLE = (ctypes.c_size_t, ctypes.c_uint64, ctypes.c_int64, ctypes.c_int, ctypes.c_uint)


def number_of(name: str, value: Any, named: Mapping[str, int] = _NAMED) -> Any:
    """The value of a member: the number of a name, or the value itself."""
    if name in named:
        return parse(name, value, named[name])
    if name == "normalizer":
        if value not in _NORMALIZERS:
            raise InvalidArgumentError(f"normalizer: {value!r} is not known; expected 'sum' or 'none'")
        return _NORMALIZERS[value]
    return value


def fill(
    struct: Any, values: Mapping[str, Any], allowed: Mapping[str, str] | None = None, named: Mapping[str, int] = _NAMED
) -> None:
    """Sets members of a struct. None means the default. `allowed` maps settings to members (default: the same names)."""
    for name, value in values.items():
        if value is None:
            continue
        member = name if allowed is None else allowed[name]
        try:
            setattr(struct, member, _fitting(struct, member, number_of(name, value, named)))
        except (TypeError, OverflowError, ctypes.ArgumentError) as error:
            raise InvalidArgumentError(f"{name}: {value!r} is not possible: {error}") from None


def _fitting(struct: Any, member: str, value: Any) -> Any:
    """The value as an integer in the range of the member, if the member is an integer."""
    kind = next(kind for name, kind, *_ in struct._fields_ if name == member)
    if kind is ctypes.c_bool:
        return truth(value)
    if kind in _WHOLE:
        if isinstance(value, bool):
            raise TypeError("expected a whole number")
        value = operator.index(value)
        if kind(value).value != value:
            raise OverflowError("expected a number that is not negative" if value < 0 else "the number is too large")
    return value


def truth(value: Any) -> bool:
    """True or False. Strings such as "no" are refused, because they are true in Python."""
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise TypeError("expected True or False")


# Settings for which 0 means the default in the library.
_POSITIVE = ("features", "gamma", "regularization", "alpha", "degree", "depth", "weight_variance", "scale", "pair_norm")


def refuse_zero(settings: Mapping[str, Any]) -> None:
    """Raises an error for a setting that must be positive and is not. None means the default."""
    for name in _POSITIVE:
        value = settings.get(name)
        if isinstance(value, (int, float, np.number)) and not value > 0:
            raise InvalidArgumentError(f"{name}: expected a number above 0, or None for the default, found {value!r}")


def flag(name: str, value: Any) -> bool:
    """An argument that is True or False."""
    try:
        return truth(value)
    except TypeError as error:
        raise InvalidArgumentError(f"{name}: {value!r} is not possible: {error}") from None


def refuse_unknown(function: str, names: Iterable[Any], allowed: Collection[str]) -> None:
    """Raises TypeError for the first name that is not allowed, with a suggestion."""
    for name in names:
        if name not in allowed:
            close = difflib.get_close_matches(str(name), allowed, 1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; known settings are {', '.join(sorted(allowed))}"
            raise TypeError(f"{function}: unknown setting {name!r}{hint}")


def names_of(settings: Any) -> tuple[str, ...]:
    """The names in a TypedDict of settings."""
    return tuple(settings.__annotations__)


# Former names of arguments, which are accepted for one version.
_FORMER_NAMES = {"folder": "directory", "least": "min_frequency"}


def warn_renamed(former: str, name: str, level: int = 3) -> None:
    """Warns the caller of a public function that a name was renamed."""
    warnings.warn(f"{former} was renamed to {name}; the former name will be removed in the next version", DeprecationWarning, level)


def _rename_former(function: str, arguments: dict[str, Any], known: Collection[str]) -> None:
    """Replaces former names of arguments by their current names, with a DeprecationWarning."""
    for former, name in _FORMER_NAMES.items():
        if former in arguments and former not in known and name in known:
            if name in arguments:
                raise TypeError(f"{function}: found {name!r} and its former name {former!r}; pass {name!r} only")
            warn_renamed(f"{function}: the argument {former!r}", repr(name), 4)
            arguments[name] = arguments.pop(former)


def checks_names(settings: Any = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: keyword arguments that are neither parameters nor in the TypedDict `settings` raise TypeError with a
    suggestion, before the function runs. Former names are accepted with a DeprecationWarning."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = inspect.signature(function).parameters.values()
        known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name not in ("self", "cls")]
        known += names_of(settings) if settings is not None else ()
        owner = function.__qualname__.split(".")[-2] if function.__name__ == "__init__" else function.__name__

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            if kwargs:
                _rename_former(owner, kwargs, known)
                refuse_unknown(owner, kwargs, known)
            return function(*args, **kwargs)

        return checked

    return decorate


def read_struct(struct: Any) -> dict[str, Any]:
    """The members of a struct that the library filled in, without reserved members and pointers."""
    values = {}
    for name, kind, *_ in struct._fields_:
        if name != "reserved" and kind is not ctypes.c_void_p:
            value = getattr(struct, name)
            values[name.rstrip("_")] = value.decode() if isinstance(value, bytes) else value
    return values
