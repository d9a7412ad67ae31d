# bochner serve with real weights: the tokens of conversations that are continued by state.
[ -f "$SMOLLM2" ] || { echo "skipped: $SMOLLM2 is not there" && exit 77; }
exec sh "$BOCHNER_SOURCE/tests/serve/run.sh" conversations_smollm2
