/* Backends: who runs operations, where memory is, and in which layout.
 *
 * A backend is a const table. `ref` runs the reference kernels of src/op on plain layouts and is
 * the template for new ones; `cpu` overlays it with oneDNN; `cuda` fills the same slots with real
 * streams and events. Kernels are made once, at plan time, from an op_call and the layouts its
 * inputs have; they say which layouts they want and give, so the planner can put a REORDER where
 * two do not meet. Running one allocates nothing. */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/exact.h"
#include "base/status.h"
#include "op/op.h"
#include "optim/optim.h"

struct backend;

enum { NORM_BLOCK = 1024 }; /* elements whose squares are summed as one: see array_squares */

/* How convolutions are computed: AUTO by the backend's rule for the shape; WINOGRAD wherever it can
 * be; a backend that has one way only takes that. */
enum conv_method { CONV_AUTO, CONV_DIRECT, CONV_WINOGRAD };

/* An open device: one per rank (thread), not shared between threads. Backends extend it by
 * embedding. */
struct device {
    const struct backend *backend;
    int index, threads;
    bool dry; /* its kernels are only described: layouts, scratch and names; they cannot run */
    enum conv_method conv; /* of the kernels made from now on; AUTO when it opens */
    bool tf32; /* products of f32 may round their operands to tf32, in kernels made from now on; off
                  when it opens; acts where there is such an instruction */
};

/* The most that memory_new gave; what it has given now; what libraries took (0: not known). */
struct device_bytes {
    size_t peak, taken, libraries, expected /* of these */, all;
};

/* How a tensor's bytes are arranged. Interned per device: equal layouts are equal pointers, owned
 * by the device. */
struct layout {
    struct tensor_type type;
    size_t bytes;     /* physical, padding included */
    bool plain;       /* row major, unpadded */
    const char *text; /* "plain", "aBcd16b" ... */
};

/* A chosen implementation of one call. */
struct kernel {
    struct device *device;
    const char *name; /* for explain: "onednn:jit:avx512_core", "ref" */
    size_t scratch_bytes;
    size_t packed_bytes; /* that its library takes from malloc while it runs */
    const struct layout *in[OP_MAX_IN], *out[OP_MAX_OUT]; /* what it wants and gives */
    /* Of a narrow input: how an f32 tensor best lies to be rounded to it; NULL: plain. */
    const struct layout *rounded_from[OP_MAX_IN];
};

struct stream; /* an in-order queue of work */
struct event;  /* a point in it; on CPUs both are nothing */
struct backend {
    const char *name, *help;
    /* Its memory is its own, reached by this table alone, and work on its streams is done later. Of
     * others memory is the host's, and nothing is ever under way. */
    bool apart;
    /* Local. Makes what the first kernel of an operation, on narrow types or not, would make in
     * this process, so that it can be measured before. NULL: nothing. */
    void (*warm_up)(struct device *device, enum op op, bool narrow);

    /* Local. Opens device `index` for a team of `threads`; the caller frees it with close. */
    enum status (*open)(int index, int threads, struct device **out);
    void (*close)(struct device *device);
    /* Local. One line on what this is: library version, instruction set. */
    void (*describe)(struct device *device, char *text, size_t bytes);
    /* Local. The instruction set of the kernels of device `index`: "avx2". The device is not
     * opened for it: who looks up times before there is a plan may still fork. */
    void (*isa)(int index, char *text, size_t bytes);
    /* Local. The instruction set that was tried here, for processes that this one starts: see
     * backend_tried_isa. NULL, or none yet: nothing to try. */
    const char *(*tried_isa)(void);

    /* Local. What the device is made of, for doctor: name of row `index`, and what this machine has
     * of it (text NULL: the name alone); false behind the last. The device is not opened for it; it
     * logs nothing. NULL: describe says it all. */
    bool (*part)(int index, const char **name, char *text, size_t bytes);

    /* Local. Are activations of this type computed here? STATUS_USAGE says why not. */
    enum status (*takes)(struct device *device, enum dtype dtype);
    /* Local. Can this call be run here, and about how long would it take (ns, one call)? */
    bool (*supports)(struct device *device, const struct op_call *call);
    double (*cost_ns)(struct device *device, const struct op_call *call);

    /* Local. The plain layout of a type. */
    const struct layout *(*plain)(struct device *device, const struct tensor_type *type);

    /* Local. Makes a kernel. in[i] is the layout input i has, or NULL where the kernel may choose
     * (parameters not placed yet). The choice follows from the call, the layouts and the machine,
     * never from timing, so that bits repeat. */
    enum status (*kernel_create)(struct device *device, const struct op_call *call,
                                 const struct layout *const in[], struct kernel **out);
    void (*kernel_free)(struct kernel *kernel);
    /* Local, asynchronous on the stream (NULL: the default one). `scratch` has the kernel's
     * scratch_bytes. A failure, already logged, may be that of an earlier kernel of the stream. */
    enum status (*kernel_run)(struct kernel *kernel, void *const in[], void *const out[],
                              void *scratch, struct stream *stream);

    /* Local, blocking. Device memory (64-byte aligned, zeroed); memory of the host that copies run
     * from and to beside other work; the same of memory that somebody else has. */
    enum status (*memory_new)(struct device *device, size_t bytes, const char *what, void **out);
    void (*memory_free)(struct device *device, void *memory, size_t bytes);
    /* Local. What was taken of it, and all there is. NULL: it is the host's. */
    void (*memory_bytes)(struct device *device, struct device_bytes *out);
    enum status (*pinned_new)(struct device *device, size_t bytes, const char *what, void **out);
    void (*pinned_free)(struct device *device, void *memory, size_t bytes);
    enum status (*pin)(struct device *device, void *memory, size_t bytes);
    void (*unpin)(struct device *device, void *memory, size_t bytes);
    /* Local, asynchronous on the stream. Between device memory and that of the host, which stays as
     * it is until the copy is done. Blocking ones are in backend/copy.h. */
    enum status (*copy_in)(struct device *device, void *to, const void *host, size_t bytes,
                           struct stream *stream);
    enum status (*copy_out)(struct device *device, void *host, const void *from, size_t bytes,
                            struct stream *stream);

    /* Local, asynchronous on the stream. Arithmetic on arrays of device memory, of f32, bf16 or f16
     * (computed in f32, rounded once). Bits depend neither on the team nor on how an array is cut
     * (for squares: at multiples of NORM_BLOCK). What is told of an array is written to device
     * memory.
     *
     *     copy     bytes from one place of the device to another
     *     fill     every element is `value`
     *     add      into += from, of one type and count
     *     squares  sums[b]: of the squares of block b (NORM_BLOCK elements, the last one fewer) in
     *              f64, in an order fixed by the element's place in the block; not finite when any
     *              element is not
     *     sum      adds some sums exactly to *total
     *     decide   what the sum of the squares of all gradients means for the update, by
     *              optim_decide: *stop is set where nothing may be updated any more, as where
     *              `losses` (NULL: none) are not finite
     *     check    *bad becomes 1 where an element is not finite, and is left alone else
     *     update   one fused pass of an optimizer; *bad as above, of the parameters afterwards: one
     *              that no gradient depends on is seen here alone. Step and spans are read before
     *              the call returns */
    enum status (*array_copy)(struct device *device, void *to, const void *from, size_t bytes,
                              struct stream *stream);
    enum status (*array_fill)(struct device *device, const struct elements *to, float value,
                              struct stream *stream);
    enum status (*array_add)(struct device *device, const struct elements *into,
                             const struct elements *from, struct stream *stream);
    enum status (*array_squares)(struct device *device, const struct elements *of, double *sums,
                                 struct stream *stream);
    enum status (*array_sum)(struct device *device, const double *sums, int64_t count,
                             struct exact_sum *total, struct stream *stream);
    enum status (*array_decide)(struct device *device, const struct exact_sum *squares,
                                const struct exact_sum *losses, const struct optim_limits *limits,
                                struct optim_decision *out, int32_t *stop, struct stream *stream);
    enum status (*array_check)(struct device *device, const struct elements *of, int32_t *bad,
                               struct stream *stream);
    enum status (*array_update)(struct device *device, const struct optim_update *update,
                                int32_t *bad, struct stream *stream);

    /* Local. Streams and events. stream_wait and event_wait block until the device has come there,
     * and tell whether the work before was done; event_done looks. An event never recorded is done;
     * whoever waits already waits for the record before. event_ns: between two timed ones. */
    enum status (*stream_new)(struct device *device, struct stream **out);
    void (*stream_free)(struct device *device, struct stream *stream);
    enum status (*stream_wait)(struct device *device, struct stream *stream);
    enum status (*event_new)(struct device *device, bool timed, struct event **out);
    void (*event_free)(struct device *device, struct event *event);
    void (*event_record)(struct event *event, struct stream *stream);
    void (*stream_wait_event)(struct stream *stream, struct event *event);
    enum status (*event_wait)(struct event *event);
    enum status (*event_done)(struct event *event, bool *done);
    enum status (*event_ns)(struct event *begin, struct event *end, int64_t *ns);

    const struct backend_reach *reach; /* see reach.h; NULL: no rank reaches another's memory */
    const struct backend_watch *watch; /* see watch.h; NULL: nothing to see */
    const struct backend_blend *blend; /* see blend.h */
};

/* Local. A registered backend by name, or NULL; all of them, NULL last. */
const struct backend *backend_find(const char *name);
const struct backend *const *backend_all(void);

/* Local. Thin wrappers; device_close and kernel_free accept NULL and clear the pointer. */
enum status device_open(const char *backend, int index, int threads, struct device **out);
void device_close(struct device **device);
enum status kernel_create(struct device *device, const struct op_call *call,
                          const struct layout *const in[], struct kernel **out);
void kernel_free(struct kernel **kernel);
static inline enum status kernel_run(struct kernel *kernel, void *const in[], void *const out[],
                                     void *scratch, struct stream *stream) {
    return kernel->device->backend->kernel_run(kernel, in, out, scratch, stream);
}

#endif
