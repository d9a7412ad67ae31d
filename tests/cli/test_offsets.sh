# Columns far from 0, such as Unix times: the results equal those of the same column near 0. The offsets and the steps
# of 1/1024 are exact in float64.
. "$BOCHNER_SOURCE/tests/cli/common.sh"

# waves OFFSET ROWS SEED [sparse]: x in [offset, offset + 108], y = sin(x - offset); b is 0 or 1.
waves() {
    awk -v o="$1" -v n="$2" -v seed="$3" -v sparse="${4:-}" 'BEGIN { srand(seed); if (!sparse) print "x,b,y";
        for (i = 0; i < n; i++) { t = int(108 * 1024 * rand()) / 1024; b = rand() < 0.5; y = sin(t) + b;
        if (sparse) printf "%.17g 1:%.17g%s\n", y, o + t, b ? " 2:1" : ""; else printf "%.17g,%d,%.17g\n", o + t, b, y } }'
}
same() { # same WHAT: the predictions in predictions.csv are those at offset 0, the first that are compared
    [ -f "$1.first" ] || cp predictions.csv "$1.first"
    paste -d, "$1.first" predictions.csv | awk -F, 'NR > 1 { d = $1 - $2; if (d < 0) d = -d; if (!(d < 2e-4)) bad++ } END { exit bad > 0 || NR < 60 }' ||
        complain "$1 at offset $offset: predictions differ from those at offset 0"
}
options="--kernel rbf --features 512 --gamma 400 --lambda 1e-6 --task regression --seed 3"
for offset in 0 1e7 1e8 1.7e9 1.7e12; do
    waves $offset 1200 1 >train.csv
    waves $offset 200 2 >test.csv
    waves $offset 1200 1 sparse >train.svm
    waves $offset 200 2 sparse >test.svm
    # shellcheck disable=SC2086
    for kind in csv svm; do
        for stream in "" "--stream --sample 300"; do
            succeeds "$BOCHNER" fit train.$kind $options $stream --test test.$kind --out model --quiet --json
            expect "RMSE of $kind $stream at offset $offset" "$(field out rmse)" '<' 1e-3
            [ "$stream" ] || expect "leave-one-out RMSE of $kind at offset $offset" "$(field out validation_rmse)" '<' 1e-3
            succeeds "$BOCHNER" predict model test.$kind --out predictions.csv --quiet
            same "$kind${stream:+-stream}"
        done
    done
    # libsvm text without a number that every training row has: it is 0, far from all rows
    echo "0 2:1" >absent.svm
    succeeds "$BOCHNER" predict model absent.svm --quiet
    # a missing value is replaced by the mean
    awk -F, -v OFS=, 'NR % 50 == 7 { $1 = "" } { print }' train.csv >missing.csv
    # shellcheck disable=SC2086
    succeeds "$BOCHNER" fit missing.csv $options --out model --quiet
    succeeds "$BOCHNER" predict model test.csv --out predictions.csv --quiet
    same missing
    # the exact kernel, quantiles, medians, one factor for all columns; the first rows only
    head -301 train.csv >few.csv
    for other in "--scaling quantile" "--scaling common" "--impute median" "--solver cg"; do
        # shellcheck disable=SC2086
        succeeds "$BOCHNER" fit few.csv --kernel rbf --features 128 --task regression --gamma 1 --lambda 0.1 $other --out model --quiet
        succeeds "$BOCHNER" predict model test.csv --out predictions.csv --quiet
        same "$(echo "$other" | tr -d ' -')"
    done
    # coordinates of an embedding and their pre-images, in the units of the file
    succeeds "$BOCHNER" embed few.csv --target y --components 2 --kernel linear --out coordinates.csv --reconstruct images.csv --quiet
    cut -d, -f1 coordinates.csv >predictions.csv
    same embedding
    awk -F, -v o=$offset 'NR == FNR { if (FNR > 1) x[FNR] = $1; next } FNR > 1 { d = $1 - x[FNR]; if (!(d < 1e-2 && d > -1e-2)) bad++ } END { exit bad > 0 || FNR < 300 }' few.csv images.csv ||
        complain "pre-images at offset $offset are not the rows: $(head -3 images.csv)"
    # explanations show the numbers of the file
    succeeds "$BOCHNER" explain model test.csv --row 5 --json --quiet
    shown=$(grep -A 3 '"contributions"' out | tr -d '\n' | sed 's/.*"column": *"x"[^}]*"value": *\([0-9.e+]*\).*/\1/')
    wanted=$(awk -F, 'NR == 7 { print $1 }' test.csv)
    awk -v a="$shown" -v b="$wanted" 'BEGIN { d = a - b; exit !(a != "" && d < 1e-3 && d > -1e-3) }' ||
        complain "explain at offset $offset shows x = $shown, expected $wanted"
    # drift: the second half of the range is another distribution
    awk -F, -v o=$offset 'NR == 1 || $1 < o + 54' test.csv >low.csv
    succeeds "$BOCHNER" drift test.csv low.csv --json --quiet
    expect "p value of drift at offset $offset" "$(field out p_value)" '<' 0.01
done

# The numbers of a report differ, also if they differ after the decimal point only.
awk 'BEGIN { srand(4); print "north,y"; for (i = 0; i < 300; i++) { t = rand(); printf "%.6f,%.6f\n", 5400000 + t, sin(6 * t) } }' >places.csv
succeeds "$BOCHNER" fit places.csv --kernel rbf --features 64 --out model --quiet
succeeds "$BOCHNER" explain model places.csv --quiet
grep -q '^north  *5400000\.0[0-9]*  *5400000\.[1-9]' out || complain "the values of a curve are rounded to integers: $(grep '^north' out)"

# Without scaling the numbers are used as they are.
waves 1000 200 1 >train.csv
awk -F, -v OFS=, 'NR > 1 { $1 -= 1000 } { print }' train.csv >near.csv
for file in train near; do
    succeeds "$BOCHNER" fit $file.csv --scaling none --kernel polynomial --degree 1 --gamma 1 --lambda 1 --no-intercept --out model --json --quiet
    field out validation_rmse >$file.rmse
done
cmp -s train.rmse near.rmse && complain "--scaling none does not depend on the zero of the columns"
finish
