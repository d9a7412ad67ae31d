"""The tail of a weighted sum of chi-square variables, and the p-values of bochner drift for a column of categories, agree with
SciPy; without a difference these p-values are uniform, from 10 to 10,000 categories."""
import os, pathlib, subprocess, warnings
from peer import bochner_json, fail, directory, need

numpy, stats, integrate = need("numpy", "scipy.stats", "scipy.integrate")
work = directory()
warnings.simplefilter("ignore") # slow integrals whose values are compared
TAILS = pathlib.Path(os.environ["BOCHNER_BUILD"]) / "tests" / "peer_tails"


# ---- tails --------------------------------------------------------------------------------------------------------------------

def tails(questions):
    """P(Σ w z² > x) of each pair (x, w) by Bochner."""
    text = "".join(" ".join("%.17g" % v for v in (x, *weights)) + "\n" for x, weights in questions)
    return numpy.array(subprocess.run([TAILS], input=text, capture_output=True, text=True, check=True).stdout.split(), float)


def equal_weights():
    """One weight n times: λ χ² with n degrees of freedom, for probabilities down to 1e-100."""
    for n in (1, 2, 3, 10, 51, 100, 1000, 2500, 10000):
        p = numpy.array([1e-100, 1e-30, 1e-9, 1e-4, 0.01, 0.3, 0.5, 0.9, 0.999, 1 - 1e-6])
        x = 0.7 * stats.chi2.isf(p, n)
        found, expected = tails([(v, [0.7] * n) for v in x]), stats.chi2.sf(x / 0.7, n)
        if not numpy.allclose(found, expected, rtol=1e-8, atol=0):
            fail("%d equal weights: %s, SciPy has %s" % (n, found, expected))


def imhof(x, w):
    """Imhof (1961): P = 1/2 + 1/π ∫ sin θ(u) / (u ρ(u)) du, where ρ grows at least like (1 + Σ w² u²)^(1/4)."""
    def integrand(u):
        wu = w * u
        return numpy.sin(0.5 * (numpy.arctan(wu).sum() - x * u)) * numpy.exp(-0.25 * numpy.log1p(wu * wu).sum()) / u
    ends = numpy.concatenate([[0], numpy.geomspace(1e-3, 1e6, 40) / numpy.sqrt((w * w).sum())])
    while 0.25 * numpy.log1p((w * ends[-1]) ** 2).sum() > 60:
        ends = ends[:-1] # the rest is below e^-60
    return 0.5 + sum(integrate.quad(integrand, a, b, epsabs=1e-12, epsrel=1e-9, limit=2000)[0]
                     for a, b in zip(ends, ends[1:])) / numpy.pi


def mixed_weights():
    """SciPy integrates another formula, with an absolute error."""
    random = numpy.random.default_rng(1)
    for n in (10, 100, 1000, 10000):
        for w in (1 / (1 + numpy.arange(n)), numpy.exp(random.normal(size=n)), numpy.repeat([5.0, 1.0], [n // 10, n - n // 10])):
            mean, deviation = w.sum(), numpy.sqrt(2 * (w * w).sum())
            x = mean + deviation * numpy.array([-1.2, -0.3, 0.5, 2, 4])
            x = x[x > 0]
            found, expected = tails([(v, w) for v in x]), numpy.array([imhof(v, w) for v in x])
            if abs(found - expected).max() > 1e-8:
                fail("%d mixed weights: %s, SciPy has %s" % (n, found, expected))


# ---- p-values -----------------------------------------------------------------------------------------------------------------

def write(name, counts):
    """A table of one column, in which category i occurs counts[i] times."""
    path = work / name
    path.write_text("x\n" + "".join(("c%d\n" % i) * int(c) for i, c in enumerate(counts)))
    return path


def p_values(a, b):
    """Of the column, and of the table."""
    found = bochner_json("drift", write("a.csv", a), write("b.csv", b), "--p-value", "asymptotic")
    return found["columns"][0]["p_value"], found["p_value"]


def merged(counts, total):
    """The program keeps the 255 most frequent categories and merges all others into one."""
    order = sorted(range(len(total)), key=lambda i: (-total[i], "c%d" % i))
    return numpy.concatenate([counts[..., order[:255]], counts[..., order[255:]].sum(axis=-1, keepdims=True)], axis=-1)


def frequent_categories():
    """Categories that are equally frequent in both tables together: Pearson's test, since all eigenvalues are equal. Its law is that
    of many rows, and that of Bochner has the moments of these: they differ by the order of 1 / `each`."""
    random = numpy.random.default_rng(2)
    for k, each in ((2, 2000), (10, 1000), (100, 300), (256, 100)):
        total = numpy.full(k, each)
        for _ in range(5):
            a = random.multivariate_hypergeometric(total, k * each * 3 // 4, method="marginals")
            found, expected = p_values(a, total - a)[0], stats.chi2_contingency([a, total - a], correction=False)[1]
            if abs(found - expected) > 0.4 / each:
                fail("%d categories: p = %g, SciPy has %g" % (k, found, expected))


def rare_categories():
    """Categories with the frequencies of words, most of them once or never: the distribution given the total counts, simulated.
    SciPy's multivariate_hypergeom is NumPy's generator."""
    DRAWS = 4000
    random = numpy.random.default_rng(3)
    words = [random.multinomial(20000, w / w.sum()) for w in (1 / (1 + numpy.arange(k)) for k in (10, 100, 1000, 10000))]
    for total in (*words, numpy.full(250, 2), numpy.full(250, 4), numpy.full(2000, 3)):
        rows = total.sum()
        m = rows * 3 // 4
        draws = random.multivariate_hypergeometric(total, m, size=DRAWS, method="marginals")
        statistic = ((merged(draws, total) / m - merged(total - draws, total) / (rows - m)) ** 2).sum(axis=1)
        for i in range(8): # the probability of more, and half that of the same, with a standard error up to 0.008
            more, same = statistic > statistic[i] * (1 + 1e-9), abs(statistic - statistic[i]) <= statistic[i] * 1e-9
            found, expected = p_values(draws[i], total - draws[i])[0], more.mean() + same.mean() / 2
            if abs(found - expected) > 0.04:
                fail("%d rare categories in %d rows: p = %g, simulated %g" % (len(total), rows, found, expected))


def uniform_p_values():
    """The Kolmogorov test of p-values of tables from one distribution; the seeds are fixed."""
    for k, rows, tables in ((10, 4000, 100), (100, 4000, 100), (1000, 8000, 100), (10000, 20000, 100)):
        for law in ("equal", "words"):
            w = numpy.ones(k) if law == "equal" else 1 / (1 + numpy.arange(k))
            random = numpy.random.default_rng(k)
            p = numpy.array([p_values(random.multinomial(rows * 3 // 4, w / w.sum()), random.multinomial(rows // 4, w / w.sum()))
                             for _ in range(tables)])
            for name, values in zip(("the column", "the table"), p.T):
                test = stats.kstest(values, "uniform")
                print("%5d categories, %s: %s, Kolmogorov distance %.3f, p = %.3f" %
                      (k, law, name, test.statistic, test.pvalue), flush=True)
                if test.pvalue < 0.001:
                    fail("%d categories (%s): the p-values of %s are not uniform" % (k, law, name))


equal_weights()
mixed_weights()
frequent_categories()
rare_categories()
uniform_p_values()
