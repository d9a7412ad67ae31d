# Every experiment with random features and attention except the slow ones, one quick seed.
. "$BOCHNER_SOURCE/tests/lab/experiments.sh"
experiments "Random features and attention" 1 1
finish
