# A stream gives the same model as the whole table; the held-out rows are the same in both.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
house 3000 11 >train.csv
house 200 12 >test.csv
options="--features 200 --gamma 0.2 --lambda 3 --quiet"

# close A B: predictions differ by rounding, because sums have another order: at most 6e-8 (float32) times the condition
# number of the system (3000 rows / lambda 3) times the standard deviation of the prices (70).
close() {
    paste -d, "$1" "$2" | awk -F, 'NR > 1 { d = $1 - $2; if (d < 0) d = -d; if (d > 4.2e-3) bad++ } END { exit bad > 0 || NR < 100 }'
}

# shellcheck disable=SC2086
{
    succeeds "$BOCHNER" fit train.csv $options --out memory.model --test test.csv --json
    cp out memory.json
    succeeds "$BOCHNER" fit train.csv $options --stream --out stream.model --test test.csv --json
    cp out stream.json
}
[ "$(field stream.json stream)" = true ] || complain "the JSON does not show that it was a stream"
[ "$(field stream.json rows)" = 3000 ] || complain "a stream of $(field stream.json rows) rows"
for model in memory stream; do "$BOCHNER" predict $model.model test.csv --quiet >$model.csv || complain "predict $model.model"; done
close memory.csv stream.csv || complain "a stream predicts other numbers than the table in memory"
expect "rmse of the stream" "$(field stream.json rmse)" '<' 7 # a tenth of the standard deviation

# The same held-out rows give the same metrics.
# shellcheck disable=SC2086
{
    succeeds "$BOCHNER" fit train.csv $options --holdout 0.25 --seed 5 --scaling none --gamma 1e-3 --json
    cp out memory.json
    succeeds "$BOCHNER" fit train.csv $options --holdout 0.25 --seed 5 --scaling none --gamma 1e-3 --stream --json
    cp out stream.json
}
rows() { awk '/"test"/ { on = 1 } on && /"rows"/ { gsub(/[^0-9]/, ""); print; exit }' "$1"; }
[ "$(rows memory.json)" = "$(rows stream.json)" ] || complain "held out: $(rows memory.json) and $(rows stream.json) rows"
# 3000 draws of probability 1/4: mean 750, standard deviation 23.7; the bound is five standard deviations
expect "rows held out" "$(rows memory.json)" '>' 631
expect "rows held out" "$(rows memory.json)" '<' 869
[ $(($(field memory.json rows) + $(rows memory.json))) -eq 3000 ] || complain "rows are lost"
a=$(field memory.json rmse) b=$(field stream.json rmse)
awk -v a="$a" -v b="$b" 'BEGIN { d = a - b; exit !(d < 4.2e-3 && d > -4.2e-3) }' || complain "rmse of held out rows: $a and $b"
fails 1 "leaves no rows for testing" "$BOCHNER" fit test.csv --holdout 0.000001 --out m

# A search in a stream, with a sample smaller than the file; several files; classes.
succeeds "$BOCHNER" fit train.csv --stream --sample 500 --features 200 --test test.csv --out searched.model --json --quiet
expect "r2 of a searched stream" "$(field out r2)" '>' 0.98
head -1501 train.csv >first.csv
{ head -1 train.csv; tail -1500 train.csv; } >second.csv
# shellcheck disable=SC2086
succeeds "$BOCHNER" fit first.csv second.csv $options --stream --out two.model --json
[ "$(field out rows)" = 3000 ] || complain "two files are $(field out rows) rows"
"$BOCHNER" predict two.model test.csv --quiet >two.csv
close memory.csv two.csv || complain "two files predict other numbers than one"
shapes 900 13 >classes.csv
succeeds "$BOCHNER" fit classes.csv --stream --holdout 0.3 --features 200 --json --quiet
expect "accuracy of a stream of classes" "$(field out accuracy)" '>' 0.97

# The same seed gives the same bits for any number of threads.
for threads in 1 2 3; do
    # shellcheck disable=SC2086
    succeeds "$BOCHNER" fit train.csv $options --stream --threads $threads --out threads.model
    "$BOCHNER" predict threads.model test.csv --std --quiet --threads $threads >threads$threads.csv
done
cmp -s threads1.csv threads2.csv && cmp -s threads1.csv threads3.csv || complain "the number of threads changes the result"

# A file that changes between two passes: the process is stopped after its plan, and continues with fewer rows.
house 20000 14 >shrinking.csv
"$BOCHNER" fit shrinking.csv --stream --features 64 --gamma 0.1 --lambda 1 --holdout 0.2 --threads 1 >out 2>err &
job=$!
for _ in $(seq 400); do
    grep -q '^Plan' err && kill -STOP $job 2>/dev/null && break
    sleep 0.01
done
head -5000 shrinking.csv >fewer.csv
cp fewer.csv shrinking.csv
kill -CONT $job 2>/dev/null
wait $job && complain "rows that vanish between two passes are not noticed: $(tail -5 out)"
grep -q "shrinking.csv" err || complain "a file that changes: $(cat err)"

# Predictions have enough digits for targets far from 0.
awk 'BEGIN { srand(1); for (i = 0; i < 300; i++) { x = rand(); printf "%.4f,%.6f\n", x, 1700000000 + 10 * x } }' >times.csv
succeeds "$BOCHNER" fit times.csv --task regression --features 64 --out times.model
succeeds "$BOCHNER" predict times.model times.csv --quiet --out predicted.csv
tail -n +2 predicted.csv | paste -d, times.csv - | awk -F, '{ e = $3 - $2; s += e * e } END { print sqrt(s / NR) }' >error
expect "the error of times" "$(cat error)" '<' 0.2
finish
