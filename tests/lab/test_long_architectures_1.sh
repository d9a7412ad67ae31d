# Every second experiment about architectures, one quick seed.
. "$BOCHNER_SOURCE/tests/lab/experiments.sh"
experiments Architectures 1 2
finish
