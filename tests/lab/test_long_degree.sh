# Every experiment about degree and separation rank, one quick seed.
. "$BOCHNER_SOURCE/tests/lab/experiments.sh"
experiments "Degree and separation rank" 1 1
finish
