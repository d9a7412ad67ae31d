# Every example of the tutorials, the README and the other pages runs.
. "$BOCHNER_SOURCE/tests/house/doc_examples.sh"
cd "$BOCHNER_SOURCE"
for name in *.md docs/tutorials/*.md examples/*.md; do page "$name"; done
finish
