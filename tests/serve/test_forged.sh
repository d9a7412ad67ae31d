# bochner serve: states that clients made up.
exec sh "$BOCHNER_SOURCE/tests/serve/run.sh" forged
