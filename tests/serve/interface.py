"""bochner serve: conversations, embeddings, tokens, models, errors and the other paths of docs/reference/http.md.

Reference values come from `bochner chat`, `eval` and `bochner tokenizer`. Batches of the server and single sequences of
these programs round differently; the log probabilities of the tiny models, whose logits are below 30, agree to 1e-4."""
import base64, json, os, re, struct, subprocess, unittest, urllib.parse
import server
from server import Case, Server, byte_tokens, greedy, log_softmax, logits, wait_until

CLOSE = 1e-4


def setUpModule():
    global main, piece, chatty, bare, WORDS, PIECES, CHATTY
    main, piece, chatty, bare = Case.start()
    WORDS, PIECES, CHATTY = main.model, piece.model, chatty.model


def tearDownModule():
    Case.finish()


class Description(Case):
    def test_models(self):
        response = main.get("/v1/models")
        self.assertEqual(response.status, 200)
        self.assertEqual(response.headers["content-type"].split(";")[0], "application/json")
        self.assertEqual(response.json["object"], "list")
        (model,) = response.json["data"]
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
        # the longest name of a directory, which ends in the middle of a character at most other lengths, and one that is not UTF-8
        for name, expected in (("a" + "é" * 127, None), (os.fsdecode(b"a\xff\xc3"), "a\ufffd\ufffd")):
            os.rename(server.variant(WORDS, "renamed"), server.DIRECTORY / name)
            with Server(server.DIRECTORY / name) as each:
                self.assertEqual(each.get("/v1/models").json["data"][0]["id"], expected or name)
                self.assertEqual(each.get("/v1/models/" + urllib.parse.quote(os.fsencode(name))).json["id"], expected or name)
                self.assertEqual(each.complete("le", max_tokens=1)["model"], expected or name)
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
        response = main.get("/health")
        self.assertEqual((response.status, response.json), (200, {"status": "ok"}))

    def test_page(self):
        response = main.get("/")
        self.assertEqual(response.status, 200)
        self.assertEqual(response.headers["content-type"].split(";")[0], "text/html")
        self.assertIn(b"<html", response.body.lower())

    def test_openapi(self):
        response = main.get("/openapi.json")
        self.assertEqual(response.status, 200)
        self.assertEqual(response.headers["content-type"].split(";")[0], "application/json")
        self.assertEqual(response.json, json.loads((server.SOURCE / "src/serve/openapi.json").read_text(encoding="utf-8")))

    def test_metrics(self):
        """The text format of Prometheus: HELP and TYPE before the samples of a name, unique samples, counters that end in _total
        and histograms with cumulative buckets."""
        main.text("le", max_tokens=3)
        response = main.get("/metrics")
        self.assertEqual(response.status, 200)
        self.assertEqual(response.headers["content-type"].split(";")[0], "text/plain")
        text = response.body.decode("ascii")
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


class Chat(Case):
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

    def test_replies_equal_chat_replies(self):
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
                response = chatty.chat(messages, temperature=0, **{name: 30})["choices"][0]["message"]["content"]
                self.assertEqual(response, expected)
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
        """A model without a template reads lines `role: content`, and its response ends before a line that starts with user:."""
        messages = [{"role": "system", "content": "sois bref"}, {"role": "user", "content": "le chat ?"}]
        rendered = "".join(main.json("/v1/tokenize", {"messages": messages})["pieces"])
        self.assertIn("system: sois bref\nuser: le chat ?\nassistant:", rendered)
        body = main.chat(messages, max_tokens=20, temperature=0)
        self.assertEqual(body["choices"][0]["message"]["content"].strip(), greedy(WORDS, rendered, 20).strip())
        self.assertEqual(body["usage"]["prompt_tokens"], len(rendered))
        lines = server.DIRECTORY / "dialogue.txt"
        lines.write_text("".join("user: le %s ?\nassistant: il %s.\n" % (noun, deed) for _ in range(150) for noun in server.NOUNS
                                 for deed in server.DEEDS[:1]), encoding="utf-8")
        with Server(server.train("dialogue", "--features", 16, data=lines)) as each:
            for extra in ({}, {"stop": ["zzz"]}):
                response = each.chat("le chat ?", max_tokens=200, temperature=0, **extra)["choices"][0]
                self.assertEqual((response["message"]["content"].strip(), response["finish_reason"]), ("il dort à midi.", "stop"))

        for member in ({"return_state": True}, {"return_state": "id"}, {"state": main.json("/v1/states", {"prompt": "le"})["id"]}):
            (name,) = member
            self.refused(400, "/v1/chat/completions", {"messages": messages, **member}, name)

    def test_logprobs(self):
        body = chatty.chat("le chat", temperature=0, max_tokens=12, logprobs=True, top_logprobs=3, ignore_eos=True,
                           return_token_ids=True)
        choice = body["choices"][0]
        prompt = byte_tokens("<user>le chat\n<assistant>")
        whole = prompt + choice["token_ids"]
        rows = [log_softmax(row) for row in logits(WORDS, whole)]
        content = choice["logprobs"]["content"]
        self.assertEqual(len(content), 12)
        for i, entry in enumerate(content):
            token, row = choice["token_ids"][i], rows[len(prompt) + i - 1]
            self.assertLess(abs(entry["logprob"] - row[token]), CLOSE)
            self.assertEqual((entry["bytes"], entry["token_id"]), ([token], token))
            self.assertEqual(entry["token"], chr(token) if token < 128 else "bytes:\\x%02x" % token)
            self.assertEqual(len(entry["top_logprobs"]), 3)
            best = sorted(row, reverse=True)[:3]
            for found, expected in zip(entry["top_logprobs"], best):
                self.assertLess(abs(found["logprob"] - expected), CLOSE)
                self.assertLess(abs(row[found["bytes"][0]] - expected), CLOSE)
                self.assertEqual(found["token_id"], found["bytes"][0])
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
            choice_events = [event["choices"][0] for event in events[:-1] if event["choices"][0]["index"] == choice["index"]]
            self.assertEqual(choice_events[0]["delta"]["role"], "assistant")
            self.assertFalse(any("role" in part["delta"] for part in choice_events[1:]))
            self.assertEqual("".join(part["delta"].get("content") or "" for part in choice_events), choice["message"]["content"])
            self.assertEqual([part["finish_reason"] for part in choice_events], [None] * (len(choice_events) - 1) + ["length"])
            scored = sum((part["logprobs"]["content"] for part in choice_events if part.get("logprobs")), [])
            self.assertEqual([entry["token"] for entry in scored], [entry["token"] for entry in choice["logprobs"]["content"]])

    def test_variables_of_the_template(self):
        model = server.variant(WORDS, "variables", chat_template__jinja="{{ name }}:{{ messages[0].content }}")
        with Server(model) as each:
            body = {"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": {"name": "le chat"}}
            self.assertEqual("".join(each.json("/v1/tokenize", body)["pieces"]), "le chat:x")
            self.assertEqual(each.json("/v1/chat/completions", {**body, "max_tokens": 1})["usage"]["prompt_tokens"], 9)
            self.refused(400, "/v1/chat/completions", {**body, "chat_template_kwargs": [1]}, "chat_template_kwargs", on=each)

    def test_template_that_cannot_be_used(self):
        broken = server.variant(WORDS, "broken", chat_template__jinja="{% for m in messages %}{{ m.content }}")
        for model, warned in ((broken, True), (WORDS, False)):
            with Server(model) as each:
                self.assertIs(each.get("/v1/models").json["data"][0]["bochner"]["chat_template"], False)
                self.assertEqual("without the model's chat template" in each.stderr(), warned, each.stderr())

    def test_refusals_of_the_template(self):
        """They do not name files of the server."""
        model = server.variant(WORDS, "strict", chat_template__jinja="{{ raise_exception('roles: ' + messages[0].role) }}")
        with Server(model) as each:
            body = {"messages": [{"role": "user", "content": "x"}]}
            for path in ("/v1/chat/completions", "/v1/tokenize", "/v1/states"):
                self.refused(400, path, body, "messages", on=each)
                self.assertEqual(each.post(path, body).error["message"], "chat template: line 1: roles: user")

    def test_refused(self):
        for messages in (None, "hello", {}, [], ["hello"], [{"role": "user"}], [{"content": "a"}], [{"role": 1, "content": "a"}],
                         [{"role": "user", "content": 1}], [{"role": "user", "content": [{"type": "image_url"}]}],
                         [{"role": "user", "content": ["a"]}]):
            self.refused(400, "/v1/chat/completions", {"messages": messages}, on=chatty)
        self.refused(400, "/v1/chat/completions", {}, "messages", on=chatty)
        self.refused(400, "/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}, on=bare)


class Members(Case):
    """The members that src/serve/openapi.json lists are those that the server accepts, with the values that it lists, and http.md
    names them."""
    BASES = {"/v1/completions": {"prompt": "le", "max_tokens": 1},
             "/v1/chat/completions": {"messages": [{"role": "user", "content": "le"}], "max_tokens": 1},
             "/v1/embeddings": {"input": "le"}, "/v1/tokenize": {"prompt": "le"}, "/v1/detokenize": {"tokens": [1]},
             "/v1/states": {"prompt": "le"}}

    def properties(self, schema):
        """The members of a schema and its parts, by name."""
        if "$ref" in schema:
            return self.properties(self.description["components"]["schemas"][schema["$ref"].split("/")[-1]])
        found = dict(schema.get("properties", {}))
        for part in schema.get("allOf", []):
            found.update(self.properties(part))
        return found

    def setUp(self):
        self.description = main.get("/openapi.json").json

    def test_agree(self):
        text = (server.SOURCE / "docs/reference/http.md").read_text(encoding="utf-8")
        names = set()
        for path, base in self.BASES.items():
            schema = self.description["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
            members = self.properties(schema)
            names |= set(members)
            self.assertGreater(len(members), 10)
            for name, member in members.items():
                self.assertIn("`%s`" % name, text)
                if name in base:
                    continue
                for value in member.get("enum", [None]):
                    chatty.json(path, {**base, name: value})
                if member.get("description") == "No effect":
                    chatty.json(path, {**base, name: {"any": ["value"]}})
                elif "ot supported" in member.get("description", ""):
                    for value in ({"type": "json_object"}, "required", ["x"], 77, True, False, ""):
                        if not any(type(each) is type(value) and each == value for each in member.get("enum", [])):
                            self.refused(400, path, {**base, name: value}, name, on=chatty)
            self.refused(400, path, {**base, "nonsense": 0}, "nonsense", on=chatty)
        table = re.findall(r'^    \{"(\w+)", [A-Z]', (server.SOURCE / "src/serve/members.c").read_text(encoding="utf-8"), re.M)
        self.assertGreater(len(table), 70)
        self.assertLessEqual(set(table), names)


class Embeddings(Case):
    def test_shape_and_encodings(self):
        texts = ["le chat", "le 日本 dort à midi.", "x"]
        body = main.json("/v1/embeddings", {"input": texts, "model": "any"})
        self.assertEqual((body["object"], body["model"]), ("list", "words"))
        self.assertEqual([entry["index"] for entry in body["data"]], [0, 1, 2])
        self.assertEqual({entry["object"] for entry in body["data"]}, {"embedding"})
        count = sum(len(byte_tokens(text)) for text in texts)
        self.assertEqual((body["usage"]["prompt_tokens"], body["usage"]["total_tokens"]), (count, count))
        vectors = [entry["embedding"] for entry in body["data"]]
        self.assertEqual({len(vector) for vector in vectors}, {16})
        coded = main.json("/v1/embeddings", {"input": texts, "encoding_format": "base64", "dimensions": 16})["data"]
        for vector, entry in zip(vectors, coded):
            found = struct.unpack("<16f", base64.b64decode(entry["embedding"], validate=True))
            self.assertEqual(found, struct.unpack("<16f", struct.pack("<16f", *vector)))
        for text, vector in zip(texts, vectors):
            for single in (text, [text], byte_tokens(text), [byte_tokens(text)]):
                alone = main.json("/v1/embeddings", {"input": single})["data"][0]["embedding"]
                self.assertLess(max(abs(a - b) for a, b in zip(alone, vector)), CLOSE)
        self.assertEqual(len(main.json("/v1/embeddings", {"input": ["a"] * 2048})["data"]), 2048)

    def check_means(self, each, directory, inputs, head):
        """The logits are the product of the output matrix W and the last hidden state h, so W mean(h) is their mean. The sum of
        `width` products, each rounded to float32, and logits below 30 give an error far below 1e-3."""
        shape, matrix = server.tensors(directory / "model.safetensors")[head]
        vocab, width = shape
        for tokens in inputs:
            vector = each.json("/v1/embeddings", {"input": tokens})["data"][0]["embedding"]
            self.assertEqual(len(vector), width)
            rows = logits(directory, tokens)
            for token in range(0, vocab, 7):
                found = sum(matrix[token * width + i] * vector[i] for i in range(width))
                self.assertLess(abs(found - sum(row[token] for row in rows) / len(rows)), 1e-3)

    def test_mean_of_the_last_hidden_state(self):
        name = next(name for name, (shape, _) in server.tensors(WORDS / "model.safetensors").items() if shape == [256, 16])
        self.check_means(main, WORDS, [byte_tokens(text) for text in ("le chat dort", "x", "日本 " * 40)], name)
        self.check_means(bare, server.DATA / "llama-tiny", [[5, 900, 3, 77], [1]], "lm_head.weight")

    def test_refused(self):
        for value in (None, "", [], [""], ["a", ""], [[]], [1, "a"], [256], [[1], [-1]], {}, 5, ["a"] * 2049, [[1]] * 2049):
            self.refused(400, "/v1/embeddings", {"input": value}, "input")
        self.refused(400, "/v1/embeddings", {}, "input")
        self.refused(400, "/v1/embeddings", {"input": "a", "encoding_format": "int8"}, "encoding_format")
        for value in (15, 17, 0, -1, "16", 16.5):
            self.refused(400, "/v1/embeddings", {"input": "a", "dimensions": value}, "dimensions")


class Tokens(Case):
    def test_round_trip(self):
        texts = ["", "le chat", "élève 日本 — naïveté", " \n\t ", "a" * 3000, "😀 e\u0301", "<|endoftext|>", "\u0001\u007f\u2028"]
        for each, directory in ((main, WORDS), (piece, PIECES)):
            for text in texts:
                body = each.json("/v1/tokenize", {"prompt": text})
                self.assertEqual(body["count"], len(body["tokens"]))
                self.assertEqual(len(body["pieces"]), body["count"])
                expected = json.loads(server.run("tokenizer", "encode", directory, "--json", text=text))["ids"]
                self.assertEqual(body["tokens"], expected, text)
                self.assertEqual(each.json("/v1/detokenize", {"tokens": body["tokens"]}), {"prompt": text})
        self.assertEqual(main.json("/v1/tokenize", {"prompt": "aé"})["pieces"], ["a", "bytes:\\xc3", "bytes:\\xa9"])
        self.assertEqual("".join(piece.json("/v1/tokenize", {"prompt": "le chat dort"})["pieces"]), "le chat dort")

    def test_special_tokens(self):
        """A tokenizer whose template starts each text with a token."""
        tokenizer = json.loads((PIECES / "tokenizer.json").read_text(encoding="utf-8"))
        start = tokenizer["added_tokens"][0]
        tokenizer["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": start["content"], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
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
        self.assertEqual(body["tokens"], byte_tokens("<user>le chat\n<assistant>"))

    def test_refused(self):
        for body in ({}, {"prompt": 5}, {"prompt": ["a"]}, {"prompt": None}, {"messages": "a"}, {"prompt": "a", "add_special_tokens": 1}):
            self.refused(400, "/v1/tokenize", body)
        for value in (None, "a", [256], [-1], [1.5], ["a"], [[1]], 5):
            self.refused(400, "/v1/detokenize", {"tokens": value}, "tokens")
        self.refused(400, "/v1/tokenize", {"prompt": "a"}, on=bare)


class Errors(Case):
    def check(self, response, status, kind):
        self.assertEqual(response.status, status, response)
        self.assertEqual(response.headers["content-type"].split(";")[0], "application/json")
        self.assertEqual(set(response.error), {"message", "type", "param", "code"})
        self.assertEqual(response.error["type"], kind)

    def test_paths_and_methods(self):
        for path in ("/nothing", "/v1", "/v1/", "/v1/completion", "/v1/completions/x", "/v1/models/a/b",
                     "/../etc/passwd", "/%2e%2e/etc/passwd"):
            self.check(main.get(path), 404, "not_found_error")
        for method, path in (("GET", "/v1/completions"), ("POST", "/v1/models"), ("DELETE", "/v1/completions"), ("PUT", "/health"),
                             ("POST", "/metrics"), ("POST", "/v1/states/x"), ("PATCH", "/v1/states/x"), ("GET", "/v1/states"),
                             ("GET", "/v1/chat/completions"), ("GET", "/v1/embeddings"), ("GET", "/v1/tokenize"), ("POST", "/")):
            response = main.request(method, path, b"{}" if method != "GET" else None)
            self.check(response, 405, "invalid_request_error")
            self.assertTrue(response.headers.get("allow"), "%s %s has no Allow" % (method, path))
        self.assertEqual(main.get("/health?x=1").status, 200)

    def test_key(self):
        path = server.DIRECTORY / "key"
        path.write_text("secret-key\n")
        with Server(WORDS, "--api-key-file", path) as each:
            for name in ("/", "/health", "/openapi.json"):
                self.assertEqual(each.get(name).status, 200)
            for value in (None, "Bearer wrong", "Bearer secret-ke", "Bearer secret-keyy", "Bearer", "Bearer ", "secret-key",
                          "Basic secret-key", "Digest secret-key", "Bearer SECRET-KEY"):
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
        done = subprocess.run([server.PROGRAM, "serve", str(WORDS), "--port", "0", "--host", "0.0.0.0"], capture_output=True, timeout=server.PATIENCE)
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
            response = each.get("/v1/models", Origin="https://friend.example")
            self.assertEqual(response.status, 200)
            self.assertEqual(response.headers.get("access-control-allow-origin"), "https://friend.example")
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
                response = each.post("/v1/completions", body)
                self.check(response, 400, "invalid_request_error")
                self.assertEqual(response.error["param"], "prompt")
            self.assertEqual(each.post("/v1/completions", {"prompt": "x" * 100, "max_tokens": 1}).status, 200)

    def test_queue(self):
        """One request runs, one waits, and the third gets the header Retry-After."""
        with Server(WORDS, "--slots", 1, "--queue", 1) as each:
            endless = {"prompt": "le", "max_tokens": server.ENDLESS, "ignore_eos": True}
            with each.stream("/v1/completions", endless) as running:
                next(running)
                waiting = each.connect()
                each.send(waiting, "POST", "/v1/completions", {"prompt": "le chat", "temperature": 0}, None)
                wait_until(lambda: each.waiting() == 1, "a request waits")
                response = each.post("/v1/completions", {"prompt": "le"})
                self.check(response, 429, "rate_limit_error")
                self.assertTrue(response.headers["retry-after"].isdigit(), response.headers)
                self.assertEqual(each.get("/health").status, 200)
                self.assertEqual(each.post("/v1/tokenize", {"prompt": "le"}).status, 200)
            text = server.Response(waiting.getresponse()).json["choices"][0]["text"]
            waiting.close()
            self.assertEqual(text, greedy(WORDS, "le chat", 16))
            wait_until(lambda: each.running() == 0 and each.waiting() == 0, "the slot is free")
            self.assertEqual(each.post("/v1/completions", {"prompt": "le"}).status, 200)

    def test_timeout(self):
        with Server(WORDS, "--timeout", 1) as each:
            self.check(each.post("/v1/completions", {"prompt": "le", "max_tokens": server.ENDLESS}), 408, "timeout_error")
            connection = each.connect()
            each.send(connection, "POST", "/v1/completions", {"prompt": "le", "max_tokens": server.ENDLESS, "stream": True}, None)
            tail = connection.getresponse().read()[-1000:]
            connection.close()
            self.assertIn(b'data: {"error":', tail.replace(b'"error" :', b'"error":'))
            wait_until(lambda: each.running() == 0, "the slot is free")


if __name__ == "__main__":
    unittest.main()
