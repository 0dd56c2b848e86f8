/* The rows of a .npy file as inputs of a model that was trained on another data set. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../tensor/npy_whole.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/input.h"

static char path[64];

static void name_file(void) {
    snprintf(path, sizeof path, "/tmp/stretto-input-%d.npy", (int)getpid());
}

static struct dataset *like(const char *spec) {
    struct dataset *dataset = NULL;
    struct dataset_config config = {0};
    cr_assert_eq(dataset_open(spec, &config, &dataset), STATUS_OK);
    return dataset;
}

static void remove_file(void) {
    unlink(path);
}

TestSuite(data_input, .init = name_file, .fini = remove_file);

/* Each row in any order, with labels that count nowhere. */
Test(data_input, rows_are_read_as_they_lie) {
    enum { ROWS = 5, EACH = 64 };
    float values[ROWS * EACH], row[EACH];
    int32_t label = 0;
    for (int i = 0; i < ROWS * EACH; i++) values[i] = (float)i / 7;
    cr_assert_eq(npy_write(path, DTYPE_F32, &SHAPE(ROWS, 1, 8, 8), values), STATUS_OK);
    struct dataset *digits = like("digits"), *input = NULL;
    cr_assert_eq(input_open(path, digits, false, &input), STATUS_OK);
    cr_expect_eq(input->count[SPLIT_TEST], ROWS);
    cr_expect_str_eq(input->names[7], "7");
    for (int i = ROWS - 1; i >= 0; i--) {
        cr_assert_eq(dataset_read(input, SPLIT_TEST, i, 0, (void *[]){row, &label}), STATUS_OK);
        cr_expect_arr_eq(row, values + i * EACH, sizeof row);
        cr_expect_eq(label, LABEL_IGNORE);
    }
    dataset_free(&input);
    dataset_free(&digits);
}

/* Bytes are pixels: what the data set itself makes of the same ones. */
Test(data_input, bytes_are_normalised_as_the_data_set_does) {
    unsigned char bytes[64];
    float row[64];
    int32_t label;
    for (int i = 0; i < 64; i++) bytes[i] = (unsigned char)(i * 4);
    cr_assert_eq(npy_write(path, DTYPE_U8, &SHAPE(1, 8, 8), bytes), STATUS_OK);
    struct dataset *digits = like("digits"), *input = NULL;
    float mean = digits->mean[0], std = digits->std[0];
    cr_assert_eq(input_open(path, digits, false, &input), STATUS_OK);
    cr_assert_eq(dataset_read(input, SPLIT_TEST, 0, 0, (void *[]){row, &label}), STATUS_OK);
    for (int i = 0; i < 64; i++)
        cr_expect_float_eq(row[i], ((float)bytes[i] / 255 - mean) / std, 1e-5, "%d", i);
    dataset_free(&input);
    dataset_free(&digits);
}

/* Bytes and numbers with channels last are those of the same image with channels first. */
Test(data_input, channels_may_be_last) {
    enum { SIDE = 4, EACH = 3 * SIDE * SIDE };
    unsigned char first[EACH], last[EACH];
    float numbers[EACH], want[EACH], have[EACH];
    int32_t label;
    struct dataset *colours = like("synthetic:count=4,test_count=4,size=4"), *input = NULL;
    for (int i = 0; i < EACH; i++) {
        first[i] = (unsigned char)(i * 5);
        last[i % (SIDE * SIDE) * 3 + i / (SIDE * SIDE)] = first[i];
    }
    for (int i = 0; i < EACH; i++) numbers[i] = (float)last[i] / 255;
    cr_assert_eq(npy_write(path, DTYPE_U8, &SHAPE(1, 3, SIDE, SIDE), first), STATUS_OK);
    cr_assert_eq(input_open(path, colours, false, &input), STATUS_OK);
    cr_assert_eq(dataset_read(input, SPLIT_TEST, 0, 0, (void *[]){want, &label}), STATUS_OK);
    dataset_free(&input);
    for (int real = 0; real < 2; real++) {
        cr_assert_eq(npy_write(path, real ? DTYPE_F32 : DTYPE_U8, &SHAPE(1, SIDE, SIDE, 3),
                               real ? (void *)numbers : last),
                     STATUS_OK);
        cr_assert_eq(input_open(path, colours, false, &input), STATUS_OK);
        cr_assert_eq(dataset_read(input, SPLIT_TEST, 0, 0, (void *[]){have, &label}), STATUS_OK);
        cr_expect_arr_eq(have, want, sizeof have);
        dataset_free(&input);
    }
    dataset_free(&colours);
}

Test(data_input, tokens_are_whole_numbers_of_the_vocabulary) {
    struct dataset *text = like("synthetic:kind=text,count=4,test_count=4,seq=8,vocab=64"),
                   *input = NULL;
    int64_t ids[16] = {1, 2, 3, 4, 5, 6, 7, 8, 63, 0, 64};
    int32_t row[8], labels[8];
    char said[256] = "";
    cr_assert_eq(npy_write(path, DTYPE_I64, &SHAPE(2, 8), ids), STATUS_OK);
    cr_assert_eq(input_open(path, text, false, &input), STATUS_OK);
    cr_assert_eq(dataset_read(input, SPLIT_TEST, 0, 0, (void *[]){row, labels}), STATUS_OK);
    cr_expect_eq(row[3], 4);
    log_capture(said, sizeof said);
    cr_expect_eq(dataset_read(input, SPLIT_TEST, 1, 0, (void *[]){row, labels}), STATUS_DATA);
    log_capture(NULL, 0);
    cr_expect(strstr(said, "row 1: token 64, expected 0 to 63"), "%s", said);
    dataset_free(&input);
    dataset_free(&text);
}

Test(data_input, what_the_model_does_not_take_is_refused) {
    static const struct {
        const char *like;
        struct shape shape;
        const char *says;
    } cases[] = {
        {"digits", {.rank = 4, .dim = {2, 1, 9, 8}}, "its shape is [2,1,9,8], the model takes"},
        {"digits", {.rank = 2, .dim = {2, 64}}, "its shape is [2,64], the model takes"},
        {"digits", {.rank = 4, .dim = {0, 1, 8, 8}}, "it has no rows"},
        {"synthetic:kind=text,count=4,test_count=4,seq=8,vocab=64",
         {.rank = 2, .dim = {2, 8}},
         "expected whole numbers"},
        {"synthetic:kind=tokens,count=4,test_count=4,seq=32",
         {.rank = 2, .dim = {2, 8}},
         "reads several arrays"}};
    float *zeros = MEM_ARRAY(float, 2 * 9 * 8);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dataset *of = like(cases[i].like), *input = NULL;
        char said[512] = "";
        cr_assert_eq(npy_write(path, DTYPE_F32, &cases[i].shape, zeros), STATUS_OK);
        log_capture(said, sizeof said);
        cr_expect_neq(input_open(path, of, false, &input), STATUS_OK, "%zu", i);
        log_capture(NULL, 0);
        cr_expect(strstr(said, cases[i].says), "%zu: %s", i, said);
        dataset_free(&of);
    }
    free(zeros);
}
