"""Types of settings: the names that arguments take, and the settings that functions take as keyword arguments.

Type checkers and editors derive every setting and every name from them. None as a value means the default.

>>> from typing import get_args
>>> from bochner.typing import AttentionSettings, Storage
>>> get_args(Storage)
('float32', 'bfloat16', 'float8', 'int8', 'int4')
>>> settings: AttentionSettings = {"features": 256, "gate": "decay"}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Union

__all__ = [
    "Activation",
    "AttentionInputs",
    "AttentionKind",
    "AttentionOfKind",
    "AttentionPrecision",
    "AttentionSettings",
    "BlockSettings",
    "CallSettings",
    "Cross",
    "Draw",
    "FeatureSettings",
    "FitSettings",
    "Function",
    "Gate",
    "GenerationSettings",
    "GramPrecision",
    "Impute",
    "Kernel",
    "KernelSettings",
    "LayerSettings",
    "LinearizationSettings",
    "LoraInit",
    "LoraSettings",
    "Loss",
    "MLP",
    "Metric",
    "Mixer",
    "ModelSettings",
    "ModuleSettings",
    "MuonFactor",
    "MuonIteration",
    "Norm",
    "Normalizer",
    "Optimizer",
    "Parametrization",
    "Part",
    "Pooling",
    "Positions",
    "Precision",
    "Preset",
    "Proposal",
    "Residual",
    "RopeScaling",
    "RopeScalingKind",
    "Sampling",
    "Scaling",
    "Schedule",
    "Solver",
    "StateSettings",
    "StateSpace",
    "Storage",
    "TargetScale",
    "Task",
    "TrainingSettings",
]


def __dir__() -> list[str]:
    return sorted(__all__)


# ---- names ----------------------------------------------------------------------------------------------------------
# The lists must equal the lists of the library; tests/python/test_typing.py compares them.

AttentionKind = Literal[
    "softmax", "linear", "rfa", "rfa-gate", "favor", "favor++", "favor#", "dark", "hybrid", "poly", "taylor", "retention",
    "hedgehog", "t2r", "power", "gla", "delta", "gated-delta", "ridge", "gated-ridge",
    # aliases
    "exact", "performer", "favor+", "darkformer", "linear-transformer", "retnet", "deltanet", "gated-deltanet",
]  # fmt: skip
Precision = Literal["float32", "bfloat16"]
AttentionPrecision = Literal["float32", "bfloat16", "float64"]
Kernel = Literal[
    "rbf", "laplacian", "cauchy", "matern12", "matern32", "matern52", "rational-quadratic", "softmax", "arccos",
    "polynomial", "taylor", "elu", "linear", "cosh", "hedgehog", "rectifier", "nngp", "ntk",
]  # fmt: skip
Function = Literal[
    "sincos", "cosbias", "positive", "hyperbolic", "oprf", "relu", "elu", "polynomial", "tensorsketch", "taylor",
    "selftensor", "identity", "exponential", "hedgehog", "rectifier", "network", "landmarks",
]  # fmt: skip
Draw = Literal["iid", "orthogonal", "hadamard", "simplex", "sobol", "moment"]
Sampling = Literal["drawn", "optimal", "leverage"]
Activation = Literal["relu", "erf"]
Gate = Literal["none", "convex", "decay", "fixed"]
Proposal = Literal["none", "oprf", "sderf", "gaussian"]
Normalizer = Literal["sum", "none"]

Loss = Literal["auto", "ridge", "logistic"]
Solver = Literal["auto", "primal", "dual", "cg", "sgd", "adam"]
Scaling = Literal["auto", "columns", "common", "none", "quantile"]
Metric = Literal["auto", "none", "diagonal", "learn"]
GramPrecision = Literal["auto", "int8", "float32", "float64"]
TargetScale = Literal["auto", "linear", "log"]

Preset = Literal["tiny", "small", "base"]
Task = Literal["language", "classify", "match", "translate", "predict"]
Storage = Literal["float32", "bfloat16", "float8", "int8", "int4"]
Parametrization = Literal["standard", "mup", "unit"]
Pooling = Literal["mean", "max", "first", "last"]
Cross = Literal["attention", "summary"]
Mixer = Literal[
    "attention", "mlp", "ssm", "conv", "rnn", "gru", "lstm", "degree-2", "degree-3", "degree-4", "degree-e"
]  # fmt: skip
StateSpace = Literal["diagonal", "closed", "low-rank"]
MLP = Literal[
    "relu2", "gelu", "swiglu", "none", "gelu-tanh", "random-features", "degree-2", "degree-3", "degree-4", "degree-e",
    "quadratic", "geglu", "geglu-tanh", "relu", "silu",
]  # fmt: skip
Norm = Literal["rms", "layer"]
Residual = Literal["sequential", "parallel", "shared", "sandwich", "after"]
Positions = Literal["rope", "rope-neighbors", "learned", "sinusoidal", "none"]
RopeScalingKind = Literal["none", "linear", "llama3"]

Optimizer = Literal["muon", "adamw", "sgd", "sign", "linf"]
Schedule = Literal["cosine", "linear", "wsd", "constant"]
MuonFactor = Literal["tall", "spectral", "rms", "none"]
MuonIteration = Literal["quintic", "cubic"]
LoraInit = Literal["zero", "random", "weight", "gradient"]
Impute = Literal["auto", "none", "mean", "median"]
Part = Literal["all", "train", "valid", "test"]


# ---- attention ------------------------------------------------------------------------------------------------------


class _MapSettings(TypedDict, total=False):
    function: Function | None
    draw: Draw | None
    sampling: Sampling | None
    degree: int | None
    alpha: float | None
    candidates: int | None


class FeatureSettings(_MapSettings, total=False):
    """The feature map of an attention."""

    features: int | None
    kernel: Kernel | None
    gamma: float | None
    seed: int | None


class _KindSettings(TypedDict, total=False):
    scale: float | None
    proposal: Proposal | None
    one_draw: bool | None
    gate: Gate | None
    window: int | None
    normalizer: Normalizer | None
    clamp: float | None
    temperature: float | None
    rank: int | None
    power: float | None
    unit: bool | None
    iterations: int | None
    tolerance: float | None
    capacity: int | None
    chunk: int | None


class AttentionSettings(FeatureSettings, _KindSettings, total=False):
    """Settings of :class:`bochner.Attention`, named as the members of bo_attention_desc and bo_features_desc."""

    key_heads: int | None
    value_dim: int | None


class AttentionOfKind(AttentionSettings, total=False):
    """An attention of a model: its kind with settings."""

    kind: AttentionKind
    causal: bool | None


class StateSettings(AttentionSettings, total=False):
    """Settings of :class:`bochner.State` with the name of a kind: those of its attention."""

    heads: int
    dim: int
    causal: bool | None
    precision: AttentionPrecision | None
    device: str


class _Sizes(TypedDict):
    heads: int
    dim: int


class ModuleSettings(_Sizes, AttentionSettings, total=False):
    """Settings of the modules of one kind, such as :class:`bochner.torch.FavorAttention`."""

    causal: bool | None
    precision: AttentionPrecision | None
    device: Any
    dtype: Any


class AttentionInputs(TypedDict, total=False):
    """Inputs of an attention in addition to q, k and v, named as the members of bo_attention_call."""

    log_gate: Any
    sigma: Any
    m: Any
    mix: Any
    beta: Any
    log_decay: Any
    lambda_: Any
    m_k: Any
    bias: Any
    bias_k: Any


class CallSettings(FeatureSettings, _KindSettings, AttentionInputs, total=False):
    """Settings of :func:`bochner.attention`, which derives the sizes from q, k and v."""


# ---- features -------------------------------------------------------------------------------------------------------


class KernelSettings(_MapSettings, total=False):
    """Settings of :func:`bochner.features.kernel`: parameters of :class:`bochner.features.RandomFeatures`."""

    features: int | None
    gamma: float | Literal["scale"] | None
    length_scales: Any
    depth: int | None
    activation: Activation | None
    weight_variance: float | None
    bias_variance: float | None
    pair_norm: float | None
    leverage_lambda: float | None
    random_state: Any


# ---- models ---------------------------------------------------------------------------------------------------------


class RopeScaling(TypedDict, total=False):
    """The scaling of RoPE to longer texts: bo_rope_scaling."""

    kind: RopeScalingKind | None
    factor: float | None
    low: float | None
    high: float | None
    original: float | None


class _BlockSettings(_MapSettings, _KindSettings, total=False):
    gamma: float | None
    residual: Residual | None
    residual_scale: float | None
    norm: Norm | None
    norm_epsilon: float | None
    bias: bool | None
    mixer: Mixer | None
    key_heads: int | None
    head_dim: int | None
    cross_attention: AttentionKind | AttentionOfKind | None
    replaced: AttentionKind | AttentionOfKind | None
    query_norm: bool | None
    output_norm: bool | None
    joint_norm: bool | None
    sigma: float | None
    gate_first: float | None
    gate_last: float | None
    attention_bias: bool | None
    output_bias: bool | None
    positions: Positions | None
    rope_base: float | None
    rotated: int | None
    rope_scaling: RopeScaling | None
    ssm: StateSpace | None
    state_size: int | None
    state_rank: int | None
    kernel: int | None
    mlp: MLP | Literal["layers"] | None
    hidden: int | None
    mlp_bias: bool | None
    degree_heads: int | None
    mlp_features: FeatureSettings | None


class LayerSettings(_BlockSettings, total=False):
    """Settings that all blocks of a decoder or an encoder have: members of bo_block and of its attention."""

    heads: int | None
    attention: AttentionKind | AttentionOfKind | None
    features: int | None


class BlockSettings(LayerSettings, total=False):
    """Settings of a block in a list of blocks."""

    repeat: int | None
    layers: str | Sequence[Mapping[str, Any]] | None


class ModelSettings(_BlockSettings, total=False):
    """Settings of :meth:`bochner.Model.create` in addition to its named arguments: members of bo_model_desc and of its
    block."""

    task: Task | None
    classes: int | None
    labels: Sequence[str] | None
    pooling: Pooling | None
    forward: bool | None
    cross: Cross | None
    encoder_layers: int | None
    untied: bool | None
    head_bias: bool | None
    embedding_scale: float | None
    logit_scale: float | None
    dropout: float | None
    parametrization: Parametrization | None
    base_width: int | None
    storage: Storage | None
    blocks: Sequence[BlockSettings] | None
    encoder: LayerSettings | None
    encoder_blocks: Sequence[BlockSettings] | None


# ---- training and generation ----------------------------------------------------------------------------------------


class _RunSettings(TypedDict, total=False):
    micro_batch: int | None
    eval_every: int | None
    eval_tokens: int | None
    checkpoint_every: int | None
    keep: int | None
    patience: int | None
    checkpointing: bool | None
    activations: Storage | None
    documents: bool | None
    freeze: str | None
    calibrate_every: int | None
    redraw_every: int | None
    state_windows: int | None
    stateful: bool | None
    whiten: bool | None
    resume: bool | None
    other_learning_rate: float | None
    weight_decay: float | None
    momentum: float | None
    no_nesterov: bool | None
    beta1: float | None
    beta2: float | None
    epsilon: float | None
    muon_factor: MuonFactor | None
    muon_iteration: MuonIteration | None
    muon_iterations: int | None
    clip: float | None
    average: float | None
    warmup: int | None
    floor: float | None
    schedule_decay: float | None


class TrainingSettings(_RunSettings, total=False):
    """Settings of :meth:`bochner.Model.train` in addition to its named arguments: bo_trainer_desc and its optimizer and
    schedule."""


class FitSettings(_RunSettings, total=False):
    """Settings of :meth:`bochner.Model.fit` in addition to its named arguments."""

    context: int | None
    pack: int | None
    smoothing: float | None


class LoraSettings(TypedDict, total=False):
    """Adapters of :meth:`bochner.Model.train`: members of bo_lora_desc."""

    rank: int | None
    alpha: float | None
    targets: str | None
    whole: str | None
    init: LoraInit | None
    seed: int | None


class LinearizationSettings(TypedDict, total=False):
    """Settings of :meth:`bochner.Model.linearize` in addition to its named arguments: members of bo_linearize_desc."""

    gate_bias: float | None
    calibration_tokens: int | None
    transfer_share: float | None
    batch: int | None
    context: int | None
    transfer_learning_rate: float | None
    learning_rate: float | None
    share: float | None
    sparsity: int | None
    rank: int | None
    alpha: float | None
    targets: str | None
    eval_tokens: int | None
    merge: bool | None
    resume: bool | None


class GenerationSettings(TypedDict, total=False):
    """Settings of :meth:`bochner.Model.generate`."""

    max_tokens: int
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    greedy: bool
    repetition_penalty: float | None
    seed: int
    stop: str | Sequence[str]
    ignore_end: bool
