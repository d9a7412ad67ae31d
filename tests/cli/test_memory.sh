# Memory: plans are checked against the limits before any work, and every command ends with a result or "out of memory"
# under any limit of the address space.
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
finish
