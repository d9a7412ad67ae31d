"""Give a model with softmax attention a state of fixed size: python linearize_model.py [DIRECTORY TEXT.txt]

DIRECTORY is a pretrained Hugging Face model or a Bochner model. Without arguments, a small model is trained first."""
import sys

import bochner

if len(sys.argv) == 3:
    model, text = bochner.Model.load(sys.argv[1]), sys.argv[2]
else:
    text = "one two three four five six seven eight nine ten. " * 300
    model = bochner.Model.create(layers=2, width=64, heads=4, context=64, attention="softmax", seed=1)
    model.train(text, steps=60, batch=8)

linear = model.linearize(text, "hybrid", features=32, window=8, transfer_steps=20, steps=20, batch=4)
print(linear.report)
for each in (model, linear):
    session = each.session(capacity=2048)
    session.feed(text[:2000])
    print(f"{each.attention[0]:8} perplexity {each.evaluate(text).perplexity:6.2f}, state {session.nbytes:,} bytes")
linear.save("linear-model")
