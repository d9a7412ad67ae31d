"""Pretrained models in Bochner and in transformers: logits of the models of family_models.py and of random variants of each
family agree, before and after Bochner has saved them. Also models trained by Bochner."""
import ctypes
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
try:
    import numpy
    import torch
    import transformers
    import family_models as models
except ImportError as error:
    print("skipped: %s" % error)
    sys.exit(77)

PROGRAM = os.path.abspath(os.environ.get("BOCHNER", "build/bochner"))
LIBRARY = os.path.join(os.path.dirname(PROGRAM), "libbochner.so")
TOLERANCE = 2e-5  # of the largest logit; both sides compute in float32
VARIANTS = int(os.environ.get("BOCHNER_VARIANTS", "1"))


class Bochner:
    """The functions of the library that the comparison needs."""

    def __init__(self):
        self.library = ctypes.CDLL(LIBRARY)
        self.library.bo_context_error.restype = ctypes.c_char_p
        self.context = ctypes.c_void_p()
        self.library.bo_context_create(None, ctypes.byref(self.context))

    def check(self, status, what):
        if status:
            raise SystemExit("%s: %s" % (what, self.library.bo_context_error(self.context).decode()))

    def load(self, directory):
        model = ctypes.c_void_p()
        self.check(self.library.bo_model_load(self.context, directory.encode(), ctypes.byref(model)), directory)
        return model

    def save(self, model, directory):
        self.check(self.library.bo_model_save(self.context, model, directory.encode()), directory)

    def destroy(self, model):
        self.library.bo_model_destroy(model)

    def logits(self, model, ids, vocab):
        """Logits after every token, read token by token, and after the last token, read as one block."""
        session, out = ctypes.c_void_p(), numpy.zeros((len(ids) + 1, vocab), numpy.float32)
        array = (ctypes.c_int32 * len(ids))(*ids)
        for row in range(len(ids) + 1):
            at_once = row == len(ids)
            if row == 0 or at_once:
                self.library.bo_session_destroy(session)
                session = ctypes.c_void_p()
                self.check(self.library.bo_session_create(self.context, model, None, ctypes.byref(session)), "session")
            first = 0 if at_once else row
            self.check(self.library.bo_session_feed(
                self.context, session, ctypes.byref(array, 4 * first), ctypes.c_size_t(len(ids) - first if at_once else 1),
                out[row].ctypes.data_as(ctypes.c_void_p)), "feed")
        self.library.bo_session_destroy(session)
        return out


def compare(what, found, expected):
    expected = torch.cat([expected, expected[-1:]]).numpy()
    error, size = numpy.abs(found - expected).max(), numpy.abs(expected).max()
    if not error <= TOLERANCE * size:
        raise SystemExit("%s: logits up to %g differ by %g" % (what, size, error))
    return error / size


def load_peer(directory):
    """Loads a directory with transformers, and refuses missing and unexpected tensors."""
    model, about = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32,
                                                                     output_loading_info=True)
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if about.get(key):
            raise SystemExit("%s: %s: %s" % (directory, key, about[key]))
    return model.eval()


def check(bochner, name, directory, saved):
    model, expected = models.write(name, directory)
    ids = numpy.asarray(load_ids(directory)).tolist()
    vocab = expected.shape[1]
    loaded = bochner.load(directory)
    error = compare(name, bochner.logits(loaded, ids, vocab), expected)
    bochner.save(loaded, saved)
    bochner.destroy(loaded)
    with open(os.path.join(saved, "config.json")) as file:
        kind = json.load(file)["model_type"]
    if kind != models.MODELS[name][0]:
        raise SystemExit("%s: saved as %s" % (name, kind))
    with torch.no_grad():
        again = load_peer(saved)(torch.tensor([ids])).logits[0]
    difference = (again - expected).abs().max().item() / expected.abs().max().item()
    if not difference <= TOLERANCE:
        raise SystemExit("%s: saved by Bochner, its logits differ by %g" % (name, difference))
    return error, difference


def load_ids(directory):
    from safetensors.numpy import load_file
    return load_file(os.path.join(directory, "reference.safetensors"))["input_ids"]


def vary(name, number):
    """Adds a random variant of a model to the list; returns its name."""
    kind, members, _, edit = models.MODELS[name]
    chance = random.Random("%s %d" % (name, number))
    members = dict(members)
    heads = "n_head" if kind in ("gpt2", "gptj") else "num_attention_heads"
    layers = "n_layer" if kind in ("gpt2", "gptj") else "num_hidden_layers"
    members[heads] = chance.choice([2, 4, 8])
    if "layer_types" not in members:
        members[layers] = chance.choice([1, 2, 3])
    if "num_key_value_heads" in members:
        members["num_key_value_heads"] = chance.choice([h for h in (1, 2, 4, 8) if members[heads] % h == 0])
    if kind in ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma3_text", "phi3") or "head_dim" in members:
        members["head_dim"] = chance.choice([4, 8, 20])
        if "partial_rotary_factor" in str(members):
            members["head_dim"] = 8
    elif "partial" in str(members) or kind in ("phi", "stablelm"):
        members[heads] = 4  # heads of 8 columns
    members["tie_word_embeddings"] = chance.random() < 0.5
    if kind in ("phi", "gptj"):
        members["tie_word_embeddings"] = False
    act = {"gpt2": "activation_function", "gptj": "activation_function", "gemma3_text": "hidden_activation"}.get(kind, "hidden_act")
    acts = ["silu", "gelu", "gelu_new", "gelu_pytorch_tanh"]
    if kind in ("gpt2", "gpt_neox", "phi", "starcoder2"):
        acts += ["relu", "relu2", "gelu_fast"]
    members[act] = chance.choice(acts)
    if kind in ("llama", "qwen3", "gemma", "gemma3_text", "granite", "gpt_neox", "olmo2", "smollm3"):
        members["attention_bias"] = chance.random() < 0.5 and kind != "granite"
    if kind in ("llama", "smollm3"):
        members["mlp_bias"] = chance.random() < 0.5
    if kind == "smollm3":
        members.pop("no_rope_layers", None)
        members["no_rope_layer_interval"] = chance.choice([1, 2, 3, 4])
        members.update(use_sliding_window=chance.random() < 0.5, sliding_window=chance.choice([None, 1, 3, 20]))
    if kind in ("mistral", "phi3", "starcoder2"):
        members["sliding_window"] = chance.choice([None, 1, 3, 20, 100])
    eps = {"gpt2": "layer_norm_epsilon", "gptj": "layer_norm_epsilon", "gpt_neox": "layer_norm_eps", "phi": "layer_norm_eps", "starcoder2": "norm_epsilon",
           "stablelm": "layer_norm_eps"}.get(kind, "rms_norm_eps")
    members[eps] = chance.choice([1e-6, 1e-5, 1e-2])
    if kind in ("llama", "mistral", "qwen2", "qwen3", "gemma", "granite", "olmo2", "smollm3") and "rope_parameters" not in members:
        members["rope_parameters"] = chance.choice([models.LLAMA3, dict(rope_type="default", rope_theta=100.0),
                                                    dict(rope_type="linear", rope_theta=1e6, factor=4.0)]).copy()
    made = "%s variant %d" % (name, number)
    models.MODELS[made] = (kind, members, chance.choice(["float32", "float16", "bfloat16"]), edit)
    return made


def check_trained(bochner, work):
    """Models that Bochner creates: written in the format of their family."""
    text = os.path.join(work, "text.txt")
    with open(text, "w") as file:
        file.write("".join("the %d bottles of beer on the wall, " % n for n in range(2000)))
    common = [PROGRAM, "train", "--data", text, "--attention", "softmax", "--layers", "2", "--width", "32", "--heads", "4",
              "--context", "32", "--steps", "3", "--seed", "1"]
    cases = {"qwen3": ["--mlp", "swiglu"], "llama": ["--mlp", "swiglu", "--query-norm", "no", "--key-heads", "2", "--untied"],
             "gpt2": ["--mlp", "gelu-tanh", "--norm", "layer", "--positions", "learned", "--bias", "--query-norm", "no"],
             "bochner": ["--mlp", "relu2"]}
    for kind, options in cases.items():
        directory = os.path.join(work, "trained-" + kind)
        run = subprocess.run(common + options + ["--out", directory], capture_output=True, text=True)
        if run.returncode:
            raise SystemExit("train %s: %s" % (" ".join(options), run.stderr))
        with open(os.path.join(directory, "config.json")) as file:
            config = json.load(file)
        if config["model_type"] != kind:
            raise SystemExit("trained with %s: saved as %s" % (" ".join(options), config["model_type"]))
        if kind == "bochner":
            continue
        ids = [5, 1, 8, 30, 2, 7, 7, 0, 100, 42]
        model = bochner.load(directory)
        with torch.no_grad():
            expected = load_peer(directory)(torch.tensor([ids])).logits[0]
        compare("trained %s" % kind, bochner.logits(model, ids, config["vocab_size"]), expected)
        bochner.destroy(model)


def main():
    work = tempfile.mkdtemp(prefix="bochner-families-")
    try:
        bochner, worst = Bochner(), [0, 0]
        names = list(models.MODELS)
        for name in names:
            for made in [name] + [vary(name, n) for n in range(VARIANTS)]:
                directory, saved = os.path.join(work, made), os.path.join(work, made + " saved")
                worst = [max(pair) for pair in zip(worst, check(bochner, made, directory, saved))]
                shutil.rmtree(directory)
                shutil.rmtree(saved)
        check_trained(bochner, work)
        print("%d models: logits differ by %.1g of the largest, after saving by %.1g" %
              (len(models.MODELS), *worst))
    finally:
        shutil.rmtree(work)


main()
