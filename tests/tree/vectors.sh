# What is marked to become vector code has become it: every clone of a function for AVX2 or AVX-512 uses wide registers. At -O2
# the compiler leaves a loop of unknown length as it is, unless "omp simd" stands before it.
command -v objdump >/dev/null || { echo "there is no objdump"; exit 77; }
objdump -d --no-show-raw-insn "$STRETTO" | awk '
    /^[0-9a-f]+ <.*>:$/ { name = "" }
    /^[0-9a-f]+ <[a-z0-9_]+\.(avx2|avx512f)(\.[0-9]+)?>:$/ { name = $2; wide[name] = 0 }
    name != "" && /%[yz]mm/ { wide[name]++ }
    END {
        for (name in wide) {
            all++
            if (!wide[name]) { print name " has no vector instruction"; bad++ }
        }
        if (!all) { print "this build has no clones"; exit 77 }
        exit bad > 0
    }'
