# The digest of the numbers in a safetensors file, without the header, and a name: sh digest.sh FILE NAME.
header=$(od -An -tu8 -N8 "$1")
printf '%s %s\n' "$(tail -c "+$((header + 9))" "$1" | sha256sum | cut -d ' ' -f 1)" "$2"
