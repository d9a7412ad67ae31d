# bochner serve: states and the cache survive the end of the server.
exec sh "$BOCHNER_SOURCE/tests/serve/run.sh" restart
