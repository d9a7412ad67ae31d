# Checks docs/reference/dependencies.md against the built library, programs and plugin: the first table lists exactly the
# linked libraries, every linked license is permissive (or the LGPL, of the C library and libmicrohttpd), and every package of cmake/packages.txt is named. First checks
# that faults are detected, on tables with planted faults.
set -eu
[ -z "${SANITIZE:-}" ] || { echo "sanitizers link libraries of their own"; exit 77; }
page=$BOCHNER_SOURCE/docs/reference/dependencies.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The names of linked libraries without their versions, "where name" on each line. A linked archive is recognized by its
# symbols.
linked() { # where file
    objdump -p "$2" | awk -v where="$1" '$1 == "NEEDED" { sub(/\.so.*/, ".so", $2); print where, $2 }'
    if nm "$2" | grep -q ' libxsmm_'; then echo "$1 libxsmm.a"; fi
}
{
    linked library "$BOCHNER_BUILD/libbochner.so"
    for program in "$BOCHNER" "$BOCHNER-lab" "$BOCHNER-bench"; do linked program "$program"; done
} >"$work/linked"
[ -z "$MPIEXEC" ] || linked plugin "$BOCHNER_BUILD/bochner-mpi.so" >>"$work/linked"
# The optional parts of this build: their names in BOCHNER_HAVE_<name>.
grep -o 'BOCHNER_HAVE_[A-Z]*' "$BOCHNER_BUILD/compile_commands.json" | sed 's/BOCHNER_HAVE_//' | sort -u >"$work/have"

check() { # page
    awk -F ' *[|] *' -v linked="$work/linked" -v have="$work/have" '
        function complain(text) { print text; failed = 1 }
        # Whether the name of a library matches a name of the table, in which * matches any text.
        function fits(name, pattern) { gsub(/\./, "[.]", pattern); gsub(/\*/, ".*", pattern); return name ~ "^" pattern "$" }
        function permissive(row, i, n, terms) {
            n = split(license[row], terms, " AND ")
            for (i = 1; i <= n; i++) {
                sub(/ WITH .*/, "", terms[i])
                if (terms[i] !~ /^(Apache-2\.0|BSD-2-Clause|BSD-3-Clause|ISC|MIT|Unicode-DFS-2015|Zlib)$/) return 0
            }
            return 1
        }
        BEGIN {
            while ((getline line <have) > 0) built[line] = 1
            while ((getline line <linked) > 0) { split(line, word, " "); links[++count] = word[2]; at[count] = word[1] }
        }
        $2 == "dependency" && $3 == "linked as" { table = 1; next }
        !/^[|]/ { table = 0 }
        table && $2 !~ /^-+$/ {
            name[++rows] = $2; files[rows] = $3; place[rows] = $4; need[rows] = $5; license[rows] = $6
        }
        END {
            if (!rows || !count) complain("no table, or nothing linked")
            for (row = 1; row <= rows; row++) {
                if (place[row] !~ /^(library|program|plugin)$/) complain(name[row] ": place " place[row])
                if (!permissive(row) && !(license[row] == "LGPL-2.1-or-later" && (name[row] == "GNU C library" ||
                    name[row] == "its loader and threads" || name[row] == "libmicrohttpd"))) complain(name[row] ": license " license[row])
                option = need[row]
                if (!sub(/^optional: /, "", option)) option = ""
                if (need[row] != "required" && need[row] != "system" && !option) complain(name[row] ": need " need[row])
                if (files[row] == "headers") continue
                wanted = need[row] == "required" || option in built
                n = split(files[row], file, /[` ]+/)
                for (i = 1; i <= n; i++) {
                    if (!file[i]) continue
                    in_library = in_program = in_plugin = 0
                    for (l = 1; l <= count; l++) {
                        if (!fits(links[l], file[i])) continue
                        listed[l] = 1
                        if (at[l] == "library") in_library = 1; else if (at[l] == "program") in_program = 1; else in_plugin = 1
                    }
                    if (in_library && place[row] != "library") complain("libbochner.so links " file[i] ", which is for the " place[row])
                    if (in_program && place[row] == "plugin") complain("bochner links " file[i] ", which is for the plugin")
                    if (wanted && place[row] == "plugin" && !in_plugin) complain("bochner-mpi.so does not link " file[i])
                    if (wanted && place[row] != "plugin" && !in_program) complain("bochner does not link " file[i])
                    if (wanted && place[row] == "library" && !in_library) complain("libbochner.so does not link " file[i])
                    if (option && !wanted && in_program) complain("bochner links " file[i] ", which this build is without")
                }
            }
            for (l = 1; l <= count; l++) if (!listed[l]) complain(at[l] " links " links[l] ", which is not in the table")
            exit failed
        }' "$1"
}

notices() { # words, sed script: a page changed by the script must be rejected with these words
    sed "$2" "$page" >"$work/page"
    cmp -s "$page" "$work/page" && { echo "a planted fault changes nothing: $2" >&2; exit 1; }
    check "$work/page" >"$work/out" && { echo "not noticed: $2" >&2; exit 1; }
    grep -q "$1" "$work/out" || { echo "$2: expected '$1', found:" >&2; cat "$work/out" >&2; exit 1; }
}
notices 'links libutf8proc.so, which is not in the table' '/^| utf8proc/d'
notices 'does not link libfftw3.so' 's/^| utf8proc.*/&\n| FFTW | `libfftw3.so` | library | required | MIT | |/'
notices 'FFTW: license GPL-2.0-or-later' 's/^| utf8proc.*/&\n| FFTW | headers | library | required | GPL-2.0-or-later | |/'
notices 'zlib: license LGPL-2.1-or-later' '/^| zlib/s/Zlib |/LGPL-2.1-or-later |/'
notices 'links libz.so, which is for the program' '/^| zlib/s/library/program/'
notices 'bochner links libz.so, which is for the plugin' '/^| zlib/s/library/plugin/'
[ -z "$MPIEXEC" ] || notices 'bochner does not link libmpi.so' '/^| Open MPI/s/plugin/program/'
[ -z "$MPIEXEC" ] || notices 'plugin links libmpi.so, which is not in the table' '/^| Open MPI/d'

check "$page" || { echo "docs/reference/dependencies.md: see above" >&2; exit 1; }
sed '/^#/d; s/ .*//; /^$/d' "$BOCHNER_SOURCE/cmake/packages.txt" | sort -u | while read -r package; do
    grep -q "\`$package\`" "$page" || { echo "docs/reference/dependencies.md does not name the package $package" >&2; exit 1; }
done
