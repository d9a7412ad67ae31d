# Texts from standard input or a pipe, which can be read only once, for commands that read them more than once.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); for (i = 0; i < 800; i++) print "the " a[1 + int(4 * rand())] " eats." }' >text.txt
gzip -c text.txt >text.gz
small="--layers 1 --width 16 --heads 2 --context 32 --batch 4 --steps 3 --features 16 --quiet"
mkfifo pipe

# The last tenth is held out, and a tokenizer is trained, as with a file.
for more in "" "--vocab 280"; do
    rm -rf file piped named packed
    succeeds "$BOCHNER" train --data text.txt --out file $small $more
    "$BOCHNER" train --data - --out piped $small $more <text.txt >out 2>err || complain "standard input: $(cat err)"
    cat text.txt >pipe &
    succeeds "$BOCHNER" train --data pipe --out named $small $more
    "$BOCHNER" train --data - --out packed $small $more <text.gz >out 2>err || complain "packed: $(cat err)"
    for other in piped named packed; do
        cmp -s file/model.safetensors $other/model.safetensors || complain "$more: $other is not as from a file"
    done
done

succeeds "$BOCHNER" tokenizer train text.txt --vocab 280 --out file.json
for input in - /dev/stdin; do
    cat text.txt | "$BOCHNER" tokenizer train $input --vocab 280 --out piped.json >out 2>err || complain "$input: $(cat err)"
    cmp -s file.json piped.json || complain "$input: another tokenizer"
done

: >nothing
"$BOCHNER" train --data - --out none $small <nothing >out 2>err && complain "nothing was learned from"
grep -q "standard input: contains no text" err || complain "an empty input: $(cat err)"

# The copy is a file in TMPDIR; a device is not copied.
for command in "train --data - --out none $small" "tokenizer train - --vocab 280 --out none.json"; do
    cat text.txt | TMPDIR=$PWD/missing "$BOCHNER" $command >out 2>err && complain "$command: TMPDIR was ignored"
    grep -q "standard input: cannot create a temporary file for it in $PWD/missing" err || complain "TMPDIR: $(cat err)"
    timeout 20 "$BOCHNER" $command </dev/zero >out 2>err && complain "$command: a device was copied"
    grep -q "standard input: not a regular file or a pipe (it is a device)" err || complain "a device: $(cat err)"
    # waiting for a pipe without a writer ends with Ctrl-C
    attended "$BOCHNER" $(echo "$command" | sed 's/ - / pipe /') >out 2>err &
    job=$!
    sleep 1
    kill -INT $job
    wait $job
    status=$?
    [ $status -eq 130 ] || complain "$command: exit status $status after Ctrl-C"
    grep -q "stopped on request" err || complain "$command: no message after Ctrl-C: $(cat err)"
done
finish
