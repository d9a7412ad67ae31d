# bench layers: every layer runs; bad options are refused.
[ -z "${SANITIZE:-}" ] || exit 77 # the references are long loops over matrices
. "$BOCHNER_SOURCE/tests/cli/common.sh"

succeeds "$BOCHNER" bench layers --json --gemm 256 --repeats 1 --peers nowhere
for layer in linear features-sincos features-relu degree-3 ssm conv-28x28x32 conv-14x14x64 conv-tokens conv-depthwise \
    pool-max batch-norm rnn gru lstm lstm-512 graph-mean; do
    grep -q "\"$layer, forward and backward\"" out || complain "no metric of $layer"
done
[ "$(grep -c "no comparison with PyTorch" err)" = 1 ] || complain "not exactly one message about the missing peer: $(cat err)"
fails 2 "no part 'lsm'|did you mean ssm" "$BOCHNER" bench layers --only lsm
fails 2 "options only|now" "$BOCHNER" bench layers now
succeeds "$BOCHNER" bench layers --help
finish
