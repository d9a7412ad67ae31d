# Models for classification and translation: errors are reported with the line, the message names the right command, and
# no partial file remains.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
. "$BOCHNER_SOURCE/tests/cli/tasks.sh"
moods 60 1 >moods.tsv
twins 60 1 >twins.tsv
numbers 60 1 >numbers.tsv
cut -f2 numbers.tsv >text.txt
tiny="--layers 1 --width 8 --steps 1 --pack 256 --batch 1 --attention rfa --features 8 --context 64"
trained classify moods moods.tsv $tiny
trained match twins twins.tsv $tiny
trained translate deen numbers.tsv $tiny
succeeds "$BOCHNER" train --data text.txt --out words --layers 1 --width 8 --heads 2 --context 16 --steps 1 --quiet

# ---- lines
with() { # with FILE LINE WORDS: the 40 lines of FILE, one of them replaced
    head -40 "$1" | awk -v at="$2" -v words="$3" 'NR == at { printf "%s\n", words; next } { print }'
}
with moods.tsv 7 "pos it is good" >tab.tsv
with moods.tsv 7 "pos\tit is\tgood" >tabs.tsv
with moods.tsv 7 "\tit is good" >label.tsv
with moods.tsv 7 "pos\t" >text.tsv
with moods.tsv 7 "fine\tit is good" >class.tsv
with moods.tsv 7 "pos\tit is g\377d" >bytes.tsv
for command in "eval moods --data" "predict moods --labeled --out labels.csv"; do
    fails 1 "tab.tsv|line 7|label, tab, text" "$BOCHNER" $command tab.tsv
    fails 1 "tabs.tsv|line 7" "$BOCHNER" $command tabs.tsv
    fails 1 "label.tsv|line 7|empty" "$BOCHNER" $command label.tsv
    fails 1 "text.tsv|line 7|empty" "$BOCHNER" $command text.tsv
    fails 1 "class.tsv|line 7|fine|neg, pos" "$BOCHNER" $command class.tsv
    fails 1 "bytes.tsv|line 7|UTF-8" "$BOCHNER" $command bytes.tsv
    fails 1 "none.tsv" "$BOCHNER" $command none.tsv
done
ls | grep -q labels && complain "something was left: $(ls | grep labels)"
cut -f2 moods.tsv >moods.txt
with moods.txt 9 "" >empty.txt
fails 1 "empty.txt|line 9|empty" "$BOCHNER" predict moods empty.txt
: >nothing.txt
fails 1 "nothing.txt" "$BOCHNER" predict moods nothing.txt
fails 1 "standard input" "$BOCHNER" predict moods - <nothing.txt
fails 1 "standard input|line 7|UTF-8" "$BOCHNER" predict moods - --labeled <bytes.tsv
fails 1 "line 1|text, tab, text" "$BOCHNER" predict twins moods.txt
fails 1 "moods.tsv, line 1|a text alone|give --labeled" "$BOCHNER" predict moods moods.tsv --out labels.csv
fails 1 "twins.tsv, line 1|found 2 tabs|give --labeled" "$BOCHNER" predict twins twins.tsv
fails 1 "line 1|a text alone|eval" "$BOCHNER" generate deen <numbers.tsv
with moods.tsv 7 "p\033[31m\tit is good" >control.tsv
fails 1 "line 7|control characters|x1b" "$BOCHNER" eval moods --data control.tsv
with numbers.tsv 5 "eins" >pair.tsv
fails 1 "pair.tsv|line 5|source, tab, target" "$BOCHNER" eval deen --data pair.tsv
awk 'BEGIN { for (i = 0; i < 100; i++) printf "eins "; print "" }' >long.txt
awk 'BEGIN { for (i = 0; i < 100; i++) printf "eins "; print "\tone" }' >long.tsv
fails 1 "long.tsv|line 1|64" "$BOCHNER" eval deen --data long.tsv
fails 1 "standard input|line 1|64" "$BOCHNER" generate deen <long.txt
printf 'eins\nzwei \377\n' >odd.txt
fails 1 "line 2|UTF-8" "$BOCHNER" generate deen <odd.txt
sed 's/$/ and so on and on, until there is no room left for any of it in the context/' long.tsv numbers.tsv >longer.tsv
fails 1 "longer.tsv, line 1|62 texts are too long" "$BOCHNER" eval deen --data longer.tsv --examples 20

# On a terminal the expected input is explained, and an invalid line does not end the command.
if script -qec true /dev/null >out 2>err </dev/null; then
    printf 'it is\nx\ty\nit is good\n' | script -qec "$BOCHNER predict moods -" /dev/null >out
    grep -q "Input  *one text per line; end with Ctrl-D" out || complain "the expected input is not explained: $(cat out)"
    grep -q "line 2: expected a text alone" out || complain "a typed line with a tab: $(cat out)"
    [ "$(grep -c "0\.[0-9]" out)" -eq 2 ] || complain "a bad line ends what is typed: $(cat out)"
fi

# stopped COMMAND...: the command is stopped after its first output.
mkfifo lines
stopped() {
    : >out
    attended "$BOCHNER" "$@" <lines >out 2>err &
    job=$!
    exec 3>lines
    echo zwei >&3
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
        [ -s out ] && break
        sleep 0.1
    done
    kill -INT $job
    wait $job
    status=$?
    exec 3>&-
    [ $status -eq 130 ] || complain "$*: exit status $status after Ctrl-C: $(cat err)"
    grep -q "stopped on request after 1 answer$" err || complain "$*: no message about the output: $(cat err)"
}
stopped predict moods -
stopped generate deen

# A text that is longer than in training is truncated for classification, and this is reported; or it is read
# completely.
succeeds "$BOCHNER" predict moods long.txt
grep -q "Truncated .*1 text to 64 tokens" err || complain "no message about a truncated text: $(cat err)"
succeeds "$BOCHNER" predict moods long.txt --context 1000
grep -q Truncated err && complain "a text was cut: $(cat err)"

# ---- commands and options for other kinds of models
fails 1 "moods holds a model that classifies texts|predict" "$BOCHNER" generate moods --prompt x
fails 1 "twins holds a model that matches texts|predict" "$BOCHNER" generate twins
fails 1 "deen holds a model that translates|generate" "$BOCHNER" predict deen moods.txt
fails 1 "words holds a language model|generate" "$BOCHNER" predict words moods.txt
fails 2 "--beam|a language model" "$BOCHNER" generate words --beam 2
fails 2 "--tokenize|a language model" "$BOCHNER" eval words --data text.txt --tokenize 13a
fails 2 "--temperature|translates" "$BOCHNER" generate deen --temperature 0.5
fails 2 "--save-state|translates" "$BOCHNER" generate deen --save-state s
fails 2 "--beam|classifies" "$BOCHNER" eval moods --data moods.tsv --beam 2
fails 2 "--field|classifies" "$BOCHNER" eval moods --data moods.tsv --field text
fails 2 "--plot|translates" "$BOCHNER" eval deen --data numbers.tsv --plot p.svg
fails 2 "--std|classifies" "$BOCHNER" predict moods moods.txt --std
fails 2 "--plot|--labeled" "$BOCHNER" predict moods moods.txt --plot p.svg
fails 2 "--labeled|text models" "$BOCHNER" predict no.model moods.txt --labeled
fails 2 "--weights|text models" "$BOCHNER" predict no.model moods.txt --weights int8
fails 2 "--split|networks" "$BOCHNER" predict moods moods.txt --split s
cp moods.txt moods.csv
fails 2 "--out|replace" "$BOCHNER" predict moods moods.csv --out moods.csv
cp moods.tsv moods.svg
fails 2 "--plot|replace" "$BOCHNER" eval moods --data moods.svg --plot moods.svg
fails 2 ".svg, .png or .pdf" "$BOCHNER" eval moods --data moods.tsv --plot moods.jpeg
fails 2 "--beam" "$BOCHNER" generate deen --beam 0
fails 2 "--beam|1 to 1024" "$BOCHNER" generate deen --beam 1025
fails 2 "--penalty" "$BOCHNER" generate deen --penalty -1
mkdir hollow
fails 1 "hollow: not a model directory|config.json" "$BOCHNER" predict hollow moods.txt
fails 1 "nowhere" "$BOCHNER" eval nowhere --data moods.tsv
fails 1 "no/such" "$BOCHNER" predict moods moods.txt --out no/such/labels.csv
succeeds "$BOCHNER" predict moods moods.txt --out kept.csv
cp kept.csv before.csv
fails 1 "line 7" "$BOCHNER" predict moods tab.tsv --labeled --out kept.csv
cmp -s kept.csv before.csv || complain "a file of labels was replaced by half of one"
ls | grep -q part && complain "something was left: $(ls | grep part)"
finish
