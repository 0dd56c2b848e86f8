/* The layout of a store: which arrays a rank has, of which type, which elements of each it holds
 * and in whose memory. Known and priced before any memory exists; the store (store.h) fills it.
 *
 * Parameters follow one another in one range of elements, each padded to a multiple of NORM_BLOCK;
 * gradients and optimizer state are arrays over the same range, so an update is one pass. A
 * gradient array has a tail behind it for the further uses of shared parameters. Padding is and
 * stays zero. A rank owns some slices of the range: it adds up their squares and updates them; of
 * parameters that two ranks of a pipeline have one adds up the squares and both make the update. An
 * array holds all elements, or only those that are owned. */
#ifndef PLAN_STATE_LAYOUT_H
#define PLAN_STATE_LAYOUT_H

#include "graph/graph.h"

/* Bytes of so many elements: parameters, gradients and optimizer state are f32, whatever --dtype
 * is. */
#define STORE_DTYPE DTYPE_F32
static inline int64_t state_bytes(int64_t elements) {
    return elements * (int64_t)dtype_bytes(STORE_DTYPE);
}

enum array_kind {
    ARRAY_PARAM,
    ARRAY_VERSION, /* one for each older version of the parameters that is kept */
    ARRAY_GRAD,    /* one for each gradient buffer of the program */
    ARRAY_STATE,   /* one for each of the optimizer's */
    ARRAY_FROZEN,  /* parameters that are not trained: no other array is over them */
    ARRAY_BUFFER,  /* running statistics, of several types: an array of bytes */
    /* Where replicas train apart: the parameters that all had after the last average, and the outer
     * optimizer's momentum */
    ARRAY_COMMON,
    ARRAY_OUTER,
    /* Where gradients or parameters are sliced: some buckets of them, whole for a while */
    ARRAY_GRAD_WINDOW,
    ARRAY_PARAM_WINDOW,
    ARRAY_KIND_COUNT
};

/* The device's own, or the communicator's: what other ranks read or write. */
enum array_memory { MEMORY_DEVICE, MEMORY_COMM };

/* Elements [begin, begin + count) of the range. */
struct slice {
    int64_t begin, count;
};

/* Windows: element x of a parameter lies at x + shift of its position. A rank whose stages have no
 * parameters has windows without elements: its program names them like any other. */
struct state_window {
    const int64_t *shift; /* NULL: there are no windows */
    int64_t elements;
};

struct array_layout {
    enum array_kind kind;
    int index; /* of the gradient buffer or the state */
    enum dtype dtype;
    enum array_memory memory;
    const struct slice *slices; /* that are held, ascending, one behind the other in memory */
    int slice_count;
    int64_t held; /* elements of all of them */
    struct slice whole;
};

/* A parameter or a buffer: elements [begin, begin + count) of its arrays. */
struct state_item {
    const char *name;
    struct tensor_type type;
    const struct layout *layout;
    int64_t begin, count; /* -1 and 0: this rank does not hold it */
    int position;         /* of a parameter: in `order`; -1 where it is not held */
    bool decay;           /* of a parameter: weight decay reaches it */
    bool copy;            /* of a parameter: another rank has it, too, and answers for it */
    bool frozen;          /* a parameter that is not trained, on whichever rank it is */
};

/* Local. Whether this rank holds the item. */
static inline bool state_holds(const struct state_item *item) {
    return item->begin >= 0;
}

/* Local. Whether this rank saves the item, hashes it and counts it in norms. Two stages of a
 * pipeline may hold the same parameter; only one of them answers for it. */
static inline bool state_answers(const struct state_item *item) {
    return state_holds(item) && !item->copy;
}

/* One use of a parameter: where its gradient lies in a gradient array. */
struct state_use {
    int param, number; /* of those of this rank; 0: the first, in the parameter's own place; -1: it
                          is another rank's */
    int64_t begin;
};

struct state_layout {
    const struct optim_rule *optimizer;
    bool apart;                          /* replicas have values of their own: each saves its own */
    struct state_item *params, *buffers; /* of params those that are frozen are not held; */
    struct state_item *frozen;           /* of these, by the same numbers, no others are */
    struct state_use *uses;
    int param_count, buffer_count, use_count; /* of the graph: all stages */
    int64_t *grad_shift, *param_shift;        /* windows, by position; NULL: there are none */
    int64_t grad_window, param_window; /* their elements; of gradients, further uses behind them */
    int *order, held_count;            /* parameters this rank holds, as they follow one another */
    int64_t param_elements, gradient_elements, frozen_elements, buffer_bytes; /* whole arrays */
    struct slice *owned;
    int owned_count;
    struct slice *counted; /* of what is owned: what this rank answers for */
    int counted_count;
    struct array_layout *arrays; /* by kind and index */
    int array_count, first[ARRAY_KIND_COUNT];
};

struct state_config {
    const struct graph *graph; /* lowered, for training; outlives the layout */
    const struct optim_rule *optimizer;
    const int *params; /* of the graph that the rank holds, in order; NULL: all that are trained */
    int param_count;
    const int *frozen; /* likewise of those that are not; NULL: all of them */
    int frozen_count;
    const bool *copies;        /* per parameter of the graph; NULL: none is */
    const bool *uses;          /* per use of the graph: it is this rank's; NULL: all of them */
    const bool *holds_buffer;  /* per buffer of the graph; NULL: all of them */
    bool forward;              /* nothing is learnt: there is no optimizer state */
    int versions;              /* of the parameters, beside the newest */
    bool apart;                /* replicas have values of their own */
    bool common, outer;        /* there are those arrays */
    int grads;                 /* gradient buffers; a driver of stages has none, and learns */
    int grad_windows;          /* buffers of windows, where there are any */
    bool decay[3];             /* per class of parameters: weight decay reaches it */
    const struct slice *owned; /* ascending, of whole blocks of NORM_BLOCK; NULL: everything */
    int owned_count;
    struct {
        enum array_memory memory;
        bool sliced; /* holds what is owned, no more */
    } array[ARRAY_KIND_COUNT];
    struct state_window windows[ARRAY_KIND_COUNT]; /* of ARRAY_GRAD and ARRAY_PARAM */
};

/* Local. Elements that a parameter of a lowered graph takes in the range, padding included; `count`
 * of them together (`params` NULL: the first ones). */
int64_t state_param_span(const struct graph *graph, int param);
int64_t state_param_elements(const struct graph *graph, const int *params, int count);

/* Local. The caller owns the layout; state_layout_free accepts NULL and clears the pointer. */
struct state_layout *state_layout_new(const struct state_config *config);
void state_layout_free(struct state_layout **layout);

/* Local. The number of an array. */
int state_array(const struct state_layout *layout, enum array_kind kind, int index);
/* Local. The items that lie in an array, and how many. */
const struct state_item *state_items(const struct state_layout *layout, int array, int *count);
/* Local. A parameter by its number in the graph, trained or not, and the array that has its values.
 */
static inline const struct state_item *state_param(const struct state_layout *layout, int param) {
    return layout->params[param].frozen ? &layout->frozen[param] : &layout->params[param];
}
int state_param_array(const struct state_layout *layout, int param);
/* Local. Where elements of an array lie among those that are held; -1: not all of them are, or not
 * in one slice. */
int64_t state_place(const struct state_layout *layout, int array, int64_t begin, int64_t count);

/* Local. Whether this rank holds slices of the array, not all of it. */
bool state_is_sliced(const struct state_layout *layout, int array);
/* Local. Whether this rank holds at least one element of the item in the array. */
bool state_holds_part(const struct state_layout *layout, int array, const struct state_item *item);

/* Local. Each tensor has one rank that saves it: who holds the first element in an array of slices,
 * else the first of the replicas that hold the same. Whether this is the one; whether it must put
 * the item together from the slices of several. */
bool state_writes(const struct state_layout *layout, int array, const struct state_item *item,
                  bool first_replica);
bool state_collects(const struct state_layout *layout, int array, const struct state_item *item);

/* Local. The place of a use's gradient in the windows of gradients. */
int64_t state_window_use(const struct state_layout *layout, const struct state_use *use);
/* Local. The place of element x of the parameter at `position`, in the windows of gradients or of
 * parameters (`kind`). */
int64_t state_window_place(const struct state_layout *layout, enum array_kind kind, int position,
                           int64_t x);

/* Local. Bytes of all arrays of a kind that this rank holds; of its parameters, trained or not; of
 * what must come from comm_alloc. */
size_t state_kind_bytes(const struct state_layout *layout, enum array_kind kind);
size_t state_param_bytes(const struct state_layout *layout);
size_t state_heap_bytes(const struct state_layout *layout);

#endif
