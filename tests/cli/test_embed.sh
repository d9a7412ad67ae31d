# embed: coordinates in files and on standard output, models, streams, reconstruction, columns, bad input, and agreement
# with scikit-learn where it is installed.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
house 400 7 >table.csv

# Linear PCA: the coordinates are uncorrelated and have the variances of the report; all components reconstruct the rows.
succeeds "$BOCHNER" embed table.csv --target price --kernel linear --components 3 --out c.csv --reconstruct r.csv --json
for name in kernel:linear components:3 rows:400 dim:3; do
    [ "$(field out "${name%:*}")" = "${name#*:}" ] || complain "${name%:*} is $(field out "${name%:*}")"
done
expect "error of all components" "$(field out input_error)" '<' 1e-12
[ "$(head -1 c.csv)" = "c1,c2,c3" ] || complain "header: $(head -1 c.csv)"
first=$(sed -n 's/.*"variances": \[\([^,]*\),.*/\1/p' out)
awk -F, -v v="$first" 'NR > 1 { n++; s += $1; ss += $1 * $1; sp += $1 * $2 } END { m = s / n
    exit !(m * m < 1e-10 && ((ss - n * m * m) / (n - 1) - v) ^ 2 < 1e-10 && (sp / n) ^ 2 < 1e-10) }' c.csv ||
    complain "the coordinates do not have the variance $first"
cut -d, -f1-3 table.csv >inputs.csv
head -1 r.csv | grep -q "$(head -1 inputs.csv)" || complain "pre-images have the columns $(head -1 r.csv)"
paste -d, inputs.csv r.csv | awk -F, 'NR > 1 { for (j = 1; j <= 3; j++) { d = $j - $(j + 3); if (d * d > 1e-6 * (1 + $j * $j)) bad = 1 } }
    END { exit bad }' || complain "three components do not reconstruct three columns"

# The same coordinates: standard output, .npy, threads, a stream whose sample has all rows, and a saved model.
succeeds "$BOCHNER" embed table.csv --target price --features 128 --save e.model
cp out first.csv
grep -q "Next: bochner embed table.csv --model e.model" err || complain "no next command: $(cat err)"
succeeds "$BOCHNER" embed table.csv --target price --features 128 --threads 1 --quiet
cmp -s out first.csv || complain "the number of threads changes the coordinates"
[ -s err ] && complain "--quiet prints $(cat err)"
succeeds "$BOCHNER" embed table.csv --model e.model
cmp -s out first.csv || complain "the model gives other coordinates"
succeeds "$BOCHNER" embed table.csv --target price --features 128 --stream
paste -d, out first.csv | awk -F, 'NR > 1 { for (j = 1; j <= 2; j++) { d = $j - $(j + 2); if (d * d > 1e-12) bad = 1 } } END { exit bad }' ||
    complain "a stream gives other coordinates"
cp out streamed.csv
succeeds "$BOCHNER" embed table.csv --target price --features 128 --stream --sample 4611686018427387904
cmp -s out streamed.csv || complain "a sample of more rows than the file has gives other coordinates"
"$BOCHNER" embed - --target price --features 128 --stream <table.csv >out 2>err
cmp -s out streamed.csv || complain "a stream from standard input gives other coordinates: $(cat err)"
succeeds "$BOCHNER" embed table.csv --target price --features 128 --out c.npy
head -c 128 c.npy | grep -q "'<f8'.*(400, 2)" || complain "the header of c.npy is $(head -c 128 c.npy | tail -c 118)"
grep -q "cumulative" out || complain "no report: $(cat out)"
succeeds "$BOCHNER" embed table.csv --target price --features 128 --seed 1
cmp -s out first.csv && complain "the seed does not change the features"
# Dropped columns need no message; unknown columns do.
succeeds "$BOCHNER" embed table.csv --target price --drop 0 --features 128 --save dropped.model --out dropped.csv
grep -q "ignoring" err && complain "a dropped column is reported: $(cat err)"
sed 1d table.csv >unnamed.csv
succeeds "$BOCHNER" embed unnamed.csv --drop 0 --features 128 --out dropped.csv
grep -q "ignoring" err && complain "a dropped column without a name is reported: $(cat err)"
awk -F, -v OFS=, '{ print $0, NR == 1 ? "new" : NR }' table.csv >wide.csv
succeeds "$BOCHNER" embed wide.csv --model dropped.model --out dropped.csv
grep -q "ignoring 1 column that the model does not use: new" err || complain "an unknown column: $(cat err)"
fails 2 "--function|sections" "$BOCHNER" embed table.csv --function sections
fails 1 "covariance of the features|memory|fewer features" timeout 10 "$BOCHNER" embed table.csv --features 100000000
# New rows: columns by name in another order, without the target; the error column.
awk -F, -v OFS=, '{ print $3, $1, $2 }' table.csv | head -4 >new.csv
succeeds "$BOCHNER" embed new.csv --model e.model --error --json
[ "$(field out rows)" = 3 ] || complain "3 rows became $(field out rows)"
grep -q '"columns": \["c1", "c2", "error"\]' out && grep -q '"coordinates": \[' out || complain "JSON: $(head -5 out)"
succeeds "$BOCHNER" embed new.csv --model e.model
head -4 first.csv | cmp -s - out || complain "columns in another order give other coordinates"
succeeds "$BOCHNER" info e.model
grep -q "an embedding with 2 components" out || complain "info: $(cat out)"
succeeds "$BOCHNER" info e.model --json
[ "$(field out holds)" = embedding ] || complain "info --json: $(cat out)"

# Text columns, missing values and dropped columns, as in fit.
awk 'BEGIN { srand(3); print "a,town,b,id"; for (i = 0; i < 60; i++) print rand() "," (i % 3 ? "Rye" : "Hove") "," (i % 9 ? rand() : "") ",x" i }' >mixed.csv
fails 1 "mixed.csv|town|--categorical" "$BOCHNER" embed mixed.csv --drop id,b --categorical none
fails 1 "mixed.csv|column 'b'|--impute" "$BOCHNER" embed mixed.csv --drop id --impute none
succeeds "$BOCHNER" embed mixed.csv --drop id --categorical auto --impute mean --features 32 --json --out c.csv
[ "$(field out dim)" = 4 ] || complain "columns a, b and two towns: $(field out dim)"
fails 1 "mixed.csv|nothing" "$BOCHNER" embed mixed.csv --drop nothing
fails 1 "is the target|--drop" "$BOCHNER" embed mixed.csv --drop a --target a

# Bad input.
fails 2 "--function" "$BOCHNER" embed table.csv --function sections
fails 2 "expected a file" "$BOCHNER" embed
fails 1 "missing.csv" "$BOCHNER" embed missing.csv
fails 2 "--components|0" "$BOCHNER" embed table.csv --components 0
fails 1 "at most 3|found 4" "$BOCHNER" embed table.csv --target price --kernel linear --components 4
fails 2 "--kernel|custom" "$BOCHNER" embed table.csv --kernel custom
fails 2 ".csv or .npy" "$BOCHNER" embed table.csv --out c.txt
fails 2 "--reconstruct" "$BOCHNER" embed table.csv --reconstruct c.txt
fails 2 "table.csv" "$BOCHNER" embed table.csv --out table.csv
fails 2 "--gamma|--model" "$BOCHNER" embed table.csv --model e.model --gamma 1
fails 1 "table.csv" "$BOCHNER" embed new.csv --model table.csv
fails 1 "memory|fewer features" "$BOCHNER" embed table.csv --target price --memory 1M --features 4096
head -c 3000 e.model >cut.model
fails 1 "cut.model" "$BOCHNER" embed new.csv --model cut.model
echo "rooms,area" >narrow.csv && echo "1,2" >>narrow.csv
fails 1 "narrow.csv|expected column" "$BOCHNER" embed narrow.csv --model e.model
fails 1 "e.model|embedding" "$BOCHNER" predict e.model new.csv
printf 'a,b\n1,2\n' >one.csv
fails 1 "2 rows" "$BOCHNER" embed one.csv
printf 'a,b\n1,2\n1,2\n' >same.csv
fails 1 "vary" "$BOCHNER" embed same.csv

# scikit-learn: PCA to rounding, and kernel PCA within the error of 8,192 features.
if python3 -c 'import sklearn' 2>/dev/null; then
    cut -d, -f1-3 table.csv >inputs.csv
    succeeds "$BOCHNER" embed inputs.csv --kernel linear --components 2 --scaling none --quiet --out linear.npy
    succeeds "$BOCHNER" embed inputs.csv --components 2 --gamma 0.2 --features 8192 --quiet --out kernel.npy
    python3 - <<'PYTHON' || complain "scikit-learn has other components"
import numpy as np
from sklearn.decomposition import PCA, KernelPCA
x = np.loadtxt("inputs.csv", delimiter=",", skiprows=1)
def differ(a, b):
    return max(min(np.abs(a[:, k] - s * b[:, k]).max() for s in (1, -1)) / np.abs(b[:, k]).max() for k in range(b.shape[1]))
linear = differ(np.load("linear.npy"), PCA(2).fit_transform(x))
kernel = differ(np.load("kernel.npy"), KernelPCA(2, kernel="rbf", gamma=0.2).fit_transform((x - x.mean(0)) / x.std(0)))
print("scikit-learn: largest difference of PCA %.2g, of kernel PCA %.2g" % (linear, kernel))
assert linear < 1e-5 and kernel < 0.1, (linear, kernel)
PYTHON
else
    echo "skipped: comparison with scikit-learn, which is not installed"
fi
finish
