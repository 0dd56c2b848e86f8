# The measurable part of the house style.
cd "$ROOT" && scripts/style
