/* The safetensors writer: header first, then the tensors by type (widest first) and name, as the
 * reference library orders them, so that the same tensors give the same file wherever they were
 * written.
 *
 * A tensor's bytes pass through once, into the file and its CRC32C; a file is thus never read back
 * to learn its checksum, and tensors that live on a device or on other ranks are never all in
 * memory at once. */
#include "tensor/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"

struct safetensors_sink {
    struct file_writer writer;
    struct safetensors_mark mark;
    const struct tensor_item *item; /* being written */
    uint64_t left;                  /* bytes it still needs */
};

/* An item and its place in the caller's array. */
struct order {
    const struct tensor_item *item;
    size_t index;
    int row; /* of its type */
    uint64_t bytes;
};

static int compare_orders(const void *left, const void *right) {
    const struct order *a = left, *b = right;
    if (a->row != b->row) return a->row > b->row ? -1 : 1;
    return strcmp(a->item->name, b->item->name);
}

static enum status item_bytes(const char *path, const struct tensor_item *item, uint64_t *out) {
    uint64_t bytes = dtype_bytes(item->dtype);
    bool bad = false;
    for (int i = 0; i < item->shape.rank; i++)
        bad |= item->shape.dim[i] < 0 ||
               __builtin_mul_overflow(bytes, (uint64_t)item->shape.dim[i], &bytes);
    if (bad || bytes > INT64_MAX)
        return fail(STATUS_DATA, "%s: tensor \"%s\": no file can hold shape %s", path, item->name,
                    shape_text(&item->shape, (char[SHAPE_TEXT_BYTES]){0}));
    *out = bytes;
    return STATUS_OK;
}

/* Fills `orders` [item_count] in file order. */
static enum status sort_items(const char *path, const struct safetensors_content *content,
                              struct order *orders) {
    for (size_t i = 0; i < content->item_count; i++) {
        const struct tensor_item *item = &content->items[i];
        orders[i] =
            (struct order){item, i, safetensors_type_row(dtype_safetensors_name(item->dtype)), 0};
        CHECK(orders[i].row >= 0, "%s has no row in safetensors.def", dtype_name(item->dtype));
        TRY(item_bytes(path, item, &orders[i].bytes));
    }
    if (content->item_count > 1) qsort(orders, content->item_count, sizeof *orders, compare_orders);
    return STATUS_OK;
}

static json_t *entry_json(const struct order *order, uint64_t begin) {
    json_t *shape = json_array();
    for (int i = 0; i < order->item->shape.rank; i++)
        json_array_append_new(shape, json_integer(order->item->shape.dim[i]));
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", dtype_safetensors_name(order->item->dtype),
                     "shape", shape, "data_offsets", (json_int_t)begin,
                     (json_int_t)(begin + order->bytes));
}

static enum status add_metadata(const char *path, const struct safetensors_content *content,
                                json_t *root) {
    if (content->metadata_count == 0) return STATUS_OK;
    json_t *metadata = json_object();
    json_object_set_new(root, "__metadata__", metadata);
    for (size_t i = 0; i < content->metadata_count; i++) {
        const struct safetensors_pair *pair = &content->metadata[i];
        if (json_object_get(metadata, pair->key) ||
            json_object_set_new(metadata, pair->key, json_string(pair->value)) != 0)
            return fail(STATUS_DATA, "%s: metadata \"%s\" is given twice or is not UTF-8", path,
                        pair->key);
    }
    return STATUS_OK;
}

static enum status add_tensors(const char *path, const struct order *orders, size_t count,
                               json_t *root) {
    uint64_t begin = 0;
    for (size_t i = 0; i < count; i++) {
        const char *name = orders[i].item->name;
        if (!strcmp(name, "__metadata__") || json_object_get(root, name))
            return fail(STATUS_DATA, "%s: tensor name \"%s\" is %s", path, name,
                        strcmp(name, "__metadata__") ? "given twice" : "reserved");
        if (orders[i].bytes > INT64_MAX - begin)
            return fail(STATUS_DATA, "%s: tensor \"%s\" ends beyond what a file can hold", path,
                        name);
        if (json_object_set_new(root, name, entry_json(&orders[i], begin)) != 0)
            return fail(STATUS_DATA, "%s: tensor name \"%s\" is not UTF-8", path, name);
        begin += orders[i].bytes;
    }
    return STATUS_OK;
}

/* The JSON text padded with spaces to 8 bytes; the caller frees it. */
static enum status make_header(const char *path, const struct safetensors_content *content,
                               const struct order *orders, char **text, uint64_t *bytes) {
    json_auto_t *root = json_object();
    enum status status = add_metadata(path, content, root);
    if (status == STATUS_OK) status = add_tensors(path, orders, content->item_count, root);
    size_t length = status == STATUS_OK ? json_dumpb(root, NULL, 0, JSON_COMPACT) : 0;
    size_t padded = (length + 7) / 8 * 8;
    if (padded > SAFETENSORS_HEADER_LIMIT)
        status = fail(STATUS_DATA, "%s: a header of %zu bytes is above the limit of %d", path,
                      padded, SAFETENSORS_HEADER_LIMIT);
    if (status == STATUS_OK) {
        *text = mem_new(padded + 1);
        json_dumpb(root, *text, length, JSON_COMPACT);
        memset(*text + length, ' ', padded - length);
        *bytes = padded;
    }
    return status;
}

static enum status put(struct safetensors_sink *sink, const void *data, size_t bytes) {
    if (bytes == 0) return STATUS_OK;
    TRY(file_write(&sink->writer, data, bytes));
    sink->mark.crc32c = crc32c(sink->mark.crc32c, data, bytes);
    sink->mark.bytes += bytes;
    return STATUS_OK;
}

enum status safetensors_emit(struct safetensors_sink *sink, const void *data, size_t bytes) {
    CHECK(bytes <= sink->left, "\"%s\" got %zu bytes, %" PRIu64 " are left", sink->item->name,
          bytes, sink->left);
    sink->left -= bytes;
    return put(sink, data, bytes);
}

static enum status write_item(const struct safetensors_content *content, const struct order *order,
                              struct safetensors_sink *sink) {
    sink->item = order->item;
    sink->left = order->bytes;
    if (order->item->data) return safetensors_emit(sink, order->item->data, (size_t)order->bytes);
    if (order->bytes == 0) return STATUS_OK;
    CHECK(content->source, "\"%s\" has neither data nor a source", order->item->name);
    TRY(content->source(content->context, order->index, sink));
    CHECK(sink->left == 0, "the source of \"%s\" left out %" PRIu64 " bytes", order->item->name,
          sink->left);
    return STATUS_OK;
}

static enum status write_all(const char *path, const struct safetensors_content *content,
                             const struct order *orders, struct safetensors_sink *sink) {
    char *header = NULL;
    uint64_t length = 0;
    TRY(make_header(path, content, orders, &header, &length));
    enum status status = file_begin(path, &sink->writer);
    if (status == STATUS_OK) status = put(sink, &length, sizeof length);
    if (status == STATUS_OK) status = put(sink, header, (size_t)length);
    free(header);
    for (size_t i = 0; i < content->item_count && status == STATUS_OK; i++)
        status = write_item(content, &orders[i], sink);
    if (status == STATUS_OK) return file_commit(&sink->writer);
    file_abandon(&sink->writer);
    return status;
}

enum status safetensors_write(const char *path, const struct safetensors_content *content,
                              struct safetensors_mark *mark) {
    struct order *orders = MEM_ARRAY(struct order, content->item_count + 1);
    struct safetensors_sink sink = {0};
    enum status status = sort_items(path, content, orders);
    if (status == STATUS_OK) status = write_all(path, content, orders, &sink);
    free(orders);
    if (status == STATUS_OK && mark) *mark = sink.mark;
    return status;
}
