"""Directories that Bochner writes load in transformers: the true model type, equal logits, the tokenizer, special tokens and
the chat template; and directories that transformers writes in several shards load in Bochner."""
import json, shutil
from peer import DATA, bochner, difference, fail, directory, need

numpy, torch, transformers = need("numpy", "torch", "transformers")
TOLERANCE = 1e-4  # float32 sums of some hundred products
TEXTS = ["Hello, world!", "  two  blanks\n\tand a tab", "naïve café, 東京 🙂", "a<|endoftext|>b", "don't 12345"]
work = directory()
transformers.utils.logging.disable_progress_bar()


def transformers_logits(path, ids):
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    with torch.no_grad():
        return model, model(torch.tensor(ids, dtype=torch.long)).logits.numpy()


def bochner_logits(path, ids):
    numpy.save(work / "ids.npy", ids)
    bochner("eval", path, "--ids", work / "ids.npy", "--logits-out", work / "logits.npy", "--quiet")
    return numpy.load(work / "logits.npy")


def same_logits(what, path):
    vocab = json.loads((path / "config.json").read_text())["vocab_size"]
    ids = numpy.random.default_rng(1).integers(0, vocab, size=(2, 20)).astype("int32")
    model, expected = transformers_logits(path, ids)
    error = difference(bochner_logits(path, ids), expected)
    if not error < TOLERANCE:
        fail("%s: the logits differ by %g" % (what, error))
    print("%-45s logits differ by %.1e" % (what, error))
    return model


def same(what, found, expected):
    if found != expected:
        fail("%s: expected %r, found %r" % (what, expected, found))


def ids_of(settings):
    return settings.bos_token_id, settings.eos_token_id, settings.pad_token_id


# ---- written by Bochner ------------------------------------------------------------------------------------------------

def write_text():
    path = work / "text.txt"
    path.write_text("".join("The quick brown fox %d jumps over the lazy dog. " % i for i in range(200)))
    return path


def continued(source, out, text):
    """A directory that Bochner writes after one step of training."""
    bochner("train", "--data", text, "--init", source, "--steps", 1, "--lr", 0.01, "--batch", 1,
            "--out", out, "--quiet")
    return out


def test_kept(text):
    """A model of transformers, with files that only transformers reads."""
    source = work / "gpt2"
    shutil.copytree(DATA / "gpt2-tiny", source)
    settings = json.loads((source / "tokenizer_config.json").read_text())
    settings["chat_template"] = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    (source / "tokenizer_config.json").write_text(json.dumps(settings))
    (source / "generation_config.json").write_text(json.dumps({"eos_token_id": [0, 7], "top_k": 5}))
    out = continued(source, work / "gpt2-written", text)
    model = same_logits("gpt2-tiny, written again", out)
    same("model_type", model.config.model_type, "gpt2")
    expected = transformers.AutoConfig.from_pretrained(source)
    same("ids of config.json", ids_of(model.config), ids_of(expected))
    same("end tokens", model.generation_config.eos_token_id, [0, 7])
    for name in ("tokenizer_config.json", "generation_config.json"):
        same(name, (out / name).read_bytes(), (source / name).read_bytes())
    before, after = (transformers.AutoTokenizer.from_pretrained(path) for path in (source, out))
    for line in TEXTS:
        same("tokens of %r" % line, after.encode(line), before.encode(line))
    message = [{"role": "user", "content": "Hi"}]
    same("chat template", after.apply_chat_template(message, tokenize=False), "user: Hi\n")


def test_made(text):
    """Models of Bochner that are models of transformers, too, and their tokenizer."""
    bochner("tokenizer", "train", text, "--vocab", 300, "--out", work / "tokenizer.json", "--quiet")
    for what, options, kind in [("like Llama", ["--mlp", "swiglu"], "llama"),
                                ("like Llama, tied, grouped", ["--mlp", "swiglu", "--key-heads", 1], "llama"),
                                ("like GPT-2", ["--mlp", "gelu-tanh", "--norm", "layer", "--positions", "learned",
                                                "--bias"], "gpt2")]:
        out = work / "made"
        bochner("train", "--data", text, "--tokenizer", work / "tokenizer.json", "--attention", "softmax", "--layers", 2,
                "--width", 16, "--heads", 2, "--context", 32, "--batch", 1, "--steps", 1, "--query-norm", "no",
                "--output-norm", "no", "--out", out, "--quiet", *options)
        model = same_logits(what, out)
        same("model_type", model.config.model_type, kind)
        tokenizer = transformers.AutoTokenizer.from_pretrained(out)
        same("end token", tokenizer.eos_token_id, model.config.eos_token_id)
        same("length", tokenizer.model_max_length, 32)
        for line in TEXTS:
            found = json.loads(bochner("tokenizer", "encode", out, "--json", text=line))
            same("tokens of %r" % line, tokenizer.encode(line), found["ids"] if isinstance(found, dict) else found)
        shutil.rmtree(out)


# ---- written by transformers -------------------------------------------------------------------------------------------

def test_shards():
    for name in ("llama-tiny", "gpt2-tiny"):
        out = work / "shards"
        model = transformers.AutoModelForCausalLM.from_pretrained(DATA / name)
        model.save_pretrained(out, max_shard_size="200KB")
        if len(list(out.glob("model-*.safetensors"))) < 2 or (out / "model.safetensors").exists():
            fail("%s: expected several shards, found %s" % (name, sorted(p.name for p in out.iterdir())))
        same_logits("%s in %d shards" % (name, len(list(out.glob("model-*.safetensors")))), out)
        next(iter(sorted(out.glob("model-00002*")))).unlink()
        output = bochner("eval", out, "--ids", work / "ids.npy", status=None)
        if "missing shards (1 of" not in output or "model-00002" not in output:
            fail("a missing shard: %s" % output)
        shutil.rmtree(out)


def main():
    text = write_text()
    test_shards()
    test_kept(text)
    test_made(text)


main()
