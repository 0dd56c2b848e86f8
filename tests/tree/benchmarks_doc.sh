# docs/benchmarks.md: every row of figures has its command; every command is a target of the Makefile with options that it takes.
set -eu
page=$ROOT/docs/benchmarks.md
complain() {
    echo "$page: $1"
    exit 1
}
sed -n '/^## Figures/,/^## /p' "$page" | grep '^| [A-Z] |' >rows
[ "$(wc -l <rows)" -gt 20 ] || complain "the table of figures was not found"
sed 's/.*| \([^|]*\) |$/\1/' rows | while read -r command; do
    case $command in
    '`make bench-'* | 'the same'*) ;;
    *) complain "no command: $command" ;;
    esac
done
grep -o '`make bench-[^`]*`' "$page" | tr -d '\140' | sort -u >commands
[ "$(wc -l <commands)" -gt 15 ] || complain "commands were not found"
while read -r make target rest; do
    grep -q "^$target:" "$ROOT/Makefile" || complain "there is no $make $target"
    for variable in $(echo "$rest" | grep -o '\b[A-Z]*=' || true); do
        sed -n "/^$target:/,/^\$/p" "$ROOT/Makefile" | grep -q "\$(${variable%=})" || grep -q "${variable%=}" "$ROOT"/bench/hosts/*.sh || complain "$target takes no $variable"
    done
    script=$(sed -n "/^$target:/,/^\$/p" "$ROOT/Makefile" | grep -o 'bench/[a-z_/]*\.py' | head -n 1)
    for option in $(echo "$rest" | grep -oE -- '--[a-z-]+' || true); do
        grep -q "add_argument(\"$option\"" "$ROOT/$script" || complain "$target: $script has no $option"
    done
done <commands
