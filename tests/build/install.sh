# An installed tree serves a program through pkg-config, shared and static, and exports the public names alone.
set -e
[ -z "$SAN" ] || { echo "a sanitizer build is not one to install"; exit 77; }
unset MAKEFLAGS MFLAGS MAKELEVEL
make -s -C "$ROOT" install PREFIX=/opt/stretto DESTDIR="$(pwd)/stage" >/dev/null
at=$(pwd)/stage/opt/stretto
export PKG_CONFIG_PATH="$at/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$(pwd)/stage"
cat >user.c <<'END'
#include <stdio.h>
#include <stretto.h>
int main(void) { return puts(stretto_version()) < 0; }
END
version=$(pkg-config --modversion stretto)
${CC:-gcc} user.c $(pkg-config --cflags --libs stretto) -o shared
test "$(LD_LIBRARY_PATH=$at/lib ./shared)" = "$version"
readelf -d shared | grep -q 'libstretto.so.0'
# The examples, as they are installed, against the installed header and library alone.
export LD_LIBRARY_PATH="$at/lib"
examples=$at/share/doc/stretto/examples
for example in "$ROOT"/examples/*.c; do cmp "$example" "$examples/${example##*/}"; done
for example in "$examples"/*.c; do
    name=$(basename "$example" .c)
    ${CC:-gcc} -std=gnu11 -Wall -Wextra -Werror "$example" $(pkg-config --cflags --libs stretto) -lm -o "$name"
done
./train model.safetensors | grep -q '^accuracy'
test -s model.safetensors
options="-n 2 --strategy 1f1b --micro-batches 4"
./own_model $options >own.out
awk '/^at / { exit !($4 > 0.45 && $4 < 0.55) } END { if (!NR) exit 1 }' own.out || { cat own.out; exit 1; }
# A program is the command for its own rows, too: ranks as processes end where those of one do.
cat >command.c <<END
#define main own_main
#include "$examples/own_model.c"
#undef main
int main(int argc, char **argv) { return stretto_add_model(&model) ? 1 : stretto_main(argc, argv); }
END
${CC:-gcc} -std=gnu11 -Wall -Wextra -Werror command.c $(pkg-config --cflags --libs stretto) -lm -o command
words="train --model surface --threads 1 --steps 8 --micro-batches 4 --eval-every never --save-every never --quiet"
./command $words --out one
./command $words --out two -n 2 --strategy 1f1b
hash() { sed -n 's/^ *"param_hash": "\([^"]*\)".*/\1/p' "$1/summary.json"; }
[ -n "$(hash one)" ] && [ "$(hash one)" = "$(hash two)" ] || { echo "one $(hash one), two $(hash two)"; exit 1; }
# The program that comes without its model says which has it.
here=$(pwd)
for line in "eval one" "predict one --output x.npy" "train --resume --out one" "explain --config one/config.yml" "eval one/checkpoints"; do
    [ "$line" != "eval one/checkpoints" ] || { ./command $words --save-every 4 --overwrite --out one; line="eval one/checkpoints/$(ls one/checkpoints | head -n 1)"; }
    code=0
    "$at/bin/stretto" $line >stock.out 2>&1 || code=$?
    [ $code = 2 ] && grep -q "model 'surface' is of the program $here/command" stock.out || { echo "$line: $code"; cat stock.out; exit 1; }
done
./command eval one --threads 1 --quiet
if mpirun --version 2>/dev/null | grep -q 'Open MPI' && "$at/bin/stretto" doctor | grep -q 'optional parts .*MPI built'; then
    mpirun --allow-run-as-root --oversubscribe --bind-to none -np 2 ./own_model $options >mpi.out
    [ "$(grep -c "$(tail -n 1 own.out)" mpi.out)" = 2 ] || { cat mpi.out; exit 1; }
    # A file is written once, by all; where it cannot be, all of them say so.
    mpirun --allow-run-as-root --oversubscribe --bind-to none -np 2 ./train mpi.safetensors >mpi.out
    [ "$(wc -c <mpi.safetensors)" = "$(wc -c <model.safetensors)" ] || { ls -l; exit 1; }
    echo './train nowhere/x || echo $? >rank-$OMPI_COMM_WORLD_RANK' >each.sh
    mpirun --allow-run-as-root --oversubscribe --bind-to none -np 2 sh each.sh >mpi.out 2>&1 || true
    [ "$(cat rank-0 rank-1 | tr '\n' ' ')" = "3 3 " ] || { cat mpi.out; exit 1; }
fi
"$at/bin/stretto" train --model resnet8 --data synthetic:size=32,classes=100,count=16,test_count=16 --batch 8 --steps 2 \
    --threads 1 --eval-every never --save-every never --quiet --out weights
./finetune weights/model.safetensors tuned.safetensors --model resnet8 --threads 1 --lr 0.1 --epochs 1 >tuned.out
grep -q 'fc.weight: F32 \[100,64\] in the file, F32 \[4,64\] in the model' tuned.out
grep -q '^accuracy' tuned.out && test -s tuned.safetensors
# A sample, and a line that is none.
{ awk 'BEGIN { for (i = 0; i < 64; i++) printf "%g ", i % 16 / 16; print "" }'; echo 1 2 3; } |
    ./serve --model mlp --data digits --weights model.safetensors --threads 1 >served
grep -qx '[0-9] 0\.[0-9]*' served && grep -qx 'error: 3 numbers, 64 are needed' served || { cat served; exit 1; }
! ./serve --model nothing 2>served.err || { echo "an unknown model was served"; exit 1; }
grep -q "serve: --model: 'nothing' is not allowed" served.err
unset LD_LIBRARY_PATH
unset PKG_CONFIG_SYSROOT_DIR # it would move the system's own -L into the stage
static_libs=$(pkg-config --static --libs stretto | sed "s|-L/opt/stretto/lib||; s|-lstretto|$at/lib/libstretto.a|")
${CC:-gcc} user.c -I"$at/include" $static_libs -o static
test "$(./static)" = "$version"
foreign=$(nm -D --defined-only "$at/lib/libstretto.so" | awk '$3 !~ /^stretto_/ { print $3 }')
test -z "$foreign" || { echo "exported: $foreign"; exit 1; }
"$at/bin/stretto" help >/dev/null

# The manual page, completion and documents are those of this program, where their readers look for them.
"$at/bin/stretto" help --man | cmp - "$at/share/man/man1/stretto.1"
"$at/bin/stretto" completion bash | cmp - "$at/share/bash-completion/completions/stretto"
"$at/bin/stretto" completion zsh | cmp - "$at/share/zsh/site-functions/_stretto"
cmp "$ROOT/README.md" "$at/share/doc/stretto/README.md"
for page in "$ROOT"/docs/*.md; do cmp "$page" "$at/share/doc/stretto/docs/${page##*/}"; done
for file in "$at"/share/doc/stretto/*.md "$at"/share/doc/stretto/docs/*.md; do
    grep -o '](\([^)#]*\)' "$file" | sed 's/^](//' | while read -r target; do
        case $target in '' | http*) continue ;; esac
        [ -e "$(dirname "$file")/$target" ] || { echo "$file: link to $target leads nowhere"; exit 1; }
    done
done
if command -v man >/dev/null && [ "$(man --path 2>/dev/null)" ]; then
    test "$(MANPATH=$at/share/man man --where stretto)" = "$at/share/man/man1/stretto.1"
fi
make -s -C "$ROOT" uninstall PREFIX=/opt/stretto DESTDIR="$(pwd)/stage"
test -z "$(find stage ! -type d)"
