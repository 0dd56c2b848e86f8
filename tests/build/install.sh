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
