"""Training and linearization of language models."""

from __future__ import annotations

import contextlib
import ctypes
import math
import numbers
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from . import _bindings as c
from ._examples import Needs, open_examples, pointer_to, rows_of
from ._model_core import Core
from ._library import (
    CanceledError, Context, Handle, InvalidArgumentError, UnsupportedError, bytes_source, continues, enum_name, guarded, lib,
    long_context, path_bytes, saved_bytes, text_bytes, whole,
)  # fmt: skip
from ._model_settings import block_of, kind_desc, layer_list
from ._reports import Report
from ._settings import fill, read_struct, refuse_unknown
from ._texts import open_texts
from ._tokenizer import Array, Path, open_corpora

Callback = Callable[[Report], object]
"""Receives the reports of a run. It stops the run by returning False."""

NONE = 2**64 - 1  # for the library: no warmup, no run
_EVAL_TOKENS = 32768  # as in bochner train

_RUN = {
    "steps": "steps", "minutes": "minutes", "batch": "batch", "micro_batch": "micro_batch", "context": "window",
    "seed": "seed", "eval_every": "eval_every", "eval_tokens": "eval_tokens", "checkpoint_every": "checkpoint_every",
    "keep": "keep", "patience": "patience", "checkpointing": "checkpointing", "activations": "activations",
    "documents": "documents", "freeze": "freeze", "calibrate_every": "calibrate_every", "redraw_every": "redraw_every",
    "state_windows": "state_windows", "stateful": "stateful", "whiten": "whiten", "resume": "resume", "directory": "directory",
}  # fmt: skip
_OPTIMIZER = {
    "optimizer": "kind", "learning_rate": "rate", "other_learning_rate": "other_rate", "weight_decay": "decay",
    "momentum": "momentum", "no_nesterov": "no_nesterov", "beta1": "beta1", "beta2": "beta2", "epsilon": "epsilon",
    "muon_factor": "factor", "muon_iteration": "iteration", "muon_iterations": "iterations", "clip": "clip",
    "average": "average",
}  # fmt: skip
_SCHEDULE = {"schedule": "kind", "warmup": "warmup", "floor": "floor", "schedule_decay": "decay"}
_LORA = {"rank": "rank", "alpha": "alpha", "targets": "targets", "whole": "whole", "init": "init", "seed": "seed"}
_NAMED = {
    "optimizer": c.BO_ENUM_OPTIMIZER_KIND, "schedule": c.BO_ENUM_SCHEDULE_KIND, "activations": c.BO_ENUM_STORAGE,
    "muon_factor": c.BO_ENUM_MUON_FACTOR, "muon_iteration": c.BO_ENUM_MUON_ITERATION, "init": c.BO_ENUM_LORA_INIT,
}  # fmt: skip
_TEXTS = {"pack": "pack", "smoothing": "smoothing"}
_BATCH, _EPOCHS, _GRAPH_EPOCHS = 128, 10, 200  # examples, as in bochner train
_SMOOTHING = 0.1  # of translations, as in bochner train
_LINEARIZE = {
    "gate_bias": "gate", "calibration_tokens": "calibration_tokens", "minutes": "minutes", "steps": "finetune_steps",
    "transfer_steps": "transfer_steps", "transfer_share": "transfer_share", "batch": "batch", "context": "window",
    "transfer_learning_rate": "transfer_rate", "learning_rate": "finetune_rate", "share": "share", "sparsity": "sparsity",
    "rank": "rank", "alpha": "alpha", "targets": "targets", "eval_tokens": "eval_tokens", "merge": "merge",
    "seed": "seed", "resume": "resume",
}  # fmt: skip


# ---- reports --------------------------------------------------------------------------------------------------------


class TrainingReport(Report):
    """The progress of a run: step, loss, valid_loss, gradient_norm, learning_rate, tokens, seconds, seconds_left, ..."""

    _title = "Training"


class History(Report):
    """The result of a run, with all reports.

    The items of the last report, and `canceled`, which is true if a callback stopped the run.

    Attributes
    ----------
    reports : list of TrainingReport
        All reports.
    """

    _title = "Training"

    def __init__(self, values: dict[str, Any], reports: list[TrainingReport]) -> None:
        super().__init__(values)
        self.reports = reports

    def curve(self, name: str = "loss") -> tuple[Array, Array]:
        """Return steps and values of one quantity, such as "loss" or "valid_loss", where they are known."""
        if name.startswith(("valid", "best")):
            chosen = [report for report in self.reports if report.evaluated]
        else:
            chosen = self.reports
        points = [(report.step, report[name]) for report in chosen if not math.isnan(report[name])]
        return np.array([step for step, _ in points], np.int64), np.array([value for _, value in points], float)

    def plot(self, ax: Any = None) -> Any:
        """Draw the losses with Matplotlib, and return the axes."""
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots()[1]
        for name, label in (("loss", "training"), ("valid_loss", "validation")):
            steps, values = self.curve(name)
            if steps.size:
                ax.plot(steps, values, label=label)
        ax.set_xlabel("step")
        ax.set_ylabel("loss")
        ax.legend()
        return ax


class LinearizationReport(Report):
    """The result of a linearization.

    The items are the perplexities of `teacher` and `student` on the held-out text, the share of positions where both
    models rank the same token first (`agreement`), and the `divergence` of their distributions in nats.

    Attributes
    ----------
    heads : list of Report
        How the parameters of each head were chosen (bo_head_fit in linearize.h).
    layer_errors : numpy.ndarray
        The relative squared error of attention in each layer after the transfer; NaN for layers that keep softmax.
    reports : list of TrainingReport
        The reports of the runs, each with its `stage`: "transfer" or "finetune".
    """

    _title = "Linearization"

    def __init__(self, values: dict[str, Any], heads: list[Report], errors: Array, reports: list[TrainingReport]) -> None:
        super().__init__(values)
        self.heads = heads
        self.layer_errors = errors
        self.reports = reports


class _Progress:
    """A progress bar of tqdm, or lines on standard error without it. None: a bar if standard error is a terminal."""

    def __init__(self, enabled: bool | None, title: str) -> None:
        self._bar: Any = None
        self._lines = False
        if enabled or (enabled is None and sys.stderr is not None and sys.stderr.isatty()):
            try:
                from tqdm.auto import tqdm  # type: ignore[import-untyped,unused-ignore]
            except ImportError:
                self._lines = True
            else:
                self._bar = tqdm(desc=title, unit="step")

    def __call__(self, what: str, done: float, total: float) -> None:
        if self._bar is None or what != "training":
            return
        if done < self._bar.n:
            self._bar.reset()
        self._bar.total = int(total) or None
        self._bar.update(int(done) - self._bar.n)

    def show(self, report: Report) -> None:
        losses = {name: f"{report[name]:.4f}" for name in ("loss", "valid_loss") if not math.isnan(report[name])}
        if self._bar is not None:
            self._bar.set_postfix(losses)
        elif self._lines:
            summary = ", ".join(f"{name} {value}" for name, value in losses.items())
            print(f"step {report.step:,} of {report.steps or '?'}: {summary}", file=sys.stderr)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


@contextlib.contextmanager
def _watched(core: Core, enabled: bool | None, title: str) -> Iterator[tuple[Context, _Progress]]:
    """A context with a progress bar, for a run."""
    bar = _Progress(enabled, title)
    try:
        with long_context(bar, core.precision) as ctx:
            yield ctx, bar
    finally:
        bar.close()


# ---- training -------------------------------------------------------------------------------------------------------


def train(
    core: Core, data: Any, *, validation: Any, field: str | None, separator: str | None, lora: Any,
    callback: Callback | None, progress: bool | None, settings: dict[str, Any],
) -> History:  # fmt: skip
    _check_callback(callback)
    if core.desc.task != c.BO_MODEL_TASK_LANGUAGE:
        task = enum_name(c.BO_ENUM_MODEL_TASK, core.desc.task)
        raise UnsupportedError(f"train: expected a language model; a model of the task {task} learns with fit(x, y)")
    tokenizer = core.require_tokenizer()
    desc = _trainer_desc(settings)
    with core.gate.changing("trained"), _watched(core, progress, "training") as (ctx, bar):
        train_text, held_out = open_corpora(ctx, tokenizer, data, validation, field, separator)
        desc.train.corpus = train_text._as_parameter_
        desc.valid.corpus = held_out._as_parameter_ if held_out else None
        with _trained(ctx, core, lora, desc, train_text) as handle:
            desc.model = handle._as_parameter_
            return _run(ctx, desc, bar, callback)


class ExampleRun:
    """A run on examples or on texts, for the model of `core`."""

    def __init__(self, core: Core, settings: dict[str, Any], callback: Callback | None, progress: bool | None) -> None:
        _check_callback(callback)
        self._core, self._settings, self._callback, self._progress = core, settings, callback, progress

    def on_examples(
        self, needs: Needs, x: Any, y: Any, data: dict[str, Any], validation: Any, epochs: float | None
    ) -> History:
        """Trains on rows. `data` are edges and parts."""
        for name in _TEXTS:
            if self._settings.get(name) is not None:
                raise InvalidArgumentError(f"{name}: only models of texts take it")
        desc, core = _trainer_desc(self._settings), self._core
        other = isinstance(validation, tuple)
        if other and (len(validation) != 2 or data["split"] is not None or data["edges"] is not None):
            raise InvalidArgumentError("validation: expected a tuple (x, y), and neither split nor edges with it")
        valid = 0.0 if other or data["split"] is not None else share_of(validation)
        with core.gate.changing("trained"), _watched(core, self._progress, "training") as (ctx, bar):
            examples = open_examples(ctx, needs, x, y, **data, valid=valid, seed=desc.seed)
            held_out = examples if 0 < rows_of(examples, c.BO_SPLIT_VALID) < rows_of(examples, c.BO_SPLIT_ALL) else None
            if other:
                held_out = open_examples(ctx, needs, *validation)
            graph = needs.facts.input == c.BO_NETWORK_INPUT_GRAPH
            _set_length(desc, epochs, 1 if graph else rows_of(examples, c.BO_SPLIT_TRAIN), graph)
            desc.train.examples = pointer_to(examples)
            if held_out:
                desc.valid.examples = pointer_to(held_out)
            desc.model = core.handle._as_parameter_
            return _run(ctx, desc, bar, self._callback)

    def on_texts(self, x: Any, y: Any, validation: Any) -> History:
        """Trains on texts with labels or translations."""
        core, translates = self._core, self._core.desc.task == c.BO_MODEL_TASK_TRANSLATE
        if y is None:
            raise InvalidArgumentError("y: expected labels or translations of the texts")
        desc = _trainer_desc({"smoothing": _SMOOTHING if translates else None, **_without_none(self._settings)})
        share = 0.0 if isinstance(validation, tuple) else share_of(validation)
        with core.gate.changing("trained"), _watched(core, self._progress, "training") as (ctx, bar):
            texts = open_texts(ctx, core, x, y, take=1 - share if share else 0.0, seed=desc.seed)
            held_out = open_texts(ctx, core, x, y, skip=1 - share, seed=desc.seed) if share else None
            if isinstance(validation, tuple):
                held_out = open_texts(ctx, core, *validation, take=1.0, seed=desc.seed)
            desc.train.texts, desc.valid.texts = texts._as_parameter_, held_out._as_parameter_ if held_out else None
            desc.model = core.handle._as_parameter_
            return _run(ctx, desc, bar, self._callback)


def share_of(validation: Any) -> float:
    """The held-out fraction of the data."""
    share = 0.0 if validation is None else validation
    if isinstance(share, bool) or not isinstance(share, numbers.Real) or not 0 <= float(share) < 1:
        raise InvalidArgumentError(f"validation: expected a fraction in [0, 1) or a tuple (x, y), found {validation!r}")
    return float(share)


def _set_length(desc: Any, epochs: float | None, rows: int, graph: bool) -> None:
    """Converts epochs to steps, also if no length is set."""
    desc.batch = desc.batch or (1 if graph else _BATCH)
    if epochs is None:
        if desc.steps or desc.minutes or desc.resume:
            return
        epochs = _GRAPH_EPOCHS if graph else _EPOCHS
    elif desc.steps or desc.minutes:
        raise InvalidArgumentError("epochs: pass one of epochs, steps and minutes")
    if isinstance(epochs, bool) or not isinstance(epochs, numbers.Real) or not 0 < epochs < math.inf:
        raise InvalidArgumentError(f"epochs: expected a number above 0, found {epochs!r}")
    desc.steps = max(1, math.ceil(epochs * rows / desc.batch))


def _without_none(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that are not None, which means the default."""
    return {name: value for name, value in settings.items() if value is not None}


def _check_callback(callback: Any) -> None:
    if callback is not None and not callable(callback):
        raise InvalidArgumentError(f"callback: expected a function, found {callback!r}")


def _trainer_desc(settings: dict[str, Any]) -> Any:
    desc = c.bo_trainer_desc(eval_tokens=_EVAL_TOKENS)
    arguments = _without_none(settings)
    if arguments.get("warmup") == 0:
        arguments["warmup"] = NONE
    if "freeze" in arguments:
        arguments["freeze"] = text_bytes(arguments["freeze"], "freeze")
    if "directory" in arguments:
        arguments["directory"] = path_bytes(arguments["directory"])
    for struct, members in ((desc, {**_RUN, **_TEXTS}), (desc.optimizer, _OPTIMIZER), (desc.schedule, _SCHEDULE)):
        fill(struct, {name: value for name, value in arguments.items() if name in members}, members, _NAMED)
    return desc


@contextlib.contextmanager
def _trained(ctx: Context, core: Core, lora: Any, desc: Any, text: Handle) -> Iterator[Handle]:
    """The model to train: the model itself, or a copy with adapters, whose merged weights are copied to the model at
    the end."""
    if lora is None:
        yield core.handle
        return
    settings = dict(lora) if isinstance(lora, Mapping) else {"rank": lora}
    refuse_unknown("lora", settings, _LORA)
    adapters = c.bo_lora_desc(data=text._as_parameter_, window=desc.window, seed=desc.seed)
    fill(adapters, {name: text_bytes(value, name) if name in ("targets", "whole") else value for name, value in settings.items()},
         _LORA, _NAMED)  # fmt: skip
    if not desc.window:
        desc.window = min(core.desc.context, 1024)
    copy = copied(ctx, core.handle)
    lib.bo_model_adapt(ctx, copy, ctypes.byref(adapters))
    try:
        yield copy
    finally:
        lib.bo_model_merge(ctx, copy)
        lib.bo_model_adopt(ctx, core.handle, copy, None)


def copied(ctx: Context, handle: Handle) -> Handle:
    """A copy of a model."""
    copy = ctypes.c_void_p()
    data = saved_bytes(lambda sink: lib.bo_model_save(ctx, handle, sink))
    lib.bo_model_load(ctx, ctypes.byref(bytes_source(data)), None, ctypes.byref(copy))
    return Handle(copy.value, lib.bo_model_destroy)


def _run(ctx: Context, desc: Any, bar: _Progress, callback: Callback | None) -> History:
    reports: list[TrainingReport] = []

    def receive(_: Any, report: Any) -> bool:
        reports.append(_report(report))
        bar.show(reports[-1])
        return callback is None or continues(callback(reports[-1]))

    desc.report = c.bo_report_fn(guarded(ctx, receive, False))
    out = ctypes.c_void_p()
    lib.bo_trainer_create(ctx, ctypes.byref(desc), ctypes.byref(out))
    trainer = Handle(out.value, lib.bo_trainer_destroy)
    canceled = False
    try:
        with contextlib.suppress(CanceledError):
            canceled = True
            lib.bo_trainer_run(ctx, trainer)
            canceled = False
        last = _values(lib.bo_trainer_report(trainer).contents)
    finally:
        trainer.destroy()  # before the model: the traceback of an exception may refer to both
    return History({**last, "canceled": canceled}, reports)


def _report(report: Any, **more: Any) -> TrainingReport:
    return TrainingReport({**more, **_values(report.contents)})


def _values(report: Any) -> dict[str, Any]:
    """The members of a report, with the learning rate renamed to its setting."""
    return {"learning_rate" if name == "rate" else name: value for name, value in read_struct(report).items()}


# ---- linearization --------------------------------------------------------------------------------------------------


def linearize(
    core: Core, data: Any, *, kind: Any, features: int | None, window: int | None, gate: str | None,
    keep_softmax: str | Iterable[int] | None, validation: Any, field: str | None, separator: str | None,
    directory: Path | None, callback: Callback | None, progress: bool | None, settings: dict[str, Any],
) -> tuple[Handle, LinearizationReport]:  # fmt: skip
    _check_callback(callback)
    for name, number in (("features", features), ("window", window)):
        if number is not None:
            whole(number, name)
    tokenizer = core.require_tokenizer()
    desc = c.bo_linearize_desc(teacher=core.handle._as_parameter_, merge=True)
    arguments = {name: value for name, value in settings.items() if value is not None}
    for name in ("steps", "transfer_steps"):
        if arguments.get(name) == 0:
            arguments[name] = NONE
    if "targets" in arguments:
        arguments["targets"] = text_bytes(arguments["targets"], "targets")
    fill(desc, arguments, _LINEARIZE)
    desc.attention = _linear_attention(core, kind, features, window, gate, keep_softmax is not None)
    if keep_softmax is not None:
        desc.kept_layers = layer_list(keep_softmax)
    with contextlib.ExitStack() as stack:
        stack.enter_context(core.gate.reading())
        ctx, bar = stack.enter_context(_watched(core, progress, "linearizing"))
        train_text, held_out = open_corpora(ctx, tokenizer, data, validation, field, separator)
        desc.train = train_text._as_parameter_
        desc.valid = held_out._as_parameter_ if held_out else None
        desc.directory = path_bytes(stack.enter_context(tempfile.TemporaryDirectory()) if directory is None else directory)
        return _linearized(ctx, core, desc, held_out, bar, callback)


def _head_dims(core: Core, with_windows: bool) -> tuple[int, int]:
    """The smallest and the largest width of a head in the layers whose attention is replaced."""
    blocks = [block_of(core.desc, layer) for layer in range(core.desc.layers)]
    dims = [
        block.head_dim for block in blocks
        if block.mixer == c.BO_MIXER_ATTENTION and block.attention.kind == c.BO_ATTENTION_SOFTMAX
        and (with_windows or not block.attention.window)
    ] or [core.desc.block.head_dim]  # no layer is replaced: the library refuses it  # fmt: skip
    return min(dims), max(dims)


def _linear_attention(
    core: Core, kind: Any, features: int | None, window: int | None, gate: str | None, keeps: bool
) -> Any:
    """The attention of bochner linearize: with a window, features become the linear part of hybrid attention."""
    desc = kind_desc(kind, {"gate": gate} if gate is not None else None)
    head_dim, widest = _head_dims(core, keeps)

    def has(trait: int) -> bool:
        return bool(lib.bo_attention_has(ctypes.byref(desc), trait))

    aware = desc.kind in (c.BO_ATTENTION_DARK, c.BO_ATTENTION_HYBRID)
    past = aware or desc.kind == c.BO_ATTENTION_FAVOR or has(c.BO_TRAIT_AFFINE)
    if window and not past and not has(c.BO_TRAIT_WINDOW):
        raise InvalidArgumentError(f"window: expected a kind such as dark, favor, hedgehog or hybrid, found {kind!r}")
    if window and past:
        desc.kind = c.BO_ATTENTION_HYBRID
    if desc.kind == c.BO_ATTENTION_HYBRID:
        desc.causal = True
        if aware and head_dim != widest:
            raise InvalidArgumentError(
                f"kind: the rank of {kind!r} is the width of a head, but that of the replaced layers is {head_dim} to {widest}"
            )
        desc.rank = head_dim if aware else desc.rank
        window = window or desc.window or 64
    fill(desc, {"window": window})
    if has(c.BO_TRAIT_AFFINE):
        per_row = 1 if desc.features.kernel == c.BO_KERNEL_RECTIFIER else 2
        max_features = per_row * head_dim
        if features and (features % per_row or features > max_features):
            raise InvalidArgumentError(f"features: expected a multiple of {per_row}, at most {max_features}, found {features}")
        desc.rank = (features or 0) // per_row
    elif has(c.BO_TRAIT_DRAWS):
        default = 256 if lib.bo_features_has(ctypes.byref(desc.features), c.BO_FEATURES_TRAIT_LENGTH) else 0
        fill(desc.features, {"features": features or desc.features.features or default})
    elif features:
        raise InvalidArgumentError(f"features: {kind!r} has no features; omit the argument")
    if gate is None and desc.gate == c.BO_GATE_NONE and has(c.BO_TRAIT_FEATURES):
        if lib.bo_attention_may(desc.kind, c.BO_TRAIT_GATE_DECAY):
            desc.gate = c.BO_GATE_DECAY
    return desc


def _linearized(
    ctx: Context, core: Core, desc: Any, held_out: Handle | None, bar: _Progress, callback: Callback | None
) -> tuple[Handle, LinearizationReport]:
    reports: list[TrainingReport] = []
    heads: list[Report] = []
    errors: list[float] = []

    def receive(_: Any, stage: int, report: Any) -> bool:
        reports.append(_report(report, stage="transfer" if stage == c.BO_LINEARIZE_STAGE_TRANSFER else "finetune"))
        bar.show(reports[-1])
        return callback is None or continues(callback(reports[-1]))

    def calibrated(_: Any, fits: Any, count: int) -> None:
        heads.extend(Report(read_struct(fits[i])) for i in range(count))

    def transferred(_: Any, values: int, layers: int) -> None:
        errors.extend((ctypes.c_double * layers).from_address(values))

    desc.report = c.bo_linearize_report_fn(guarded(ctx, receive, False))
    desc.calibrated = c.bo_calibrated_fn(guarded(ctx, calibrated, None))
    desc.transferred = c.bo_transferred_fn(guarded(ctx, transferred, None))
    out = ctypes.c_void_p()
    lib.bo_linearize(ctx, ctypes.byref(desc), ctypes.byref(out))
    student = Handle(out.value, lib.bo_model_destroy, core.handle)
    if ctx.error is not None:  # of a callback that cannot cancel
        raise ctx.error
    facts = _compared(ctx, core, student, held_out, desc.window) if held_out is not None else {}
    return student, LinearizationReport(facts, heads, np.array(errors), reports)


def evaluated(ctx: Context, handle: Handle, corpus: Handle, context: int, tokens: int) -> dict[str, Any]:
    """The facts of an evaluation."""
    out = c.bo_evaluation()
    lib.bo_model_evaluate(ctx, handle, corpus, context, tokens, ctypes.byref(out))
    return read_struct(out)


def _compared(ctx: Context, core: Core, student: Handle, held_out: Handle, window: int) -> dict[str, Any]:
    """Teacher and student on the held-out text."""
    window = window or min(core.desc.context, 1024)
    both = {name: evaluated(ctx, handle, held_out, window, _EVAL_TOKENS)["perplexity"]
            for name, handle in (("teacher", core.handle), ("student", student))}  # fmt: skip
    out = c.bo_agreement()
    lib.bo_model_agreement(ctx, core.handle, student, held_out, window, 8192, ctypes.byref(out))
    return {**both, "agreement": out.greedy, "divergence": out.divergence, "tokens": out.tokens}


