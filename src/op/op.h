/* Operations: the vocabulary of graphs.
 *
 * An operation is a row of op.def and one `struct op_def`: how output types follow from input
 * types, what it costs, which operations make its gradient, what of it may be narrow, what it is
 * fused with, how its attributes read, and a reference kernel in plain C that defines what is
 * correct. All that differs between operations is a field there: no other module lists them, apart
 * from the backends' tables of kernels. An op_call is one use of it, with attributes and types but
 * no data: all that a backend needs to choose a kernel. Backends never see the graph, operations
 * never see backends. */
#ifndef OP_OP_H
#define OP_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "op/activation.h"
#include "tensor/tensor.h"

enum op {
#define OP(NAME, name, doc) OP_##NAME,
#include "op/op.def"
#undef OP
    OP_COUNT
};

enum { OP_MAX_IN = 8, OP_MAX_OUT = 4 };

struct layout; /* of backend/backend.h; only OP_REORDER names one */

/* What an operation is told beyond its inputs. Which member is in use follows from the operation; a
 * backward operation uses the member of its forward one. Unused bytes are zero, so that equal calls
 * compare equal. */
struct op_attrs {
    enum activation activation; /* conv2d, linear, batch_norm*, add: applied to the output */
    bool has_bias;              /* conv2d_bwd_weight, linear_bwd_weight: also make db */
    bool across;                /* linear*: the weight is stored [I,O] */
    bool saves; /* linear: what the activation was applied to is the second output, for backward */
    bool residual; /* batch_norm_bwd*: relu stood behind a sum with a residual, whose gradient is
                      the last output of those that make dx */
    int ranks;     /* batch_norm_apply, stats_exchange: that put statistics together */
    struct shape like; /* shape of the output where inputs do not tell it: *_bwd, expand, reshape */
    union {
        struct {
            int stride[2], pad[2], dilation[2], groups;
        } conv;
        struct {
            int kernel[2], stride[2], pad[2];
            bool adaptive; /* avg_pool only: `like` holds the output's height and width as dim[0],
                              dim[1] */
        } pool;
        struct {
            float epsilon, momentum;
        } norm;
        struct {
            bool transpose_a, transpose_b;
            float scale;
        } matmul;
        struct {
            int heads;
            bool packed, masked, causal;
            float dropout;  /* 0: no key input */
            uint32_t place; /* keys the dropout, as in `dropout` */
        } attention;
        struct {
            float probability;
            uint32_t place; /* which dropout of the graph this is: part of the random key */
        } dropout;
        struct {
            float smoothing;
        } loss;
        struct op_slice_attrs {
            int axis;
            int64_t begin, end;
        } slice;
        struct {
            int axis;
        } concat;
        struct {
            int order[SHAPE_MAX_RANK]; /* output dimension i is input dimension order[i] */
        } transpose;
        struct {
            const struct layout *to;
        } reorder;
        struct {
            struct op_use *use;   /* op/user.h; of the graph */
            unsigned flows, need; /* user_bwd, a bit each: outputs whose gradients come in, inputs
                                     whose gradients go out */
        } user;
    };
};

/* One use of an operation. An absent optional input has rank 0 and is not counted: optional inputs
 * come last. */
struct op_call {
    enum op op;
    struct op_attrs attrs;
    int in_count, out_count;
    struct tensor_type in[OP_MAX_IN], out[OP_MAX_OUT];
};

struct op_cost {
    double flops; /* a multiply-add counts two */
    double bytes; /* read and written, each tensor once */
};

/* Input gradients (I) and weight gradients (W) are the two halves of a backward pass; an operation
 * whose kernel makes both at once belongs to I. */
enum op_half { OP_HALF_I, OP_HALF_W };

/* What a gradient rule sees and fills. Values are handles of the graph; -1 is "none". */
struct op_grad {
    const struct op_call *call;
    const int *in, *out; /* the forward call's values */
    const int *d_out;    /* gradient of each output, -1 where nothing flows */
    const bool *need;    /* per input: is its gradient wanted? */
    int seed;            /* losses: the value that backward starts from */
    int *d_in;           /* filled by the rule: gradient of each input, or -1 */
    void *graph;
    /* Adds a backward operation; its outputs' handles are written to `out` (the count follows from
     * the call). */
    void (*emit)(struct op_grad *grad, enum op op, const struct op_attrs *attrs, enum op_half half,
                 int in_count, const int *in, int *out);
};

enum op_flags {
    OP_VIEW = 1,        /* the output is the input's bytes: nothing runs */
    OP_SIDE_EFFECT = 2, /* changes its inputs: not run again by recomputation */
    OP_IN_PLACE = 4,    /* out[0] may share the bytes of in[0] when that one dies here */
    OP_EXCHANGE = 8,    /* needs the other ranks: run by the executor, its kernel stands in alone */
    OP_EVERY_RANK = 16, /* follows from what was exchanged: run also where there are no samples */
    OP_EXACT_IN = 32,   /* its first input is f32 in every run: a loss is made from it */
    OP_PRODUCT = 64,    /* products of matrices: arithmetic takes its time, not memory */
    OP_TRAILS = 128,    /* belongs to the layer ahead: a partition does not begin with it */
    OP_STREAM = 256, /* f32 in every run, as what it reads, where a sum reads it (graph/narrow.c) */
};

/* A function of one value, and its gradient from what forward kept. */
struct op_function {
    enum activation activation;
    enum op backward;
    bool from_input; /* the gradient is made from the input; else from the output */
    double (*value)(double x);
    double (*gradient)(double dy, double kept);
};

/* What comes behind an operation and can be done by it, where it alone reads the output. */
struct op_fusion {
    unsigned activations;  /* bits, OP_ACTIVATION(RELU) */
    enum op with, becomes; /* this operation too; both together are `becomes` (0: none is) */
};
#define OP_ACTIVATION(NAME) (1u << ACTIVATION_##NAME)
#define OP_ACTIVATION_ANY (~0u)

struct op_line; /* of rule.h */

struct op_def {
    const char *name;
    unsigned flags;
    /* Local. Fills out_count and out[] from in[] and attrs; on a misfit writes the reason to `why`
     * and fails (without logging: the graph adds the node's name). */
    enum status (*infer)(struct op_call *call, char *why, size_t why_bytes);
    /* Local. NULL: no arithmetic to speak of, bytes of all tensors. */
    struct op_cost (*cost)(const struct op_call *call);
    /* Local. NULL: no gradient flows. */
    void (*grad)(struct op_grad *grad);
    /* Local. Reference kernel on plain layouts; `scratch` has scratch_bytes(call) bytes (NULL when
     * that is NULL). */
    void (*run)(const struct op_call *call, void *const in[], void *const out[], void *scratch);
    size_t (*scratch_bytes)(const struct op_call *call);
    /* With --dtype bf16 or f16, bits: outputs that may be of that type, and inputs that are rounded
     * to it where they are f32. Without these fields the operation keeps f32: see precision.h. */
    unsigned narrow_out, narrow_in;
    struct op_fusion fuses;
    /* Of an activation and of its backward operation; else NULL. */
    const struct op_function *function;
    /* Local. Appends the attributes worth showing, but for the activation. NULL: none. */
    void (*text)(const struct op_call *call, struct op_line *line);
};

/* Local. The definition of an operation, never NULL. */
const struct op_def *op_def(enum op op);
/* Local. The operation that is this activation alone; none is not one. */
enum op op_of_activation(enum activation activation);
/* Local. Does the activation's gradient need what it was applied to? */
bool activation_needs_input(enum activation activation);
/* Local. Cost of a call whose types are known. */
struct op_cost op_cost(const struct op_call *call);
/* Local. Fills in the output types; logs nothing. */
enum status op_infer(struct op_call *call, char *why, size_t why_bytes);
/* Local. False for a label that no loss counts. Readers of data keep labels in range, so another
 * one is a bug. */
bool op_label_counts(int32_t label, int64_t classes);
/* Local. Attributes worth showing ("3x3 stride 2 relu"), "" when none; returns `text`. */
enum { OP_TEXT_BYTES = 96 };
const char *op_attrs_text(const struct op_call *call, char text[OP_TEXT_BYTES]);

#endif
