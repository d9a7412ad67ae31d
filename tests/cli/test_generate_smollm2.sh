# Real weights of 30 layers from a GGUF file (Q4_1): converted, and a few tokens of which the model is certain.
[ -s "$SMOLLM2" ] || { echo "skipped: no weights at $SMOLLM2 (scripts/models)"; exit 77; }
. "$BOCHNER_SOURCE/tests/cli/common.sh"
succeeds "$BOCHNER" convert "$SMOLLM2" --out model --quiet
succeeds "$BOCHNER" generate model --weights int8 --prompt "One, two, three, four, five, six, seven," --greedy --tokens 4 --quiet
grep -q '^ eight, nine,' out || complain "found: $(cat out)"
finish
