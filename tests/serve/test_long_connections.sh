# bochner serve: 10,000 connections in sequence.
exec sh "$BOCHNER_SOURCE/tests/serve/run.sh" long_connections
