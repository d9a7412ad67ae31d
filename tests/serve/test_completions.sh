# bochner serve: completions and their streams.
exec sh "$BOCHNER_SOURCE/tests/serve/run.sh" completions
