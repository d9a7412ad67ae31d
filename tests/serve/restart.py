"""bochner serve --cache-dir: states and cached prefixes survive SIGTERM and SIGKILL; damaged files are removed, those of other
models left unchanged; SIGTERM lets running responses finish."""
import contextlib, json, os, resource, signal, subprocess, threading, time, unittest
import server
from server import Server, greedy, wait_until


def setUpModule():
    global WORDS, OTHER
    WORDS = server.words()
    OTHER = server.train("other", "--features", 16, seed=1, steps=20)


def state_files(directory):
    return sorted(path for path in directory.iterdir() if path.suffix == ".state")


class Restart(unittest.TestCase):
    def setUp(self):
        self.directory = server.DIRECTORY / self.id().split(".")[-1]
        self.options = ("--cache-dir", self.directory, "--disk-bytes", 100_000_000)

    def test_states_and_prefixes_survive(self):
        prompt = server.sentences(60)
        with Server(WORDS, *self.options) as each:
            state = each.json("/v1/states", {"prompt": "le chat boit"})
            data = each.get("/v1/states/" + state["id"]).body
            self.assertEqual(each.request("PUT", "/v1/states/mine", data).status, 200)
            dropped = each.json("/v1/states", {"prompt": "x"})["id"]
            each.request("DELETE", "/v1/states/" + dropped)
            returned = each.complete("le 日本", max_tokens=20, temperature=0, return_state="id")["choices"][0]["state"]["id"]
            first = each.complete(prompt, max_tokens=20, temperature=0)
            again = each.complete(prompt, max_tokens=20, temperature=0)
            self.assertEqual(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
            self.assertGreater(again["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
            self.assertLessEqual(again["usage"]["prompt_tokens_details"]["cached_tokens"], again["usage"]["prompt_tokens"])
            self.assertEqual(again["choices"], first["choices"])
        self.assertTrue(state_files(self.directory))
        with Server(WORDS, *self.options) as each:
            for name in (state["id"], "mine"):
                self.assertEqual(each.get("/v1/states/" + name).body, data)
                self.assertEqual(each.text("", state=name, temperature=0), greedy(WORDS, "le chat boit", 16))
            self.assertEqual(each.get("/v1/states/" + dropped).status, 404)
            text = each.text("", state=returned, max_tokens=20, temperature=0)
            self.assertEqual(text.encode(), greedy(WORDS, "le 日本", 40).encode()[-20:])
            later = each.complete(prompt, max_tokens=20, temperature=0)
            self.assertGreater(later["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
            self.assertEqual(later["choices"], first["choices"])
            longer = each.complete(prompt + "le ", max_tokens=20, temperature=0)
            self.assertGreater(longer["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
            self.assertEqual(longer["choices"][0]["text"], greedy(WORDS, prompt + "le ", 20))

    def test_full_disk(self):
        """Status 507 in the form of every error, without the path of the directory; earlier states and texts stay."""
        with Server(WORDS, *self.options) as each:
            data = each.get("/v1/states/" + each.json("/v1/states", {"prompt": "le chat"})["id"]).body
            self.assertEqual(each.request("PUT", "/v1/states/mine", data).status, 200)
            before = resource.prlimit(each.process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(each.process.pid, resource.RLIMIT_FSIZE, (1000, before[1]))
            for response in (each.request("PUT", "/v1/states/mine", data), each.request("PUT", "/v1/states/more", data),
                           each.post("/v1/states", {"prompt": "le"})):
                self.assertEqual((response.status, response.error["type"], response.error["code"]), (507, "server_error", "no_room"), response)
                self.assertNotIn(str(self.directory), response.body.decode())
                self.assertIn("cannot be written", response.error["message"])
            response = each.post("/v1/completions", {"prompt": "le", "max_tokens": 1, "return_state": "id"})
            self.assertEqual(response.status, 200, response)  # the text is not lost
            self.assertNotIn(str(self.directory), response.body.decode())
            (choice,) = response.json["choices"]
            self.assertEqual(choice["text"], greedy(WORDS, "le", 1))
            self.assertEqual((set(choice["state"]), choice["state"]["error"]["code"]), ({"error"}, "no_room"))
            self.assertIn("cannot be written", choice["state"]["error"]["message"])
            self.assertEqual(each.get("/v1/states/more").status, 404)
            self.assertEqual(each.get("/v1/states/mine").body, data)
            resource.prlimit(each.process.pid, resource.RLIMIT_FSIZE, before)
            self.assertEqual(each.request("PUT", "/v1/states/more", data).status, 200)
        self.assertFalse([path for path in self.directory.iterdir() if path.suffix == ".part"])

    def test_killed_during_writes(self):
        """States by id are as acknowledged, or absent; no temporary files stay."""
        texts = ["le %s %d" % (noun, i) for i in range(3) for noun in server.NOUNS]
        reference = {text: greedy(WORDS, text, 12) for text in texts}
        kept, survivors = {}, 0
        for attempt in range(4):
            each = Server(WORDS, *self.options)
            try:
                for name in list(kept):  # of the earlier attempts
                    response = each.get("/v1/states/" + name)
                    if response.status == 404:
                        kept.pop(name)
                        continue
                    survivors += 1
                    self.assertEqual(response.status, 200)
                    self.assertEqual(each.text("", state=name, max_tokens=12, temperature=0), reference[kept[name]], name)
                if attempt:
                    left = [path.name for path in self.directory.iterdir() if path.suffix != ".state" and path.name not in ("secret", "lock")]
                    self.assertEqual(left, [], "files that no server uses")

                def write(worker):
                    i = 0
                    try:
                        while True:
                            text = texts[(7 * worker + i) % len(texts)]
                            if i % 3 == 2:  # replace a state by another
                                data = each.get("/v1/states/" + each.json("/v1/states", {"prompt": text})["id"]).body
                                name = "fixed-%d" % worker
                                pending[name] = text
                                if each.request("PUT", "/v1/states/" + name, data).status == 200:
                                    found[name] = text
                                    pending.pop(name)
                            else:
                                found[each.json("/v1/states", {"prompt": text})["id"]] = text
                            i += 1
                    except Exception:  # pylint: disable=broad-except
                        return  # the server was killed

                found, pending = {}, {}
                writers = [threading.Thread(target=write, args=(worker,), daemon=True) for worker in range(4)]
                for writer in writers:
                    writer.start()
                time.sleep(0.25 + 0.1 * attempt)
            finally:
                each.kill()
            for writer in writers:
                writer.join(server.PATIENCE)
            self.assertGreater(len(found), 5)
            kept.update(found)
            for name in pending:  # the old state or the new one
                kept.pop(name, None)
        self.assertGreater(survivors, 0, "no state survives a crash")

    def test_damaged_files(self):
        """They are removed with a line in the log; the other files are used."""
        with Server(WORDS, *self.options) as each:
            names, of = [], {}
            for i in range(8):
                before = set(state_files(self.directory)) if self.directory.exists() else set()
                names.append(each.json("/v1/states", {"prompt": "le chat %d" % i})["id"])
                wait_until(lambda: set(state_files(self.directory)) - before, "the state is written")
                time.sleep(0.05)
                (path,) = [path for path in set(state_files(self.directory)) - before if path.name.startswith("k-")]
                of[names[-1]] = path

        def flip(path, at):
            data = bytearray(path.read_bytes())
            data[at] ^= 1
            path.write_bytes(data)

        flip(of[names[0]], 8)
        flip(of[names[1]], 60)
        flip(of[names[2]], -1)
        of[names[3]].write_bytes(of[names[3]].read_bytes()[:-10])
        of[names[4]].write_bytes(b"")
        of[names[5]].write_bytes(of[names[5]].read_bytes() + b"x")
        users = [self.directory / name for name in ("notes.txt", "my.state.txt", "old.state.part", "k-0123456789abcdef.state",
                                                 "k-%032d.state.part" % 1, "p-%032d.state" % 2)]
        for path in users:
            path.write_text("a file of the user")
        with Server(WORDS, *self.options) as each:
            for name in names[:6]:
                response = each.get("/v1/states/" + name)
                self.assertEqual(response.status, 404, "%s: %d" % (of[name], response.status))
                self.assertFalse(of[name].exists(), "a damaged file is left: %s" % of[name])
            for i in (6, 7):
                self.assertEqual(each.text("", state=names[i], temperature=0), greedy(WORDS, "le chat %d" % i, 16))
            output = "".join(line.decode() for line in each.log) + each.stderr() + str(each.started)
            self.assertRegex(output, "damaged|discarded|removed")
            for path in users:
                self.assertEqual(path.read_text(), "a file of the user")

    def test_other_models(self):
        with Server(WORDS, *self.options) as each:
            name = each.json("/v1/states", {"prompt": "le chat"})["id"]
            each.complete(server.sentences(30), max_tokens=1)
        before = {path.name: path.read_bytes() for path in state_files(self.directory)}
        with Server(OTHER, *self.options) as each:
            response = each.get("/v1/states/" + name)
            self.assertIn(response.status, (400, 404), response)
            prompt = server.sentences(30)
            usage = each.complete(prompt, max_tokens=1)["usage"]
            self.assertEqual(usage["prompt_tokens_details"]["cached_tokens"], 0)
            self.assertEqual(each.text(prompt, temperature=0), greedy(OTHER, prompt, 16))
            state_id = each.json("/v1/states", {"prompt": "la"})["id"]
        for file, data in before.items():
            self.assertEqual((self.directory / file).read_bytes(), data, file)
        with Server(WORDS, *self.options) as each:
            self.assertEqual(each.text("", state=name, temperature=0), greedy(WORDS, "le chat", 16))
            self.assertIn(each.get("/v1/states/" + state_id).status, (400, 404))

    def test_disk_bytes(self):
        """The directory stays within its budget, and the cache still works."""
        with Server(WORDS, "--cache-dir", self.directory, "--disk-bytes", 60_000) as each:
            for i in range(40):
                each.complete(server.sentences(20)[i:] + str(i), max_tokens=1)
            size = 0
            for path in self.directory.iterdir():
                with contextlib.suppress(FileNotFoundError):  # the server renames files
                    size += path.stat().st_size
            self.assertLessEqual(size, 60_000 + 4096)
            self.assertEqual(each.text("le chat", temperature=0), greedy(WORDS, "le chat", 16))

    def test_directory_that_cannot_be_used(self):
        file = server.DIRECTORY / "a-file"
        file.write_text("")
        done = subprocess.run([server.PROGRAM, "serve", str(WORDS), "--port", "0", "--cache-dir", str(file)], capture_output=True,
                              timeout=server.PATIENCE)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"a-file", done.stderr)


class Stopping(unittest.TestCase):
    def test_running_responses_finish(self):
        """SIGTERM while streams run: they end normally, new requests get 503, and the exit status is 0."""
        with Server(WORDS, "--grace", 60) as each:
            body = {"prompt": "le", "max_tokens": 20_000, "temperature": 0, "stream_options": {"include_usage": True}}
            streams = [each.stream("/v1/completions", body) for _ in range(2)]
            opened = [stream.__enter__() for stream in streams]
            for events in opened:
                next(events)
            whole = []
            thread = threading.Thread(target=lambda: whole.append(each.complete("le", max_tokens=20_000, temperature=0)))
            thread.start()
            wait_until(lambda: each.running() == 3, "three requests run")
            each.process.send_signal(signal.SIGTERM)
            end, statuses = time.monotonic() + 5, []
            while time.monotonic() < end and 503 not in statuses:
                try:
                    response = each.get("/health")
                    statuses.append(response.status)
                except OSError:
                    break
            self.assertIn(503, statuses, "no answer 503 after SIGTERM")
            self.assertEqual(response.json, {"status": "stopping"})
            refused = each.post("/v1/completions", {"prompt": "le"})
            self.assertEqual((refused.status, refused.error["type"]), (503, "server_error"))
            texts = []
            for stream, events in zip(streams, opened):
                rest = list(events)
                self.assertEqual(rest[-1]["usage"]["completion_tokens"], 20_000)
                self.assertEqual(rest[-2]["choices"][0]["finish_reason"], "length")
                texts.append("".join(event["choices"][0]["text"] for event in rest if event["choices"]))
                stream.__exit__(None, None, None)
            thread.join(server.PATIENCE)
            self.assertEqual(whole[0]["usage"]["completion_tokens"], 20_000)
            self.assertEqual(each.process.wait(server.PATIENCE), 0)

    def test_expensive_templates(self):
        """SIGTERM ends the rendering of chat templates that take seconds; the requests get 503."""
        template = "{% set s = 'a' * 1000000 %}{% set t = 'a' * 500 ~ 'b' %}{% for i in range(9999) %}{{ s.count(t) }}{% endfor %}"
        each = Server(server.variant(WORDS, "expensive", chat_template__jinja=template))
        body = json.dumps({"messages": [{"role": "user", "content": "a"}]}).encode()
        request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        connections = [each.socket(request) for _ in range(24)]
        time.sleep(0.3)
        at = time.monotonic()
        each.process.send_signal(signal.SIGTERM)
        responses = [connection.recv(12) for connection in connections]
        self.assertEqual(each.process.wait(server.PATIENCE), 0)
        self.assertLess(time.monotonic() - at, 60 if server.SANITIZED else 10)
        self.assertLessEqual(set(responses), {b"HTTP/1.1 503", b"HTTP/1.1 400"})  # 400: more steps than a rendering may take
        self.assertIn(b"HTTP/1.1 503", responses)
        for connection in connections:
            connection.close()

    def test_grace(self):
        """Responses that take longer than --grace are ended with an event, and not by a broken connection."""
        each = Server(WORDS, "--grace", 1)
        with each.stream("/v1/completions", {"prompt": "le", "max_tokens": server.ENDLESS}) as events:
            next(events)
            at = time.monotonic()
            each.process.send_signal(signal.SIGTERM)
            last, complete = None, True
            try:
                for last in events:
                    pass
            except AssertionError:  # no [DONE]
                complete = False
            self.assertTrue(complete or "error" in last, last)
            self.assertGreater(time.monotonic() - at, 0.5)
            self.assertLess(time.monotonic() - at, 20)
        self.assertEqual(each.process.wait(server.PATIENCE), 0)

    def test_idle_connections_do_not_hold_it(self):
        each = Server(WORDS)
        idle = [each.socket(data) for data in (b"", b"GET /hea", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")]
        at = time.monotonic()
        each.stop()
        self.assertLess(time.monotonic() - at, 20)
        for connection in idle:
            connection.close()

    def test_two_signals(self):
        """A second signal ends the server at once."""
        each = Server(WORDS, "--grace", 60)
        with each.stream("/v1/completions", {"prompt": "le", "max_tokens": server.ENDLESS}) as events:
            next(events)
            each.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            self.assertIs(each.process.poll(), None, "the server did not wait for a running answer")
            each.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            if each.process.poll() is None:
                each.process.kill()
        each.process.wait(server.PATIENCE)


if __name__ == "__main__":
    unittest.main()
