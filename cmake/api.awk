# Reads the public headers and prints their functions or structs.
#
#   awk -f cmake/api.awk -v mode=names HEADER...               name and tier of every exported function
#   awk -f cmake/api.awk -v mode=table HEADER...               the table of docs/reference/api.md
#   awk -f cmake/api.awk -v mode=map -v version=0.1 HEADER...  the version script of the linker
#   awk -f cmake/api.awk -v mode=layout HEADER...              a C program that prints size and offsets of every public struct
#   awk -f cmake/api.awk -v mode=calls HEADER...               C tables of the functions and their parameters, for tests/api
#
# A parameter may be NULL if its documentation contains "or NULL", "may be NULL" or "NULL:" (base.h).
#
# A line `/* ==== Simple ==== */` (Advanced, Experimental) starts a tier; lines before the first one belong to no tier.

function trim(text)
{
    gsub(/[ \t\n]+/, " ", text)
    sub(/^ /, "", text)
    sub(/ $/, "", text)
    return text
}

# The text of a header without comments and preprocessor lines, line by line.
function code_of(line,    at)
{
    if (in_comment) {
        at = index(line, "*/")
        if (!at) return ""
        line = substr(line, at + 2)
        in_comment = 0
    }
    while (match(line, /\/\*/)) {
        at = index(substr(line, RSTART + 2), "*/")
        if (!at) {
            in_comment = 1
            return substr(line, 1, RSTART - 1)
        }
        line = substr(line, 1, RSTART - 1) " " substr(line, RSTART + 3 + at)
    }
    return line
}

function function_found(text,    name)
{
    sub(/ *BO_PRINTF\([^)]*\)/, "", text)
    sub(/^BO_API /, "", text)
    sub(/ *;$/, "", text)
    match(text, /bo_[a-z0-9_]+\(/)
    name = substr(text, RSTART, RLENGTH - 1)
    names[++functions] = name
    tiers[functions] = tier
    headers[functions] = header
    declarations[functions] = text
    comments[functions] = comment
    if (tier == "") {
        print header ": " name " is in no tier" > "/dev/stderr"
        failed = 1
    }
}

# The names in one declaration of a struct: "size_t a, *b[4]" or "void (*f)(int)".
function add_fields(struct, text,    i, n, parts, name)
{
    text = trim(text)
    if (text == "") return
    if (text ~ /^size_t [a-z0-9_]+$/) sizes[struct] = sizes[struct] " s->" substr(text, 8) " = 1;"
    if (text ~ /\*[a-z0-9_]+$/ && text !~ /,/) {
        match(text, /[a-z0-9_]+$/)
        pointers = pointers sprintf("    {\"%s\", \"%s\", offsetof(%s, %s)},\n", struct, substr(text, RSTART), struct, substr(text, RSTART))
    }
    if (match(text, /\(\*[a-z0-9_]+\)/)) {
        fields[struct] = fields[struct] " " substr(text, RSTART + 2, RLENGTH - 3)
        return
    }
    n = split(text, parts, ",")
    for (i = 1; i <= n; i++) {
        name = parts[i]
        gsub(/\[[^]]*\]/, "", name)
        sub(/ +$/, "", name)
        match(name, /[A-Za-z0-9_]+$/)
        fields[struct] = fields[struct] " " substr(name, RSTART, RLENGTH)
    }
}

function struct_found(text,    name, body, i, n, parts)
{
    match(text, /\} bo_[a-z0-9_]+;$/)
    name = substr(text, RSTART + 2, RLENGTH - 3)
    body = substr(text, index(text, "{") + 1, RSTART - index(text, "{") - 1)
    structs[++struct_count] = name
    struct_tiers[struct_count] = tier
    n = split(body, parts, ";")
    for (i = 1; i <= n; i++) add_fields(name, parts[i])
}

FNR == 1 {
    header = FILENAME
    sub(/.*\//, "", header)
    tier = ""
    pending = ""
    in_comment = 0
}

/^\/\* ==== (Simple|Advanced|Experimental) =+ \*\/$/ {
    tier = tolower($3)
    next
}

/^#/ { if (!in_comment) next }

/^typedef struct bo_[a-z0-9_]+ bo_[a-z0-9_]+;/ { opaque = opaque "\"" $3 "\", " }

/^\/\*\*/ { comment = "" }

{
    comment = comment " " $0
    line = code_of($0)
    if (line ~ /^[ \t]*$/) next
    if (pending == "" && line !~ /^BO_API / && line !~ /^typedef struct bo_[a-z0-9_]+ \{/) next
    pending = trim(pending " " line)
    if (pending ~ /^BO_API / && pending ~ /;$/) {
        function_found(pending)
        pending = ""
    } else if (pending ~ /^typedef struct/ && pending ~ /\} bo_[a-z0-9_]+;$/) {
        struct_found(pending)
        pending = ""
    }
}

function print_node(node, experimental,    i)
{
    printf "%s {\n  global:\n", node
    for (i = 1; i <= functions; i++)
        if ((tiers[i] == "experimental") == experimental) printf "    %s;\n", names[i]
    if (!experimental) print "  local:\n    *;"
    print "};"
}

function print_layout(    i, j, n, parts)
{
    print "#include <bochner/bochner.h>\n#include <stdio.h>\n\nint main(void)\n{"
    for (i = 1; i <= struct_count; i++) {
        if (struct_tiers[i] == "experimental") continue
        printf "    printf(\"%s %%zu\\n\", sizeof(%s));\n", structs[i], structs[i]
        n = split(fields[structs[i]], parts, " ")
        for (j = 1; j <= n; j++)
            printf "    printf(\"  %s %%zu\\n\", offsetof(%s, %s));\n", parts[j], structs[i], parts[j]
    }
    print "    return 0;\n}"
}

# The documentation of a parameter: from its @param to the next one.
function documentation(comment, name,    parts, i, n)
{
    gsub(/\n? +\*+\/? /, " ", comment)
    gsub(/ +/, " ", comment)
    n = split(comment, parts, /@(param|return)/)
    for (i = 2; i <= n; i++) {
        sub(/^\[[a-z,]+\]/, "", parts[i])
        if (index(parts[i], " " name " ") == 1) return parts[i]
    }
    return ""
}

# 0: never; 1: always; 2: depending on other arguments.
function may_be_null(text)
{
    if (text ~ /(or|may be) NULL (if|without) /) return 2
    return text ~ /or NULL|may be NULL|NULL:/
}

# An argument of a call: a pointer from the test, or a number.
function argument(type, name, at)
{
    if (type ~ /\*$/) return "a->pointer[" at "]"
    if (type ~ /_fn$/) return "a->pointer[" at "] ? nothing_of_" type " : NULL"
    if (type == "size_t") return "size_of(a, \"" name "\")"
    if (type == "double") return "0.5"
    return "(" type ")" (type == "bo_value" ? 1 : 0)
}

# A function that calls function `f`, and its line in the table.
function print_call(f,    text, name, result, list, n, i, parts, type, arguments, parameters)
{
    text = declarations[f]
    name = names[f]
    result = trim(substr(text, 1, index(text, name) - 1))
    list = substr(text, index(text, name) + length(name) + 1)
    sub(/\)$/, "", list)
    n = list == "void" ? 0 : split(list, parts, /, */)
    for (i = 1; i <= n; i++) {
        if (parts[i] == "...") {
            arguments = arguments ", 0" # a format without arguments would give a warning
            continue
        }
        sub(/\[[0-9]*\]$/, "", parts[i])
        match(parts[i], /[a-z0-9_]+$/)
        type = trim(substr(parts[i], 1, RSTART - 1))
        parts[i] = substr(parts[i], RSTART)
        arguments = arguments (i > 1 ? ", " : "") argument(type, parts[i], i - 1)
        if (type ~ /(\*|_fn)$/)
            parameters = parameters sprintf("{%d, \"%s\", \"%s\", %d}, ", i - 1, parts[i], type,
                may_be_null(documentation(comments[f], parts[i])))
    }
    sub(/^const /, "", result)
    gsub(/[ *]+/, "_pointer", result)
    printf "static void call_%s(const arguments *a, outcome *o)\n{\n    (void)a;\n    RESULT_%s(%s(%s));\n}\n", name,
        (result in kinds ? result : result ~ /_pointer$/ ? "pointer" : "number"), name, arguments
    table = table sprintf("    {\"%s\", %d, call_%s, {%s}},\n", name, result == "bo_status", name, parameters "{0}")
}

function print_calls(    i)
{
    split("bo_status void double int int32_t char_pointer", parts, " ")
    for (i in parts) kinds[parts[i]] = 1
    for (i = 1; i <= functions; i++) print_call(i)
    printf "static const function functions[] = {\n%s};\n", table
    for (i = 1; i <= struct_count; i++)
        printf "static void count_%s(void *at)\n{\n    %s *s = at;\n    (void)s;\n   %s\n}\n", structs[i], structs[i], sizes[structs[i]]
    print "static const struct_type struct_types[] = {"
    for (i = 1; i <= struct_count; i++) printf "    {\"%s\", sizeof(%s), count_%s},\n", structs[i], structs[i], structs[i]
    print "};"
    printf "static const member pointer_members[] = {\n%s};\n", pointers
    printf "static const char *const opaque_types[] = {%s};\n", opaque
}

END {
    if (failed) exit 1
    if (mode == "calls") print_calls()
    if (mode == "names")
        for (i = 1; i <= functions; i++) print names[i], tiers[i]
    if (mode == "table") {
        print "| function | tier | header | declaration |\n|---|---|---|---|"
        for (i = 1; i <= functions; i++)
            printf "| `%s` | %s | %s | `%s` |\n", names[i], tiers[i], headers[i], declarations[i]
    }
    if (mode == "map") {
        print_node("BOCHNER_" version, 0)
        print_node("BOCHNER_EXPERIMENTAL_" version, 1)
    }
    if (mode == "layout") print_layout()
}
