"""Stream tokens, save the state of a conversation, and continue it twice: python stream_tokens.py [DIRECTORY]"""
import sys

import bochner

if len(sys.argv) > 1:
    model = bochner.Model.load(sys.argv[1])
else:  # a model with random weights; its text is meaningless, but the calls are the same
    model = bochner.Model.create(layers=2, width=64, heads=4, context=128, attention="favor", features=32, seed=1)

session = model.session()
for piece in session.generate("Once upon a time", max_tokens=40, seed=1):
    print(piece, end="", flush=True)  # each piece as soon as it is generated
print()

session.save("conversation.state")
print(f"the state of {session.tokens} tokens has {len(session.tobytes()):,} bytes")
for seed in (2, 3):  # two continuations of the same state
    fork = model.session(state="conversation.state")
    print(f"{seed}:", repr(fork.generate(max_tokens=20, seed=seed).text()))
