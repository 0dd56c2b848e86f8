# The completion script, driven as bash would.
set -u
command -v bash >/dev/null || { echo "no bash"; exit 77; }
"$STRETTO" completion bash >script || exit 1
cat >drive.bash <<'END'
source ./script
complete_words() {
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _stretto
    echo "${COMPREPLY[*]}"
}
expect() {
    local wanted=$1 got
    shift
    got=$(complete_words "$@")
    [ "$got" = "$wanted" ] || { echo "$*: got '$got', not '$wanted'"; exit 1; }
}
touch a-file
expect 'doctor' stretto doc
expect 'help' stretto he
expect '--version' stretto --v
expect '--json' stretto doctor --j
expect '' stretto doctor --lr
expect 'sgd' stretto doctor --optimizer s
expect 'a-file' stretto compare a-f
expect 'doctor' stretto help do
expect 'resnet18-cifar' stretto train --model resnet18
END
bash drive.bash
