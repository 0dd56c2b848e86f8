/* Data sets that a program defines (struct stretto_data of the public header): rows beside those of
 * dataset.def. What they read is checked here, since behind it a label out of range is a bug. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/api.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/dataset.h"
#include "stretto.h"

#define DATASET_MOST (INT64_C(1) << 40) /* far more than can be read; sums of it stay exact */

struct own {
    struct stretto_data data;
    struct dataset_ops ops;
};

static const struct stretto_data *data_of(const struct dataset *dataset) {
    return &((const struct own *)dataset->ops->own)->data;
}

static struct field field_of(const struct stretto_field *given) {
    struct field field = {.name = given->name,
                          .dtype = (enum dtype)given->dtype,
                          .shape = {.rank = given->rank},
                          .is_label = given->label,
                          .limit = given->dtype == STRETTO_F32 ? 0 : given->limit};
    memcpy(field.shape.dim, given->dim, (size_t)given->rank * sizeof field.shape.dim[0]);
    return field;
}

static enum status check_field(const struct stretto_data *data, const struct stretto_field *field) {
    bool reals = field->dtype == STRETTO_F32;
    if (!field->name || !*field->name)
        return fail(STATUS_USAGE, "data set %s has a field without a name", data->name);
    if (!reals && field->dtype != STRETTO_I32)
        return fail(STATUS_USAGE,
                    "data set %s: field %s is of type %d\n  STRETTO_F32 or STRETTO_I32", data->name,
                    field->name, field->dtype);
    if (!reals && field->limit < 1)
        return fail(STATUS_USAGE, "data set %s: field %s of integers has limit %lld", data->name,
                    field->name, (long long)field->limit);
    if (field->rank < 0 || field->rank >= SHAPE_MAX_RANK)
        return fail(STATUS_USAGE, "data set %s: field %s has rank %d; 0 to %d are possible",
                    data->name, field->name, field->rank, SHAPE_MAX_RANK - 1);
    for (int d = 0; d < field->rank; d++)
        if (field->dim[d] < 1)
            return fail(STATUS_USAGE, "data set %s: dimension %d of field %s is %lld", data->name,
                        d, field->name, (long long)field->dim[d]);
    struct shape shape = field_of(field).shape;
    if (!shape_is_countable(&shape))
        return fail(STATUS_USAGE, "data set %s: field %s is %s: too large", data->name, field->name,
                    shape_text(&shape, (char[SHAPE_TEXT_BYTES]){0}));
    return STATUS_OK;
}

static enum status check(const struct stretto_data *data) {
    if (!data->name || !*data->name || strpbrk(data->name, ": \t\n"))
        return fail(STATUS_USAGE, "a data set needs a name without colon and blanks");
    if (!data->read) return fail(STATUS_USAGE, "data set %s has no read function", data->name);
    if (!data->fields || data->field_count < 1 || data->field_count > DATASET_MAX_FIELDS)
        return fail(STATUS_USAGE, "data set %s has %d fields; 1 to %d are possible", data->name,
                    data->fields ? data->field_count : 0, DATASET_MAX_FIELDS);
    if (data->train_count < 1 || data->test_count < 1 || data->classes < 0)
        return fail(STATUS_USAGE,
                    "data set %s has %lld training and %lld test samples of %lld classes\n"
                    "  each split needs one sample at least; 0 classes are 1",
                    data->name, (long long)data->train_count, (long long)data->test_count,
                    (long long)data->classes);
    if (data->train_count > DATASET_MOST || data->test_count > DATASET_MOST ||
        data->classes > DATASET_MOST)
        return fail(STATUS_USAGE,
                    "data set %s has %lld training and %lld test samples of %lld classes\n"
                    "  %lld is the most of each",
                    data->name, (long long)data->train_count, (long long)data->test_count,
                    (long long)data->classes, (long long)DATASET_MOST);
    for (int f = 0; f < data->field_count; f++) {
        TRY(check_field(data, &data->fields[f]));
        for (int other = 0; other < f; other++)
            if (strcmp(data->fields[other].name, data->fields[f].name) == 0)
                return fail(STATUS_USAGE, "data set %s has two fields %s", data->name,
                            data->fields[f].name);
    }
    return STATUS_OK;
}

static enum status own_open(const char *argument, const struct dataset_config *config,
                            struct dataset *out) {
    (void)argument, (void)config;
    const struct stretto_data *data = data_of(out);
    const int64_t facts[] = {data->train_count, data->test_count, data->classes,
                             (int64_t)data->version};
    out->field_count = data->field_count;
    out->count[SPLIT_TRAIN] = data->train_count;
    out->count[SPLIT_TEST] = data->test_count;
    out->classes = data->classes < 1 ? 1 : data->classes;
    out->content_hash = hash64(HASH64_START, facts, sizeof facts);
    for (int f = 0; f < data->field_count; f++) {
        out->field[f] = field_of(&data->fields[f]);
        out->content_hash =
            hash64(out->content_hash, out->field[f].name, strlen(out->field[f].name));
        out->content_hash =
            hash64(out->content_hash, &out->field[f].shape, sizeof out->field[f].shape);
    }
    return STATUS_OK;
}

static enum status check_values(const struct dataset *dataset, const struct field *field,
                                enum split split, int64_t index, const int32_t *value) {
    for (int64_t i = 0; field->limit > 0 && i < shape_count(&field->shape); i++) {
        bool in_range = value[i] >= 0 && value[i] < field->limit;
        if (in_range || (field->is_label && value[i] == LABEL_IGNORE)) continue;
        return fail(STATUS_DATA,
                    "data set %s: %s of sample %lld of the %s split is %d; 0 to %lld "
                    "are possible",
                    dataset->ops->name, field->name, (long long)index,
                    split == SPLIT_TRAIN ? "training" : "test", (int)value[i],
                    (long long)field->limit - 1);
    }
    return STATUS_OK;
}

static enum status own_read(const struct dataset *dataset, enum split split, int64_t index,
                            uint64_t key, void *scratch, void *const out[]) {
    (void)scratch;
    const struct stretto_data *data = data_of(dataset);
    int code = data->read(data->context, split == SPLIT_TRAIN ? STRETTO_TRAIN : STRETTO_TEST, index,
                          key, out);
    if (code != 0)
        return fail(STATUS_DATA,
                    "data set %s: sample %lld of the %s split cannot be read: its "
                    "function returned %d",
                    data->name, (long long)index, split == SPLIT_TRAIN ? "training" : "test", code);
    for (int f = 0; f < dataset->field_count; f++)
        TRY(check_values(dataset, &dataset->field[f], split, index, out[f]));
    return STATUS_OK;
}

static bool are_same(const struct stretto_data *a, const struct stretto_data *b) {
    return strcmp(a->name, b->name) == 0 && a->fields == b->fields &&
           a->field_count == b->field_count && a->train_count == b->train_count &&
           a->test_count == b->test_count && a->classes == b->classes && a->version == b->version &&
           a->read == b->read && a->context == b->context;
}

/* The same row again is no mistake: models share a data set, and runs a model. */
static bool is_known(const struct stretto_data *data) {
    const struct dataset_ops *ops;
    for (int i = 0; (ops = dataset_at(i)); i++)
        if (ops->read == own_read && are_same(&((const struct own *)ops->own)->data, data))
            return true;
    return false;
}

static enum status add_row(const struct stretto_data *data) {
    if (is_known(data)) return STATUS_OK;
    struct own *own = MEM_NEW(struct own);
    *own = (struct own){.data = *data,
                        .ops = {.name = data->name,
                                .help = "a data set of this program",
                                .own = own,
                                .open = own_open,
                                .read = own_read}};
    enum status status = dataset_add(&own->ops);
    if (status != STATUS_OK) free(own);
    return status;
}

static enum status add(const struct stretto_data *given) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct stretto_data data;
    TRY(api_take(given, offsetof(struct stretto_data, context), &data, sizeof data,
                 "stretto_data"));
    TRY(check(&data));
    pthread_mutex_lock(&lock);
    enum status status = add_row(&data);
    pthread_mutex_unlock(&lock);
    return status;
}

int stretto_add_data(const struct stretto_data *data) {
    struct api_call call;
    api_begin(&call);
    return api_end(&call, add(data));
}
