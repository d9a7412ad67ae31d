# Some calls of each function fail in a few commands. faults.long_every tries all.
CALLS=1
. "$BOCHNER_SOURCE/tests/faults/commands.sh"
