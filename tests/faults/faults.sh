# Fails single calls of the C library in short runs of commands (shim.c). After each fault a file is the old one or the
# new one, never a part; the command succeeds with the results of a run without faults, or it prints a message and its
# exit status is 1; and it does not hang. Sourced by the tests, which set CALLS: how many
# calls of each function fail, or all.
[ -z "${SANITIZE:-}" ] || { echo "skipped: the sanitizers replace the functions that are failed" >&2; exit 77; }
[ -w /dev/shm ] && export TMPDIR=/dev/shm # flushing a disk takes time
. "$BOCHNER_SOURCE/tests/cli/common.sh"
case $BOCHNER in */emulated/*) echo "skipped: the program runs in an emulator" >&2 && exit 77 ;; esac
shim=$BOCHNER_BUILD/tests/libfaults.so
[ -e "$shim" ] || { echo "skipped: there is no $shim" >&2; exit 77; }
cases=0

# shimmed DIRECTORY SETTING COMMAND...: runs the command in the directory, with the shim and one more variable.
shimmed() {
    directory=$1 setting=$2
    shift 2
    (cd "$directory" && timeout -k 5 60 env LD_PRELOAD="$shim" "$setting" "$@" >"$work/out" 2>"$work/err" <"$work/in")
}

# error_of FUNCTION: the number of the error.
error_of() {
    case $1 in
    write | pwrite | fwrite | fflush | mkdir) echo 28 ;; # ENOSPC
    open | fopen) echo 24 ;;                             # EMFILE
    mmap | fdopen) echo 12 ;;                            # ENOMEM
    pthread_create) echo 11 ;;                           # EAGAIN
    link) echo 1 ;;                                      # EPERM: a file system without links
    *) echo 5 ;;                                         # EIO
    esac
}

# alike A B: files that are the same except for lines with times, and for checksums that include them.
alike() {
    cmp -s "$1" "$2" && return
    [ -f "$2" ] || return
    sed '/"seconds"\|"checksum"/d' "$1" >one
    sed '/"seconds"\|"checksum"/d' "$2" | cmp -s - one
}

# others DIRECTORY...: the files of the directory `here` that equal no file of the given directories.
others() {
    (cd here && find . -type f) | while read -r file; do
        for directory; do
            alike "here/$file" "$directory/$file" && continue 2
        done
        echo "$file"
    done
}

# lost: the files of the directory `start` that are not in the directory `here`.
lost() {
    (cd start && find . -type f) | while read -r file; do
        [ -f "here/$file" ] || echo "$file"
    done
}

# same_CHECK: after a success. kept_CHECK: after a failure.
same_files() {
    left=$(others new)
    [ -z "$left" ] && [ "$(find here | wc -l)" = "$(find new | wc -l)" ] || complain "$about: succeeds with other files: $left"
    timeless out >printed
    cmp -s printed results || grep -q "warning: .* cannot be read" err ||
        complain "$about: succeeds with other results: $(diff printed results | head -5)"
}

timeless() {
    grep -v '^Time \|per second\| s on . thread' "$1"
}

kept_files() {
    left=$(others start new)
    [ -z "$left" ] || complain "$about: neither old nor new: $left"
    left=$(lost)
    [ -z "$left" ] || complain "$about: lost: $left"
}

# Files of training contain times, which depend on the order of the threads.
same_run() {
    for file in model.safetensors best/model.safetensors checkpoints/step-4/optimizer.safetensors config.json; do
        cmp -s "here/run/$file" "new/run/$file" || complain "$about: succeeds with another $file"
    done
    no_parts
}

no_parts() {
    left=$(find here -name '*part*')
    [ -z "$left" ] || complain "$about: left $left"
}

# The run is resumed and gives the weights of a run without faults.
kept_run() {
    no_parts
    shimmed here "WITH=no fault" "$BOCHNER" train --data text.txt $small --out run --resume || complain "$about: cannot be resumed: $(head -c 300 err)"
    same_run
}

# trial FUNCTION FIRST LAST ERROR: one fault, in a copy of the directory `start`.
trial() {
    rm -rf here
    cp -r start here
    cases=$((cases + 1))
    shimmed here "BOCHNER_FAULT=$1:$2:$3:$4" $command
    status=$?
    about="$command: $1 $2 to $3, error $4"
    case $status in
    0)
        same_$check
        ;;
    1)
        grep -q "^bochner[ :]" err || complain "$about: no message: $(head -c 300 err)"
        kept_$check
        ;;
    124 | 137) complain "$about: hangs: $(head -c 300 err)" ;;
    *) complain "$about: exit status $status: $(head -c 300 err)" ;;
    esac
}

# chosen COUNT: the numbers of the calls to fail.
chosen() {
    awk -v n="$1" -v k="$CALLS" 'BEGIN { if (k == "all" || n <= k + 0) for (i = 1; i <= n; i++) print i
        else { srand(n); for (i = 0; i < k; i++) print 1 + int((i + rand()) * n / k) } }' </dev/null
}

# faults files|run COMMAND...: all faults of a command, in a copy of the directory `start`.
faults() {
    check=$1
    shift
    command=$*
    rm -rf new here
    cp -r start here # runs record paths: all have the same
    shimmed here "BOCHNER_FAULT_COUNTS=$work/counts" $command || complain "$command: $(head -c 300 err)"
    mv here new
    timeless out >results
    before=$cases
    while read -r name count <&3; do
        error=$(error_of "$name")
        for n in $(chosen "$count"); do
            trial "$name" "$n" "$n" "$error"
            case $name in write | pwrite) trial "$name" "$n" "$n" 0 ;; esac # a short write
        done
        case $name in write | fwrite | fflush) trial "$name" 1 1000000 "$error" ;; esac # a disk that stays full
    done 3<counts
    [ $cases -gt $((before + 10)) ] || complain "$command: only $((cases - before)) faults"
    echo "$((cases - before)) faults: $command"
}

# ---- inputs ------------------------------------------------------------------------------------------------------------

mkdir start
: >in
(
    cd start || exit 1
    awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); for (i = 0; i < 300; i++) print "the " a[1 + int(4 * rand())] " eats." }' >text.txt
    awk 'BEGIN { srand(4); for (i = 0; i < 60; i++) print i % 2 "\tthe " (i % 2 ? "cat" : "dog") " eats " int(9 * rand()) }' >labeled.tsv
    house 60 5 >house.csv
    shapes 60 5 >shapes.csv
)
small="--layers 1 --width 16 --heads 2 --context 16 --batch 2 --features 8 --steps 4 --checkpoint-every 2 --eval-every 2 --eval-tokens 100 --threads 2 --quiet"

# before COMMAND...: prepares the directory `start`.
before() {
    rm -rf here
    mv start here
    shimmed here "WITH=no fault" "$@" || complain "$*: $(head -c 300 err)"
    mv here start
}
