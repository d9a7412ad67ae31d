"""Train a small language model and save it: python train_model.py [TEXT.txt] [SECONDS]"""
import sys

import bochner

text = sys.argv[1] if len(sys.argv) > 1 else "the cat sat on the mat, and the dog sat on the log. " * 400
minutes = float(sys.argv[2]) / 60 if len(sys.argv) > 2 else 0.1

model = bochner.Model.create(layers=2, width=64, heads=4, context=128, attention="rfa-gate", features=32, seed=1)


def report(now):
    print(f"step {now.step:5}  loss {now.loss:.3f}")
    return now.loss > 0.05  # False stops the run


history = model.train(text, minutes=minutes, batch=8, callback=report)
print(history)
print(model.generate_text("the ", max_tokens=60, temperature=0.7, seed=1))
model.save("trained-model")  # bochner generate trained-model reads it
