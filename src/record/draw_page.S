/* Style and script of the HTML drawing inside the binary, as they lie in draw_page/: a browser's own languages in
 * files of their own, which editors and checkers know. Assembled from the repository root, which the paths are
 * relative to. Each ends with a zero byte. */
        .section .rodata

        .macro embed name, path
        .globl \name
        .hidden \name
\name:
        .incbin "\path"
        .byte 0
        .endm

        embed draw_page_style, "src/record/draw_page/timeline.css"
        embed draw_page_script, "src/record/draw_page/timeline.js"

        .section .note.GNU-stack, "", %progbits
