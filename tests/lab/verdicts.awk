# Reads the JSON of `bochner lab run --json`, split before every {"name", and prints one line per claim:
# EXPERIMENT CLAIM VERDICT SIDE. SIDE says whether the numbers of the seeds are on the claimed side of the bound: all,
# none or some. A missing number counts as neither.
function field(name,    at, rest) {
    at = index($0, "\"" name "\": ")
    if (!at) return ""
    rest = substr($0, at + length(name) + 4)
    sub(/[,}].*/, "", rest)
    gsub(/"/, "", rest)
    return rest
}

/"claims": \[/ { experiment = field("name") }

/"rule": / {
    rule = field("rule")
    bound = field("bound") + 0
    upper = field("upper") + 0
    values = $0
    sub(/.*"values": \[/, "", values)
    sub(/\].*/, "", values)
    count = split(values, value, ", ")
    good = bad = 0
    for (i = 1; i <= count; i++) {
        if (value[i] == "null") continue
        x = value[i] + 0
        if (rule ~ /at least/) right = x >= bound
        else if (rule ~ /at most/) right = x <= bound
        else right = x >= bound && x <= upper
        if (right) good++
        else bad++
    }
    print experiment, field("name"), field("verdict"), good == count ? "all" : bad == count ? "none" : "some"
}
