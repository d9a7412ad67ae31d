# Links between the pages of the documentation name files and sections that exist. Code is in fences that name its kind, so that
# the tests house.doc_* find the examples.
set -eu
LC_ALL=C
export LC_ALL
cd "$BOCHNER_SOURCE"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
complain() {
    echo "$*" >&2
    failed=1
}

# anchors PAGE: what a link to a section of the page may have after #, as GitHub makes it from the headings.
anchors() {
    awk '/^ *```/ { code = !code } code { next }
        /^#+ / {
            sub(/^#+ +/, ""); sub(/ +#*$/, ""); gsub(/\]\([^)]*\)/, ""); $0 = tolower($0)
            gsub(/\342\200[\200-\277]|\342\206[\200-\277]|\302[\200-\277]|\303\227/, "") # dashes, quotes, arrows, signs
            gsub(/[^a-z0-9_ \200-\377-]/, ""); gsub(/ /, "-")
            print seen[$0]++ ? $0 "-" seen[$0] - 1 : $0
        }
        { while (match($0, /(id|name)="[^"]*"/)) { a = substr($0, RSTART, RLENGTH); gsub(/^[a-z]*="|"$/, "", a); print a; $0 = substr($0, RSTART + RLENGTH) } }' "$1"
}

# links PAGE: line number and target of every link and picture outside of code.
links() {
    awk '/^ *```/ { code = !code } code { next }
        { gsub(/`[^`]*`/, "") }
        { line = $0; while (match(line, /\]\([^) ]*/)) { print NR, substr(line, RSTART + 2, RLENGTH - 2); line = substr(line, RSTART + RLENGTH) } }
        { line = $0; while (match(line, /(src|href)="[^"]*/)) { a = substr(line, RSTART, RLENGTH); sub(/^[a-z]*="/, "", a); print NR, a; line = substr(line, RSTART + RLENGTH) } }
        /^\[[^]]*\]: / { print NR, $2 }' "$1" | grep -v ' [a-z]*:' || :
}

for page in *.md docs/*.md docs/*/*.md examples/*.md; do
    [ -e "$page" ] || continue
    directory=$(dirname "$page")
    links "$page" >"$work/links"
    while read -r line link; do
        target=${link%%#*}
        if [ -z "$target" ]; then target=$page; else target=$directory/$target; fi
        [ -e "$target" ] || { complain "$page:$line: there is no file $link"; continue; }
        case $link in
        *.md#* | "#"*)
            anchors "$target" >"$work/anchors"
            grep -qxF -e "${link#*#}" "$work/anchors" || complain "$page:$line: $target has no section #${link#*#}"
            ;;
        esac
    done <"$work/links"
    awk -v page="$page" '
        /^ *```/ { code = !code; if (code && $0 !~ /^ *```(sh|text|c|cpp|cmake|json|python|math|mermaid)$/) { print page ":" NR ": a block of code of no known kind: " $0; bad = 1 } start = NR }
        !code && /^    [^ ]/ && blank && !list { print page ":" NR ": code belongs in a fence: " $0; bad = 1 }
        { if (/^[^ ]/) list = /^([-*]|[0-9]+\.) /; blank = !NF }
        END { if (code) { print page ":" start ": this block of code does not end"; bad = 1 } exit bad }' "$page" >&2 || failed=1
done
exit $failed
