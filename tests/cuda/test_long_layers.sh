# bochner linearize on a GPU: models with as many layers as an operation has inputs, with one more, and with 80. The error of each
# layer is that of the CPU.
. "$BOCHNER_SOURCE/tests/cuda/common.sh"
few="--attention dark --features 8 --lora 2 --calibrate-tokens 32 --transfer-steps 1 --steps 1 --batch 1 --eval-tokens 64"
few="$few --precision float32 --no-timing --quiet --json"
for layers in 16 17 80; do
    succeeds "$BOCHNER" train --data text.txt --out base-$layers --attention softmax --layers $layers --width 8 --heads 1 --context 16 \
        --steps 1 --valid-fraction 0 --batch 1 --quiet
    for device in cpu cuda; do
        succeeds "$BOCHNER" linearize base-$layers --data text.txt --out $device-$layers $few --device $device
        grep '"layer_errors"' out | tr -d ' []' | sed 's/.*://; s/,$//' | tr ',' '\n' >errors-$device
        near "$layers layers: perplexity" "$(field out perplexity_ratio)" 1 0.1
    done
    paste errors-cpu errors-cuda | awk -v layers=$layers '{ d = $1 - $2; if (d < 0) d = -d }
        !($1 > 0 && d < 0.01 * $1) { print "layer " NR - 1 ": " $0; bad = 1 }
        END { exit bad || NR != layers }' >differences ||
        complain "$layers layers: $(wc -l <errors-cuda) errors on the GPU: $(cat differences)"
done
finish
