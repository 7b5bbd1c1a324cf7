# Tells the host of this terminal where commands begin and end. Bash is started with this as its --init-file, so the
# user's own file is read first, as bash would.
[ -r ~/.bashrc ] && . ~/.bashrc

__lodge_nonce=$LODGE_TERMINAL_NONCE
unset LODGE_TERMINAL_NONCE
__lodge_ran=0
__lodge_nothing=
__lodge_cwd=

# Puts its argument into __lodge_escaped, without what would end or split a sequence.
__lodge_escape() {
    local text=${1:0:8192}
    text=${text//\\/\\\\}
    text=${text//;/\\x3b}
    text=${text//$'\a'/\\x07}
    text=${text//$'\e'/\\x1b}
    text=${text//$'\n'/\\x0a}
    text=${text//$'\r'/\\x0d}
    __lodge_escaped=$text
}

# Before a command runs, in a subshell: its line is the newest of the history.
__lodge_before() {
    local line number='^[[:space:]]*[0-9]+[*[:space:]] (.*)$'
    line=$(HISTTIMEFORMAT= builtin history 1 2>/dev/null)
    [[ $line =~ $number ]] && line=${BASH_REMATCH[1]}
    __lodge_escape "$line"
    builtin printf '\e]633;E;%s;%s\a\e]633;C;%s\a' "$__lodge_escaped" "$__lodge_nonce" "$__lodge_nonce"
}

# Before a prompt is shown.
__lodge_prompt() {
    local code=$?
    if [ "$__lodge_ran" = 1 ]; then
        builtin printf '\e]633;D;%s;%s\a' "$code" "$__lodge_nonce"
        __lodge_ran=0
    fi
    if [ "$PWD" != "$__lodge_cwd" ]; then
        __lodge_cwd=$PWD
        __lodge_escape "$PWD"
        builtin printf '\e]633;P;Cwd=%s;%s\a' "$__lodge_escaped" "$__lodge_nonce"
    fi
    return "$code"
}

# PS0 is expanded in this shell after a command is read and before it runs; bash has it since 4.4.
if [ -n "$__lodge_nonce" ] && shopt -q promptvars &&
    { [ "${BASH_VERSINFO[0]}" -gt 4 ] || { [ "${BASH_VERSINFO[0]}" = 4 ] && [ "${BASH_VERSINFO[1]}" -ge 4 ]; }; }; then
    PS0='${__lodge_nothing:$((__lodge_ran=1)):0}$(__lodge_before)'$PS0
    if [ "${BASH_VERSINFO[0]}" -gt 5 ] || { [ "${BASH_VERSINFO[0]}" = 5 ] && [ "${BASH_VERSINFO[1]}" -ge 1 ]; }; then
        PROMPT_COMMAND=(__lodge_prompt "${PROMPT_COMMAND[@]}")
    else
        PROMPT_COMMAND="__lodge_prompt"${PROMPT_COMMAND:+$'\n'"$PROMPT_COMMAND"}
    fi
fi
