"""bochner serve: completions and their streams, every member of docs/reference/http.md.

Reference values come from `bochner generate` and `bochner eval`. Batches of the server and single sequences of
these programs round differently; the log probabilities of the tiny models, whose logits are below 30, agree to 1e-4."""
import json, math, struct, unittest
import server
from server import Case, byte_tokens, greedy, greedy_ids, log_softmax, logits

CLOSE = 1e-4


def setUpModule():
    global main, piece, chatty, bare, WORDS, PIECES, CHATTY
    main, piece, chatty, bare = Case.start()
    WORDS, PIECES, CHATTY = main.model, piece.model, chatty.model


def tearDownModule():
    Case.finish()


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


class Completions(Case):
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
        self.assertEqual(main.text("le chat", temperature=0, user="me", best_of=1, suffix="", response_format={"type": "text"}), expected)
        self.refused(400, "/v1/completions", {"prompt": "le chat", "nonsense": None, "nonsense2": {"x": [1]}}, "nonsense2")
        names = ["max_tokens", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias",
                 "seed", "stop", "ignore_eos", "n", "logprobs", "echo", "stream", "stream_options", "return_token_ids", "state",
                 "return_state"]
        self.assertEqual(main.text("le chat", temperature=0, **{name: None for name in names}), expected)
        self.assertEqual(main.text(None, temperature=0), main.text("", temperature=0))
        self.assertEqual(main.json("/v1/completions", {"temperature": 0})["choices"][0]["text"], main.text("", temperature=0))

    def test_prompts(self):
        texts = ["le chat", "le 日本", "x"]
        single = [main.text(text, temperature=0) for text in texts]
        for prompts in (texts, [byte_tokens(text) for text in texts]):
            body = main.complete(prompts, temperature=0)
            self.assertEqual([choice["index"] for choice in body["choices"]], [0, 1, 2])
            self.assertEqual([choice["text"] for choice in body["choices"]], single)
            self.assertEqual(body["usage"]["prompt_tokens"], sum(len(byte_tokens(text)) for text in texts))
            self.assertEqual(body["usage"]["completion_tokens"], 48)
        self.assertEqual(main.text(byte_tokens("le chat"), temperature=0), single[0])
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
        text = "le chat boit du café — le 日本.\n"
        tokens = byte_tokens(text)
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
        prompt = byte_tokens("le chien")
        for settings in ({"temperature": 0}, {"temperature": 2, "seed": 1, "logit_bias": {"97": 3}, "frequency_penalty": 1},
                         {"temperature": 0.5, "top_k": 3, "seed": 2, "repetition_penalty": 1.3}):
            for echo in (False, True):
                choice = main.complete(prompt, max_tokens=20, echo=echo, logprobs=3, return_token_ids=True, **settings)["choices"][0]
                whole = prompt + choice["token_ids"][-20:]
                expected = [log_softmax(row) for row in logits(WORDS, whole)]
                names = [chr(token) if token < 128 else "bytes:\\x%02x" % token for token in whole]
                self.check_logprobs(choice["logprobs"], whole, 0 if echo else len(prompt), expected, 3, names)
                for i, best in enumerate(choice["logprobs"]["top_logprobs"]):
                    ids = choice["logprobs"]["top_token_ids"][i]
                    self.assertEqual(ids and list(ids), best and list(best))
                    if best:
                        row = expected[len(whole) - len(choice["logprobs"]["tokens"]) + i - 1]
                        for name, token in ids.items():
                            self.assertLess(abs(row[token] - best[name]), CLOSE)
                        name, value = choice["logprobs"]["tokens"][i], choice["logprobs"]["token_logprobs"][i]
                        if value >= min(best.values()):  # clients compare the two numbers, bit for bit
                            self.assertEqual(best.get(name), value)
        for value in (-1, 21, 1.5, "1"):
            self.refused(400, "/v1/completions", {"prompt": "le", "logprobs": value}, "logprobs")

    def test_logit_bias(self):
        self.assertEqual(main.text("le", logit_bias={"120": 100}, max_tokens=5, temperature=0), "xxxxx")
        self.assertEqual(main.text("le", logit_bias={"120": 100}, max_tokens=5, temperature=1), "xxxxx")
        free = main.text("le chat", max_tokens=20, temperature=0)
        self.assertIn("i", free)
        self.assertNotIn("i", main.text("le chat", max_tokens=40, temperature=0, logit_bias={str(ord("i")): -100}))
        self.assertEqual(main.text("le chat", max_tokens=20, temperature=0, logit_bias={}), free)
        for bias in ({"120": 101}, {"120": -100.5}, {"x": 1}, {"256": 1}, {"-1": 1}, {"120": "1"}, {"1.5": 1}, {"": 1}, [1]):
            self.refused(400, "/v1/completions", {"prompt": "le", "logit_bias": bias})

    def test_penalties_and_bias(self):
        """With temperature 0, each token is the most likely one after the penalties, as computed from the logits of `eval`."""
        prompt = byte_tokens("le chat")
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
            texts = {main.text("le", max_tokens=40, temperature=2, seed=seed) for _ in range(2)}
            self.assertEqual(len(texts), 1, seed)
        self.assertGreater(len({main.text("le", max_tokens=40, temperature=2, seed=seed) for seed in range(5)}), 3)
        self.assertGreater(len({main.text("le", max_tokens=40, temperature=2) for _ in range(5)}), 3, "the default seed is not random")
        for name, values in {"temperature": (-0.1, 100.5), "top_p": (0, -1, 1.01), "top_k": (-2, 1.5), "min_p": (-0.1, 1.1),
                             "repetition_penalty": (0, -1), "presence_penalty": (-2.1, 2.1), "frequency_penalty": (-2.1, 2.1)}.items():
            for value in values:
                self.refused(400, "/v1/completions", {"prompt": "le", name: value}, name)

    def test_frequencies(self):
        """Samples have the probabilities of the model: a chi-squared test of the first token over 2,000 seeds. The statistic
        exceeds degrees + 5 sqrt(2 degrees) with probability below 1e-4, and the seeds are fixed."""
        prompt = "le chat boit du café.\nle "
        row = log_softmax([value / 1.5 for value in logits(WORDS, byte_tokens(prompt))[-1]])
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
            self.assertIn("à", free)
            for stop in (free[3:5], free[10:17], free[20], "à", ["zzz", free[12:14], free[30:34]], [free[8:10]] * 16):
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
        self.assertEqual(choice["token_ids"], greedy_ids(WORDS, byte_tokens("le"), 9))
        self.assertEqual(choice["prompt_token_ids"], byte_tokens("le"))
        events = main.events("/v1/completions", {"prompt": "le", "temperature": 0, "max_tokens": 9, "return_token_ids": True})
        self.assertEqual(events[0]["choices"][0]["prompt_token_ids"], byte_tokens("le"))
        self.assertEqual(sum((event["choices"][0].get("token_ids") or [] for event in events), []), choice["token_ids"])
        self.assertFalse(any("prompt_token_ids" in event["choices"][0] for event in events[1:]))
        self.assertNotIn("top_token_ids", main.complete("le", logprobs=1)["choices"][0]["logprobs"])

    def test_model_without_tokenizer(self):
        """Reference: tokens that transformers generates for this model."""
        data = (server.DATA / "llama-tiny" / "reference.safetensors").read_bytes()
        (length,) = struct.unpack_from("<Q", data)
        entry = json.loads(data[8:8 + length])["greedy"]  # the first 16 tokens are the prompt
        tokens = list(struct.unpack_from("<%di" % entry["shape"][0], data, 8 + length + entry["data_offsets"][0]))
        body = bare.complete(tokens[:16], temperature=0, max_tokens=len(tokens) - 16, return_token_ids=True, ignore_eos=True)
        self.assertEqual(body["choices"][0]["token_ids"], tokens[16:])
        self.refused(400, "/v1/completions", {"prompt": "a text"}, "prompt", on=bare)


class Streams(Case):
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
        bytes arrive as the text of the whole response."""
        text = "".join(event["choices"][0]["text"] for event in
                       main.events("/v1/completions", {"prompt": "le élève", "max_tokens": 300, "temperature": 0}))
        self.assertTrue(set("éàï本—") & set(text), text)
        events = main.events("/v1/completions", {"prompt": "le", "max_tokens": 400, "temperature": 0})
        for event in events[:-1]:  # the last token may be a part of a character
            self.assertNotIn("\ufffd", event["choices"][0]["text"])
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
            choice_events = [event["choices"][0] for event in events if event["choices"][0]["index"] == choice["index"]]
            self.assertEqual("".join(part["text"] for part in choice_events), choice["text"])
            self.assertEqual([part["finish_reason"] for part in choice_events], [None] * (len(choice_events) - 1) + ["length"])
            self.assertEqual(sum(len(part["token_ids"]) for part in choice_events if part.get("token_ids")), 30)

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


if __name__ == "__main__":
    unittest.main()
