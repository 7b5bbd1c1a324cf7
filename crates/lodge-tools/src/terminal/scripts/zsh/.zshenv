# zsh looks for its files here, because ZDOTDIR says so; the user's own are read in their place.
__lodge_dir=$ZDOTDIR
ZDOTDIR=$LODGE_ZDOTDIR
[[ -r $ZDOTDIR/.zshenv ]] && . $ZDOTDIR/.zshenv
LODGE_ZDOTDIR=$ZDOTDIR
if [[ -o interactive ]]; then
    ZDOTDIR=$__lodge_dir
else
    unset LODGE_ZDOTDIR LODGE_TERMINAL_NONCE
fi
