# Every example of the guides runs.
. "$BOCHNER_SOURCE/tests/house/doc_examples.sh"
cd "$BOCHNER_SOURCE"
for name in docs/guides/*.md; do page "$name"; done
finish
