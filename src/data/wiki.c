/* wiki:DIR: rows for BERT's pre-training from HDF5 shards, all of wikicorpus_en_training_N.hdf5 and
 * wikicorpus_en_test_N.hdf5, in the layout of NVIDIA's BERT scripts: one dataset a field, one row a
 * sample.
 *
 * Every shard is read whole at the start, each value is range checked there and kept in the
 * narrowest type that holds it. Reading shards on demand was left out: the rows of a shard are
 * visited in random order, and HDF5 can be asked by one thread at a time only. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/dataset.h"
#include "data/hdf5_file.h"
#include "data/token.h"

enum { VOCAB_DEFAULT = 30522, SEQ_MOST = 1 << 16, VOCAB_FILE_LIMIT = 1 << 28 };

enum width { ROW, TOKENS, PREDICTIONS };
enum limit { BINARY, POSITION, TOKEN };

/* The datasets of a shard, in the order of token_fields. */
static const struct column {
    const char *name;
    enum width width;
    enum limit limit; /* binary columns are kept as bytes, others as int32 */
} columns[] = {
    {"input_ids", TOKENS, TOKEN},          {"segment_ids", TOKENS, BINARY},
    {"input_mask", TOKENS, BINARY},        {"masked_lm_positions", PREDICTIONS, POSITION},
    {"masked_lm_ids", PREDICTIONS, TOKEN}, {"next_sentence_labels", ROW, BINARY},
};

enum { COLUMN_COUNT = sizeof columns / sizeof columns[0], COLUMN_POSITIONS = 3, COLUMN_LABELS = 4 };

struct rows {
    int64_t count;
    void *column[COLUMN_COUNT]; /* [count, width] of int32 or bytes, owned */
};

struct wiki {
    int64_t seq, predictions; /* 0 until the first shard is seen */
    int64_t vocab;
    struct rows rows[SPLIT_COUNT];
};

static int64_t width_of(const struct wiki *wiki, const struct column *column) {
    return column->width == TOKENS        ? wiki->seq
           : column->width == PREDICTIONS ? wiki->predictions
                                          : 1;
}

static int64_t limit_of(const struct wiki *wiki, const struct column *column) {
    return column->limit == TOKEN ? wiki->vocab : column->limit == POSITION ? wiki->seq : 2;
}

static size_t element_bytes(const struct column *column) {
    return column->limit == BINARY ? 1 : 4;
}

/* --- shards and folders --- */

static int64_t columns_of(const struct hdf5_array *matrix) {
    return shape_span(&matrix->shape, 1, matrix->shape.rank);
}

static int32_t value_at(const struct hdf5_array *matrix, int64_t i) {
    return ((const int32_t *)matrix->values)[i];
}

/* The first shard fixes T and K; everything after it must agree. */
static enum status check_shape(const char *path, struct wiki *wiki, const struct column *column,
                               const struct hdf5_array *matrix, int64_t rows) {
    int64_t *width = column->width == TOKENS ? &wiki->seq : &wiki->predictions;
    int64_t most = column->width == TOKENS ? SEQ_MOST : wiki->seq;
    if (matrix->shape.dim[0] != rows)
        return fail(STATUS_DATA, "%s: %s has %lld rows but %s %lld", path, column->name,
                    (long long)matrix->shape.dim[0], columns[0].name, (long long)rows);
    if (column->width == ROW) return STATUS_OK;
    if (columns_of(matrix) > most)
        return fail(STATUS_DATA, "%s: %s has %lld columns, expected 1 to %lld", path, column->name,
                    (long long)columns_of(matrix), (long long)most);
    if (*width && columns_of(matrix) != *width)
        return fail(STATUS_DATA,
                    "%s: %s has %lld columns, expected %lld as in what was read before", path,
                    column->name, (long long)columns_of(matrix), (long long)*width);
    *width = columns_of(matrix);
    return STATUS_OK;
}

static enum status check_values(const char *path, const struct wiki *wiki,
                                const struct column *column, const struct hdf5_array *matrix) {
    int64_t limit = limit_of(wiki, column), width = columns_of(matrix);
    for (int64_t i = 0; i < matrix->shape.dim[0] * width; i++)
        if (value_at(matrix, i) < 0 || value_at(matrix, i) >= limit)
            return fail(STATUS_DATA, "%s: %s row %lld column %lld is %d, expected 0 to %lld%-s",
                        path, column->name, (long long)(i / width), (long long)(i % width),
                        value_at(matrix, i), (long long)limit - 1,
                        column->limit == TOKEN ? "\n  was the shard made with another vocabulary?"
                                               : "");
    return STATUS_OK;
}

static enum status append(const char *path, const struct column *column,
                          const struct hdf5_array *matrix, int64_t count, void **data) {
    size_t bytes = element_bytes(column), width = (size_t)columns_of(matrix);
    size_t have = (size_t)count * width, add = (size_t)matrix->shape.dim[0] * width;
    void *grown = realloc(*data, (have + add) * bytes);
    if (!grown)
        return fail(STATUS_MEMORY, "%s: out of memory: %zu bytes", path, (have + add) * bytes);
    *data = grown;
    if (bytes == 4)
        memcpy((int32_t *)grown + have, matrix->values, add * bytes);
    else
        for (size_t i = 0; i < add; i++)
            ((unsigned char *)grown)[have + i] = (unsigned char)value_at(matrix, (int64_t)i);
    return STATUS_OK;
}

static enum status read_shard(const char *path, struct wiki *wiki, struct rows *rows) {
    struct hdf5_array matrix[COLUMN_COUNT] = {0};
    for (int c = 0; c < COLUMN_COUNT; c++) {
        matrix[c].name = columns[c].name;
        matrix[c].rank_least = matrix[c].rank_most = columns[c].width == ROW ? 1 : 2;
    }
    TRY(hdf5_read(path, matrix, COLUMN_COUNT));
    enum status status = STATUS_OK;
    for (int c = 0; c < COLUMN_COUNT; c++) {
        const struct column *column = &columns[c];
        if (status == STATUS_OK)
            status = check_shape(path, wiki, column, &matrix[c], matrix[0].shape.dim[0]);
        if (status == STATUS_OK) status = check_values(path, wiki, column, &matrix[c]);
        if (status == STATUS_OK)
            status = append(path, column, &matrix[c], rows->count, &rows->column[c]);
        free(matrix[c].values);
    }
    if (status == STATUS_OK) rows->count += matrix[0].shape.dim[0];
    return status;
}

/* By number where names end in numbers, so that the order is the same on every machine. */
static int by_name(const struct dirent **a, const struct dirent **b) {
    return strverscmp((*a)->d_name, (*b)->d_name);
}

static enum status read_split(const char *folder, const char *pattern, struct wiki *wiki,
                              struct rows *rows) {
    SCOPED_FREE struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, by_name), found = 0;
    if (count < 0)
        return fail(STATUS_DATA, "%s: cannot list the folder: %s", folder, strerror(errno));
    enum status status = STATUS_OK;
    for (int i = 0; i < count; i++) {
        if (status == STATUS_OK && fnmatch(pattern, entries[i]->d_name, 0) == 0) {
            char *path = mem_format("%s/%s", folder, entries[i]->d_name);
            status = read_shard(path, wiki, rows);
            free(path);
            found++;
        }
        free(entries[i]);
    }
    if (status == STATUS_OK && found == 0)
        status = fail(STATUS_DATA, "%s: no file %s is there", folder, pattern);
    return status;
}

static enum status read_vocab(const char *folder, int64_t *vocab) {
    SCOPED_FREE char *path = mem_format("%s/vocab.txt", folder);
    SCOPED(bytes_free) struct bytes bytes = {0};
    enum status status = STATUS_OK;
    *vocab = VOCAB_DEFAULT;
    if (file_exists(path) && (status = file_read(path, VOCAB_FILE_LIMIT, &bytes)) == STATUS_OK) {
        *vocab = bytes.count > 0 && bytes.data[bytes.count - 1] != '\n';
        for (size_t i = 0; i < bytes.count; i++) *vocab += bytes.data[i] == '\n';
        if (*vocab == 0) status = fail(STATUS_DATA, "%s: empty, expected one token a line", path);
    }
    return status;
}

/* --- the data set --- */

static void wiki_free(struct wiki *wiki) {
    for (int s = 0; s < SPLIT_COUNT; s++)
        for (int c = 0; c < COLUMN_COUNT; c++) free(wiki->rows[s].column[c]);
    free(wiki);
}

static void describe(struct wiki *wiki, struct dataset *out) {
    token_fields(wiki->seq, wiki->predictions, wiki->vocab, out);
    int64_t shape[] = {wiki->seq, wiki->predictions, wiki->vocab};
    out->content_hash = hash64(HASH64_START, shape, sizeof shape);
    out->bytes = sizeof *wiki;
    for (int s = 0; s < SPLIT_COUNT; s++) {
        out->count[s] = wiki->rows[s].count;
        for (int c = 0; c < COLUMN_COUNT; c++) {
            size_t bytes = (size_t)(wiki->rows[s].count * width_of(wiki, &columns[c])) *
                           element_bytes(&columns[c]);
            out->content_hash = hash64(out->content_hash, wiki->rows[s].column[c], bytes);
            out->bytes += bytes;
        }
    }
    out->state = wiki;
}

static enum status wiki_read_all(const char *folder, struct wiki *wiki) {
    TRY(read_vocab(folder, &wiki->vocab));
    TRY(read_split(folder, "*_training_*.hdf5", wiki, &wiki->rows[SPLIT_TRAIN]));
    return read_split(folder, "*_test_*.hdf5", wiki, &wiki->rows[SPLIT_TEST]);
}

static enum status wiki_open(const char *argument, const struct dataset_config *config,
                             struct dataset *out) {
    struct wiki *wiki = MEM_NEW(struct wiki);
    enum status status = wiki_read_all(argument, wiki);
    if (status == STATUS_OK && config->seq && config->seq != wiki->seq)
        status =
            fail(STATUS_USAGE, "%s: rows have %lld tokens, but --seq is %lld\n  leave --seq out",
                 argument, (long long)wiki->seq, (long long)config->seq);
    if (status == STATUS_OK)
        describe(wiki, out);
    else
        wiki_free(wiki);
    return status;
}

static enum status wiki_read(const struct dataset *dataset, enum split split, int64_t index,
                             uint64_t key, void *scratch, void *const out[]) {
    (void)scratch;
    (void)key; /* masking is part of the shards: nothing is drawn here */
    const struct wiki *wiki = dataset->state;
    for (int c = 0; c < COLUMN_COUNT; c++) {
        int64_t width = width_of(wiki, &columns[c]);
        const void *column = wiki->rows[split].column[c];
        if (element_bytes(&columns[c]) == 4)
            memcpy(out[c], (const int32_t *)column + index * width, (size_t)width * 4);
        else
            for (int64_t i = 0; i < width; i++)
                ((int32_t *)out[c])[i] = ((const unsigned char *)column)[index * width + i];
    }
    const int32_t *position = out[COLUMN_POSITIONS];
    for (int64_t k = 0; k < wiki->predictions;
         k++) /* position 0 is [CLS], never masked: it marks padding */
        if (position[k] == 0) ((int32_t *)out[COLUMN_LABELS])[k] = LABEL_IGNORE;
    return STATUS_OK;
}

static void wiki_close(struct dataset *dataset) {
    wiki_free(dataset->state);
}

extern const struct dataset_ops dataset_wiki;
const struct dataset_ops dataset_wiki = {
    .name = "wiki",
    .argument = "DIR",
    .help =
        "BERT pre-training rows: HDF5 shards *_training_*.hdf5 and *_test_*.hdf5, and vocab.txt",
    .library = hdf5_version,
    .open = wiki_open,
    .read = wiki_read,
    .close = wiki_close,
};
