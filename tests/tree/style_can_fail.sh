# The style check finds each thing it looks for, and nothing in a right file.
set -e
mkdir -p src
check() {
    if "$ROOT/scripts/style" . >out; then echo "not found: $1"; exit 1; fi
    grep -q "$1" out || { cat out; echo "not in the output: $1"; exit 1; }
}
body() { awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) print "    x();" }'; }
good() {
    echo '/* A file. */'
    echo 'int f(void) {' && body 58 && echo '}'
    echo 'const char *text = "system(1)"; /* system(2) */'
}
good >src/a.c && "$ROOT/scripts/style" .
{ good && echo 'int g(void) {' && body 59 && echo '}'; } >src/a.c && check '61 lines in a function'
{ good && body 600; } >src/a.c && check 'the limit is 600'
good >src/a.c && { echo '/* h */' && body 200; } >src/a.h && check 'src/a.h:201: 201 lines' && rm src/a.h
{ good && echo 'int h(void) { return system(""); }'; } >src/a.c && check 'calls .*system('
echo 'int x;' >src/a.c && check 'begin with a comment'
{ good && echo 'int y; '; } >src/a.c && check 'blank at the end'
{ good && printf '#include "b.h"\n\n#include <a.h>\n#include <b.h>\n#include "a.h"\n#include "b.h"\n'; } >src/a.c && "$ROOT/scripts/style" .
{ good && printf '#include "b.h"\n#include "a.h"\n'; } >src/a.c && check 'include "a.h" before "b.h"'
{ good && echo '<<<<<<< HEAD'; } >src/a.c && check 'mark of a merge'
good >src/a.c && : >src/a.c.orig && check 'left by a merge or a patch: src/a.c.orig'
