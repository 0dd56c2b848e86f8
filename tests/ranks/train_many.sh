# Many ranks on few cores: no false alarm, and the bits of one device that plays them all.
. "$ROOT/tests/ranks/lib.sh"
[ -z "$SAN" ] || { echo "too slow in a sanitizer build"; exit 77; }
many="--model mlp --threads 1 --batch 64 --steps 6 --eval-every never --save-every never --quiet"
whole one --deal 32x1 $many
code 0 train -n 32 $many --out many
ends_as many "$want"
! grep -qE 'waits|lost|silent|error' err || { cat err; exit 1; }
nobody_left many
