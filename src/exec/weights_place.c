/* See weights_place.h. Every part is read as it lies, brought to f32 where the model has that, and
 * put in our order; positions are resized last. */
#include "exec/weights_place.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

static bool has(const void *file, const char *name) {
    size_t index;
    return shards_find(file, name, &index);
}

static const struct safetensors_entry *part_entry(const struct weights_place *place, int part) {
    return shards_at(place->file, place->part[part]);
}

/* --- positions of a vision transformer: a class token, then the grid of patches --- */

static int64_t square_side(int64_t count) {
    int64_t side = (int64_t)lround(sqrt((double)count));
    return side * side == count ? side : 0;
}

/* Files have square grids, as timm takes for granted. */
static void find_grids(struct weights_place *place, struct resize_grid positions) {
    const struct shape *want = &place->item->type.shape;
    const struct safetensors_entry *entry = part_entry(place, 0);
    if (strcmp(place->item->name, "pos_embed") != 0 || !entry->native || entry->shape.rank != 3)
        return;
    const int64_t *have = entry->shape.dim;
    int64_t side = have[1] > 1 ? square_side(have[1] - 1) : 0;
    bool same = have[1] == want->dim[1],
         known = positions.height * positions.width == want->dim[1] - 1;
    if (same || !known || side == 0 || have[0] != 1 || have[2] != want->dim[2]) return;
    place->from = (struct resize_grid){side, side};
    place->to = positions;
}

bool weights_find(const struct shards *file, const struct state_item *item,
                  struct resize_grid positions, struct weights_place *out) {
    struct alias_place names;
    if (!alias_find(item->name, has, file, &names)) return false;
    struct weights_place place = {
        .file = file, .item = item, .form = names.form, .part_count = names.part_count};
    for (int i = 0; i < names.part_count; i++) shards_find(file, names.part[i], &place.part[i]);
    find_grids(&place, positions);
    *out = place;
    return true;
}

/* --- what fits --- */

/* f32 takes what the other floating-point types hold; anything else must be of the type itself. */
static bool converts(enum dtype from, enum dtype to) {
    bool floating = dtype_is_narrow(from) || from == DTYPE_F64;
    return from == to || (to == DTYPE_F32 && floating);
}

/* What a part must hold: an equal share of the tensor's first dimension. */
static struct shape part_shape(const struct weights_place *place) {
    struct shape shape = place->item->type.shape;
    if (place->to.height) shape.dim[1] = 1 + place->from.height * place->from.width;
    if (place->part_count > 1) shape.dim[0] /= place->part_count;
    return shape;
}

/* Inputs first, in one dimension or several, then outputs. */
static bool is_turned(const struct shape *have, const struct shape *want) {
    for (int i = 1; i < have->rank; i++)
        if (shape_span(have, 0, i) == want->dim[1])
            return shape_span(have, i, have->rank) == want->dim[0];
    return false;
}

static bool part_fits(enum alias_form form, const struct shape *have, const struct shape *want) {
    switch (form) {
    case ALIAS_SAME: return shape_equal(have, want);
    case ALIAS_FLAT: return shape_count(have) == shape_count(want);
    case ALIAS_TURNED: return want->rank == 2 && is_turned(have, want);
    case ALIAS_HWIO:
        return want->rank == 4 &&
               shape_equal(have, &SHAPE(want->dim[2], want->dim[3], want->dim[1], want->dim[0]));
    }
    return false;
}

bool weights_fits(const struct weights_place *place) {
    const struct shape *whole = &place->item->type.shape;
    if (place->part_count > 1 && (whole->rank == 0 || whole->dim[0] % place->part_count))
        return false;
    struct shape want = part_shape(place);
    for (int i = 0; i < place->part_count; i++) {
        const struct safetensors_entry *entry = part_entry(place, i);
        if (!entry->native || !converts(entry->dtype, place->item->type.dtype) ||
            !part_fits(place->form, &entry->shape, &want))
            return false;
    }
    return true;
}

/* --- elements --- */

static enum status not_finite(const char *path, const char *name, int64_t index, double value) {
    if (isnan(value)) value = NAN; /* its sign means nothing, and printf shows it */
    return fail(STATUS_DATA,
                "%s: element %" PRId64 " of tensor %s is %g%s\n  the file is at fault, not this "
                "run: take weights from before it went wrong",
                path, index, name, value, isfinite(value) ? ", beyond what F32 can hold" : "");
}

static enum status convert(const char *path, const struct safetensors_entry *entry,
                           const void *data, float *out) {
    int64_t count = shape_count(&entry->shape);
    size_t width = dtype_bytes(entry->dtype);
    for (int64_t i = 0; i < count; i++) {
        double value = dtype_value(entry->dtype, (const char *)data + (size_t)i * width);
        out[i] = (float)value;
        if (!isfinite(out[i])) return not_finite(path, entry->name, i, value);
    }
    return STATUS_OK;
}

/* [window,in,out] to [out,in,window]. */
static void turn(const float *from, int64_t window, int64_t in, int64_t out, float *to) {
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; i < in; i++)
            for (int64_t w = 0; w < window; w++)
                to[(o * in + i) * window + w] = from[(w * in + i) * out + o];
}

/* The elements of a part in our order. */
static void arrange(enum alias_form form, const struct shape *shape, const float *from, float *to) {
    if (form == ALIAS_TURNED || form == ALIAS_HWIO)
        turn(from, shape_span(shape, 2, shape->rank), shape->dim[1], shape->dim[0], to);
    else
        memcpy(to, from, (size_t)shape_count(shape) * sizeof *to);
}

static enum status read_real(const struct weights_place *place, const char *path, int part,
                             const void *data, float *out) {
    const struct safetensors_entry *entry = part_entry(place, part);
    struct shape shape = part_shape(place);
    SCOPED_FREE float *as_it_lies = MEM_ARRAY(float, shape_count(&shape));
    TRY(convert(path, entry, data, as_it_lies));
    arrange(place->form, &shape, as_it_lies, out);
    return STATUS_OK;
}

static enum status read_part(const struct weights_place *place, const char *path, int part,
                             char *out, size_t bytes) {
    size_t stored = (size_t)part_entry(place, part)->bytes;
    SCOPED_FREE void *data = mem_new(stored);
    TRY(shards_read(place->file, place->part[part], data, stored));
    bool real = place->item->type.dtype == DTYPE_F32;
    if (real) TRY(read_real(place, path, part, data, (float *)out));
    if (!real) memcpy(out, data, bytes);
    return STATUS_OK;
}

/* The class token's position stays as it is. */
static void resize_positions(const struct weights_place *place, const float *from, float *to) {
    int64_t width = place->item->type.shape.dim[2];
    memcpy(to, from, (size_t)width * sizeof *to);
    resize_bicubic(from + width, place->from, to + width, place->to, width);
}

enum status weights_read(const struct weights_place *place, const char *path, void *plain) {
    struct tensor_type part = {place->item->type.dtype, part_shape(place)};
    size_t bytes = tensor_type_bytes(&part);
    bool resized = place->to.height;
    char *out = resized ? mem_new(bytes) : plain;
    enum status status = STATUS_OK;
    for (int i = 0; i < place->part_count && status == STATUS_OK; i++)
        status = read_part(place, path, i, out + (size_t)i * bytes, bytes);
    if (resized && status == STATUS_OK) resize_positions(place, (const float *)out, plain);
    if (resized) free(out);
    return status;
}
