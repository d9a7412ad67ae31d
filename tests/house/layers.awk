# Reads every #include of the named files (paths from the root of the source tree: src/…, cli/…, include/bochner/…) and
# prints one line per include that violates the layers. Usage: awk -f layers.awk layers.txt FILE...; exit status 1 if
# there is a violation.

function wrong(text) { print FILENAME ":" FNR ": " text; failures++ }

# Returns whether `from` depends on `to`, directly or indirectly. Depth-first search; `seen` stops it on cycles.
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

# The module of a path: math for src/math/gemm.c, lab for lab/run.c; a public header belongs to the module that
# implements it.
function module_of(path,    part) {
    split(path, part, "/")
    if (part[1] == "src") return part[2]
    if (part[1] == "cli" && part[2] == "common") return "common"
    if (part[1] == "include") return part[3] in header ? header[part[3]] : (part[3] == "bochner.h" ? "everything" : "")
    return part[1]
}

# The headers of lab, bench and the server that the program may use.
BEGIN { program = "^(lab/(lab|generators|separation)|bench/[a-z]+|src/serve/serve)[.]h$" }

NR == FNR { # layers.txt
    sub(/#.*/, "")
    if ($1 == "header") { name = $2; sub(/:$/, "", name); header[name] = $3 }
    else if (NF) { name = $1; sub(/:$/, "", name); known[name] = 1; $1 = ""; uses[name] = $0 }
    next
}

FNR == 1 {
    files++
    module = module_of(FILENAME)
    if (FILENAME ~ /^src\// && !(module in known)) wrong("the module " module " is not in tests/house/layers.txt")
    if (FILENAME ~ /^include\// && module == "") wrong("this public header is not in tests/house/layers.txt")
}

/^[ \t]*#[ \t]*include[ \t]*[<"]/ {
    match($0, /[<"][^>"]*/)
    quote = substr($0, RSTART, 1)
    name = substr($0, RSTART + 1, RLENGTH - 1)
    if (quote == "<" && name ~ /(^|\/)[a-z0-9]*mmintrin\.h$/ && module != "kernels")
        wrong("only src/kernels names an instruction set, here <" name ">")
    if (quote == "<" && name !~ /^bochner\//) next # a header of the system or of another project
    path = quote == "<" ? "include/" name : resolve(FILENAME, name)
    if (quote == "\"" && path !~ /^(src|cli|lab|bench|include)\//) { wrong("\"" name "\" is outside of the source tree"); next }
    target = module_of(path)
    if (target != module && path ~ /(^|\/)internal\.h$/) {
        wrong("from " module " to a private header of " target ": \"" name "\"")
    } else if (module == "cli" || module == "common") {
        if (target != module && path !~ /^include\/bochner\// && !(module == "cli" && (target == "common" || path ~ program)))
            wrong("from " module " to " target ": the program uses the public API only, not \"" name "\"")
    } else if (module == "everything") {
        next # <bochner/bochner.h> includes all public headers
    } else if (target == "everything") {
        wrong("from " module " to all modules: include the one header that is needed, not <" name ">")
    } else if (!may(module, target)) {
        wrong("from " module " to " target ": " (quote == "<" ? "<" name ">" : "\"" name "\""))
    }
}

END {
    if (failures) { print failures " wrong dependencies in " files " files"; exit 1 }
    print files " files, every dependency is allowed"
}
