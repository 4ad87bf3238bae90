#compdef incumbent
# Completion of the command incumbent, for zsh, which itself picks what fits and quotes it.

_incumbent() {
    local answer begun=
    local -a plain described
    # Only what begins an option makes a difference to what can be chosen.
    [[ $PREFIX == -* ]] && begun=-
    for answer in "${(@f)$(_INCUMBENT_COMPLETE=zsh_complete \
        incumbent "${(@Q)words[2,CURRENT-1]}" "$begun" 2>/dev/null)}"; do
        if [[ $answer == *$'\t'* ]]; then
            described+=("${${answer%%$'\t'*}//:/\\:}:${answer#*$'\t'}")
        elif [[ -n $answer ]]; then
            plain+=("$answer")
        fi
    done
    (( $#described )) && _describe -V unsorted described
    (( $#plain )) && compadd -V unsorted -a plain
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _incumbent "$@"
else
    compdef _incumbent incumbent
fi
