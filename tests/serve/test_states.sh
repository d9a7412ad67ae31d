# bochner serve: states that are created, downloaded, uploaded, continued and refused.
exec sh "$BOCHNER_SOURCE/tests/serve/run.sh" states
