"""Regression on a table with text, missing values and intervals: python table_regression.py [TABLE.csv TARGET]

It predicts the column TARGET of a table; without arguments, it generates a table of houses. It needs pandas."""
import sys

import numpy as np
import pandas as pd

from bochner.machines import KernelRegressor


def houses(rows=1500):
    rng = np.random.default_rng(0)
    area, age = rng.uniform(40, 250, rows), rng.uniform(0, 80, rows)
    city = rng.choice(["Bonn", "Kiel", "Ulm"], rows)
    price = 2.0 * area + np.where(city == "Bonn", 80, 0) - 0.02 * (age - 40) ** 2 + rng.normal(0, 12, rows)
    age[rng.random(rows) < 0.1] = np.nan  # missing values stay as they are
    return pd.DataFrame({"area": area, "age": age, "city": city, "price": price})


table, target = (pd.read_csv(sys.argv[1]), sys.argv[2]) if len(sys.argv) == 3 else (houses(), "price")
table = table.sample(frac=1, random_state=0)
train, test = table[: len(table) * 4 // 5], table[len(table) * 4 // 5 :]

machine = KernelRegressor().fit(train.drop(columns=target), train[target])
x, y = test.drop(columns=target), test[target]
low, high = machine.predict_interval(x, level=0.9)

print(machine.report_)
print(f"R2 on {len(test)} test rows: {machine.score(x, y):.3f}")
print(f"inside the 90% interval: {np.mean((low <= y) & (y <= high)):.1%}")
for name, share in zip(machine.feature_names_in_, machine.feature_importances_):
    print(f"importance of {name:10} {share:.2f}")
