# Help: one screen of common options, all options in sections, the same text at any terminal width.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
subjects='machines attention train layers recall tasks decode scale serve'

# width FILE: columns of its widest line.
width() { LC_ALL=C.UTF-8 wc -L <"$1"; }
# words FILE: its words, without backslashes that continue a line.
words() { sed 's/ \\$//' "$1" | tr -s ' \n\r' '\n\n\n' | grep .; }

# ---- the overview ------------------------------------------------------------------------------------------------------
succeeds "$BOCHNER" help
cp out overview
expect "lines of the overview" "$(wc -l <overview)" '<=' 40
expect "columns of the overview" "$(width overview)" '<=' 80
for title in 'Tables' 'Language models' 'Tools' 'Examples'; do
    grep -qx "$title" overview || complain "the overview has no group $title"
done
awk '/^Example/ { exit } /^  [a-z]/ { print $1 }' overview >commands
expect "commands" "$(wc -l <commands)" '>=' 18
awk '/^Example/ { exit } /^  [a-z]/ && $2 !~ /^[A-Z][a-z]+$/' overview >odd
[ -s odd ] && complain "summaries that do not start with a verb: $(cat odd)"
for way in --help -h 'help help' 'help --help'; do
    succeeds "$BOCHNER" $way
    cmp -s out overview || complain "bochner $way is not the overview"
done
"$BOCHNER" >out 2>err
cmp -s err overview || complain "bochner without a command does not print the overview"

# ---- every command -------------------------------------------------------------------------------------------------------
grep -vx -e help -e bench commands >all
for subject in $subjects; do echo "bench $subject"; done >>all
while read -r command; do
    succeeds "$BOCHNER" $command --help
    cp out short
    succeeds "$BOCHNER" $command --help-all
    cp out long
    expect "$command --help: lines" "$(wc -l <short)" '<=' 40
    for file in short long; do expect "$command, $file help: columns" "$(width $file)" '<=' 80; done
    succeeds "$BOCHNER" help $command
    cmp -s out short || complain "bochner help $command is not bochner $command --help"
    succeeds "$BOCHNER" help $command --all
    cmp -s out long || complain "bochner help $command --all is not bochner $command --help-all"
    options=$(grep -c '^  --' long) shown=$(grep -c '^  --' short)
    if cmp -s short long; then
        expect "$command: lines of all options" "$(wc -l <long)" '<=' 40
    else
        said=$(sed -n "s/^bochner $command --help-all lists all \([0-9]*\) options\.$/\1/p" short)
        [ "$said" = $((options - 2)) ] || complain "$command --help counts '$said' options of $((options - 2))"
        expect "$command --help: options" "$shown" '>=' 5
        tail -n 1 short | grep -q help-all || complain "$command --help does not end with --help-all"
    fi
    grep -o '^  --[a-z0-9-]*' short | while read -r option; do
        grep -q -e "^  $option\( \|$\)" long || echo "$option"
    done >unknown
    [ -s unknown ] && complain "$command --help has options that --help-all lacks: $(cat unknown)"
done <all
succeeds "$BOCHNER" bench --help
for subject in $subjects; do grep -q "^  $subject " out || complain "bench --help does not list $subject"; done
succeeds "$BOCHNER" bench --help-all
[ "$(grep -c '^Usage: bochner bench' out)" = 9 ] || complain "bench --help-all is not the help of nine subjects"
fails 2 "unknown option --al|bochner help" "$BOCHNER" help train --al
fails 2 "unknown command 'trian'|did you mean train?" "$BOCHNER" help trian

# Options that only some kinds of attention take are listed for each kind once.
succeeds "$BOCHNER" attention --help-all
sed -n '/^Options of each kind/,/^$/p' out >kinds
grep -q '^  softmax  *--window --scale$' kinds || complain "attention --help-all lists other options of softmax: $(head -3 kinds)"
grep -q '^  ridge, gated-ridge ' kinds || complain "attention --help-all does not list ridge"
succeeds "$BOCHNER" attention --help
grep -q 'kinds:' out && complain "attention --help lists kinds at its options"
for option in data out attention; do
    "$BOCHNER" train --help | grep -q "^  --$option " || complain "train --help lacks --$option"
done

# ---- terminals of other widths ---------------------------------------------------------------------------------------------
command -v script >/dev/null || { echo "script is not installed: not tried on terminals"; finish; }
# on_terminal COLUMNS COMMAND: its output is in seen, without carriage returns.
on_terminal() { script -qec "stty cols $1 rows 24; $2" /dev/null </dev/null | tr -d '\r' >seen; }
on_terminal 60 true || { echo "script does not work: not tried on terminals"; finish; }
for command in help 'help train --all' 'attention --help-all' 'bench attention --help-all' 'tokenizer --help'; do
    "$BOCHNER" $command >wide
    for columns in 60 100; do
        on_terminal $columns "'$BOCHNER' $command"
        case $command in *--all | *-all) words wide >wide.words && words seen | cmp -s - wide.words || complain "$command has other words at $columns columns" ;; esac
        # a word wider than a line is not broken
        LC_ALL=C.UTF-8 awk -v columns=$columns 'length($0) > columns && NF > 1 && !/[^ -~]/' seen >over
        [ -s over ] && complain "$command is wider than $columns columns: $(cat over)"
    done
done
on_terminal 60 "'$BOCHNER' train --help"
expect "lines of train --help at 60 columns" "$(wc -l <seen)" '<=' 40

# Notes of a command wrap on a terminal, and are one line in a file.
house 300 1 >train.csv
on_terminal 60 "'$BOCHNER' fit train.csv --target price --features 64 --out price.model >/dev/null"
expect "columns of notes" "$(sed 's/.*\x1b\[K//' seen | width /dev/stdin)" '<=' 60
grep -q '^Data  ' seen || complain "no notes on the terminal: $(cat seen)"
"$BOCHNER" fit train.csv --target price --features 64 --out price.model >/dev/null 2>notes
# The suggested command names the same file when it is pasted, at every width.
for model in "it's a model with a long name.model" 'a
b.model' 'a $(touch hacked) `touch hacked` b.model'; do
    export model BOCHNER
    for columns in 20 40 80; do
        on_terminal $columns "\"\$BOCHNER\" fit train.csv --target price --features 64 --out \"\$model\" >/dev/null"
        sed 's/.*\x1b\[K//' seen | sed -n '/^Next: /,$p' | sed '1s/^Next: //' >pasted
        pasted=$(bochner() { printf '%s' "$2"; } && . ./pasted)
        [ "$pasted" = "$model" ] || complain "the command at $columns columns names another file: $(cat pasted)"
    done
done
[ -e hacked ] && complain "the suggested command runs a part of a file name"
grep -q '^ ' notes && ! grep -q '^            up to' notes && complain "notes wrap in a file: $(cat notes)"
finish
