"""bochner serve: clients that are slow, broken or malicious.

After every test the server responds, nothing runs or waits, and at the end its memory and open files have not grown."""
import http.client, json, pathlib, re, socket, struct, time, unittest
import server
from server import Server, wait_until

MEGABYTE = 1 << 20
CONNECTIONS = 40
# glibc gives freed memory back at once, so that the resident memory shows what the server holds and not what malloc caches.
RETURNS_MEMORY = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}


def setUpModule():
    global WORDS, main, memory, files
    WORDS = server.words()
    main = Server(WORDS, "--connections", CONNECTIONS, "--client-connections", CONNECTIONS, "--max-body", MEGABYTE, "--slots", 8,
                  environment=RETURNS_MEMORY)
    for _ in range(20):
        main.text("le chat", max_tokens=50)
    server.parallel([lambda: main.text("le chat", max_tokens=50)] * CONNECTIONS)
    memory, files = main.rss(), main.files()


def tearDownModule():
    wait_until(lambda: main.files() <= files + 2, "open files: %d at first, %d now" % (files, main.files()))
    growth = main.rss() - memory
    assert server.SANITIZED or growth < 24 * MEGABYTE, "memory grew by %d bytes" % growth
    main.stop()


class Hostile(unittest.TestCase):
    def tearDown(self):
        self.assertIs(main.process.poll(), None, "the server ended: %s" % main.stderr())
        wait_until(lambda: main.running() == 0 and main.waiting() == 0, "nothing runs")
        self.assertEqual(len(main.text("le chat", max_tokens=5, temperature=0)), 5)


def responses(connection):
    """All bytes until the server closes the connection."""
    data = b""
    try:
        while True:
            part = connection.recv(65536)
            if not part:
                return data
            data += part
    except ConnectionResetError:
        return data


def statuses(data):
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3})", data)]


def head(method="POST", path="/v1/completions", length=None, host="127.0.0.1", extra=""):
    lines = "%s %s HTTP/1.1\r\nHost: %s\r\n%s" % (method, path, host, extra)
    if length is not None:
        lines += "Content-Type: application/json\r\nContent-Length: %s\r\n" % length
    return (lines + "\r\n").encode()


BODY = b'{"prompt": "le", "max_tokens": 3}'


# ---- bodies ---------------------------------------------------------------------------------------------------------

class Bodies(Hostile):
    def refused(self, body, path="/v1/completions", param=None, status=400):
        response = main.request("POST", path, body)
        self.assertEqual(response.status, status, "%s %r: %r" % (path, body[:200], response))
        self.assertEqual(set(response.error), {"message", "type", "param", "code"})
        if param:
            self.assertEqual(response.error["param"], param, "%r: %r" % (body[:200], response))

    def test_not_json(self):
        bodies = ["{", "}", "[", "{]", "[]", "null", "true", "1", '"x"', '{"a": 1,}', '{"a" 1}', '{"a": }', '{a: 1}', "{'a': 1}",
                  "{} {}", "{}x", '{"a": 1} // why', '{"prompt": "a\nb"}', '{"prompt": "\\x41"}', '{"prompt": "\\u12"}',
                  '{"prompt": "a', '{"prompt": "\\ud800"}', '{"prompt": "\\udc00\\ud800"}', '{"a": nul}', '{"a": Infinity}',
                  '{"max_tokens": NaN}', '{"max_tokens": 01}', '{"max_tokens": 1.}', '{"max_tokens": .5}', '{"max_tokens": +1}',
                  '{"max_tokens": 0x10}', '{"max_tokens": 1e}', '{"max_tokens": --1}', '{"max_tokens": -}', " ", "\0", "{}\0",
                  '{"a"\0: 1}']
        for body in bodies:
            self.refused(body.encode())
        for path in ("/v1/chat/completions", "/v1/embeddings", "/v1/tokenize", "/v1/detokenize", "/v1/states"):
            self.refused(b"{", path)
            self.refused(b"", path)

    def test_not_utf8(self):
        for bad in (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"\x80", b"\xf0\x80\x80\xaf"):
            self.refused(b'{"prompt": "a' + bad + b'"}')
            self.refused(b'{"' + bad + b'": 1}')
            self.refused(b'{"messages": [{"role": "user", "content": "' + bad + b'"}]}', "/v1/chat/completions")

    def test_nul(self):
        """A text with NUL is refused or read as a whole, never cut."""
        response = main.post("/v1/tokenize", {"prompt": "a\0b"})
        self.assertTrue(response.status == 400 or response.json["count"] == 3, response)
        for body in ({"prompt": "a\0b"}, {"prompt": "a", "stop": "\0"}, {"prompt": "a", "state": "a\0b"}, {"model\0": 1}):
            self.assertIn(main.post("/v1/completions", {**body, "max_tokens": 2}).status, (200, 400, 404))
        for body in ({"messages": [{"role": "us\0er", "content": "a\0"}], "max_tokens": 2},):
            self.assertIn(main.post("/v1/chat/completions", body).status, (200, 400))

    def test_deep_nesting(self):
        for depth in (100, 1000, 100_000):
            for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
                inner = b"" if opening == b"[" else b"1"
                for body in (opening * depth, opening * depth + inner + closing * depth,
                             b'{"prompt": "le", "max_tokens": 1, "model": ' + opening * depth + inner + closing * depth + b"}"):
                    if len(body) <= MEGABYTE:
                        response = main.request("POST", "/v1/completions", body)
                        self.assertIn(response.status, (200, 400), "depth %d: %r" % (depth, response))

    def test_huge_numbers(self):
        for name in ("max_tokens", "n", "top_k", "logprobs", "temperature", "top_p", "min_p", "presence_penalty", "repetition_penalty"):
            for number in ("1e400", "-1e400", "1e308", "9" * 400, "-" + "9" * 400, "1e99999999999", "0." + "0" * 400 + "1", "1e-99999"):
                body = '{"prompt": "le", "max_tokens": 1, "%s": %s}' % (name, number)
                if name == "max_tokens":
                    body = '{"prompt": "le", "max_tokens": %s, "stop": " "}' % number
                response = main.request("POST", "/v1/completions", body)
                self.assertIn(response.status, (200, 400), "%s: %r" % (body[:80], response))
        for name, numbers in {"n": ("1e400", "9" * 40, "2147483649", "4294967297"), "temperature": ("1e400", "-1e400", "1e308"),
                              "logprobs": ("4294967297", "1e400"), "top_k": ("-4294967296",)}.items():
            for number in numbers:
                self.refused(('{"prompt": "le", "%s": %s}' % (name, number)).encode(), param=name)
        for tokens in ("[1e400]", "[4294967296]", "[9223372036854775808]", "[1.5]", "[-4294967295]", "[" + "9" * 400 + "]"):
            self.refused(('{"prompt": %s}' % tokens).encode(), param="prompt")
            self.refused(('{"tokens": %s}' % tokens).encode(), "/v1/detokenize", param="tokens")
            self.refused(('{"input": %s}' % tokens).encode(), "/v1/embeddings", param="input")

    def test_wrong_types(self):
        """Every member with a value of each type that it does not take; null is absent."""
        values = {"boolean": True, "integer": 7, "number": 0.5, "text": "x", "list": [{"x": 1}], "object": {"x": [1]}}
        generation = {
            "max_tokens": {"integer"}, "temperature": {"integer", "number"}, "top_p": {"number"}, "top_k": {"integer"},
            "min_p": {"number"}, "repetition_penalty": {"integer", "number"}, "presence_penalty": {"number"},
            "frequency_penalty": {"number"}, "logit_bias": set(), "seed": {"integer"}, "stop": {"text"}, "ignore_eos": {"boolean"},
            "n": {"integer"}, "stream": {"boolean"}, "stream_options": {"object"}, "return_token_ids": {"boolean"},
            "return_state": {"boolean"}}
        table = {
            "/v1/completions": ({"prompt": "le", "max_tokens": 1},
                                {**generation, "prompt": {"text"}, "logprobs": {"integer"}, "echo": {"boolean"}}),
            "/v1/chat/completions": ({"messages": [{"role": "user", "content": "le"}], "max_tokens": 1},
                                     {**generation, "messages": set(), "max_completion_tokens": {"integer"}, "logprobs": {"boolean"},
                                      "top_logprobs": set(), "chat_template_kwargs": {"object"}}),
            "/v1/embeddings": ({"input": "le"}, {"input": {"text"}, "encoding_format": set(), "dimensions": set()}),
            "/v1/tokenize": ({"prompt": "le"}, {"prompt": {"text"}, "add_special_tokens": {"boolean"}}),
            "/v1/detokenize": ({"tokens": [1]}, {"tokens": set()}),
            "/v1/states": ({"prompt": "le"}, {"prompt": {"text"}}),
        }
        for path, (body, members) in table.items():
            for member, accepted in members.items():
                for kind, value in values.items():
                    if kind not in accepted:
                        self.refused(json.dumps({**body, member: value}).encode(), path, param=member)
        for value in ({"include_usage": 1}, {"include_usage": "true"}):
            response = main.post("/v1/completions", {"prompt": "le", "stream": True, "stream_options": value})
            self.assertEqual(response.status, 400, response)

    def test_many_members(self):
        for body in ({"m%d" % i: None for i in range(40000)}, {"m%d" % i: i for i in range(300)}):
            self.refused(json.dumps({**body, "prompt": "le", "max_tokens": 1}).encode())
        self.refused(b'{"prompt": "le"' + b', "user": 1' * 90_000 + b"}")
        self.refused(json.dumps({"prompt": "le", "\u00e9" * 500: 1}).encode())
        self.assertEqual(main.post("/v1/completions", {**{"m%d" % i: None for i in range(200)}, "prompt": "le"}).status, 200)
        bias = {str(i): 0.5 for i in range(256)}
        self.assertEqual(main.post("/v1/completions", {"prompt": "le", "max_tokens": 1, "logit_bias": bias}).status, 200)
        response = main.post("/v1/completions", {"prompt": ["a"] * 100_000, "max_tokens": 1})
        self.assertIn(response.status, (200, 400, 429), response)

    def test_large_bodies(self):
        """A body that is too large is refused before it is read."""
        try:
            self.refused(b'{"prompt": "' + b"x" * MEGABYTE + b'"}', status=413)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server has closed the connection while this client was sending
        connection = main.socket(head(length=10**15))
        self.assertEqual(statuses(responses(connection)), [413])
        connection.close()
        response = main.request("POST", "/v1/tokenize", b'{"prompt": "' + b"x" * (MEGABYTE - 100) + b'"}')
        self.assertEqual(response.status, 200)


# ---- connections ----------------------------------------------------------------------------------------------------

class Connections(Hostile):
    def test_malformed_requests(self):
        """Each is refused and the connection closed; none is taken for another request."""
        cases = {
            "garbage": b"GARBAGE\r\n\r\n", "no path": b"GET\r\n\r\n", "no version": b"GET /health\r\nHost: localhost\r\n\r\n",
            "version": b"GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n", "no host": b"GET /health HTTP/1.1\r\n\r\n",
            "two hosts": b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
            "no colon": b"GET /health HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n",
            "space before colon": head(length="5 ", extra="Content-Length : 3\r\n") + b"{}   ",
            "two lengths": head(length=len(BODY), extra="Content-Length: 2\r\n") + BODY,
            "length and chunks": head(length=len(BODY), extra="Transfer-Encoding: chunked\r\n") + BODY,
            "unknown coding": head(extra="Transfer-Encoding: zip\r\n") + BODY,
            "NUL in the path": b"GET /hea\0lth HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "bytes in the path": b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "long path": b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "long method": b"G" * 200_000 + b" / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "long header": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * MEGABYTE + b"\r\n\r\n",
            "many headers": b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
            "TLS": bytes.fromhex("160301020001000001fc0303") + bytes(200) + b"\r\n\r\n",
            "bad chunk": head(extra="Transfer-Encoding: chunked\r\n") + b"zz\r\n{}\r\n0\r\n\r\n",
            "huge chunk": head(extra="Transfer-Encoding: chunked\r\n") + b"ffffffffffffffffff\r\n{}\r\n0\r\n\r\n",
        }
        for value in ("-1", "+5", "5x", "", "0x5", "5, 6", "9" * 30, "1.0"):
            cases["length %r" % value] = head(length=value) + BODY
        for name, data in cases.items():
            connection = main.socket()
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the server has closed it already
            found = statuses(responses(connection))
            connection.close()
            self.assertLessEqual(len(set(found)), 1, "%s: %s" % (name, found))  # libmicrohttpd may send the head of an error twice
            self.assertTrue(all(400 <= status < 600 and status != 500 for status in found), "%s: %s" % (name, found))

    def test_tolerated_requests(self):
        """Headers that are not quite correct may be refused or not."""
        for header in (b"X: a\r\n b", b"X: a\0b", b": x", b"X:\x7f\xff", b"X" * 3000 + b": " + b"y" * 3000):
            connection = main.socket(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + header + b"\r\n\r\n")
            found = statuses(responses(connection))
            connection.close()
            self.assertTrue(set(found) <= {200, 400, 431}, "%r: %s" % (header[:20], found))

    def test_accepted_requests(self):
        """Unusual, but correct."""
        def send_bytes(data):
            connection = main.socket(data)
            found = responses(connection)
            connection.close()
            return found
        close = "Connection: close\r\n"
        self.assertEqual(statuses(send_bytes(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")), [200])
        self.assertEqual(statuses(send_bytes(head("GET", "/health", extra=close + "HOST-x: 1\r\nx-EMPTY:\r\n"))), [200])
        self.assertEqual(statuses(send_bytes(head(length=len(BODY), extra=close) + BODY)), [200])
        self.assertEqual(statuses(send_bytes(b"\r\n" + head("GET", "/health", extra=close))), [200])  # an empty line before the request
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (BODY[:5], BODY[5:])) + b"0\r\n\r\n"
        found = statuses(send_bytes(head(extra=close + "Transfer-Encoding: chunked\r\nContent-Type: application/json\r\n") + chunks))
        self.assertIn(found, ([200], [411], [501]))
        connection = main.socket(head(length=len(BODY), extra=close + "Expect: 100-continue\r\n"))
        self.assertIn(b" 100 ", connection.recv(100))
        connection.sendall(BODY)
        self.assertEqual(statuses(responses(connection)), [200])
        connection.close()
        self.assertIn(statuses(send_bytes(head("HEAD", "/health", extra=close))), ([200], [405]))

    def test_pipelining(self):
        bodies = [b'{"prompt": "le chat", "max_tokens": %d, "temperature": 0}' % n for n in (1, 9, 3, 27, 2)]
        request = b"".join(head(length=len(body)) + body for body in bodies)
        request += head("GET", "/health", extra="Connection: close\r\n")
        connection = main.socket(request)
        data = responses(connection)
        connection.close()
        self.assertEqual(statuses(data), [200] * 6)
        self.assertEqual([int(n) for n in re.findall(rb'"completion_tokens": ?(\d+)', data)], [1, 9, 3, 27, 2])

    def test_kept_alive(self):
        connection = main.connect()
        for i in range(300):
            main.send(connection, "POST" if i % 3 else "GET", "/v1/completions" if i % 3 == 1 else "/v1/tokenize" if i % 3 else "/health",
                      {"prompt": "le", "max_tokens": 2 if i % 3 == 1 else None} if i % 3 else None, None)
            self.assertEqual(server.Response(connection.getresponse()).status, 200)
            if i % 50 == 7:  # an error does not end the connection, or announces it
                main.send(connection, "POST", "/v1/completions", {"n": 0}, None)
                self.assertEqual(server.Response(connection.getresponse()).status, 400)
        connection.close()

    def test_trickle(self):
        """A request that arrives byte by byte is served, and other requests do not wait for it."""
        data = head(length=len(BODY), extra="Connection: close\r\n") + BODY
        slow = [main.socket() for _ in range(5)]
        begin, worst = time.monotonic(), 0
        for i in range(len(data)):
            for connection in slow:
                connection.sendall(data[i:i + 1])
            if i % 20 == 0:
                at = time.monotonic()
                self.assertEqual(main.get("/health").status, 200)
                worst = max(worst, time.monotonic() - at)
            time.sleep(0.004)
        for connection in slow:
            self.assertEqual(statuses(responses(connection)), [200])
            connection.close()
        self.assertLess(worst, 10 if server.SANITIZED else 1)
        self.assertGreater(time.monotonic() - begin, 0.3)

    def test_never_complete(self):
        """Requests that never end are dropped, while other requests are served."""
        with Server(WORDS, "--timeout", 1, "--connections", 10) as each:
            stuck = [each.socket(data) for data in (b"", b"G", b"GET /health HTTP/1.1\r\nHost: localhost\r\n", head(length=100) + b"{",
                                                    head(length=len(BODY) + 1) + BODY)]
            self.assertEqual(each.post("/v1/completions", {"prompt": "le"}).status, 200)
            for connection in stuck[1:]:
                found = statuses(responses(connection))
                self.assertIn(found, ([], [400], [408]))
            for connection in stuck:
                connection.close()
            # One byte per half a second does not extend the time for ever.
            drop, end = each.socket(), time.monotonic() + 20
            try:
                for byte in b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long-Header: abc":
                    drop.sendall(bytes([byte]))
                    time.sleep(0.5)
                    if time.monotonic() > end:
                        self.fail("a slow request is not given up")
                    drop.settimeout(0.001)
                    try:
                        if drop.recv(1000) is not None:
                            break
                    except TimeoutError:
                        pass
            except OSError:
                pass
            drop.close()
            self.assertEqual(each.get("/health").status, 200)

    def test_half_closed(self):
        """A client that has closed its side is served or dropped, and the server never waits for it."""
        for data in (head(length=len(BODY)) + BODY, head(length=100) + BODY, head("GET", "/health"), b"", b"POST"):
            connection = main.socket(data)
            connection.shutdown(socket.SHUT_WR)
            self.assertTrue(all(status in (200, 400, 408) for status in statuses(responses(connection))))
            connection.close()

    def test_disconnects_free_their_slots(self):
        endless = json.dumps({"prompt": "le", "max_tokens": server.ENDLESS, "ignore_eos": True}).encode()
        streamed = json.dumps({**json.loads(endless), "stream": True}).encode()
        for body, abort in ((streamed, False), (streamed, True), (endless, False), (endless, True)):
            clients = [main.socket(head(length=len(body)) + body) for _ in range(4)]
            if body is streamed:
                for client in clients:
                    self.assertTrue(client.recv(1000).startswith(b"HTTP/1.1 200"))
            wait_until(lambda: main.running() == 4, "four requests run")
            for client in clients:
                if abort:  # close sends RST
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.close()
            wait_until(lambda: main.running() == 0, "the slots are free", 10)

    def test_disconnects_of_waiting_requests(self):
        body = json.dumps({"prompt": "le", "max_tokens": server.ENDLESS, "ignore_eos": True}).encode()
        clients = [main.socket(head(length=len(body)) + body) for _ in range(20)]
        wait_until(lambda: main.running() == 8 and main.waiting() == 12, "eight of twenty requests run")
        for client in clients[::-1]:
            client.close()
        wait_until(lambda: main.running() == 0 and main.waiting() == 0, "the slots are free", 10)

    def test_client_that_does_not_read(self):
        """Other clients are served, and its response ends when 32 MiB of it are unread: at most 64 MiB of memory, since buffers double."""
        before = main.rss()
        body = json.dumps({"prompt": "le", "max_tokens": server.ENDLESS, "ignore_eos": True, "stream": True, "logprobs": 20}).encode()
        clients = [main.socket(head(length=len(body)) + body) for _ in range(4)]
        wait_until(lambda: main.running() == len(clients), "all run")
        end = time.monotonic() + server.PATIENCE
        while main.running():
            self.assertLess(time.monotonic(), end, "answers that nobody reads go on")
            self.assertEqual(len(main.text("le chat", max_tokens=5, temperature=0)), 5)
            growth = main.rss() - before
            self.assertTrue(server.SANITIZED or growth < 4 * 64 * MEGABYTE + 16 * MEGABYTE, "memory grew by %d bytes" % growth)
        for client in clients:
            client.close()

    def test_many_connections(self):
        """10,000 connections in sequence, with and without requests, leave no memory and no files behind."""
        with Server(WORDS, "--connections", 4000) as each:
            many_connections(each, 1000)
            memory, files = each.rss(), each.files()
            many_connections(each, 10_000)
            wait_until(lambda: each.files() <= files + 2, "files are closed")
            self.assertTrue(server.SANITIZED or each.rss() - memory < 16 * MEGABYTE, "memory grew by %d bytes" % (each.rss() - memory))
            self.assertEqual(len(each.text("le", max_tokens=3, temperature=0)), 3)

    def test_more_connections_than_allowed(self):
        """Connections that have waited longest for a request are closed, and every new one is served."""
        with Server(WORDS, "--connections", CONNECTIONS, "--client-connections", CONNECTIONS) as each:
            idle = []
            for i in range(CONNECTIONS + 30):
                idle.append(each.socket(head("GET", "/health")))
                self.assertEqual(statuses(idle[-1].recv(1000)), [200])
                wait_until(lambda: len(each.log) > i, "the request has ended")  # from then on the connection waits for the next one
            for connection in idle[:30]:
                self.assertEqual(responses(connection), b"")
            for connection in idle[30:]:
                connection.sendall(head("GET", "/health"))
                self.assertEqual(statuses(connection.recv(1000)), [200])
            for connection in idle:
                connection.close()

    def test_connections_with_a_long_request(self):
        """A connection whose request is complete is not closed in favor of another one, also before its response starts."""
        body = json.dumps({"prompt": server.sentences(1) * 80_000}).encode()
        with Server(server.pieces(), "--client-connections", 1, "--max-prompt", 10**7) as each:
            busy = each.socket(head("POST", "/v1/tokenize", length=len(body), extra="Connection: close\r\n") + body)
            wait_until(lambda: is_read(each, busy), "the server has read the request")
            time.sleep(0.1)
            other = each.socket(head("GET", "/health", extra="Connection: close\r\n"))
            self.assertIn(statuses(responses(other)), ([429], [200]))  # 200: the long request has ended already
            self.assertEqual(statuses(responses(busy)), [200])
            other.close()
            busy.close()

    def test_slow_clients_of_one_address(self):
        """They cannot use up all connections: other clients are served, also those of the same address."""
        with Server(WORDS, "--connections", 200) as each:
            for data in (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: a", b"", head(length=100) + b"{"):
                slow = [each.socket(data) for _ in range(210)]
                for i in range(10):
                    begin = time.monotonic()
                    self.assertEqual(health_from(each, "127.0.0.%d" % (1 + i % 3)), 200)
                    self.assertLess(time.monotonic() - begin, 10 if server.SANITIZED else 2)
                for connection in slow:
                    connection.close()

    def test_active_connections_of_one_address(self):
        """Connections whose requests are served are not closed; further ones of the address are refused."""
        body = json.dumps({"prompt": "le", "max_tokens": server.ENDLESS, "ignore_eos": True}).encode()
        with Server(WORDS, "--connections", 20, "--client-connections", 4, "--slots", 1) as each:
            busy = [each.socket(head(length=len(body)) + body) for _ in range(4)]
            wait_until(lambda: metric_from(each, "127.0.0.2", "bochner_queued") == 3, "three requests wait")
            for data in (head("GET", "/health"), b"", head(length=len(body)) + body):
                refused = each.socket(data)
                found = responses(refused)
                refused.close()
                self.assertEqual(statuses(found), [429], found)
                header, _, text = found.partition(b"\r\n\r\n")
                self.assertIn(b"Content-Type: application/json", header)
                self.assertIn(b"Content-Length: %d\r\n" % len(text), header)
                self.assertEqual(json.loads(text)["error"]["code"], "too_many_connections")
            self.assertEqual(health_from(each, "127.0.0.2"), 200)
            for size in (100, 100_000, MEGABYTE):  # the response reaches a client that sends its body first
                for _ in range(5):
                    response = each.post("/v1/completions", {"prompt": "x" * size})
                    self.assertEqual((response.status, response.error["code"]), (429, "too_many_connections"))
            self.assertEqual(metric_from(each, "127.0.0.2", 'bochner_answers_total{status="4xx"}'), 3 + 15)
            wait_until(lambda: any(json.loads(line)["status"] == 429 for line in each.log), "a refusal is in the log")
            busy.pop().close()
            wait_until(lambda: is_healthy(each), "an answer after a connection was closed")
            for connection in busy:
                connection.close()


def from_address(each, address, path):
    """The response to a request of this address; all of 127.0.0.0/8 belong to the loopback interface."""
    connection = http.client.HTTPConnection("127.0.0.1", each.port, timeout=server.PATIENCE, source_address=(address, 0))
    connection.request("GET", path)
    response = server.Response(connection.getresponse())
    connection.close()
    return response


def is_read(each, connection):
    """Whether the server has read everything that was sent on this connection."""
    near, far = ("%08X:%04X" % (struct.unpack("=I", socket.inet_aton(host))[0], port)
                 for host, port in (connection.getsockname(), ("127.0.0.1", each.port)))
    lines = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text("ascii").splitlines()]
    queues = {(line[1], line[2]): line[4].split(":") for line in lines[1:]}
    return int(queues[near, far][0], 16) == 0 and int(queues[far, near][1], 16) == 0


def health_from(each, address):
    return from_address(each, address, "/health").status


def metric_from(each, address, name):
    return float(re.search(r"^%s (\S+)" % re.escape(name), from_address(each, address, "/metrics").body.decode(), re.M)[1])


def is_healthy(each):
    try:
        return each.get("/health").status == 200
    except OSError:
        return False


def many_connections(each, count):
    request = head("GET", "/health", extra="Connection: close\r\n")
    for i in range(count):
        connection = each.socket()
        if i % 4 == 0:
            connection.sendall(request)
            assert b" 200 " in connection.recv(65536)
        elif i % 4 == 1:
            connection.sendall(request[:20])
        elif i % 4 == 2:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()


if __name__ == "__main__":
    unittest.main()
