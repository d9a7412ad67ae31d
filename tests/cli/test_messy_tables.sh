# A table as people have them needs no options: the same result in memory and as a stream, and predict reads it the same way.
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
# Integers as classes: the report says how to change that.
awk 'BEGIN { srand(1); print "x,grade"; for (i = 0; i < 60; i++) print rand() "," i % 3 }' >grades.csv
succeeds "$BOCHNER" fit grades.csv --features 32 --gamma 1 --lambda 1 --holdout 0.2
grep -q "only 3 different values, all integers (use --task" err || complain "the task is not explained: $(cat err)"
fails 1 "standard input can be read only once|use a file" "$BOCHNER" fit - --stream --out bad.model <grades.csv
finish
