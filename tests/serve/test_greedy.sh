# bochner serve: answers do not depend on what else the server does.
exec sh "$BOCHNER_SOURCE/tests/serve/run.sh" greedy
