"""bochner.typing has the names and the settings of the library, and unknown arguments are refused with a suggestion."""

import ctypes
import inspect
import subprocess
import typing

import numpy as np
import pytest

import bochner
from bochner import _attention, _bindings as c, _library, _model_settings, _training, typing as types
from bochner.features import RandomFeatures, draws, functions, kernels
from bochner.machines import KernelClassifier, KernelRegressor

from conftest import PROGRAM

LITERALS = {name: getattr(types, name) for name in types.__all__ if typing.get_origin(getattr(types, name)) is typing.Literal}
TABLES = {name: getattr(types, name) for name in types.__all__ if isinstance(getattr(types, name), typing._TypedDictMeta)}
ENUMERATIONS = {
    "Activation": c.BO_ENUM_HIDDEN_ACTIVATION, "Cross": c.BO_ENUM_CROSS, "Gate": c.BO_ENUM_GATE,
    "GramPrecision": c.BO_ENUM_GRAM_PRECISION, "Impute": c.BO_ENUM_IMPUTE, "LoraInit": c.BO_ENUM_LORA_INIT,
    "Loss": c.BO_ENUM_LOSS, "MLP": c.BO_ENUM_MLP, "Metric": c.BO_ENUM_METRIC_CHOICE, "Mixer": c.BO_ENUM_MIXER,
    "MuonFactor": c.BO_ENUM_MUON_FACTOR, "MuonIteration": c.BO_ENUM_MUON_ITERATION, "Norm": c.BO_ENUM_NORM,
    "Optimizer": c.BO_ENUM_OPTIMIZER_KIND, "Parametrization": c.BO_ENUM_PARAMETRIZATION, "Pooling": c.BO_ENUM_POOLING,
    "Positions": c.BO_ENUM_POSITIONS, "Precision": c.BO_ENUM_PRECISION, "Proposal": c.BO_ENUM_PROPOSAL,
    "Residual": c.BO_ENUM_RESIDUAL, "RopeScalingKind": c.BO_ENUM_ROPE_SCALING_KIND, "Sampling": c.BO_ENUM_SAMPLING,
    "Scaling": c.BO_ENUM_SCALING, "Schedule": c.BO_ENUM_SCHEDULE_KIND, "Solver": c.BO_ENUM_SOLVER,
    "StateSpace": c.BO_ENUM_SSM, "Storage": c.BO_ENUM_STORAGE, "TargetScale": c.BO_ENUM_TARGET_SCALE,
    "Task": c.BO_ENUM_MODEL_TASK,
}  # fmt: skip


def hints(table):
    """The settings of a TypedDict with their types, without None."""
    return {name: typing.Union[tuple(t for t in typing.get_args(hint) or [hint] if t is not type(None))]
            if typing.get_origin(hint) is not typing.Literal else hint
            for name, hint in typing.get_type_hints(table).items()}  # fmt: skip


def parameters(function):
    """The named parameters of a function."""
    found = inspect.signature(function).parameters.values()
    return [p.name for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name not in ("self", "cls")]


# ---- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ENUMERATIONS)
def test_names_match_the_library(name):
    assert sorted(typing.get_args(LITERALS[name])) == sorted(_library._names(ENUMERATIONS[name]))


def test_names_of_other_lists():
    other_types = {"Kernel": kernels(), "Function": functions(), "Draw": draws(), "Part": ["all", *_library._names(c.BO_ENUM_SPLIT)],
              "AttentionPrecision": [*_library._names(c.BO_ENUM_PRECISION), "float64"]}  # fmt: skip
    presets = []
    while name := _library.lib.bo_model_preset_name(len(presets)):
        presets.append(name.decode())
    other_types["Preset"] = presets
    for name, known in other_types.items():
        assert sorted(typing.get_args(LITERALS[name])) == sorted(known), name
    kinds = typing.get_args(types.AttentionKind)
    assert list(kinds[: len(bochner.attention_kinds())]) == bochner.attention_kinds()
    for alias in kinds[len(bochner.attention_kinds()) :]:
        assert bochner.Attention(alias, heads=1, dim=4, causal=True).kind in bochner.attention_kinds()
    normalizers = typing.get_args(types.Normalizer)
    for name in normalizers:
        bochner.Attention("linear", heads=1, dim=4, normalizer=name)
    with pytest.raises(bochner.InvalidArgumentError, match=" or ".join(map(repr, normalizers))):
        bochner.Attention("linear", heads=1, dim=4, normalizer="none at all")
    public = {name for name, value in vars(types).items() if name[0] not in "_" and isinstance(value, typing._TypedDictMeta)}
    assert public == set(TABLES)
    assert set(LITERALS) == {*ENUMERATIONS, *other_types, "AttentionKind", "Normalizer"}  # none is unchecked


# ---- settings -------------------------------------------------------------------------------------------------------


def test_settings_match_the_functions():
    model = _model_settings
    all_settings = [*model._MODEL, *model._OF_ALL, *model._BLOCK_LISTS, "labels"]
    training = {**_training._RUN, **_training._OPTIMIZER, **_training._SCHEDULE}
    members = [name for name, *_ in c.bo_attention_call._fields_]  # inputs have a gradient
    inputs = [name for name in members if f"d{name.rstrip('_')}" in members and name not in ("q", "k", "v", "out", "initial", "final")]
    for table, function, known in [
        ("ModelSettings", bochner.Model.create, all_settings),
        ("TrainingSettings", bochner.Model.train, training),
        ("FitSettings", bochner.Model.fit, {**training, **_training._TEXTS}),
        ("LinearizationSettings", bochner.Model.linearize, _training._LINEARIZE),
        ("BlockSettings", None, model.BLOCK_SETTINGS),
        ("LayerSettings", None, model._OF_ALL),
        ("LoraSettings", None, _training._LORA),
        ("RopeScaling", None, model._SCALING),
        ("AttentionInputs", None, inputs),
    ]:
        named = [] if function is None else parameters(function)
        settings = hints(TABLES[table])
        assert set(settings) == set(known) - set(named), table
        assert not set(settings) & set(named), table
    assert parameters(bochner.Model.generate) == ["prompt", *hints(types.GenerationSettings)]
    assert set(hints(types.KernelSettings)) == set(parameters(RandomFeatures)) - {"kernel", "device"}
    modules = {*hints(types.AttentionSettings), *parameters(bochner.Attention)}
    assert set(hints(types.StateSettings)) == modules - {"kind"}
    assert set(hints(types.AttentionOfKind)) == modules - {"heads", "dim", "precision", "device"}
    assert set(hints(types.ModuleSettings)) == modules - {"kind"} | {"dtype"}
    call = {*hints(types.AttentionSettings), *hints(types.AttentionInputs)} - {"key_heads", "value_dim"}
    assert set(hints(types.CallSettings)) == call


KINDS = {ctypes.c_bool: bool, ctypes.c_double: float, ctypes.c_float: float, ctypes.c_char_p: str, ctypes.c_size_t: int,
         ctypes.c_uint64: int}  # fmt: skip
NAMED = {**_model_settings._NAMED, **_training._NAMED, "gate": c.BO_ENUM_GATE, "proposal": c.BO_ENUM_PROPOSAL,
         "sampling": c.BO_ENUM_SAMPLING, "activation": c.BO_ENUM_HIDDEN_ACTIVATION, "loss": c.BO_ENUM_LOSS,
         "solver": c.BO_ENUM_SOLVER, "scaling": c.BO_ENUM_SCALING, "metric": c.BO_ENUM_METRIC_CHOICE,
         "target_scale": c.BO_ENUM_TARGET_SCALE}  # fmt: skip


def test_settings_have_the_types_of_the_members():
    optimizer, schedule = _training._OPTIMIZER, _training._SCHEDULE
    train = typing.get_type_hints(bochner.Model.train)
    checked = 0
    for table, struct, members in [
        (hints(types.FeatureSettings), c.bo_features_desc, {}),
        (hints(types.AttentionSettings), c.bo_attention_desc, {}),
        (hints(types.BlockSettings), c.bo_block, {}),
        (hints(types.ModelSettings), c.bo_model_desc, {}),
        (hints(types.RopeScaling), c.bo_rope_scaling, {}),
        (hints(types.FitSettings), c.bo_trainer_desc, _training._RUN),
        (hints(types.FitSettings), c.bo_optimizer_desc, {**optimizer, **dict.fromkeys(set(hints(types.FitSettings)) - set(optimizer))}),
        (hints(types.FitSettings), c.bo_schedule, {**schedule, **dict.fromkeys(set(hints(types.FitSettings)) - set(schedule))}),
        (hints(types.LoraSettings), c.bo_lora_desc, {}),
        (hints(types.LinearizationSettings), c.bo_linearize_desc, _training._LINEARIZE),
    ]:
        kinds = {name: kind for name, kind, *_ in struct._fields_}
        for name, hint in table.items():
            kind = kinds.get(members.get(name, name))
            if typing.get_origin(hint) is typing.Literal:
                assert kind in (ctypes.c_int, None), name
                if kind is not None and name in NAMED:
                    assert sorted(typing.get_args(hint)) == sorted(_library._names(NAMED[name])), name
                    checked += 1
            elif kind in KINDS and hint in KINDS.values():
                assert KINDS[kind] is hint, f"{struct.__name__}.{name}"
                checked += 1
    assert checked > 100
    assert train["optimizer"] == typing.Optional[types.Optimizer] and train["schedule"] == typing.Optional[types.Schedule]


@pytest.mark.parametrize("name", sorted(TABLES))
def test_types_can_be_read_at_run_time(name):
    assert typing.get_type_hints(TABLES[name]) and TABLES[name].__doc__


def test_default_kinds_match_the_command_line():
    """bochner attention has no default: it requires --kind. The default here is the kind that it lists first."""

    def option(command, name):
        text = subprocess.run([PROGRAM, command, "--help-all"], capture_output=True, text=True, check=True).stdout
        return text[text.index(f"\n  --{name} KIND") + 1 :].split("\n  --")[0]

    default = inspect.signature(bochner.Attention).parameters["kind"].default
    assert " ".join(option("attention", "kind").split()).split(": ")[1].startswith(f"{default}, ")
    for command, name, function, argument in [
        ("train", "attention", bochner.Model.create, "attention"), ("linearize", "attention", bochner.Model.linearize, "kind"),
    ]:  # fmt: skip
        default = inspect.signature(function).parameters[argument].default
        assert f"default: {default}" in " ".join(option(command, name).split()), command


# ---- unknown arguments ----------------------------------------------------------------------------------------------

Q = np.ones((2, 3), np.float32)


def model():
    return bochner.Model.create(layers=1, width=32, heads=2)


UNKNOWN = [
    (lambda **keywords: bochner.attention(Q, Q, Q, **keywords), "featurs", "features"),
    (lambda **keywords: bochner.Attention("favor", heads=1, dim=3, **keywords), "causl", "causal"),
    (lambda **keywords: bochner.Attention("favor", heads=1, dim=3)(Q, Q, Q, **keywords), "log_gates", "log_gate"),
    (lambda **keywords: bochner.Attention("favor", heads=1, dim=3).measure(Q, Q, Q, **keywords), "sigm", "sigma"),
    (lambda **keywords: bochner.State("favor", heads=1, dim=3, **keywords), "sequence", "sequences"),
    (lambda **keywords: bochner.State("favor", heads=1, dim=3).step(Q[:1], Q[:1], Q[:1], **keywords), "bet", "beta"),
    (lambda **keywords: RandomFeatures(**keywords), "gama", "gamma"),
    (lambda **keywords: bochner.features.kernel(Q, **keywords), "length_scale", "length_scales"),
    (lambda **keywords: KernelRegressor(**keywords), "regularizations", "regularization"),
    (lambda **keywords: KernelClassifier(**keywords), "los", "loss"),
    (lambda **keywords: KernelRegressor().set_params(**keywords), "kernal", None),
    (lambda **keywords: bochner.Model.create(**keywords), "layer", "layers"),
    (lambda **keywords: bochner.Model.create(layers=1, blocks=[{**keywords}]), "repeats", "repeat"),
    (lambda **keywords: bochner.Model.create(layers=1, attention={"kind": "favor", **keywords}), "drw", "draw"),
    (lambda **keywords: bochner.Model.describe({}, **keywords), "imput", "impute"),
    (lambda **keywords: model().train("text", steps=1, **keywords), "learning_rates", "learning_rate"),
    (lambda **keywords: model().train("text", steps=1, lora={"rank": 1, **keywords}), "target", "targets"),
    (lambda **keywords: model().fit("text", steps=1, **keywords), "epoch", "epochs"),
    (lambda **keywords: model().linearize("text", **keywords), "windows", "window"),
    (lambda **keywords: model().evaluate("text", **keywords), "token", "tokens"),
    (lambda **keywords: model().generate("text", **keywords), "temprature", "temperature"),
    (lambda **keywords: model().generate_text("text", **keywords), "top_kk", "top_k"),
    (lambda **keywords: model().session().generate("text", **keywords), "max_token", "max_tokens"),
    (lambda **keywords: model().session(**keywords), "capcity", "capacity"),
    (lambda **keywords: model().chat([], **keywords), "templat", "template"),
    (lambda **keywords: bochner.Tokenizer.train("text", vocab=300, **keywords), "specials", "special"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "name", "known"), UNKNOWN, ids=[name for _, name, _ in UNKNOWN])
@pytest.mark.parametrize("value", [None, 1])
def test_unknown_arguments_are_refused_with_a_suggestion(call, name, known, value):
    hint = f"did you mean '{known}'" if known else ""
    with pytest.raises((TypeError, ValueError), match=f"{name}.*{hint}"):
        call(**{name: value})


# ---- former names ---------------------------------------------------------------------------------------------------


FORMER = [
    (lambda **keywords: model().train("text" * 200, steps=1, batch=1, context=8, validation=None, **keywords), "folder", "directory"),
    (lambda **keywords: bochner.Tokenizer.train("the cat and the hat and the bat " * 20, vocab=280, **keywords), "least", "min_frequency"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "former", "name"), FORMER, ids=[former for _, former, _ in FORMER])
def test_former_names_of_arguments_work_with_a_warning(call, former, name, tmp_path):
    value = tmp_path / "run" if former == "folder" else 2
    with pytest.warns(DeprecationWarning, match=f"'{former}' was renamed to '{name}'") as warned:
        call(**{former: value})
    assert warned[0].filename == __file__
    assert former != "folder" or value.is_dir()
    with pytest.raises(TypeError, match=f"'{name}' and its former name '{former}'"):
        call(**{former: value, name: value})


def test_former_names_of_properties_work_with_a_warning():
    session = bochner.Model.create(layers=1, width=32, heads=2, context=64).session()
    with pytest.warns(DeprecationWarning, match="Session.room was renamed to Session.remaining") as warned:
        assert session.room == session.remaining  # former name
    assert warned[0].filename == __file__


def test_functions_without_a_name_refuse_its_former_name():
    with pytest.raises(TypeError, match="unknown setting 'folder'"):
        model().evaluate("text", folder="run")  # former name


# ---- public names ---------------------------------------------------------------------------------------------------


def test_modules_show_public_names_only(run):
    for name in ["bochner", "bochner.features", "bochner.machines", "bochner.model", "bochner.typing"]:
        code = f"import {name}, sys; print(*dir(sys.modules['{name}'])); print(*sys.modules['{name}'].__all__)"
        shown, public = (line.split() for line in run(code).splitlines())
        modules = {"model", "typing", "__version__"} if name == "bochner" else set()
        assert set(shown) == set(public) | modules, name
    code = "import bochner, rlcompleter; c = rlcompleter.Completer({'bochner': bochner}); print(*[c.complete('bochner.a', i) for i in range(3)])"
    assert [found.rstrip("()") for found in run(code).split()] == ["bochner.attention", "bochner.attention_kinds", "None"]
    assert run("from bochner import *; print('model' in globals(), 'Model' in globals())") == "False True\n"
