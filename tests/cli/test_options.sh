# Options: help and its examples, mistakes and suggestions, exit statuses.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
# towns HOUSES: with a column of text before the others
towns() {
    awk -v OFS=, '{ print NR == 1 ? "town" : NR % 3 ? "Ulm" : "Trier", $0 }' "$@"
}
house 150 1 | towns >train.csv
house 60 2 | towns >test.csv
awk 'BEGIN { srand(3); for (i = 0; i < 2000; i++) print "line " i " says " int(9 * rand()) "." }' >text.txt
awk -v OFS=, '{ print NR == 1 ? "id" : NR, $0 }' test.csv >new.csv
cp train.csv table.csv
for month in january february; do # numbered rows of one distribution
    house 200 ${#month} | awk -v OFS=, '{ print NR == 1 ? "id" : NR, $0 }' >$month.csv
done
awk 'BEGIN { srand(4); for (i = 0; i < 200; i++) { good = rand() < 0.5; print (good ? "good" : "bad") "\t" (good ? "fine" : "poor") " " int(9 * rand()) } }' >reviews.tsv
awk 'BEGIN { srand(5); for (i = 0; i < 200; i++) { n = int(9 * rand()); print "zahl " n "\tnumber " n } }' >german-english.tsv
echo '{"input": {"kind": "array"}, "layers": [{"type": "linear", "width": "targets"}], "loss": "mse"}' >net.json

. "$BOCHNER_SOURCE/tests/cli/tasks.sh"
cut -f1 german-english.tsv | head -20 >german.txt
cut -f2 reviews.tsv | head -20 >new.txt
trained classify reviews reviews.tsv --layers 1 --width 8 --steps 2
for width in 16 32; do # the runs of the examples of plan --fit
    for steps in 4 8; do
        succeeds "$BOCHNER" train --data text.txt --out runs/$width-$steps --layers 1 --width $width --heads 1 --context 16 --batch 2 \
            --steps $steps --quiet
    done
done
cp text.txt stories.txt
echo key >keys.txt
(. "$BOCHNER_SOURCE/tests/foreign.sh" && tiny_gguf model.gguf && tiny_llama2c stories15M.bin && tiny_words tokenizer.bin)

# Every command has help on standard output, and every example in it works as printed (long runs are shortened).
succeeds "$BOCHNER" --help
awk '/^Example/ { exit } /^  [a-z]/ { print $1 }' out >commands
[ "$(wc -l <commands)" -ge 7 ] || complain "bochner --help lists too few commands"
PATH=$(dirname "$BOCHNER"):$PATH
for command in $(grep -vx bench commands) 'bench machines' 'bench attention' 'bench train' 'bench layers' 'bench recall' 'bench tasks'; do
    succeeds "$BOCHNER" $command --help-all
    [ -s err ] && complain "$command --help-all writes to standard error"
    # a line that ends with a backslash continues on the next
    awk '/^Example/ { on = 1; next } on && /^  ./ { sub(/^ +/, continued ? "" : "  "); continued = sub(/\\$/, ""); printf "%s%s", $0, continued ? "" : "\n"; next }
        on { exit }' out >examples
    [ -s examples ] || complain "$command --help-all has no example"
    [ "$command" = chat ] && echo '{{ messages[-1].content }}' >model/chat_template.jinja
    sed -i 's/--minutes 2/--minutes 0.005/; s/--steps 400/--steps 2/; s/--repeats [0-9]*/--repeats 1/; s/--folds 5/--folds 2/
        s/bench train .*/& --layers 1 --context 64 --gemm 256/; s/bench layers .*/& --gemm 256/; s/--rows 20000/& --stream-features 32 --gemm 256/
        s/fit .* --stream /&--features 256 /
        /^ *curl/d; s/--port [0-9]*//; s/bochner serve .*/timeout --preserve-status 0.5 & --port 0/
        /linearize stories15M/ { s/--minutes 30//; s/--teacher-text 1000000/--teacher-text 500/; s/$/ --transfer-steps 1 --steps 1 --lora 2/ }
        /train --data text.txt/ { /--init/! s/$/ --layers 1 --width 32 --heads 2 --context 128 --batch 4/ }' examples
    command -v dot >/dev/null || sed -i 's/--graph \([a-z]*\)\.svg/--graph \1.dot/' examples # an SVG needs Graphviz
    while read -r line; do
        sh -c "$line" >example.out 2>example.err </dev/null || complain "an example of $command fails: $line: $(cat example.err)"
    done <examples
    succeeds "$BOCHNER" help $command
done
succeeds "$BOCHNER" bench --help

# Option tables: every option has a help text, states its default in one way, and is in the list of its command.
awk 'BEGIN { print "<!-- options: common -->"; print "<!-- end -->" }' >lists
for command in $(grep -vx -e bench -e help -e version -e info -e completion commands) 'bench machines' 'bench attention' 'bench train' \
    'bench layers' 'bench recall' 'bench tasks'; do
    printf '%s\n' "<!-- options: $command -->" '<!-- end -->'
done >>lists
while IFS= read -r command; do
    case $command in '<!-- options: '*) ;; *) continue ;; esac
    name=${command#<!-- options: } name=${name% -->}
    [ "$name" = common ] && name=fit
    "$BOCHNER" $name --help-all >help || complain "$name --help-all fails"
    printf '%s\n' "$command" '<!-- end -->' | "$BOCHNER" help --markdown | grep '^| `--' >rows
    [ -s rows ] || complain "$name has no rows of options"
    sed 's/\\|//g' rows | awk -F ' *[|] *' '$3 == "" { print $2 }' >empty
    [ -s empty ] && complain "$name: options without a help: $(cat empty)"
    grep -e 'unless given' -e 'by default' -e 'if not given' rows >odd && complain "$name: a default in the help's own words: $(cat odd)"
    tr -s ' \n' '  ' <help | sed 's/  *--/\n--/g' >flat
    sed 's/\\//g; s/^| `\(--[a-z0-9-]*\).* | \([^|]*[^| ]\) |$/\1\t\2/; t; d' rows | while IFS="$(printf '\t')" read -r option default; do
        grep -e "^$option " flat | grep -qF "(default: $default" ||
            { tr -s ' \n' '  ' <help | grep -qF "(default: $default"; } || echo "$option: $default"
    done >unsaid
    [ -s unsaid ] && complain "$name --help lacks defaults: $(cat unsaid)"
done <lists
"$BOCHNER" fit --help-all >help
grep -q -- '--seed N .*(default: 0)' help || complain "fit --help does not state the default of --seed"
"$BOCHNER" mup --help-all | tr -s ' \n' '  ' | grep -q 'optimizer: [^(]*(default: adamw)' || complain "mup --help has the default of train for --optim"

# Former names of options: the same output, with a note; help and completion do not show them.
"$BOCHNER" data listops --count 20 --min-tokens 10 --max-tokens 40 --seed 3 >renamed
succeeds "$BOCHNER" data listops --count 20 --least 10 --most=40 --seed 3
cmp -s out renamed || complain "former names of options give other data"
for name in "least is now --min-tokens" "most is now --max-tokens"; do
    grep -q "bochner data: --$name; the old name will go away" err || complain "no note '$name': $(cat err)"
done
[ "$(wc -l <err)" -eq 2 ] || complain "notes on former names: $(cat err)"
"$BOCHNER" data --help-all >help
"$BOCHNER" completion bash >>help
grep -e "--least" -e "--most" help && complain "former names of options are shown"

# An option that does not apply is refused even if its value is the default.
fails 2 "--min-tokens is an option of listops" "$BOCHNER" data match --min-tokens 500
fails 2 "--shuffle is an option of match" "$BOCHNER" data listops --shuffle 3
fails 2 "--lambda needs --readout ridge" "$BOCHNER" train --model net.json --data train.csv --out net2 --lambda 1
fails 2 "--lora-init needs --lora RANK" "$BOCHNER" train --data text.txt --out net2 --lora-init zero
fails 2 "--ssm needs --mixer ssm" "$BOCHNER" train --data text.txt --out net2 --ssm diagonal
fails 2 "--pooling needs --task" "$BOCHNER" train --data text.txt --out net2 --pooling mean
fails 2 "--cross needs --task translate" "$BOCHNER" train --task classify --data reviews.tsv --out net2 --cross attention
fails 2 "--preset is an option of text models" "$BOCHNER" train --model net.json --data train.csv --out net2 --preset tiny
fails 2 "--width-multiplier is an option of networks" "$BOCHNER" train --data text.txt --out net2 --width-multiplier 1
fails 2 "--weights does not apply to networks" "$BOCHNER" eval net --data train.csv --weights float32
fails 2 "--rates applies to mup transfer only" "$BOCHNER" mup check --rates 0.1
fails 2 "--page and --markdown are options of lab report" "$BOCHNER" lab list --page page.html
fails 2 "--draw applies to the kinds" "$BOCHNER" attention --q Q.npy --k Q.npy --v Q.npy --kind softmax --draw iid
# "default" and "auto" of a choice are accepted everywhere and mean that the option is not set.
succeeds "$BOCHNER" train --data text.txt --out open --attention softmax --draw default --layers 1 --width 16 --heads 1 --steps 1
fails 2 "--degree applies to the kinds" "$BOCHNER" train --data text.txt --out net2 --attention rfa --degree 2
fails 2 "--lr applies to mup check only" "$BOCHNER" mup transfer --data missing.txt --lr 0.1
fails 1 "missing.txt" "$BOCHNER" mup transfer --data missing.txt --lr auto # auto means not set

[ -s price.svg ] || { command -v gnuplot >/dev/null && complain "the example of fit drew no plot"; }
[ -s Z.npy ] || complain "the example of features wrote no features"
succeeds "$BOCHNER" version
grep -q '^bochner [0-9]' out || complain "no version: $(cat out)"
succeeds "$BOCHNER" --version

# Usage errors: exit status 2 and the nearest valid name.
fails 2 "unknown command 'fitt'|did you mean fit?" "$BOCHNER" fitt
fails 2 "unknown command 'pre'|predict" "$BOCHNER" pre
fails 2 "unknown command 'zzzzzz'|bochner help" "$BOCHNER" zzzzzz
fails 2 "unknown option --featurs|did you mean --features?|bochner fit --help-all" "$BOCHNER" fit train.csv --featurs 10
fails 2 "unknown option --lamdba|--lambda" "$BOCHNER" fit train.csv --lamdba=1
fails 2 "'-x'|two dashes|after --" "$BOCHNER" fit train.csv -x
fails 2 "two dashes|did you mean --target?" "$BOCHNER" fit train.csv -target price
fails 2 "--kernel|expected one of rbf|found 'rbff'|did you mean rbf?" "$BOCHNER" fit train.csv --kernel rbff
fails 2 "--gamma|a positive number or auto|found 'wide'" "$BOCHNER" fit train.csv --gamma wide
fails 2 "--gamma|found '-1'" "$BOCHNER" fit train.csv --gamma -1
fails 2 "--gamma|found 'nan'" "$BOCHNER" fit train.csv --gamma nan
fails 2 "--features|whole number|found '12.5'" "$BOCHNER" fit train.csv --features 12.5
fails 2 "--features|found '99999999999999999999999'" "$BOCHNER" fit train.csv --features 99999999999999999999999
fails 2 "--holdout|from 0 to 0.95|found '2'" "$BOCHNER" fit train.csv --holdout 2
fails 2 "--memory|800M" "$BOCHNER" fit train.csv --memory lots
fails 2 "--memory|found '0'" "$BOCHNER" fit train.csv --memory 0
fails 2 "--target needs a value|the end of the command line" "$BOCHNER" fit train.csv --target
fails 2 "--target needs a value|--out" "$BOCHNER" fit train.csv --target --out m
fails 2 "--stream takes no value|yes" "$BOCHNER" fit train.csv --stream=yes
fails 2 "expected a training file" "$BOCHNER" fit --out m
fails 2 "--out MODEL" "$BOCHNER" fit train.csv
fails 2 "--test and --holdout exclude each other" "$BOCHNER" fit train.csv --test test.csv --holdout 0.2
fails 2 ".svg, .png or .pdf" "$BOCHNER" fit train.csv --test test.csv --plot picture.jpeg
fails 2 "--test FILE, --holdout F or --folds K" "$BOCHNER" fit train.csv --out m --plot picture.svg
fails 2 "MODEL and DATA" "$BOCHNER" predict only-one
fails 2 ".csv or .npy" "$BOCHNER" predict price.model test.csv --out predicted.xlsx
fails 2 "one FILE" "$BOCHNER" info
fails 2 "machines" "$BOCHNER" bench everything
"$BOCHNER" >out 2>err
[ $? -eq 2 ] || complain "no command at all is wrong use"

# Syntax of options: a value after = or a space, negative numbers, -- before files; the last value is used.
succeeds "$BOCHNER" fit train.csv --target=-1 --features=64 --gamma=0.5 --lambda 1e-2 --out a.model --quiet --json
cp out a.json
[ -s err ] && complain "--quiet prints: $(cat err)"
succeeds "$BOCHNER" fit --features 8 --features 64 --gamma .5 --lambda 0.01 --out b.model --json --target -1 -- train.csv
[ "$(field a.json gamma)" = 0.5 ] || complain "gamma is $(field a.json gamma)"
[ "$(field out features)" = 64 ] || complain "the last of two --features does not count"
succeeds "$BOCHNER" fit train.csv --target price --features 64 --gamma auto --lambda auto --memory 512M --threads 1 --seed 18446744073709551615 --out c.model
"$BOCHNER" predict a.model test.csv >a.csv 2>/dev/null
"$BOCHNER" predict b.model test.csv >b.csv 2>/dev/null
cmp -s a.csv b.csv || complain "the same fit predicts something else"
cp train.csv ./-odd.csv
succeeds "$BOCHNER" fit --out d.model --features 16 -- -odd.csv
fails 1 "kernels for mmx" "$BOCHNER" version --isa mmx
finish
