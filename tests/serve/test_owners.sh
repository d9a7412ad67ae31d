# bochner serve: the states of different keys.
exec sh "$BOCHNER_SOURCE/tests/serve/run.sh" owners
