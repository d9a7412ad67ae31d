"""bochner serve: states, which are created, downloaded, uploaded, continued, dropped and refused."""
import base64, unittest
from server import Case, Server, byte_tokens, greedy, greedy_ids


def setUpModule():
    global main, piece, chatty, bare, WORDS, PIECES, CHATTY
    main, piece, chatty, bare = Case.start()
    WORDS, PIECES, CHATTY = main.model, piece.model, chatty.model


def tearDownModule():
    Case.finish()


class States(Case):
    def test_create_download_upload_drop(self):
        text = "le chat boit du café.\n"
        created = main.json("/v1/states", {"prompt": text})
        self.assertEqual(set(created), {"object", "id", "tokens", "bytes", "model"})
        self.assertEqual((created["object"], created["tokens"], created["model"]), ("state", len(byte_tokens(text)), "words"))
        response = main.get("/v1/states/" + created["id"])
        self.assertEqual((response.status, response.headers["content-type"]), (200, "application/octet-stream"))
        self.assertGreaterEqual(len(response.body), 2688)
        answer2 = main.request("PUT", "/v1/states/My_state-2", response.body, {"Content-Type": "application/octet-stream"})
        self.assertEqual(answer2.status, 200, answer2)
        self.assertEqual((answer2.json["id"], answer2.json["tokens"]), ("My_state-2", created["tokens"]))
        expected = greedy(WORDS, text, 50)
        coded = {"data": base64.b64encode(response.body).decode()}
        for state in (created["id"], "My_state-2", coded):
            self.assertEqual(main.text("", state=state, max_tokens=50, temperature=0), expected)
            self.assertEqual(main.json("/v1/completions", {"state": state, "max_tokens": 50, "temperature": 0})["choices"][0]["text"],
                             expected)
            self.assertEqual(main.text("le ", state=state, max_tokens=50, temperature=0), greedy(WORDS, text + "le ", 50))
        self.assertEqual(main.get("/v1/states/My_state-2").body, response.body)
        for name in (created["id"], "My_state-2"):
            dropped = main.request("DELETE", "/v1/states/" + name)
            self.assertEqual((dropped.status, dropped.json), (200, {"object": "state.deleted", "id": name, "deleted": True}))
            for method in ("GET", "DELETE"):
                response = main.request(method, "/v1/states/" + name)
                self.assertEqual((response.status, response.error["type"]), (404, "not_found_error"))
            self.refused(404, "/v1/completions", {"state": name}, kind="not_found_error")

    def test_prompts(self):
        first = main.json("/v1/states", {"prompt": byte_tokens("le chat ")})
        second = main.json("/v1/states", {"prompt": "boit", "state": first["id"]})
        self.assertEqual((first["tokens"], second["tokens"]), (8, 12))
        self.assertEqual(main.text("", state=second["id"], temperature=0), greedy(WORDS, "le chat boit", 16))
        self.assertEqual(main.text("", state=first["id"], temperature=0), greedy(WORDS, "le chat ", 16))
        talk = chatty.json("/v1/states", {"messages": [{"role": "user", "content": "le chat"}]})
        self.assertIn(talk["tokens"], (len("<user>le chat\n"), len("<user>le chat\n<assistant>")))
        for state in (first, second):
            main.request("DELETE", "/v1/states/" + state["id"])

    def test_returned_states(self):
        """Greedy text in parts, continued from each kind of state, equals the uninterrupted text; n choices have n states."""
        whole = greedy_ids(WORDS, byte_tokens("le 日本"), 90)
        for kind in (True, "id"):
            state, ids, text = None, [], ""
            for part in range(3):
                body = {"prompt": "" if part else "le 日本", "max_tokens": 30, "temperature": 0, "return_state": kind, "state": state,
                        "return_token_ids": True}
                if part == 2:  # the last event has the state
                    events = [event["choices"][0] for event in main.events("/v1/completions", body)]
                    self.assertFalse(any(event.get("state") for event in events[:-1]))
                    choice = {**events[-1], "token_ids": sum((event.get("token_ids") or [] for event in events), []),
                              "text": "".join(event["text"] for event in events)}
                else:
                    choice = main.json("/v1/completions", body)["choices"][0]
                self.assertEqual(set(choice["state"]), {"data" if kind is True else "id", "tokens", "bytes"})
                self.assertEqual(choice["state"]["tokens"], len(byte_tokens("le 日本")) + 30 * (part + 1))
                if kind is True:
                    self.assertEqual(len(base64.b64decode(choice["state"]["data"])), choice["state"]["bytes"])
                state = {"data": choice["state"]["data"]} if kind is True else choice["state"]["id"]
                ids += choice["token_ids"]
                text += choice["text"]
            self.assertEqual(ids, whole)
            self.assertEqual(text, greedy(WORDS, "le 日本", 90))  # parts end before a divided character, and continue with it
        body = main.complete("le", n=3, temperature=2, seed=1, max_tokens=12, return_state="id")
        self.assertEqual(len({choice["state"]["id"] for choice in body["choices"]}), 3)
        for choice in body["choices"]:
            main.request("DELETE", "/v1/states/" + choice["state"]["id"])
        self.assertNotIn("state", main.complete("le", return_state=False)["choices"][0])
        for value in ("data", 1, "", {}):
            self.refused(400, "/v1/completions", {"prompt": "le", "return_state": value}, "return_state")

    def test_stop_text(self):
        """The state has all tokens that were generated, also those of the stop text."""
        free = greedy(WORDS, "le chat", 40)
        choice = main.complete("le chat", max_tokens=40, temperature=0, stop=free[6:9], return_state="id")["choices"][0]
        self.assertEqual((choice["text"], choice["finish_reason"]), (free[:free.find(free[6:9])], "stop"))
        made = choice["state"]["tokens"] - len(byte_tokens("le chat"))
        self.assertEqual(made, len(byte_tokens(choice["text"] + free[6:9])))
        more = main.complete("", state=choice["state"]["id"], max_tokens=40, temperature=0, return_token_ids=True)["choices"][0]
        self.assertEqual(more["token_ids"], greedy_ids(WORDS, byte_tokens("le chat"), made + 40)[made:])

    def test_conversations(self):
        """The messages after a state: each response equals that to the whole conversation. The state has the end token, here the
        end of the line, which the template writes after each message."""
        state, messages, count = None, [], 0
        for question in ("le chat", "le 日本", "la vache"):
            messages.append({"role": "user", "content": question})
            whole = chatty.chat(messages, temperature=0, max_tokens=200)["choices"][0]
            part = chatty.chat(question, temperature=0, max_tokens=200, state=state, return_state="id")["choices"][0]
            self.assertEqual(whole["finish_reason"], "stop")
            self.assertEqual(part["message"]["content"], whole["message"]["content"])
            count += len(byte_tokens("<user>%s\n<assistant>%s\n" % (question, whole["message"]["content"])))
            self.assertEqual(part["state"]["tokens"], count)
            state = part["state"]["id"]
            messages.append({"role": "assistant", "content": whole["message"]["content"]})

    def test_refused(self):
        """States of another model, and damaged ones: each byte counts. Nothing of them is kept."""
        created = main.json("/v1/states", {"prompt": "le chat"})["id"]
        state = main.get("/v1/states/" + created).body
        other = bare.get("/v1/states/" + bare.json("/v1/states", {"prompt": [1, 2, 3]})["id"]).body
        same_shape = piece.get("/v1/states/" + piece.json("/v1/states", {"prompt": "le"})["id"]).body
        bad = {"another model": other, "another model of the same shape": same_shape, "empty": b"", "one byte": b"x",
               "truncated": state[:-1], "half": state[:len(state) // 2], "header alone": state[:64], "longer": state + b"\0",
               "text": b"hello " * 500, "zeros": bytes(len(state))}
        for at in [0, 3, 8, 17, 40, 100] + [len(state) * k // 8 for k in range(1, 8)] + [len(state) - 1, len(state) - 9]:
            bad["byte %d" % at] = state[:at] + bytes([state[at] ^ 0x10]) + state[at + 1:]
        for name, data in bad.items():
            response = main.request("PUT", "/v1/states/bad", data, {"Content-Type": "application/octet-stream"})
            self.assertEqual((response.status, response.error["type"]), (400, "invalid_request_error"), "%s: %r" % (name, response))
            self.assertEqual(main.get("/v1/states/bad").status, 404, name)
            body = {"state": {"data": base64.b64encode(data).decode()}, "max_tokens": 1}
            self.refused(400, "/v1/completions", body, "state")
        for data in ("!!!!", "AAA", "A", 5, None, "é"):
            self.refused(400, "/v1/completions", {"state": {"data": data}}, "state")
        for state in (5, [], {}, True):
            self.refused(400, "/v1/completions", {"state": state}, "state")
        for name in ("a.b", "a%2Fb", "a%20b", "x" * 65, "%C3%A9", "..%2F..%2Fetc", "a%00"):
            response = main.request("PUT", "/v1/states/" + name, main.get("/v1/states/" + created).body)
            self.assertIn(response.status, (400, 404), name)
        self.assertIn(main.request("PUT", "/v1/states/", b"").status, (400, 404, 405))
        for body in ({}, {"prompt": 5}, {"prompt": ["a"]}, {"prompt": [256]}, {"prompt": None}):
            self.refused(400, "/v1/states", body)
        self.refused(404, "/v1/states", {"prompt": "a", "state": "none"}, kind="not_found_error")
        longest = "x" * 64
        kept = main.get("/v1/states/" + created).body
        self.assertEqual(main.request("PUT", "/v1/states/" + longest, kept).status, 200)
        self.assertEqual(main.text("", state=longest, temperature=0), greedy(WORDS, "le chat", 16))

    def test_full_store(self):
        """States by id are not evicted: further ones are refused when --cache-bytes are used up."""
        with Server(WORDS, "--cache-bytes", 20000) as each:
            first = each.json("/v1/states", {"prompt": "le chat"})["id"]
            responses = [each.post("/v1/states", {"prompt": "le " + "x" * i}) for i in range(20)]
            self.assertEqual({response.status for response in responses}, {200, 507})
            self.assertEqual({response.error["type"] for response in responses if response.status == 507}, {"server_error"})
            self.assertEqual(each.text("", state=first, temperature=0), greedy(WORDS, "le chat", 16))
            expected = each.complete("a", temperature=0, max_tokens=20)["choices"][0]
            body = {"temperature": 0, "max_tokens": 20, "return_state": "id"}
            choice = each.complete("a", **body)["choices"][0]  # the text is not lost
            self.assertEqual((choice["text"], choice["finish_reason"]), (expected["text"], "length"))
            self.assertEqual((set(choice["state"]), choice["state"]["error"]["code"]), ({"error"}, "no_room"))
            last = each.events("/v1/completions", {"prompt": "a", **body})[-1]["choices"][0]
            self.assertEqual((set(last["state"]), last["finish_reason"]), ({"error"}, "length"))
            self.assertEqual(each.post("/v1/completions", {"prompt": "a"}).status, 200)
            each.request("DELETE", "/v1/states/" + first)
            self.assertEqual(each.post("/v1/states", {"prompt": "le"}).status, 200)


if __name__ == "__main__":
    unittest.main()
