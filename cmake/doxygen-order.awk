# Puts the sections of a page of Doxygen in the order of its header: awk -f doxygen-order.awk HEADER PAGE
#
# HEADER is the output of doxygen.awk. The page is written to standard output.

# A section of the header: "/** @name TITLE */".
FNR == NR {
    if (match($0, /\/\*\* @name .* \*\/ \/\*\* @\{ \*\/$/)) {
        title = substr($0, RSTART + 10)
        sub(/ \*\/ \/\*\* @\{ \*\/$/, "", title)
        order[++count] = title
        known[title] = 1
    }
    next
}

{ page = page $0 "\n" }

END {
    table = "<table class=\"memberdecls\">"
    tables = split(page, part, table)
    printf "%s", part[1]
    for (i = 2; i <= tables; i++) {
        title = part[i]
        sub(/^[^\n]*\n?[^\n]*<h2 class="groupheader">/, "", title)
        sub(/<\/h2>.*/, "", title)
        if (!(title in known)) { # data structures, macros
            printf "%s%s", table, part[i]
            continue
        }
        stop = index(part[i], "</table>") + length("</table>")
        section[title] = table substr(part[i], 1, stop - 1)
        rest = rest substr(part[i], stop) # the text after the last section
    }
    for (i = 1; i <= count; i++) printf "%s", section[order[i]]
    printf "%s", rest
}
