# Completion of the command incumbent, for bash. The command itself quotes what it answers.

_incumbent() {
    local answer
    COMPREPLY=()
    while IFS= read -r answer; do
        COMPREPLY+=("$answer")
    done < <(_INCUMBENT_COMPLETE=bash_complete "$1" "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
}

complete -F _incumbent incumbent
