# Directories with paths of almost 4,096 bytes, the limit of the system: runs and linearizations work there, and are
# refused before any computation if the paths of their files would be too long.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { for (i = 0; i < 200; i++) print "the cat number " i " sleeps." }' >text.txt
tiny="--attention softmax --layers 1 --width 8 --heads 1 --context 16 --batch 1 --steps 2 --checkpoint-every 1 --quiet"
small="--attention dark --features 8 --lora 2 --calibrate-tokens 32 --transfer-steps 1 --steps 1 --no-timing --batch 1 --eval-tokens 64 --quiet"
mkdir "$(printf 'd%.0s' $(seq 200))"
# path LENGTH NAME: a path of this length to NAME in that directory, which is not created
path() {
    awk -v directory="$(ls -d d*)" -v length_="$1" -v name="$2" 'BEGIN { p = directory "/"
        while (length(p) + length(name) + 204 < length_) p = p "../" directory "/"
        while (length(p) + length(name) < length_ - 1) p = p "./"
        while (length(p) + length(name) < length_) p = p "/"
        print p name }'
}

run=$(path 3950 run)
[ ${#run} -eq 3950 ] || complain "the path has ${#run} bytes"
# shellcheck disable=SC2086
succeeds "$BOCHNER" train --data text.txt --out "$run" $tiny
rm -r "$run/checkpoints/step-2"
succeeds "$BOCHNER" train --resume --out "$run" --quiet
succeeds "$BOCHNER" generate "$run" --prompt "the " --tokens 2 --greedy --quiet
# shellcheck disable=SC2086
fails 1 "too long for a run: 3951 bytes, expected at most 3950" "$BOCHNER" train --data text.txt --out "$(path 3951 longer)" $tiny

linear=$(path 3900 linear)
# shellcheck disable=SC2086
{
    succeeds "$BOCHNER" linearize "$run" --data text.txt --out "$linear" $small
    succeeds "$BOCHNER" generate "$linear" --prompt "the " --tokens 2 --greedy --quiet
    for length in 3901 4001 4060; do
        fails 1 "too long: $length bytes, expected at most 3900" "$BOCHNER" linearize "$run" --data text.txt --out "$(path $length other)" $small
    done
}

# bochner lora writes a model and the directory of its adapter; the server writes names of states into the directory of
# its cache.
succeeds "$BOCHNER" train --init "$run" --data text.txt --out adapter --lora 2 --steps 1 --batch 1 --quiet
merged=$(path 4000 merged)
succeeds "$BOCHNER" lora merge adapter --out "$merged" --quiet
succeeds "$BOCHNER" generate "$merged" --prompt "the " --tokens 2 --greedy --quiet
[ -s "$merged/adapter/adapter_model.safetensors" ] || complain "the merged model lacks its adapter"
for length in 4001 4050; do
    fails 2 "too long: $length bytes, expected at most 4000" "$BOCHNER" lora merge adapter --out "$(path $length other)" --quiet
done
fails 1 "the cache directory is too long: 4001 bytes, expected at most 4000" "$BOCHNER" serve "$run" --port 0 --cache-dir "$(path 4001 other)"
rm -r "$merged"
[ "$(ls d*)" = "$(printf 'linear\nrun')" ] || complain "something else was written: $(ls d*)"
[ "$(ls "$linear" | tr '\n' ' ')" = "adapter config.json finetune generation_config.json linearize.json model.safetensors tokenizer.json tokenizer_config.json transfer " ] ||
    complain "the linearization lacks files: $(ls "$linear")"
finish
