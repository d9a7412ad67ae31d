# The commands lab and bench are separate programs: search for the programs, passed arguments, and messages if a program
# is missing. tests/cli/test_completion.sh and tests/house/test_manual.sh test their completions and manuals.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
case $BOCHNER in */emulated/*) echo "skipped: copies of the program do not run without the emulator" >&2 && exit 77 ;; esac
unset BOCHNER_LAB BOCHNER_BENCH BOCHNER_PROGRAM
work=$(pwd -P)
bin=$(sed -n 's/^CMAKE_INSTALL_BINDIR:PATH=//p' "$BOCHNER_BUILD/CMakeCache.txt")
lib=$(sed -n 's/^CMAKE_INSTALL_LIBDIR:PATH=//p' "$BOCHNER_BUILD/CMakeCache.txt")

# bochner does not contain the code of these programs.
nm "$BOCHNER" | grep -E ' [Tt] (lab_at|lab_claim|bench_add|bo_lab_run)$' >linked &&
    complain "bochner links the lab or the benchmarks: $(head -n 3 linked)"

# ---- arguments -------------------------------------------------------------------------------------------------------
# A program that prints its process id, its arguments and the path of bochner, and exits as requested.
cat >show <<'END'
#!/bin/sh
printf 'process %s of %s\n' $$ "$BOCHNER_PROGRAM"
for word in "$@"; do printf '<%s>\n' "$word"; done
[ "${END_BY:-}" ] && kill -"$END_BY" $$
exit "${STATUS:-0}"
END
chmod +x show
BOCHNER_LAB=$work/show "$BOCHNER" lab run 'two words' '' --out=x -- -y >out 2>err &
process=$!
wait $process || complain "lab: status $?"
printf '%s\n' "process $process of $BOCHNER" '<run>' '<two words>' '<>' '<--out=x>' '<-->' '<-y>' |
    diff - out || complain "bochner lab passes other words"
for status in 0 1 2 3; do
    STATUS=$status BOCHNER_BENCH=$work/show "$BOCHNER" bench >out 2>err
    expect "exit status" $? '==' $status
done
for signal in HUP:129 TERM:143 KILL:137; do
    END_BY=${signal%:*} BOCHNER_BENCH=$work/show "$BOCHNER" bench >out 2>err
    expect "status after a signal" $? '==' "${signal#*:}"
done
BOCHNER_LAB=$work/show "$BOCHNER" help lab >out
grep -qx '<--help>' out || complain "help lab passes $(cat out)"
BOCHNER_BENCH=$work/show "$BOCHNER" help bench train --all >out
printf '<%s>\n' train --help-all >expected
sed 1d out | diff expected - || complain "help bench train --all passes $(cat out)"

# Ctrl-C reaches the program, which removes its files.
"$BOCHNER" lab run steepest-descent --out results >out 2>err &
process=$!
sleep 1
kill -TERM $process
wait $process
status=$?
[ $status = 143 ] || [ $status = 0 ] || complain "a terminated experiment: status $status: $(cat err)"
ls results/*.part 2>/dev/null && complain "a temporary file is left"

# Results as of any command: one JSON object, exit status 2 for usage errors.
succeeds "$BOCHNER" lab list --json --out results
grep -q '"experiments"' out || complain "lab list --json: $(head -c 200 out)"
fails 2 "unknown experiment 'scaled-dt'|did you mean scaled-dot" "$BOCHNER" lab run scaled-dt
fails 2 "expected a subject first" "$BOCHNER" bench

# ---- search ------------------------------------------------------------------------------------------------------------
mkdir -p "opt/$bin" "opt/$lib/bochner" usr here/bochner
cp "$BOCHNER" "opt/$bin/bochner"
ln -s "../opt/$bin/bochner" usr/bochner
program=$work/opt/$bin/bochner
missing="bochner lab: bochner-lab was not found: neither $work/opt/$bin/bochner-lab nor $work/opt/$bin/"
missing="$missing|$lib/bochner/bochner-lab exists|it is the component lab of an installation|make builds it"
for words in "lab list" "help lab" "lab --help"; do fails 1 "$missing" "$program" $words; done
fails 1 "bochner-bench was not found|component bench" "$program" bench train
# Never from the current directory or PATH.
printf '#!/bin/sh\ntouch "%s/executed"\n' "$work" >here/bochner-lab
chmod +x here/bochner-lab
cp here/bochner-lab here/bochner/bochner-lab
cd here || exit 1
fails 1 "was not found" env PATH="$work/here:$PATH" ../usr/bochner lab list
fails 1 "must be an absolute path, found ./bochner-lab" env BOCHNER_LAB=./bochner-lab "$program" lab list
cd "$work" || exit 1
[ -e executed ] && complain "a program in the current directory was executed"
# Commands without another program work; completions and manuals omit the options of missing programs.
succeeds "$program" --help
grep -q '^  lab ' out || complain "the overview does not list lab"
for shell in bash zsh fish; do
    succeeds "$program" completion $shell
    grep -q 'lab' out && grep -q 'holdout' out && ! grep -q 'only-tables' out ||
        complain "completion $shell without the programs"
done
# The plugin directory of the installation, then the directory of the program, then the environment.
place() { # file, word that it prints
    printf '#!/bin/sh\necho %s\n' "$2" >"$1"
    chmod +x "$1"
    for start in "$program" usr/bochner; do
        said=$("$start" lab list)
        [ "$said" = "$2" ] || complain "$start with $1 runs '$said'"
    done
}
place "opt/$lib/bochner/bochner-lab" plugin
place "opt/$bin/bochner-lab" beside
said=$(BOCHNER_LAB=$work/show "$program" lab list)
case $said in process*) ;; *) complain "BOCHNER_LAB runs '$said'" ;; esac
fails 1 "/nowhere/bochner-lab does not exist (BOCHNER_LAB)" env BOCHNER_LAB=/nowhere/bochner-lab "$program" lab list
chmod -x "opt/$bin/bochner-lab"
fails 1 "cannot run $work/opt/$bin/bochner-lab: Permission denied" "$program" lab list

# The benchmarks find the calling program, also from the plugin directory, and report if it is missing.
cp "$BOCHNER-bench" "opt/$lib/bochner/bochner-bench"
fails 1 "the program bochner was not found: neither $work/opt/$lib/bochner/bochner nor" \
    "opt/$lib/bochner/bochner-bench" serve somewhere
fails 1 "bochner serve did not start|somewhere" "$program" bench serve somewhere
finish
