"""bochner serve: states with NaN or infinity, or that lead to them, affect only their sender."""
import array, base64, math, unittest
import server
from server import Server, forge, parallel


def setUpModule():
    global MODELS
    MODELS = [server.words(), server.exact(), server.train("gated", "--attention", "delta")]


def with_numbers(value):
    """Replaces numbers of a layer, but not what looks like a header."""
    def change(_, data):
        numbers = array.array("f", data)
        for i in range(16, len(numbers)):
            if numbers[i] != 0 and math.isfinite(numbers[i]) and abs(numbers[i]) > 1e-3:
                numbers[i] = math.copysign(value, numbers[i])
        return numbers.tobytes()
    return change


def state_of(each, prompt):
    return each.get("/v1/states/" + each.json("/v1/states", {"prompt": prompt})["id"]).body


class Forged(unittest.TestCase):
    def test_not_finite(self):
        """Refused when they are uploaded, as damaged ones are."""
        for model in MODELS:
            with Server(model) as each:
                state = state_of(each, "le chat boit")
                self.assertEqual(each.request("PUT", "/v1/states/same", forge(state, lambda _, data: data)).status, 200)
                for value in (math.nan, math.inf):
                    bad = forge(state, with_numbers(value))
                    response = each.request("PUT", "/v1/states/bad", bad)
                    self.assertEqual((response.status, response.error["param"]), (400, "state"), "%s %g: %r" % (model, value, response))
                    self.assertEqual(each.get("/v1/states/bad").status, 404)
                    response = each.post("/v1/completions", {"state": {"data": base64.b64encode(bad).decode()}, "max_tokens": 2})
                    self.assertEqual((response.status, response.error["param"]), (400, "state"), response)

    def test_overflow(self):
        """Finite numbers that overflow in a step end only their text. The other texts in the batch have the bits of a batch without it."""
        for model in MODELS:
            with Server(model, "--slots", 8, "--context", 500) as each:
                huge = forge(state_of(each, "le chat boit"), with_numbers(3e38))
                prompts = ["le chat ", "la vache ", "le 日本", "x"]
                body = {"max_tokens": 400, "temperature": 0}
                expected = [each.text(prompt, **body) for prompt in prompts]
                working = set(prompts)

                def work(prompt):
                    responses = [each.post("/v1/completions", {"prompt": prompt, **body}) for _ in range(5)]
                    working.remove(prompt)
                    return responses

                def attack():
                    found = []
                    while working:
                        found.append(each.post("/v1/completions", {"state": {"data": base64.b64encode(huge).decode()}, "max_tokens": 50,
                                                                   "ignore_eos": True}))
                    return found

                responses = parallel([lambda p=p: work(p) for p in prompts] + [attack])
                for each_responds, text in zip(responses, expected):
                    for response in each_responds:
                        self.assertEqual(response.status, 200, response)
                        self.assertEqual(response.json["choices"][0]["text"], text)
                self.assertTrue(responses[-1])
                for response in responses[-1]:
                    self.assertEqual((response.status, response.error["param"]), (400, "state"), "%s: %r" % (model, response))
                for prompt, text in zip(prompts, expected):  # nor is the cache harmed
                    self.assertEqual(each.text(prompt, **body), text)

    def test_kept(self):
        """A state with NaN or infinity is neither kept nor returned; its text is not lost."""
        with Server(server.train("ssm", "--mixer", "ssm", steps=3)) as each:
            huge = {"data": base64.b64encode(forge(state_of(each, "le chat boit"), with_numbers(3e38))).decode()}
            for prompt in ("", "abc" * 30):
                response = each.post("/v1/states", {"state": huge, "prompt": prompt or "a"})
                self.assertEqual((response.status, response.error["param"]), (400, "state"), response)
                for return_state in ("id", True):
                    response = each.post("/v1/completions", {"state": huge, "prompt": prompt, "max_tokens": 1, "return_state": return_state})
                    if response.status == 200:
                        self.assertIn("NaN or infinity", response.json["choices"][0]["state"]["error"]["message"])
                    else:
                        self.assertEqual((response.status, response.error["param"]), (400, "state"), response)
            self.assertEqual(each.metrics()["bochner_kept_states"], 1)  # the one that was forged


if __name__ == "__main__":
    unittest.main()
