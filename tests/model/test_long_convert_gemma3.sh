# Gemma 3 270M, converted from its GGUF file (Q4_K_M): the loss of a text is that of transformers 5.23, which reads the file itself
# and gets 3.130126 nats per token, and the model counts on in every storage of its weights.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
[ -s "${GEMMA3:-}" ] || { echo "skipped: Gemma 3 270M could not be downloaded" && exit 77; }
cat >text <<'END'
The old lighthouse stood at the end of the harbor, and every evening its keeper climbed the narrow stairs to light the lamp. He had done so for thirty years, in calm weather and in storms, and he knew each ship by the sound of its horn. One night in October the fog was so thick that he could not see the water below.
END
succeeds "$BOCHNER" convert "$GEMMA3" --out gemma --quiet
succeeds "$BOCHNER" eval gemma --data text --context 512 --json
loss=$(field out loss)
compare "$loss" ">" 3.1299 && compare "$loss" "<" 3.1303 || complain "the loss is $loss nats per token, expected 3.1301"
for storage in float32 bfloat16 int8 int4; do
    succeeds "$BOCHNER" generate gemma --weights $storage --prompt "One, two, three, four, five, six, seven," --greedy --tokens 4 --quiet
    grep -q "eight, nine" out || complain "with weights stored as $storage: '$(cat out)'"
done
finish
