/* The digits data set inside the binary: the four gzipped IDX files as they lie in digits_files/, so that a
 * first training run needs no download. Assembled from the repository root, which the paths are relative to. */
        .section .rodata

        .macro embed name, path
        .globl \name
        .hidden \name
        .balign 16
\name:
        .incbin "\path"
        .globl \name\()_end
        .hidden \name\()_end
\name\()_end:
        .byte 0
        .endm

        embed digits_train_images, "src/data/digits_files/train-images-idx3-ubyte.gz"
        embed digits_train_labels, "src/data/digits_files/train-labels-idx1-ubyte.gz"
        embed digits_test_images, "src/data/digits_files/t10k-images-idx3-ubyte.gz"
        embed digits_test_labels, "src/data/digits_files/t10k-labels-idx1-ubyte.gz"

        .section .note.GNU-stack, "", %progbits
