# Completion of the command incumbent, for fish, which itself picks what fits and quotes it.

function _incumbent
    set -l words (commandline -opc)
    set -l begun (commandline -ct)
    # Only what begins an option makes a difference to what can be chosen.
    string match -qr -- '^["\']?-' "$begun"; and set begun -; or set begun ''
    env _INCUMBENT_COMPLETE=fish_complete incumbent $words[2..] "$begun" 2>/dev/null
end

complete --no-files --command incumbent --arguments '(_incumbent)'
