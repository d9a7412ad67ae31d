"""bochner serve with the official `openai` package, unmodified: completions, conversations, streams, log probabilities, embeddings,
models, and errors as its exceptions."""
import asyncio, sys, threading, time, unittest
import server
from server import Server, greedy

try:
    import openai
except ImportError as error:
    print("skipped: %s" % error)
    sys.exit(77)


def setUpModule():
    global WORDS, main, client
    WORDS = server.words()
    (server.DIRECTORY / "key").write_text("secret-key")
    main = Server(WORDS, "--api-key-file", server.DIRECTORY / "key", "--cache-bytes", 200_000)
    main.key = "secret-key"
    client = openai.OpenAI(base_url="http://127.0.0.1:%d/v1" % main.port, api_key="secret-key", max_retries=0, timeout=server.PATIENCE)


def tearDownModule():
    client.close()
    main.stop()


TALK = [{"role": "user", "content": "le chat ?"}]


class Client(unittest.TestCase):
    def test_models(self):
        (model,) = client.models.list().data
        self.assertEqual((model.id, model.owned_by, model.object), ("words", "bochner", "model"))
        self.assertEqual(client.models.retrieve("words").bochner["vocab"], 256)
        with self.assertRaises(openai.NotFoundError):
            client.models.retrieve("other")

    def test_completions(self):
        done = client.completions.create(model="words", prompt="le chat", max_tokens=30, temperature=0)
        self.assertEqual(done.choices[0].text, greedy(WORDS, "le chat", 30))
        self.assertEqual((done.choices[0].finish_reason, done.object), ("length", "text_completion"))
        self.assertEqual((done.usage.prompt_tokens, done.usage.completion_tokens, done.usage.total_tokens), (7, 30, 37))
        self.assertGreaterEqual(done.usage.prompt_tokens_details.cached_tokens, 0)
        done = client.completions.create(model="words", prompt=["le", "la"], n=2, seed=3, stop=["\n", "zz"], max_tokens=8,
                                         frequency_penalty=0.5, presence_penalty=0.1, top_p=0.9, logit_bias={"120": 5}, user="me",
                                         extra_body={"top_k": 5, "min_p": 0.01, "repetition_penalty": 1.1, "return_token_ids": True})
        self.assertEqual([choice.index for choice in done.choices], [0, 1, 2, 3])
        self.assertTrue(all(choice.token_ids for choice in done.choices))

    def test_logprobs(self):
        done = client.completions.create(model="words", prompt="le chat", max_tokens=0, temperature=0, logprobs=2, echo=True)
        found = done.choices[0].logprobs
        self.assertEqual((done.choices[0].text, found.tokens), ("le chat", list("le chat")))
        self.assertIsNone(found.token_logprobs[0])
        self.assertTrue(all(value <= 0 for value in found.token_logprobs[1:]))
        self.assertEqual(found.text_offset, list(range(7)))
        talk = client.chat.completions.create(model="words", messages=TALK, max_completion_tokens=5, logprobs=True, top_logprobs=2)
        entries = talk.choices[0].logprobs.content
        self.assertEqual(len(entries), talk.usage.completion_tokens)
        self.assertTrue(all(len(entry.top_logprobs) == 2 and entry.bytes for entry in entries))

    def test_streams(self):
        text, last = "", None
        for event in client.completions.create(model="words", prompt="le 日本", max_tokens=40, temperature=0, stream=True,
                                               stream_options={"include_usage": True}):
            last = event
            text += event.choices[0].text if event.choices else ""
        self.assertEqual(text, greedy(WORDS, "le 日本", 40))
        self.assertEqual(last.usage.completion_tokens, 40)
        whole = client.chat.completions.create(model="words", messages=TALK, max_tokens=30, temperature=0).choices[0].message
        self.assertEqual(whole.role, "assistant")
        parts = list(client.chat.completions.create(model="words", messages=TALK, max_tokens=30, temperature=0, stream=True))
        self.assertEqual(parts[0].choices[0].delta.role, "assistant")
        self.assertEqual("".join(part.choices[0].delta.content or "" for part in parts), whole.content)
        self.assertIn(parts[-1].choices[0].finish_reason, ("stop", "length"))
        with client.chat.completions.stream(model="words", messages=TALK, max_tokens=30, temperature=0) as stream:
            parts = [event.delta for event in stream if event.type == "content.delta"]
            self.assertEqual("".join(parts), whole.content)

    def test_closed_stream(self):
        stream = client.completions.create(model="words", prompt="le", max_tokens=server.ENDLESS, stream=True)
        next(iter(stream))
        stream.close()
        server.wait_until(lambda: main.running() == 0, "the slot is free")

    def test_many_at_once(self):
        async def complete_all():
            async with openai.AsyncOpenAI(base_url="http://127.0.0.1:%d/v1" % main.port, api_key="secret-key", max_retries=0) as many:
                return await asyncio.gather(*(many.completions.create(model="words", prompt="le " * k, max_tokens=k, temperature=0)
                                              for k in range(1, 30)))
        for k, done in enumerate(asyncio.run(complete_all()), 1):
            self.assertEqual(done.choices[0].text, greedy(WORDS, "le " * k, k))

    def test_embeddings(self):
        coded = client.embeddings.create(model="words", input=["le chat", "le chien"])  # the package requests base64
        plain = client.embeddings.create(model="words", input=["le chat", "le chien"], encoding_format="float")
        self.assertEqual((len(coded.data), len(coded.data[0].embedding), coded.usage.prompt_tokens), (2, 16, 15))
        for one, two in zip(coded.data, plain.data):
            self.assertLess(max(abs(a - b) for a, b in zip(one.embedding, two.embedding)), 1e-6)

    def test_errors(self):
        def refused(kind, function, **arguments):
            with self.assertRaises(kind) as found:
                function(model="words", **arguments)
            return found.exception
        error = refused(openai.BadRequestError, client.completions.create, prompt="le", max_tokens=-1)
        self.assertEqual((error.status_code, error.type, error.param), (400, "invalid_request_error", "max_tokens"))
        refused(openai.BadRequestError, client.chat.completions.create, messages=[])
        refused(openai.BadRequestError, client.completions.create, prompt="le", n=0, stream=True)
        refused(openai.BadRequestError, client.embeddings.create, input="")
        refused(openai.NotFoundError, client.completions.create, prompt="le", extra_body={"state": "none"})
        refused(openai.AuthenticationError, client.with_options(api_key="wrong").completions.create, prompt="le")
        refused(openai.PermissionDeniedError, client.completions.create, prompt="le", extra_headers={"Origin": "http://evil.example"})
        refused(openai.NotFoundError, client.with_options(base_url="http://127.0.0.1:%d/v2" % main.port).completions.create, prompt="le")
        for _ in range(1000):  # a text is returned even if its state cannot be kept
            choice = client.completions.create(model="words", prompt="le", max_tokens=1, extra_body={"return_state": "id"}).choices[0]
            if "error" in choice.state:
                break
        self.assertEqual((choice.state["error"]["code"], choice.finish_reason), ("no_room", "length"))
        with self.assertRaises(openai.InternalServerError) as full:
            client.post("/states", body={"prompt": "le"}, cast_to=object)
        self.assertEqual(full.exception.status_code, 507)

    def test_full_queue(self):
        """RateLimitError without retries; with them, the package waits as Retry-After says and succeeds."""
        with Server(WORDS, "--slots", 1, "--queue", 1) as each:
            patient = openai.OpenAI(base_url="http://127.0.0.1:%d/v1" % each.port, api_key="none", max_retries=5)
            with each.stream("/v1/completions", {"prompt": "le", "max_tokens": server.ENDLESS}) as running:
                next(running)
                waiting = each.connect()
                each.send(waiting, "POST", "/v1/completions", {"prompt": "le"}, None)
                server.wait_until(lambda: each.waiting() == 1, "a request waits")
                with self.assertRaises(openai.RateLimitError):
                    patient.with_options(max_retries=0).completions.create(model="words", prompt="le")
                found = []
                thread = threading.Thread(target=lambda: found.append(
                    patient.completions.create(model="words", prompt="le", max_tokens=4, temperature=0).choices[0].text))
                thread.start()
                time.sleep(0.3)
            self.assertEqual(server.Response(waiting.getresponse()).status, 200)
            waiting.close()
            thread.join(server.PATIENCE)
            self.assertEqual(found, [greedy(WORDS, "le", 4)])
            patient.close()


if __name__ == "__main__":
    unittest.main()
