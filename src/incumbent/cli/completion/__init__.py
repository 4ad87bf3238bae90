"""What a shell completes: commands, options, and names of elections, which strangers may choose.

`names` asks the server, `shells` talks with bash, zsh and fish, `bash_line` reads and quotes for
bash. The scripts that a user's shell reads are ``incumbent.bash``, ``.zsh`` and ``.fish``.
"""
