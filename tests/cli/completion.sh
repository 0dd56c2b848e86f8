# The completion scripts in real shells: lines typed into an interactive bash and zsh on a pseudo-terminal, a TAB at the
# end of each. The function stretto then shows what became of the line. Everything is typed ahead: the shell takes it in
# order, and nothing waits for a time.
set -u
command -v script >/dev/null || { echo "script (bsdutils) is not installed"; exit 77; }
script -q -c true /dev/null >/dev/null 2>&1 </dev/null || { echo "no pseudo-terminals here (devpts)"; exit 77; }
failed=0
touch a-file
mkdir a-folder

# A line: what is typed before TAB | what it becomes.
cat >lines <<'END'
doc|doctor
he|help
--ver|--version
doctor --j|doctor --json
doctor --lr|doctor --lr
train --optimizer s|train --optimizer sgd
train --optimizer=s|train --optimizer=sgd
train --model resnet18-|train --model resnet18-cifar
explain --model=lenet|explain --model=lenet
train --deterministic of|train --deterministic off
train --micro-batch-s|train --micro-batch-size
train --no-decay nor|train --no-decay norm
train --resu|train --resume
compare a-fi|compare a-file
train --config a-fi|train --config a-file
train --out a-fo|train --out a-folder/
help do|help doctor
completion z|completion zsh
explain --sho|explain --show
END

# typed SHELL-COMMAND: the lines as that shell took them.
typed() {
    { sed 's/|.*//' lines | while read -r line; do printf 'stretto %s\t\n' "$line"; done; echo exit; } >keys
    script -q -e -c "$1" /dev/null <keys 2>&1 | tr -d '\r' | sed -n 's/^.*GOT:\(.*\):$/\1/p'
}

check() {
    [ -s "$1.got" ] && diff "$1.wanted" "$1.got" >"$1.diff" && return
    echo "$1: wanted (<) and got (>):"
    cat "$1.diff"
    failed=1
}

shells=0
if command -v bash >/dev/null; then
    "$STRETTO" completion bash >script.bash || exit 1
    cat >rc.bash <<'END'
PS1=
source ./script.bash
stretto() { echo "GOT:$*:"; }
END
    awk -F'|' '{ print $2 }' lines >bash.wanted
    typed "env TERM=dumb INPUTRC=/dev/null bash --noprofile --rcfile ./rc.bash -i" >bash.got
    check bash
    shells=$((shells + 1))
fi

if command -v zsh >/dev/null; then
    mkdir -p sourced found/functions
    "$STRETTO" completion zsh >sourced/script.zsh || exit 1
    cp sourced/script.zsh found/functions/_stretto
    awk -F'|' '{ print $NF }' lines >sourced.wanted
    cp sourced.wanted found.wanted
    echo 'autoload -Uz compinit; compinit -D -u; source ./sourced/script.zsh' >sourced/.zshrc
    echo 'fpath=(./found/functions $fpath); autoload -Uz compinit; compinit -D -u' >found/.zshrc
    for way in sourced found; do # source <(...), or a file of the name _stretto in $fpath
        echo 'PS1=; setopt no_auto_remove_slash; stretto() { print -r -- "GOT:$*:" }' >>$way/.zshrc
        typed "env TERM=dumb ZDOTDIR=./$way zsh -d -i" >$way.got
        check $way
    done
    shells=$((shells + 1))
fi
[ $shells != 0 ] || { echo "neither bash nor zsh"; exit 77; }
exit $failed
