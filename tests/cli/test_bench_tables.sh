# bench machines --only tables: scores equal those of `bochner fit`, ratios refer to the best or slowest peer over the
# same splits, and times name the device of the measurement.
[ -z "${SANITIZE:-}" ] || exit 77 # the reference is a large matrix product
. "$BOCHNER_SOURCE/tests/cli/common.sh"

# uci NAME TEST: columns x, y, a target that is not used, and a noisy target; 80 training rows and TEST test rows. The
# training rows of split 1 are half of those of split 0.
uci() {
    mkdir -p "data/uci/$1"
    awk -v n=$((80 + $2)) 'BEGIN { srand(3); for (i = 0; i < n; i++) { x = rand(); y = rand();
        printf "%.4f %.4f %d %.4f\n", x, y, i, 10 + 5 * x + (0.2 + x) * (rand() + rand() - 1) } }' >"data/uci/$1/data.txt"
    printf '0\n1\n' >"data/uci/$1/index_features.txt"
    echo 3 >"data/uci/$1/index_target.txt"
    seq 0 79 >"data/uci/$1/index_train_0.txt"
    seq 0 39 >"data/uci/$1/index_train_1.txt"
    seq 80 $((79 + $2)) | tee "data/uci/$1/index_test_0.txt" >"data/uci/$1/index_test_1.txt"
}
uci yacht 30
uci naval-propulsion-plant 1000
mkdir data/tables
awk 'BEGIN { srand(5); print "lettr,a,b"; for (i = 0; i < 200; i++) {
    a = rand(); b = rand(); printf "%s,%.3f,%.3f\n", (a + 0.5 * rand() > 0.7) ? "T" : "I", a, b } }' >data/tables/letter.csv
for part in a9a a9a-test; do # sparse: the label depends on the first column, the others are noise
    awk -v seed=${#part} 'BEGIN { srand(seed); for (i = 0; i < 90; i++) { a = int(2 * rand());
        printf "%d%s %d:1 %d:1\n", ((rand() < 0.1) == a) ? -1 : 1, a ? " 1:1" : "", 2 + 9 * rand(), 11 + 10 * rand() } }' \
        >data/tables/$part.libsvm
done

# line TABLE SPLIT PEER MODE SCORE SECONDS DEVICE: a result as tables.py writes it.
line() {
    echo "{\"table\": \"$1\", \"split\": $2, \"peer\": \"$3\", \"mode\": \"$4\", \"measure\": \"rmse\", \"score\": $5," \
        "\"loss\": 0.0, \"seconds\": $6, \"rows\": 80, \"threads\": 16, \"device\": \"${7:-cpu}\", \"params\": null}"
}
{
    line yacht 0 hist default 4 0.5
    line yacht 1 hist default 2 0.5     # the best: 3
    line yacht 4 hist default 900 900   # not one of the splits
    line yacht 0 xgboost default 1 0.25 # no second split
    line yacht 1 xgboost default null 0.25
    line yacht 0 catboost default 5 1
    line yacht 1 catboost default 5 3 # the slowest: 2 s
    line yacht 0 lightgbm tuned 2 900
    line yacht 1 lightgbm tuned 3 900 # 2.5
    line yacht 0 xrfm trial 0.1 20
    line yacht 0 xrfm trial null 30
    line yacht 0 xrfm default 0.1 20
    line yacht 0 xrfm tuned 8 4
    line yacht 0 xrfm tuned 0.1 900 cuda # the CPU counts
    line yacht 1 xrfm tuned 0.1 900 cuda
    line yacht 1 xrfm tuned 2 6 # 5, 5 s
    line letter 0 lightgbm default 0.5 8
    line letter 1 lightgbm default 0.3 8 # 0.4
    line mushrooms 0 lightgbm default 0.5 8
} | sed 's/ *#.*//' >saved

# metric NAME: a metric in the JSON of the last command, on one line. value NAME: its value. detail NAME: its detail.
metric() {
    sed 's/{"name"/\n&/g' out | grep -F "{\"name\": \"$1\","
}
value() {
    metric "$1" | sed 's/.*"value": \([^,]*\),.*/\1/'
}
detail() {
    metric "$1" | sed 's/.*"detail": "\([^"]*\)".*/\1/'
}
# near A B: two numbers are equal up to rounding. equals NAME NUMBER: the same for the value of a metric.
near() {
    awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(a != "" && d * d <= 1e-12 * b * b) }' </dev/null
}
equals() {
    near "$(value "$1")" "$2" || complain "$1 is $(value "$1"), expected $2"
}
compute() { awk "BEGIN { printf \"%.12g\", $* }" </dev/null; }
tables() { "$BOCHNER" bench machines --gemm 64 --only tables --tables data --json "$@"; }

# Saved results: scores and times.
succeeds tables --only-tables yacht,letter --splits 2 --tables-peers saved --peers nowhere
rmse=$(value "yacht, RMSE") errors=$(value "letter, error rate") seconds=$(value "yacht, time of a fit with search")
compare "$rmse" ">" 0.2 && compare "$rmse" "<" 1 || complain "RMSE of yacht: $rmse, noise about 0.3"
equals "yacht, RMSE / default boosting" "$(compute "$rmse / 3")"
equals "yacht, RMSE / tuned boosting" "$(compute "$rmse / 2.5")"
equals "yacht, RMSE / tuned xRFM" "$(compute "$rmse / 5")"
equals "yacht, time / slowest default boosting" "$(compute "$seconds / 2")"
equals "yacht, times faster than tuned xRFM" "$(compute "5 / $seconds")"
equals "letter, error rate / default boosting" "$(compute "$errors / 0.4")"
equals "tables at or ahead of default boosting" 2
equals "error / default boosting, geometric mean" "$(compute "sqrt($rmse / 3 * $errors / 0.4)")"
equals "error / tuned xRFM, geometric mean" "$(compute "$rmse / 5")"
equals "times faster than xRFM with its search" "$(compute "55 / $seconds")"
detail "yacht, RMSE / default boosting" | grep -q "hist 3, best of 2" || complain "the best peer is not named: $(cat out)"
detail "yacht, time / slowest default boosting" | grep -q "catboost 2 s on 16 threads, slowest of 3, saved, possibly on another host" ||
    complain "the time does not tell where it was measured: $(cat out)"
detail "yacht, times faster than tuned xRFM" | grep -q "xRFM 5 s on 16 threads after a search of 50 s, saved" ||
    complain "the time of xRFM: $(cat out)"
detail "times faster than tuned xRFM, geometric mean" | grep -q "not with the same number of threads" ||
    complain "other threads are not mentioned: $(cat out)"
[ -z "$(value "letter, error rate / tuned boosting")" ] || complain "a ratio without results: $(cat out)"
grep -q '"at_most": 2\|"at_least": 5' out && complain "a goal for times of another host: $(cat out)"

# fit_uci NAME: the default fit of split 0.
fit_uci() {
    awk 'NR == 1 { print "x,y,target" } { print $1 "," $2 "," $4 }' "data/uci/$1/data.txt" >all.csv
    head -n 81 all.csv >train.csv
    sed -n '1p; 82,$p' all.csv >test.csv
    succeeds "$BOCHNER" fit train.csv --test test.csv --json
}
# The scores are those of the default fit with the same rows and seed.
succeeds tables --only-tables yacht,letter,a9a --splits 1 --peers nowhere
rmse=$(value "yacht, RMSE") errors=$(value "letter, error rate") sparse_errors=$(value "a9a, error rate")
fit_uci yacht
near "$rmse" "$(field out rmse)" || complain "RMSE $rmse, bochner fit $(field out rmse)"
succeeds "$BOCHNER" fit data/tables/letter.csv --target lettr --holdout 0.2 --json
near "$(compute "1 - $errors")" "$(field out accuracy)" || complain "errors $errors, bochner fit $(field out accuracy)"
cd data/tables || exit 1
succeeds "$BOCHNER" fit a9a.libsvm --test a9a-test.libsvm --json
near "$(compute "1 - $sparse_errors")" "$(field out accuracy)" || complain "errors $sparse_errors, bochner fit $(field out accuracy)"
cd "$work" || exit 1

# Boosting in the same run, by a program in place of Python; coverage of a large test part by size of the prediction.
{
    echo '#!/bin/sh'
    echo '[ "$1" = -c ] && exit 0'
    echo 'echo "$*" >>arguments'
    echo "echo '$(line naval-propulsion-plant 0 xgboost default 0.5 0.001)'"
} >python
chmod +x python
succeeds tables --only-tables naval-propulsion-plant --splits 1 --threads 2 --python ./python --peers "$BOCHNER_SOURCE/bench/peers"
grep -q "tables.py data --tables naval-propulsion-plant --peers hist,xgboost,lightgbm,catboost --modes default --splits 1 --threads 2" \
    arguments || complain "arguments of tables.py: $(cat arguments)"
equals "naval-propulsion-plant, RMSE / default boosting" "$(compute "$(value "naval-propulsion-plant, RMSE") / 0.5")"
detail "naval-propulsion-plant, time / slowest default boosting" | grep -q "same run" || complain "time: $(cat out)"
grep -q '"at_most": 2' out || complain "no goal for times of the same run: $(cat out)"
inside=$(value "naval-propulsion-plant, inside the 95% interval") worst=$(value "naval-propulsion-plant, inside, worst fifth")
fit_uci naval-propulsion-plant
least=$(field out coverage_95_by_fifth | tr -d '[] ' | tr ',' '\n' | sort -g | head -n 1)
near "$inside" "$(compute "100 * $(field out coverage_95)")" && near "$worst" "$(compute "100 * $least")" ||
    complain "inside $inside%, worst fifth $worst%, bochner fit: $(grep coverage out)"

# Usage errors and damaged files.
fails 2 "no table 'yachts'|did you mean yacht" tables --only-tables yachts
fails 2 "no part 'table'|did you mean tables" "$BOCHNER" bench machines --only table
echo '[1' >>saved
fails 1 "saved, line 20: expected a JSON object" tables --only-tables yacht --tables-peers saved
echo 110 >>data/uci/yacht/index_test_0.txt
fails 1 "yacht/index_test_0.txt: expected numbers below 110, found 110" tables --only-tables yacht --peers nowhere
succeeds tables --only-tables energy
grep -q "energy is skipped: data does not have it" err || complain "a missing table is not mentioned: $(cat err)"
finish
