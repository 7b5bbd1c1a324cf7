# Tells the host of this terminal where commands begin and end. The user's own files were read before.
set -g __lodge_nonce $LODGE_TERMINAL_NONCE
set -e LODGE_TERMINAL_NONCE
set -g __lodge_cwd

function __lodge_escape
    string sub -l 8192 -- (string join \n -- $argv | string collect) | string collect |
        string replace -a -- '\\' '\\\\' | string replace -a -- ';' '\\x3b' |
        string replace -a -- \a '\\x07' | string replace -a -- \e '\\x1b' | string replace -a -- \r '\\x0d' |
        string join '\\x0a'
end

function __lodge_before --on-event fish_preexec
    printf '\e]633;E;%s;%s\a\e]633;C;%s\a' (__lodge_escape $argv | string collect) $__lodge_nonce $__lodge_nonce
end

function __lodge_after --on-event fish_postexec
    set -l code $status
    printf '\e]633;D;%s;%s\a' $code $__lodge_nonce
end

function __lodge_prompt --on-event fish_prompt
    if test "$PWD" != "$__lodge_cwd"
        set -g __lodge_cwd $PWD
        printf '\e]633;P;Cwd=%s;%s\a' (__lodge_escape $PWD | string collect) $__lodge_nonce
    end
end
