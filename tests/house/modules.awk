# Reads layers.txt, the first file of the programs that check dependencies (layers.awk, symbols.awk), and answers which module may
# use which.

# Returns whether `from` depends on `to`, directly or indirectly. Depth-first search; `seen` stops it on cycles.
function reaches(from, to, seen,    part, count, i) {
    if (from == to) return 1
    if (seen[from]++) return 0
    count = split(uses[from], part, " ")
    for (i = 1; i <= count; i++) if (reaches(part[i], to, seen)) return 1
    return 0
}
function may(from, to,    seen) { split("", seen); return reaches(from, to, seen) }

# The module of a path: math for src/math/gemm.c, lab for lab/run.c; a public header belongs to the module that
# implements it.
function module_of(path,    part) {
    split(path, part, "/")
    if (part[1] == "src") return part[2]
    if (part[1] == "cli" && (part[2] == "common" || part[2] == "shared")) return part[2]
    if (part[1] == "include") return part[3] in header ? header[part[3]] : (part[3] == "bochner.h" ? "everything" : "")
    return part[1]
}

NR == FNR { # layers.txt
    sub(/#.*/, "")
    if ($1 == "includes" || $1 == "headers") { # of the files, or only of the headers, whose paths start with this prefix
        kind = $1; name = $2; sub(/:$/, "", name); $1 = $2 = ""; only[kind, name] = $0; prefixes[++prefix_count] = kind SUBSEP name
    } else if ($1 == "header") { name = $2; sub(/:$/, "", name); header[name] = $3 }
    else if (NF) { name = $1; sub(/:$/, "", name); known[name] = 1; $1 = ""; uses[name] = $0 }
    next
}
