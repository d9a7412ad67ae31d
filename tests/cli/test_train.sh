# bochner train: first use and common errors; bochner eval of the result.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); split("sleeps,eats,runs away", d, ",");
    for (i = 0; i < 1500; i++) { k = 1 + int(4 * rand()); print "the " a[k] " " d[1 + k % 3] "." } }' >text.txt
small="--layers 2 --width 16 --heads 2 --context 32 --batch 4 --features 16 --threads 2"

# The plan is printed first, the model is complete, and the numbers agree everywhere.
succeeds "$BOCHNER" train --data text.txt --out run $small --steps 60 --eval-every 30 --lr 0.05 --other-lr 0.02 --plot loss.svg --json
for words in "tokens for training" "parameters" "about" "state per sequence" "Step     60/60"; do
    grep -q -- "$words" err || complain "the notes lack '$words': $(cat err)"
done
cp out report
expect "the loss after training" "$(field report valid_loss)" "<" 4
expect "tokens" "$(field report tokens)" == 7680
for file in config.json model.safetensors tokenizer.json metrics.jsonl train.json best/model.safetensors checkpoints/step-60/training.json; do
    [ -s "run/$file" ] || complain "run/$file is missing"
done
command -v gnuplot >/dev/null && ! grep -q "</svg>" loss.svg && complain "no plot of the losses"
expect "lines of metrics" "$(wc -l <run/metrics.jsonl)" == 20
succeeds "$BOCHNER" eval run --data text.txt --last 0.1 --json
expect "eval's loss, on more tokens" "$(field out loss)" "<" 4
expect "perplexity" "$(awk -v l="$(field out loss)" 'BEGIN { print exp(l) }')" ">" 1
tokens=$(($(wc -c <text.txt) / 10))
expect "tokens evaluated" "$(field out tokens)" "<=" "$tokens"
succeeds "$BOCHNER" eval run --data text.txt --context 5000 --tokens 9000 --json
expect "requested tokens" "$(field out tokens)" == 9000
state=$(field out state_bytes)
succeeds "$BOCHNER" eval run --data text.txt --tokens 900 --json
expect "the state's size whatever the context" "$(field out state_bytes)" == "$state"

# The same seed gives the same model for any number of threads; another seed gives another model.
succeeds "$BOCHNER" train --data text.txt --out again $small --threads 1 --steps 60 --eval-every 30 --lr 0.05 --other-lr 0.02 --quiet
cmp -s run/model.safetensors again/model.safetensors || complain "another number of threads gives another model"
succeeds "$BOCHNER" train --data text.txt --out other $small --steps 60 --eval-every 30 --lr 0.05 --other-lr 0.02 --seed 1 --quiet
cmp -s run/model.safetensors other/model.safetensors && complain "another seed gives the same model"

# Options from a file; the command line has precedence.
echo '{"data": ["text.txt"], "layers": 1, "width": 16, "heads": 2, "context": 16, "steps": 3, "untied": true, "bias": false}' >options.json
succeeds "$BOCHNER" train --config options.json --out configured --layers 2
grep -q "2 layers, width 16" err || complain "--config and --layers: $(cat err)"
echo '{"layres": 1}' >wrong.json
fails 2 "layres|wrong.json" "$BOCHNER" train --config wrong.json --data text.txt --out no
echo '[1]' >wrong.json
fails 2 "wrong.json|object" "$BOCHNER" train --config wrong.json --data text.txt --out no
fails 1 "nowhere.json|No such file" "$BOCHNER" train --config nowhere.json --data text.txt --out no

# A trained model with another attention: matching weights are kept, new ones are reported.
succeeds "$BOCHNER" train --data text.txt --out swapped --init run --attention delta --steps 2
grep -q "of .* tensors loaded from run" err || complain "--init prints no message: $(cat err)"
grep -qi "self_attn" err || complain "what is new is not named: $(cat err)"
succeeds "$BOCHNER" train --data text.txt --out frozen --init run --freeze model.layers.0,model.embed --steps 2 --quiet
fails 1 "freeze|no.such" "$BOCHNER" train --data text.txt --out no1 --init run --freeze no.such --steps 2 --quiet
fails 1 "a… has 256 bytes, expected at most 255" "$BOCHNER" train --data text.txt --out no1 --init run --freeze "$(printf 'a%.0s' $(seq 256))" --steps 2 --quiet
fails 2 "attention" "$BOCHNER" train --data text.txt --out no --init run --features 8 --steps 2

# Resuming needs only the directory; a run with different options is refused with their names.
succeeds "$BOCHNER" train --resume --out run --quiet
succeeds "$BOCHNER" train --resume --out run
grep -q "already completed all 60 steps" err || complain "a complete run is not reported as complete: $(cat err)"
fails 1 "run|already contains a run|resume" "$BOCHNER" train --data text.txt --out run $small --steps 60 --quiet

# Modified options of a run on disk are refused; without the checksum they count as an edited file.
cp run/train.json kept.json
sed -i 's/"batch": 4/"batch": 5/' run/train.json
fails 1 "train.json|damaged|checksum" "$BOCHNER" train --resume --out run --quiet
fails 1 "train.json|damaged|checksum" "$BOCHNER" train --config run/train.json --out other --quiet
for text in '{' '{"nonsense": 3}' '[]'; do
    echo "$text" >run/train.json
    fails 1 "train.json" "$BOCHNER" train --resume --out run --quiet
done
cp kept.json run/train.json
sed -i 's/"batch": 4/"batch": 5/' run/train.json
sed -i '/"checksum"/d' run/train.json
fails 1 "different batch|expected 4|found 5" "$BOCHNER" train --resume --out run --quiet
cp kept.json run/train.json
fails 1 "layers|expected 2|found 3" "$BOCHNER" train --resume --out run --layers 3 --quiet
fails 1 "steps|expected 60|found 70" "$BOCHNER" train --resume --out run --steps 70 --quiet
fails 1 "batch|expected 4|found 8" "$BOCHNER" train --resume --out run --batch 8 --quiet
fails 1 "different seed" "$BOCHNER" train --resume --out run --seed 4 --quiet
head -c 20000 text.txt >other.txt
fails 1 "corpus" "$BOCHNER" train --resume --out run --data other.txt --quiet

# A run resumes from any directory, and its own directory may have parents that do not exist yet.
succeeds "$BOCHNER" train --data text.txt --out new/directories/run $small --steps 3 --quiet
mkdir elsewhere
(cd elsewhere && "$BOCHNER" train --resume --out ../new/directories/run --quiet >out 2>err) ||
    complain "a run cannot be resumed from another directory: $(head -c 300 elsewhere/err)"

# A directory that contains another model is not changed.
mkdir foreign
echo '{}' >foreign/config.json
fails 1 "foreign/config.json|another directory" "$BOCHNER" train --data text.txt --out foreign $small --steps 2
fails 2 "no directory nowhere" "$BOCHNER" train --resume --out nowhere
fails 2 "clip" "$BOCHNER" train --data text.txt --out no $small --steps 2 --clip 0

# Bad input is reported before the work starts.
: >empty.txt
echo "too short" >short.txt
fails 1 "empty.txt" "$BOCHNER" train --data empty.txt --out no --steps 2
fails 1 "context|32" "$BOCHNER" train --data short.txt --out no $small --steps 2 --valid-fraction 0
fails 1 "missing.txt" "$BOCHNER" train --data missing.txt --out no --steps 2
printf '%%PDF-1.4 and more' >paper.pdf
fails 1 "paper.pdf: expected text|found a PDF document" "$BOCHNER" train --data paper.pdf --out no --steps 2
fails 1 "paper.pdf: expected text|found a PDF document" "$BOCHNER" train --data text.txt --valid paper.pdf --out no --steps 2
fails 1 "paper.pdf: expected text|found a PDF document" "$BOCHNER" eval run --data paper.pdf
fails 1 "paper.pdf|supported|Hugging Face" "$BOCHNER" eval paper.pdf --data text.txt
fails 1 "paper.pdf|supported|bochner fit --out" "$BOCHNER" info paper.pdf
mkdir hollow
fails 1 "hollow: not a model directory|config.json" "$BOCHNER" eval hollow --data text.txt
fails 1 "hollow: not a model directory|config.json" "$BOCHNER" generate hollow
fails 2 "out" "$BOCHNER" train --data text.txt --steps 2
fails 2 "data" "$BOCHNER" train --out no --steps 2
fails 2 "steps|minutes" "$BOCHNER" train --data text.txt --out no --steps 2 --minutes 1
fails 2 "expected one of|rfa-gate" "$BOCHNER" train --data text.txt --out no --attention rfagate
fails 2 "window|hybrid" "$BOCHNER" train --data text.txt --out no --attention rfa --window 8
fails 1 "heads" "$BOCHNER" train --data text.txt --out no --width 30 --heads 4 --steps 2
fails 1 "memory|but the limit is" "$BOCHNER" train --data text.txt --out no --layers 4096 --width 16384 --heads 16 --steps 2
fails 1 "memory|but the limit is|--checkpointing" "$BOCHNER" train --data text.txt --out no $small --layers 64 --batch 400000 --micro-batch 400000 --steps 2
fails 1 "/proc/nowhere" "$BOCHNER" train --data text.txt --out /proc/nowhere $small --steps 2
[ -e no ] && complain "a run that was refused left $(ls -A no)"
cp -r run lies
rm lies/config.json
sed 's/"hidden_size": *16/"hidden_size": 32/' run/config.json >lies/config.json
cmp -s run/config.json lies/config.json && complain "the test's config.json does not lie"
fails 1 "lies" "$BOCHNER" eval lies --data text.txt
fails 1 "nowhere" "$BOCHNER" eval nowhere --data text.txt
fails 1 "step|NaN or infinit" "$BOCHNER" train --data text.txt --out nan $small --optim sgd --lr 1e38 --clip -1 --steps 50 --quiet

# Stopped with Ctrl-C: the current step is saved, and the command to resume is printed.
attended "$BOCHNER" train --data text.txt --out stopped $small --steps 100000 >out 2>err &
job=$!
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    sleep 0.2
    [ -s stopped/metrics.jsonl ] && break
done
kill -INT $job
wait $job
status=$?
[ $status -eq 130 ] || complain "exit status $status after Ctrl-C: $(tail -c 300 err)"
grep -q "bochner train --resume --out stopped" err || complain "the command to resume is not printed: $(tail -c 300 err)"
ls stopped/checkpoints | grep -q step- || complain "no checkpoint after Ctrl-C"
finish
