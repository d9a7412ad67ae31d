# Shared by test_tasks*.sh: texts that a model with a few thousand weights learns in seconds.

# moods LINES SEED: label, tab, text; the words determine the label.
moods() {
    awk -v n="$1" -v seed="$2" 'BEGIN { srand(seed); split("good fine great", x, " "); split("bad poor awful", y, " ")
        for (i = 0; i < n; i++) { c = rand() < 0.4; a = 1 + int(3 * rand()); b = 1 + int(3 * rand())
        printf "%s\tit is %s and %s\n", c ? "neg" : "pos", c ? y[a] : x[a], c ? y[b] : x[b] } }'
}

# twins LINES SEED: label, tab, text, tab, text; the label is 1 if both texts use the same letter.
twins() {
    awk -v n="$1" -v seed="$2" 'BEGIN { srand(seed); for (i = 0; i < n; i++) { a = int(2 * rand()); b = int(2 * rand())
        printf "%d\t%s\t%s\n", a == b, a ? "xxx" : "oooo", b ? "xxxx" : "ooo" } }'
}

# numbers LINES SEED: source, tab, target; a translation word by word.
numbers() {
    awk -v n="$1" -v seed="$2" 'BEGIN { srand(seed); split("eins zwei drei vier", g, " "); split("one two three four", e, " ")
        for (i = 0; i < n; i++) { s = t = ""; k = 1 + int(5 * rand()); for (j = 0; j < k; j++) { w = 1 + int(4 * rand())
        s = s (j ? " " : "") g[w]; t = t (j ? " " : "") e[w] } print s "\t" t } }'
}

# trained TASK OUT DATA OPTIONS...: trains a model in directory OUT.
trained() {
    task=$1 out=$2 data=$3
    shift 3
    succeeds "$BOCHNER" train --task "$task" --data "$data" --out "$out" --heads 2 --quiet "$@"
}
