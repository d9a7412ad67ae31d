"""Texts with labels or translations, for models of the tasks classify, match and translate."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np

from . import _bindings as c
from ._arrays import address
from ._library import Context, Handle, InvalidArgumentError, lib, renamed
from ._model_core import Core
from ._model_settings import class_names
from ._settings import read_struct
from ._tables import labels_of
from ._tokenizer import array_of

Array = np.ndarray[Any, Any]

_LABELED = (c.BO_MODEL_TASK_CLASSIFY, c.BO_MODEL_TASK_MATCH)
_SEPARATORS = re.compile("[\t\n\r\0]")


def classes_of(core: Core) -> Array:
    """The classes of a classifier: integers, numbers or strings."""
    return labels_of(class_names(core.desc))


def _column(values: Any, name: str, what: str = "text") -> list[str]:
    """Texts, which must not contain the characters that end lines and columns."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise InvalidArgumentError(f"{name}: expected a list of {what}s, found {values!r}")
    for at, text in enumerate(values):
        if not isinstance(text, str):
            raise InvalidArgumentError(f"{name}: expected a {what} at index {at}, found {text!r}")
        if _SEPARATORS.search(text):
            raise InvalidArgumentError(
                f"{name}: the {what} at index {at} has a tab, a line break or a NUL, which separate {what}s; "
                "replace it with a space"
            )
    return list(values)


def _columns(core: Core, x: Any) -> list[list[str]]:
    """The texts of each side: one, or two for models that match texts."""
    if core.desc.task != c.BO_MODEL_TASK_MATCH:
        return [_column(x, "x")]
    pairs = list(x) if hasattr(x, "__len__") and not isinstance(x, (str, bytes)) else [x]
    for at, pair in enumerate(pairs):
        if isinstance(pair, (str, bytes)) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise InvalidArgumentError(f"x: expected a pair of texts at index {at}, found {pair!r}")
    return [_column([pair[side] for pair in pairs], "x") for side in (0, 1)]


def open_texts(
    ctx: Context, core: Core, x: Any, y: Any = None, *, skip: float = 0.0, take: float = 0.0, seed: int = 0
) -> Handle:
    """Texts, with labels or translations unless `y` is None."""
    columns, alone = _columns(core, x), y is None
    labeled = core.desc.task in _LABELED
    if y is not None:
        values = [str(label) for label in y] if labeled and hasattr(y, "__len__") and not isinstance(y, str) else y
        target_texts = _column(values, "y", "label" if labeled else "text")
        columns = [target_texts, *columns] if labeled else [*columns, target_texts]
    if len({len(column) for column in columns}) != 1:
        texts, targets = (columns[-1], columns[0]) if labeled else (columns[0], columns[-1])
        raise InvalidArgumentError(f"x has {len(texts)} texts, and y has {len(targets)}")
    desc, out = c.bo_texts_desc(), ctypes.c_void_p()
    lib.bo_model_preset_texts(core.handle, alone, ctypes.byref(desc))
    memory = "".join("\t".join(row) + "\n" for row in zip(*columns)).encode("utf-8", "surrogateescape")
    desc.memory, desc.memory_bytes = memory, len(memory)
    desc.cut = labeled
    desc.empty = alone and not labeled
    desc.skip, desc.take, desc.seed = skip, take, seed
    if labeled and not core.facts.state_bytes:
        desc.longest = core.desc.context
    with renamed("standard input", "texts"):  # the library's name for lines in memory
        lib.bo_texts_open(ctx, ctypes.byref(desc), ctypes.byref(out))
    return Handle(out.value, lib.bo_texts_close, core.handle)


# ---- use ------------------------------------------------------------------------------------------------------------


def probabilities(ctx: Context, core: Core, x: Any) -> Array:
    """The probabilities of the classes of texts."""
    if not len(x):
        return np.empty((0, core.desc.classes), np.float32)
    texts = open_texts(ctx, core, x)
    out = np.empty((lib.bo_texts_describe(texts).contents.count, core.desc.classes), np.float32)
    lib.bo_model_classify(ctx, core.handle, texts, 0, len(out), address(out))
    return out


def translations(ctx: Context, core: Core, x: Any, desc: Any) -> tuple[list[str], Array]:
    """The translations of texts, and their log probabilities."""
    if not len(x):
        return [], np.empty(0)
    texts = open_texts(ctx, core, x)
    count = lib.bo_texts_describe(texts).contents.count
    ids, scores = (c.bo_ids * count)(), np.empty(count)
    tokenizer = core.require_tokenizer()
    try:
        lib.bo_model_translate(ctx, core.handle, texts, 0, count, ctypes.byref(desc), ids, address(scores))
        return [tokenizer.decode(array_of(one)) for one in ids], scores
    finally:
        for one in ids:
            lib.bo_ids_free(ctypes.byref(one))


def evaluated(ctx: Context, core: Core, x: Any, y: Any, desc: Any, tokenize: bool) -> dict[str, Any]:
    """The quality of classes or of translations."""
    texts = open_texts(ctx, core, x, y)
    if core.desc.task in _LABELED:
        labels = c.bo_classification()
        lib.bo_model_evaluate_labels(ctx, core.handle, texts, 0, ctypes.byref(labels), None)
        return read_struct(labels)
    out = c.bo_translation()
    lib.bo_model_evaluate_translation(
        ctx, core.handle, texts, 0, ctypes.byref(desc), tokenize, True, ctypes.byref(out)
    )
    return {**read_struct(out), "bleu": out.bleu.score}
