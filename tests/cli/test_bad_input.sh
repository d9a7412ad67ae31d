# Bad input: a message with the location, exit status 1, and no model.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
house 200 1 >train.csv

# refused TEXT OPTIONS...: fit fails with this text and leaves no file behind.
refused() {
    words=$1
    shift
    ls >before
    fails 1 "$words" "$BOCHNER" fit "$@" --features 64 --out bad.model
    ls >after
    cmp -s before after || complain "left behind: $(comm -13 before after | tr '\n' ' ')"
}
: >out
: >err
: >after

awk 'NR == 7 { print "1,2,3"; next } { print }' train.csv >ragged.csv
refused "ragged.csv|line 7" ragged.csv
refused "ragged.csv|line 7" ragged.csv --stream
awk -F, -v OFS=, 'NR == 9 { $2 = "wide" } { print }' train.csv >word.csv
refused "word.csv|line 9|area|wide" word.csv
awk -F, -v OFS=, 'NR == 5 { $3 = "NaN" } { print }' train.csv >nan.csv
refused "nan.csv|line 5|age|missing" nan.csv --impute none
awk -F, -v OFS=, 'NR == 6 { $3 = "" } { print }' train.csv >gap.csv
refused "gap.csv|line 6|age" gap.csv --impute none
awk -F, -v OFS=, 'NR == 6 { $4 = "" } { print }' train.csv >gap_target.csv
refused "gap_target.csv|line 6|price" gap_target.csv --impute none
awk -F, -v OFS=, 'NR == 4 { $1 = "1e999" } { print }' train.csv >huge.csv
refused "huge.csv|line 4|rooms" huge.csv
: >empty.csv
refused "empty.csv" empty.csv
refused "empty.csv" empty.csv --stream
head -1 train.csv >header.csv
refused "header.csv" header.csv
head -2 train.csv >one_row.csv
refused "one_row.csv: expected at least 2 rows, found 1" one_row.csv
refused "one_row.csv: holding out a fraction of 0.5 of 1 row leaves no rows" one_row.csv --holdout 0.5
awk 'BEGIN { print "a,b,class"; for (i = 0; i < 30; i++) print i "," i * i ",yes" }' >one_class.csv
refused "one_class.csv: column 'class'|found only 'yes'" one_class.csv
refused "one_class.csv: column 'class'|found only 'yes'" one_class.csv --stream
awk 'BEGIN { print "a,b,y"; for (i = 0; i < 30; i++) print "3,4," i * 0.37 }' >constant.csv
refused "constant" constant.csv
awk 'NR == 1 { print "rooms,area,rooms,price"; next } { print }' train.csv >twice.csv
refused "twice.csv|rooms" twice.csv
fails 1 "--features: expected at least 1, found 0" "$BOCHNER" fit train.csv --features 0 --out bad.model
fails 1 "--features: expected at least 1, found 0" "$BOCHNER" features train.csv --features 0 --out bad.npy
refused "nowhere.csv|No such file" nowhere.csv
refused "directory" "$work"
refused "train.csv|cost" train.csv --target cost
refused "train.csv|17" train.csv --target 17
refused "nolabels.txt" train.csv --labels nolabels.txt
head -50 train.csv | cut -d, -f4 >short.txt
refused "short.txt" train.csv --labels short.txt
refused "town" train.csv --categorical town
refused "train.csv: column 'price'|logistic|--task classification" train.csv --loss logistic
refused "softmax|sincos|cosbias" train.csv --kernel softmax --function cosbias

# Test files are read before the fit starts.
refused "ragged.csv|line 7" train.csv --test ragged.csv
refused "nan.csv|line 5" train.csv --test nan.csv --impute none
refused "nan.csv|line 5" train.csv --test nan.csv --stream --impute none
cut -d, -f1-3 train.csv >no_target.csv
refused "no_target.csv|price" train.csv --test no_target.csv
cut -d, -f2-4 train.csv >no_rooms.csv
refused "no_rooms.csv|rooms" train.csv --test no_rooms.csv
awk -F, -v OFS=, 'NR > 1 { $4 = $4 "e300" } { print }' train.csv >huge.csv
refused "row 0|expected a target between" huge.csv --task regression

# Numbers far from 1: the result does not depend on the unit of the target; inputs that float32 cannot hold are
# reported.
fit_r2() {
    succeeds "$BOCHNER" fit "$1" --task regression --features 64 --holdout 0.25 --json
    field out r2
}
awk -F, -v OFS=, 'NR > 1 { $4 = $4 "e-203" } { print }' train.csv >tiny.csv
awk -F, -v OFS=, 'NR > 1 { $4 = $4 "e200" } { print }' train.csv >large.csv
usual=$(fit_r2 train.csv)
for unit in tiny large; do
    r2=$(fit_r2 $unit.csv)
    compare "$(awk "BEGIN { print ($r2 - $usual) ^ 2 }")" "<" 1e-8 || complain "R2 of $unit.csv is $r2, of train.csv $usual"
done
awk -F, -v OFS=, 'NR > 1 { $2 = $2 "e-203" } { print }' train.csv >lost.csv
succeeds "$BOCHNER" fit lost.csv --features 64 --gamma 1 --lambda 1 --out lost.model
grep -q "200 numbers are too small for float32" err || complain "lost numbers are not reported: $(cat err)"

# The columns for predict must be those of the fit.
succeeds "$BOCHNER" fit train.csv --features 64 --gamma 0.3 --lambda 0.1 --impute none --out good.model
fails 1 "no_rooms.csv|rooms" "$BOCHNER" predict good.model no_rooms.csv
fails 1 "nan.csv|line 5" "$BOCHNER" predict good.model nan.csv --out predicted.csv
[ -e predicted.csv ] && complain "a half-written prediction was kept"
tail -n +2 train.csv | cut -d, -f1,2 >narrow.csv
fails 1 "narrow.csv|expected 4 columns|found 2" "$BOCHNER" predict good.model narrow.csv
succeeds "$BOCHNER" predict good.model no_target.csv
awk -F, -v OFS=, 'NR == 2 { $2 = "wide" } { print }' no_target.csv >bad_first.csv
fails 1 "bad_first.csv|line 2" "$BOCHNER" predict good.model bad_first.csv # no header on standard output either
fails 1 "bad_first.csv|line 2" "$BOCHNER" predict good.model bad_first.csv --json
fails 1 "--proba|numbers" "$BOCHNER" predict good.model no_target.csv --proba

# Files of formats that are not read: the message names the format, the formats that are read, and a conversion.
printf 'PAR1\025\004' >data.parquet
refused "data.parquet: expected a table (CSV, TSV, .npy|found a Parquet file|read_parquet" data.parquet
refused "data.parquet: expected a table (CSV, TSV, .npy|found a Parquet file|read_parquet" data.parquet --stream
printf 'PK\003\004\024\000\006\000[Content_Types].xml' >sheet.xlsx
refused "sheet.xlsx|found an Excel workbook (.xlsx); save the sheet as CSV" sheet.xlsx
fails 1 "sheet.xlsx|found an Excel workbook" "$BOCHNER" features sheet.xlsx --out bad.npy
printf '[{"rooms": 3, "price": 10}]\n' >rows.json
refused "rows.json|found JSON; convert it to CSV" rows.json
gzip -c data.parquet >data.parquet.gz
refused "data.parquet.gz|found a Parquet file" data.parquet.gz
printf '%%PDF-1.7\n' >paper.pdf
fails 1 "paper.pdf: expected text|found a PDF document" "$BOCHNER" tokenizer train paper.pdf --out bad.json

# Files whose contents do not match their format.
succeeds "$BOCHNER" features train.csv --kernel polynomial --degree 1 --gamma 1 --out table.npy
head -c 700 table.npy >cut.npy
refused "cut.npy" cut.npy
head -c 60 table.npy >header_cut.npy
refused "header_cut.npy" header_cut.npy
{ head -c 10 table.npy; printf "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999, 99999999999), }"; } >hostile.npy
refused "hostile.npy" hostile.npy
{ head -c 10 table.npy; printf "{'descr': '|O', 'fortran_order': False, 'shape': (3, 2), }"; } >objects.npy
refused "objects.npy" objects.npy
gzip -c train.csv | head -c 900 >cut.csv.gz
refused "cut.csv.gz" cut.csv.gz
refused "cut.csv.gz" cut.csv.gz --stream
{ gzip -c train.csv | head -c 200; head -c 2000 /dev/zero; } >damaged.csv.gz
refused "damaged.csv.gz" damaged.csv.gz
head -c 400 good.model >cut.model
fails 1 "cut.model" "$BOCHNER" predict cut.model train.csv
fails 1 "cut.model" "$BOCHNER" info cut.model
fails 1 "train.csv|expected: bochner predict MODEL DATA" "$BOCHNER" predict train.csv train.csv
succeeds "$BOCHNER" features train.csv --features 16 --save some.map
fails 1 "some.map is a feature map" "$BOCHNER" predict some.map train.csv
fails 1 "train.csv" "$BOCHNER" info train.csv
fails 1 "gone.model|No such file" "$BOCHNER" info gone.model
{ printf '\377\377\377\377\377\377\377\177'; tail -c +9 good.model; } >hostile.model
fails 1 "hostile.model" "$BOCHNER" info hostile.model
sed 's/bochner.checksum/unknown.property/' good.model | sed 's/"format_version":"5"/"format_version":"9"/' >newer.model
fails 1 "newer.model|newer|9" "$BOCHNER" info newer.model
fails 1 "newer.model|newer|9" "$BOCHNER" predict newer.model train.csv

# Unwritable locations are detected before the work starts.
fails 1 "no directory" "$BOCHNER" fit train.csv --features 64 --out nowhere/price.model
fails 1 "it is a directory" "$BOCHNER" fit train.csv --features 64 --out "$work"
fails 1 "no directory" "$BOCHNER" predict good.model train.csv --out nowhere/p.csv

# Control characters of files and arguments do not reach the terminal; other characters do.
escape=$(printf '\033')
mkdir evil
printf '{"model_type": "\\u001b[31mevil\\u009b2J\\u00e9\\r\\u007f"}' >evil/config.json
fails 1 "found \\x1b[31mevil\\x9b2J$(printf '\303\251')\\x0d\\x7f" "$BOCHNER" generate evil --prompt a
fails 2 "\\x1b[31m" "$BOCHNER" "${escape}[31m"
fails 2 "\\x1b[31m" "$BOCHNER" fit train.csv "--${escape}[31m"
fails 2 "\\x1b[31m" "$BOCHNER" fit train.csv --features "${escape}[31m"
fails 1 "\\x1b[31m" "$BOCHNER" info "${escape}[31m"
printf '{"\\u001b[31m": {}}' >evil.json
fails 2 "\\x1b[31m" "$BOCHNER" train --data train.csv --out talk --config evil.json
grep -q "$escape" err && complain "a control character in a message: $(cat -v err)"
finish
