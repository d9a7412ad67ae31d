# bochner train --device cuda: the losses of the CPU, checkpoints that are resumed on the other device, and rejected options.
. "$BOCHNER_SOURCE/tests/cuda/common.sh"
tiny="$tiny --lr 0.02 --other-lr 0.003" # larger rates amplify differences of rounding

# In float32 the losses are those of the CPU up to rounding; in bfloat16, the default on a GPU, roughly.
succeeds "$BOCHNER" train --data text.txt --out cpu $tiny $features $run
[ "$(field out device)" = cpu ] || complain "the device is $(field out device)"
succeeds "$BOCHNER" train --data text.txt --out gpu $tiny $features $run --device cuda --precision float32
[ "$(field out device)" = cuda:0 ] || complain "the device is $(field out device)"
[ "$(field out precision)" = float32 ] || complain "the precision is $(field out precision)"
same_curve cpu gpu 0.002
succeeds "$BOCHNER" train --data text.txt --out rounded $tiny $features $run --device auto
[ "$(field out device) $(field out precision)" = "cuda:0 bfloat16" ] ||
    complain "auto is $(field out device), $(field out precision)"
same_curve cpu rounded 0.1

# Repeated and resumed runs are bitwise equal.
succeeds "$BOCHNER" train --data text.txt --out again $tiny $features $run --device cuda --precision float32
cmp gpu/model.safetensors again/model.safetensors || complain "two runs on the device differ"
rm -r again/checkpoints/step-12
succeeds "$BOCHNER" train --resume --out again --quiet --json
[ "$(field out device)" = cuda:0 ] || complain "a resumed run is on $(field out device)"
cmp gpu/model.safetensors again/model.safetensors || complain "a resumed run differs"

# The second half on the other device, in both directions. The precision comes from the run, not from the device.
for from in cpu gpu; do
    [ $from = cpu ] && to=cuda:0 || to=cpu
    cp -r $from crossed-$from
    rm -r crossed-$from/checkpoints/step-12
    succeeds "$BOCHNER" train --resume --out crossed-$from --device $to --quiet --json
    [ "$(field out device) $(field out precision)" = "$to float32" ] ||
        complain "resumed on $to: $(field out device), $(field out precision)"
    same_curve cpu crossed-$from 0.002
done
cp -r rounded crossed-rounded
rm -r crossed-rounded/checkpoints/step-12
succeeds "$BOCHNER" train --resume --out crossed-rounded --device cpu --quiet --json
[ "$(field out device) $(field out precision)" = "cpu bfloat16" ] ||
    complain "a run in bfloat16 resumed on the CPU: $(field out device), $(field out precision)"
same_curve cpu crossed-rounded 0.1

# Other optimizers and options.
for options in "$features --optim sgd --lr 0.1" "$features --optim sign --lr 0.001" "$features --optim adamw --lr 0.01 --average 0.9 --micro-batch 1" \
    "$features --checkpointing --dropout 0.1" "$features --documents --separator ." "--attention softmax --positions learned --mlp swiglu"; do
    rm -rf one two
    succeeds "$BOCHNER" train --data text.txt --out one $tiny $run $options
    succeeds "$BOCHNER" train --data text.txt --out two $tiny $run $options --device cuda --precision float32
    same_curve one two 0.005
done

# Rejected options.
fails 1 "stateful|train on the CPU" "$BOCHNER" train --data text.txt --out no $tiny $features $run --stateful --device cuda
fails 1 "cuda:9 does not exist" "$BOCHNER" train --data text.txt --out no $tiny $features $run --device cuda:9
fails 1 "device gpu is unknown" "$BOCHNER" train --data text.txt --out no $tiny $features $run --device gpu
BOCHNER_CUDA=$work/absent.so fails 1 "absent.so does not exist" "$BOCHNER" train --data text.txt --out no $tiny $features $run --device cuda
[ -e no ] && complain "a refused run left a directory"
finish
