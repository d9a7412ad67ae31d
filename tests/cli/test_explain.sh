# explain: importance, directions, curves and contributions as text, JSON and HTML; classes, categories, tables without
# the target, pipes, threads, bad input.
. "$BOCHNER_SOURCE/tests/cli/common.sh"

# table ROWS SEED: y = 3 a + effect of the town + 0.5 noise; b has no effect. The file is sorted by a.
table() {
    awk -v rows="$1" -v seed="$2" '
    function normal() { return sqrt(-2 * log(1 - rand())) * cos(6.283185307 * rand()) }
    BEGIN { srand(seed); print "a,b,town<1>,y"
        split("Rye Hove Bath", town); split("5 0 -5", effect)
        for (i = 0; i < rows; i++) {
            a = 4 * (i + rand()) / rows - 2; t = 1 + int(3 * rand())
            print a "," normal() "," town[t] "," 3 * a + effect[t] + 0.5 * normal() }
    }'
}
table 600 1 >train.csv
table 400 2 >test.csv
succeeds "$BOCHNER" fit train.csv --target y --categorical auto --features 128 --gamma 0.1 --lambda 0.1 --out y.model

# JSON: an effect of 3 a has the slope 3 std(a) = 3.46; the towns differ by 10; contributions sum to the prediction.
succeeds "$BOCHNER" explain y.model test.csv --row 399 --json
if command -v python3 >/dev/null; then
    python3 - out <<'END' || complain "JSON: see above"
import json, math, sys
d = json.load(open(sys.argv[1]))
columns = {c["name"]: c for c in d["columns"]}
curves = {c["column"]: c["points"] for c in d["curves"]}
checks = {
    "rows": d["rows"] == 400 and d["has_target"] and d["measure"] == "RMSE" and d["outputs"] == ["y"],
    "error": 0.4 < d["error"] < 0.8,
    "columns": set(columns) == {"a", "b", "town<1>"} and columns["town<1>"]["inputs"] == 3,
    "importance": all(columns[c]["increase"] > 20 * abs(columns["b"]["increase"]) for c in ("a", "town<1>")),
    "sorted": d["columns"][-1]["name"] == "b",
    "errors": all(c["increase_error"] < 0.2 * columns["a"]["increase"] for c in d["columns"]),
    "slope": abs(columns["a"]["slope"] - 3.46) < 0.4 and columns["b"]["slope"] < 0.4,
    "directions": abs(sum(x["share"] for x in d["directions"]) - 1) < 1e-6 and d["directions"][0]["share"] > 0.7,
    "curve of a": abs(curves["a"][-1]["mean"][0] - curves["a"][0]["mean"][0] - 3 * (curves["a"][-1]["value"] - curves["a"][0]["value"])) < 1,
    "band": all(p["low"][0] <= p["mean"][0] + 0.2 and p["high"][0] >= p["mean"][0] - 0.2 for p in curves["a"]),
    "towns": [p["value"] for p in curves["town<1>"]] == ["Bath", "Hove", "Rye"],
    "curve of towns": abs(curves["town<1>"][2]["mean"][0] - curves["town<1>"][0]["mean"][0] - 10) < 1,
}
row = d["row"]
parts = {c["column"]: c["contribution"][0] for c in row["contributions"]}
checks["sum"] = abs(sum(parts.values()) - (row["prediction"][0] - row["base"][0])) < 1e-4
checks["contribution of a"] = abs(parts["a"] - 6) < 1  # the last row has a = 2, and the mean is 0
for name, held in checks.items():
    if not held: print("FAILED:", name, json.dumps(d)[:2000], file=sys.stderr)
sys.exit(not all(checks.values()))
END
fi
cp out first
succeeds "$BOCHNER" explain y.model test.csv --row 399 --json --threads 1
sed '/"seconds"/d' first >first.rest
sed '/"seconds"/d' out >out.rest
cmp -s first.rest out.rest || complain "the number of threads changes the result"
succeeds "$BOCHNER" explain y.model test.csv --row 399 --json --seed 1
sed '/"seconds"/d' out >out.rest
cmp -s first.rest out.rest && complain "the seed has no effect"

# Text in 80 columns; the page has plots, no scripts, no addresses, and escaped names.
succeeds "$BOCHNER" explain y.model test.csv --row 0 --out page.html
awk 'length($0) > 80' out | grep . && complain "more than 80 columns"
for words in 'RMSE 0\.' '^a  *[0-9.]* .*####' '^town<1> .*####' '^ 1  *[0-9.]*%  a +' '^town<1>  *Bath  *Hove  *Rye' \
    '^Row 0  *y: prediction -[0-9.]* = mean' 'Shapley values'; do
    grep -q "$words" out || complain "the report lacks '$words': $(cat out)"
done
if command -v python3 >/dev/null; then
    python3 - page.html <<'END' || complain "the page is not well-formed"
import re, sys, xml.dom.minidom
page = open(sys.argv[1], encoding="utf-8").read()
plots = re.findall(r"<svg.*?</svg>", page, re.S)
for p in plots: xml.dom.minidom.parseString(p)
sys.exit(not (len(plots) == 6 and "<script" not in page and "http" not in page and "town&lt;1&gt;" in page and "town<1>" not in page))
END
fi
succeeds "$BOCHNER" explain y.model test.csv --columns b --top 1
grep -q "^... and 2 more columns" out && grep -q "^b  *-" out || complain "--columns b --top 1: $(cat out)"
[ "$(grep -c '^  mean' out)" = 1 ] || complain "--columns b has other curves"

# Without the target; from a pipe, which has the same rows.
cut -d, -f1-3 test.csv >inputs.csv
succeeds "$BOCHNER" explain y.model inputs.csv
grep -q "not measured: the data does not have the target" out && grep -q "change of the predictions when" out ||
    complain "without a target: $(cat out)"
cat test.csv | "$BOCHNER" explain y.model - --row 399 --json >out 2>err || complain "standard input: $(cat err)"
sed '/"seconds"/d; /"data"/d' out >out.rest
sed '/"data"/d' first.rest | cmp -s - out.rest || complain "standard input: another result"

# Classes: probabilities of the predicted class, or of the requested class.
awk -F, -v OFS=, 'NR == 1 { print $1, $2, $3, "size"; next } { print $1, $2, $3, ($4 > 2 ? "big" : $4 < -2 ? "low" : "mid") }' \
    train.csv >classes.csv
succeeds "$BOCHNER" fit classes.csv --target size --categorical auto --features 64 --gamma 0.1 --lambda 0.1 --out size.model
succeeds "$BOCHNER" explain size.model classes.csv --row 0 --out page.html
grep -q "log loss 0.*accuracy" out && grep -q "probability of low: prediction 0.9" out || complain "classes: $(cat out)"
awk 'length($0) > 80' out | grep . && complain "classes: more than 80 columns"
succeeds "$BOCHNER" explain size.model classes.csv --row 0 --target big
grep -q "probability of big: prediction 0" out || complain "--target big: $(cat out)"

# Bad input.
fails 2 "expected MODEL and DATA, found 1 argument" "$BOCHNER" explain y.model
fails 2 "ending in .html|found 'page.txt'" "$BOCHNER" explain y.model test.csv --out page.txt
fails 2 "--samples applies to --row only" "$BOCHNER" explain y.model test.csv --samples 10
fails 2 "test.html" "$BOCHNER" explain y.model test.html --out test.html
fails 1 "expected column 'b'|found none" "$BOCHNER" explain y.model /dev/stdin <<END
a,town<1>,y
1,Rye,2
END
fails 1 "has 400 rows, and the first is row 0" "$BOCHNER" explain y.model test.csv --row 400
fails 1 "no input column 'aa'; did you mean 'a'?" "$BOCHNER" explain y.model test.csv --columns aa
fails 1 "no class 'tiny'; the first is 'big'" "$BOCHNER" explain size.model classes.csv --target tiny
fails 1 "bochner fit --out MODEL wrote MODEL" "$BOCHNER" explain test.csv test.csv
fails 1 "has 0 rows" "$BOCHNER" explain y.model /dev/stdin <<END
a,b,town<1>,y
END
finish
