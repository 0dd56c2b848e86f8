# The steps of --trace are counted from 1, as progress and metrics count them.
set -u
steps_of() { grep -o '"step":[0-9]*' "$1/trace.json" | sort -u | tr -dc '0-9\n' | sort -n | tr '\n' ' '; }
"$STRETTO" train --model mlp --device ref --threads 1 --steps 4 --trace 2-3 --quiet --out some || exit 1
"$STRETTO" train --model mlp --device ref --threads 1 --steps 22 --quiet --out newest || exit 1
[ "$(steps_of some)" = "2 3 " ] || { echo "--trace 2-3 kept steps $(steps_of some)"; exit 1; }
[ "$(steps_of newest)" = "3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 " ] || { echo "22 steps: kept $(steps_of newest)"; exit 1; }
