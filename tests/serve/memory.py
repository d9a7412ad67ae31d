"""bochner serve: the memory of slots. It is taken as texts grow, checked before the start, and given back."""
import re, resource, subprocess, unittest
import server
from server import Server, parallel

MEGABYTE = 1 << 20
CONTEXT = 1_000_000  # 256 bytes per token and slot: 64 slots of this length take 16 GB


def setUpModule():
    global EXACT
    EXACT = server.exact()


def bound(bytes_):
    """Limits the address space of the process that calls the result."""
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_))


def bounded(bytes_, *options, model=None):
    """Runs the server with a limit of its address space until it ends; returns its exit status and messages."""
    done = subprocess.run([server.PROGRAM, "serve", str(model or EXACT), "--port", "0", *map(str, options)], capture_output=True,
                          text=True, timeout=server.PATIENCE, preexec_fn=bound(bytes_))
    return done.returncode, done.stderr


def start_bounded(bytes_, *options, model=None):
    """A server with a limit of its address space."""
    return Server(model or EXACT, *options, prepare=bound(bytes_))


@unittest.skipIf(server.SANITIZED, "a sanitizer takes memory of its own")
class Memory(unittest.TestCase):
    def test_on_demand(self):
        """The default slots take what their texts need, and return it."""
        with Server(EXACT, "--context", CONTEXT, "--cache-bytes", MEGABYTE) as each:
            self.assertEqual(each.started["slots"], 64)
            self.assertGreater(each.started["slot_bytes"], 240 * MEGABYTE)
            self.assertRegex(each.stderr(), r"Memory +.* of weights")
            self.assertRegex(each.stderr(), r"Slots +64 texts at a time of at most 1,000,000 tokens; a text needs 256 bytes per token")
            before = each.rss()
            self.assertLess(before, 150 * MEGABYTE)
            prompt = "le chat " * 2500
            responses = parallel([lambda i=i: each.post("/v1/completions", {"prompt": "%d " % i + prompt, "max_tokens": 5}) for i in range(4)])
            self.assertEqual([response.status for response in responses], [200] * 4)
            self.assertLess(each.rss() - before, 64 * MEGABYTE)
            state = each.json("/v1/states", {"prompt": "le chat"})["id"]  # neither do states take the whole length
            self.assertEqual(each.post("/v1/completions", {"state": state, "prompt": " dort"}).status, 200)
            self.assertLess(each.rss() - before, 64 * MEGABYTE)

    def test_limits(self):
        """Slots that cannot fit are refused before the start, with the settings that fit."""
        status, output = bounded(1500 * MEGABYTE, "--context", CONTEXT, "--slots", 64)
        self.assertEqual(status, 1)
        self.assertRegex(output, r"--slots 64, of .* but the limit is .*ulimit -v.*; set --slots to at most [1-9]")
        status, output = bounded(1500 * MEGABYTE, "--context", 100 * CONTEXT)
        self.assertEqual(status, 1)
        self.assertRegex(output, r"100000000 tokens.*; set --context to at most \d+")

    def test_large_slot(self):
        """A state is loaded into the memory of its slot: one that takes more than half of the limit continues it."""
        with start_bounded(1500 * MEGABYTE, "--context", 2_300_000, "--cache-bytes", 16 * MEGABYTE) as each:
            self.assertEqual(each.started["slots"], 1)
            self.assertGreater(each.started["slot_bytes"], 560 * MEGABYTE)
            state = each.json("/v1/states", {"prompt": "le chat"})["id"]
            expected = each.text("le chat dort", temperature=0)
            for _ in range(2):
                response = each.post("/v1/completions", {"state": state, "prompt": " dort", "temperature": 0})
                self.assertEqual(response.status, 200, response.body)
                self.assertEqual(response.json["choices"][0]["text"], expected)
            prompt = server.sentences(10)
            cached = [each.complete(prompt, max_tokens=1)["usage"]["prompt_tokens_details"]["cached_tokens"] for _ in range(2)]
            self.assertGreater(cached[1], 0)

    def test_slots_that_fit(self):
        """A server that starts with little address space has it for the slots that it chose."""
        for context in (200_000, 800_000, 1_400_000, 2_000_000):
            with start_bounded(700 * MEGABYTE, "--context", context, "--cache-bytes", MEGABYTE) as each:
                calls = [lambda i=i: each.post("/v1/completions", {"prompt": "%d le chat" % i, "max_tokens": 3}) for i in range(8)]
                self.assertEqual([response.status for response in parallel(calls)], [200] * 8, (context, each.started))

    def test_workspace(self):
        """Logits and graphs of many slots are a part of what is checked and printed, and are taken when texts need them."""
        options = ("--context", 64, "--cache-bytes", MEGABYTE)
        with Server(EXACT, *options, "--slots", 1) as each:
            one, before = each.started["workspace_bytes"], each.rss()
            self.assertRegex(each.stderr(), r"Memory +.* of weights, at most .* of cached states, at most .* of workspace")
        with Server(EXACT, *options, "--slots", 4096) as each:
            many = each.started["workspace_bytes"]
            self.assertGreater(many - one, 4096 * 4 * 256 * 3)  # of each token: logits, a copy, and those in the graphs
            self.assertLess(each.rss() - before, 8 * MEGABYTE)
        # with states of a few kilobytes, the workspace is what does not fit
        options = ("--cache-bytes", MEGABYTE, "--threads", 1, "--slots")
        for limit in range(60 * MEGABYTE, 400 * MEGABYTE, 4 * MEGABYTE):
            status, output = bounded(limit, *options, 4096, model=server.words())
            found = re.search(r"--slots 4096, a workspace .* but the limit is .*ulimit -v.*; set --slots to at most (\d+)", output)
            if found:
                break
        self.assertTrue(found, output)
        self.assertEqual(status, 1)
        with start_bounded(limit, *options, found[1], model=server.words()) as each:
            self.assertEqual(each.started["slots"], int(found[1]))
            response = each.json("/v1/completions", {"prompt": ["le chat"] * 100, "max_tokens": 20})
            self.assertEqual(len(response["choices"]), 100)

    def test_fewer_slots(self):
        """Without --slots, as many as fit."""
        with start_bounded(1500 * MEGABYTE, "--context", CONTEXT) as each:
            self.assertIn(each.started["slots"], range(1, 6))
            responses = parallel([lambda: each.post("/v1/completions", {"prompt": "le chat", "max_tokens": 30}) for _ in range(12)])
            self.assertEqual({response.status for response in responses}, {200})

    def test_large_requests(self):
        """Data that clients send or do not read takes only a part of the memory; small requests are still served."""
        large = 20 * MEGABYTE
        with start_bounded(1500 * MEGABYTE, "--context", 200_000, "--cache-bytes", 64 * MEGABYTE) as each:
            before = each.rss()
            bodies = []
            for _ in range(30):  # one byte is missing
                bodies.append(each.socket(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % large))
                bodies[-1].sendall(b" " * (large - 1))
            self.assertEqual(each.post("/v1/completions", {"prompt": "le chat", "max_tokens": 2}).status, 200)
            self.assertLess(each.rss() - before, 250 * MEGABYTE)
            for connection in bodies:
                connection.sendall(b" ")
            statuses = {connection.recv(12) for connection in bodies}
            self.assertEqual(statuses, {b"HTTP/1.1 400", b"HTTP/1.1 429"})
            for connection in bodies:
                connection.close()
            state = each.json("/v1/states", {"prompt": [97, 98] * 10_000})
            self.assertGreater(state["bytes"], 4 * MEGABYTE)
            before = each.rss()
            readers = [each.socket(b"GET /v1/states/%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % state["id"].encode()) for _ in range(60)]
            statuses = [connection.recv(12) for connection in readers]
            self.assertEqual(set(statuses), {b"HTTP/1.1 200", b"HTTP/1.1 429"})
            self.assertLess(each.rss() - before, 150 * MEGABYTE)
            response = each.complete("", state=state["id"], max_tokens=1, return_state=True)["choices"][0]
            self.assertEqual(response["state"]["error"]["type"], "rate_limit_error")
            for connection in readers:
                connection.close()
            server.wait_until(lambda: each.get("/v1/states/" + state["id"]).status == 200, "memory is given back")

    def test_many_states(self):
        """The states of the texts of one request take no memory in addition to the cache: states that do not fit into it, states on the disk
        alone, and those that were returned."""
        for options in ((), ("--cache-dir", server.DIRECTORY / "states")):
            with Server(EXACT, "--context", 100_000, "--cache-bytes", 16 * MEGABYTE, "--slots", 4, *options) as each:
                state = each.json("/v1/states", {"prompt": [97, 98] * 10_000})
                self.assertGreater(state["bytes"], 4 * MEGABYTE)
                before = each.peak()
                body = {"state": state["id"], "prompt": "", "max_tokens": 1, "n": 64, "return_state": "id"}
                choices = each.json("/v1/completions", body)["choices"]
                kept = [choice["state"]["tokens"] for choice in choices if "id" in choice["state"]]
                self.assertEqual(set(kept), {state["tokens"] + 1})
                self.assertEqual(len(kept), 64 if options else 2)
                self.assertLess(each.peak() - before, 100 * MEGABYTE)

    def test_large_responses(self):
        """Responses that grow until their end, and states that are returned with them, take only a part of the memory, even without other requests."""
        with start_bounded(1500 * MEGABYTE, "--context", 200_000, "--cache-bytes", 16 * MEGABYTE, "--slots", 4) as each:
            before = each.peak()
            state = each.json("/v1/states", {"prompt": [97, 98] * 10_000})["id"]
            body = {"state": state, "prompt": "", "max_tokens": 1, "n": 64, "return_state": True}
            choices = each.json("/v1/completions", body)["choices"]
            self.assertEqual({len(choice["text"].encode()) <= 4 for choice in choices}, {True})
            self.assertEqual({"data" in choice["state"] or choice["state"]["error"]["type"] for choice in choices}, {True, "rate_limit_error"})
            self.assertLess(each.peak() - before, 500 * MEGABYTE)
        with start_bounded(600 * MEGABYTE, "--cache-bytes", MEGABYTE, model=server.words()) as each:
            before = each.peak()
            response = each.post("/v1/completions", {"prompt": "le", "max_tokens": server.ENDLESS, "ignore_eos": True, "n": 64, "logprobs": 20})
            self.assertEqual((response.status, response.error["type"]), (429, "rate_limit_error"), response)
            self.assertIn("the response takes more than the server's memory", response.error["message"])
            self.assertLess(each.peak() - before, 100 * MEGABYTE)
            server.wait_until(lambda: each.running() == 0 and each.waiting() == 0, "the other texts of the answer end")
            self.assertEqual(each.complete("le", max_tokens=500, logprobs=20)["usage"]["completion_tokens"], 500)

    def test_help(self):
        """The help states the number that the program uses."""
        (number,) = re.findall(r"the context of the model, at most (\d+)", " ".join(server.run("serve", "--help", "all").split()))
        self.assertEqual(int(number), 8192)


if __name__ == "__main__":
    unittest.main()
