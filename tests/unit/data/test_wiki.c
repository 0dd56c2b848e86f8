/* HDF5 shards: good ones, and a table of ways to be wrong. The shards are made here, with the
 * library. */
#ifdef HAVE_HDF5
#include <criterion/criterion.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/dataset.h"

enum { ROWS = 5, SEQ = 16, K = 3, VOCAB = 50 };

/* What one shard holds; a test changes one thing. NULL as name leaves a dataset out. */
struct content {
    const char *name[6];
    hsize_t rows[6], columns[6];
    int rank[6];
    bool is_float;
    int column, at, value; /* element `at` of a column is set to value */
    bool packed;
};

static const struct content good = {
    .name = {"input_ids", "segment_ids", "input_mask", "masked_lm_positions", "masked_lm_ids",
             "next_sentence_labels"},
    .rows = {ROWS, ROWS, ROWS, ROWS, ROWS, ROWS},
    .columns = {SEQ, SEQ, SEQ, K, K, 1},
    .rank = {2, 2, 2, 2, 2, 1},
    .column = -1,
};

static int good_value(int column, int i) {
    switch (column) {
    case 0: return i * 7 % VOCAB;
    case 1: return i % SEQ > 8;
    case 2: return i % SEQ < 14;
    case 3: return i % K == 2 ? 0 : 1 + i % 9; /* the last prediction of a row is padding */
    case 4: return i % K == 2 ? 0 : i * 3 % VOCAB;
    default: return i % 2;
    }
}

static void write_column(hid_t file, const struct content *content, int c) {
    hsize_t dims[2] = {content->rows[c], content->columns[c]};
    int count = (int)(dims[0] * (content->rank[c] == 2 ? dims[1] : 1));
    int *values = MEM_ARRAY(int, count);
    for (int i = 0; i < count; i++) values[i] = good_value(c, i);
    if (content->column == c) values[content->at] = content->value;
    hid_t space = H5Screate_simple(content->rank[c], dims, NULL),
          plan = H5Pcreate(H5P_DATASET_CREATE);
    if (content->packed) {
        H5Pset_chunk(plan, content->rank[c], dims);
        H5Pset_deflate(plan, 6);
    }
    hid_t type = content->is_float            ? H5T_IEEE_F32LE
                 : c == 0 || c == 3 || c == 4 ? H5T_STD_I32LE
                                              : H5T_STD_I8LE;
    hid_t set = H5Dcreate2(file, content->name[c], type, space, H5P_DEFAULT, plan, H5P_DEFAULT);
    cr_assert(set >= 0 &&
              H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Dclose(set);
    H5Pclose(plan);
    H5Sclose(space);
    free(values);
}

static void write_shard(const char *folder, const char *name, const struct content *content) {
    char *path = mem_format("%s/%s", folder, name);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    cr_assert(file >= 0, "%s", path);
    for (int c = 0; c < 6; c++)
        if (content->name[c]) write_column(file, content, c);
    H5Fclose(file);
    free(path);
}

static char folder[64], message[8192];

static void make_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/stretto-wiki-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    char *vocab = mem_format("%s/vocab.txt", folder);
    char text[VOCAB * 2 + 1];
    for (int i = 0; i < VOCAB; i++) memcpy(text + 2 * i, "w\n", 3);
    cr_assert_eq(file_write_text(vocab, text), STATUS_OK);
    free(vocab);
    write_shard(folder, "wikicorpus_en_training_0.hdf5", &good);
    write_shard(folder, "wikicorpus_en_test_0.hdf5", &good);
}

static enum status open_folder(struct dataset **out) {
    char *spec = mem_format("wiki:%s", folder);
    log_capture(message, sizeof message);
    enum status status = dataset_open(spec, &(struct dataset_config){0}, out);
    log_capture(NULL, 0);
    free(spec);
    return status;
}

static void expect_refused(const char *say) {
    struct dataset *dataset = NULL;
    enum status status = open_folder(&dataset);
    cr_assert_eq(status, STATUS_DATA, "expected '%s', but status %d: %s", say, status, message);
    cr_assert(strstr(message, say), "'%s' is not in: %s", say, message);
    cr_assert(strstr(message, "stretto-wiki-"), "no file is named: %s", message);
    int lines = 0;
    for (const char *c = message; *c; c++) lines += *c == '\n';
    cr_assert(lines <= 3, "%s", message);
}

Test(data_wiki, rows_come_out_as_written) {
    make_folder();
    struct content packed = good;
    packed.packed = true;
    write_shard(folder, "wikicorpus_en_training_2.hdf5", &packed);
    packed.column = 0, packed.at = 0, packed.value = 49;
    write_shard(folder, "wikicorpus_en_training_10.hdf5", &packed); /* after 2: numbers count */
    struct dataset *dataset = NULL;
    cr_assert_eq(open_folder(&dataset), STATUS_OK, "%s", message);
    cr_assert(dataset->count[SPLIT_TRAIN] == 3 * ROWS && dataset->count[SPLIT_TEST] == ROWS);
    cr_assert(dataset->vocab == VOCAB && dataset->classes == 2);
    int32_t ids[SEQ], segment[SEQ], mask[SEQ], position[K], label[K], next;
    for (int row = 0; row < 3 * ROWS; row++) {
        int r = row % ROWS;
        dataset_read(dataset, SPLIT_TRAIN, row, 0,
                     (void *[]){ids, segment, mask, position, label, &next});
        for (int t = 0; t < SEQ; t++) {
            cr_assert_eq(ids[t], row == 2 * ROWS && t == 0 ? 49 : good_value(0, r * SEQ + t));
            cr_assert(segment[t] == (t > 8) && mask[t] == (t < 14));
        }
        for (int k = 0; k < 2; k++)
            cr_assert(position[k] == good_value(3, r * K + k) &&
                      label[k] == good_value(4, r * K + k));
        cr_assert(position[2] == 0 && label[2] == LABEL_IGNORE && next == r % 2);
    }
    dataset_free(&dataset);
    folder_remove(folder);
}

Test(data_wiki, wrong_content_is_refused) {
    static const struct {
        int column, at, value;
        const char *say;
    } values[] = {
        {0, SEQ + 3, VOCAB, "input_ids row 1 column 3 is 50, expected 0 to 49"},
        {0, 0, -1, "input_ids row 0 column 0 is -1"},
        {1, 5, 2, "segment_ids row 0 column 5 is 2, expected 0 to 1"},
        {2, 4 * SEQ, -7, "input_mask row 4 column 0 is -7"},
        {3, 3, SEQ, "masked_lm_positions row 1 column 0 is 16, expected 0 to 15"},
        {4, 1, 30000, "masked_lm_ids row 0 column 1 is 30000"},
        {5, 4, 9, "next_sentence_labels row 4 column 0 is 9"},
    };
    make_folder();
    for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
        struct content bad = good;
        bad.column = values[v].column, bad.at = values[v].at, bad.value = values[v].value;
        write_shard(folder, "wikicorpus_en_test_0.hdf5", &bad);
        expect_refused(values[v].say);
    }
    folder_remove(folder);
}

Test(data_wiki, wrong_shapes_are_refused) {
    make_folder();
    for (int c = 0; c < 6; c++) {
        struct content missing = good;
        missing.name[c] = NULL;
        write_shard(folder, "wikicorpus_en_training_0.hdf5", &missing);
        char *say = mem_format("training_0.hdf5: dataset %s is missing", good.name[c]);
        expect_refused(say);
        free(say);
    }
    struct content bad = good;
    bad.rows[4] = ROWS - 1;
    write_shard(folder, "wikicorpus_en_training_0.hdf5", &bad);
    expect_refused("masked_lm_ids has 4 rows but input_ids 5");
    bad = good, bad.columns[2] = SEQ + 1;
    write_shard(folder, "wikicorpus_en_training_0.hdf5", &bad);
    expect_refused("input_mask has 17 columns, expected 16");
    bad = good, bad.columns[3] = SEQ + 1;
    write_shard(folder, "wikicorpus_en_training_0.hdf5", &bad);
    expect_refused("masked_lm_positions has 17 columns, expected 1 to 16");
    bad = good, bad.rank[5] = 2;
    write_shard(folder, "wikicorpus_en_training_0.hdf5", &bad);
    expect_refused("next_sentence_labels has 2 dimensions, expected 1");
    bad = good, bad.is_float = true;
    write_shard(folder, "wikicorpus_en_training_0.hdf5", &bad);
    expect_refused("input_ids does not hold integers");
    bad = good;
    for (int c = 0; c < 6; c++) bad.rows[c] = 0;
    write_shard(folder, "wikicorpus_en_training_0.hdf5", &bad);
    expect_refused("input_ids is empty: shape [0,16]");
    write_shard(folder, "wikicorpus_en_training_0.hdf5", &good);
    bad = good, bad.columns[0] = bad.columns[1] = bad.columns[2] = 2 * SEQ;
    write_shard(folder, "wikicorpus_en_training_1.hdf5", &bad);
    expect_refused("training_1.hdf5: input_ids has 32 columns, expected 16");
    folder_remove(folder);
}

Test(data_wiki, wrong_folders_are_refused) {
    make_folder();
    char *test = mem_format("%s/wikicorpus_en_test_0.hdf5", folder),
         *vocab = mem_format("%s/vocab.txt", folder);
    cr_assert_eq(file_write_text(vocab, ""), STATUS_OK);
    expect_refused("vocab.txt: empty");
    unlink(vocab);
    cr_assert_eq(file_write_text(test, ""), STATUS_OK);
    expect_refused("test_0.hdf5: empty");
    cr_assert_eq(file_write_text(test, "this is no HDF5 file"), STATUS_OK);
    expect_refused("test_0.hdf5: cannot open");
    unlink(test);
    expect_refused("no file *_test_*.hdf5");
    free(test);
    free(vocab);
    folder_remove(folder);
}

/* Cut and changed at random: opened or refused with a message, though the library itself may crash
 * on it. */
Test(data_wiki, damaged_shards_never_crash) {
    make_folder();
    struct content packed = good;
    packed.packed = true;
    write_shard(folder, "wikicorpus_en_training_0.hdf5", &packed);
    char *path = mem_format("%s/wikicorpus_en_training_0.hdf5", folder);
    struct bytes bytes;
    cr_assert_eq(file_read(path, 1 << 28, &bytes), STATUS_OK);
    int refused = 0;
    for (uint64_t i = 0; i < 200; i++) {
        unsigned char *data = memcpy(mem_new(bytes.count), bytes.data, bytes.count);
        size_t count = i % 4 ? bytes.count : rng_word(i, 50) % bytes.count;
        for (uint64_t k = 0; k < i % 16; k++)
            data[rng_word(i, 2 * k) % bytes.count] = (unsigned char)rng_word(i, 2 * k + 1);
        FILE *file = fopen(path, "wb");
        cr_assert(file && fwrite(data, 1, count, file) == count && fclose(file) == 0);
        free(data);
        struct dataset *dataset = NULL;
        enum status status = open_folder(&dataset);
        cr_assert(status == STATUS_OK || (status == STATUS_DATA && strstr(message, folder)), "%s",
                  message);
        refused += status != STATUS_OK;
        dataset_free(&dataset);
    }
    cr_assert(refused > 50 && refused < 200, "%d of 200", refused);
    bytes_free(&bytes);
    free(path);
    folder_remove(folder);
}
#endif
