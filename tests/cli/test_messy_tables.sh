# A messy table needs no options: the same result in memory and as a stream, and predict reads it the same way.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN {
    srand(4); print "id;agent;town;kind;sold;garden;area;w;owner;price"
    for (i = 0; i < 600; i++) {
        town = int(60 * rand()); area = 30 + 100 * rand(); garden = rand() < 0.5; year = 2010 + int(10 * rand())
        a = sprintf("%.2f", area); p = sprintf("%.2f", area + 20 * garden + 3 * (year - 2010) + 20 * sin(town) + rand())
        sub(/\./, ",", a); sub(/\./, ",", p)
        printf "%d;agent %d;town %d;%s;%02d.%02d.%d;%s;%s;%d;o%d;%s\n", i + 7, i, town, rand() < 0.5 ? "flat" : "house", 1 + int(28 * rand()),
            1 + int(12 * rand()), year, garden ? "yes" : "no", rand() < 0.1 ? "-" : a, i % 3, i / 4, i % 50 == 7 ? "" : p
    }
}' >sales.csv
options="--features 128 --gamma 0.05 --lambda 0.01 --target price --holdout 0.25 --sample-weights w --group owner"
# shellcheck disable=SC2086
succeeds "$BOCHNER" fit sales.csv $options --out memory.model --json
grep -q "column 'id' is left out: it numbers the rows" err || complain "row numbers are not reported: $(cat err)"
grep -q "column 'agent' is left out: its text is nearly unique" err || complain "unique text is not reported: $(cat err)"
grep -q "12 rows are left out because the target is missing" err || complain "rows without a target: $(cat err)"
grep -q "Columns  *1 number, 1 boolean, 1 date (3 inputs), 1 one-hot (2 inputs), 1 target-encoded (town: 60 values), 1 weights (w), 1 group (owner), 2 left out (id: row numbers, agent: nearly unique); missing values are imputed (area: " err ||
    complain "the line of columns: $(grep Columns err)"
grep -q '{"name": "town", "use": "target-encoded", "inputs": 1, "values": 60}' out || complain "JSON of columns: $(grep columns out)"
r2=$(field out r2)
compare "$r2" ">" 0.85 || complain "R2 is only $r2"
# shellcheck disable=SC2086
succeeds "$BOCHNER" fit sales.csv $options --stream --sample 2000 --out stream.model --json
compare "$(awk "BEGIN { print ($r2 - $(field out r2)) ^ 2 }")" "<" 1e-8 || complain "the stream has R2 $(field out r2), memory $r2"
# Rows without a target are predicted too; other columns may be absent or in another order.
succeeds "$BOCHNER" predict memory.model sales.csv
[ "$(wc -l <out)" = 601 ] || complain "$(wc -l <out) lines are predicted instead of 601"
head -3 out >first
awk -F';' -v OFS=';' '{ print $6, $7, $5, $3, $4 }' sales.csv | head -3 >new.csv
succeeds "$BOCHNER" predict memory.model new.csv
cmp -s first out || complain "columns in another order give other predictions"
sed '2s/no;/perhaps;/; 2s/yes;/perhaps;/' new.csv >odd.csv
fails 1 "odd.csv: line 2, column 'garden': expected true or false|perhaps" "$BOCHNER" predict memory.model odd.csv
# The index of a pandas DataFrame is omitted, also for a part of the rows, unless --keep names it; new files may have it
# or not.
for name in "" index level_0 "Unnamed: 0"; do
    for rows in 5 200; do
        awk -v name="$name" -v rows=$rows 'BEGIN { srand(3); print name ",a,b,y"
            for (i = 0; i < rows; i++) print i * (rows > 20 ? 1693 : 7) % 336776 "," rand() "," rand() "," rand() }' >index.csv
        succeeds "$BOCHNER" fit index.csv --target y --features 16 --out index.model
        grep -q "is left out: it numbers the rows" err || complain "$rows rows: the index '$name' is an input: $(cat err)"
        succeeds "$BOCHNER" predict index.model index.csv
        mv out with
        cut -d, -f2- index.csv >plain.csv
        succeeds "$BOCHNER" predict index.model plain.csv
        cmp -s out with || complain "the index '$name' changes predictions"
        succeeds "$BOCHNER" fit index.csv --target y --keep 0,a,b --features 16 --out index.model
        grep -q "left out" err && complain "--keep does not keep '$name': $(cat err)"
    done
done
awk 'BEGIN { print ",name,y"; for (i = 9; i < 99; i++) print i ",n" i % 5 "," i % 5 ".5" }' >index.csv
succeeds "$BOCHNER" fit index.csv --target y --features 16 --out index.model
grep -q "1 one-hot (5 inputs), 1 left out" err || complain "an index beside text: $(cat err)"
awk 'BEGIN { print "index,a,y"; for (i = 0; i < 90; i++) print i % 30 "," i % 7 "," i % 30 ".5" }' >index.csv
succeeds "$BOCHNER" fit index.csv --target y --features 16 --out index.model
grep -q "left out" err && complain "a code named index is left out: $(cat err)"
for name in index id; do # a table of panels: the values repeat late
    awk -v name=$name 'BEGIN { print name ",a,y"; for (i = 0; i < 15000; i++) print i % 5000 "," i % 7 "," i % 30 ".5" }' >index.csv
    succeeds "$BOCHNER" fit index.csv --target y --features 16 --out index.model
    grep -q "left out" err && complain "a $name that repeats after 5,000 rows is left out: $(cat err)"
done
awk 'BEGIN { print "index,a,y"; for (i = 0; i < 19; i++) print i * 107 "," i % 7 "," i % 30 ".5" }' >index.csv
succeeds "$BOCHNER" fit index.csv --target y --features 16 --out index.model
grep -q "left out" err && complain "numbers too far apart to number rows are left out: $(cat err)"
awk 'BEGIN { print "column 0,a,y"; for (i = 0; i < 90; i++) print i * 7 "," i % 7 "," i % 30 ".5" }' >index.csv
succeeds "$BOCHNER" fit index.csv --target y --features 16 --out index.model
grep -q "left out" err && complain "a column that is really named 'column 0' is left out: $(cat err)"

# Constant columns are named once.
awk 'BEGIN { srand(3); for (j = 0; j < 12; j++) printf "c%d,", j; print "a,y"
    for (i = 0; i < 200; i++) { for (j = 0; j < 12; j++) printf "3,"; print rand() "," rand() } }' >constant.csv
for how in "" "--features 64" "--stream" "--stream --sample 50"; do
    # shellcheck disable=SC2086
    succeeds "$BOCHNER" fit constant.csv --target y $how --out constant.model
    grep -q "constant in $([ "${how%50}" = "$how" ] && echo the || echo a sample of 50) training rows" err ||
        complain "the rows in which columns are constant are wrong with '$how': $(cat err)"
    [ "$(grep -c "are constant" err)" = 1 ] || complain "constant columns are announced $(grep -c "are constant" err) times with '$how'"
    grep -q "12 of 13 input columns .*: 'c0', 'c1', .*'c9' and 2 more" err || complain "constant columns are not named: $(cat err)"
done
for how in "" "--stream"; do
    # shellcheck disable=SC2086
    succeeds "$BOCHNER" embed constant.csv --drop y --features 64 $how --out c.csv
    grep -q "12 of 13 input columns .*: 'c0', 'c1', .*'c9' and 2 more" err || complain "embed does not name constant columns: $(cat err)"
done

# A copied column that has the name of a class is renamed.
awk 'BEGIN { srand(3); print "a,late,class"; for (i = 0; i < 60; i++) print rand() "," i "," (i % 2 ? "late" : "early") }' >late.csv
succeeds "$BOCHNER" fit late.csv --features 16 --keep a --out late.model
succeeds "$BOCHNER" predict late.model late.csv --proba --copy late,a
[ "$(head -1 out)" = "late_copied,a,prediction,early,late" ] || complain "columns of --copy: $(head -1 out)"
grep -q "'late_copied'" err || complain "the new name is not announced: $(cat err)"
awk 'BEGIN { srand(3); print "a,class"; for (i = 0; i < 60; i++) print rand() "," (i % 2 ? "prediction" : "a") }' >prediction.csv
succeeds "$BOCHNER" fit prediction.csv --features 16 --out late.model
succeeds "$BOCHNER" predict late.model prediction.csv --proba --copy a
[ "$(head -1 out)" = "a_copied,prediction,a,prediction_probability" ] || complain "columns of a class 'prediction': $(head -1 out)"
grep -q "the probability of the class is named 'prediction_probability'" err || complain "the new name is not announced: $(cat err)"
awk 'BEGIN { srand(3); print "a,y,y_std"; for (i = 0; i < 60; i++) print rand() "," rand() "," rand() }' >std.csv
succeeds "$BOCHNER" fit std.csv --target y,y_std --features 16 --gamma 1 --lambda 1 --out late.model
succeeds "$BOCHNER" predict late.model std.csv --std
[ "$(head -1 out | tr , '\n' | sort | uniq -d)" = "" ] || complain "two columns have one name: $(head -1 out)"

# Integers as classes: the report names the option for numbers.
awk 'BEGIN { srand(1); print "x,grade"; for (i = 0; i < 60; i++) print rand() "," i % 3 }' >grades.csv
succeeds "$BOCHNER" fit grades.csv --features 32 --gamma 1 --lambda 1 --holdout 0.2
grep -q "only 3 different values, all integers (use --task" err || complain "the task is not explained: $(cat err)"
fails 1 "standard input can be read only once|use a file" "$BOCHNER" fit - --stream --out bad.model <grades.csv
finish
