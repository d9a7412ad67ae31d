# The benchmarks on a GPU run and report every metric; unsupported kinds are reported and skipped.
. "$BOCHNER_SOURCE/tests/cuda/common.sh"
shape="--heads 2 --dim 16 --lengths 32 --features 16 --batch-tokens 64 --repeats 1"
for precision in bfloat16 float32; do
    succeeds "$BOCHNER" bench attention --device cuda $shape --kinds softmax,rfa-gate --precision $precision
    for line in 'copy on the device' 'matrix product on the device' 'softmax, 32 tokens, forward' 'softmax, 32 tokens, forward + backward' \
        'rfa-gate, 16 features, 32 tokens, forward' 'rfa-gate, 16 features, 32 tokens, forward + backward'; do
        grep -q "^$line " out || complain "bench attention, $precision, has no line '$line': $(cat out)"
    done
done
succeeds "$BOCHNER" bench attention --device cuda $shape --kinds ridge,rfa --json
grep -q 'ridge is not supported' err || complain "ridge attention is not refused: $(cat err)"
grep -q '"rfa, 16 features, 32 tokens, forward + backward"' out || complain "no kind is measured after one that is refused: $(cat out)"
succeeds "$BOCHNER" bench attention --device cuda --grid --heads 1 --repeats 1 --kinds linear
grep -q '^linear, 256 and 256 dimensions, forward + backward .* times the first cell' out || complain "the grid has no last cell: $(cat out)"
grep -q '^linear, cells beyond the limit' out || complain "the grid has no number of slow cells: $(cat out)"
fails 1 "no attention 'softmx'" "$BOCHNER" bench attention --device cuda $shape --kinds softmx

model="--layers 1 --width 32 --heads 2 --vocab 256 --repeats 1"
succeeds "$BOCHNER" bench train --device cuda $model --context 16 --batch 2 --kinds softmax,rfa-gate
for kind in softmax rfa-gate; do
    grep -q "^$kind, training step, 2 x 16 tokens .* tokens/s" out || complain "bench train has no line for $kind: $(cat out)"
done
succeeds "$BOCHNER" bench decode --device cuda $model --sequences 2 --lengths 4,8 --kinds softmax,rfa-gate
for kind in softmax rfa-gate; do
    grep -q "^$kind, decode 2 sequences after 8 tokens .* tokens/s" out || complain "bench decode has no line for $kind: $(cat out)"
done

succeeds "$BOCHNER" bench machines --device cuda --rows 1200 --columns 4 --features 32 --repeats 1
for precision in int8 float32 float64; do
    grep -q "^fit of 1200 x 4, R = 32, $precision .* sums .* solution" out || complain "bench machines has no line for $precision: $(cat out)"
done
finish
