# bochner serve: conversations, embeddings, tokens, models and errors.
exec sh "$BOCHNER_SOURCE/tests/serve/run.sh" interface
