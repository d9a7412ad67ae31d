# Memory: plans are checked against the limits before any work, and sparse tables need memory for the numbers in them.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
house 200 1 >train.csv

# ---- plans -----------------------------------------------------------------------------------------------------------

big="fitting 1000000000 features|of memory, but the limit is|use fewer features"
fails 1 "$big" "$BOCHNER" fit train.csv --features 1000000000 --out bad.model
fails 1 "$big" "$BOCHNER" fit train.csv --features 1000000000 --out bad.model --stream
fails 1 "$big" "$BOCHNER" fit missing.csv --features 1000000000 --out bad.model # before the table is read
fails 1 "limit is 1.0 kB|--memory" "$BOCHNER" fit train.csv --memory 1K --out bad.model
fails 1 "limit is 1.0 kB|--memory" "$BOCHNER" fit train.csv --memory 1K --out bad.model --stream
fails 1 "needs|of memory, but the limit is|use fewer features" "$BOCHNER" features train.csv --features 4000000000 --out z.npy
[ -e bad.model ] && complain "a refused fit left a model"
[ -e z.npy ] && complain "a refused map left features"
succeeds "$BOCHNER" fit train.csv --memory 100M --features 64 --out small.model

# ---- sparse tables ---------------------------------------------------------------------------------------------------

# sparse ROWS COLUMNS EACH: libsvm text with EACH numbers in every row.
sparse() {
    awk -v n="$1" -v d="$2" -v each="$3" 'BEGIN { srand(1); for (i = 0; i < n; i++) {
        row = ""; sum = 0; for (k = 0; k < each; k++) { v = int(100 * rand()) / 10; sum += (k % 2 ? v : -v)
        row = row " " int(k * d / each) + 1 + int(rand() * d / each) ":" v }; printf "%.3f%s\n", sum, row } }'
}
sparse 20 1000000 50 >wide.svm
sparse 500 3000 20 >sparse.svm
if [ -z "$SANITIZE" ]; then # sanitizers map terabytes
    (ulimit -v 1000000 && succeeds "$BOCHNER" fit wide.svm --features 512 --threads 1 --out wide.model) || failures=1
    (ulimit -v 1000000 && succeeds "$BOCHNER" fit wide.svm --features 256 --threads 1 --stream --gamma 1e-8 --lambda 1 \
        --out stream.model) || failures=1
    (ulimit -v 1000000 && succeeds "$BOCHNER" predict wide.model wide.svm --threads 1 --out wide.csv) || failures=1
    [ "$(wc -l <wide.csv)" -eq 21 ] || complain "predicted $(wc -l <wide.csv) lines"
fi
succeeds "$BOCHNER" fit sparse.svm --stream --features 128 --gamma 1e-5 --lambda 0.1 --holdout 0.2 --out s.model --json
streamed=$(field out rmse)
succeeds "$BOCHNER" fit sparse.svm --features 128 --gamma 1e-5 --lambda 0.1 --holdout 0.2 --out sparse.model --json
expect "columns of the plan" "$(field out dim)" == 3000
expect "RMSE of a stream" "$(awk "BEGIN { print ($streamed / $(field out rmse) - 1) ^ 2 }")" "<" 1e-4
succeeds "$BOCHNER" predict sparse.model sparse.svm --std --out sparse.csv
[ "$(wc -l <sparse.csv)" -eq 501 ] || complain "predicted $(wc -l <sparse.csv) lines"


finish
