/* Inside the cpu backend: devices, layouts, and how kernels are put together.
 *
 * A kernel is a short list of steps. A step is either a oneDNN primitive, whose memory objects and
 * argument array are made once and only pointed at the tensors' bytes when it runs, or a loop of
 * ours. A family file (conv.c, norm.c, ...) offers creators: each fills a kernel whose call is
 * known, or answers STATUS_NO, upon which the reference kernel takes the call. Nothing here is
 * exported but backend_cpu and cpu_probe_isa. */
#ifndef BACKEND_CPU_CPU_H
#define BACKEND_CPU_CPU_H

#include "backend/backend.h"
#include "backend/cpu/onednn.h"

struct cpu_layout {
    struct layout base;
    const struct dnn_md *md; /* NULL: oneDNN does not know this one */
    struct cpu_layout *next;
    char text[DNN_TEXT_BYTES];
};

struct cpu_device {
    struct device base;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct cpu_layout *layouts; /* every layout ever asked for; few, so a list */
};

/* Where a primitive's argument lies when the kernel runs. */
enum cpu_place { CPU_IN, CPU_OUT, CPU_SCRATCH };

struct cpu_bind {
    int argument; /* DNNL_ARG_SRC ... */
    enum cpu_place place;
    int index;           /* of the input or output */
    size_t offset_bytes; /* into it */
};

enum { CPU_MAX_ARGUMENTS = 6, CPU_MAX_STEPS = 8, CPU_NAME_BYTES = 64 };

struct cpu_kernel;
typedef void cpu_loop(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                      void *scratch);

struct cpu_step {
    cpu_loop *loop;             /* or: */
    dnnl_primitive_t primitive; /* owned, with the memory objects of exec */
    int count;
    struct cpu_bind bind[CPU_MAX_ARGUMENTS];
    dnnl_exec_arg_t exec[CPU_MAX_ARGUMENTS];
};

/* An image tensor in any layout with one channel block: element (n, c, pixel) lies at
 * ((n * blocks + c / lanes) * pixels + pixel) * lanes + c % lanes. Row major [B,C,H,W] has lanes 1;
 * channels-last has lanes C; oneDNN's nChw16c has lanes 16. */
struct cpu_image {
    int64_t batch, channels, blocks, lanes, height, width, pixels;
    bool channels_last;
};

struct cpu_kernel {
    struct kernel base;
    struct op_call call;
    int step_count;
    struct cpu_step step[CPU_MAX_STEPS];
    size_t own_bytes; /* scratch of our loops, ahead of the primitives' */
    char name[CPU_NAME_BYTES];
    /* What the loops of this kernel need to know; which are set follows from the operation. */
    struct cpu_image image, image_out;
    int64_t rows, columns, count;
    struct cpu_kernel *inner; /* of cpu_widened; owned */
};

/* Makes a kernel for kernel->call from the layouts its inputs have. base.in and base.out are plain
 * when it starts. */
typedef enum status cpu_creator(struct cpu_kernel *kernel, const struct layout *const in[]);
cpu_creator cpu_conv, cpu_winograd, cpu_linear, cpu_linear_bwd_data, cpu_linear_bwd_weight,
    cpu_matmul;
cpu_creator cpu_batch_norm, cpu_batch_norm_bwd, cpu_batch_norm_eval, cpu_batch_norm_stats,
    cpu_batch_norm_apply, cpu_batch_norm_bwd_stats, cpu_batch_norm_bwd_apply, cpu_layer_norm,
    cpu_layer_norm_bwd;
cpu_creator cpu_eltwise, cpu_add, cpu_dropout, cpu_reorder;
cpu_creator cpu_softmax, cpu_cross_entropy, cpu_cross_entropy_bwd, cpu_top_k, cpu_attention,
    cpu_attention_bwd, cpu_attention_narrow, cpu_attention_narrow_bwd;
cpu_creator cpu_pool, cpu_pool_bwd, cpu_sum_batch, cpu_transpose, cpu_embedding_bwd;
/* Any call with bf16 tensors, by the kernel of the same call in f32. */
cpu_creator cpu_widened;
/* A reorder whose layouts are set: of weights, rounded to the blocks of products. */
cpu_creator cpu_round_weights;

/* Local. The interned layout of a type in `md` (copied; NULL: row major). Owned by the device. */
const struct layout *cpu_layout(struct cpu_device *device, const struct tensor_type *type,
                                const struct dnn_md *md);
/* Local. A layout that only the kernels of one operation understand, told apart by its text. */
const struct layout *cpu_layout_private(struct cpu_device *device, const struct tensor_type *type,
                                        size_t bytes, const char *text);
/* Local. The layout of a type [B,C,H,W] with channels arranged as in `image` (of as many channels).
 */
const struct layout *cpu_layout_like(struct cpu_device *device, const struct tensor_type *type,
                                     const struct cpu_image *image);
const struct dnn_md *cpu_md(const struct layout *layout);
/* Local. Understands a layout of [B,C,...] as an image; false when it is none of that form. */
bool cpu_image(const struct layout *layout, struct cpu_image *out);
void cpu_layouts_free(struct cpu_device *device);

/* Local. Building kernels. cpu_step_primitive takes the descriptor over, also when it fails. */
struct cpu_device *cpu_device_of(const struct cpu_kernel *kernel);
void cpu_name(struct cpu_kernel *kernel, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void cpu_step_loop(struct cpu_kernel *kernel, cpu_loop *loop);
enum status cpu_step_primitive(struct cpu_kernel *kernel, dnnl_primitive_desc_t pd, int count,
                               const struct cpu_bind *bind);
/* Local. Describe and add in one go; the scratchpad is bound by itself. */
enum status cpu_step(struct cpu_kernel *kernel, const struct dnn_spec *spec, int count,
                     const struct cpu_bind *bind);
/* Local. Where the call asks for relu, adds a loop that applies it to output 0, whose layout is set
 * already. */
void cpu_step_relu(struct cpu_kernel *kernel);
/* Local. Notes what the primitive will take from malloc beside its scratchpad; cpu_step does. */
void cpu_note_packed(struct cpu_kernel *kernel, const struct dnn_spec *spec,
                     const_dnnl_primitive_desc_t pd);
/* Local. Reserves scratch for loops; returns its offset. Before the first primitive step. Pieces
 * lie cpu_padded(bytes) apart. */
size_t cpu_scratch(struct cpu_kernel *kernel, size_t bytes);
size_t cpu_padded(size_t bytes);

/* Local. Elements [begin, begin + count) of a tensor as f32: those of an f32 tensor themselves, of
 * a bf16 one a copy in `room`. The third rounds what was written to the second's place. */
const float *cpu_read(enum dtype dtype, const void *data, int64_t begin, int64_t count,
                      float *room);
float *cpu_room(enum dtype dtype, void *data, int64_t begin, float *room);
void cpu_write(enum dtype dtype, const float *room, void *data, int64_t begin, int64_t count);
/* Local. The same arrangement of another element type; NULL where it is neither plain nor that of
 * an image. */
const struct layout *cpu_layout_as(struct cpu_device *device, const struct layout *layout,
                                   enum dtype dtype);
/* Local. Runs the steps of kernel->inner. */
void cpu_run_inner(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                   void *scratch);

/* Local. Tries the instruction set oneDNN would use in a child process, once per process, and caps
 * it where that child dies; writes a line such as "avx512_core_bf16" or "avx2 (avx512_core
 * failed)". Before any primitive is made. */
enum status cpu_probe_isa(char *text, size_t bytes);
/* Local. See backend_tried_isa. */
const char *cpu_tried_isa(void);
/* Local. True when oneDNN will use AVX-512, or AVX2 at least. */
bool cpu_has_avx512(void);
bool cpu_has_avx2(void);
/* Local. Does oneDNN compute in bf16 here: by instructions, by f32 ones (slower than f32), not at
 * all? */
enum cpu_bf16 { CPU_BF16_NONE, CPU_BF16_EMULATED, CPU_BF16_FAST };
enum cpu_bf16 cpu_bf16(void);

/* The rows array_* of the table, for f32 on the team. */
enum status cpu_array_fill(struct device *device, const struct elements *to, float value,
                           struct stream *stream);
enum status cpu_array_add(struct device *device, const struct elements *into,
                          const struct elements *from, struct stream *stream);
enum status cpu_array_squares(struct device *device, const struct elements *of, double *sums,
                              struct stream *stream);
enum status cpu_array_check(struct device *device, const struct elements *of, int32_t *bad,
                            struct stream *stream);
enum status cpu_array_update(struct device *device, const struct optim_update *update, int32_t *bad,
                             struct stream *stream);

/* Dropout in one sample. Random words are made for more elements than are asked for, because those
 * behind them mostly come next. */
enum { CPU_DROP_WORDS = 1024 };
struct cpu_drop {
    uint64_t key;
    uint32_t limit; /* an element with a lower word is dropped */
    float factor;
    int64_t begin, end, last; /* elements that have words; elements that may be asked for */
    uint32_t words[CPU_DROP_WORDS];
};
/* Local. Before the first of the elements [0, last). */
void cpu_drop_begin(struct cpu_drop *drop, uint64_t key, float probability, int64_t last);
/* Local. Dropout of the elements [first, first + count), the same ones in each of `tensors`
 * tensors, which begin at `first`; y[i] may be x[i]. */
void cpu_drop(struct cpu_drop *drop, int64_t first, int64_t count, int tensors,
              const float *const x[], float *const y[]);
/* Local. The same of all elements of one bf16 tensor. */
void cpu_drop_narrow(struct cpu_drop *drop, const uint16_t *x, uint16_t *y);

/* Runs `body` for the pieces [begin, end) of [0, total) on the team; pieces do not depend on the
 * team's size. */
enum { CPU_PIECE = 16384 };
#define CPU_PIECES(total, begin, end)                                                              \
    _Pragma("omp parallel for schedule(static)") for (int64_t begin = 0; begin < (total);          \
                                                      begin +=                                     \
                                                      CPU_PIECE) for (int64_t end =                \
                                                                          begin + CPU_PIECE <      \
                                                                                  (total)          \
                                                                              ? begin + CPU_PIECE  \
                                                                              : (total),           \
                                                                      once_ = 1;                   \
                                                                      once_; once_ = 0)

#endif
