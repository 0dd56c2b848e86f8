# All C of the library's page compiles, as C11 without a warning; it names every call, and C++ takes the headers.
set -e
page=$ROOT/docs/library.md
{
    printf '#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <stretto.h>\n'
    awk '/^```c$/ { code = 1; next } /^```$/ { code = 0 } code' "$page"
} >page.c
grep -q '^static int train' page.c || { echo "$page: no example was found"; exit 1; }
${CC:-gcc} -std=c11 -Wall -Wextra -Wpedantic -Wno-unused-function -Werror -I"$ROOT/include" -fsyntax-only page.c
cat "$ROOT"/include/*.h | tr '\n' ' ' | grep -o 'STRETTO_API [^(;]*(' | sed 's/.*[ *]\(stretto_[a-z0-9_]*\)($/\1/' | grep '^stretto_' | sort -u >calls
[ "$(wc -l <calls)" -gt 50 ] || { echo "calls of the headers were not found"; cat calls; exit 1; }
while read -r call; do
    grep -q "$call\\b" "$page" || { echo "$page does not name $call"; exit 1; }
done <calls
if command -v g++ >/dev/null; then
    printf '#include <stretto.h>\nint main() { stretto_run *run = nullptr; stretto_close(&run); }\n' >page.cc
    g++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -I"$ROOT/include" -fsyntax-only page.cc
fi
