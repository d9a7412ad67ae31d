# bochner convert: its output, its files and refusals. tests/model/test_convert.c checks the results.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
. "$BOCHNER_SOURCE/tests/foreign.sh"
tiny_llama2c model.bin
tiny_words tokenizer.bin
tiny_gguf model.gguf

succeeds "$BOCHNER" convert model.bin --tokenizer tokenizer.bin --out one
for words in "llama2.c version 0, llama, 1 layer of width 8, context 16" "608, as F32 (11 tensors)" \
    "SentencePiece BPE, 5 tokens" "Model       one: "; do
    grep -qF "$words" out || complain "the output lacks '$words': $(cat out)"
done
grep -q "^Next: bochner generate one" err || complain "no next command: $(cat err)"
for file in config.json generation_config.json tokenizer.json tokenizer_config.json model.safetensors; do
    [ -s one/$file ] || complain "no $file"
done
[ "$(ls one | wc -l)" -eq 5 ] || complain "other files: $(ls one)"
succeeds "$BOCHNER" generate one --prompt "a a" --tokens 3 --greedy --quiet
succeeds "$BOCHNER" info one

succeeds "$BOCHNER" convert model.gguf --out "two words" --dtype bfloat16 --json
[ "$(field out format)" = '"GGUF version 3"' ] || [ "$(field out format)" = "GGUF version 3" ] || complain "format: $(cat out)"
expect parameters "$(field out parameters)" == 608
expect bytes "$(field out bytes)" == 1216
[ -s err ] && complain "--json wrote to standard error: $(cat err)"
succeeds "$BOCHNER" generate "two words" --prompt "a" --tokens 3 --greedy --quiet
succeeds "$BOCHNER" convert model.gguf --out three --shard 1K --quiet
[ -s three/model.safetensors.index.json ] || complain "no index of the shards"
succeeds "$BOCHNER" convert model.bin --out four # without a tokenizer
grep -q "no tokenizer; give --tokenizer tokenizer.bin" err || complain "no warning: $(cat err)"
[ -e four/tokenizer.json ] && complain "a tokenizer was made up"

# A model directory is written again: with shards joined, with the same text, in fewer bytes.
succeeds "$BOCHNER" generate three --prompt "a" --tokens 3 --greedy --quiet
cp out text
succeeds "$BOCHNER" convert three --out joined
succeeds "$BOCHNER" generate joined --prompt "a" --tokens 3 --greedy --quiet
cmp -s out text || complain "a directory that was written again gives another text"
grep -q '"model_type": "llama"' joined/config.json || complain "the model type changed: $(cat joined/config.json)"
succeeds "$BOCHNER" convert three --out half --dtype bfloat16 --json
[ "$(wc -c <half/model.safetensors)" -lt "$(wc -c <joined/model.safetensors)" ] || complain "bfloat16 is not smaller"

# an existing model is not replaced
cp one/config.json kept.json
fails 2 "--out one: the directory already holds a model" "$BOCHNER" convert model.gguf --out one
cmp -s one/config.json kept.json || complain "the model was replaced"
mkdir source
cp model.gguf source/model.safetensors # a strange name, but it is the source
fails 2 "--out source: the directory already holds a model (model.safetensors)" "$BOCHNER" convert source/model.safetensors --out source
cmp -s model.gguf source/model.safetensors || complain "the source was replaced"
fails 2 "--out model.gguf: a file of this name exists" "$BOCHNER" convert model.bin --out model.gguf
fails 2 "no output directory" "$BOCHNER" convert model.gguf
fails 2 "expected one file or directory, found 2" "$BOCHNER" convert model.gguf model.bin --out five
fails 2 "--shard does not apply to a model directory" "$BOCHNER" convert one --out five --shard 1K
fails 2 "float32 or bfloat16" "$BOCHNER" convert one --out five --dtype float16
fails 2 "--dtype" "$BOCHNER" convert model.gguf --out five --dtype int8
fails 1 "No such file" "$BOCHNER" convert absent.gguf --out five
fails 1 "a GGUF file has its own tokenizer" "$BOCHNER" convert model.gguf --tokenizer tokenizer.bin --out five

# other commands suggest bochner convert, also for a damaged file
{ printf GGUF; zeros 4; } >"a b.gguf"
echo '{{ messages }}' >any.jinja
# foreign FORMAT FILE QUOTED_FILE
foreign() {
    advice="$2 is a $1 model|bochner convert $3 --out DIR"
    fails 1 "$advice" "$BOCHNER" generate "$2" --prompt a
    fails 1 "$advice" "$BOCHNER" eval "$2" --data any.jinja
    fails 1 "$advice" "$BOCHNER" chat "$2" </dev/null
    fails 1 "$advice" "$BOCHNER" chat "$2" --template any.jinja </dev/null
    fails 1 "$advice" "$BOCHNER" info "$2"
}
foreign GGUF model.gguf model.gguf
foreign GGUF "a b.gguf" "'a b.gguf'"
foreign "llama2.c version 0" model.bin model.bin

# damaged files
head -c 1000 model.gguf >short.gguf
fails 1 "short.gguf: |truncated" "$BOCHNER" convert short.gguf --out five
head -c 1000 model.bin >short.bin
fails 1 "short.bin: |truncated" "$BOCHNER" convert short.bin --out five
echo "this is text, and longer than a header of a model" >text.txt
fails 1 "text.txt: not a model of llama2.c, or damaged" "$BOCHNER" convert text.txt --out five
: >empty
fails 1 "expected a header of 28 bytes, found a file of 0 bytes" "$BOCHNER" convert empty --out five
{ printf GGUF; word 3; printf '\0\0\0\0\0\0\0\200'; zeros 100; } >hostile.gguf
fails 1 "the number of tensors at byte 8 is 9223372036854775808" "$BOCHNER" convert hostile.gguf --out five
[ -e five ] && complain "a directory was made for a file that cannot be converted"

# Every command that reads a model or its tokenizer identifies a GGUF file.
echo "a a a a" >text.txt
for words in "generate model.gguf --prompt a" "chat model.gguf" "eval model.gguf --data text.txt" "info model.gguf" \
    "train --init model.gguf --data text.txt --out never" "linearize model.gguf --data text.txt --out never"; do
    fails 1 "model.gguf is a GGUF model, which must be converted first: bochner convert model.gguf --out DIR" "$BOCHNER" $words --quiet
done
for words in "lora merge model.gguf --out never" "lora unmerge model.gguf --out never"; do
    fails 1 "model.gguf: expected a model directory|found a GGUF model; convert it" "$BOCHNER" $words --quiet
done
fails 1 "expected a tokenizer.json or the directory of a model, found a GGUF model" "$BOCHNER" tokenizer encode model.gguf --quiet
fails 1 "one: not the directory of an adapter: it has no adapter_config.json" "$BOCHNER" lora merge one --out never --quiet
[ -e never ] && complain "something was written: $(find never)"
finish
