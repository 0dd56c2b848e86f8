# The layer check finds each kind of wrong include and each name of two folders, and nothing in a right tree.
set -e
mkdir -p src/base src/graph src/data src/record src/exec src/other
echo '#include "base/x.h"' >src/base/x.c
echo '#include "base/x.h"' >src/exec/x.c
check() {
    if "$ROOT/scripts/layers" . >out; then echo "not found: $1"; exit 1; fi
    grep -q "$1" out || { cat out; echo "not in the output: $1"; exit 1; }
}
rmdir src/other
"$ROOT/scripts/layers" .
echo '#include "graph/x.h"' >src/base/x.c && check 'src/base/x.c:1: includes graph/x.h' && : >src/base/x.c
echo '#  include "data/x.h"' >src/graph/x.h && check 'data is not above graph' && : >src/graph/x.h
echo '#include "exec/x.h"' >src/record/x.c && check 'record sees base alone' && : >src/record/x.c
echo '#include "x.h"' >src/exec/x.c && check 'write folder/file' && : >src/exec/x.c
echo 'void x_open(void);' >src/exec/x.h
echo 'struct x_part *x_close(int a);' >src/graph/x.h && check 'src/graph/x.h:1: function x_\* is exported by exec too, src/exec/x.h:1'
echo 'static inline int x_close(int a) {' >src/graph/x.h && check 'function x_\* is exported by exec too'
echo 'static int x_close(int a);' >src/graph/x.h && "$ROOT/scripts/layers" .
echo 'struct part {' >src/exec/x.h && echo 'struct part {' >src/graph/x.h && check 'type part is exported by exec too'
: >src/graph/x.h
mkdir src/other && : >src/other/x.c && echo >>src/other/x.c && check 'without a place'
