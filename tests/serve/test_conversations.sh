# bochner serve: the tokens of conversations that are continued by state.
exec sh "$BOCHNER_SOURCE/tests/serve/run.sh" conversations
