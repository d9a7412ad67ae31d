# Every example of the reference runs.
. "$BOCHNER_SOURCE/tests/house/doc_examples.sh"
cd "$EXAMPLE_FILES"
{ # the models of the tutorials, because a reference page is not read from start to end
    bochner train --task classify --data reviews.tsv --out reviews --steps 2
    bochner train --data text.txt --out model --steps 2
    bochner fit train.csv --target price --out price.model
} >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
cd "$BOCHNER_SOURCE"
for name in docs/reference/*.md; do page "$name"; done
finish
