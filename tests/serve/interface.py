"""bochner serve: every path and member of docs/reference/http.md.

Reference values come from `bochner generate`, `eval`, `chat` and `tokenizer`. Batches of the server and single sequences of these
programs round differently; the log probabilities of the tiny models, whose logits are below 30, agree to 1e-4."""
import base64, json, math, re, struct, unittest
import server
from server import Server, greedy, greedy_ids, log_softmax, logits, wait_until

CLOSE = 1e-4


def setUpModule():
    global WORDS, PIECES, CHATTY, main, piece, chatty, bare
    WORDS = server.words()
    PIECES = server.pieces()
    CHATTY = server.variant(WORDS, "chatty", chat_template__jinja=server.TEMPLATE,
                            generation_config__json='{"eos_token_id": [10, 35]}')  # the end of a line ends an answer, and so does #
    main, piece, chatty = Server(WORDS), Server(PIECES), Server(CHATTY)
    bare = Server(server.DATA / "llama-tiny")


def tearDownModule():
    for each in (main, piece, chatty, bare):
        each.stop()


def tokens_of(text):
    return list(text.encode())  # of the model of bytes


def biased_choice(row, bias, counts, presence, frequency, recent, repetition):
    """The most likely token after penalties, and its lead over the next one."""
    row = list(row)
    for token in set(recent):
        row[token] = row[token] / repetition if row[token] > 0 else row[token] * repetition
    for token, count in counts.items():
        row[token] -= presence + frequency * count
    for token, value in bias.items():
        row[token] += value
    order = sorted(range(len(row)), key=lambda token: -row[token])
    return order[0], row[order[0]] - row[order[1]]


class Refused(unittest.TestCase):
    def refused(self, status, path, body, param=None, on=None, kind="invalid_request_error"):
        answer = (on or main).post(path, body)
        self.assertEqual(answer.status, status, "%s: %r" % (json.dumps(body)[:200], answer))
        self.assertEqual(set(answer.error), {"message", "type", "param", "code"})
        self.assertEqual(answer.error["type"], kind)
        self.assertTrue(answer.error["message"])
        if param:
            self.assertEqual(answer.error["param"], param, answer)
        return answer


class Description(unittest.TestCase):
    def test_models(self):
        answer = main.get("/v1/models")
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["content-type"].split(";")[0], "application/json")
        self.assertEqual(answer.json["object"], "list")
        (model,) = answer.json["data"]
        self.assertEqual((model["id"], model["object"], model["owned_by"]), ("words", "model", "bochner"))
        self.assertGreater(model["created"], 1_600_000_000)
        facts = model["bochner"]
        info = json.loads(server.run("info", WORDS, "--json"))
        self.assertEqual(facts["attention"], info["attention"])
        for name in ("parameters", "vocab", "context", "state_bytes"):
            self.assertEqual(facts[name], info[name], name)
        self.assertEqual(facts["state_bytes_per_token"], 0)
        self.assertEqual(facts["kv_bytes_per_token"], 2 * 2 * 16 * 4)  # key and value, layers, width, bytes of a float
        self.assertIs(facts["max_tokens"], None)
        self.assertIs(facts["tokenizer"], True)
        self.assertIs(facts["chat_template"], False)
        self.assertEqual(main.get("/v1/models/words").json, model)
        self.assertIs(chatty.get("/v1/models/chatty").json["bochner"]["chat_template"], True)
        self.assertEqual(main.get("/v1/models/other").status, 404)
        self.assertEqual(main.get("/v1/models/other").error["type"], "not_found_error")

    def test_model_that_is_limited(self):
        facts = bare.get("/v1/models").json["data"][0]["bochner"]
        self.assertEqual(facts["vocab"], 1024)
        self.assertEqual(facts["context"], 256)
        self.assertIs(facts["tokenizer"], False)
        self.assertGreater(facts["max_tokens"], 0)
        self.assertEqual(facts["state_bytes_per_token"], facts["kv_bytes_per_token"])
        self.assertEqual(facts["kv_bytes_per_token"], 3 * 2 * 2 * 16 * 4)  # layers, key and value, key heads, head, float

    def test_health(self):
        answer = main.get("/health")
        self.assertEqual((answer.status, answer.json), (200, {"status": "ok"}))

    def test_page(self):
        answer = main.get("/")
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["content-type"].split(";")[0], "text/html")
        self.assertIn(b"<html", answer.body.lower())

    def test_openapi(self):
        answer = main.get("/openapi.json")
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["content-type"].split(";")[0], "application/json")
        self.assertEqual(answer.json, json.loads((server.SOURCE / "src/serve/openapi.json").read_text(encoding="utf-8")))

    def test_metrics(self):
        """The text format of Prometheus: HELP and TYPE before the samples of a name, unique samples, counters that end in _total
        and histograms with cumulative buckets."""
        main.text("le", max_tokens=3)
        answer = main.get("/metrics")
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["content-type"].split(";")[0], "text/plain")
        text = answer.body.decode("ascii")
        self.assertTrue(text.endswith("\n"))
        kinds, samples = {}, {}
        sample = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? '
                            r"([-+]?(?:[0-9.]+(?:e[-+]?[0-9]+)?|Inf|NaN))(?: [0-9]+)?", re.I)
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                name, kind = line.split()[2:]
                self.assertNotIn(name, kinds)
                self.assertIn(kind, ("counter", "gauge", "histogram", "summary", "untyped"))
                kinds[name] = kind
            elif line and not line.startswith("#"):
                match = sample.fullmatch(line)
                self.assertTrue(match, line)
                self.assertNotIn(match.group(1, 2), samples)
                samples[match.group(1, 2)] = float(match.group(3))
                base = re.sub("_(bucket|sum|count)$", "", match.group(1))
                kind = kinds.get(match.group(1)) or kinds.get(base)
                self.assertTrue(kind, "no TYPE before %s" % line)
                if kind == "counter":
                    self.assertTrue(match.group(1).endswith("_total"), line)
        for name, kind in kinds.items():
            self.assertIn("# HELP %s " % name, text)
            if kind == "histogram":
                buckets = [value for (key, _), value in samples.items() if key == name + "_bucket"]
                self.assertEqual(buckets, sorted(buckets), name)
                self.assertIn('%s_bucket{le="+Inf"}' % name, text)
        names = {name for name, _ in samples}
        for name in ("bochner_running", "bochner_queued"):
            self.assertIn(name, names)
        before = main.metrics()
        main.text("le", max_tokens=11)
        self.assertEqual(main.metrics()["bochner_generated_tokens_total"], before["bochner_generated_tokens_total"] + 11)

    def test_log(self):
        count = len(main.log)
        main.get("/health")
        wait_until(lambda: len(main.log) > count, "a line of the log for a request")
        line = json.loads(main.log[count])
        self.assertIn("/health", json.dumps(line))
        self.assertIn(200, line.values())


class Completions(Refused):
    def test_shape(self):
        body = main.complete("le chat", temperature=0)
        self.assertTrue(body["id"].startswith("cmpl-"))
        self.assertEqual((body["object"], body["model"]), ("text_completion", "words"))
        self.assertGreater(body["created"], 1_600_000_000)
        (choice,) = body["choices"]
        self.assertEqual(choice["index"], 0)
        self.assertEqual(choice["text"], greedy(WORDS, "le chat", 16))  # the default of max_tokens
        self.assertEqual(choice["finish_reason"], "length")
        self.assertIs(choice["logprobs"], None)
        self.assertNotIn("token_ids", choice)
        self.assertNotIn("state", choice)
        usage = body["usage"]
        self.assertEqual((usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]), (7, 16, 23))
        self.assertIn("cached_tokens", usage["prompt_tokens_details"])
        self.assertNotEqual(main.complete("le chat", temperature=0)["id"], body["id"])

    def test_model_and_other_members(self):
        expected = main.text("le chat", temperature=0)
        for model in ("words", "gpt-4", 7, {"a": []}, None):
            self.assertEqual(main.text("le chat", temperature=0, model=model), expected)
        self.assertEqual(main.text("le chat", temperature=0, user="me", best_of=1, nonsense={"x": [1]}), expected)
        names = ["max_tokens", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias",
                 "seed", "stop", "ignore_eos", "n", "logprobs", "echo", "stream", "stream_options", "return_token_ids", "state",
                 "return_state"]
        self.assertEqual(main.text("le chat", temperature=0, **{name: None for name in names}), expected)
        self.assertEqual(main.text(None, temperature=0), main.text("", temperature=0))
        self.assertEqual(main.json("/v1/completions", {"temperature": 0})["choices"][0]["text"], main.text("", temperature=0))

    def test_prompts(self):
        texts = ["le chat", "le 日本", "x"]
        single = [main.text(text, temperature=0) for text in texts]
        for prompts in (texts, [tokens_of(text) for text in texts]):
            body = main.complete(prompts, temperature=0)
            self.assertEqual([choice["index"] for choice in body["choices"]], [0, 1, 2])
            self.assertEqual([choice["text"] for choice in body["choices"]], single)
            self.assertEqual(body["usage"]["prompt_tokens"], sum(len(tokens_of(text)) for text in texts))
            self.assertEqual(body["usage"]["completion_tokens"], 48)
        self.assertEqual(main.text(tokens_of("le chat"), temperature=0), single[0])
        self.refused(400, "/v1/completions", {"prompt": [1, "a"]}, "prompt")
        self.refused(400, "/v1/completions", {"prompt": [256]}, "prompt")
        self.refused(400, "/v1/completions", {"prompt": [-1]}, "prompt")
        self.refused(400, "/v1/completions", {"prompt": [[1], "a"]}, "prompt")

    def test_n(self):
        body = main.complete(["le", "la"], n=3, seed=5, max_tokens=30, temperature=3)
        self.assertEqual([choice["index"] for choice in body["choices"]], list(range(6)))
        texts = [choice["text"] for choice in body["choices"]]
        self.assertGreater(len(set(texts)), 3, "the continuations are the same: %s" % texts)
        self.assertEqual(body["usage"]["completion_tokens"], 180)
        self.assertEqual([choice["text"] for choice in main.complete(["le", "la"], n=3, seed=5, max_tokens=30, temperature=3)["choices"]],
                         texts)
        same = [choice["text"] for choice in main.complete("le", n=4, temperature=0)["choices"]]
        self.assertEqual(same, [main.text("le", temperature=0)] * 4)
        self.assertEqual(len(main.complete("le", n=128, max_tokens=1)["choices"]), 128)
        for n in (0, -1, 129, 1.5, "2"):
            self.refused(400, "/v1/completions", {"prompt": "le", "n": n}, "n")

    def test_max_tokens(self):
        body = main.complete("le chat", max_tokens=0)
        self.assertEqual((body["choices"][0]["text"], body["choices"][0]["finish_reason"]), ("", "length"))
        self.assertEqual(body["usage"]["completion_tokens"], 0)
        self.assertEqual(main.complete("le", max_tokens=200, temperature=0)["usage"]["completion_tokens"], 200)
        self.refused(400, "/v1/completions", {"prompt": "le", "max_tokens": -1}, "max_tokens")

    def test_end_of_the_context(self):
        """A model with a limit: the continuation ends there, and a longer prompt is refused."""
        limit = bare.get("/v1/models").json["data"][0]["bochner"]["max_tokens"]
        body = bare.complete([5] * (limit - 10), max_tokens=50, temperature=0, ignore_eos=True)
        self.assertEqual(body["choices"][0]["finish_reason"], "length")
        self.assertIn(body["usage"]["completion_tokens"], (10, 11))  # the last token is not read by the model
        self.refused(400, "/v1/completions", {"prompt": [5] * (limit + 1)}, "prompt", on=bare)

    def test_echo(self):
        text = main.text("le 日本", max_tokens=9, temperature=0, echo=True)
        self.assertEqual(text, "le 日本" + main.text("le 日本", max_tokens=9, temperature=0))
        self.assertEqual(main.text("le 日本", max_tokens=0, echo=True), "le 日本")

    def check_logprobs(self, found, tokens, first, expected, top, pieces):
        """`tokens` from `first` on are scored; `expected` are the log probabilities after each token."""
        self.assertEqual(found["tokens"], pieces[first:])
        self.assertEqual({len(values) for values in found.values()}, {len(tokens) - first})
        for i in range(first, len(tokens)):
            value, best = found["token_logprobs"][i - first], found["top_logprobs"][i - first]
            if i == 0:
                self.assertIs(value, None)
                self.assertIn(best, (None, {}))
                continue
            row = expected[i - 1]
            self.assertLess(abs(value - row[tokens[i]]), CLOSE)
            ranked = sorted(row, reverse=True)
            self.assertIn(len(best), (top, top + 1))
            for place, score in enumerate(sorted(best.values(), reverse=True)[:top]):
                self.assertLess(abs(score - ranked[place]), CLOSE)
            if top:
                self.assertLess(abs(max(best.values()) - ranked[0]), CLOSE)

    def test_logprobs_of_the_prompt(self):
        """max_tokens 0 and echo score the prompt, as evaluations do. Every piece of ASCII is its name, other bytes have names."""
        text = "le chat mange du café — le 日本.\n"
        tokens = tokens_of(text)
        expected = [log_softmax(row) for row in logits(WORDS, tokens)]
        names = [chr(token) if token < 128 else "bytes:\\x%02x" % token for token in tokens]
        for prompt in (text, tokens):
            for top in (0, 1, 5, 20):
                body = main.complete(prompt, max_tokens=0, echo=True, logprobs=top)
                choice = body["choices"][0]
                self.assertEqual(choice["text"], text)
                self.check_logprobs(choice["logprobs"], tokens, 0, expected, top, names)
                self.assertEqual(body["usage"]["completion_tokens"], 0)
        offsets = choice["logprobs"]["text_offset"]
        self.assertEqual(offsets[0], 0)
        self.assertEqual(offsets, sorted(offsets))
        for name, offset in zip(names, offsets):
            if not name.startswith("bytes:"):
                self.assertEqual(text[offset], name)

    def test_logprobs_of_the_continuation(self):
        """They are those of the model, whatever the sampler does with the logits."""
        prompt = tokens_of("le chien")
        for settings in ({"temperature": 0}, {"temperature": 2, "seed": 1, "logit_bias": {"97": 3}, "frequency_penalty": 1},
                         {"temperature": 0.5, "top_k": 3, "seed": 2, "repetition_penalty": 1.3}):
            for echo in (False, True):
                choice = main.complete(prompt, max_tokens=20, echo=echo, logprobs=3, return_token_ids=True, **settings)["choices"][0]
                whole = prompt + choice["token_ids"][-20:]
                expected = [log_softmax(row) for row in logits(WORDS, whole)]
                names = [chr(token) if token < 128 else "bytes:\\x%02x" % token for token in whole]
                self.check_logprobs(choice["logprobs"], whole, 0 if echo else len(prompt), expected, 3, names)
                for i, best in enumerate(choice["logprobs"]["top_logprobs"]):
                    if best:
                        name, value = choice["logprobs"]["tokens"][i], choice["logprobs"]["token_logprobs"][i]
                        if value >= min(best.values()):
                            self.assertIn(name, best)
        for value in (-1, 21, 1.5, "1"):
            self.refused(400, "/v1/completions", {"prompt": "le", "logprobs": value}, "logprobs")

    def test_logit_bias(self):
        self.assertEqual(main.text("le", logit_bias={"120": 100}, max_tokens=5, temperature=0), "xxxxx")
        self.assertEqual(main.text("le", logit_bias={"120": 100}, max_tokens=5, temperature=1), "xxxxx")
        free = main.text("le chat", max_tokens=20, temperature=0)
        self.assertIn("a", free)
        self.assertNotIn("a", main.text("le chat", max_tokens=40, temperature=0, logit_bias={str(ord("a")): -100}))
        self.assertEqual(main.text("le chat", max_tokens=20, temperature=0, logit_bias={}), free)
        for bias in ({"120": 101}, {"120": -100.5}, {"x": 1}, {"256": 1}, {"-1": 1}, {"120": "1"}, {"1.5": 1}, {"": 1}, [1]):
            self.refused(400, "/v1/completions", {"prompt": "le", "logit_bias": bias})

    def test_penalties_and_bias(self):
        """With temperature 0, each token is the most likely one after the penalties, as computed from the logits of `eval`."""
        prompt = tokens_of("le chat")
        for settings in ({"presence_penalty": 2}, {"frequency_penalty": 1.5}, {"frequency_penalty": -2, "presence_penalty": 1},
                         {"repetition_penalty": 1.5}, {"logit_bias": {"97": 4, "101": -3}}, {"repetition_penalty": 0.7},
                         {"presence_penalty": 0.5, "frequency_penalty": 0.3, "repetition_penalty": 1.1, "logit_bias": {"46": 2}}):
            choice = main.complete(prompt, max_tokens=90, temperature=0, return_token_ids=True, **settings)["choices"][0]
            whole, counts = list(prompt), {}
            rows = logits(WORDS, prompt + choice["token_ids"])
            for token in choice["token_ids"]:
                best, lead = biased_choice(rows[len(whole) - 1], {int(k): v for k, v in settings.get("logit_bias", {}).items()},
                                           counts, settings.get("presence_penalty", 0), settings.get("frequency_penalty", 0),
                                           whole[-64:], settings.get("repetition_penalty", 1))
                if lead > CLOSE:
                    self.assertEqual(token, best, "%s, token %d" % (settings, len(whole) - len(prompt)))
                whole.append(token)
                counts[token] = counts.get(token, 0) + 1

    def test_sampling(self):
        free = main.text("le", max_tokens=40, temperature=0)
        for settings in ({"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1}, {"temperature": 1e-6}):
            self.assertEqual(main.text("le", max_tokens=40, **{"temperature": 1, **settings}), free, settings)
        one = main.text("le", max_tokens=40, temperature=2, seed=3)
        for settings in ({"top_k": 0}, {"top_k": -1}, {"top_p": 1}, {"min_p": 0}, {"repetition_penalty": 1}, {"presence_penalty": 0}):
            self.assertEqual(main.text("le", max_tokens=40, temperature=2, seed=3, **settings), one, settings)
        for seed in (0, 1, -1, 2**63 - 1):
            self.assertEqual(main.text("le", max_tokens=40, temperature=2, seed=seed), main.text("le", max_tokens=40, temperature=2, seed=seed))
        self.assertGreater(len({main.text("le", max_tokens=40, temperature=2, seed=seed) for seed in range(5)}), 3)
        self.assertGreater(len({main.text("le", max_tokens=40, temperature=2) for _ in range(5)}), 3, "the default seed is not random")
        for name, values in {"temperature": (-0.1, 100.5), "top_p": (0, -1, 1.01), "top_k": (-2, 1.5), "min_p": (-0.1, 1.1),
                             "repetition_penalty": (0, -1), "presence_penalty": (-2.1, 2.1), "frequency_penalty": (-2.1, 2.1)}.items():
            for value in values:
                self.refused(400, "/v1/completions", {"prompt": "le", name: value}, name)

    def test_frequencies(self):
        """Samples have the probabilities of the model: a chi-squared test of the first token over 2,000 seeds. The statistic
        exceeds degrees + 5 sqrt(2 degrees) with probability below 1e-4, and the seeds are fixed."""
        prompt = "le chat mange du café.\nle "
        row = log_softmax([value / 1.5 for value in logits(WORDS, tokens_of(prompt))[-1]])
        counts = {}
        for seed in range(16):
            for choice in main.complete(prompt, max_tokens=1, temperature=1.5, n=125, seed=seed, return_token_ids=True)["choices"]:
                counts[choice["token_ids"][0]] = counts.get(choice["token_ids"][0], 0) + 1
        statistic, rest, rest_count, cells = 0, 1, 2000, 0
        for token, value in enumerate(row):
            expected = 2000 * math.exp(value)
            if expected >= 10:
                statistic += (counts.get(token, 0) - expected) ** 2 / expected
                rest, rest_count, cells = rest - math.exp(value), rest_count - counts.get(token, 0), cells + 1
        if rest * 2000 >= 10:
            statistic, cells = statistic + (rest_count - 2000 * rest) ** 2 / (2000 * rest), cells + 1
        self.assertGreater(cells, 2)
        self.assertLess(statistic, cells - 1 + 5 * math.sqrt(2 * (cells - 1)))

    def test_stop(self):
        for each in (main, piece):  # a text of several tokens, and a part of a token
            free = each.text("le chat", max_tokens=60, temperature=0)
            for stop in (free[3:5], free[10:17], free[20], "é", ["zzz", free[12:14], free[30:34]], [free[8:10]] * 16):
                first = min(at for at in (free.find(text) for text in ([stop] if isinstance(stop, str) else stop)) if at >= 0)
                body = each.complete("le chat", max_tokens=60, temperature=0, stop=stop)
                self.assertEqual(body["choices"][0]["text"], free[:first], stop)
                self.assertEqual(body["choices"][0]["finish_reason"], "stop")
                self.assertLess(body["usage"]["completion_tokens"], 60)
                events = each.events("/v1/completions", {"prompt": "le chat", "max_tokens": 60, "temperature": 0, "stop": stop})
                self.assertEqual("".join(event["choices"][0]["text"] for event in events), free[:first], stop)
                self.assertEqual(events[-1]["choices"][0]["finish_reason"], "stop")
            for stop in ("zzz", [], ["zzz"] * 16, free[5:8] + "zz"):  # the last one begins in the text
                body = each.complete("le chat", max_tokens=60, temperature=0, stop=stop)
                self.assertEqual((body["choices"][0]["text"], body["choices"][0]["finish_reason"]), (free, "length"))
                events = each.events("/v1/completions", {"prompt": "le chat", "max_tokens": 60, "temperature": 0, "stop": stop})
                self.assertEqual("".join(event["choices"][0]["text"] for event in events), free)
        for stop in (["x"] * 17, 5, [5], [["x"]], {}):
            self.refused(400, "/v1/completions", {"prompt": "le", "stop": stop}, "stop")

    def test_end_tokens(self):
        """The end tokens of generation_config.json, here the end of a line, end a text and are not part of it."""
        body = chatty.complete("le chat", temperature=0, max_tokens=60)
        expected = greedy(WORDS, "le chat", 60)
        self.assertEqual(body["choices"][0]["text"], expected.split("\n")[0])
        self.assertEqual(body["choices"][0]["finish_reason"], "stop")
        body = chatty.complete("le chat", temperature=0, max_tokens=60, ignore_eos=True)
        self.assertEqual((body["choices"][0]["text"], body["choices"][0]["finish_reason"]), (expected, "length"))

    def test_token_ids(self):
        choice = main.complete("le", temperature=0, max_tokens=9, return_token_ids=True)["choices"][0]
        self.assertEqual(choice["token_ids"], greedy_ids(WORDS, tokens_of("le"), 9))
        self.assertEqual(choice["prompt_token_ids"], tokens_of("le"))
        events = main.events("/v1/completions", {"prompt": "le", "temperature": 0, "max_tokens": 9, "return_token_ids": True})
        self.assertEqual(events[0]["choices"][0]["prompt_token_ids"], tokens_of("le"))
        self.assertEqual(sum((event["choices"][0].get("token_ids") or [] for event in events), []), choice["token_ids"])
        self.assertFalse(any("prompt_token_ids" in event["choices"][0] for event in events[1:]))

    def test_model_without_tokenizer(self):
        """Reference: tokens that transformers generates for this model."""
        stored = server.DATA / "llama-tiny" / "reference.safetensors"
        data = stored.read_bytes()
        (length,) = struct.unpack_from("<Q", data)
        entries = json.loads(data[8:8 + length])
        ids, expected = ([*struct.unpack("<%di" % entries[name]["shape"][0], data[8 + length + entries[name]["data_offsets"][0]:
                                         8 + length + entries[name]["data_offsets"][1]])] for name in ("input_ids", "greedy"))
        body = bare.complete(ids, temperature=0, max_tokens=len(expected), return_token_ids=True, ignore_eos=True)
        self.assertEqual(body["choices"][0]["token_ids"], expected)
        self.refused(400, "/v1/completions", {"prompt": "a text"}, "prompt", on=bare)


class Streams(Refused):
    def test_events(self):
        body = {"prompt": "le 日本", "max_tokens": 60, "temperature": 0}
        for each, path in ((main, "/v1/completions"), (piece, "/v1/completions")):
            whole = each.json(path, body)
            events = each.events(path, body)
            self.assertEqual({event["id"] for event in events}, {events[0]["id"]})
            self.assertTrue(events[0]["id"].startswith("cmpl-"))
            self.assertEqual({event["created"] for event in events}, {events[0]["created"]})
            self.assertEqual({event["object"] for event in events}, {"text_completion"})
            self.assertEqual({event["model"] for event in events}, {whole["model"]})
            self.assertTrue(all(len(event["choices"]) == 1 for event in events))
            self.assertFalse(any(event.get("usage") for event in events))
            self.assertEqual("".join(event["choices"][0]["text"] for event in events), whole["choices"][0]["text"])
            self.assertGreater(len(events), 10, "the text arrives in few parts")
            self.assertEqual([event["choices"][0]["finish_reason"] for event in events], [None] * (len(events) - 1) + ["length"])

    def test_characters_are_not_divided(self):
        """The model of bytes emits characters of two and three bytes. No event has a replacement character, and even random
        bytes arrive as the text of the whole answer."""
        text = "".join(event["choices"][0]["text"] for event in
                       main.events("/v1/completions", {"prompt": "le élève", "max_tokens": 300, "temperature": 0}))
        self.assertTrue(set("éàï本—") & set(text), text)
        for event in main.events("/v1/completions", {"prompt": "le", "max_tokens": 400, "temperature": 0}):
            self.assertNotIn("�", event["choices"][0]["text"])
        for seed in range(5):
            body = {"prompt": "le", "max_tokens": 60, "temperature": 20, "seed": seed}
            self.assertEqual("".join(event["choices"][0]["text"] for event in main.events("/v1/completions", body)),
                             main.complete(**body)["choices"][0]["text"])

    def test_usage(self):
        body = {"prompt": "le", "max_tokens": 5, "stream_options": {"include_usage": True}}
        events = main.events("/v1/completions", body)
        self.assertEqual(events[-1]["choices"], [])
        usage = events[-1]["usage"]
        self.assertEqual((usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]), (2, 5, 7))
        self.assertIn("cached_tokens", usage["prompt_tokens_details"])
        self.assertTrue(all(event["choices"] and not event.get("usage") for event in events[:-1]))
        body["stream_options"] = {"include_usage": False}
        self.assertTrue(all(event["choices"] for event in main.events("/v1/completions", body)))

    def test_several_choices(self):
        body = {"prompt": ["le", "la"], "n": 2, "max_tokens": 30, "temperature": 1.5, "seed": 9}
        whole = main.json("/v1/completions", body)["choices"]
        events = main.events("/v1/completions", {**body, "logprobs": 1, "return_token_ids": True})
        for choice in whole:
            mine = [event["choices"][0] for event in events if event["choices"][0]["index"] == choice["index"]]
            self.assertEqual("".join(part["text"] for part in mine), choice["text"])
            self.assertEqual([part["finish_reason"] for part in mine], [None] * (len(mine) - 1) + ["length"])
            self.assertEqual(sum(len(part["token_ids"]) for part in mine if part.get("token_ids")), 30)

    def test_logprobs(self):
        body = {"prompt": "le 日本", "max_tokens": 40, "temperature": 0, "logprobs": 2}
        for echo in (False, True):
            body["echo"] = echo
            whole = main.json("/v1/completions", body)["choices"][0]
            events = [event["choices"][0] for event in main.events("/v1/completions", body)]
            self.assertEqual("".join(event["text"] for event in events), whole["text"])
            for name in ("tokens", "text_offset", "token_logprobs"):
                parts = sum((event["logprobs"][name] for event in events if event["logprobs"]), [])
                if name == "token_logprobs":
                    for found, expected in zip(parts, whole["logprobs"][name]):
                        self.assertTrue(found is expected is None or abs(found - expected) < CLOSE)
                else:
                    self.assertEqual(parts, whole["logprobs"][name])

    def test_errors_before_the_first_event(self):
        self.refused(400, "/v1/completions", {"prompt": "le", "stream": True, "n": 0}, "n")
        self.refused(404, "/v1/completions", {"prompt": "le", "stream": True, "state": "none"}, kind="not_found_error")


class Chat(Refused):
    def test_shape(self):
        body = chatty.chat("le chat", temperature=0, max_tokens=40)
        self.assertTrue(body["id"].startswith("chatcmpl-"))
        self.assertEqual((body["object"], body["model"]), ("chat.completion", "chatty"))
        (choice,) = body["choices"]
        self.assertEqual(set(choice["message"]), {"role", "content"})
        self.assertEqual(choice["message"]["role"], "assistant")
        self.assertIs(choice["logprobs"], None)
        self.assertIn(choice["finish_reason"], ("stop", "length"))
        self.assertEqual(body["usage"]["prompt_tokens"], len("<user>le chat\n<assistant>"))

    def test_answers_are_those_of_chat(self):
        """Over several turns, also with the content in parts and with the template's variables."""
        questions = ["le chat", "le 日本 ?", "la"]
        lines = server.run("chat", CHATTY, "--greedy", "--tokens", 30, "--json", "--quiet",
                           text="\n".join(questions) + "\n").splitlines()
        messages, parts = [], []
        for question, line in zip(questions, lines):
            messages.append({"role": "user", "content": question})
            parts.append({"role": "user", "content": [{"type": "text", "text": question[:2]}, {"type": "text", "text": question[2:]}]})
            expected = json.loads(line)["content"]
            for name in ("max_tokens", "max_completion_tokens"):
                answer = chatty.chat(messages, temperature=0, **{name: 30})["choices"][0]["message"]["content"]
                self.assertEqual(answer, expected)
            self.assertEqual(chatty.chat(parts, temperature=0, max_tokens=30)["choices"][0]["message"]["content"], expected)
            messages.append({"role": "assistant", "content": expected})
            parts.append(messages[-1])

    def test_max_completion_tokens(self):
        body = chatty.chat("le", max_completion_tokens=3, max_tokens=7, ignore_eos=True)
        self.assertEqual(body["usage"]["completion_tokens"], 3)
        self.assertEqual(chatty.chat("le", max_tokens=7, ignore_eos=True)["usage"]["completion_tokens"], 7)
        self.assertEqual(chatty.chat("le", ignore_eos=True)["usage"]["completion_tokens"], 1024)
        self.refused(400, "/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_completion_tokens": -1},
                     "max_completion_tokens")

    def test_plain_template(self):
        """A model without a template reads lines `role: content`, and its answer ends before a line that starts with user:."""
        messages = [{"role": "system", "content": "sois bref"}, {"role": "user", "content": "le chat ?"}]
        rendered = "".join(main.json("/v1/tokenize", {"messages": messages})["pieces"])
        self.assertIn("system: sois bref\nuser: le chat ?\nassistant:", rendered)
        body = main.chat(messages, max_tokens=20, temperature=0)
        self.assertEqual(body["choices"][0]["message"]["content"].strip(), greedy(WORDS, rendered, 20).strip())
        self.assertEqual(body["usage"]["prompt_tokens"], len(rendered))
        lines = server.FOLDER / "dialogue.txt"
        lines.write_text("".join("user: le %s ?\nassistant: il %s.\n" % (noun, deed) for _ in range(150) for noun in server.NOUNS
                                 for deed in server.DEEDS[:1]), encoding="utf-8")
        with Server(server.train("dialogue", "--features", 16, data=lines)) as each:
            for extra in ({}, {"stop": ["zzz"]}):
                answer = each.chat("le chat ?", max_tokens=200, temperature=0, **extra)["choices"][0]
                self.assertEqual((answer["message"]["content"].strip(), answer["finish_reason"]), ("il dort à midi.", "stop"))

    def test_logprobs(self):
        body = chatty.chat("le chat", temperature=0, max_tokens=12, logprobs=True, top_logprobs=3, ignore_eos=True,
                           return_token_ids=True)
        choice = body["choices"][0]
        prompt = tokens_of("<user>le chat\n<assistant>")
        whole = prompt + choice["token_ids"]
        rows = [log_softmax(row) for row in logits(WORDS, whole)]
        content = choice["logprobs"]["content"]
        self.assertEqual(len(content), 12)
        for i, entry in enumerate(content):
            token, row = choice["token_ids"][i], rows[len(prompt) + i - 1]
            self.assertLess(abs(entry["logprob"] - row[token]), CLOSE)
            self.assertEqual(entry["bytes"], [token])
            self.assertEqual(entry["token"], chr(token) if token < 128 else "bytes:\\x%02x" % token)
            self.assertEqual(len(entry["top_logprobs"]), 3)
            best = sorted(row, reverse=True)[:3]
            for found, expected in zip(entry["top_logprobs"], best):
                self.assertLess(abs(found["logprob"] - expected), CLOSE)
                self.assertLess(abs(row[found["bytes"][0]] - expected), CLOSE)
        content = chatty.chat("le", max_tokens=2, logprobs=True)["choices"][0]["logprobs"]["content"]
        self.assertTrue(all(entry["top_logprobs"] == [] for entry in content))
        base = {"messages": [{"role": "user", "content": "a"}]}
        self.refused(400, "/v1/chat/completions", {**base, "top_logprobs": 2}, "top_logprobs")
        self.refused(400, "/v1/chat/completions", {**base, "logprobs": True, "top_logprobs": 21}, "top_logprobs")
        self.refused(400, "/v1/chat/completions", {**base, "logprobs": 3}, "logprobs")

    def test_stream(self):
        body = {"messages": [{"role": "user", "content": "le chat"}], "temperature": 0, "max_tokens": 40, "ignore_eos": True,
                "stream_options": {"include_usage": True}, "logprobs": True, "top_logprobs": 1, "n": 2}
        whole = chatty.json("/v1/chat/completions", body)
        events = chatty.events("/v1/chat/completions", body)
        self.assertEqual({event["object"] for event in events}, {"chat.completion.chunk"})
        self.assertEqual(len({(event["id"], event["created"], event["model"]) for event in events}), 1)
        self.assertTrue(events[0]["id"].startswith("chatcmpl-"))
        self.assertEqual(events[-1]["choices"], [])
        self.assertEqual(events[-1]["usage"]["completion_tokens"], 80)
        for choice in whole["choices"]:
            mine = [event["choices"][0] for event in events[:-1] if event["choices"][0]["index"] == choice["index"]]
            self.assertEqual(mine[0]["delta"]["role"], "assistant")
            self.assertFalse(any("role" in part["delta"] for part in mine[1:]))
            self.assertEqual("".join(part["delta"].get("content") or "" for part in mine), choice["message"]["content"])
            self.assertEqual([part["finish_reason"] for part in mine], [None] * (len(mine) - 1) + ["length"])
            scored = sum((part["logprobs"]["content"] for part in mine if part.get("logprobs")), [])
            self.assertEqual([entry["token"] for entry in scored], [entry["token"] for entry in choice["logprobs"]["content"]])

    def test_variables_of_the_template(self):
        model = server.variant(WORDS, "variables", chat_template__jinja="{{ name }}:{{ messages[0].content }}")
        with Server(model) as each:
            body = {"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": {"name": "le chat"}}
            self.assertEqual("".join(each.json("/v1/tokenize", body)["pieces"]), "le chat:x")
            self.assertEqual(each.json("/v1/chat/completions", {**body, "max_tokens": 1})["usage"]["prompt_tokens"], 9)
            self.refused(400, "/v1/chat/completions", {**body, "chat_template_kwargs": [1]}, "chat_template_kwargs", on=each)

    def test_refused(self):
        for messages in (None, "hello", {}, [], ["hello"], [{"role": "user"}], [{"content": "a"}], [{"role": 1, "content": "a"}],
                         [{"role": "user", "content": 1}], [{"role": "user", "content": [{"type": "image_url"}]}],
                         [{"role": "user", "content": ["a"]}]):
            self.refused(400, "/v1/chat/completions", {"messages": messages}, on=chatty)
        self.refused(400, "/v1/chat/completions", {}, "messages", on=chatty)
        self.refused(400, "/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}, on=bare)


class Embeddings(Refused):
    def test_shape_and_encodings(self):
        texts = ["le chat", "le 日本 dort à midi.", "x"]
        body = main.json("/v1/embeddings", {"input": texts, "model": "any"})
        self.assertEqual((body["object"], body["model"]), ("list", "words"))
        self.assertEqual([entry["index"] for entry in body["data"]], [0, 1, 2])
        self.assertEqual({entry["object"] for entry in body["data"]}, {"embedding"})
        count = sum(len(tokens_of(text)) for text in texts)
        self.assertEqual(body["usage"], {"prompt_tokens": count, "total_tokens": count})
        vectors = [entry["embedding"] for entry in body["data"]]
        self.assertEqual({len(vector) for vector in vectors}, {16})
        coded = main.json("/v1/embeddings", {"input": texts, "encoding_format": "base64", "dimensions": 16})["data"]
        for vector, entry in zip(vectors, coded):
            found = struct.unpack("<16f", base64.b64decode(entry["embedding"], validate=True))
            self.assertEqual(found, struct.unpack("<16f", struct.pack("<16f", *vector)))
        for text, vector in zip(texts, vectors):
            for single in (text, [text], tokens_of(text), [tokens_of(text)]):
                alone = main.json("/v1/embeddings", {"input": single})["data"][0]["embedding"]
                self.assertLess(max(abs(a - b) for a, b in zip(alone, vector)), CLOSE)
        self.assertEqual(len(main.json("/v1/embeddings", {"input": ["a"] * 2048})["data"]), 2048)

    def check_means(self, each, folder, inputs, head):
        """The logits are the product of the output matrix W and the last hidden state h, so W mean(h) is their mean. The sum of
        `width` products, each rounded to float32, and logits below 30 give an error far below 1e-3."""
        shape, matrix = server.tensors(folder / "model.safetensors")[head]
        vocab, width = shape
        for tokens in inputs:
            vector = each.json("/v1/embeddings", {"input": tokens})["data"][0]["embedding"]
            self.assertEqual(len(vector), width)
            rows = logits(folder, tokens)
            for token in range(0, vocab, 7):
                found = sum(matrix[token * width + i] * vector[i] for i in range(width))
                self.assertLess(abs(found - sum(row[token] for row in rows) / len(rows)), 1e-3)

    def test_mean_of_the_last_hidden_state(self):
        name = next(name for name, (shape, _) in server.tensors(WORDS / "model.safetensors").items() if shape == [256, 16])
        self.check_means(main, WORDS, [tokens_of(text) for text in ("le chat dort", "x", "日本 " * 40)], name)
        self.check_means(bare, server.DATA / "llama-tiny", [[5, 900, 3, 77], [1]], "lm_head.weight")

    def test_refused(self):
        for value in (None, "", [], [""], ["a", ""], [[]], [1, "a"], [256], [[1], [-1]], {}, 5, ["a"] * 2049, [[1]] * 2049):
            self.refused(400, "/v1/embeddings", {"input": value}, "input")
        self.refused(400, "/v1/embeddings", {}, "input")
        self.refused(400, "/v1/embeddings", {"input": "a", "encoding_format": "int8"}, "encoding_format")
        for value in (15, 17, 0, -1, "16", 16.5):
            self.refused(400, "/v1/embeddings", {"input": "a", "dimensions": value}, "dimensions")


class Tokens(Refused):
    def test_round_trip(self):
        texts = ["", "le chat", "élève 日本 — naïveté", " \n\t ", "a" * 3000, "😀 e\u0301", "<|endoftext|>", "\u0001\u007f\u2028"]
        for each, folder in ((main, WORDS), (piece, PIECES)):
            for text in texts:
                body = each.json("/v1/tokenize", {"prompt": text})
                self.assertEqual(body["count"], len(body["tokens"]))
                self.assertEqual(len(body["pieces"]), body["count"])
                expected = json.loads(server.run("tokenizer", "encode", folder, "--json", text=text))["ids"]
                self.assertEqual(body["tokens"], expected, text)
                self.assertEqual(each.json("/v1/detokenize", {"tokens": body["tokens"]}), {"prompt": text})
        self.assertEqual(main.json("/v1/tokenize", {"prompt": "aé"})["pieces"], ["a", "bytes:\\xc3", "bytes:\\xa9"])
        self.assertEqual("".join(piece.json("/v1/tokenize", {"prompt": "le chat dort"})["pieces"]), "le chat dort")

    def test_special_tokens(self):
        """A tokenizer whose template starts each text with a token."""
        tokenizer = json.loads((PIECES / "tokenizer.json").read_text(encoding="utf-8"))
        start = tokenizer["added_tokens"][0]
        tokenizer["post_processor"] = {
            "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": start["content"], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {start["content"]: {"id": start["content"], "ids": [start["id"]], "tokens": [start["content"]]}}}
        model = server.variant(PIECES, "starts", tokenizer__json=json.dumps(tokenizer))
        config = json.loads((model / "config.json").read_text())
        config["tokenizer_fingerprint"] = None
        (model / "config.json").write_text(json.dumps(config))
        with Server(model) as each:
            plain = each.json("/v1/tokenize", {"prompt": "le chat", "add_special_tokens": False})["tokens"]
            for flag in ({}, {"add_special_tokens": True}, {"add_special_tokens": None}):
                self.assertEqual(each.json("/v1/tokenize", {"prompt": "le chat", **flag})["tokens"], [start["id"]] + plain)
            self.assertEqual(each.complete("le chat", max_tokens=1)["usage"]["prompt_tokens"], 1 + len(plain))
            self.assertEqual(each.json("/v1/tokenize", {"prompt": ""})["tokens"], [start["id"]])

    def test_messages(self):
        messages = [{"role": "user", "content": "le chat"}]
        body = chatty.json("/v1/tokenize", {"messages": messages})
        self.assertEqual(body["tokens"], tokens_of("<user>le chat\n<assistant>"))

    def test_refused(self):
        for body in ({}, {"prompt": 5}, {"prompt": ["a"]}, {"prompt": None}, {"messages": "a"}, {"prompt": "a", "add_special_tokens": 1}):
            self.refused(400, "/v1/tokenize", body)
        for value in (None, "a", [256], [-1], [1.5], ["a"], [[1]], 5):
            self.refused(400, "/v1/detokenize", {"tokens": value}, "tokens")
        self.refused(400, "/v1/tokenize", {"prompt": "a"}, on=bare)


class States(Refused):
    def test_create_download_upload_drop(self):
        text = "le chat mange du café.\n"
        created = main.json("/v1/states", {"prompt": text})
        self.assertEqual(set(created), {"object", "id", "tokens", "bytes", "model"})
        self.assertEqual((created["object"], created["tokens"], created["model"]), ("state", len(tokens_of(text)), "words"))
        answer = main.get("/v1/states/" + created["id"])
        self.assertEqual((answer.status, answer.headers["content-type"]), (200, "application/octet-stream"))
        self.assertGreaterEqual(len(answer.body), 2688)
        answer2 = main.request("PUT", "/v1/states/My_state-2", answer.body, {"Content-Type": "application/octet-stream"})
        self.assertEqual(answer2.status, 200, answer2)
        self.assertEqual((answer2.json["id"], answer2.json["tokens"]), ("My_state-2", created["tokens"]))
        expected = greedy(WORDS, text, 50)
        coded = {"data": base64.b64encode(answer.body).decode()}
        for state in (created["id"], "My_state-2", coded):
            self.assertEqual(main.text("", state=state, max_tokens=50, temperature=0), expected)
            self.assertEqual(main.json("/v1/completions", {"state": state, "max_tokens": 50, "temperature": 0})["choices"][0]["text"],
                             expected)
            self.assertEqual(main.text("le ", state=state, max_tokens=50, temperature=0), greedy(WORDS, text + "le ", 50))
        self.assertEqual(main.get("/v1/states/My_state-2").body, answer.body)
        for name in (created["id"], "My_state-2"):
            dropped = main.request("DELETE", "/v1/states/" + name)
            self.assertEqual((dropped.status, dropped.json), (200, {"object": "state.deleted", "id": name, "deleted": True}))
            for method in ("GET", "DELETE"):
                answer = main.request(method, "/v1/states/" + name)
                self.assertEqual((answer.status, answer.error["type"]), (404, "not_found_error"))
            self.refused(404, "/v1/completions", {"state": name}, kind="not_found_error")

    def test_prompts(self):
        first = main.json("/v1/states", {"prompt": tokens_of("le chat ")})
        second = main.json("/v1/states", {"prompt": "mange", "state": first["id"]})
        self.assertEqual((first["tokens"], second["tokens"]), (8, 13))
        self.assertEqual(main.text("", state=second["id"], temperature=0), greedy(WORDS, "le chat mange", 16))
        self.assertEqual(main.text("", state=first["id"], temperature=0), greedy(WORDS, "le chat ", 16))
        talk = chatty.json("/v1/states", {"messages": [{"role": "user", "content": "le chat"}]})
        self.assertIn(talk["tokens"], (len("<user>le chat\n"), len("<user>le chat\n<assistant>")))
        for state in (first, second):
            main.request("DELETE", "/v1/states/" + state["id"])

    def test_returned_states(self):
        """Greedy text in parts, continued from each kind of state, equals the uninterrupted text; n choices have n states."""
        whole = greedy(WORDS, "le 日本", 90)
        for kind in (True, "id"):
            state, text = None, ""
            for part in range(3):
                body = {"prompt": "" if part else "le 日本", "max_tokens": 30, "temperature": 0, "return_state": kind, "state": state}
                if part == 2:  # the last event has the state
                    events = main.events("/v1/completions", body)
                    self.assertFalse(any(event["choices"][0].get("state") for event in events[:-1]))
                    choice = {**events[-1]["choices"][0], "text": "".join(event["choices"][0]["text"] for event in events)}
                else:
                    choice = main.json("/v1/completions", {**body, "return_token_ids": True})["choices"][0]
                self.assertEqual(set(choice["state"]), {"data" if kind is True else "id", "tokens", "bytes"})
                self.assertEqual(choice["state"]["tokens"], len(tokens_of("le 日本")) + 30 * (part + 1))
                if kind is True:
                    self.assertEqual(len(base64.b64decode(choice["state"]["data"])), choice["state"]["bytes"])
                state = {"data": choice["state"]["data"]} if kind is True else choice["state"]["id"]
                text += choice["text"]
            self.assertEqual(text.encode().replace("�".encode(), b""), whole.encode().replace("�".encode(), b""))
        body = main.complete("le", n=3, temperature=2, seed=1, max_tokens=12, return_state="id")
        self.assertEqual(len({choice["state"]["id"] for choice in body["choices"]}), 3)
        for choice in body["choices"]:
            main.request("DELETE", "/v1/states/" + choice["state"]["id"])
        self.assertNotIn("state", main.complete("le", return_state=False)["choices"][0])
        for value in ("data", 1, "", {}):
            self.refused(400, "/v1/completions", {"prompt": "le", "return_state": value}, "return_state")

    def test_conversations(self):
        """The messages after a state: each answer equals that to the whole conversation. The state has the end token, here the
        end of the line, which the template writes after each message."""
        state, messages, count = None, [], 0
        for question in ("le chat", "le 日本", "la vache"):
            messages.append({"role": "user", "content": question})
            whole = chatty.chat(messages, temperature=0, max_tokens=200)["choices"][0]
            part = chatty.chat(question, temperature=0, max_tokens=200, state=state, return_state="id")["choices"][0]
            self.assertEqual(whole["finish_reason"], "stop")
            self.assertEqual(part["message"]["content"], whole["message"]["content"])
            count += len(tokens_of("<user>%s\n<assistant>%s\n" % (question, whole["message"]["content"])))
            self.assertEqual(part["state"]["tokens"], count)
            state = part["state"]["id"]
            messages.append({"role": "assistant", "content": whole["message"]["content"]})

    def test_refused(self):
        """States of another model, and damaged ones: each byte counts. Nothing of them is kept."""
        created = main.json("/v1/states", {"prompt": "le chat"})["id"]
        state = main.get("/v1/states/" + created).body
        other = bare.get("/v1/states/" + bare.json("/v1/states", {"prompt": [1, 2, 3]})["id"]).body
        same_shape = piece.get("/v1/states/" + piece.json("/v1/states", {"prompt": "le"})["id"]).body
        bad = {"another model": other, "another model of the same shape": same_shape, "empty": b"", "one byte": b"x",
               "truncated": state[:-1], "half": state[:len(state) // 2], "header alone": state[:64], "longer": state + b"\0",
               "text": b"hello " * 500, "zeros": bytes(len(state))}
        for at in [0, 3, 8, 17, 40, 100] + [len(state) * k // 8 for k in range(1, 8)] + [len(state) - 1, len(state) - 9]:
            bad["byte %d" % at] = state[:at] + bytes([state[at] ^ 0x10]) + state[at + 1:]
        for name, data in bad.items():
            answer = main.request("PUT", "/v1/states/bad", data, {"Content-Type": "application/octet-stream"})
            self.assertEqual((answer.status, answer.error["type"]), (400, "invalid_request_error"), "%s: %r" % (name, answer))
            self.assertEqual(main.get("/v1/states/bad").status, 404, name)
            body = {"state": {"data": base64.b64encode(data).decode()}, "max_tokens": 1}
            self.refused(400, "/v1/completions", body, "state")
        for data in ("!!!!", "AAA", "A", 5, None, "é"):
            self.refused(400, "/v1/completions", {"state": {"data": data}}, "state")
        for state in (5, [], {}, True):
            self.refused(400, "/v1/completions", {"state": state}, "state")
        for name in ("a.b", "a%2Fb", "a%20b", "x" * 65, "%C3%A9", "..%2F..%2Fetc", "a%00"):
            answer = main.request("PUT", "/v1/states/" + name, main.get("/v1/states/" + created).body)
            self.assertIn(answer.status, (400, 404), name)
        self.assertIn(main.request("PUT", "/v1/states/", b"").status, (400, 404, 405))
        for body in ({}, {"prompt": 5}, {"prompt": ["a"]}, {"prompt": [256]}, {"prompt": None}):
            self.refused(400, "/v1/states", body)
        self.refused(404, "/v1/states", {"prompt": "a", "state": "none"}, kind="not_found_error")
        longest = "x" * 64
        kept = main.get("/v1/states/" + created).body
        self.assertEqual(main.request("PUT", "/v1/states/" + longest, kept).status, 200)
        self.assertEqual(main.text("", state=longest, temperature=0), greedy(WORDS, "le chat", 16))

    def test_no_room(self):
        """States by id are not evicted: further ones are refused when --cache-bytes are used up."""
        with Server(WORDS, "--cache-bytes", 20000) as each:
            first = each.json("/v1/states", {"prompt": "le chat"})["id"]
            answers = [each.post("/v1/states", {"prompt": "le " + "x" * i}) for i in range(20)]
            self.assertEqual({answer.status for answer in answers}, {200, 507})
            self.assertEqual({answer.error["type"] for answer in answers if answer.status == 507}, {"server_error"})
            self.assertEqual(each.text("", state=first, temperature=0), greedy(WORDS, "le chat", 16))
            refused = each.post("/v1/completions", {"prompt": "a", "return_state": "id"})
            self.assertEqual(refused.status, 507, refused)
            self.assertEqual(each.post("/v1/completions", {"prompt": "a"}).status, 200)
            each.request("DELETE", "/v1/states/" + first)
            self.assertEqual(each.post("/v1/states", {"prompt": "le"}).status, 200)


class Errors(unittest.TestCase):
    def check(self, answer, status, kind):
        self.assertEqual(answer.status, status, answer)
        self.assertEqual(answer.headers["content-type"].split(";")[0], "application/json")
        self.assertEqual(set(answer.error), {"message", "type", "param", "code"})
        self.assertEqual(answer.error["type"], kind)

    def test_paths_and_methods(self):
        for path in ("/nothing", "/v1", "/v1/", "/v1/completion", "/v1/completions/x", "/v1/models/a/b", "//", "/v1/states/a/b",
                     "/../etc/passwd", "/%2e%2e/etc/passwd"):
            self.check(main.get(path), 404, "not_found_error")
        for method, path in (("GET", "/v1/completions"), ("POST", "/v1/models"), ("DELETE", "/v1/completions"), ("PUT", "/health"),
                             ("POST", "/metrics"), ("POST", "/v1/states/x"), ("PATCH", "/v1/states/x"), ("GET", "/v1/states"),
                             ("GET", "/v1/chat/completions"), ("GET", "/v1/embeddings"), ("GET", "/v1/tokenize"), ("POST", "/")):
            answer = main.request(method, path, b"{}" if method != "GET" else None)
            self.check(answer, 405, "invalid_request_error")
            self.assertTrue(answer.headers.get("allow"), "%s %s has no Allow" % (method, path))
        self.assertEqual(main.get("/health?x=1").status, 200)

    def test_key(self):
        path = server.FOLDER / "key"
        path.write_text("secret-key\n")
        with Server(WORDS, "--api-key-file", path) as each:
            for name in ("/", "/health", "/openapi.json"):
                self.assertEqual(each.get(name).status, 200)
            for value in (None, "Bearer wrong", "Bearer secret-ke", "Bearer secret-keyy", "Bearer", "Bearer ", "secret-key",
                          "Basic secret-key", "Bearer SECRET-KEY"):
                headers = {"Authorization": value} if value else {}
                for method, name, body in (("GET", "/v1/models", None), ("GET", "/metrics", None), ("POST", "/v1/completions", "{}"),
                                           ("POST", "/v1/chat/completions", "{}"), ("POST", "/v1/embeddings", "{}"),
                                           ("POST", "/v1/tokenize", "{}"), ("POST", "/v1/detokenize", "{}"), ("POST", "/v1/states", "{}"),
                                           ("GET", "/v1/states/a", None), ("PUT", "/v1/states/a", "x"), ("DELETE", "/v1/states/a", None)):
                    self.check(each.request(method, name, body, headers), 401, "authentication_error")
            for value in ("Bearer secret-key", "bearer secret-key"):
                self.assertEqual(each.get("/v1/models", Authorization=value).status, 200)
            each.key = "secret-key"
            self.assertEqual(len(each.text("le", max_tokens=4, temperature=0)), 4)
            each.key = None
            self.assertNotIn("secret-key", "".join(line.decode() for line in each.log) + each.stderr())

    def test_binding_elsewhere_needs_a_key(self):
        import subprocess
        done = subprocess.run([server.PROGRAM, "serve", str(WORDS), "--port", "0", "--host", "0.0.0.0"], capture_output=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"--api-key-file", done.stderr)

    def test_other_sites(self):
        """A page of another site must not reach the server: neither by its Origin, nor by a name that resolves here."""
        for host in ("evil.example", "evil.example:%d" % main.port, "127.0.0.1.evil.example", "localhost.evil.example"):
            self.check(main.get("/v1/models", Host=host), 403, "permission_error")
        for host in ("localhost:%d" % main.port, "127.0.0.1:%d" % main.port, "localhost", "[::1]:%d" % main.port):
            self.assertEqual(main.get("/v1/models", Host=host).status, 200, host)
        for origin in ("http://evil.example", "null", "https://localhost.evil.example", "http://127.0.0.1.evil.example"):
            self.check(main.get("/v1/models", Origin=origin), 403, "permission_error")
            self.check(main.request("POST", "/v1/completions", "{}", {"Origin": origin}), 403, "permission_error")
        self.assertEqual(main.get("/v1/models", Origin="http://127.0.0.1:%d" % main.port).status, 200)

    def test_allowed_origin(self):
        with Server(WORDS, "--allow-origin", "https://friend.example") as each:
            answer = each.get("/v1/models", Origin="https://friend.example")
            self.assertEqual(answer.status, 200)
            self.assertEqual(answer.headers.get("access-control-allow-origin"), "https://friend.example")
            self.check(each.get("/v1/models", Origin="https://evil.example"), 403, "permission_error")
            preflight = each.request("OPTIONS", "/v1/completions", None, {
                "Origin": "https://friend.example", "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization, content-type"})
            self.assertIn(preflight.status, (200, 204), preflight)
            self.assertEqual(preflight.headers.get("access-control-allow-origin"), "https://friend.example")
            self.assertIn("POST", preflight.headers.get("access-control-allow-methods", ""))
            self.assertIn("authorization", preflight.headers.get("access-control-allow-headers", "").lower())

    def test_large_bodies_and_prompts(self):
        with Server(WORDS, "--max-body", 2000, "--max-prompt", 100) as each:
            self.check(each.post("/v1/completions", {"prompt": "x" * 3000}), 413, "invalid_request_error")
            for body in ({"prompt": "x" * 101}, {"prompt": [1] * 101}):
                answer = each.post("/v1/completions", body)
                self.check(answer, 400, "invalid_request_error")
                self.assertEqual(answer.error["param"], "prompt")
            self.assertEqual(each.post("/v1/completions", {"prompt": "x" * 100, "max_tokens": 1}).status, 200)

    def test_queue(self):
        """One request runs, one waits, and the third is told when to come back."""
        with Server(WORDS, "--slots", 1, "--queue", 1) as each:
            endless = {"prompt": "le", "max_tokens": server.ENDLESS, "ignore_eos": True}
            with each.stream("/v1/completions", endless) as running:
                next(running)
                waiting = each.connect()
                each._send(waiting, "POST", "/v1/completions", {"prompt": "le chat", "temperature": 0}, None)
                wait_until(lambda: each.waiting() == 1, "a request waits")
                answer = each.post("/v1/completions", {"prompt": "le"})
                self.check(answer, 429, "rate_limit_error")
                self.assertTrue(answer.headers["retry-after"].isdigit(), answer.headers)
                self.assertEqual(each.get("/health").status, 200)
                self.assertEqual(each.post("/v1/tokenize", {"prompt": "le"}).status, 200)
            text = server.Answer(waiting.getresponse()).json["choices"][0]["text"]
            self.assertEqual(text, greedy(WORDS, "le chat", 16))
            wait_until(lambda: each.running() == 0 and each.waiting() == 0, "the slot is free")
            self.assertEqual(each.post("/v1/completions", {"prompt": "le"}).status, 200)

    def test_timeout(self):
        with Server(WORDS, "--timeout", 1) as each:
            self.check(each.post("/v1/completions", {"prompt": "le", "max_tokens": server.ENDLESS}), 408, "timeout_error")
            connection = each.connect()
            each._send(connection, "POST", "/v1/completions", {"prompt": "le", "max_tokens": server.ENDLESS, "stream": True}, None)
            tail = connection.getresponse().read()[-1000:]
            connection.close()
            self.assertIn(b'data: {"error":', tail.replace(b'"error" :', b'"error":'))
            wait_until(lambda: each.running() == 0, "the slot is free")


if __name__ == "__main__":
    unittest.main()
