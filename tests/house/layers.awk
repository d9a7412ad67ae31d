# Reads every #include of the named files (paths from the root of the source tree: src/…, cli/…, include/bochner/…) and
# prints one line per include that violates the layers, also through other files. Usage: awk -f modules.awk -f layers.awk layers.txt FILE...;
# exit status 1 if there is a violation.

function wrong(text) { print FILENAME ":" FNR ": " text; failures++ }

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

# A private header of another module than `module`.
function is_private(path, module) { return path ~ /(^|\/)internal\.h$/ && module_of(path) != module }

# Reports the private headers of other modules that `file` includes through `path`.
function follow(file, path, seen,    part, count, i) {
    if (seen[path]++) return
    count = split(included[path], part, " ")
    for (i = 1; i <= count; i++) {
        if (path != file && is_private(part[i], module_of(file)) && !is_private(part[i], module_of(path))) {
            print file ": from " module_of(file) " to a private header of " module_of(part[i]) " through " path
            failures++
        } else follow(file, part[i], seen)
    }
}

# The headers with more than the public API that the program may use, and the one of bochner-lab.
BEGIN { program = "^(cli/shared/[a-z_]+|src/serve/serve)[.]h$"; lab_program = "^lab/lab[.]h$" }
# The headers of src that all of cli may use: plugins of the program are found as those of the library, and JSON is read by the
# same code.
BEGIN { everywhere = "^src/(base/plugin|io/json_tree)[.]h$" }

# A header that a file of cli may include besides those of its own module and the public ones.
function program_may(module, file, path) {
    if (path ~ everywhere) return 1
    return module == "cli" && (module_of(path) == "common" || path ~ program || (file ~ /^cli\/lab\// && path ~ lab_program))
}

# The paths that the line of layers.txt with the longest prefix allows; "": there is none.
function allowed(kind, file,    i, key, longest, found) {
    for (i = 1; i <= prefix_count; i++) {
        split(prefixes[i], key, SUBSEP)
        if (key[1] != kind || index(file, key[2]) != 1 || length(key[2]) <= longest) continue
        longest = length(key[2])
        found = only[key[1], key[2]]
    }
    return found
}
function one_of(path, list,    part, count, i) {
    count = split(list, part, " ")
    for (i = 1; i <= count; i++) if (index(path, part[i]) == 1) return 1
    return count == 0
}

FNR == 1 {
    file[++files] = FILENAME
    module = module_of(FILENAME)
    if (FILENAME ~ /^src\// && !(module in known)) wrong("the module " module " is not in tests/house/layers.txt")
    if (FILENAME ~ /^include\// && module == "") wrong("this public header is not in tests/house/layers.txt")
}

/^[ \t]*#[ \t]*include[ \t]*[<"]/ {
    match($0, /[<"][^>"]*/)
    quote = substr($0, RSTART, 1)
    name = substr($0, RSTART + 1, RLENGTH - 1)
    if (quote == "<" && name ~ /(^|\/)[a-z0-9]*mmintrin\.h$/ && FILENAME !~ /^src\/device\/cpu\//)
        wrong("only src/device/cpu names an instruction set, here <" name ">")
    if (quote == "<" && name !~ /^bochner\//) next # a header of the system or of another project
    path = quote == "<" ? "include/" name : resolve(FILENAME, name)
    if (quote == "\"" && path !~ /^(src|cli|lab|bench|include)\//) { wrong("\"" name "\" is outside of the source tree"); next }
    target = module_of(path)
    included[FILENAME] = included[FILENAME] " " path
    if (is_private(path, module)) {
        wrong("from " module " to a private header of " target ": \"" name "\"")
    } else if (module == "cli" || module == "common") {
        if (target != module && path !~ /^include\/bochner\// && !program_may(module, FILENAME, path))
            wrong("from " module " to " target ": the program uses the public API only, not \"" name "\"")
    } else if (module == "everything") {
        next # <bochner/bochner.h> includes all public headers
    } else if (target == "everything") {
        wrong("from " module " to all modules: include the one header that is needed, not <" name ">")
    } else if (quote == "\"" && (!one_of(path, allowed("includes", FILENAME)) || (FILENAME ~ /[.]h$/ && !one_of(path, allowed("headers", FILENAME))))) {
        wrong("not \"" name "\": see the lines \"includes\" and \"headers\" of tests/house/layers.txt")
    } else if (!may(module, target)) {
        wrong("from " module " to " target ": " (quote == "<" ? "<" name ">" : "\"" name "\""))
    }
}

END {
    for (i = 1; i <= files; i++) { split("", seen); follow(file[i], file[i], seen) }
    if (failures) { print failures " wrong dependencies in " files " files"; exit 1 }
    print files " files, every dependency is allowed"
}
