#!/bin/sh
# 200 random clusters and models: see plan_random.sh.
SEEDS=$(seq 7 206) exec sh "$ROOT/tests/cli/plan_random.sh"
