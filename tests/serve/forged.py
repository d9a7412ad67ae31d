"""bochner serve: states with numbers that are not finite, or lead to such numbers, harm nobody but their sender."""
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
                    answer = each.request("PUT", "/v1/states/bad", bad)
                    self.assertEqual((answer.status, answer.error["param"]), (400, "state"), "%s %g: %r" % (model, value, answer))
                    self.assertEqual(each.get("/v1/states/bad").status, 404)
                    answer = each.post("/v1/completions", {"state": {"data": base64.b64encode(bad).decode()}, "max_tokens": 2})
                    self.assertEqual((answer.status, answer.error["param"]), (400, "state"), answer)

    def test_overflow(self):
        """Finite numbers that overflow in a step end their text alone. The others in the batch have the bits of a batch without it."""
        for model in MODELS:
            with Server(model, "--slots", 8, "--context", 500) as each:
                huge = forge(state_of(each, "le chat boit"), with_numbers(3e38))
                prompts = ["le chat ", "la vache ", "le 日本", "x"]
                body = {"max_tokens": 400, "temperature": 0}
                expected = [each.text(prompt, **body) for prompt in prompts]
                working = set(prompts)

                def work(prompt):
                    answers = [each.post("/v1/completions", {"prompt": prompt, **body}) for _ in range(5)]
                    working.remove(prompt)
                    return answers

                def attack():
                    found = []
                    while working:
                        found.append(each.post("/v1/completions", {"state": {"data": base64.b64encode(huge).decode()}, "max_tokens": 50,
                                                                   "ignore_eos": True}))
                    return found

                answers = parallel([lambda p=p: work(p) for p in prompts] + [attack])
                for each_answers, text in zip(answers, expected):
                    for answer in each_answers:
                        self.assertEqual(answer.status, 200, answer)
                        self.assertEqual(answer.json["choices"][0]["text"], text)
                self.assertTrue(answers[-1])
                for answer in answers[-1]:
                    self.assertEqual((answer.status, answer.error["param"]), (400, "state"), "%s: %r" % (model, answer))
                for prompt, text in zip(prompts, expected):  # nor is the cache harmed
                    self.assertEqual(each.text(prompt, **body), text)

    def test_kept(self):
        """A state whose numbers are not finite is neither kept nor returned; a text is not lost for that."""
        with Server(server.train("ssm", "--mixer", "ssm", steps=3)) as each:
            huge = {"data": base64.b64encode(forge(state_of(each, "le chat boit"), with_numbers(3e38))).decode()}
            for prompt in ("", "abc" * 30):
                answer = each.post("/v1/states", {"state": huge, "prompt": prompt or "a"})
                self.assertEqual((answer.status, answer.error["param"]), (400, "state"), answer)
                for wish in ("id", True):
                    answer = each.post("/v1/completions", {"state": huge, "prompt": prompt, "max_tokens": 1, "return_state": wish})
                    if answer.status == 200:
                        self.assertRegex(answer.json["choices"][0]["state"]["error"]["message"], "not finite|NaN")
                    else:
                        self.assertEqual((answer.status, answer.error["param"]), (400, "state"), answer)
            self.assertEqual(each.metrics()["bochner_kept_states"], 1)  # the one that was forged


if __name__ == "__main__":
    unittest.main()
