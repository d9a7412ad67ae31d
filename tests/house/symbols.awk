# Reads the symbols of object files of src, cli/shared, lab and bench and prints one line per symbol that a file uses although a module
# above its own defines it: a dependency that no #include shows. Usage: nm -A -P OBJECT... | awk -f modules.awk -f symbols.awk
# layers.txt -; exit status 1 if there is one. The path of an object ends with that of its source, CMakeFiles/NAME.dir/src/x.c.o.

{
    source = $1
    sub(/^.*[.]dir\//, "", source)
    sub(/[.]o:$/, "", source)
}
source !~ /^(src|cli\/shared|lab|bench)\// { next }
source != last { last = source; files++ }
$3 == "U" { user[++count] = source; symbol[count] = $2; next }
$3 ~ /^[A-Z]$/ { defined[$2] = module_of(source) }

END {
    for (i = 1; i <= count; i++) {
        if (!(symbol[i] in defined) || may(module_of(user[i]), defined[symbol[i]])) continue
        print user[i] ": from " module_of(user[i]) " to " defined[symbol[i]] ": " symbol[i]
        failures++
    }
    if (failures) { print failures " wrong symbols in " files " object files"; exit 1 }
    print files " object files, every symbol is of a module below"
}
