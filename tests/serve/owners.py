"""bochner serve: states belong to keys. Each key has its own ids, its own cached prefixes and a share of the memory."""
import unittest
import server
from server import Server, greedy

TEXT = server.sentences(4)


def setUpModule():
    global WORDS
    WORDS = server.words()
    (server.DIRECTORY / "keys").write_text("key-of-anna\nkey-of-bert\n")


def serve(*options):
    return Server(WORDS, "--api-key-file", server.DIRECTORY / "keys", *options)


def cached(each, prompt):
    return each.complete(prompt, max_tokens=1)["usage"]["prompt_tokens_details"]["cached_tokens"]


class Owners(unittest.TestCase):
    def test_ids(self):
        """No key reads, continues, replaces or drops the states of another one."""
        with serve() as each:
            each.key = "key-of-anna"
            name = each.json("/v1/states", {"prompt": "le chat"})["id"]
            state = each.get("/v1/states/" + name).body
            self.assertEqual(each.request("PUT", "/v1/states/mine", state).status, 200)
            each.key = "key-of-bert"
            for id_ in (name, "mine"):
                self.assertEqual(each.get("/v1/states/" + id_).status, 404)
                self.assertEqual(each.request("DELETE", "/v1/states/" + id_).status, 404)
                self.assertEqual(each.post("/v1/completions", {"state": id_, "prompt": "a"}).status, 404)
                self.assertEqual(each.post("/v1/states", {"state": id_, "prompt": "a"}).status, 404)
            other = each.get("/v1/states/" + each.json("/v1/states", {"prompt": "la vache"})["id"]).body
            self.assertEqual(each.request("PUT", "/v1/states/mine", other).status, 200)
            self.assertEqual(each.text("", state="mine", temperature=0), greedy(WORDS, "la vache", 16))
            each.key = "key-of-anna"
            self.assertEqual(each.text("", state="mine", temperature=0), greedy(WORDS, "le chat", 16))
            self.assertEqual(each.request("DELETE", "/v1/states/mine").status, 200)
            each.key = "key-of-bert"
            self.assertEqual(each.get("/v1/states/mine").status, 200)

    def test_prefixes(self):
        """The time of a response does not reveal the requests of other clients."""
        with serve() as each:
            for key in ("key-of-anna", "key-of-bert"):
                each.key = key
                self.assertEqual(cached(each, TEXT), 0)
                self.assertGreater(cached(each, TEXT), 0)

    def test_shares(self):
        """A key can neither evict what another one has within its share, nor take the share by keeping states."""
        with serve("--cache-bytes", 40000) as each:
            each.key = "key-of-anna"
            self.assertEqual(cached(each, TEXT), 0)
            each.key = "key-of-bert"
            responses = [each.post("/v1/states", {"prompt": "le " + "x" * i}).status for i in range(30)]
            self.assertEqual(set(responses), {200, 507})
            self.assertLessEqual(responses.count(200), 20000 // 2688)
            for i in range(30):
                each.complete("%d " % i + TEXT, max_tokens=1)
            each.key = "key-of-anna"
            self.assertGreater(cached(each, TEXT), 0)
            self.assertEqual(each.post("/v1/states", {"prompt": "le chat"}).status, 200)

    def test_restart(self):
        """The owners of states on disk are known after a restart, also if keys are added; keys are not written."""
        directory = server.DIRECTORY / "owned"
        with serve("--cache-dir", directory) as each:
            each.key = "key-of-anna"
            name = each.json("/v1/states", {"prompt": "le chat"})["id"]
            cached(each, TEXT)
        for path in directory.iterdir():
            self.assertNotIn(b"key-of-anna", path.read_bytes())
        (server.DIRECTORY / "keys2").write_text("key-of-cora\nkey-of-anna\nkey-of-bert\n")
        with Server(WORDS, "--cache-dir", directory, "--api-key-file", server.DIRECTORY / "keys2") as each:
            for key in ("key-of-cora", "key-of-bert"):
                each.key = key
                self.assertEqual(each.get("/v1/states/" + name).status, 404)
                self.assertEqual(cached(each, TEXT), 0)
            each.key = "key-of-anna"
            self.assertEqual(each.text("", state=name, temperature=0), greedy(WORDS, "le chat", 16))
            self.assertGreater(cached(each, TEXT), 0)
            self.assertEqual(each.started["unowned_states"], 0)
        with Server(WORDS, "--cache-dir", directory) as each:  # without keys
            self.assertEqual(each.get("/v1/states/" + name).status, 404)
            self.assertEqual(cached(each, TEXT), 0)
            self.assertGreater(each.started["unowned_states"], 1)
            self.assertRegex(each.stderr(), r"Cache +\d+ states in the cache directory belong to no API key of this server")

    def test_keys_added(self):
        """States kept before a server had keys belong to no key; the server reports them."""
        directory = server.DIRECTORY / "unowned"
        with Server(WORDS, "--cache-dir", directory) as each:
            name = each.json("/v1/states", {"prompt": "le chat"})["id"]
        with serve("--cache-dir", directory) as each:
            each.key = "key-of-anna"
            self.assertEqual(each.get("/v1/states/" + name).status, 404)
            self.assertEqual(each.started["unowned_states"], 1)
            self.assertRegex(each.stderr(), r"Cache +1 state in the cache directory belongs to no API key of this server")
        with Server(WORDS, "--cache-dir", directory) as each:
            self.assertEqual(each.started["unowned_states"], 0)
            self.assertEqual(each.get("/v1/states/" + name).status, 200)


if __name__ == "__main__":
    unittest.main()
