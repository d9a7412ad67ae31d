"""bochner serve against its own description: src/serve/openapi.json is valid OpenAPI 3.1, and schemathesis sends bodies that follow it
and bodies that do not. Valid ones are accepted, others refused with 4xx, and every response has a status, type and shape that the
description states.

The description holds for every model. Before the requests are made, the tokens are limited to the vocabulary of the tiny model, and
sizes that only cost time (max_tokens, n, lists) are made small. The numbers are fixed by a seed."""
import json, pathlib, subprocess, sys, unittest
import server
from server import Server

try:
    import openapi_spec_validator, schemathesis  # pylint: disable=unused-import
except ImportError as error:
    print("skipped: %s" % error)
    sys.exit(77)

EXAMPLES = 40  # per operation
DESCRIPTION = json.loads((server.SOURCE / "src/serve/openapi.json").read_text(encoding="utf-8"))


def setUpModule():
    global main
    model = server.variant(server.words(), "chatty", chat_template__jinja=server.TEMPLATE)  # conversations need one for states
    main = Server(model, "--cache-bytes", 100_000_000)


def tearDownModule():
    main.stop()


def reduced():
    """The description for the tiny model."""
    found = json.loads(json.dumps(DESCRIPTION))
    schemas = found["components"]["schemas"]
    schemas["Token"]["maximum"] = 255
    generation = schemas["Generation"]["properties"]
    chat = schemas["ChatRequest"]["allOf"][1]["properties"]
    # Sizes, not limits: larger values are accepted, so they must not count as negative examples.
    generation["max_tokens"] = {"enum": [0, 1, 5, None]}
    chat["max_completion_tokens"] = {"enum": [0, 1, 5, None]}
    generation["n"] = {"enum": [1, 3, None]}
    generation["logit_bias"]["patternProperties"] = {"^(0|[1-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])$":
                                                     {"type": "number", "minimum": -100, "maximum": 100}}
    schemas["EmbeddingRequest"]["properties"]["dimensions"] = {"enum": [16, None]}
    schemas["StateReference"]["anyOf"].pop(1)  # random bytes are no state
    schemas["CompletionRequest"]["allOf"][1]["properties"]["best_of"] = {"enum": [1, None]}  # or the value of n
    for name in ("CompletionRequest", "ChatRequest"):  # schemathesis does not know unevaluatedProperties
        own = schemas[name]["allOf"][1]
        schemas[name] = {**own, "properties": {**generation, **own["properties"]}, "additionalProperties": False}
    return found


class Description(unittest.TestCase):
    def test_valid(self):
        openapi_spec_validator.validate(DESCRIPTION)

    def test_served(self):
        self.assertEqual(main.get("/openapi.json").json, DESCRIPTION)

    def test_requests(self):
        """Statuses, types, headers and shapes of the responses; valid requests are accepted, invalid requests and other methods refused."""
        directory = server.DIRECTORY / "schemathesis"
        directory.mkdir()
        path = directory / "openapi.json"
        (directory / "schemathesis.toml").write_text("""
[checks]
ignored_auth.enabled = false  # the server has no key
[[operations]]
include-name = "PUT /v1/states/{id}"
checks.positive_data_acceptance.enabled = false  # random bytes are no state
""")
        path.write_text(json.dumps(reduced()), encoding="utf-8")
        done = subprocess.run(
            [pathlib.Path(sys.executable).parent / "schemathesis", "run", path, "--url", "http://127.0.0.1:%d" % main.port,
             "--phases", "examples,coverage,fuzzing", "--mode", "all",
             "--max-examples", str(EXAMPLES), "--seed", "1", "--generation-deterministic", "--generation-allow-x00", "false",
             "--suppress-health-check", "all", "--request-timeout", str(server.PATIENCE), "--no-color",
             "--warnings", "off", "--continue-on-failure"],
            capture_output=True, text=True, cwd=directory)
        self.assertEqual(done.returncode, 0, done.stdout[:100000] + done.stderr[-2000:])
        self.assertEqual(main.running(), 0)


if __name__ == "__main__":
    unittest.main()
