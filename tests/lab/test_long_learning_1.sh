# Every second experiment about learning theory, one quick seed.
. "$BOCHNER_SOURCE/tests/lab/experiments.sh"
experiments "Learning theory" 1 2
finish
