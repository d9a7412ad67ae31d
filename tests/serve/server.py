"""What the tests of `bochner serve` share: tiny models, a server that is started and stopped, requests and references.

Only the standard library is used, so that these tests run wherever Python does. The program is BOCHNER."""
import array, atexit, contextlib, http.client, json, math, os, pathlib, re, shutil, signal, socket, struct, subprocess
import tempfile, threading, time, unittest

PROGRAM = os.environ.get("BOCHNER", "build/bochner")
SOURCE = pathlib.Path(os.environ.get("BOCHNER_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
DATA = SOURCE / "tests" / "data"
SANITIZED = bool(os.environ.get("SANITIZE"))
DIRECTORY = pathlib.Path(tempfile.mkdtemp(prefix="bochner-serve-"))
atexit.register(shutil.rmtree, DIRECTORY, ignore_errors=True)
PATIENCE = 240 if SANITIZED else 20  # seconds after which a request or a condition counts as failed
ENDLESS = 50_000_000  # tokens of a request that a test ends by other means: minutes for the tiny models


def run(*arguments, text=None):
    """Runs the program and returns its standard output."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], input=text, capture_output=True, text=True)
    assert done.returncode == 0, "bochner %s: %s" % (" ".join(map(str, arguments)), done.stderr)
    return done.stdout


# ---- models ---------------------------------------------------------------------------------------------------------

NOUNS = ["chat", "chien", "vache", "élève", "日本", "naïveté"]
DEEDS = ["dort à midi", "boit du café", "court — là-bas"]


def sentences(count):
    """A text with characters of one, two and three bytes, which a model of bytes learns within a second."""
    state, lines = 3, []
    for _ in range(count):
        state = (state * 1103515245 + 12345) % 2**31
        k = (state >> 16) % len(NOUNS)
        lines.append("le %s %s.\n" % (NOUNS[k], DEEDS[k % len(DEEDS)]))
    return "".join(lines)


def train(name, *options, steps=120, seed=0, data=None):
    """Trains a tiny model of bytes (or of the --tokenizer in the options) in about a second and returns its directory."""
    if (DIRECTORY / name).exists():  # several tests in one process
        return DIRECTORY / name
    text = DIRECTORY / "text.txt"
    if not text.exists():
        text.write_text(sentences(800), encoding="utf-8")
    run("train", "--data", data or text, "--out", DIRECTORY / name, "--layers", 2, "--width", 16, "--heads", 2, "--context", 64, "--batch", 8,
        "--lr", 0.05, "--other-lr", 0.02, "--valid-fraction", 0, "--quiet", "--steps", steps, "--seed", seed, *options)
    shutil.rmtree(DIRECTORY / name / "checkpoints", ignore_errors=True)
    return DIRECTORY / name


def words():
    """A model of bytes with attention with features, whose state has a fixed size."""
    return train("words", "--features", 16)


def exact():
    """The same with softmax attention, whose state grows with each token."""
    return train("exact", "--attention", "softmax")


def pieces():
    """A model of word pieces with an end-of-text token."""
    text = DIRECTORY / "pieces.txt"
    text.write_text(sentences(800), encoding="utf-8")
    run("tokenizer", "train", text, "--vocab", 300, "--out", DIRECTORY / "pieces.json", "--quiet")
    return train("pieces", "--features", 16, "--tokenizer", DIRECTORY / "pieces.json")


def variant(model, name, **files):
    """A copy of a model with other or further files; their names have __ for the period."""
    shutil.copytree(model, DIRECTORY / name, dirs_exist_ok=True)
    for file, text in files.items():
        (DIRECTORY / name / file.replace("__", ".")).write_text(text, encoding="utf-8")
    return DIRECTORY / name


TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"


# ---- references -----------------------------------------------------------------------------------------------------

def write_ids(path, tokens):
    header = "{'descr': '<i4', 'fortran_order': False, 'shape': (%d,), }" % len(tokens)
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                     struct.pack("<%di" % len(tokens), *tokens))


def logits(model, tokens):
    """The logits after every token, as `bochner eval` computes them: a list of arrays."""
    write_ids(DIRECTORY / "ids.npy", tokens)
    run("eval", model, "--ids", DIRECTORY / "ids.npy", "--logits-out", DIRECTORY / "logits.npy", "--quiet")
    data = (DIRECTORY / "logits.npy").read_bytes()
    (length,) = struct.unpack_from("<H", data, 8)
    values = array.array("f")
    values.frombytes(data[10 + length:])
    vocab = len(values) // len(tokens)
    return [values[i * vocab:(i + 1) * vocab] for i in range(len(tokens))]


def log_softmax(row):
    top = max(row)
    total = top + math.log(sum(math.exp(x - top) for x in row))
    return [x - total for x in row]


def byte_tokens(text):
    """The tokens of a text for a model of bytes."""
    return list(text.encode())


def greedy(model, prompt, tokens, *options):
    """The continuation that `bochner generate --greedy` prints. A part of a character at its end is left out, as by the server."""
    text = json.loads(run("generate", model, "--prompt", prompt, "--tokens", tokens, "--greedy", "--json", "--quiet", *options))["text"]
    return text.rstrip("\ufffd")


def greedy_ids(model, prompt_ids, tokens, *options):
    write_ids(DIRECTORY / "prompt.npy", prompt_ids)
    return json.loads(run("generate", model, "--ids", DIRECTORY / "prompt.npy", "--tokens", tokens, "--greedy", "--json", "--quiet",
                          *options))["ids"]


def tensors(path):
    """The float32 tensors of a safetensors file: name -> (shape, values)."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header, found = json.loads(data[8:8 + length]), {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            begin, end = entry["data_offsets"]
            values = array.array("f")
            values.frombytes(data[8 + length + begin:8 + length + end])
            found[name] = (entry["shape"], values)
    return found


# ---- states -----------------------------------------------------------------------------------------------------------

def xxh64(data):
    """The checksum of a state."""
    p1, p2, p3, p4, p5 = (11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579, 2870177450012600261)
    mask = 2**64 - 1

    def rotate(x, bits):
        return (x << bits | x >> (64 - bits)) & mask

    def mix(sum_, word):
        return rotate((sum_ + word * p2) & mask, 31) * p1 & mask

    at, end = 0, len(data)
    if end >= 32:
        sums = [(p1 + p2) & mask, p2, 0, -p1 & mask]
        while at + 32 <= end:
            sums = [mix(s, word) for s, word in zip(sums, struct.unpack_from("<4Q", data, at))]
            at += 32
        h = sum(rotate(s, bits) for s, bits in zip(sums, (1, 7, 12, 18))) & mask
        for s in sums:
            h = ((h ^ mix(0, s)) * p1 + p4) & mask
    else:
        h = p5
    h = (h + end) & mask
    while at + 8 <= end:
        h = (rotate(h ^ mix(0, struct.unpack_from("<Q", data, at)[0]), 27) * p1 + p4) & mask
        at += 8
    if at + 4 <= end:
        h = (rotate(h ^ struct.unpack_from("<I", data, at)[0] * p1 & mask, 23) * p2 + p3) & mask
        at += 4
    for byte in data[at:]:
        h = rotate(h ^ byte * p5 & mask, 11) * p1 & mask
    h = (h ^ h >> 33) * p2 & mask
    h = (h ^ h >> 29) * p3 & mask
    return h ^ h >> 32


def forge(state, change):
    """A state with other numbers and right checksums; change(name, bytes) returns the bytes of a layer."""
    pending, id_bytes = struct.unpack_from("<II", state, 8)
    begin = 64 + 4 * pending + id_bytes
    (length,) = struct.unpack_from("<Q", state, begin)
    header, data = json.loads(state[begin + 8:begin + 8 + length]), state[begin + 8 + length:]
    header["__metadata__"] = {k: v for k, v in header["__metadata__"].items() if "checksum" not in k}
    parts, at = [], 0
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        parts.append(change(name, data[first:last]))
        entry["data_offsets"] = [at, at + len(parts[-1])]
        at += len(parts[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    inner = struct.pack("<Q", len(text)) + text + b"".join(parts)
    out = bytearray(state[:begin] + inner)
    struct.pack_into("<Q", out, 40, len(inner))
    struct.pack_into("<Q", out, 48, xxh64(bytes(out[:48] + out[56:])))
    return bytes(out)


# ---- the server -----------------------------------------------------------------------------------------------------

class Response:
    """A response: status, headers (names in lower case), body, and the body as JSON."""

    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body.decode("utf-8"))

    @property
    def error(self):
        return self.json["error"]

    def __repr__(self):
        return "%d %s" % (self.status, self.body[:500])


class Server:
    """`bochner serve` on a free port of the loopback interface. With `with`, it is stopped by SIGTERM at the end, and its exit
    status must be 0. `prepare` is called in the new process, whose environment has the variables of `environment` too."""

    def __init__(self, model, *options, prepare=None, environment={}):
        self.key = None
        self.model = model
        descriptor, name = tempfile.mkstemp(".err", dir=DIRECTORY)
        self.errors = pathlib.Path(name)
        self.process = subprocess.Popen([PROGRAM, "serve", str(model), "--port", "0", *map(str, options)], stdout=subprocess.PIPE,
                                        stderr=descriptor, stdin=subprocess.DEVNULL, preexec_fn=prepare,
                                        env={**os.environ, **environment})
        os.close(descriptor)
        atexit.register(self.process.kill)
        first = self.process.stdout.readline()
        assert first, "the server did not start: %s" % self.stderr()
        self.started = json.loads(first)
        self.host, self.port = re.fullmatch(r"http://(.+):(\d+)/?", self.started["listening"]).groups()
        self.port = int(self.port)
        self.log = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        with self.process.stdout as lines:
            for line in lines:
                self.log.append(line)

    def stderr(self):
        return self.errors.read_text("utf-8", "replace")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.kill()
        else:
            self.stop()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join(PATIENCE)

    def stop(self, status=0):
        """SIGTERM; checks the exit status and that every line of the log is a JSON object."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        found = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        assert found == status, "exit status %d instead of %d: %s" % (found, status, self.stderr())
        for line in self.log:
            assert isinstance(json.loads(line), dict), "a line of the log is no JSON object: %r" % line

    # -- requests

    def connect(self, timeout=PATIENCE):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def socket(self, data=b"", timeout=PATIENCE):
        """A plain connection on which these bytes were sent."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if data:
            connection.sendall(data)
        return connection

    def send(self, connection, method, path, body, headers):
        """Sends a request, whose response the caller reads."""
        headers = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        if isinstance(body, str):
            body = body.encode()
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        if self.key:
            headers.setdefault("Authorization", "Bearer " + self.key)
        connection.request(method, path, body, headers)

    def request(self, method, path, body=None, headers=None, timeout=PATIENCE):
        connection = self.connect(timeout)
        try:
            self.send(connection, method, path, body, headers)
            return Response(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.request("GET", path, headers=headers)

    def post(self, path, body):
        return self.request("POST", path, body)

    def json(self, path, body):
        """The body of a successful response."""
        response = self.post(path, body)
        assert response.status == 200, "%s %s: %r" % (path, json.dumps(body)[:300], response)
        return response.json

    def complete(self, prompt="", **members):
        return self.json("/v1/completions", {"prompt": prompt, **members})

    def text(self, prompt="", **members):
        return self.complete(prompt, **members)["choices"][0]["text"]

    def chat(self, messages, **members):
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return self.json("/v1/chat/completions", {"messages": messages, **members})

    def events(self, path, body):
        """The events of a streamed response; checks the framing and that the last one is [DONE]."""
        with self.stream(path, body) as lines:
            return list(lines)

    @contextlib.contextmanager
    def stream(self, path, body):
        """An iterator over the events of a streamed response, while they arrive."""
        connection = self.connect()
        try:
            self.send(connection, "POST", path, {**body, "stream": True}, None)
            with connection.getresponse() as response:
                assert response.status == 200, repr(Response(response))
                assert response.getheader("Content-Type").split(";")[0].strip() == "text/event-stream", response.getheaders()
                yield self._events(response)
        finally:
            connection.close()

    @staticmethod
    def _events(response):
        done = False
        while True:
            line = response.readline()
            if not line:
                break
            assert not done, "data after [DONE]: %r" % line
            if line == b"\n" or line.startswith(b":"):  # the end of an event; a comment that keeps the connection alive
                continue
            assert line.startswith(b"data: ") and line.endswith(b"\n"), line
            assert response.readline() == b"\n", "an event does not end with an empty line"
            if line == b"data: [DONE]\n":
                done = True
            else:
                yield json.loads(line[6:].decode("utf-8"))
        assert done, "the stream has no [DONE]"

    # -- metrics and logs of the server

    def metrics(self):
        """The samples of /metrics: name -> sum over its labels."""
        found = {}
        for line in self.get("/metrics").body.decode().splitlines():
            if line and not line.startswith("#"):
                name = re.match(r"[^{ ]+", line).group()
                found[name] = found.get(name, 0) + float(line.split()[-1])
        return found

    def running(self):
        return int(self.metrics()["bochner_running"])

    def waiting(self):
        return int(self.metrics()["bochner_queued"])

    def rss(self):
        """Bytes of memory of the process."""
        return self._status("VmRSS")

    def peak(self):
        """The peak memory of the process in bytes."""
        return self._status("VmHWM")

    def _status(self, name):
        status = pathlib.Path("/proc/%d/status" % self.process.pid).read_text()
        return int(re.search(name + r":\s+(\d+)", status).group(1)) * 1024

    def files(self):
        return len(os.listdir("/proc/%d/fd" % self.process.pid))


def wait_until(condition, what, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not within %d seconds: %s" % (seconds, what)
        time.sleep(0.01)


def parallel(tasks):
    """Runs functions at the same time, one thread each, and returns their results; the first exception is raised."""
    results, errors = [None] * len(tasks), []

    def work(i):
        try:
            results[i] = tasks[i]()
        except BaseException as error:  # pylint: disable=broad-except
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


class Case(unittest.TestCase):
    """A test with the servers of four models: `main` (bytes, without a chat template), `piece` (word pieces), `chatty` (bytes, with a
    chat template and end tokens) and `bare` (without a tokenizer, softmax attention)."""
    main = piece = chatty = bare = None

    @classmethod
    def start(cls):
        """For setUpModule; returns the servers, whose models are the members `model`."""
        model = words()
        # The end of a line ends a response, and so does #.
        talk = variant(model, "chatty", chat_template__jinja=TEMPLATE, generation_config__json='{"eos_token_id": [10, 35]}')
        Case.main, Case.piece, Case.chatty, Case.bare = map(Server, (model, pieces(), talk, DATA / "llama-tiny"))
        return Case.main, Case.piece, Case.chatty, Case.bare

    @classmethod
    def finish(cls):
        for each in (cls.main, cls.piece, cls.chatty, cls.bare):
            each.stop()

    def refused(self, status, path, body, param=None, on=None, kind="invalid_request_error"):
        """The request gets an error with this status, type and member."""
        response = (on or self.main).post(path, body)
        self.assertEqual(response.status, status, "%s: %r" % (json.dumps(body)[:200], response))
        self.assertEqual(set(response.error), {"message", "type", "param", "code"})
        self.assertEqual(response.error["type"], kind)
        self.assertTrue(response.error["message"])
        if param:
            self.assertEqual(response.error["param"], param, response)
        return response
