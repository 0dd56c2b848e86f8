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
${CC:-gcc} "$ROOT/examples/train.c" $(pkg-config --cflags --libs stretto) -o example
LD_LIBRARY_PATH=$at/lib ./example model.safetensors | grep -q '^accuracy'
test -s model.safetensors
unset PKG_CONFIG_SYSROOT_DIR # it would move the system's own -L into the stage
static_libs=$(pkg-config --static --libs stretto | sed "s|-L/opt/stretto/lib||; s|-lstretto|$at/lib/libstretto.a|")
${CC:-gcc} user.c -I"$at/include" $static_libs -o static
test "$(./static)" = "$version"
foreign=$(nm -D --defined-only "$at/lib/libstretto.so" | awk '$3 !~ /^stretto_/ { print $3 }')
test -z "$foreign" || { echo "exported: $foreign"; exit 1; }
[ ! -e "$at/bin/stretto" ] || "$at/bin/stretto" help >/dev/null
make -s -C "$ROOT" uninstall PREFIX=/opt/stretto DESTDIR="$(pwd)/stage"
test -z "$(find stage ! -type d)"
