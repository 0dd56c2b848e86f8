# Shared by the tests of whole runs. Not a test itself: suite-scripts passes over lib.sh.
set -u
shared=${STRETTO_SHARED:-$ROOT/../shared}
# key FILE NAME: a number, text or null of a summary.json that stands on a line of its own.
key() { sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$1"; }
# at_least VALUE LIMIT WHAT
at_least() {
    echo "$3: $1 (at least $2)"
    awk -v have="$1" -v want="$2" 'BEGIN { exit !(have + 0 >= want + 0) }' || { echo "too little"; exit 1; }
}
need_data() {
    [ -d "$shared/data/$1" ] || { echo "no $1 data beside the checkout"; exit 77; }
}
slow_build() {
    [ -z "$SAN" ] || { echo "too slow in a sanitizer build"; exit 77; }
}
