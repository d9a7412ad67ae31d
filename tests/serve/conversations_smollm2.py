"""bochner serve with SmolLM2: the tokens of conversations that are continued by state, which the model ends or a limit."""
import os, unittest
import server
from conversations import compare
from server import DIRECTORY, Server, run

server.PATIENCE = 240


class Conversations(unittest.TestCase):
    def test_turns(self):
        directory = DIRECTORY / "smollm2"
        run("convert", os.environ["SMOLLM2"], "--out", directory, "--quiet")
        questions = ("What is the capital of France?", "And of Spain?", "Which word ends a turn, <|im_end|> or </s>?")
        with Server(directory, "--slots", 2, "--context", 512) as each:
            for system in (None, "You answer in one short sentence."):
                for limit in (40, 5):
                    compare(self, each, system, questions, max_tokens=limit, temperature=0)


if __name__ == "__main__":
    unittest.main()
