"""bochner serve with LangChain (langchain-openai): conversations, streams, embeddings and completions."""
import sys, unittest
import server
from server import Server, greedy

try:
    from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
except ImportError as error:
    print("skipped: %s" % error)
    sys.exit(77)


def setUpModule():
    global WORDS, main, common
    WORDS = server.words()
    main = Server(WORDS)
    common = {"model": "words", "base_url": "http://127.0.0.1:%d/v1" % main.port, "api_key": "none", "max_retries": 0}


def tearDownModule():
    main.stop()


class LangChain(unittest.TestCase):
    def test_conversations(self):
        model = ChatOpenAI(**common, temperature=0, max_tokens=30)
        talk = [("system", "sois bref"), ("human", "le chat ?")]
        expected = main.chat([{"role": "system", "content": "sois bref"}, {"role": "user", "content": "le chat ?"}], temperature=0,
                             max_tokens=30)
        response = model.invoke(talk)
        self.assertEqual(response.content, expected["choices"][0]["message"]["content"])
        self.assertEqual(response.usage_metadata["input_tokens"], expected["usage"]["prompt_tokens"])
        self.assertEqual(response.response_metadata["finish_reason"], expected["choices"][0]["finish_reason"])
        parts = list(model.stream(talk))
        self.assertEqual("".join(part.content for part in parts), response.content)
        self.assertGreater(len(parts), 5)
        self.assertEqual([one.content for one in model.batch([talk] * 4)], [response.content] * 4)
        scored = ChatOpenAI(**common, max_tokens=5, temperature=0, logprobs=True, top_logprobs=2, stop_sequences=["\n"]).invoke(talk)
        self.assertTrue(scored.response_metadata["logprobs"]["content"][0]["top_logprobs"])

    def test_completions(self):
        model = OpenAI(**common, temperature=0, max_tokens=20)
        self.assertEqual(model.invoke("le chat"), greedy(WORDS, "le chat", 20))
        self.assertEqual("".join(model.stream("le chat")), greedy(WORDS, "le chat", 20))

    def test_embeddings(self):
        model = OpenAIEmbeddings(**common, check_embedding_ctx_length=False)
        texts = ["le chat", "le chien"]
        vectors = [entry["embedding"] for entry in main.json("/v1/embeddings", {"input": texts})["data"]]
        for found in (model.embed_documents(texts), [model.embed_query(text) for text in texts]):
            for one, two in zip(found, vectors):
                self.assertLess(max(abs(a - b) for a, b in zip(one, two)), 1e-5)


if __name__ == "__main__":
    unittest.main()
