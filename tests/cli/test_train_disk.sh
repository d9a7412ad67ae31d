# The disk is full while a checkpoint is written: this is reported, and the previous checkpoint remains and can be
# resumed.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
mkdir small
[ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=1400k none small 2>/dev/null || exit 77
trap 'umount "$work/small"; rm -rf "$work"' EXIT
awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); split("sleeps,eats,runs away", d, ",");
    for (i = 0; i < 1500; i++) { k = 1 + int(4 * rand()); print "the " a[k] " " d[1 + k % 3] "." } }' >text.txt
options="--data text.txt --layers 2 --width 32 --heads 2 --context 32 --batch 4 --features 16 --steps 60 --eval-every 10
    --eval-tokens 400 --threads 1 --quiet"
succeeds "$BOCHNER" train $options --out whole

# Space for the first checkpoint and a part of the second.
"$BOCHNER" train $options --keep 9 --out small/run >out 2>err
status=$?
[ $status -eq 1 ] || complain "exit status $status on a full disk: $(cat err)"
grep -q "No space left" err || complain "a full disk is not named: $(cat err)"
grep -q "last good checkpoint is small/run/checkpoints/step-" err || complain "the checkpoint that stays is not named: $(cat err)"
ls small/run/checkpoints | grep -q part && complain "a part of a checkpoint stays: $(ls small/run/checkpoints)"
ls small/run/checkpoints | grep -q "^step-" || complain "no checkpoint stays"

# With more space the run resumes and gives the same model.
mount -o remount,size=64m small
succeeds "$BOCHNER" train --resume --out small/run --quiet
cmp -s whole/model.safetensors small/run/model.safetensors || complain "another model after a full disk"
finish
