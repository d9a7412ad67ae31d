# bochner serve: every path and member of docs/reference/http.md.
exec sh "$BOCHNER_SOURCE/tests/serve/run.sh" interface
