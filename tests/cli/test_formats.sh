# Every format, plain and compressed: fit and predict give the same numbers; labels are the same as in the file.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
house 400 3 >train.csv
house 100 4 >test.csv
options="--features 128 --gamma 0.3 --lambda 0.05 --quiet"

# round TRAIN TEST EXPECTED OPTIONS...: a model of TRAIN predicts for TEST the contents of the file EXPECTED, or creates
# that file.
round() {
    train=$1 test=$2 expected=$3
    shift 3
    rm -f round.model
    # shellcheck disable=SC2086
    succeeds "$BOCHNER" fit "$train" $options "$@" --out round.model || return
    succeeds "$BOCHNER" predict round.model "$test" --out predicted.csv --quiet || return
    if [ -e "$expected" ]; then
        # Columns of float32 files are rounded; their relative error is far below 1e-4.
        paste -d, predicted.csv "$expected" | awk -F, 'NR > 1 { d = $1 - $2; if (d < 0) d = -d; m = $2 < 0 ? -$2 : $2
            if (d > 1e-4 * (1 + m)) bad++ } END { exit bad > 0 || NR < 2 }' || complain "$train predicts other numbers"
    else
        cp predicted.csv "$expected"
    fi
}

round train.csv test.csv regression.csv --target price
[ "$(head -1 regression.csv)" = prediction ] || complain "the header is $(head -1 regression.csv)"
[ "$(wc -l <regression.csv)" -eq 101 ] || complain "100 rows gave $(wc -l <regression.csv) lines"
gzip -k train.csv test.csv
round train.csv.gz test.csv.gz regression.csv --target price
round train.csv.gz test.csv regression.csv --stream
tail -n +2 train.csv >plain.csv
tail -n +2 test.csv >plain_test.csv
round plain.csv plain_test.csv regression.csv
round plain.csv plain_test.csv regression.csv --target 3
round plain.csv plain_test.csv regression.csv --target -1
tr ',' ' ' <plain.csv >spaced.txt
tr ',' '\t' <plain_test.csv >spaced_test.txt
round spaced.txt spaced_test.txt regression.csv
gzip -k spaced.txt
round spaced.txt.gz spaced_test.txt regression.csv
awk -F, '{ printf "%s 1:%s 2:%s 3:%s\n", $4, $1, $2, $3 }' plain.csv >table.libsvm
awk -F, '{ printf "%s 1:%s 2:%s 3:%s\n", $4, $1, $2, $3 }' plain_test.csv >table_test.libsvm
round table.libsvm table_test.libsvm regression.csv --scaling columns
gzip -k table.libsvm
round table.libsvm.gz table_test.libsvm regression.csv --scaling columns
cut -d, -f4 train.csv >labels.csv
cut -d, -f1-3 train.csv >inputs.csv
round inputs.csv test.csv regression.csv --labels labels.csv
awk -F, -v OFS=, '{ print $4, "x" NR, $2, $3, $1 }' test.csv >moved.csv # columns are matched by name, and other columns are ignored
round train.csv moved.csv regression.csv --target price
awk -F, 'NR == 1 { print; next } { printf "\"%s\",%s,\" %s\",\"%s\"\r\n", $1, $2, $3, $4 }' train.csv >quoted.csv
round quoted.csv test.csv regression.csv
head -201 train.csv >first.csv
{ head -1 train.csv; tail -200 train.csv; } >second.csv
round first.csv test.csv regression.csv second.csv # two files are read as one

# .npy: the exact map of degree 1 writes a table of ones and the inputs, which is read back.
"$BOCHNER" features inputs.csv --kernel polynomial --degree 1 --gamma 1 --out inputs.npy >/dev/null || complain "features failed"
cut -d, -f1-3 test.csv >test_inputs.csv
"$BOCHNER" features test_inputs.csv --kernel polynomial --degree 1 --gamma 1 --out test_inputs.npy >/dev/null
awk -F, -v OFS=, 'NR == 1 { print "one", $0; next } { print 1, $0 }' train.csv >ones.csv
awk -F, -v OFS=, 'NR == 1 { print "one", $0; next } { print 1, $0 }' test.csv >test_ones.csv
round ones.csv test_ones.csv ones_regression.csv
round inputs.npy test_inputs.npy ones_regression.csv --labels labels.csv
gzip -k inputs.npy
round inputs.npy.gz test_inputs.npy ones_regression.csv --labels labels.csv
round inputs.npy test_inputs.npy ones_regression.csv --labels labels.csv --stream

# Standard input.
succeeds "$BOCHNER" predict round.model test_inputs.npy --out first.npy --quiet
"$BOCHNER" fit - $options --target price --out stdin.model <train.csv >/dev/null || complain "fit from standard input"
"$BOCHNER" predict stdin.model - --quiet <test.csv >stdin.csv || complain "predict from standard input"
cmp -s stdin.csv regression.csv || complain "standard input predicts other numbers"

# Output as .npy: a header of 128 bytes, then one float64 per row.
[ "$(wc -c <first.npy)" -eq $((128 + 100 * 8)) ] || complain "first.npy has $(wc -c <first.npy) bytes"
succeeds "$BOCHNER" predict round.model test_inputs.npy --std --out std.npy --quiet
[ "$(wc -c <std.npy)" -eq $((128 + 100 * 8 * 4)) ] || complain "std.npy has $(wc -c <std.npy) bytes"
succeeds "$BOCHNER" predict stdin.model test.csv --std --quiet
awk -F, 'NR == 1 { if ($0 != "mean,std,low95,high95") exit 1; next }
    !($2 > 0 && $3 < $1 && $1 < $4 && ($4 - $3) / $2 > 3.919 && ($4 - $3) / $2 < 3.921) { exit 1 }' out ||
    complain "--std: $(head -2 out | tr '\n' ' ')"

# Intervals: the level is in the names of the columns, a larger level is wider, and metrics use 95%.
cp out std.csv
succeeds "$BOCHNER" predict stdin.model test.csv --interval 0.8 --quiet
[ "$(head -1 out)" = mean,low80,high80 ] || complain "--interval: $(head -1 out)"
paste -d, std.csv out | awk -F, 'NR > 1 && !($5 == $1 && $3 <= $6 && $6 <= $5 && $5 <= $7 && $7 <= $4 && $7 < $4) { exit 1 }' ||
    complain "intervals of 80% are not inside those of 95%"
succeeds "$BOCHNER" predict stdin.model test.csv --interval 0.8 --out narrow.csv --json
cp out narrow.json
succeeds "$BOCHNER" predict stdin.model test.csv --out plain.csv --json
[ "$(field narrow.json coverage_95)" = "$(field out coverage_95)" ] || complain "the coverage depends on --interval"
succeeds "$BOCHNER" predict stdin.model test.csv --interval 0.995 --std --quiet
[ "$(head -1 out)" = mean,std,low99.5,high99.5 ] || complain "--interval with --std: $(head -1 out)"
fails 2 "--interval" "$BOCHNER" predict stdin.model test.csv --interval 1.5

# The scale of the target.
succeeds "$BOCHNER" fit train.csv $options --target price --target-scale log --test test.csv --out log.model --json
[ "$(field out target_scale)" = log ] || complain "the scale of the target is $(field out target_scale)"
expect "coverage with logarithms" "$(field out coverage_95)" '>' 0.85
grep -q '"coverage_95_by_fifth": \[' out || complain "no coverage by fifths"
succeeds "$BOCHNER" info log.model
grep -q "target scale log" out || complain "info does not print the scale of the target"

# Several targets.
succeeds "$BOCHNER" fit train.csv --target price,age $options --test test.csv --out two.model --json
cp out two.json
grep -q '"name": "age"' two.json || complain "no metrics of the second target"
succeeds "$BOCHNER" predict two.model test.csv --quiet
[ "$(head -1 out)" = price,age ] || complain "the header of two targets is $(head -1 out)"
succeeds "$BOCHNER" predict two.model test.csv --std --quiet
[ "$(head -1 out)" = price,price_std,price_low95,price_high95,age,age_std,age_low95,age_high95 ] ||
    complain "the header of two targets is $(head -1 out)"

# Classes as text, with a space and with quotes around a comma.
shapes 300 5 | sed 's/middle/"mid,dle"/' >classes.csv
shapes 90 6 | sed 's/middle/"mid,dle"/' >classes_test.csv
for loss in ridge logistic; do
    succeeds "$BOCHNER" fit classes.csv --test classes_test.csv --features 1024 --loss $loss --out classes.model --json --quiet
    expect "accuracy of rings with $loss" "$(field out accuracy)" '>' 0.97
    expect "log loss of rings with $loss" "$(field out log_loss)" '<' 0.3
    [ "$(field out task)" = classification ] || complain "words are not classes"
done
succeeds "$BOCHNER" predict classes.model classes_test.csv --quiet
tail -n +2 out | sort -u >found
printf '"mid,dle"\ninner\nouter ring\n' | sort | cmp -s - found || complain "labels came back as $(tr '\n' ' ' <found)"
succeeds "$BOCHNER" predict classes.model classes_test.csv --proba --quiet
[ "$(head -1 out)" = 'prediction,inner,"mid,dle",outer ring' ] || complain "--proba: $(head -1 out)"
tail -n +2 out | sed 's/"mid,dle"/mid/' | awk -F, '{ s = $2 + $3 + $4; if (s < 0.999999 || s > 1.000001) exit 1 }' ||
    complain "probabilities do not sum to one"
succeeds "$BOCHNER" predict classes.model classes_test.csv --proba --out proba.npy
[ "$(wc -c <proba.npy)" -eq $((128 + 90 * 8 * 4)) ] || complain "proba.npy has $(wc -c <proba.npy) bytes"
fails 1 "--std|classes" "$BOCHNER" predict classes.model classes_test.csv --std

# IDX: images of eight pixels that are bright on the left or on the right; the labels are in a separate file.
awk -v n=80 'BEGIN { srand(7); printf "\\0000\\0000\\0010\\0003\\0000\\0000\\0000\\0120\\0000\\0000\\0000\\0002\\0000\\0000\\0000\\0004"
    for (i = 0; i < n; i++) for (j = 0; j < 8; j++) printf "\\0%03o", (j % 4 < 2) == (i % 2) ? 150 + 100 * rand() : 60 * rand() }' >idx.text
printf '%b' "$(cat idx.text)" >images.idx
awk -v n=80 'BEGIN { printf "\\0000\\0000\\0010\\0001\\0000\\0000\\0000\\0120"; for (i = 0; i < n; i++) printf "\\0%03o", 3 + 4 * (i % 2) }' >idx.text
printf '%b' "$(cat idx.text)" >names.idx
gzip -k images.idx names.idx
for images in images.idx images.idx.gz; do
    succeeds "$BOCHNER" fit $images --labels names.idx.gz --test images.idx --test-labels names.idx --features 64 --out idx.model --json --quiet
    [ "$(field out task)" = classification ] || complain "IDX labels are not classes"
    [ "$(field out dim)" = 8 ] || complain "images of 2 x 4 have $(field out dim) columns"
    [ "$(field out scaling)" = common ] || complain "pixels are scaled by $(field out scaling)"
    expect "accuracy of $images" "$(field out accuracy)" '==' 1
done
succeeds "$BOCHNER" predict idx.model images.idx --quiet
[ "$(sed -n 2,5p out | tr '\n' ' ')" = '3 7 3 7 ' ] || complain "classes of IDX came back as $(sed -n 2,5p out | tr '\n' ' ')"
succeeds "$BOCHNER" predict idx.model images.idx --labels names.idx --json
expect "accuracy of predict" "$(field out accuracy)" '==' 1

# A test RMSE much larger than the validation RMSE is reported; a similar one is not.
awk 'BEGIN { srand(4); for (i = 0; i < 300; i++) { a = rand(); print a "," sin(6 * a) + 0.1 * rand() } }' >near.csv
awk 'BEGIN { srand(5); for (i = 0; i < 100; i++) { a = 3 + rand(); print a "," sin(6 * a) } }' >far.csv
succeeds "$BOCHNER" fit near.csv --test far.csv --features 64 --quiet
grep -q 'warning.*larger than the validation RMSE' err || complain "no warning about a large test RMSE: $(cat out err)"
succeeds "$BOCHNER" fit near.csv --test near.csv --features 64 --quiet
[ -s err ] && complain "a good test is remarked upon: $(cat err)"

# Labels too long for the table of classes are truncated at a character boundary, and contain no line break.
awk 'BEGIN { srand(8); for (i = 0; i < 200; i++) { k = i % 2; printf "%.3f,%.3f,\"%s\"\n", rand() + 3 * k, rand(),
    k ? "two\nlines" : "\303\251t\303\251 \303\240 la mer" } }' >labels.csv
succeeds "$BOCHNER" fit labels.csv --holdout 0.3 --features 64 --gamma 0.5 --lambda 0.1 --quiet
grep -q '^  two lines  ' out || complain "a label with a line feed in the table: $(cat out)"
grep -q "^  $(printf '\303\251t\303\251 \303\240 la \342\200\246') " out || complain "a long label in the table: $(cat out)"
printf '1,2,3\n2,1,5\n1,1,4\n5,2,6.5\n' >few.csv
printf '1,2,3\n' >single.csv
succeeds "$BOCHNER" fit few.csv --task regression --test single.csv --features 8 --gamma 0.5 --lambda 0.1 --quiet
grep -q 'on 1 row$' out && ! grep -q 'nan' out || complain "a test of one row: $(cat out)"

# Missing values and text columns on request.
awk -F, -v OFS=, 'NR == 1 { print $0, "town"; next } { if (NR % 9 == 0) $2 = "NA"; print $0, NR % 2 ? "Rye" : "Hove" }' train.csv >mixed.csv
succeeds "$BOCHNER" fit mixed.csv --target price --categorical auto --impute median $options --out mixed.model --json
[ "$(field out dim)" = 5 ] || complain "three numbers and two towns are $(field out dim) columns"
succeeds "$BOCHNER" fit mixed.csv --target price --categorical town --impute mean $options --stream --out mixed.model
succeeds "$BOCHNER" predict mixed.model mixed.csv
finish
