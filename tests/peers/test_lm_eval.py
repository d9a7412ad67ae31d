"""`bochner serve` as a model of lm-eval (local-completions): log-likelihoods of choices, perplexities of texts and generated replies equal those of the program, on a small task of local files."""
import json, math, os, pathlib, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serve"))
from peer import fail, directory, need

work = directory()
os.environ.update(HF_DATASETS_OFFLINE="1", HF_DATASETS_CACHE=str(work / "datasets"), HF_HOME=str(work / "home"), OPENAI_API_KEY="none")
lm_eval, tasks, _, _, _ = need("lm_eval", "lm_eval.tasks", "transformers", "aiohttp", "tenacity")
import server

CLOSE = 1e-3  # of a sum of up to 60 log probabilities, each within 1e-5

COMMON = """dataset_path: json
dataset_kwargs: {data_files: {test: %s}}
test_split: test
doc_to_text: "{{question}}"
target_delimiter: ""
"""
FILES = {
    "choice.yaml": """task: bochner_choice
output_type: multiple_choice
doc_to_choice: "{{choices}}"
doc_to_target: "{{answer}}"
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
""",
    "generate.yaml": """task: bochner_generate
output_type: generate_until
doc_to_target: "{{choices[answer]}}"
generation_kwargs: {until: ["."], max_gen_toks: 30}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
""",
    "text.yaml": """task: bochner_text
output_type: loglikelihood_rolling
doc_to_target: "{{text}}"
metric_list: [{metric: word_perplexity}, {metric: byte_perplexity}]
""",
}


def evaluate(model, names, manager, concurrent, batch):
    with server.Server(model) as each:
        arguments = {"model": model.name, "base_url": "http://127.0.0.1:%d/v1/completions" % each.port, "tokenizer": str(model),
                     "tokenizer_backend": "huggingface", "num_concurrent": concurrent, "max_retries": 1}
        return lm_eval.simple_evaluate(model="local-completions", model_args=arguments, batch_size=batch, bootstrap_iters=0,
                                       tasks=names, task_manager=manager, log_samples=True)


def main():
    model, pieces = server.words(), server.pieces()
    choices = [" " + deed for deed in server.DEEDS]
    docs = [{"question": "le " + noun, "choices": choices, "answer": k % len(choices), "text": "le %s%s." % (noun, choices[k % 3])}
            for k, noun in enumerate(server.NOUNS)]
    data = work / "docs.jsonl"
    data.write_text("".join(json.dumps(doc) + "\n" for doc in docs), encoding="utf-8")
    (work / "tasks").mkdir()
    for name, text in FILES.items():
        (work / "tasks" / name).write_text(text + COMMON % data, encoding="utf-8")
    manager = tasks.TaskManager(include_path=str(work / "tasks"), include_defaults=False)
    for concurrent, batch in ((1, 4), (4, 1)):
        check(model, docs, choices, evaluate(model, ["bochner_choice", "bochner_generate"], manager, concurrent, batch))
        check_text(pieces, docs, evaluate(pieces, ["bochner_text"], manager, concurrent, batch))


def score(model, text, ending):
    """The log probability of the ending after the text, and whether each of its tokens is the most likely one."""
    tokens, start = server.byte_tokens(text + ending), len(server.byte_tokens(text))
    rows = [server.log_softmax(row) for row in server.logits(model, tokens)]
    return (sum(rows[i - 1][tokens[i]] for i in range(start, len(tokens))),
            all(rows[i - 1][tokens[i]] == max(rows[i - 1]) for i in range(start, len(tokens))))


def check(model, docs, choices, result):
    samples = result["samples"]
    correct = 0
    for sample in samples["bochner_choice"]:
        found_pairs = [response[0] if isinstance(response[0], (list, tuple)) else response for response in sample["resps"]]
        found = [(float(value), is_greedy in (True, "True")) for value, is_greedy in found_pairs]
        expected = [score(model, sample["doc"]["question"], choice) for choice in choices]
        for (value, is_greedy), (reference, expected_greedy) in zip(found, expected):
            if abs(value - reference) > CLOSE or is_greedy != expected_greedy:
                fail("%s: %s, expected %s" % (sample["doc"]["question"], found, expected))
        correct += max(range(3), key=lambda k: expected[k][0]) == sample["doc"]["answer"]
    accuracy = result["results"]["bochner_choice"]["acc,none"]
    if abs(accuracy - correct / len(docs)) > 1e-9 or accuracy < 0.5:
        fail("accuracy %g, expected %g and at least 0.5" % (accuracy, correct / len(docs)))
    for sample in samples["bochner_generate"]:
        found = sample["resps"][0][0]
        expected = server.greedy(model, sample["doc"]["question"], 30).split(".")[0]
        if found != expected:
            fail("%s: %r, expected %r" % (sample["doc"]["question"], found, expected))


def check_text(model, docs, result):
    """Each text follows the end-of-text token, which precedes texts in training."""
    total = size = 0
    for doc in docs:
        tokens = json.loads(server.run("tokenizer", "encode", model, "--json", text="<|endoftext|>" + doc["text"]))["ids"]
        rows = [server.log_softmax(row) for row in server.logits(model, tokens)]
        total += sum(rows[i - 1][tokens[i]] for i in range(1, len(tokens)))
        size += len(doc["text"].encode())
    found, expected = result["results"]["bochner_text"]["byte_perplexity,none"], math.exp(-total / size)
    if abs(found - expected) > 1e-4 * expected:
        fail("perplexity per byte: %g, expected %g" % (found, expected))


main()
