# Kernels of infinitely wide networks: exact fits, features, streams, Adam, files, and their options.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
house 400 51 >train.csv
house 200 52 >test.csv

# The exact kernel is the default for few rows; depth and activation are stated and kept in the file.
succeeds "$BOCHNER" fit train.csv --target price --test test.csv --kernel ntk --depth 2 --activation erf --out exact.model
grep -q "exact ntk kernel of 400 rows" err || complain "the plan does not state the exact kernel: $(cat err)"
grep -q "ntk of 2 hidden layers (erf, weight variance 2, bias variance 0.1)" out || complain "no network: $(cat out)"
grep -q "exact, with 400 training rows" out || complain "the report does not state the exact kernel: $(cat out)"
succeeds "$BOCHNER" info exact.model --json
[ "$(field out depth)" = 2 ] || complain "info: depth $(field out depth)"
[ "$(field out activation)" = erf ] || complain "info: activation $(field out activation)"
succeeds "$BOCHNER" predict exact.model test.csv --std --out predicted.csv
[ "$(wc -l <predicted.csv)" -eq 201 ] || complain "predictions: $(wc -l <predicted.csv) lines"

# Exact and with features: the same function up to the error of the features, and both better than a constant.
for more in "--function sections" "--function network --features 2048" "--function network --features 512 --solver adam" \
    "--features 256"; do
    # shellcheck disable=SC2086
    succeeds "$BOCHNER" fit train.csv --target price --test test.csv --kernel ntk $more --json --quiet
    expect "R2 of ntk $more" "$(field out r2)" '>' 0.8
done
[ "$(field out function)" = network ] || complain "400 rows with 256 features: function $(field out function)"

# Every kernel can be exact; a stream needs features.
succeeds "$BOCHNER" fit train.csv --target price --test test.csv --kernel rbf --function sections --json --quiet
[ "$(field out features)" = 400 ] || complain "exact rbf kernel: $(field out features) sections"
succeeds "$BOCHNER" fit train.csv --target price --kernel nngp --stream --features 256 --out stream.model --json --quiet
[ "$(field out function)" = network ] || complain "stream: function $(field out function)"
fails 1 "all rows in memory" "$BOCHNER" fit train.csv --target price --function sections --stream --out wrong.model
fails 1 "expected the solver dual or cg, found primal" "$BOCHNER" fit train.csv --target price --function sections \
    --solver primal --out wrong.model
fails 2 "--depth" "$BOCHNER" fit train.csv --target price --kernel ntk --depth 17 --out wrong.model
for option in "--depth 2" "--activation erf" "--weight-variance 1" "--bias-variance 0"; do
    # shellcheck disable=SC2086
    fails 2 "${option% *}|nngp and ntk|rbf" "$BOCHNER" fit train.csv --target price --kernel rbf $option --out wrong.model
    # shellcheck disable=SC2086
    fails 2 "${option% *}|nngp and ntk|arccos" "$BOCHNER" features train.csv --kernel arccos $option --out wrong.npy
done
succeeds "$BOCHNER" info exact.model
grep -q "^Features" out && complain "an exact kernel has no error of features: $(cat out)"
fails 2 "--activation" "$BOCHNER" fit train.csv --target price --kernel ntk --activation tanh --out wrong.model

# Sixteen times the features: a quarter of the error, up to a factor of 2.5 for a single draw.
awk 'BEGIN { srand(7); for (i = 0; i < 400; i++) for (j = 0; j < 6; j++) { s = -6; for (k = 0; k < 12; k++) s += rand()
    printf "%.4f%s", s, j < 5 ? "," : "\n" } }' >normal.csv
succeeds "$BOCHNER" features --error normal.csv --kernel nngp --depth 2 --features 128 --json --quiet
few=$(field out error_rms)
succeeds "$BOCHNER" features --error normal.csv --kernel nngp --depth 2 --features 2048 --json --quiet
awk -v a="$few" -v b="$(field out error_rms)" 'BEGIN { r = a / b; exit !(r > 1.6 && r < 10) }' ||
    complain "errors $few with 128 and $(field out error_rms) with 2048 features"
finish
