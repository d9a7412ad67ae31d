# mpirun bochner train --device cuda: every rank uses a GPU (with one GPU, or the emulator, all use the same), and the
# losses are those of one rank.
. "$BOCHNER_SOURCE/tests/cuda/common.sh"
[ -n "$MPIEXEC" ] || { echo "MPI was not found"; exit 77; }
. "$BOCHNER_SOURCE/tests/cli/ranks.sh"
tiny="$tiny --lr 0.02 --other-lr 0.003"
succeeds "$BOCHNER" train --data text.txt --out one $tiny $features $run --device cuda --precision float32
for device in cuda auto; do
    rm -rf two
    succeeds ranks 2 "$BOCHNER" train --data text.txt --out two $tiny $features $run --device $device --precision float32 --threads 1
    [ "$(field out device)" = cuda:0 ] || complain "$device: the device is $(field out device)"
    same_curve one two 0.002
done
finish
