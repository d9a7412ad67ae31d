"""Principal components of MNIST with scikit-learn and with Bochner: embed_sklearn.py BOCHNER DIRECTORY [components] [features] [gamma]

Times of a fit and of the coordinates of the 60,000 training rows, without reading and writing files:

    pca        PCA, randomized and covariance solver, the faster one; bochner embed --kernel linear
    kernel     RBFSampler or Nystroem and then PCA, the faster one; bochner embed
    exact      KernelPCA with the randomized solver on 5,000 rows

Pixels are divided by 255 in float32, before gamma applies. The shares of the variance of the features show that both find
the same components. Prints one JSON object."""
import json, subprocess, sys, tempfile, time
import peer_setup
peer_setup.for_numpy()
import numpy as np
import sklearn
from sklearn.decomposition import PCA, KernelPCA
from sklearn.kernel_approximation import Nystroem, RBFSampler
from mnist import load


def timed(run):
    start = time.perf_counter()
    share = run()
    return time.perf_counter() - start, share


def pca(x, components, solver):
    def run():
        model = PCA(components, svd_solver=solver, random_state=0)
        model.fit_transform(x)
        return float(model.explained_variance_ratio_.sum())
    return timed(run)


def features(x, components, sampler, solver):
    def run():
        z = sampler.fit_transform(x)
        model = PCA(components, svd_solver=solver, random_state=0)
        model.fit_transform(z)
        return float(model.explained_variance_ratio_.sum())
    return timed(run)


def bochner(program, x, *options):
    with tempfile.TemporaryDirectory() as directory:
        np.save(f"{directory}/x.npy", x)
        args = [program, "embed", f"{directory}/x.npy", "--scaling", "none", "--json", "--out", f"{directory}/c.npy", *options]
        report = json.loads(subprocess.run(args, check=True, capture_output=True).stdout)
    return report["fit_seconds"] + report["apply_seconds"], 1 - report["feature_error"]


def main():
    program, directory = sys.argv[1], sys.argv[2]
    components = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 2048
    gamma = float(sys.argv[5]) if len(sys.argv) > 5 else 0.01
    x, _ = load(directory, "train")
    k = str(components)
    runs = {
        "pca, covariance": pca(x, components, "covariance_eigh"),
        "pca, randomized": pca(x, components, "randomized"),
        "pca, bochner": bochner(program, x, "--kernel", "linear", "--components", k),
        "RBFSampler, covariance": features(x, components, RBFSampler(gamma=gamma, n_components=count, random_state=0), "covariance_eigh"),
        "RBFSampler, randomized": features(x, components, RBFSampler(gamma=gamma, n_components=count, random_state=0), "randomized"),
        "Nystroem, randomized": features(x, components, Nystroem(gamma=gamma, n_components=count, random_state=0), "randomized"),
        "kernel, bochner": bochner(program, x, "--gamma", str(gamma), "--features", str(count), "--components", k),
    }
    few = x[:5000]
    seconds, _ = timed(lambda: KernelPCA(components, kernel="rbf", gamma=gamma, eigen_solver="randomized", random_state=0).fit_transform(few))
    best = {name: min(t for run, (t, _) in runs.items() if not run.endswith("bochner") and run.startswith(start))
            for name, start in (("pca", "pca"), ("kernel", ("RBFSampler", "Nystroem")))}
    print(json.dumps({"peer": f"scikit-learn {sklearn.__version__}", "threads": peer_setup.THREADS, "blas": peer_setup.blas(),
                      "seconds": {name: round(t, 2) for name, (t, _) in runs.items()},
                      "share": {name: round(s, 4) for name, (_, s) in runs.items()},
                      "exact kernel PCA, 5,000 rows": round(seconds, 2),
                      "ratio": {name: round(t / runs[name + ", bochner"][0], 2) for name, t in best.items()}}, indent=1))


main()
