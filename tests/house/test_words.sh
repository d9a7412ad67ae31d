# The text that people read avoids phrases that only insiders understand: documentation, headers, help, messages, comments.
# Each row of `phrases` is an extended regular expression, followed by what to write instead.
set -eu
cd "$BOCHNER_SOURCE"
phrases=$(mktemp)
found=$(mktemp)
trap 'rm -f "$phrases" "$found"' EXIT
cat >"$phrases" <<'END'
unless given|(default: ...)
said aloud|reported
one's own|its own, custom
what it is worth|its value, its quality
what is none|what is not one
nowhere to put|NAME is NULL
others than|other than
so many (tokens|rows|bytes|steps|columns|features|sequences|times|seconds|keys|layers|of)|this many
(begins?|begun|starts?|fitted|made) anew|again, from the start
(bits|nats) a (byte|token)|per byte
(tokens|bytes|rows|steps|examples|operations) a (second|minute)|per second
one (positive number )?a (row|column|line|token|layer|head|step|key|channel)([ ,.;:)]|$)|one per row
exact attention|softmax attention
waited for one by one|in order
OpenAI's interface|OpenAI-compatible API
(folder|folders|directory|directories|layout|names|tokenizer) of Hugging Face|Hugging Face model directory
generators? of NumPy|NumPy Generator
frames? of pandas|pandas DataFrame
(driver|libraries|runtime) of CUDA|CUDA driver, CUDA libraries
nvcc`? of CUDA|CUDA's nvcc
asked for|requested
looked for|searched for
generated together|batched
strangers|untrusted clients
numbers? (that is|that are) not finite|NaN or infinity
arrays of (the|a) (host|GPU)|host arrays, device arrays
no room|too small, over its capacity
room for|capacity for
seers|queries
END
failed=0
while IFS='|' read -r line; do
    phrase=${line%|*}
    instead=${line##*|}
    find README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md Makefile docs include src cli lab bench examples scripts cmake -type f \
        ! -name '*.svg' ! -name glossary.md ! -name '*.png' ! -name '*.json' ! -name '*.pyc' -exec grep -nEiI -e "$phrase" {} + >"$found" || true
    [ -s "$found" ] || continue
    echo "write \"$instead\" in place of \"$phrase\":" >&2
    head -n 10 "$found" >&2
    failed=1
done <"$phrases"
exit $failed
