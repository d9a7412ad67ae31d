# Models that classify, match and translate: trained in seconds, then eval, predict, generate and info.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
. "$BOCHNER_SOURCE/tests/cli/tasks.sh"
moods 600 1 >moods.tsv
moods 100 2 >test.tsv
cut -f2 test.tsv >test.txt
twins 400 1 >twins.tsv
numbers 800 1 >numbers.tsv
numbers 60 2 >numbers-test.tsv
cut -f1 numbers-test.tsv >german.txt
trained classify moods moods.tsv --layers 1 --width 16 --steps 60 --pack 512 --batch 2 --attention rfa --features 16
trained match twins twins.tsv --layers 1 --width 16 --steps 100 --pack 256 --batch 2 --attention softmax --valid-fraction 0
trained translate deen numbers.tsv --layers 1 --width 32 --steps 160 --pack 512 --batch 2 --attention rfa --features 32 --vocab 280

# ---- eval
succeeds "$BOCHNER" eval moods --data test.tsv --json
expect "accuracy" "$(field out accuracy)" ">" 0.9
expect "examples" "$(field out examples)" == 100
expect "loss" "$(field out loss)" "<" 0.5
accuracy=$(field out accuracy)
[ "$(field out task)" = classify ] || complain "task $(field out task)"
grep -q '"classes": \["neg", "pos"\]' out || complain "no classes: $(cat out)"
grep '"confusion"' out | tr -c '0-9\n' ' ' | awk '{ exit $1 + $2 + $3 + $4 != 100 }' || complain "confusion: $(cat out)"
grep '"confusion"' out | tr -c '0-9\n' ' ' | awk -v a="$accuracy" '{ exit ($1 + $4) / 100 != a }' || complain "another accuracy"
succeeds "$BOCHNER" eval moods --data test.tsv
grep -q '^Accuracy ' out && grep -q 'predicted' out || complain "no accuracy, or no table of classes: $(cat out)"
succeeds "$BOCHNER" eval moods --data moods.tsv --last 0.1 --json
expect "lines of the last tenth" "$(field out examples)" == 60
succeeds "$BOCHNER" eval moods --data moods.tsv --examples 50 --json --threads 1
expect "requested lines" "$(field out examples)" == 50
if command -v gnuplot >/dev/null; then
    succeeds "$BOCHNER" eval moods --data test.tsv --plot confusion.svg
    grep -q '>neg<' confusion.svg || complain "the plot has no classes"
fi
succeeds "$BOCHNER" eval moods --data test.tsv --examples 1
grep -q "Texts  *1 text, " out || complain "one text: $(cat out)"
succeeds "$BOCHNER" eval twins --data twins.tsv --json
expect "accuracy of pairs" "$(field out accuracy)" ">" 0.9

# ---- predict
succeeds "$BOCHNER" predict moods test.txt --quiet
cp out labels.csv
[ "$(head -1 labels.csv)" = prediction,probability ] || complain "header $(head -1 labels.csv)"
expect "lines and a header" "$(wc -l <labels.csv)" == 101
tail -n +2 labels.csv | cut -d, -f1 >said
cut -f1 test.tsv | paste - said | awk -v a="$accuracy" '{ right += $1 == $2 } END { exit right / NR != a }' ||
    complain "predict and eval differ"
succeeds "$BOCHNER" predict moods test.txt --proba --threads 1
[ "$(head -1 out)" = prediction,neg,pos ] || complain "header $(head -1 out)"
awk -F, 'NR > 1 { s = $2 + $3 - 1; if (s * s > 1e-10) bad = 1; if (($2 > $3) != ($1 == "neg")) bad = 1 } END { exit bad }' out ||
    complain "probabilities: $(head -3 out)"
succeeds "$BOCHNER" predict moods test.txt --weights int8 --quiet
cmp -s out labels.csv && complain "weights of eight bits change no probability"
expect "lines and a header with int8" "$(wc -l <out)" == 101
"$BOCHNER" predict moods - --quiet <test.txt >piped || complain "predict of a pipe"
cmp -s piped labels.csv || complain "a pipe is labeled otherwise than a file"
succeeds "$BOCHNER" predict moods test.tsv --labeled --json
expect "accuracy of predict" "$(field out accuracy)" == "$accuracy"
expect "rows of predict" "$(field out rows)" == 100
succeeds "$BOCHNER" predict moods test.tsv --labeled --out labels.tsv
grep -q 'accuracy' err || complain "no metrics: $(cat err)"
[ "$(head -1 labels.tsv)" = "$(printf 'prediction\tprobability')" ] || complain "header $(head -1 labels.tsv)"
succeeds "$BOCHNER" predict moods test.txt --proba --out labels.npy
expect "bytes of 100 x 3 float64" "$(wc -c <labels.npy)" == 2528
cut -f2,3 twins.tsv >twins.txt
succeeds "$BOCHNER" predict twins twins.txt
expect "lines of pairs" "$(wc -l <out)" == 401

# Lines of standard input are processed as they arrive.
: >answers
{
    echo "it is bad and poor"
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
        [ "$(wc -l <answers)" -ge 2 ] && break
        sleep 0.1
    done
    wc -l <answers >early
    echo "it is good and fine"
} | "$BOCHNER" predict moods - --quiet >answers
expect "lines before the second came" "$(cat early)" == 2
expect "lines in the end" "$(wc -l <answers)" == 3

# ---- translate
succeeds "$BOCHNER" eval deen --data numbers-test.tsv --json
expect "BLEU" "$(field out bleu)" ">" 50
expect "perplexity" "$(field out perplexity)" "<" 3
expect "state" "$(field out state_bytes)" ">" 0
[ "$(field out tokenize)" = 13a ] || complain "tokenized by $(field out tokenize)"
succeeds "$BOCHNER" eval deen --data numbers-test.tsv --beam 3 --penalty 0.6 --tokenize none --examples 20
grep -q '^BLEU .*(none, beam 3;' out || complain "the BLEU signature is not printed: $(cat out)"
"$BOCHNER" generate deen --quiet <german.txt >english || complain "generate"
expect "lines" "$(wc -l <english)" == 60
cut -f2 numbers-test.tsv | paste - english | awk -F '\t' '{ right += $1 == $2 } END { exit right < NR / 3 }' || complain "translated nothing: $(head -3 english)"
printf 'eins zwei\n\nvier\r\n\ndrei' | "$BOCHNER" generate deen --beam 2 --quiet >out
expect "lines for five, two of them empty" "$(wc -l <out)" == 5
[ -z "$(sed -n '2p;4p' out)" ] || complain "an empty line was translated: $(cat out)"
[ -n "$(sed -n 5p out)" ] || complain "a last line without an end was not translated"
printf '\n' | "$BOCHNER" generate deen --quiet >out
expect "lines for one empty line" "$(wc -l <out)" == 1
"$BOCHNER" generate deen --quiet </dev/null >out || complain "nothing to translate is an error"
[ -s out ] && complain "nothing became something"
printf 'eins zwei\ndrei\n' | "$BOCHNER" generate deen --json --quiet >out
expect "objects" "$(grep -c '^{"line": [12], "source": ".*", "text": ".*", "score": -.*, "tokens": [0-9]*}$' out)" == 2
succeeds "$BOCHNER" generate deen --prompt "eins zwei" --quiet
expect "lines of a prompt" "$(wc -l <out)" == 1
printf 'eins zwei eins\n' | "$BOCHNER" generate deen --tokens 1 --quiet >out
expect "a translation of one token" "$(wc -w <out)" "<=" 1
for threads in 1 2; do "$BOCHNER" generate deen --beam 2 --threads $threads --quiet <german.txt >english.$threads; done
cmp -s english.1 english.2 || complain "other threads, another translation"

# ---- info
succeeds "$BOCHNER" info moods
grep -q 'a model that classifies texts' out && grep -q '2 classes (neg, pos), pooling mean' out || complain "info: $(cat out)"
succeeds "$BOCHNER" info deen --json
expect "layers of the encoder" "$(field out encoder_layers)" == 1
expect "bytes of a hypothesis" "$(field out state_bytes)" ">" 0
[ "$(field out task)" = translate ] || complain "task $(field out task)"
succeeds "$BOCHNER" info twins --json
[ "$(field out pooling)" = mean ] || complain "pooling $(field out pooling)"
finish
