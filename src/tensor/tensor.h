/* What a tensor is, apart from its bytes: element type and shape. Logical order is always row major
 * with the slowest dimension first (images are [B,C,H,W]); how a backend lays the bytes out is a
 * struct layout. */
#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dtype {
#define DTYPE(name, NAME, bytes, safetensors) DTYPE_##NAME,
#include "tensor/dtype.def"
#undef DTYPE
    DTYPE_COUNT
};

/* A label that no loss counts. Here because data writes it and op reads it. */
enum { LABEL_IGNORE = -100 };

/* Local. Bytes of one element; short name ("f32"); name in safetensors files ("F32"). */
size_t dtype_bytes(enum dtype dtype);
const char *dtype_name(enum dtype dtype);
const char *dtype_safetensors_name(enum dtype dtype);
/* Local. Is it narrow: a floating-point type of fewer bits than f32 (bf16, f16)? */
bool dtype_is_narrow(enum dtype dtype);
/* Local. False when no type has that safetensors name. */
bool dtype_from_safetensors(const char *name, enum dtype *out);

enum { SHAPE_MAX_RANK = 5 };

struct shape {
    int rank; /* 0 is a scalar */
    int64_t dim[SHAPE_MAX_RANK];
};

/* SHAPE(2, 3) is the shape [2,3]. */
#define SHAPE(...)                                                                                 \
    ((struct shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})
#define SHAPE_SCALAR ((struct shape){0, {0}})

/* Element type and shape together: what an operation needs to know of a tensor before it exists. */
struct tensor_type {
    enum dtype dtype;
    struct shape shape;
};

/* Local. Bytes of a tensor of this type in plain (row major, unpadded) order. */
size_t tensor_type_bytes(const struct tensor_type *type);
bool tensor_type_equal(const struct tensor_type *a, const struct tensor_type *b);

/* A run of elements in memory, wherever that is. */
struct elements {
    enum dtype dtype;
    void *data;
    int64_t count;
};
/* Local. `count` of them from element `begin` on, which must be there. */
struct elements elements_part(const struct elements *all, int64_t begin, int64_t count);
size_t elements_bytes(const struct elements *elements);

/* Local. Whether sizes of this shape can be counted: no dimension is below 0, and the elements are
 * so few that their bytes, and sums of many such sizes, are far from the end of 64 bits. */
bool shape_is_countable(const struct shape *shape);
/* Local. Elements; equality; product of dimensions [from, to). */
int64_t shape_count(const struct shape *shape);
bool shape_equal(const struct shape *a, const struct shape *b);
int64_t shape_span(const struct shape *shape, int from, int to);

/* Local. "[64,3,32,32]" into `text`; returns `text`. */
enum { SHAPE_TEXT_BYTES = 128 };
const char *shape_text(const struct shape *shape, char text[SHAPE_TEXT_BYTES]);

/* Local. Conversions of the 16-bit types, round to nearest even. */
float bf16_to_f32(uint16_t value);
uint16_t bf16_from_f32(float value);
float f16_to_f32(uint16_t value);
uint16_t f16_from_f32(float value);
/* Local. One element of any type; it need not be aligned. */
double dtype_value(enum dtype dtype, const void *element);
/* Local. The 16-bit conversions for runs of elements that do not overlap. */
void bf16_widen(const uint16_t *from, float *to, int64_t count);
void bf16_narrow(const float *from, uint16_t *to, int64_t count);

#endif
