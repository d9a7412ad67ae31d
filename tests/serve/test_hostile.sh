# bochner serve: clients that are slow, broken or malicious.
exec sh "$BOCHNER_SOURCE/tests/serve/run.sh" hostile
