# Reads every #include of the files named (paths from the root of the tree: src/…, cli/…, include/bochner/…) and prints
# a line for each arrow that points the wrong way. Usage: awk -f layers.awk layers.txt FILE... ; exit 1 if there was one.

function wrong(text) { print FILENAME ":" FNR ": " text; failures++ }

# Does `from` reach `to` by arrows? Depth-first; the graph has no cycles, or `seen` stops it.
function reaches(from, to, seen,    part, count, i) {
    if (from == to) return 1
    if (seen[from]++) return 0
    count = split(uses[from], part, " ")
    for (i = 1; i <= count; i++) if (reaches(part[i], to, seen)) return 1
    return 0
}
function may(from, to,    seen) { split("", seen); return reaches(from, to, seen) }

# "src/math/x.c" and "../base/base.h" make "src/base/base.h".
function resolve(file, name,    part, count, out, depth, i) {
    sub(/[^\/]*$/, "", file)
    count = split(file name, part, "/")
    depth = 0
    for (i = 1; i <= count; i++) {
        if (part[i] == "" || part[i] == ".") continue
        if (part[i] == ".." && depth > 0) depth--
        else out[++depth] = part[i]
    }
    name = out[1]
    for (i = 2; i <= depth; i++) name = name "/" out[i]
    return name
}

# The room of a path: src/math/gemm.c is math's, lab/run.c is lab's; a public header belongs to the room that implements it.
function room_of(path,    part) {
    split(path, part, "/")
    if (part[1] == "src") return part[2]
    if (part[1] == "cli" && part[2] == "common") return "common"
    if (part[1] == "include") return part[3] in header ? header[part[3]] : (part[3] == "bochner.h" ? "everything" : "")
    return part[1]
}

# What the program may use of its own two libraries.
BEGIN { program = "^(lab/(lab|generators)|bench/[a-z]+)[.]h$" }

NR == FNR { # layers.txt
    sub(/#.*/, "")
    if ($1 == "header") { name = $2; sub(/:$/, "", name); header[name] = $3 }
    else if (NF) { name = $1; sub(/:$/, "", name); known[name] = 1; $1 = ""; uses[name] = $0 }
    next
}

FNR == 1 {
    files++
    room = room_of(FILENAME)
    if (FILENAME ~ /^src\// && !(room in known)) wrong("the room " room " is not in tests/house/layers.txt")
    if (FILENAME ~ /^include\// && room == "") wrong("this public header is not in tests/house/layers.txt")
}

/^[ \t]*#[ \t]*include[ \t]*[<"]/ {
    match($0, /[<"][^>"]*/)
    quote = substr($0, RSTART, 1)
    name = substr($0, RSTART + 1, RLENGTH - 1)
    if (quote == "<" && name ~ /(^|\/)[a-z0-9]*mmintrin\.h$/ && room != "kernels")
        wrong("only src/kernels names an instruction set, here <" name ">")
    if (quote == "<" && name !~ /^bochner\//) next # the system's or another project's
    path = quote == "<" ? "include/" name : resolve(FILENAME, name)
    if (quote == "\"" && path !~ /^(src|cli|lab|bench|include)\//) { wrong("\"" name "\" leads out of the tree"); next }
    target = room_of(path)
    if (target != room && path ~ /(^|\/)internal\.h$/) {
        wrong("from " room " to the inside of " target ": \"" name "\"")
    } else if (room == "cli" || room == "common") {
        if (target != room && path !~ /^include\/bochner\// && !(room == "cli" && (target == "common" || path ~ program)))
            wrong("from " room " to " target ": the program uses the public API only, not \"" name "\"")
    } else if (room == "everything") {
        next # <bochner/bochner.h> includes them all
    } else if (target == "everything") {
        wrong("from " room " to all of them: include the one header that is meant, not <" name ">")
    } else if (!may(room, target)) {
        wrong("from " room " to " target ": " (quote == "<" ? "<" name ">" : "\"" name "\""))
    }
}

END {
    if (failures) { print failures " wrong arrows in " files " files"; exit 1 }
    print files " files, every arrow points the right way"
}
