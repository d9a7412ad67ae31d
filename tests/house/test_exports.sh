# What libbochner.so exports is the committed list tests/house/exports.txt: a function that joins or leaves the public API
# shows in a diff. `make exports` refreshes the list.
set -eu
library=$BOCHNER_BUILD/libbochner.so
list=$BOCHNER_SOURCE/tests/house/exports.txt
[ -z "${SANITIZE:-}" ] || exit 77 # sanitizers export names of their own
exported=$(mktemp)
trap 'rm -f "$exported"' EXIT
nm -D --defined-only "$library" | awk '{ print $3 }' | LC_ALL=C sort >"$exported"
if [ "${1:-}" = --refresh ]; then cp "$exported" "$list"; fi
diff -u "$list" "$exported" || { echo "the exported names changed (above, + is new): run \`make exports\` if that is meant" >&2; exit 1; }
echo "$(wc -l <"$list") exported names"
