/* Layer norm in loops of our own: a row fits the first-level cache, so everything about it is done
 * while it is there. The gradients of scale and shift are summed over fixed pieces of rows, then
 * over the pieces in order, so the bits do not depend on the team's size. */
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/clones.h"
#include "op/precision.h"

/* A row of bf16 is computed in f32 on the stack; longer ones are widened as a whole (narrow.c). */
enum { PIECE_ROWS = 64, NARROW_COLUMNS = 8192 };

VECTOR_CLONES static void forward_row(const float *x, const float *scale, const float *shift,
                                      int64_t columns, float epsilon, float *y, float *mean,
                                      float *var) {
    float sum = 0, square = 0, n = (float)columns;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < columns; c++) sum += x[c];
    float middle = sum / n;
#pragma omp simd reduction(+ : square)
    for (int64_t c = 0; c < columns; c++) square += (x[c] - middle) * (x[c] - middle);
    float inverse = 1.0f / sqrtf(square / n + epsilon);
#pragma omp simd
    for (int64_t c = 0; c < columns; c++) y[c] = (x[c] - middle) * inverse * scale[c] + shift[c];
    *mean = middle;
    *var = square / n;
}

static void run_forward(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                        void *scratch) {
    (void)scratch;
    const float *scale = in[1], *shift = in[2];
    float *mean = out[1], *var = out[2], epsilon = kernel->call.attrs.norm.epsilon;
    enum dtype x_type = kernel->call.in[0].dtype, y_type = kernel->call.out[0].dtype;
    int64_t columns = kernel->columns;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < kernel->rows; r++) {
        float room[2][NARROW_COLUMNS], *y = cpu_room(y_type, out[0], r * columns, room[1]);
        const float *x = cpu_read(x_type, in[0], r * columns, columns, room[0]);
        forward_row(x, scale, shift, columns, epsilon, y, mean + r, var + r);
        cpu_write(y_type, y, out[0], r * columns, columns);
    }
}

/* With g = dy * scale and n = (x - mean) * inverse: dx = inverse * (g - avg(g) - n * avg(g n)). */
VECTOR_CLONES static void backward_row(const float *dy, const float *x, const float *scale,
                                       int64_t columns, float mean, float inverse, float *dx,
                                       float *dscale, float *dshift) {
    float sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
    for (int64_t c = 0; c < columns; c++) {
        float g = dy[c] * scale[c];
        sum += g;
        dot += g * (x[c] - mean);
    }
    float by_sum = sum / (float)columns, by_dot = dot * inverse / (float)columns;
#pragma omp simd
    for (int64_t c = 0; c < columns; c++) {
        float normal = (x[c] - mean) * inverse, g = dy[c];
        dscale[c] += g * normal;
        dshift[c] += g;
        dx[c] = inverse * (g * scale[c] - by_sum - normal * by_dot);
    }
}

VECTOR_CLONES static void add_pieces(const float *partial, int64_t pieces, int64_t step,
                                     int64_t columns, float *sum) {
    memset(sum, 0, (size_t)columns * sizeof *sum);
    for (int64_t i = 0; i < pieces; i++)
#pragma omp simd
        for (int64_t c = 0; c < columns; c++) sum[c] += partial[i * step + c];
}

/* Adds to dscale and dshift. */
static void backward_of(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                        int64_t row, float *dscale, float *dshift) {
    const struct op_call *call = &kernel->call;
    const float *scale = in[2], *mean = in[3], *var = in[4];
    int64_t columns = kernel->columns, at = row * columns;
    float room[3][NARROW_COLUMNS], *dx = cpu_room(call->out[0].dtype, out[0], at, room[2]);
    const float *dy = cpu_read(call->in[0].dtype, in[0], at, columns, room[0]),
                *x = cpu_read(call->in[1].dtype, in[1], at, columns, room[1]);
    backward_row(dy, x, scale, columns, mean[row],
                 1.0f / sqrtf(var[row] + call->attrs.norm.epsilon), dx, dscale, dshift);
    cpu_write(call->out[0].dtype, dx, out[0], at, columns);
}

static void run_backward(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                         void *scratch) {
    float *partial = scratch;
    int64_t columns = kernel->columns, rows = kernel->rows,
            pieces = (rows + PIECE_ROWS - 1) / PIECE_ROWS;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < pieces; i++) {
        float *dscale = partial + i * 2 * columns, *dshift = dscale + columns;
        int64_t end = (i + 1) * PIECE_ROWS < rows ? (i + 1) * PIECE_ROWS : rows;
        memset(dscale, 0, 2 * (size_t)columns * sizeof *dscale);
        for (int64_t r = i * PIECE_ROWS; r < end; r++)
            backward_of(kernel, in, out, r, dscale, dshift);
    }
    add_pieces(partial, pieces, 2 * columns, columns, out[1]);
    add_pieces(partial + columns, pieces, 2 * columns, columns, out[2]);
}

/* Only x and y, and their gradients, may be narrow: `first` inputs. */
static bool others_are_f32(const struct op_call *call, int first) {
    for (int i = first; i < call->in_count; i++)
        if (call->in[i].dtype != DTYPE_F32) return false;
    return call->out[1].dtype == DTYPE_F32 && call->out[2].dtype == DTYPE_F32;
}

static enum status set_rows(struct cpu_kernel *kernel, int first) {
    const struct shape *x = &kernel->call.out[0].shape;
    kernel->columns = x->dim[x->rank - 1];
    kernel->rows = shape_span(x, 0, x->rank - 1);
    if (op_call_is_narrow(&kernel->call) && kernel->columns > NARROW_COLUMNS) return STATUS_NO;
    if (!others_are_f32(&kernel->call, first)) return STATUS_NO;
    cpu_name(kernel, "loop:layer_norm");
    return STATUS_OK;
}

enum status cpu_layer_norm(struct cpu_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    TRY(set_rows(kernel, 1));
    cpu_step_loop(kernel, run_forward);
    return STATUS_OK;
}

enum status cpu_layer_norm_bwd(struct cpu_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    TRY(set_rows(kernel, 2));
    int64_t pieces = (kernel->rows + PIECE_ROWS - 1) / PIECE_ROWS;
    cpu_scratch(kernel, (size_t)(pieces * 2 * kernel->columns) * sizeof(float));
    cpu_step_loop(kernel, run_backward);
    return STATUS_OK;
}
