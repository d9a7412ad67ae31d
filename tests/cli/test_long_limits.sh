# Hostile files in place of every input file of the program: a link to an endless device, a pipe without a writer, a
# directory, a huge sparse file, a gzip file that expands to gigabytes. Each is refused quickly, with its name and the
# reason, and within an address space that such a file would exceed.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
[ -n "$SANITIZE" ] || ulimit -v 3000000 # KiB; sanitizers reserve terabytes

house 60 1 >table.csv
awk 'BEGIN { for (i = 0; i < 400; i++) print "the cat eats." }' >text.txt
awk 'BEGIN { for (i = 0; i < 40; i++) print (i % 2 ? "good" : "bad") "\tthe cat eats." }' >lines.tsv
echo '{"input": {"kind": "array"}, "layers": [{"type": "linear", "width": 1}], "loss": "mse"}' >mlp.json
small="--layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 1 --features 8 --threads 1 --quiet"
succeeds "$BOCHNER" fit table.csv --target price --features 8 --out machine --threads 1 --quiet
succeeds "$BOCHNER" train --data text.txt --out model --vocab 270 $small
succeeds "$BOCHNER" train --data text.txt --out adapter --lora 2 --init model --batch 2 --steps 1 --threads 1 --quiet
succeeds "$BOCHNER" train --model mlp.json --data table.csv --target price --out net --steps 1 --threads 1 --quiet
succeeds "$BOCHNER" generate model --prompt "the" --tokens 2 --quiet --save-state state
# 16 MiB of zeros expand from 16 KiB. Members of gzip files are concatenated: 2 GiB.
head -c 16777216 /dev/zero | gzip -9 >zeros.gz
for i in 1 2 3 4 5 6 7; do cat zeros.gz zeros.gz >twice && mv twice zeros.gz; done
echo '{' | gzip | cat - zeros.gz >bomb

# hostile KIND FILE: replaces the file.
hostile() {
    rm -rf "$2"
    case $1 in
    device) ln -s /dev/zero "$2" ;;
    pipe) mkfifo "$2" ;;
    directory) mkdir "$2" ;;
    sparse) truncate -s 400G "$2" ;;
    bomb | ratio) cp bomb "$2" ;;
    esac
}

# refuses KINDS FILE COMMAND...: the command fails for each kind of file in the place of FILE, and names it.
refuses() {
    kinds=$1
    file=$2
    shift 2
    [ -e "$file" ] && mv "$file" original
    for kind in $kinds; do
        hostile $kind "$file"
        case $kind in
        device | pipe | directory) words="not a regular file|(it is a $kind" ;;
        sparse) words="429,496,729,600 bytes, expected at most " ;;
        bomb) words="bytes, expected at most" ;;
        ratio) words="expands to more than 250 times its size" ;;
        esac
        fails 1 "$file|$words" timeout 20 "$@" </dev/null
        rm -rf "$file"
    done
    [ -e original ] && mv original "$file"
}

mapped="device pipe directory" # weights have any size, and are not compressed
stream="device directory"      # a pipe is an input
for name in config.json tokenizer.json; do
    all="device pipe directory sparse $([ $name = config.json ] && echo bomb || echo ratio)"
    refuses "$all" model/$name "$BOCHNER" info model
    refuses "$all" model/$name "$BOCHNER" generate model --prompt a --tokens 1
done
all="device pipe directory sparse bomb"
refuses "$mapped" model/model.safetensors "$BOCHNER" info model
refuses "$all" model/checkpoints/step-1/training.json "$BOCHNER" train --resume --out model
for kind in device pipe directory sparse; do
    mv model/metrics.jsonl original
    hostile $kind model/metrics.jsonl
    fails 1 "model/metrics.jsonl: |$([ $kind = sparse ] && echo large || echo not a regular file)" timeout 20 "$BOCHNER" compare model
    rm -rf model/metrics.jsonl
    mv original model/metrics.jsonl
done
refuses "$all" adapter/adapter_config.json "$BOCHNER" generate adapter --prompt a --tokens 1
refuses "$mapped" adapter/adapter_model.safetensors "$BOCHNER" generate adapter --prompt a --tokens 1
refuses "device pipe directory sparse ratio" net/config.json "$BOCHNER" predict net table.csv
refuses "$mapped" net/model.safetensors "$BOCHNER" predict net table.csv
refuses "$mapped" state "$BOCHNER" generate model --load-state state --tokens 1
refuses "device pipe" machine "$BOCHNER" predict machine table.csv
refuses "device pipe sparse ratio" given.json "$BOCHNER" tokenizer encode given.json
refuses "$all" calibration.json "$BOCHNER" plan --threads 1 --minutes 1 --calibration calibration.json
refuses "device pipe directory sparse" model/train.json "$BOCHNER" train --resume --out model
refuses "$stream sparse" described.json "$BOCHNER" train --model described.json --data table.csv --out none
refuses "$all" gnn.json "$BOCHNER" lab report --out .
refuses "$stream" table.csv "$BOCHNER" fit table.csv --target price --out none
refuses "$stream" table.csv "$BOCHNER" predict machine table.csv
refuses "$stream" q.npy "$BOCHNER" attention --q q.npy --k q.npy --v q.npy --kind softmax
refuses "$stream sparse ratio" text.txt "$BOCHNER" train --data text.txt --out none $small
refuses "$stream sparse ratio" lines.tsv "$BOCHNER" train --task classify --data lines.tsv --out none $small
for name in train.json checkpoints/step-1/training.json; do
    mv model/$name original
    for kind in $all; do
        hostile $kind model/$name
        timeout 20 "$BOCHNER" compare model >out 2>err </dev/null
        [ $? -lt 2 ] || complain "compare: $kind as $name: $(cat err)"
        rm -rf model/$name
    done
    mv original model/$name
done
"$BOCHNER" tokenizer encode model </dev/zero >out 2>err && complain "an endless text was encoded"
grep -q "standard input: .*bytes" err || complain "an endless standard input: $(cat err)"
finish
