/* Our kernels inside the binary: one fatbin, which nvcc makes of the .cu files of this folder. CUDA_FATBIN, the path of
 * that file, comes from the Makefile. */
        .section .rodata
        .globl cuda_fatbin
        .hidden cuda_fatbin
        .balign 64
cuda_fatbin:
        .incbin CUDA_FATBIN

        .section .note.GNU-stack, "", %progbits
