"""bochner serve: requests of known clients, with recorded bytes and headers, and the required contents of the responses; and curl,
where it is installed.

recorded/CLIENT.json has the requests of the openai package, LangChain and lm-eval to a model named `words`. An expectation is a path
of members and indexes separated by periods, and a value, or the name of a type after `type:`, a length after `length:` or a regular
expression after `matches:`."""
import json, pathlib, re, shutil, subprocess, unittest
import server
from server import Server

KEY = "secret-key"
TYPES = {"text": str, "number": (int, float), "integer": int, "list": list, "object": dict, "null": type(None)}


def setUpModule():
    global main
    path = server.DIRECTORY / "key"
    path.write_text(KEY)
    main = Server(server.words(), "--api-key-file", path)
    main.key = KEY


def tearDownModule():
    main.stop()


def find(value, path):
    for step in path.split(".") if path else []:
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


def send(request):
    """The bytes of the request on a new connection; returns status, headers and body."""
    body = request["body"].encode() if request["body"] else b""
    lines = ["%s %s HTTP/1.1" % (request["method"], request["path"])]
    for name, value in request["headers"]:
        if name.lower() == "host":
            value = "127.0.0.1:%d" % main.port
        if name.lower() == "content-length":
            value = str(len(body))
        lines.append("%s: %s" % (name, value))
    connection = main.connect()
    connection.connect()
    connection.sock.sendall("\r\n".join(lines + ["", ""]).encode() + body)
    raw = connection.response_class(connection.sock, method=request["method"])
    raw.begin()
    response = server.Response(raw)
    connection.close()
    return response


class Recorded(unittest.TestCase):
    def check(self, value, expectations):
        for path, expected in expectations.items():
            try:
                found = find(value, path)
            except (KeyError, IndexError, TypeError):
                self.fail("no %s in %s" % (path, json.dumps(value)[:500]))
            if isinstance(expected, str) and expected.startswith("type:"):
                self.assertIsInstance(found, TYPES[expected[5:]], path)
            elif isinstance(expected, str) and expected.startswith("length:"):
                self.assertEqual(len(found), int(expected[7:]), path)
            elif isinstance(expected, str) and expected.startswith("matches:"):
                self.assertRegex(found, re.compile(expected[8:]), path)
            else:
                self.assertEqual(found, expected, path)

    def replay(self, client):
        for request in json.loads((pathlib.Path(__file__).parent / "recorded" / (client + ".json")).read_text(encoding="utf-8")):
            with self.subTest(request["what"]):
                response = send(request)
                self.assertEqual(response.status, request["status"], response)
                if "events" in request:
                    self.assertEqual(response.headers["content-type"].split(";")[0], "text/event-stream")
                    events = [part[6:] for part in response.body.decode().split("\n\n") if part]
                    self.assertEqual(events.pop(), "[DONE]")
                    events = [json.loads(event) for event in events]
                    self.check(events[0], request["events"]["first"])
                    self.check(events[-1], request["events"]["last"])
                else:
                    self.check(response.json, request["answer"])

    def test_openai(self):
        self.replay("openai")

    def test_langchain(self):
        self.replay("langchain")

    def test_lm_eval(self):
        self.replay("lm-eval")


@unittest.skipUnless(shutil.which("curl"), "curl is not installed")
class Curl(unittest.TestCase):
    def curl(self, path, *options, text=None):
        done = subprocess.run(["curl", "--silent", "--show-error", "--noproxy", "*", "--max-time", str(server.PATIENCE), "-H",
                               "Authorization: Bearer " + KEY, *options, "http://127.0.0.1:%d%s" % (main.port, path)],
                              input=text, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_plain(self):
        self.assertEqual(json.loads(self.curl("/v1/models"))["data"][0]["id"], "words")
        body = '{"prompt": "le chat", "max_tokens": 4, "temperature": 0}'
        expected = main.text("le chat", max_tokens=4, temperature=0)
        for options in ((), ("--http1.0",), ("--compressed",), ("-H", "Content-Type: application/json")):  # else a form, the default of -d
            self.assertEqual(json.loads(self.curl("/v1/completions", "-d", body, *options))["choices"][0]["text"], expected)

    def test_stream(self):
        text = self.curl("/v1/completions", "-N", "-d", '{"prompt": "le chat", "max_tokens": 4, "stream": true}').decode()
        self.assertTrue(text.startswith("data: {") and text.endswith("data: [DONE]\n\n"), text)

    def test_large_body(self):
        """curl waits for 100 Continue before it sends more than a megabyte."""
        body = json.dumps({"prompt": "le", "user": "x" * 2_000_000}).encode()
        self.assertEqual(json.loads(self.curl("/v1/tokenize", "--data-binary", "@-", text=body))["count"], 2)

    def test_states(self):
        state = json.loads(self.curl("/v1/states", "-d", '{"prompt": "le chat"}'))
        path = server.DIRECTORY / "here.state"
        self.curl("/v1/states/" + state["id"], "-o", str(path))
        self.assertEqual(path.stat().st_size, state["bytes"])
        self.assertEqual(json.loads(self.curl("/v1/states/copy", "-T", str(path)))["tokens"], 7)
        self.assertIs(json.loads(self.curl("/v1/states/copy", "-X", "DELETE"))["deleted"], True)


if __name__ == "__main__":
    unittest.main()
