# bochner serve: the memory of slots.
exec sh "$BOCHNER_SOURCE/tests/serve/run.sh" memory
