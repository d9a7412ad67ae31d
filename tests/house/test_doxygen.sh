# Doxygen reads the public headers without a warning: every function, parameter, struct member and enumerator is documented.
set -eu
command -v doxygen >/dev/null || { echo "skipped: doxygen is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$BOCHNER_SOURCE/scripts/docs" "$work"
[ -s "$work/html/index.html" ] || { echo "doxygen wrote no index.html" >&2; exit 1; }
