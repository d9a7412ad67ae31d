"""Exact kernel ridge regression on the UCI splits: kernel_ridge_uci.py FOLDER [first last] [names...]

FOLDER has one folder per data set with data.txt, index_features.txt, index_target.txt, index_train_I.txt, index_test_I.txt.
Uses scikit-learn's KernelRidge with the Gaussian kernel; inputs and target are standardized on the training rows. A grid of
gamma and alpha is searched by 3-fold cross-validation on at most 2,000 training rows. Its best cells are compared again with
a fifth of all training rows held out, and the best one is fitted on all of them. protein-tertiary-structure uses the first
8,000 training rows of the split. Prints one JSON object per line: data set, split, gamma, alpha, RMSE of the test rows."""
import json, os, sys, time, warnings
import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import KFold

warnings.filterwarnings("ignore")  # for the smallest alpha, nearly singular systems fall back to least squares


def folds_error(d2, y, gamma, alphas, folds):
    """Mean squared error of each alpha over the folds, from the squared distances d2."""
    k = np.exp(-gamma * d2)
    errors = np.zeros(len(alphas))
    for train, test in folds:
        part = k[np.ix_(train, train)]
        across = k[np.ix_(test, train)]
        for i, alpha in enumerate(alphas):
            model = KernelRidge(alpha=alpha, kernel="precomputed").fit(part, y[train])
            errors[i] += np.mean((model.predict(across) - y[test]) ** 2)
    return errors / len(folds)


def tune(x, y, rng):
    few = rng.permutation(len(x))[:2000]
    d2 = euclidean_distances(x[few], squared=True)
    folds = list(KFold(3, shuffle=True, random_state=0).split(few))
    median = np.median(d2[np.triu_indices(len(few), 1)])
    gammas = 2.0 ** np.arange(-6, 5) / median
    alphas = 10.0 ** np.arange(-7, 2)
    grid = {}
    for gamma in gammas:
        for alpha, error in zip(alphas, folds_error(d2, y[few], gamma, alphas, folds)):
            grid[gamma, alpha] = error
    best = sorted(grid, key=grid.get)[:4]
    if len(x) <= 2000:
        # a finer grid around the best cell
        gamma, alpha = best[0]
        fine = {}
        for g in gamma * 2.0 ** np.array([-0.5, 0, 0.5]):
            fine_alphas = alpha * 10.0 ** np.array([-0.5, 0, 0.5])
            for a, error in zip(fine_alphas, folds_error(d2, y[few], g, fine_alphas, folds)):
                fine[g, a] = error
        return min(fine, key=fine.get)
    order = rng.permutation(len(x))
    test, train = order[: len(x) // 5], order[len(x) // 5:]
    scores = {}
    for gamma, alpha in best:
        model = KernelRidge(alpha=alpha, kernel="rbf", gamma=gamma).fit(x[train], y[train])
        scores[gamma, alpha] = np.mean((model.predict(x[test]) - y[test]) ** 2)
    return min(scores, key=scores.get)


def main():
    folder = sys.argv[1]
    first, last = (int(sys.argv[2]), int(sys.argv[3])) if len(sys.argv) > 3 else (0, 4)
    names = sys.argv[4:] or sorted(n for n in os.listdir(folder) if os.path.exists(f"{folder}/{n}/data.txt"))
    for name in names:
        read = lambda what: np.loadtxt(f"{folder}/{name}/{what}.txt")
        data = read("data")
        columns, target = read("index_features").astype(int), int(read("index_target"))
        for split in range(first, last + 1):
            train, test = (read(f"index_{part}_{split}").astype(int) for part in ("train", "test"))
            if name == "protein-tertiary-structure":
                train = train[:8000]
            x, y = data[train][:, columns], data[train, target]
            mean, std = x.mean(0), x.std(0)
            std[std == 0] = 1
            y_mean, y_std = y.mean(), y.std()
            x, ys = (x - mean) / std, (y - y_mean) / y_std
            start = time.perf_counter()
            gamma, alpha = tune(x, ys, np.random.default_rng(split))
            model = KernelRidge(alpha=alpha, kernel="rbf", gamma=gamma).fit(x, ys)
            seconds = time.perf_counter() - start
            predicted = model.predict((data[test][:, columns] - mean) / std) * y_std + y_mean
            rmse = float(np.sqrt(np.mean((predicted - data[test, target]) ** 2)))
            print(json.dumps({"data": name, "split": split, "rows": len(train), "gamma": gamma, "alpha": alpha,
                              "rmse": rmse, "seconds": seconds}), flush=True)


main()
