# Data in one file, in many files, and in one more file than the program stores.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
mkdir files
awk 'BEGIN { for (i = 1; i <= 1025; i++) { name = sprintf("files/%04d.txt", i); print "the cat number " i " sleeps." >name; close(name) } }'
tiny="--attention softmax --layers 1 --width 8 --heads 1 --context 16 --batch 1 --steps 2 --checkpoint-every 1 --valid-fraction 0 --quiet"

# files COUNT: the first files
files() { ls files/* | head -n "$1"; }
for count in 1 65 1024; do
    succeeds "$BOCHNER" train $tiny --out run-$count --data $(files $count)
    cp run-$count/model.safetensors before
    rm -r run-$count/checkpoints/step-2
    succeeds "$BOCHNER" train --resume --out run-$count --quiet
    cmp -s before run-$count/model.safetensors || complain "$count files: a resumed run differs"
done
many=$(files 1024 | sed 's/^/--data /')
succeeds "$BOCHNER" eval run-1024 $many --quiet
small="--attention dark --features 8 --lora 2 --calibrate-tokens 32 --transfer-steps 1 --steps 1 --no-timing --batch 1 --quiet"
succeeds "$BOCHNER" linearize run-1 --out linear $small --eval-tokens 64 --data $(files 1024)

# One more file is read as an argument, but not stored.
succeeds "$BOCHNER" train $tiny --out run-1025 --data $(files 1025)
rm -r run-1025/checkpoints/step-2
fails 2 "does not name the training data; give --data FILE" "$BOCHNER" train --resume --out run-1025 --quiet
succeeds "$BOCHNER" train --resume --out run-1025 --data $(files 1025) --quiet
fails 2 "at most 1024 values|files/1025.txt" "$BOCHNER" eval run-1024 $many --data files/1025.txt --quiet
fails 2 "expected at most 1024 data files" "$BOCHNER" linearize run-1 --out never $small --data $(files 1025)
[ -e never ] && complain "something was written: $(find never)"
finish
