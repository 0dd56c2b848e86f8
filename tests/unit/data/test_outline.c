/* data.json: what is written is read, what is damaged refused, and other data are told apart. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/outline.h"

static char path[64], message[1024];

static void name_file(void) {
    snprintf(path, sizeof path, "/tmp/stretto-outline-%d.json", (int)getpid());
}

static void remove_file(void) {
    unlink(path);
}

TestSuite(data_outline, .init = name_file, .fini = remove_file);

static struct dataset *opened(const char *spec) {
    struct dataset *dataset = NULL;
    struct dataset_config config = {0};
    cr_assert_eq(dataset_open(spec, &config, &dataset), STATUS_OK);
    return dataset;
}

static struct dataset *outline_of(const struct dataset *dataset) {
    struct dataset *outline = NULL;
    cr_assert_eq(outline_write(dataset, path), STATUS_OK);
    cr_assert_eq(outline_read(path, &outline), STATUS_OK);
    return outline;
}

static enum status check(const struct dataset *outline, const struct dataset *data) {
    message[0] = 0;
    log_capture(message, sizeof message);
    enum status status = outline_check(outline, data);
    log_capture(NULL, 0);
    return status;
}

Test(data_outline, what_is_written_is_read) {
    static const char *const specs[] = {
        "digits", "synthetic:count=4,test_count=4,classes=7",
        "synthetic:kind=tokens,count=4,test_count=4,seq=32",
        "synthetic:kind=text,count=4,test_count=4,seq=8,vocab=2000000"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct dataset *data = opened(specs[i]);
        data->frame = FRAME_CENTRE;
        struct dataset *outline = outline_of(data);
        cr_expect_str_eq(outline->spec, data->spec);
        cr_expect_eq(outline->frame, FRAME_CENTRE);
        cr_expect(outline->classes == data->classes && outline->vocab == data->vocab);
        cr_assert_eq(outline->field_count, data->field_count);
        for (int f = 0; f < data->field_count; f++) {
            const struct field *a = &outline->field[f], *b = &data->field[f];
            cr_expect_str_eq(a->name, b->name);
            cr_expect(a->dtype == b->dtype && a->is_label == b->is_label && a->limit == b->limit);
            cr_expect(shape_equal(&a->shape, &b->shape), "%s: %s", specs[i], a->name);
        }
        cr_expect_eq(!outline->mean, !data->mean);
        if (data->mean) cr_expect(outline->mean[0] == data->mean[0] && *outline->std == *data->std);
        cr_expect_eq(!outline->names, !data->names);
        if (data->names) cr_expect_str_eq(outline->names[9], "9");
        cr_expect_eq(check(outline, data), STATUS_OK, "%s", message);
        dataset_free(&outline);
        dataset_free(&data);
    }
}

Test(data_outline, other_data_are_told_apart) {
    struct dataset *digits = opened("digits"), *outline = outline_of(digits),
                   *larger = opened("synthetic:count=4,test_count=4,size=9,channels=1");
    const char *names[10] = {"0", "1", "2", "3", "4", "5", "6", "7", "eight", "9"};
    cr_expect_eq(check(outline, larger), STATUS_USAGE);
    cr_expect(
        strstr(message, "image is [1,9,9], of the data that the model was trained on [1,8,8]"),
        "%s", message);
    digits->names = names;
    cr_expect_eq(check(outline, digits), STATUS_USAGE);
    cr_expect(strstr(message, "class 8 is 'eight', of the model '8'"), "%s", message);
    digits->names = NULL;
    cr_expect_eq(check(outline, digits), STATUS_OK);
    cr_expect_str_eq(message, "");
    digits->mean = (float[]){0.5f};
    cr_expect_eq(check(outline, digits), STATUS_OK);
    cr_expect(strstr(message, "normalised by mean 0.5, std 0.376, those that the model was trained "
                              "on by mean 0.3046, std 0.376"),
              "%s", message);
    digits->mean = digits->std = NULL;
    cr_expect_eq(check(outline, digits), STATUS_OK);
    cr_expect_str_eq(message, ""); /* reals: nobody knows */
    dataset_free(&outline);
    dataset_free(&digits);
    dataset_free(&larger);
}

/* Names of folders: a broken byte is written as the sign for one, every other character as it is.
 */
Test(data_outline, names_hold_any_character) {
    const char *names[10] = {"a b", "a\nb", "\t", "\"", "\\", "\x7f", "\xff", "\xc3\xa4", ",", "'"};
    struct dataset *digits = opened("digits");
    digits->names = names;
    struct dataset *outline = outline_of(digits);
    cr_expect_str_eq(outline->names[1], "a\nb");
    cr_expect_eq(check(outline, digits), STATUS_OK, "%s", message);
    dataset_free(&outline);
    dataset_free(&digits);
}

Test(data_outline, rows_of_tokens_may_be_of_another_length) {
    struct dataset *text = opened("synthetic:kind=text,count=4,test_count=4,seq=8,vocab=64"),
                   *longer = opened("synthetic:kind=text,count=4,test_count=4,seq=9,vocab=64"),
                   *outline = outline_of(text);
    cr_expect_eq(check(outline, longer), STATUS_OK, "%s", message);
    dataset_free(&outline);
    dataset_free(&text);
    dataset_free(&longer);
}

/* Whatever byte is missing at its end, or a value of another kind, it is refused in words. */
Test(data_outline, damage_is_refused) {
    struct dataset *digits = opened("digits"), *outline = NULL;
    struct bytes good;
    cr_assert_eq(outline_write(digits, path), STATUS_OK);
    cr_assert_eq(file_read(path, 1 << 20, &good), STATUS_OK);
    static const char *const damages[][2] = {{"\"f32\"", "\"f31\""},
                                             {"[", "{"},
                                             {"\"names\"", "\"games\""},
                                             {"\"0\",", ""},
                                             {"false", "\"no\""},
                                             {"\"9\"", "9"},
                                             {"\"classes\": 10", "\"classes\": 1e9"}};
    for (size_t d = 0; d < sizeof damages / sizeof *damages; d++) {
        char *text = mem_format("%.*s", (int)good.count, (const char *)good.data),
             *at = strstr(text, damages[d][0]);
        cr_assert(at, "%s", damages[d][0]);
        char *bad = mem_format("%.*s%s%s", (int)(at - text), text, damages[d][1],
                               at + strlen(damages[d][0]));
        cr_assert_eq(file_write_text(path, bad), STATUS_OK);
        message[0] = 0;
        log_capture(message, sizeof message);
        cr_expect_eq(outline_read(path, &outline), STATUS_DATA, "%s", damages[d][1]);
        log_capture(NULL, 0);
        cr_expect(strstr(message, path), "%s", message);
        free(text);
        free(bad);
    }
    bytes_free(&good);
    dataset_free(&digits);
}
