# bochner fit --device cuda: the same models as on the CPU up to rounding, from memory and from streams, and rejected options.
. "$BOCHNER_SOURCE/tests/cuda/common.sh"

awk 'BEGIN { srand(1); print "a,b,c,y,class"
    for (i = 0; i < 1300; i++) { a = rand(); b = rand(); c = rand(); y = sin(6 * a) + b * c + 0.1 * rand()
        printf "%.5f,%.5f,%.5f,%.5f,%s\n", a, b, c, y, (a + b > 1) ? "high" : "low" } }' >table.csv

# same NAME FIELD TOLERANCE OPTIONS...: the fits on both devices have nearly the same field.
same() {
    name=$1 of=$2 tolerance=$3
    shift 3
    for device in cpu cuda; do
        succeeds "$BOCHNER" fit table.csv --device $device --threads 1 --seed 2 --json "$@" || return
        mv out "$name.$device"
    done
    near "$name: $of on the CPU and on the GPU" "$(field "$name.cpu" "$of")" "$(field "$name.cuda" "$of")" "$tolerance"
    [ "$(field "$name.cuda" solver)" = primal ] || complain "$name: the solver is $(field "$name.cuda" solver)"
}

number="--target y --drop class --holdout 0.2 --features 96"
same given rmse 1e-4 $number --kernel rbf --gamma 0.5 --lambda 0.1 --solver primal --out m.model
same searched rmse 2e-3 $number --kernel rbf --solver primal
same rounded rmse 1e-3 $number --kernel laplacian --gamma 0.2 --lambda 0.5 --solver primal --gram-precision int8
same streamed rmse 1e-4 $number --kernel matern32 --gamma 0.5 --lambda 0.1 --stream --sample 300
same classes accuracy 1e-9 --target class --drop y --holdout 0.2 --kernel rbf --features 96 --gamma 0.5 --lambda 1 \
    --loss ridge --solver primal

# predictions of a model that was fitted on the GPU need none
succeeds env -u BOCHNER_CUDA "$BOCHNER" predict m.model table.csv

# defaults: the primal solver, whatever the size of the table
succeeds "$BOCHNER" fit table.csv --target class --drop y --features 64 --holdout 0.2 --device cuda --json
[ "$(field out solver)" = primal ] || complain "the default solver is $(field out solver)"
[ "$(field out loss)" = ridge ] || complain "the default loss is $(field out loss)"

refused="$BOCHNER fit table.csv --target y --drop class --holdout 0.2 --device cuda"
for solver in dual cg sgd adam; do fails 1 "solver $solver|cuda" $refused --features 64 --solver $solver; done
fails 1 "sections|cuda" $refused --exact
fails 1 "logistic|cuda" "$BOCHNER" fit table.csv --target class --loss logistic --holdout 0.2 --features 64 --device cuda
fails 1 "device|tpu" "$BOCHNER" fit table.csv --target y --holdout 0.2 --device tpu
finish
