# drift: equal and different tables, the columns that differ, names and positions, categories, missing values, exit
# status, bad input.
. "$BOCHNER_SOURCE/tests/cli/common.sh"

# table ROWS SEED SHIFT FACTOR TOWNS MISSING: x and y normal, y shifted and stretched, towns t0, t1, ..., z with missing
# values
table() {
    awk -v rows="$1" -v seed="$2" -v shift="$3" -v factor="$4" -v towns="$5" -v missing="$6" '
    function normal() { return sqrt(-2 * log(1 - rand())) * cos(6.283185307 * rand()) }
    BEGIN { srand(seed); print "x,y,town,z"
        for (i = 0; i < rows; i++)
            print normal() "," normal() * factor + shift ",t" int(rand() * towns) "," (rand() < missing ? "" : normal()) }'
}
# first FIELD: of the first column of the report
first() {
    sed -n "s/.*\"columns\": \[{[^}]*\"$1\": \"\([^\"]*\)\".*/\1/p" out
}
# names: the number of columns
names() {
    grep -o '"name"' out | wc -l
}
table 600 1 0 1 3 0.05 >a.csv
table 500 2 0 1 3 0.05 >same.csv
table 500 3 0.6 1 3 0.05 >shifted.csv
table 500 4 0 1 4 0.3 >changed.csv

for how in permutation asymptotic; do
    succeeds "$BOCHNER" drift a.csv same.csv --p-value $how --json
    expect "$how: p-value of equal distributions" "$(field out p_value)" '>' 0.01
    [ "$(field out differs)" = false ] || complain "$how: $(cat out)"
    succeeds "$BOCHNER" drift a.csv shifted.csv --p-value $how --json
    expect "$how: p-value of a shift" "$(field out p_value)" '<' 0.01
    [ "$(first name)" = y ] || complain "$how: the first column is $(first name)"
    expect "$how: mmd2" "$(field out mmd2)" '>' 0
done
[ "$(field out rows_a)" = 600 ] && [ "$(field out rows_b)" = 500 ] || complain "rows: $(field out rows_a), $(field out rows_b)"
succeeds "$BOCHNER" drift a.csv changed.csv
grep -q "the tables differ at level 0.05" out || complain "no result: $(cat out)"
grep -q "^town .*\*.*only in B: t3" out || complain "the new town is not named: $(cat out)"
grep -q "^z .*\*.*missing [0-9.]*% -> 3[0-9.]*%" out || complain "missing values: $(cat out)"
grep -q "^x .*\*" out && complain "column x did not change: $(cat out)"
cp out whole
succeeds "$BOCHNER" drift a.csv changed.csv --threads 1
cmp -s out whole || complain "the number of threads changes the result"
succeeds "$BOCHNER" drift a.csv changed.csv --columns 1
grep -q "and 3 more columns" out || complain "--columns 1: $(cat out)"

# Exit status: 3 for a difference only on request.
succeeds "$BOCHNER" drift a.csv shifted.csv
"$BOCHNER" drift a.csv shifted.csv --exit-code >out 2>&1
[ $? -eq 3 ] || complain "--exit-code did not give 3"
succeeds "$BOCHNER" drift a.csv same.csv --exit-code

# Columns by name, in any order; pipes; columns missing in one file.
awk -F, -v OFS=, '{ print $4, $2, $1, $3 }' same.csv >order.csv
succeeds "$BOCHNER" drift a.csv same.csv --json
p=$(field out p_value)
succeeds "$BOCHNER" drift a.csv order.csv --json
[ "$(field out p_value)" = "$p" ] || complain "the order of the columns changes p from $p to $(field out p_value)"
cat same.csv | "$BOCHNER" drift a.csv - --json >out 2>err
[ "$(field out p_value)" = "$p" ] || complain "standard input: $(cat err)"
cut -d, -f1-3 same.csv >narrow.csv
fails 1 "narrow.csv|'z'|a.csv|--common|--drop" "$BOCHNER" drift a.csv narrow.csv
fails 1 "narrow.csv|'z'|a.csv" "$BOCHNER" drift narrow.csv a.csv
succeeds "$BOCHNER" drift a.csv narrow.csv --common --json
[ "$(names)" = 3 ] || complain "--common: $(names) columns"
succeeds "$BOCHNER" drift a.csv narrow.csv --drop z,town --json
[ "$(names)" = 2 ] || complain "--drop: $(names) columns"
for list in 3,town "-1, 2"; do
    succeeds "$BOCHNER" drift a.csv narrow.csv --drop "$list" --json
    [ "$(names)" = 2 ] && ! grep -q '"name": "town"' out || complain "--drop $list: $(cat out)"
done
succeeds "$BOCHNER" drift a.csv order.csv --drop 0 --columns 9
grep -q "^x " out && complain "--drop 0 compares column x: $(cat out)"
grep -q "^z " out || complain "an index of --drop is one of A: $(cat out)"
sed 1d a.csv | cut -d, -f1,2 >a.txt && sed 1d shifted.csv | cut -d, -f1,2 >b.txt
succeeds "$BOCHNER" drift a.txt b.txt --json
[ "$(first name)" = "column 1" ] || complain "columns by position: $(first name)"
succeeds "$BOCHNER" drift a.txt b.txt --drop 1 --json
[ "$(names)" = 1 ] || complain "--drop 1: $(names) columns"
expect "p-value without column 1" "$(field out p_value)" '>' 0.001
fails 1 "expected 2 columns|by position" "$BOCHNER" drift a.txt narrow.csv

# A column with text after numbers, and numbers as categories.
awk 'BEGIN { print "k"; for (i = 0; i < 80; i++) print i % 4; print "many" }' >numbers.csv
awk 'BEGIN { print "k"; for (i = 0; i < 80; i++) print i % 3 }' >fewer.csv
succeeds "$BOCHNER" drift numbers.csv fewer.csv --json
[ "$(first kind)" = category ] && grep -q '"only_in_a": \["3", "many"\]' out || complain "mixed column: $(cat out)"
succeeds "$BOCHNER" drift fewer.csv fewer.csv --categorical k --json
[ "$(first kind)" = category ] || complain "--categorical: $(first kind)"
expect "p-value of equal tables" "$(field out p_value)" '>' 0.99

# Medians of even numbers of rows, columns without numbers in one table or in both.
printf 'k,l,m\n1,,\n2,,\n3,,\n5,,\n' >four.csv
printf 'k,l,m\n1,1,\n2,1,\n3,2,\n4,2,\n' >filled.csv
succeeds "$BOCHNER" drift four.csv filled.csv
grep -q "^k .*mean 2.75 -> 2.5, median 2.5 -> 2.5, 5% to 95%: 1.15 to 4.7 -> 1.15 to 3.85" out || complain "quantiles: $(cat out)"
grep -q "^l .* no numbers in A; missing 100.0% -> 0.0%" out || complain "no numbers in A: $(cat out)"
grep -q "^m .* no numbers in A and B; missing 100.0% -> 100.0%" out || complain "no numbers: $(cat out)"
succeeds "$BOCHNER" drift four.csv filled.csv --drop k,m --json
grep -q '"mean_a": null, "mean_b": 1.5,' out || complain "means: $(cat out)"

# Other formats and kernels.
"$BOCHNER" features a.txt --target -1 --features 8 --gamma 1 --out a.npy --quiet
"$BOCHNER" features b.txt --target -1 --features 8 --gamma 1 --out b.npy --quiet
succeeds "$BOCHNER" drift a.npy b.npy --kernel linear --json
[ "$(field out features)" = 8 ] || complain "linear features: $(field out features)"
succeeds "$BOCHNER" drift a.csv shifted.csv --kernel rational-quadratic --features 64 --gamma 0.5 --permutations 99 --json
[ "$(field out permutations)" = 99 ] && [ "$(field out p_value)" = 0.01 ] || complain "99 permutations: p $(field out p_value)"

awk 'BEGIN { srand(6); for (i = 0; i < 200; i++) print i % 2, "1:" rand(), (i % 3 ? "4:" rand() : "2:1") }' >a.libsvm
awk 'BEGIN { srand(7); for (i = 0; i < 200; i++) print i % 2, "1:" rand() + 1, (i % 3 ? "3:" rand() : "2:1"), "5:1" }' >b.libsvm
for pair in "a b" "b a"; do
    succeeds "$BOCHNER" drift "${pair% *}.libsvm" "${pair#* }.libsvm" --json
    [ "$(names)" = 6 ] && [ "$(field out differs)" = true ] || complain "libsvm: $(names) columns, p $(field out p_value)"
done
grep -q '"name": "label"' out || complain "libsvm: no label"

# Bad input.
fails 2 "two files" "$BOCHNER" drift a.csv
fails 2 "two files" "$BOCHNER" drift a.csv same.csv shifted.csv
fails 1 "missing.csv" "$BOCHNER" drift a.csv missing.csv
fails 2 "--permutations|0" "$BOCHNER" drift a.csv same.csv --permutations 0
fails 2 "--permutations|permutation only" "$BOCHNER" drift a.csv same.csv --p-value asymptotic --permutations 9
fails 2 "--alpha" "$BOCHNER" drift a.csv same.csv --alpha 2
fails 2 "smallest p-value of 999 permutations" "$BOCHNER" drift a.csv same.csv --alpha 0.0005
succeeds "$BOCHNER" drift a.csv same.csv --alpha 0.0005 --p-value asymptotic
succeeds "$BOCHNER" drift a.csv same.csv --alpha 0.0005 --permutations 1999
fails 2 "--p-value" "$BOCHNER" drift a.csv same.csv --p-value exact
fails 2 "standard input|file" "$BOCHNER" drift - -
fails 1 "--drop|'nothing'|4 columns: x, y, town, z" "$BOCHNER" drift a.csv same.csv --drop x,nothing
fails 1 "--drop|'4'" "$BOCHNER" drift a.csv same.csv --drop 4
fails 1 "--drop|'2'|index from 0" "$BOCHNER" drift a.txt b.txt --drop 2
fails 1 "--categorical|nothing" "$BOCHNER" drift a.csv same.csv --categorical nothing
fails 1 "expected columns to compare" "$BOCHNER" drift a.csv same.csv --drop x,y,town,z
printf 'x,y,town,z\n1,2,t0,3\n' >one.csv
fails 1 "one.csv|2 rows" "$BOCHNER" drift a.csv one.csv
# Dates are dates, and words such as Infinity and nan are text in a column of text; one invalid date, or a 0, is a
# missing value.
dates() {
    awk -v seed="$1" -v first="$2" 'BEGIN { srand(seed); split("Infinity nan null Up Jaws", title, " ")
        print "day,title"
        for (i = 0; i < 600; i++)
            print (i == 9 ? "2023-02-30" : i == 11 ? "0" : sprintf("2023-%02d-%02d", first + int(rand() * 9), 1 + int(rand() * 28))) "," title[1 + int(rand() * 5)] }'
}
dates 1 1 >early.csv
dates 2 1 >too.csv
dates 3 4 >late.csv
succeeds "$BOCHNER" drift early.csv too.csv --p-value asymptotic
grep -q "no difference found" out || complain "equal dates: $(cat out)"
succeeds "$BOCHNER" drift early.csv late.csv --p-value asymptotic
grep -q '^day .*\* mean 2023-0.-.. -> 2023-0.-..,' out || complain "dates are not compared as dates: $(cat out)"
succeeds "$BOCHNER" drift early.csv late.csv --p-value asymptotic --json
grep -q '"name": "day", "kind": "date"' out || complain "the kind of dates: $(cat out)"
grep -q '"kind": "category".*"categories": 5' out || complain "words are not categories: $(cat out)"
printf 'x\n1\ninf\n' >infinite.csv
fails 1 "infinite.csv|column 'x'|found inf" "$BOCHNER" drift infinite.csv infinite.csv
printf 'x\n1e308\n-1e308\n' >large.csv
fails 1 "large.csv|column 'x'|float32|1e+308" "$BOCHNER" drift large.csv large.csv
# Codes that would be numbers beyond the range are text beside other text, also when they come first.
printf 'x\n123e045\n12e4567\n1.5e400\nabc1\n' >codes.csv
succeeds "$BOCHNER" drift codes.csv codes.csv --p-value asymptotic --json
grep -q '"kind": "category".*"categories": 4' out || complain "codes are not categories: $(cat out)"
printf 'x\n1\n1e400\n' >wide.csv
fails 1 "wide.csv|column 'x'|float32" "$BOCHNER" drift wide.csv wide.csv
finish
