"""bochner serve: greedy responses do not depend on other requests.

Each response equals the text of `bochner generate --greedy`, alone and among 64 requests at the same time (short and long ones,
streamed and not, several choices, states), in every repetition. Log probabilities in batches agree with those alone to 1e-4."""
import random, unittest
import server
from server import Server, greedy, parallel, wait_until

CLOSE = 1e-4  # as in interface.py: batches round differently


def mixed_requests(count, kinds, generator):
    """Requests as (prompt, tokens, function that sends it to a server and returns the text)."""
    requests = []
    for i in range(count):
        prompt = server.sentences(40)[generator.randrange(50):][:generator.choice([1, 5, 30, 200, 700])]
        tokens = generator.choice([1, 2, 17, 60, 150])

        def plain(each, prompt=prompt, tokens=tokens):
            return each.text(prompt, max_tokens=tokens, temperature=0)

        def streamed(each, prompt=prompt, tokens=tokens):
            events = each.events("/v1/completions", {"prompt": prompt, "max_tokens": tokens, "temperature": 0})
            return "".join(event["choices"][0]["text"] for event in events)

        def several(each, prompt=prompt, tokens=tokens):
            texts = {choice["text"] for choice in each.complete(prompt, n=3, max_tokens=tokens, temperature=0)["choices"]}
            assert len(texts) == 1, "choices differ: %s" % texts
            return texts.pop()

        def from_state(each, prompt=prompt, tokens=tokens):
            half = len(prompt) // 2
            if not half:
                return each.text(prompt, max_tokens=tokens, temperature=0)
            state = each.json("/v1/states", {"prompt": prompt[:half]})["id"]
            text = each.text(prompt[half:], state=state, max_tokens=tokens, temperature=0)
            assert each.request("DELETE", "/v1/states/" + state).status == 200
            return text

        def in_parts(each, prompt=prompt, tokens=tokens):
            text, state = "", None
            for part in range(2):
                choice = each.complete("" if part else prompt, state=state, max_tokens=max(1, tokens // 2), temperature=0,
                                       return_state=True)["choices"][0]
                state = {"data": choice["state"]["data"]}
                text += choice["text"]
            return text

        send = [plain, streamed, several, in_parts, from_state][i % kinds]
        if send is in_parts:
            tokens = 2 * max(1, tokens // 2)
        requests.append((prompt, tokens, send))
    return requests


class Greedy(unittest.TestCase):
    def check(self, model, count, *options, kinds=5):
        generator = random.Random(5)
        requests = mixed_requests(count, kinds, generator)
        reference = {(prompt, tokens): greedy(model, prompt, tokens) for prompt, tokens, _ in requests}
        with Server(model, *options) as each:
            for prompt, tokens, send in requests[:10]:
                self.assertEqual(send(each), reference[prompt, tokens], "alone: %s" % send.__name__)
            for repetition in range(2):
                found = parallel([lambda send=send: send(each) for _, _, send in requests])
                for (prompt, tokens, send), text in zip(requests, found):
                    self.assertEqual(text, reference[prompt, tokens], "%s, %d tokens, repetition %d: %r" %
                                     (send.__name__, tokens, repetition, prompt[:40]))
                generator.shuffle(requests)
            wait_until(lambda: each.running() == each.waiting() == 0, "nothing runs")

    def test_features(self):
        self.check(server.words(), 64)

    def test_softmax(self):
        self.check(server.exact(), 32, "--slots", 5, "--context", 1000)

    def test_one_thread_without_cache(self):
        self.check(server.train("words1", "--features", 16), 16, "--threads", 1, "--cache-bytes", 1, kinds=4)

    def test_small_cache(self):
        """Cached prefixes are evicted while other requests use them."""
        self.check(server.train("words2", "--features", 16), 32, "--cache-bytes", 30_000, "--slots", 7, kinds=4)

    def test_log_probabilities(self):
        """Scores of 24 prompts in one batch, of the same prompts one by one, and of `bochner eval`."""
        model = server.train("scored", "--features", 16)
        text = server.sentences(100)
        prompts = [text[17 * i:17 * i + 3 + 11 * i] for i in range(24)]
        body = {"max_tokens": 5, "echo": True, "logprobs": 1, "temperature": 0}
        with Server(model) as each:
            together = [choice["logprobs"]["token_logprobs"] for choice in each.complete(prompts, **body)["choices"]]
            alone = [each.complete(prompt, **body)["choices"][0]["logprobs"]["token_logprobs"] for prompt in prompts]
            again = parallel([lambda prompt=prompt: each.complete(prompt, **body)["choices"][0]["logprobs"]["token_logprobs"]
                              for prompt in prompts])
        for prompt, values in zip(prompts, zip(together, alone, again)):
            tokens = list(prompt.encode())
            rows = [server.log_softmax(row) for row in server.logits(model, tokens)]
            for series in values:
                self.assertEqual(len(series), len(tokens) + 5)
                self.assertIs(series[0], None)
                for i in range(1, len(tokens)):
                    self.assertLess(abs(series[i] - rows[i - 1][tokens[i]]), CLOSE)
                for found, expected in zip(series[1:], values[1][1:]):
                    self.assertLess(abs(found - expected), CLOSE)


if __name__ == "__main__":
    unittest.main()
