# bochner serve: requests as known clients send them.
exec sh "$BOCHNER_SOURCE/tests/serve/run.sh" recorded
