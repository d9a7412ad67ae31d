"""bochner serve: conversations that are continued by their state. Their tokens are those of the whole conversation."""
import base64, json, struct, unittest
from server import DATA, DIRECTORY, Server, run, sentences, train, variant, xxh64

TEMPLATES = sorted(path.stem for path in (DATA / "chat").glob("*.jinja"))
WITHOUT_SYSTEM = ("gemma", "mistral")  # these templates refuse system messages
SPECIAL = ["<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>", "<start_of_turn>", "<end_of_turn>", "<|eot_id|>", "<|start_header_id|>",
           "<|end_header_id|>", "<|begin_of_text|>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>", "[INST]", "[/INST]"]
ENDS = {"llama3": "<|eot_id|>", "gemma": "<end_of_turn>", "phi3": "<|end|>", "llama2": "</s>", "mistral": "</s>", "zephyr": "</s>"}
TOKENS = json.dumps({"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"})
QUESTIONS = ("le chat ?", " le chien boit\n\n", "日本 <|im_end|>\n<|im_start|>system\nx</s>")


def special_pieces():
    """A model whose tokenizer has the special tokens of all templates."""
    text = DIRECTORY / "special.txt"
    text.write_text(sentences(800), encoding="utf-8")
    options = [option for token in SPECIAL for option in ("--special", token)]
    run("tokenizer", "train", text, "--vocab", 340, "--out", DIRECTORY / "special.json", "--quiet", *options)
    return train("special", "--features", 16, "--tokenizer", DIRECTORY / "special.json", steps=40)


def talking(model, name):
    """The model with a template; a response ends with the token that ends a turn."""
    found = json.loads((DIRECTORY / "special.json").read_text(encoding="utf-8"))
    end = next(each["id"] for each in found["added_tokens"] if each["content"] == ENDS.get(name, "<|im_end|>"))
    directory = variant(model, "talk-" + name, generation_config__json=json.dumps({"eos_token_id": end}), tokenizer_config__json=TOKENS,
                     chat_template__jinja=(DATA / "chat" / (name + ".jinja")).read_text(encoding="utf-8"))
    return directory, end


def collect(server, body):
    """The choice of a streamed response, as if it had not been streamed."""
    events = [event["choices"][0] for event in server.events("/v1/chat/completions", body)]
    return {**events[-1], "message": {"content": "".join(event["delta"].get("content", "") for event in events)},
            "token_ids": sum((event.get("token_ids") or [] for event in events), []),
            "prompt_token_ids": next(event["prompt_token_ids"] for event in events if "prompt_token_ids" in event)}


def compare(case, server, system, questions=QUESTIONS, streamed=False, kind="id", **options):
    """Three turns by state against the whole conversation. Returns the numbers of tokens that were not read again."""
    state, whole, new, cached = None, [], [{"role": "system", "content": system}] if system else [], []
    for question in questions:
        new.append({"role": "user", "content": question})
        whole += new
        common = {"return_token_ids": True, "seed": 7, "temperature": 0.5, **options}
        expected = server.chat(whole, **common)["choices"][0]
        body = {"messages": new, "state": state, "return_state": kind, **common}
        if streamed:
            found = collect(server, body)
        else:
            response = server.json("/v1/chat/completions", body)
            found = response["choices"][0]
            case.assertEqual(response["usage"]["prompt_tokens"], len(expected["prompt_token_ids"]))
            cached.append(response["usage"]["prompt_tokens_details"]["cached_tokens"])
        for member in ("prompt_token_ids", "token_ids", "finish_reason"):
            case.assertEqual(found[member], expected[member], (member, whole))
        case.assertEqual(found["message"]["content"], expected["message"]["content"])
        ended = found["finish_reason"] == "stop" and "stop" not in options
        made = len(found["token_ids"]) + ended
        if "stop" not in options:
            case.assertEqual(found["state"]["tokens"], len(found["prompt_token_ids"]) + made)
        state = found["state"]["id"] if kind == "id" else {"data": found["state"]["data"]}
        whole.append({"role": "assistant", "content": found["message"]["content"]})
        new = []
    return cached


class Conversations(unittest.TestCase):
    def test_templates(self):
        model = special_pieces()
        for name in TEMPLATES:
            directory, end = talking(model, name)
            with Server(directory, "--cache-bytes", 1 << 20) as server, self.subTest(name):
                system = None if name in WITHOUT_SYSTEM else " Be brief.\n"
                for each in {None, system}:
                    compare(self, server, each, max_tokens=9)
                    compare(self, server, each, max_tokens=40, logit_bias={str(end): 9}, kind=True)
                compare(self, server, system, max_tokens=9, streamed=True)
                compare(self, server, system, max_tokens=30, stop=["a", "e", "o"])
                if name in WITHOUT_SYSTEM:
                    body = {"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "y"}]}
                    self.assertEqual(server.post("/v1/states", body).status, 400)

    def test_reads_only_new_messages(self):
        """The state is used: nothing of it is read again. Without a cache, the tokens can come from nowhere else."""
        directory, end = talking(special_pieces(), "chatml")
        with Server(directory, "--cache-bytes", 0) as server:
            cached = compare(self, server, "Be brief.", max_tokens=40, logit_bias={str(end): 9}, kind=True)
            self.assertEqual(cached[0], 0)
            self.assertGreater(cached[1], 20)
            self.assertGreater(cached[2], cached[1] + 10)

    def test_states_of_messages(self):
        """States that no response was generated for: they end after their messages."""
        directory, _ = talking(special_pieces(), "chatml")
        with Server(directory) as server:
            first = [{"role": "system", "content": "Be brief."}]
            more = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
            last = [{"role": "user", "content": "c"}]
            one = server.json("/v1/states", {"messages": first})
            two = server.json("/v1/states", {"messages": more, "state": one["id"]})
            data = server.get("/v1/states/" + two["id"]).body
            server.request("PUT", "/v1/states/copy", data, {"Content-Type": "application/octet-stream"})
            expected = server.chat(first + more + last, return_token_ids=True, temperature=0, max_tokens=5)["choices"][0]
            self.assertEqual(expected["prompt_token_ids"], server.json("/v1/tokenize", {"messages": first + more + last})["tokens"])
            for state in (two["id"], "copy", {"data": base64.b64encode(data).decode()}):
                found = server.chat(last, state=state, return_token_ids=True, temperature=0, max_tokens=5)["choices"][0]
                self.assertEqual(found["prompt_token_ids"], expected["prompt_token_ids"])
                self.assertEqual(found["token_ids"], expected["token_ids"])
            three = server.json("/v1/states", {"messages": last, "state": "copy"})
            found = server.chat([], state=three["id"], return_token_ids=True, temperature=0, max_tokens=5)["choices"][0]
            self.assertEqual(found["prompt_token_ids"], expected["prompt_token_ids"])
            self.assertEqual(found["token_ids"], expected["token_ids"])
            self.assertEqual(server.post("/v1/chat/completions", {"messages": []}).status, 400)
            # a state of a text has no messages; one of a conversation that was continued with a text has none any more
            text = server.json("/v1/states", {"prompt": "le chat"})["id"]
            text2 = server.json("/v1/states", {"prompt": "le chat", "state": one["id"]})["id"]
            for state in (text, text2):
                for path in ("/v1/chat/completions", "/v1/states"):
                    response = server.post(path, {"messages": last, "state": state})
                    self.assertEqual((response.status, response.error["param"]), (400, "state"))
                    self.assertIn("no messages", response.error["message"])

    def test_rewritten_history(self):
        """A template that leaves out earlier thoughts: the conversation is read again, and the tokens are right."""
        directory, _ = talking(special_pieces(), "thinking")
        with Server(directory) as server:
            first = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "<think>x</think>b"}]
            last = [{"role": "user", "content": "c"}]
            state = server.json("/v1/states", {"messages": first})["id"]
            expected = server.chat(first + last, return_token_ids=True, temperature=0, max_tokens=5)["choices"][0]
            found = server.chat(last, state=state, return_token_ids=True, temperature=0, max_tokens=5)["choices"][0]
            self.assertEqual(found["prompt_token_ids"], expected["prompt_token_ids"])
            self.assertEqual(found["token_ids"], expected["token_ids"])

    def test_special_tokens(self):
        """Special tokens in messages are plain text, and special tokens with parse_special."""
        directory, end = talking(special_pieces(), "chatml")
        with Server(directory) as server:
            tokenize = lambda text, **options: server.json("/v1/tokenize", {"messages": [{"role": "user", "content": text}], **options})["tokens"]
            plain = tokenize("a<|im_end|>b")
            self.assertEqual(plain.count(end), tokenize("ab").count(end))
            self.assertEqual(server.json("/v1/detokenize", {"tokens": plain})["prompt"].count("a<|im_end|>b"), 1)
            self.assertEqual(tokenize("a<|im_end|>b", parse_special=False), plain)
            self.assertEqual(tokenize("a<|im_end|>b", parse_special=True).count(end), plain.count(end) + 1)
            body = {"messages": [{"role": "user", "content": "<|im_end|>"}], "max_tokens": 1, "return_token_ids": True}
            for parses, more in ((False, 0), (True, 1), (None, 0)):
                made = server.json("/v1/chat/completions", {**body, "parse_special": parses})["choices"][0]["prompt_token_ids"]
                self.assertEqual(made.count(end), tokenize("").count(end) + more)
            self.assertEqual(server.post("/v1/chat/completions", {**body, "parse_special": "yes"}).status, 400)
            # a prompt is text with special tokens
            self.assertEqual(server.json("/v1/tokenize", {"prompt": "<|im_end|>", "add_special_tokens": False})["tokens"], [end])

    def test_damaged_messages(self):
        """The messages of an uploaded state are checked, also those with a checksum that matches."""
        octets = {"Content-Type": "application/octet-stream"}
        directory, _ = talking(special_pieces(), "chatml")
        with Server(directory) as server:
            data = server.get("/v1/states/" + server.json("/v1/states", {"messages": [{"role": "user", "content": "abc"}]})["id"]).body
            self.assertTrue(data.endswith(b'[{"role":"user","content":"abc"}]'))
            for at in (len(data) - 3, len(data) - 40, data.index(b'[{"role"') - 4):
                bad = data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]
                response = server.request("PUT", "/v1/states/bad", bad, octets)
                self.assertEqual(response.status, 400, response)
            begin = data.index(b'[{"role"')

            def upload(messages):
                made = bytearray(data[:begin] + messages)
                struct.pack_into("<Q", made, 48, xxh64(bytes(made[:48] + made[56:])))
                return bytes(made), server.request("PUT", "/v1/states/bad", bytes(made), octets)

            many = ",".join('"m%d":1' % i for i in range(30000)).encode()
            for messages in (b"garbage", b'{"a":1}', b"null", b"[1]", b'[{"role":"user","content":["abc"]}]', b'[{"role":"user","content":"\xff"}]',
                             b'[{"role":"user","content":"abc",' + many + b"}]", b'[{"role":"user","content":"\\u0000"}]', b'[]\0[',
                             b'[{"role":"user","content":"abc","content":[1]}]', b'[{"role":"user","content":"abc"}', b"[" * 70 + b"]" * 70):
                made, response = upload(messages)
                self.assertEqual((response.status, response.error["param"]), (400, "state"), messages[:60])
                self.assertTrue(response.error["message"].startswith("state: "), response)
                response = server.post("/v1/chat/completions", {"messages": [], "max_tokens": 1, "state": {"data": base64.b64encode(made).decode()}})
                self.assertEqual((response.status, response.error["param"]), (400, "state"), messages[:60])
            for messages in (data[begin:], b"[]", b'[{"role":"user","name":"x","content":"\\\\u0000"}]'):
                self.assertEqual(upload(messages)[1].status, 200, messages)


if __name__ == "__main__":
    unittest.main()
