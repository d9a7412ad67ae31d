# Every call of each function fails once in each command.
CALLS=all
. "$BOCHNER_SOURCE/tests/faults/commands.sh"
