# bochner train --model: a network on a table, images and a graph; eval, predict and info of its directory.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
# Three classes around three corners, and a numeric target.
awk 'BEGIN { srand(2); print "a,b,kind"; split("red,green,blue", names, ",");
    for (i = 0; i < 240; i++) { k = i % 3; printf "%.4f,%.4f,%s\n", cos(2 * k) + 0.2 * rand(), sin(2 * k) + 0.2 * rand(), names[k + 1] } }' >table.csv
cat >mlp.json <<END
{"input": {"kind": "array"},
 "layers": [{"name": "hidden", "type": "linear", "width": 8}, {"type": "tanh"}, {"type": "linear", "width": "classes"}],
 "loss": "cross-entropy"}
END
succeeds "$BOCHNER" train --model mlp.json --data table.csv --target kind --out net --epochs 20 --batch 24 --json --quiet
expect "accuracy" "$(field out valid_accuracy)" ">" 0.95
expect "parameters" "$(field out parameters)" == 51
expect "examples" "$(field out examples)" == 4320
succeeds "$BOCHNER" eval net --data table.csv --json
expect "accuracy of all" "$(field out accuracy)" ">" 0.95
succeeds "$BOCHNER" eval net/best --data table.csv
grep -q "^Accuracy" out || complain "eval prints no accuracy: $(cat out)"
succeeds "$BOCHNER" predict net table.csv --proba --out p.csv
[ "$(head -1 p.csv)" = "prediction,blue,green,red" ] || complain "columns are $(head -1 p.csv)"
[ "$(wc -l <p.csv)" -eq 241 ] || complain "$(wc -l <p.csv) lines of predictions"
succeeds "$BOCHNER" predict net table.csv
[ "$(sed -n 2p out)" = red ] || complain "the first row is $(sed -n 2p out)"
succeeds "$BOCHNER" info net
for words in "a network with 3 layers and 51 parameters" "array, 2 numbers" "3 classes, loss cross-entropy" "hidden  *linear  *8  *24"; do
    grep -q "$words" out || complain "info lacks '$words': $(cat out)"
done
succeeds "$BOCHNER" info net --json
[ "$(field out holds)" = network ] || complain "holds $(field out holds)"
succeeds "$BOCHNER" info net --graph net.dot --repeats 1
grep -q 'a training step of 32 examples' out || complain "no profile of a network: $(cat out)"
grep -q '<B>linear</B>' net.dot || complain "net.dot has no linear layer"

# A stopped run resumes from any directory and ends with the same weights.
run="--model mlp.json --data table.csv --batch 24 --quiet --seed 5"
succeeds "$BOCHNER" train $run --out whole --steps 30
succeeds "$BOCHNER" train $run --out cut --steps 30 --checkpoint-every 10
rm -rf cut/checkpoints/step-30 cut/checkpoints/step-20.part
mkdir -p elsewhere
(cd elsewhere && succeeds "$BOCHNER" train --resume --out ../cut --quiet) || complain "the run was not resumed"
cmp -s whole/model.safetensors cut/model.safetensors || complain "a resumed run has other weights"
sed 's/tanh/relu/' mlp.json >other.json
fails 1 "cannot be resumed with a different network" "$BOCHNER" train --resume --out cut --model other.json --quiet
fails 1 "cannot be resumed with a different" "$BOCHNER" train --resume --out cut --width-multiplier 2 --quiet
fails 1 "cannot be resumed with a different network" "$BOCHNER" train --resume --out cut --mup --quiet

if command -v gnuplot >/dev/null; then
    succeeds "$BOCHNER" train $run --out drawn --steps 12 --plot loss.svg
    grep -q "cross-entropy" loss.svg || complain "the plot does not show the loss"
fi

# A graph: a ring of two halves whose nodes have weak features.
awk 'BEGIN { srand(4); for (i = 0; i < 120; i++) printf "%.4f,%.4f\n", (i % 2) + 2 * rand(), rand() }' >nodes.csv
awk 'BEGIN { for (i = 0; i < 120; i++) print i % 2 ? "odd" : "even" }' >labels.csv
awk 'BEGIN { for (i = 0; i < 120; i++) for (k = 2; k <= 8; k += 2) print i "," (i + k) % 120 }' >edges.csv
awk 'BEGIN { for (i = 0; i < 120; i++) print i % 5 == 0 ? "train" : i % 5 == 1 ? "valid" : "test" }' >split.csv
graph="--graph edges.csv --undirected --self-loops --split split.csv --labels labels.csv"
succeeds "$BOCHNER" train --model "$BOCHNER_SOURCE/examples/networks/graph.json" --data nodes.csv $graph --out graph --epochs 60 --quiet --json
succeeds "$BOCHNER" eval graph --data nodes.csv $graph --part test --json
expect "accuracy of nodes" "$(field out accuracy)" ">" 0.85
expect "nodes to test" "$(field out examples)" == 72
succeeds "$BOCHNER" predict graph nodes.csv --graph edges.csv --undirected --self-loops
[ "$(wc -l <out)" -eq 121 ] || complain "$(wc -l <out) lines of nodes"

# An autoencoder: every column is an input.
cut -d, -f1,2 table.csv >points.csv
succeeds "$BOCHNER" train --model "$BOCHNER_SOURCE/examples/networks/autoencoder.json" --data points.csv --out auto --epochs 60 --quiet --json
expect "error of points" "$(field out valid_rmse)" "<" 0.3
succeeds "$BOCHNER" predict auto points.csv
[ "$(head -1 out)" = "a,b" ] || complain "columns of an autoencoder are $(head -1 out)"

# Errors are reported before the work starts.
fails 1 "mlp.json takes array|leave out --graph" "$BOCHNER" train --model mlp.json --data table.csv --graph edges.csv --out no
fails 1 "line 3|from 0 to 119, found 120" "$BOCHNER" train --model "$BOCHNER_SOURCE/examples/networks/graph.json" --data nodes.csv \
    --labels labels.csv --graph bad.csv --out no <<END
$(printf '0,1\n1,2\n120,3\n' >bad.csv)
END
fails 2 "--layers is an option of text models" "$BOCHNER" train --model mlp.json --data table.csv --layers 2 --out no
fails 2 "--labels is an option of networks" "$BOCHNER" train --data table.csv --labels labels.csv --out no
fails 2 "one of --epochs, --steps and --minutes" "$BOCHNER" train --model mlp.json --data table.csv --epochs 2 --steps 2 --out no
fails 1 "nowhere.json" "$BOCHNER" train --model nowhere.json --data table.csv --out no
echo '{"input": {"kind": "array"}, "layers": [{"name": "h", "type": "liner"}], "loss": "mse"}' >bad.json
fails 1 "bad.json: layer 1 (h): there is no type|did you mean \"linear\"?" "$BOCHNER" train --model bad.json --data table.csv --out no
echo '{"input": {"kind": "array"}, "layers": [{"name": "h", "type": "linear", "widht": 4}], "loss": "mse"}' >bad.json
fails 1 "linear: unknown member \"widht\"|did you mean \"width\"?" "$BOCHNER" train --model bad.json --data table.csv --out no
echo '{"input": {"kind": "array"}, "layers": [{"type": "linear", "width": 4, "width": 5}], "loss": "mse"}' >bad.json
fails 1 "has the member \"width\" twice" "$BOCHNER" train --model bad.json --data table.csv --out no

# Targets that do not fit the loss.
fails 1 "'b' has|values in 240 rows|looks numeric: use the loss mse" "$BOCHNER" train --model mlp.json --data points.csv --out no
sed 's/classes/targets/; s/cross-entropy/bce/' mlp.json >bce.json
fails 1 "loss bce: targets should be from 0 to 1|(b) has" "$BOCHNER" train --model bce.json --data points.csv --out no
sed 's/bce/kl/' bce.json >kl.json
fails 1 "loss kl|two or more columns, but the data has 1" "$BOCHNER" train --model kl.json --data points.csv --out no
sed 's/green\|blue/red/' table.csv >red.csv
fails 1 "at least two classes, found 1" "$BOCHNER" train --model mlp.json --data red.csv --out no
(echo kind && cat labels.csv labels.csv | sed 1d) >short.csv
fails 1 "short.csv: expected 240 labels|found 239 below the header 'kind'" "$BOCHNER" train --model mlp.json --data points.csv --labels short.csv --out no

# Options that need another option, or apply to another kind of model.
fails 2 "--part needs --split" "$BOCHNER" eval net --data table.csv --part test
fails 2 "--part needs --split" "$BOCHNER" predict net table.csv --part test
fails 2 "--weights does not apply to networks" "$BOCHNER" eval net --data table.csv --weights int8
fails 2 "--std does not apply to networks" "$BOCHNER" predict net table.csv --std
fails 2 "--labels applies to networks only" "$BOCHNER" eval nowhere --data table.csv --labels labels.csv
fails 2 "--lambda needs --readout ridge" "$BOCHNER" train --model mlp.json --data table.csv --lambda 3 --out no
fails 1 "net holds a network" "$BOCHNER" generate net --tokens 1
fails 1 "net holds a network" "$BOCHNER" lora merge net --out no
fails 1 "net holds a network" "$BOCHNER" train --init net --data table.csv --out no
mkdir words && echo '{}' >words/config.json
fails 1 "words/config.json: not the configuration of a model" "$BOCHNER" predict words table.csv
for command in "generate net --prompt x" "chat net" "inspect net" "linearize net --data table.csv --out no" "serve net --port 0" \
    "train --init net --data table.csv --out no"; do
    # shellcheck disable=SC2086
    fails 1 "net holds a network, expected a text model" "$BOCHNER" $command
done

# A network as one file, of an earlier version and of this one: without a checksum.
frozen=$BOCHNER_SOURCE/tests/frozen/d78e7484/networks/memory.safetensors
succeeds "$BOCHNER" info "$frozen"
fails 1 "holds a network, expected a text model" "$BOCHNER" generate "$frozen" --prompt x
python3 - <<'END'
import json, struct
with open("net/model.safetensors", "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    data = file.read()
with open("net/config.json") as file:
    header["__metadata__"] = {"format": "pt", "config.json": file.read()}
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open("net.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
END
succeeds "$BOCHNER" predict net table.csv --out directory.csv
succeeds "$BOCHNER" predict net.safetensors table.csv --out file.csv
cmp directory.csv file.csv || complain "a network as one file predicts something else"
succeeds "$BOCHNER" eval net.safetensors --data table.csv
fails 1 "net.safetensors holds a network, expected a text model" "$BOCHNER" generate net.safetensors --prompt x
sed 's/classes/targets/; s/cross-entropy/mse/; s/"width": 8/"width": 300/' mlp.json >wide.json
fails 1 "lambda 0 has no solution, use a larger one" "$BOCHNER" train --model wide.json --data points.csv --readout ridge --lambda 0 --out no
[ -e no ] && complain "a directory was made though nothing was trained"
finish
