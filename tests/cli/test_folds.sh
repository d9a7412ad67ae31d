# Cross-validation, comparisons, learning curves, plots of tests, metrics in JSON, copied columns.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
fixed="--features 64 --gamma 0.3 --lambda 0.1 --threads 1"

# per_fold FILE NAME: the values of a metric in the folds.
per_fold() {
    grep -m 1 '"per_fold"' "$1" | grep -oE "\"$2\": [-0-9.e]+" | awk '{ print $2 }'
}

# With as many folds as rows, each fold is one row. The errors are those of separate files, although the table has
# categories that occur once and missing values, which are learned from the training rows of each fold.
awk 'BEGIN { srand(3); print "town,a,b,price"; for (i = 0; i < 9; i++)
    printf "%s,%s,%.3f,%.3f\n", substr("RRRYYYEQX", i + 1, 1), i == 4 ? "" : 10 * i, 5 * rand(), 3 * i + rand() }' >small.csv
table="--categorical auto --impute mean --task regression"
# shellcheck disable=SC2086
{
    succeeds "$BOCHNER" fit small.csv $table $fixed --folds 9 --json && mv out folds.json
    grep -q '"shared_encodings": false' folds.json || complain "the encodings are shared"
    for i in 2 3 4 5 6 7 8 9 10; do
        sed "${i}d" small.csv >train.csv
        sed -n "1p;${i}p" small.csv >test.csv
        succeeds "$BOCHNER" fit train.csv $table $fixed --test test.csv --json && field out rmse >>errors
    done
}
per_fold folds.json rmse | sort -g >found
sort -g errors | cmp -s - found || complain "folds and separate files differ: $(paste -sd' ' found) and $(sort -g errors | paste -sd' ')"
[ "$(sort -u found | wc -l)" -eq 9 ] || complain "equal errors in the folds"

# Mean and deviation agree with the folds, whose rows add up to the table.
house 203 5 >house.csv
# shellcheck disable=SC2086
succeeds "$BOCHNER" fit house.csv $fixed --folds 5 --json && mv out folds.json
per_fold folds.json rmse | awk -v mean="$(sed -n '/"rmse": {/,/}/p' folds.json | grep mean | tr -dc 0-9.)" \
    -v deviation="$(sed -n '/"rmse": {/,/}/p' folds.json | grep deviation | tr -dc 0-9.)" '{ s += $1; q += $1 * $1; n++ }
    END { m = s / n; d = sqrt((q - n * m * m) / (n - 1)); exit !(n == 5 && (m - mean) ^ 2 < 1e-18 && (d - deviation) ^ 2 < 1e-14) }' ||
    complain "mean and deviation are not those of the folds"
[ "$(per_fold folds.json rows | sort | paste -sd' ')" = "40 40 41 41 41" ] || complain "uneven folds"

# The number of threads does not change a metric; the seed does.
# shellcheck disable=SC2086
for run in "1 7" "2 7" "1 8"; do
    succeeds "$BOCHNER" fit house.csv --features 64 --gamma 0.3 --lambda 0.1 --folds 5 --threads "${run% *}" --seed "${run#* }" --json
    per_fold out rmse >"seen ${run}"
done
cmp -s "seen 1 7" "seen 2 7" || complain "the folds depend on the threads"
cmp -s "seen 1 7" "seen 1 8" && complain "the folds do not depend on the seed"

# Classes are spread over the folds. A class with one row is never tested. Plots show the test rows of all folds.
{ shapes 150 6; echo "0,5,alone"; } >shapes.csv
# shellcheck disable=SC2086
succeeds "$BOCHNER" fit shapes.csv $fixed --folds 5 --plot roc.svg --plot-kind roc --json && mv out folds.json
grep -q "class 'alone' has too few rows" err || complain "no warning of a class that cannot be tested: $(cat err)"
[ "$(per_fold folds.json rows | sort -u)" = 30 ] || complain "classes are not spread evenly"
for metric in accuracy log_loss auc brier macro_f1 calibration_error; do
    [ "$(per_fold folds.json $metric | wc -l)" -eq 5 ] || complain "$metric is missing"
done
command -v gnuplot >/dev/null && { grep -q "150 rows:  AUC" roc.svg && grep -q 'outer ring' roc.svg || complain "ROC: $(cat err)"; }

# Groups stay together, and columns omitted from the table are omitted in every fold: row numbers are consecutive only
# in the whole table, and would predict this target.
awk 'BEGIN { srand(4); print "row,who,a,y"; for (i = 0; i < 60; i++) printf "%d,p%d,%.3f,%.3f\n", i, i / 10, rand(), i }' >people.csv
# shellcheck disable=SC2086
{
    succeeds "$BOCHNER" fit people.csv $fixed --group who --folds 3 --json
    [ "$(per_fold out rows | sort -u)" = 20 ] || complain "groups of 10 rows: folds of $(per_fold out rows | paste -sd' ') rows"
    expect "R² of noise" "$(sed -n '/"r2": {/,/}/p' out | grep mean | tr -dc 0-9.-)" "<" 0.2
    fails 1 "as many groups as folds, found 6 and 7" "$BOCHNER" fit people.csv $fixed --group who --folds 7
}

# A comparison: the best is first, a model with it is saved, and the learning curve grows.
# shellcheck disable=SC2086
succeeds "$BOCHNER" fit shapes.csv --features 64 --gamma 0.3 --folds 3 --compare losses --score accuracy --out best.model \
    --learning-curve curve.svg --json && mv out folds.json
best=$(grep -m 1 '"compared"' folds.json | grep -oE '"name": "[a-z]+"' | head -1 | grep -oE '[a-z]+"$' | tr -d '"')
[ "$(field folds.json loss)" = "$best" ] || complain "the model has loss $(field folds.json loss), the best is $best"
[ "$(grep -m 1 '"learning_curve"' folds.json | grep -oE '"rows": [0-9.]+' | awk '$2 <= last { exit 1 } { last = $2; n++ } END { print n }')" = 2 ] ||
    complain "learning curve: $(grep learning_curve folds.json)"
[ -s best.model ] || complain "no model"
# "figures", the former key of "metrics", has the same values.
for key in metrics figures; do grep -oE "\"$key\": \{(\"[a-z0-9_]+\": \{[^}]*\},? ?)+\}" folds.json | sed "s/^\"$key\"//" >values.$key; done
[ -s values.metrics ] && cmp -s values.metrics values.figures || complain "metrics and figures differ: $(grep compared folds.json)"
command -v gnuplot >/dev/null && { grep -q 'training rows' curve.svg || complain "no curve"; }
# shellcheck disable=SC2086
{
    succeeds "$BOCHNER" fit house.csv $fixed --folds 3 --compare scalings --quiet
    for word in "^Compared" "^Folds" "  columns" "  none" "  deviation" "  error"; do
        grep -q -e "$word" out || complain "the report lacks '$word': $(cat out)"
    done
    fails 2 "--compare needs --folds" "$BOCHNER" fit house.csv --compare kernels --holdout 0.2
    fails 2 "expected kernels, metrics, scalings or losses|'foo'" "$BOCHNER" fit house.csv --folds 3 --compare foo
    fails 2 "exclude each other" "$BOCHNER" fit house.csv --folds 3 --holdout 0.2
    fails 2 "--stream is not supported" "$BOCHNER" fit house.csv --folds 3 --stream
    fails 2 "ends in .svg" "$BOCHNER" fit house.csv --folds 3 --learning-curve curve.txt
    fails 2 "--plot-kind needs --plot" "$BOCHNER" fit house.csv --folds 3 --plot-kind roc
    fails 1 "the number of rows" "$BOCHNER" fit house.csv $fixed --folds 300
    fails 1 "auc is a metric of classes" "$BOCHNER" fit house.csv $fixed --folds 3 --score auc
    fails 1 "--plot-kind roc shows classes" "$BOCHNER" fit house.csv $fixed --folds 3 --plot x.svg --plot-kind roc

    # Plots of a test.
    succeeds "$BOCHNER" fit house.csv $fixed --holdout 0.3 --out house.model --plot left.svg --plot-kind residuals --quiet
    succeeds "$BOCHNER" fit shapes.csv $fixed --folds 3 --out shapes.model --plot kept.svg --plot-kind reliability --quiet
}
if command -v gnuplot >/dev/null; then
    grep -q 'price, true - predicted' left.svg || complain "residuals have no axis"
    grep -q 'predicted class, frequency' kept.svg || complain "reliability has no axis"
fi

# Copied columns of the file precede the predictions; numbers are written by value.
awk -F, 'NR == 1 { print "id," $0 } NR > 1 { print "\"row " NR ", x\"," $0 }' house.csv >marked.csv
succeeds "$BOCHNER" predict house.model marked.csv --copy id,-1,rooms --out copied.csv
succeeds "$BOCHNER" predict house.model house.csv --quiet && mv out plain.csv
awk -F, 'NR == 1 { print "id,price,rooms" } NR > 1 { print "\"row " NR ", x\"," sprintf("%.9g", $4) "," $1 }' house.csv | paste -d, - plain.csv |
    cmp -s - copied.csv || complain "copied columns: $(head -3 copied.csv)"
"$BOCHNER" predict house.model - --copy id --quiet <marked.csv 2>err | awk -F, '{ print $NF }' | cmp -s - plain.csv || complain "copied from standard input: $(cat err)"
succeeds "$BOCHNER" predict house.model marked.csv --copy id,rooms --json
grep -q '"columns": \["id", "rooms", "prediction"\]' out && grep -qE '\[\["row 2, x", [1-6], ' out || complain "copied to JSON: $(head -3 out)"
fails 1 "--copy|'town'" "$BOCHNER" predict house.model marked.csv --copy id,town
fails 2 "only numbers" "$BOCHNER" predict house.model marked.csv --copy id --out copied.npy
finish
