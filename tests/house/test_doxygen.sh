# Doxygen reads the public headers without a warning: every function, parameter, struct member and enumerator is documented.
set -eu
command -v doxygen >/dev/null || { echo "skipped: doxygen is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$BOCHNER_SOURCE/scripts/docs" "$work"
[ -s "$work/html/index.html" ] || { echo "doxygen wrote no index.html" >&2; exit 1; }

# The page of a header starts with its description and has the tiers in the order of the header.
tiers=$(grep -o 'class="groupheader">.*</h2>' "$work/html/base_8h.html" | grep -oE 'Overview|Simple|Advanced|Experimental' | uniq | tr '\n' ' ')
[ "$tiers" = "Overview Simple Advanced Experimental " ] || { echo "base.h: sections in another order: $tiers" >&2; exit 1; }
