/* A chain: one forward call and the backward calls that its gradient rule emits, with reference
 * values for all tensors. Both tests of values, backends against ref and gradients against
 * differences, walk chains. */
#ifndef TESTS_OP_CHAIN_H
#define TESTS_OP_CHAIN_H

#include "cases.h"

enum { CHAIN_VALUES = 32, CHAIN_CALLS = 8 };

struct chain_value {
    struct tensor_type type;
    void *data;  /* plain; owned */
    float *wide; /* of a narrow value: before it was rounded; owned */
    bool opaque; /* each backend keeps it its own way: relu masks, places of maxima, what is
                    kept of softmax */
};

struct chain_call {
    struct op_call call;
    enum op_half half;
    int in[OP_MAX_IN], out[OP_MAX_OUT]; /* indices of values */
    void *after[OP_MAX_IN];             /* inputs as the call left them; owned */
};

struct chain {
    const struct op_case *of;
    int value_count, call_count;
    struct chain_value values[CHAIN_VALUES];
    struct chain_call calls[CHAIN_CALLS]; /* [0] is the forward call */
    int d_out, seed;                      /* what backward starts from, -1: none */
    int d_in[OP_MAX_IN];                  /* gradient of each forward input, -1: none */
    bool narrow;
    enum dtype dtype; /* of what is narrow */
};

/* Fills forward input `input` (OP_MAX_IN: the gradient of the first output). */
typedef void chain_draw(const struct op_case *of, int input, const struct tensor_type *type,
                        void *data);
/* Local. Normal numbers, keyed by the case's name and chain_seed. */
chain_draw chain_draw_random;
extern uint64_t chain_seed;

/* Local. Builds the chain with the gradients asked for (NULL: of every f32 input), draws its inputs
 * (NULL: chain_draw_random), and runs the reference kernels. Owned by the caller:
 * chain_free. A misfit ends the process. */
struct chain *chain_new(const struct op_case *of, const bool need[], chain_draw *draw);
/* Local. The same with bf16 where a graph of --dtype bf16 has it; with f16 for f16. */
struct chain *chain_new_narrow(const struct op_case *of, chain_draw *draw);
struct chain *chain_new_narrow_of(const struct op_case *of, chain_draw *draw, enum dtype dtype);
void chain_free(struct chain **chain);

#endif
