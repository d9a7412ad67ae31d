"""Ridge regression on random features with scikit-learn, on MNIST: ridge_sklearn.py DIRECTORY [features] [gamma] [alpha]

A typical pipeline: RBFSampler, then Ridge on one-hot targets, pixels divided by 255, all in float32. Ridge is timed with
the default solver and with the Cholesky solver; the faster time and the higher accuracy count. Reading the files is not
timed. OpenBLAS uses the fastest core type of this host (peer_setup.py). Prints one JSON object."""
import json, sys, time
import peer_setup
peer_setup.for_numpy()
import numpy as np
import sklearn
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from mnist import load


def main():
    directory = sys.argv[1]
    features = int(sys.argv[2]) if len(sys.argv) > 2 else 4096
    gamma = float(sys.argv[3]) if len(sys.argv) > 3 else 0.02
    alpha = float(sys.argv[4]) if len(sys.argv) > 4 else 0.1
    x, y = load(directory, "train")
    test_x, test_y = load(directory, "t10k")
    targets = np.eye(int(y.max()) + 1, dtype=np.float32)[y]
    runs = []
    for solver in ("auto", "cholesky"):
        start = time.perf_counter()
        phi = RBFSampler(gamma=gamma, n_components=features, random_state=0).fit(x)
        z = phi.transform(x)
        middle = time.perf_counter()
        model = Ridge(alpha=alpha, solver=solver).fit(z, targets)
        end = time.perf_counter()
        del z
        accuracy = float((model.predict(phi.transform(test_x)).argmax(1) == test_y).mean())
        runs.append({"solver": solver, "features_seconds": middle - start, "ridge_seconds": end - middle,
                     "fit_seconds": end - start, "accuracy": accuracy})
    best = min(runs, key=lambda run: run["fit_seconds"])
    print(json.dumps({"peer": f"scikit-learn {sklearn.__version__}", "blas": peer_setup.blas(), "features": features,
                      "gamma": gamma, "alpha": alpha, "fit_seconds": best["fit_seconds"],
                      "accuracy": max(run["accuracy"] for run in runs), "runs": runs}))


main()
