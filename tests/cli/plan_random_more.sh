#!/bin/sh
# 200 random clusters and models: see plan_random.sh, which has some of them in a sanitizer's build.
[ -z "$SAN" ] || { echo "too slow in a sanitizer build"; exit 77; }
SEEDS=$(seq 7 206) exec sh "$ROOT/tests/cli/plan_random.sh"
