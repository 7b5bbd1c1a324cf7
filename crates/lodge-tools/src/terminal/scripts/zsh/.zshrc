# Tells the host of this terminal where commands begin and end, after the user's own file is read.
ZDOTDIR=$LODGE_ZDOTDIR
[[ $HISTFILE == $__lodge_dir/* ]] && HISTFILE=$ZDOTDIR/.zsh_history
[[ -r $ZDOTDIR/.zshrc ]] && . $ZDOTDIR/.zshrc

__lodge_nonce=$LODGE_TERMINAL_NONCE
unset LODGE_TERMINAL_NONCE LODGE_ZDOTDIR __lodge_dir
__lodge_ran=0
__lodge_cwd=

# Puts its argument into REPLY, without what would end or split a sequence.
__lodge_escape() {
    emulate -L zsh
    local text=${1[1,8192]}
    text=${text//\\/\\\\}
    text=${text//;/\\x3b}
    text=${text//$'\a'/\\x07}
    text=${text//$'\e'/\\x1b}
    text=${text//$'\n'/\\x0a}
    text=${text//$'\r'/\\x0d}
    REPLY=$text
}

__lodge_before() {
    local REPLY
    __lodge_escape "$1"
    __lodge_ran=1
    builtin printf '\e]633;E;%s;%s\a\e]633;C;%s\a' "$REPLY" "$__lodge_nonce" "$__lodge_nonce"
}

__lodge_prompt() {
    local code=$? REPLY
    if (( __lodge_ran )); then
        builtin printf '\e]633;D;%s;%s\a' "$code" "$__lodge_nonce"
        __lodge_ran=0
    fi
    if [[ $PWD != $__lodge_cwd ]]; then
        __lodge_cwd=$PWD
        __lodge_escape "$PWD"
        builtin printf '\e]633;P;Cwd=%s;%s\a' "$REPLY" "$__lodge_nonce"
    fi
    return $code
}

if [[ -n $__lodge_nonce ]]; then
    autoload -Uz add-zsh-hook
    add-zsh-hook preexec __lodge_before
    # First, so that it sees how the command ended.
    precmd_functions=(__lodge_prompt $precmd_functions)
fi
