"""Boosting and xRFM on twelve tables: tables.py DIRECTORY [--out FILE] [options]

DIRECTORY has uci/NAME/{data,index_features,index_target,index_train_I,index_test_I}.txt for nine regression tables, and
tables/{california-housing.csv,letter.csv,a9a.libsvm,a9a-test.libsvm}. Peers: HistGradientBoosting of scikit-learn, XGBoost,
LightGBM, CatBoost and xRFM; a peer that is not installed is skipped with a note. Each peer runs with default settings and
tuned, on five splits. The splits are those of `bochner bench machines --only tables`: the given index files 0 to 4 (uci), a
hash of the row number with the seeds 0 to 4 (California, letter; see split_hash), the given test file with the seeds 0 to 4
(a9a).

Tuning: 30 random trials (SPACES; the first trial of a boosting library has its default parameters) on at most 12,000
training rows of split 0, of which a fifth is for validation. The trial with the lowest RMSE or error rate (ties: the lowest
log loss) counts. Boosting stops early on the validation rows, after at most ROUNDS rounds. On each split, a fifth of the
training rows decides the number of rounds, and the model is then fitted again on all training rows; the time includes both
fits. In both modes xRFM holds out a fifth of the training rows, as in the code of its authors.

Prints or appends (--out) one JSON object per line. "default" and "tuned" lines have the test score (RMSE or error rate) of
one split and the seconds of the fit, without the search; "trial" lines have the validation score of a trial. With --out,
jobs whose lines are in the file are not repeated, so that an interrupted run continues."""
import argparse, concurrent.futures, functools, importlib, json, math, multiprocessing, os, sys, time, warnings
import numpy as np
import pandas as pd

warnings.filterwarnings("ignore")

UCI = ["bostonHousing", "concrete", "energy", "kin8nm", "naval-propulsion-plant", "power-plant",
       "protein-tertiary-structure", "wine-quality-red", "yacht"]
TABLES = UCI + ["california", "letter", "a9a"]
ORDER = ["letter", "protein-tertiary-structure", "a9a", "california", "naval-propulsion-plant", "power-plant", "kin8nm",
         "wine-quality-red", "concrete", "energy", "bostonHousing", "yacht"]  # slowest first
TUNING_ROWS = 12000
ROUNDS, ROUNDS_CLASSES, PATIENCE = 2000, 1000, 50  # rounds of boosting; with more than two classes; early stopping


# ---- tables --------------------------------------------------------------------------------------------------------

def split_hash(seed, rows):
    """A number in [0, 1) for each row: bo_split_row() of data.h. Rows below 0.2 are for test."""
    z = np.arange(1, rows + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z += np.uint64(seed * 0xD1342543DE82EF95 % 2 ** 64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0 ** -53


class Table:
    """x: a data frame of numbers and categories; y: numbers, or classes from 0; parts: (training, test) rows of a split."""
    def __init__(self, x, y, parts, classes=0):
        self.x, self.y, self.parts, self.classes = x, y, parts, classes
        x.columns = [f"x{i}" for i in range(x.shape[1])]
        self.categories = [c for c in x.columns if isinstance(x[c].dtype, pd.CategoricalDtype)]


def load_libsvm(path, columns):
    labels, rows = [], []
    with open(path) as lines:
        for line in lines:
            fields = line.split()
            labels.append(float(fields[0]) > 0)
            rows.append(np.zeros(columns, np.float32))
            for field in fields[1:]:
                column, value = field.split(":")
                rows[-1][int(column) - 1] = float(value)
    return np.array(rows), np.array(labels, int)


@functools.lru_cache(maxsize=None)
def load(directory, name):
    if name in UCI:
        read = lambda what: np.loadtxt(f"{directory}/uci/{name}/{what}.txt")
        data, columns, target = read("data"), read("index_features").astype(int), int(read("index_target"))
        indices = lambda split: tuple(read(f"index_{part}_{split}").astype(int) for part in ("train", "test"))
        return Table(pd.DataFrame(data[:, columns]), data[:, target], indices)
    if name == "a9a":
        (x, y), (test_x, test_y) = (load_libsvm(f"{directory}/tables/{part}.libsvm", 123) for part in ("a9a", "a9a-test"))
        rows = np.arange(len(x) + len(test_x))
        return Table(pd.DataFrame(np.vstack([x, test_x])), np.concatenate([y, test_y]),
                     lambda split: (rows[:len(x)], rows[len(x):]), 2)
    x = pd.read_csv(f"{directory}/tables/{'california-housing' if name == 'california' else name}.csv")
    hashed = lambda split: tuple(np.flatnonzero((split_hash(split, len(x)) < 0.2) == test) for test in (False, True))
    if name == "letter":
        classes, y = np.unique(x.pop("lettr"), return_inverse=True)
        return Table(x, y, hashed, len(classes))
    y = x.pop("median_house_value").to_numpy()
    return Table(x.astype({"ocean_proximity": "category"}), y, hashed)


def hold_out(rows, seed):
    """Divides rows into four fifths and a fifth."""
    rows = np.random.default_rng(1000 + seed).permutation(rows)
    return rows[len(rows) // 5:], rows[:len(rows) // 5]


# ---- peers ---------------------------------------------------------------------------------------------------------

def log_uniform(low, high):
    return lambda rng: float(np.exp(rng.uniform(np.log(low), np.log(high))))


def log_integer(low, high):
    return lambda rng: int(round(np.exp(rng.uniform(np.log(low), np.log(high)))))


def integer(low, high):
    return lambda rng: int(rng.integers(low, high + 1))


def uniform(low, high):
    return lambda rng: float(rng.uniform(low, high))


def choice(*values):
    return lambda rng: values[rng.integers(len(values))]


# Ranges as in comparisons of boosting on tables (Grinsztajn et al. 2022, McElfresh et al. 2023, Gorishniy et al. 2021);
# xRFM has the ranges of its authors (pytabkit, search space "default").
SPACES = {
    "hist": dict(learning_rate=log_uniform(0.01, 0.3), max_leaf_nodes=log_integer(8, 128), min_samples_leaf=log_integer(2, 60),
                 l2_regularization=log_uniform(1e-6, 100), max_features=uniform(0.5, 1)),
    "xgboost": dict(learning_rate=log_uniform(0.01, 0.3), max_depth=integer(3, 10), min_child_weight=log_uniform(0.5, 60),
                    subsample=uniform(0.5, 1), colsample_bytree=uniform(0.5, 1), reg_lambda=log_uniform(1e-2, 100),
                    reg_alpha=log_uniform(1e-8, 10)),
    "lightgbm": dict(learning_rate=log_uniform(0.01, 0.3), num_leaves=log_integer(8, 128), min_child_samples=log_integer(2, 60),
                     subsample=uniform(0.5, 1), subsample_freq=choice(1), colsample_bytree=uniform(0.5, 1),
                     reg_lambda=log_uniform(1e-6, 100), reg_alpha=log_uniform(1e-8, 10)),
    "catboost": dict(learning_rate=log_uniform(0.01, 0.3), depth=integer(4, 8), l2_leaf_reg=log_uniform(0.5, 30),
                     random_strength=log_uniform(0.1, 10), bagging_temperature=uniform(0, 1)),
    "xrfm": dict(kernel=choice("lpq", "lpq", "lpq", "lpq", "l2"), bandwidth=log_uniform(0.5, 200), reg=log_uniform(1e-6, 10),
                 exponent=uniform(0.7, 1.4), p_interp=uniform(0, 0.8), diag=choice(False, True)),
}
MODULES = {"hist": "sklearn", "xgboost": "xgboost", "lightgbm": "lightgbm", "catboost": "catboost", "xrfm": "xrfm"}


def trial_parameters(peer, table, trial):
    """Random parameters, which depend only on the peer, the table and the trial number."""
    if trial == 0 and peer != "xrfm":
        return {}
    rng = np.random.default_rng([trial, TABLES.index(table), list(SPACES).index(peer)])
    return {name: draw(rng) for name, draw in SPACES[peer].items()}


def output(model, x, classes):
    return model.predict_proba(x) if classes else model.predict(x)


# A peer is a function (x, y, classes, parameters, rounds, valid, seed, threads) -> (predict, rounds). `parameters` None means
# default settings. `valid` is (x, y) for early stopping, or None; `rounds` is the maximum, and the best number is returned.

def fit_hist(x, y, classes, parameters, rounds, valid, seed, threads):
    from sklearn import ensemble
    kind = ensemble.HistGradientBoostingClassifier if classes else ensemble.HistGradientBoostingRegressor
    if parameters is None:
        settings = {}
    elif valid:
        settings = dict(max_iter=rounds, early_stopping=True, n_iter_no_change=PATIENCE, tol=0, **parameters)
    else:
        settings = dict(max_iter=rounds, early_stopping=False, **parameters)
    model = kind(categorical_features="from_dtype", random_state=seed, **settings)
    model.fit(x, y, **(dict(X_val=valid[0], y_val=valid[1]) if valid else {}))
    best = max(1, int(np.argmax(model.validation_score_))) if valid else model.n_iter_
    if valid:  # the prediction of the best round, not of the last round
        staged = model.staged_predict_proba if classes else model.staged_predict
        return lambda x: next(p for i, p in enumerate(staged(x), 1) if i == best), best
    return lambda x: output(model, x, classes), best


def fit_xgboost(x, y, classes, parameters, rounds, valid, seed, threads):
    import xgboost
    kind = xgboost.XGBClassifier if classes else xgboost.XGBRegressor
    settings = {} if parameters is None else dict(n_estimators=rounds, **parameters)
    if valid:
        settings["early_stopping_rounds"] = PATIENCE
    model = kind(enable_categorical=True, random_state=seed, n_jobs=threads, **settings)
    model.fit(x, y, verbose=False, **(dict(eval_set=[valid]) if valid else {}))
    return lambda x: output(model, x, classes), model.best_iteration + 1 if valid else rounds


def fit_lightgbm(x, y, classes, parameters, rounds, valid, seed, threads):
    import lightgbm
    kind = lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor
    settings = {} if parameters is None else dict(n_estimators=rounds, **parameters)
    model = kind(random_state=seed, n_jobs=threads, verbose=-1, **settings)
    stop = dict(eval_set=[valid], callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)]) if valid else {}
    model.fit(x, y, **stop)
    return lambda x: output(model, x, classes), model.best_iteration_ if valid else rounds


def fit_catboost(x, y, classes, parameters, rounds, valid, seed, threads):
    import catboost
    kind = catboost.CatBoostClassifier if classes else catboost.CatBoostRegressor
    settings = {} if parameters is None else dict(iterations=rounds, **parameters)
    categories = [c for c in x.columns if isinstance(x[c].dtype, pd.CategoricalDtype)]
    model = kind(cat_features=categories, random_seed=seed, thread_count=threads, verbose=0, allow_writing_files=False,
                 **settings)
    model.fit(x, y, **(dict(eval_set=valid, early_stopping_rounds=PATIENCE) if valid else {}))
    return lambda x: output(model, x, classes), model.best_iteration_ + 1 if valid else rounds


class Numbers:
    """Numbers for xRFM: standardized columns, missing values as the mean with an indicator, categories one-hot."""
    def __init__(self, x):
        self.categories = {c: x[c].cat.categories for c in x.columns if isinstance(x[c].dtype, pd.CategoricalDtype)}
        self.numbers = [c for c in x.columns if c not in self.categories]
        self.missing = [c for c in self.numbers if x[c].isna().any()]
        self.mean, self.std = x[self.numbers].mean(), x[self.numbers].std(ddof=0).replace(0, 1)

    def __call__(self, x):
        scaled = ((x[self.numbers] - self.mean) / self.std).fillna(0).to_numpy()
        absent = x[self.missing].isna().to_numpy()
        one_hot = [x[c].to_numpy()[:, None] == values.to_numpy() for c, values in self.categories.items()]
        return np.hstack([scaled, absent, *one_hot]).astype(np.float32)


def fit_xrfm(x, y, classes, parameters, rounds, valid, seed, threads, device, memory):
    import torch, xrfm
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest")
    numbers = Numbers(x)
    shift, scale = (0, 1) if classes else (y.mean(), y.std() or 1)
    target = lambda y: torch.as_tensor(y) if classes else torch.as_tensor((y - shift) / scale, dtype=torch.float32)
    settings = {}
    if parameters is not None:
        p = dict(parameters)
        model = dict(kernel=p["kernel"], bandwidth=p["bandwidth"], exponent=p["exponent"], diag=p["diag"],
                     norm_p=p["exponent"] + (2 - p["exponent"]) * p["p_interp"], bandwidth_mode="constant")
        row_bytes = 8 * len(x) * max(1, classes) * numbers(x[:1]).shape[1]  # of a row of gradients
        fit = dict(reg=p["reg"], iters=5, early_stop_rfm=True, early_stop_multiplier=1.1, verbose=False,
                   M_batch_size=max(1, min(8192, int(memory * 2.0 ** 30 / row_bytes))))
        settings = dict(rfm_params=dict(model=model, fit=fit), overlap_fraction=0.1,
                        **(dict(classification_mode="prevalence", tuning_metric="accuracy") if classes else {}))
    model = xrfm.xRFM(device=torch.device(device), random_state=seed, n_threads=threads, verbose=False, **settings)
    model.fit(torch.as_tensor(numbers(x)), target(y), torch.as_tensor(numbers(valid[0])), target(valid[1]))

    def predict(x):
        out = output(model, torch.as_tensor(numbers(x)), classes)
        out = out.cpu().numpy() if torch.is_tensor(out) else np.asarray(out)
        return out if classes else out.ravel() * scale + shift
    return predict, rounds


# ---- jobs ----------------------------------------------------------------------------------------------------------

def scores(predicted, y, classes):
    """(score, log loss) with classes, (RMSE, 0) without."""
    predicted = np.asarray(predicted, dtype=np.float64)
    if not classes:
        return float(np.sqrt(np.mean((predicted.ravel() - y) ** 2))), 0.0
    chance = np.clip(predicted[np.arange(len(y)), y], 1e-12, 1)
    return float(np.mean(predicted.argmax(1) != y)), float(-np.mean(np.log(chance)))


warm = set()


def warm_up(peer, fit, threads):
    """The first fit of a process loads libraries and starts threads; it runs on few rows and is not timed."""
    if peer not in warm:
        warm.add(peer)
        x = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 4)), columns=list("abcd"))
        y = x.sum(axis=1).to_numpy()
        fit(x[:200], y[:200], 0, trial_parameters(peer, TABLES[0], 1), 3, (x[200:], y[200:]), 0, threads)


def run_job(job):
    """Runs one fit and returns its line."""
    table = load(job["directory"], job["table"])
    x, y, classes, threads, peer = table.x, table.y, table.classes, job["threads"], job["peer"]
    if peer == "catboost" and table.categories:
        x = x.copy()
        for column in table.categories:  # CatBoost requires strings
            x[column] = x[column].astype(str).astype("category")
    fit = globals()["fit_" + peer]
    if peer == "xrfm":
        fit = functools.partial(fit, device=job["device"], memory=job["memory"])
    rounds = ROUNDS_CLASSES if classes > 2 else ROUNDS
    parameters, seed, mode = job["params"], job["split"], job["mode"]
    train, test = table.parts(seed)
    if mode == "trial":
        train = np.random.default_rng(0).permutation(train)[:TUNING_ROWS]
    fitted, validation = hold_out(train, seed)
    part = lambda rows: (x.iloc[rows], y[rows])
    line = {name: job[name] for name in ("table", "split", "peer", "mode")}
    if mode == "trial":
        line["trial"], test = job["trial"], validation
    start = time.perf_counter()
    try:
        warm_up(peer, fit, threads)
        start = time.perf_counter()
        if mode == "trial" or peer == "xrfm":
            predict, rounds = fit(*part(fitted), classes, parameters, rounds, part(validation), seed, threads)
        elif mode == "tuned":
            _, rounds = fit(*part(fitted), classes, parameters, rounds, part(validation), seed, threads)
            predict, _ = fit(*part(train), classes, parameters, rounds, None, seed, threads)
        else:
            predict, _ = fit(*part(train), classes, None, rounds, None, seed, threads)
        seconds = time.perf_counter() - start
        score, loss = scores(predict(x.iloc[test]), y[test], classes)
        if not math.isfinite(score + loss):
            raise ArithmeticError("the predictions contain NaN or infinity")
    except Exception as error:  # a failed fit is recorded, and the remaining fits continue
        line.update(failed=f"{type(error).__name__}: {error}"[:300])
        score, loss, seconds = None, None, time.perf_counter() - start
    line.update(measure="error" if classes else "rmse", score=score, loss=loss, seconds=seconds, rows=len(train),
                threads=threads, device=job["device"], params=parameters,
                rounds=rounds if peer != "xrfm" and mode != "default" else None,
                version=importlib.import_module(MODULES[peer]).__version__)
    return line


def key(line):
    device = None if line["mode"] == "trial" else line["device"]
    return line["table"], line["peer"], line["mode"], line["split"], line.get("trial"), device


class Plan:
    """The remaining jobs; the tuned fits of a peer on a table follow its last trial."""
    def __init__(self, options, done):
        self.options, self.done, self.ready = options, {key(line): line for line in done}, []
        for mode in options.modes:
            for table in options.tables:
                for peer in options.peers:
                    if mode == "default":
                        self.add_splits(table, peer, mode, None)
                    else:
                        for trial in range(options.trials):
                            self.add(table, peer, "trial", 0, trial_parameters(peer, table, trial), trial)
                        self.add_tuned(table, peer)

    def add(self, table, peer, mode, split, params, trial=None):
        device = self.options.device if peer == "xrfm" else "cpu"
        job = dict(directory=self.options.directory, table=table, peer=peer, mode=mode, split=split, params=params, trial=trial,
                   threads=self.options.threads, device=device, memory=self.options.memory / self.options.jobs)
        if key(job) not in self.done:
            self.ready.append(job)

    def add_splits(self, table, peer, mode, params):
        for split in range(self.options.splits):
            self.add(table, peer, mode, split, params)

    def add_tuned(self, table, peer):
        trials = [self.done.get((table, peer, "trial", 0, trial, None)) for trial in range(self.options.trials)]
        good = [line for line in trials if line and line["score"] is not None]
        if all(trials) and good:
            best = min(good, key=lambda line: (line["score"], line["loss"]))
            self.add_splits(table, peer, "tuned", best["params"])

    def finish(self, line):
        self.done[key(line)] = line
        if line["mode"] == "trial":
            self.add_tuned(line["table"], line["peer"])


def installed(peer):
    try:
        importlib.import_module(MODULES[peer])
        return True
    except Exception as error:
        print(f"tables.py: {peer} is skipped: {error}", file=sys.stderr)
        return False


def some_of(known):
    """The type of an option whose value is a list of known names."""
    def parse(text):
        if not set(text.split(",")) <= set(known):
            raise argparse.ArgumentTypeError(f"expected some of {','.join(known)}, found '{text}'")
        return [field for field in known if field in text.split(",")]
    return parse


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("--out", help="file to which lines are appended (default: standard output)")
    parser.add_argument("--tables", type=some_of(ORDER), default=ORDER)
    parser.add_argument("--peers", type=some_of(list(SPACES)), default=list(SPACES))
    parser.add_argument("--modes", type=some_of(["default", "tuned"]), default=["default", "tuned"])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel fits")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of a fit (default: all cores)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no fit starts after this time")
    parser.add_argument("--device", default="cpu", help="device of xRFM: cpu (default) or cuda")
    parser.add_argument("--memory", type=float, default=16, help="GB for the gradients of xRFM (default: 16)")
    options = parser.parse_args()
    start = time.monotonic()
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ[library + "_NUM_THREADS"] = str(options.threads)
    if options.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    options.peers = [peer for peer in options.peers if installed(peer)]
    done = []
    if options.out and os.path.exists(options.out):
        with open(options.out) as lines:
            done = [json.loads(line) for line in lines if line.strip()]
    plan = Plan(options, done)
    out = open(options.out, "a") if options.out else sys.stdout
    running = set()
    with concurrent.futures.ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        while plan.ready or running:
            while plan.ready and len(running) < options.jobs and time.monotonic() - start < options.seconds:
                running.add(pool.submit(run_job, plan.ready.pop(0)))
            if not running:
                break
            finished, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in finished:
                line = future.result()
                print(json.dumps(line), file=out, flush=True)
                plan.finish(line)
    if plan.ready:
        print(f"tables.py: at least {len(plan.ready)} fits remain", file=sys.stderr)


if __name__ == "__main__":
    main()
