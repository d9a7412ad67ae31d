# Equal runs write equal files, byte by byte: with one thread and with several, again, and after kill -9. Only
# metrics.jsonl, which is a log, has the time.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
house 600 1 >train.csv
shapes 400 2 >shapes.csv
awk 'NR > 1' train.csv | awk -F, '{ print $4 " 1:" $1 " 2:" $2 " 3:" $3 }' >train.svm
awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); split("sleeps,eats,runs away", d, ",");
    for (i = 0; i < 1500; i++) { k = 1 + int(4 * rand()); print "the " a[k] " " d[1 + k % 3] "." } }' >text.txt
awk '{ print (NR % 2 ? "good" : "bad") "\t" $0 }' text.txt | head -200 >labels.tsv
echo '{"input": {"kind": "array"}, "layers": [{"type": "linear", "width": 8}, {"type": "linear", "width": "classes"}], "loss": "cross-entropy"}' >net.json
lm="--layers 1 --width 16 --heads 1 --context 32 --batch 2 --steps 6 --checkpoint-every 2"

# The same commands, in a directory of the same name, because files name the models that they come from.
for run in a b; do
    mkdir run
    cd run || exit 1
    threads=1
    [ $run = b ] && threads=2
    do_() { succeeds "$BOCHNER" "$@" --threads $threads --quiet; }
    do_ fit ../train.csv --out searched.model --kernel rbf --features 64
    do_ fit ../train.csv --out exact.model
    do_ fit ../train.csv --out stream.model --kernel rbf --features 64 --stream --sample 500
    do_ fit ../train.svm --out sparse.model --kernel rbf --features 64 --lambda 1
    do_ fit ../shapes.csv --out classes.model --kernel rbf --features 64
    for solver in cg sgd; do do_ fit ../train.csv --out $solver.model --kernel rbf --features 64 --gamma 0.1 --lambda 1 --solver $solver; done
    do_ fit ../train.csv --out plotted.model --kernel rbf --features 64 --gamma 0.1 --lambda 1 --holdout 0.2 --plot plot.pdf
    do_ predict searched.model ../train.csv --out predictions.csv --interval 0.9
    do_ explain searched.model ../train.csv --out report.html
    do_ embed ../train.csv --components 2 --save embedding.model --out embedding.csv
    do_ features ../train.csv --features 32 --save map.safetensors --out features.npy
    # shellcheck disable=SC2086
    do_ train --data ../text.txt --out lm --features 8 $lm
    do_ train --data ../labels.tsv --task classify --layers 1 --width 16 --heads 1 --context 32 --steps 4 --out task
    do_ train --model ../net.json --data ../shapes.csv --steps 20 --out net
    # shellcheck disable=SC2086
    do_ train --data ../text.txt --out softmax --attention softmax $lm
    do_ linearize softmax --data ../text.txt --attention dark --features 16 --batch 2 --lora 2 --calibrate-tokens 64 --transfer-steps 2 --steps 2 --out linear
    do_ tokenizer train ../text.txt --vocab 300 --out tokenizer.json
    do_ convert lm --dtype bfloat16 --out half
    rm -rf out err
    cd ..
    mv run $run
done
equal() { # equal ONE OTHER: directories or files, except for logs and empty locks
    diff -rq -x metrics.jsonl -x .lock "$1" "$2" >differences || complain "$1 and $2 are not equal: $(cat differences)"
}
equal a b
[ "$(find a -type f | wc -l)" -ge 40 ] || complain "only $(find a -type f | wc -l) files were written"

# A killed fit of a stream leaves the old file; the next fit writes the bytes of an uninterrupted one.
house 40000 4 >large.csv
options="large.csv --stream --sample 500 --kernel rbf --features 128 --gamma 0.1 --lambda 1 --quiet"
start=$(date +%s%N)
# shellcheck disable=SC2086
succeeds "$BOCHNER" fit $options --out whole.model
took=$((($(date +%s%N) - start) / 1000000))
cp a/stream.model killed.model
kills=0
for share in 30 60 90; do
    # shellcheck disable=SC2086
    "$BOCHNER" fit $options --out killed.model >out 2>err &
    job=$!
    sleep "$(awk -v t=$took -v s=$share 'BEGIN { printf "%.3f", t * s / 100000 }')"
    kill -9 $job 2>/dev/null
    wait $job 2>/dev/null
    [ $? -eq 137 ] || continue
    kills=$((kills + 1))
    cmp -s a/stream.model killed.model || cmp -s whole.model killed.model || complain "kill -9 after $share% of $took ms leaves neither the old nor the new file"
done
[ $kills -ge 1 ] || complain "no fit was killed in $took ms"
# shellcheck disable=SC2086
succeeds "$BOCHNER" fit $options --out killed.model
cmp -s whole.model killed.model || complain "a fit after kill -9 writes other bytes"
ls killed.model.*.part >/dev/null 2>&1 && complain "a temporary file is left: $(ls killed.model.*)"

# A training run stopped by kill -9 and resumed ends with the files of an uninterrupted run.
lm="--data text.txt --layers 2 --width 32 --heads 2 --context 64 --batch 8 --features 32 --steps 400 --checkpoint-every 5 --eval-every 50 --threads 1 --quiet"
# shellcheck disable=SC2086
{
    succeeds "$BOCHNER" train $lm --out whole
    "$BOCHNER" train $lm --out killed >out 2>err &
    job=$!
    for _ in $(seq 600); do
        ls killed/checkpoints/step-??*/training.json >/dev/null 2>&1 && break # the last two stay
        sleep 0.01
    done
    kill -9 $job 2>/dev/null
    wait $job 2>/dev/null
    [ $? -eq 137 ] || complain "the run of training was not killed"
    succeeds "$BOCHNER" train $lm --out killed --resume
}
equal whole killed
# the time of the resumed run includes the time of the last report before the kill
awk '{ sub(/.*"seconds": /, ""); sub(/,.*/, ""); if ($0 + 0 < last) bad++; last = $0 + 0 } END { exit bad > 0 || NR < 3 }' killed/metrics.jsonl ||
    complain "the time of a resumed run starts again: $(sed 's/.*"seconds"/"seconds"/' killed/metrics.jsonl)"

# A linearization that is stopped by kill -9 in the transfer and in the finetuning, and resumed.
few="--attention dark --features 16 --batch 2 --lora 2 --calibrate-tokens 64 --transfer-steps 60 --steps 60 --no-timing --threads 1 --quiet"
# shellcheck disable=SC2086
{
    succeeds "$BOCHNER" linearize a/softmax --data text.txt $few --out linear
    mv linear whole-linear # the adapter names the directory of the transfer
    "$BOCHNER" linearize a/softmax --data text.txt $few --out linear >out 2>err &
}
for stage in transfer finetune; do
    job=$!
    for _ in $(seq 600); do
        grep -qs step linear/$stage/metrics.jsonl && break
        sleep 0.01
    done
    kill -9 $job 2>/dev/null
    wait $job 2>/dev/null
    [ $? -eq 137 ] || complain "the linearization was not killed in the stage $stage"
    [ $stage = finetune ] && break
    "$BOCHNER" linearize --resume --out linear --quiet >out 2>err &
done
succeeds "$BOCHNER" linearize --resume --out linear --quiet
equal whole-linear linear
finish
