# Every include points upwards.
cd "$ROOT" && scripts/layers
