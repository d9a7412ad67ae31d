# Every example of the pages of explanation and results runs.
. "$BOCHNER_SOURCE/tests/house/doc_examples.sh"
cd "$BOCHNER_SOURCE"
for name in docs/explanation/*.md docs/results/*.md docs/*.md; do page "$name"; done
finish
