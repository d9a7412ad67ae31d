# Completion scripts for bash, zsh and fish: commands, options, values of options, and file names elsewhere.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
for shell in bash zsh fish; do
    succeeds "$BOCHNER" completion $shell
    cp out script.$shell
done
fails 2 "expected one of bash, zsh, fish|found 'tcsh'" "$BOCHNER" completion tcsh
fails 2 "found nothing" "$BOCHNER" completion
"$BOCHNER" help | awk '/^Example/ { exit } /^  [a-z]/ { print $1 }' >commands
tried=

# suggests SHELL LINE EXPECTED...: every expected word is suggested for the last word of the line; !WORD is not.
suggests() {
    shell=$1 line=$2
    shift 2
    complete_$shell "$line" >suggested 2>err
    [ -s err ] && complain "$shell: '$line': $(head -n 3 err)"
    for word in "$@"; do
        case $word in
        !*) grep -qx -e "${word#!}" suggested && complain "$shell: '$line' suggests ${word#!}" ;;
        *) grep -qx -e "$word" suggested || complain "$shell: '$line' does not suggest $word: $(head -n 5 suggested | tr '\n' ' ')" ;;
        esac
    done
}

all_lines() {
    suggests "$1" 'bochner ' $(cat commands) '!machines'
    suggests "$1" 'bochner tr' train '!fit'
    suggests "$1" 'bochner fit --ke' --kernel '!--target'
    suggests "$1" 'bochner fit --kernel ' rbf matern52 '!train'
    suggests "$1" 'bochner train --attention soft' softmax '!linear'
    suggests "$1" 'bochner train --he' --help --help-all --heads
    suggests "$1" 'bochner tokenizer ' train encode decode
    suggests "$1" 'bochner data ' listops match recall
    suggests "$1" 'bochner bench ' machines attention tasks
    suggests "$1" 'bochner bench attention --le' --lengths
    suggests "$1" 'bochner help att' attention
    suggests "$1" 'bochner completion ' bash zsh fish
    suggests "$1" 'bochner fit train.csv --gamma ' auto
    tried="$tried $1"
}

# ---- bash ------------------------------------------------------------------------------------------------------------------
complete_bash() {
    bash -c 'source ./script.bash
        read -ra COMP_WORDS <<<"$1"
        case $1 in *" ") COMP_WORDS+=("") ;; esac
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _bochner
        printf "%s\n" "${COMPREPLY[@]}"' bash "$1"
}
if command -v bash >/dev/null; then
    bash -n script.bash || complain "bash does not parse its script"
    all_lines bash
    suggests bash 'bochner fit --kernel = r' rbf '!cauchy' # as readline splits --kernel=r
    suggests bash 'bochner fit --kernel =' rbf cauchy
    suggests bash 'bochner fit tr' ''   # no words: readline completes file names
    suggests bash 'bochner fit --out ' ''
    bash -c 'source ./script.bash; complete -p bochner' | grep -q -e '-o default' || complain "bash does not fall back to names of files"
    # every option of every command
    for command in $(grep -vx -e bench -e help commands) 'bench train'; do
        "$BOCHNER" $command --help-all | grep -o '^  --[a-z0-9-]*' | tr -d ' ' >options
        # shellcheck disable=SC2046
        suggests bash "bochner $command --" $(cat options)
    done
fi

# ---- fish ------------------------------------------------------------------------------------------------------------------
complete_fish() { HOME=$work fish --no-config -c 'source script.fish; complete -C $argv[1]' "$1" | cut -f1; }
if command -v fish >/dev/null; then
    fish --no-execute script.fish || complain "fish does not parse its script"
    all_lines fish
    echo 1 >table.csv
    suggests fish 'bochner fit --out tab' table.csv
    suggests fish 'bochner fit --threads tab' '!table.csv'
fi

# ---- zsh -------------------------------------------------------------------------------------------------------------------
# Completion in zsh needs its line editor: a shell on a pseudo-terminal completes a line and prints the suggestions.
if command -v zsh >/dev/null; then
    zsh -n script.zsh || complain "zsh does not parse its script"
    head -n 1 script.zsh | grep -qx '#compdef bochner' || complain "the first line for zsh is $(head -n 1 script.zsh)"
    tried="$tried zsh"
fi
echo "tried:${tried:- no shell}; the others are not installed"
finish
