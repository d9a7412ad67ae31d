# Runs the examples of pages of the documentation: `. doc_examples.sh`, then `page NAME` for each, then `finish`.
#
#   ```sh blocks   run in page order, in one directory per page that holds the files of fixtures/docs/files.sh. The programs of
#                  fixtures/docs/bin lower budgets. A command that fails is reported with page and line.
#   ```c blocks    that are whole programs are compiled and run after the commands of the page, in the same directory.
#   <!-- fails: REASON --> before an sh block: each of its lines is a command that must fail.
#   <!-- not run: REASON --> before a block exempts it. The options of its bochner commands must still exist.
set -eu
docs=$BOCHNER_SOURCE/tests/house/fixtures/docs
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
export EXAMPLE_FILES="$work/files" HOME="$work/home"
PATH=$docs/bin:$PATH
mkdir "$HOME" "$EXAMPLE_FILES"
if [ -n "${SANITIZE:-}" ]; then # programs that link the library need its sanitizers
    mkdir "$work/bin"
    printf '#!/bin/sh\nexec "%s" -fsanitize=%s "$@"\n' "$(command -v "$CC")" "$SANITIZE" >"$work/bin/cc"
    chmod +x "$work/bin/cc"
    PATH=$work/bin:$PATH CC=$work/bin/cc
    export CC
fi
(cd "$EXAMPLE_FILES" && sh "$docs/files.sh") || { echo "the files of the examples could not be made" >&2; exit 1; }

# split_page NAME: commands to run in $work/commands, commands that are not run in $work/exempt, both at their line numbers;
# whole C programs in $work/program-LINE.c.
split_page() {
    rm -f "$work"/program-*
    awk -v page="$1" -v work="$work" '
        function put(command, exempt) { print command > (work "/commands"); print exempt > (work "/exempt") }
        /^<!-- not run: / { skip = 1 }
        /^<!-- fails: / { fails = 1 }
        /^ *```/ {
            inside = !inside
            if (inside) { kind = skip ? "exempt" : $1; sh = $1 == "```sh"; wrong = fails; skip = fails = 0; program = ""; first = NR }
            else if (kind == "```c" && program ~ /int main\(/) printf "#line %d \"%s\"\n%s", first + 1, page, program > (work "/program-" first ".c")
            put("", ""); next
        }
        inside && sh { if (kind == "exempt") put("", $0); else put(wrong ? "if " $0 "; then echo this should fail; false; fi" : $0, ""); next }
        inside { program = program $0 "\n" }
        !inside && NF && !/^<!--/ { skip = fails = 0 }
        { put("", "") }' "$BOCHNER_SOURCE/$1"
}

# check_options PAGE: commands that are not run have options of the help.
check_options() {
    awk '/\\$/ { sub(/\\$/, ""); line = line $0; next } { print line $0; line = "" }' "$work/exempt" |
        sed -n 's/ #.*//; s/.*bochner \([a-z]\)/\1/p' >"$work/unrun"
    while read -r command rest; do
        case $command in
        bench | mup | lab | lora | tokenizer) command="$command ${rest%% *}" ;;
        esac
        # shellcheck disable=SC2086
        { "$BOCHNER" $command --help-all || "$BOCHNER" $command --help; } >"$work/help" 2>/dev/null ||
            { echo "$1: there is no command bochner $command" >&2; failed=1; continue; }
        for option in $(echo "$rest" | grep -o -e '--[a-z][a-z0-9-]*'); do
            grep -q -e "^ *$option\b" "$work/help" || { echo "$1: bochner $command has no option $option" >&2; failed=1; }
        done
    done <"$work/unrun"
}

# run_programs PAGE: whole C programs compile without warnings and succeed.
run_programs() {
    for program in "$work"/program-*.c; do
        [ -e "$program" ] || continue
        line=${program##*-}
        sed -i 's/\.steps = [0-9]*/.steps = 2/' "$program"
        # shellcheck disable=SC2086
        "$CC" -std=c11 -Wall -Wextra -Werror ${SANITIZE:+-fsanitize=$SANITIZE} -I"$BOCHNER_SOURCE/include" "$program" -L"$BOCHNER_BUILD" \
            -lbochner -lm -Wl,-rpath,"$BOCHNER_BUILD" -o "$work/program" || { failed=1; continue; }
        # Short programs may leave memory to the end of the process.
        ASAN_OPTIONS=detect_leaks=0 "$work/program" >"$work/log" 2>&1 <"$EXAMPLE_FILES/new.txt" || {
            echo "$1:${line%.c}: the program fails:" >&2
            tail -n 12 "$work/log" | sed 's/^/    /' >&2
            failed=1
        }
    done
}

# page NAME: runs the examples of the page.
page() {
    [ -e "$BOCHNER_SOURCE/$1" ] || return 0 # a pattern without a match
    split_page "$1"
    directory=$work/page
    mkdir "$directory" "$directory/build" "$directory/scripts"
    cp -r "$EXAMPLE_FILES/." "$BOCHNER_SOURCE/examples" "$BOCHNER_SOURCE/README.md" "$BOCHNER_SOURCE/examples/quickstart/main.c" "$directory"
    ln -s "$docs/bin/bochner" "$directory/build/bochner"
    for script in "$BOCHNER_SOURCE"/scripts/*; do ln -s "$docs/bin/script" "$directory/scripts/${script##*/}"; done
    cd "$directory"
    check_options "$1"
    if grep -q pkg-config "$work/commands"; then
        [ -e "$HOME/.local" ] || make install PREFIX="$HOME/.local" >"$work/log" || { cat "$work/log" >&2; exit 1; }
        library=$(dirname "$(find "$HOME/.local" -name pkgconfig)")
        export PKG_CONFIG_PATH="$library/pkgconfig" LD_LIBRARY_PATH="$library"
    fi
    if grep -q '[^ ]' "$work/commands"; then
        cat >"$work/broken" <<END
broken() { # broken STATUS LINE: the examples end at a command that fails, unless it wrote to a pipe that was closed
    [ "\$1" -eq 141 ] && return
    echo "$1:\$2: this command failed"
    exit 1
}
END
        # Commands keep their line numbers, so that the shell reports the line numbers of the page.
        sed "1s|^|set -Eo pipefail; trap 'broken \$? \$LINENO' ERR;|; s|/usr/share/datasets/[a-z-]*|.|g; s/i < [0-9]*000\b/i < 300/g" "$work/commands" >"$work/run"
        BASH_ENV=$work/broken bash "$work/run" >"$work/log" 2>&1 </dev/null || {
            echo "$1: an example fails:" >&2
            tail -n 15 "$work/log" | sed 's/^/    /' >&2
            failed=1
        }
        echo "$1: $(grep -c '[^ ]' "$work/commands") lines"
    fi
    run_programs "$1"
    cd "$work"
    rm -rf "$directory"
}

finish() { exit $failed; }
