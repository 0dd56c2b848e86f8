/* What is counted of classes, and how it is shown and written. */
#include <criterion/criterion.h>
#include <string.h>

#include "record/confusion.h"

static const char *const names[] = {"cat", "dog", "a \"b\", c"};

/* Labels 0 0 0 1 1, taken for 0 0 1 1 2: class 2 has no sample. */
static void fill(struct confusion *out, const char *const *of) {
    static const int pairs[][2] = {{0, 0}, {0, 0}, {0, 1}, {1, 1}, {1, 2}};
    confusion_new(3, of, 3, out);
    for (int i = 0; i < 5; i++) confusion_add(out, pairs[i][0], pairs[i][1]);
}

static char text[1 << 16];

static const char *text_of(const struct confusion *confusion,
                           void (*print)(const struct confusion *, FILE *)) {
    FILE *out = fmemopen(text, sizeof text, "w");
    print(confusion, out);
    fclose(out);
    return text;
}

Test(record_confusion, counts_by_class_and_by_pair) {
    struct confusion confusion;
    fill(&confusion, names);
    static const int64_t want[] = {3, 2, 0, 2, 2, 1, 2, 1, 0, 2, 1, 0, 0, 1, 1, 0, 0, 0};
    cr_assert_eq(confusion_count(3), 18);
    cr_expect_arr_eq(confusion_numbers(&confusion), want, sizeof want);
    confusion_free(&confusion);
}

Test(record_confusion, is_written_whole) {
    struct confusion confusion;
    fill(&confusion, names);
    json_t *all = confusion_json(&confusion);
    const json_t *last = json_array_get(json_object_get(all, "classes"), 2),
                 *row = json_array_get(json_object_get(all, "confusion"), 1);
    cr_expect_str_eq(json_string_value(json_object_get(last, "name")), names[2]);
    cr_expect(json_is_null(json_object_get(last, "recall")), "no sample, no recall");
    cr_expect_eq(json_real_value(json_object_get(last, "precision")), 0);
    cr_expect_eq(json_integer_value(json_array_get(row, 2)), 1);
    json_decref(all);
    const char *csv = text_of(&confusion, confusion_csv);
    cr_expect_str_eq(csv, "class,name,samples,right,recall,precision,predicted_0,predicted_1,"
                          "predicted_2\n"
                          "0,cat,3,2,0.66666666666666663,1,2,1,0\n"
                          "1,dog,2,1,0.5,0.5,0,1,1\n"
                          "2,\"a \"\"b\"\", c\",0,0,,0,0,0,0\n");
    confusion_free(&confusion);
}

Test(record_confusion, few_classes_fit_a_screen_and_many_are_summed_up) {
    struct confusion confusion;
    fill(&confusion, NULL);
    const char *few = text_of(&confusion, confusion_print);
    cr_expect(strstr(few, "confusion: rows are the labels"), "%s", few);
    cr_expect(strstr(few, "66.67%"), "%s", few);
    confusion_free(&confusion);

    confusion_new(1000, NULL, 0, &confusion);
    for (int i = 0; i < 1000; i++) confusion_add(&confusion, i, i < 300 ? i : 999);
    for (int i = 0; i < 5; i++) confusion_add(&confusion, 7, 8);
    const char *many = text_of(&confusion, confusion_print), *line = many;
    int lines = 0;
    for (; (line = strchr(line, '\n')); line++) lines++;
    cr_expect_lt(lines, 30, "%d lines", lines);
    cr_expect(strstr(many, "lowest recall, of 1000"), "%s", many);
    const char *mistakes = strstr(many, "the most frequent mistakes");
    cr_assert_not_null(mistakes);
    cr_expect(strstr(mistakes, "\n7      8                5\n"), "%s", mistakes);
    confusion_free(&confusion);
}

/* Of very many classes there is no table of pairs. */
Test(record_confusion, pairs_have_a_limit) {
    struct confusion confusion;
    confusion_new(CONFUSION_MOST + 1, NULL, 0, &confusion);
    cr_expect_null(confusion.pairs);
    cr_expect_eq(confusion_count(CONFUSION_MOST + 1), 3 * (CONFUSION_MOST + 1));
    confusion_add(&confusion, 3, 5);
    json_t *all = confusion_json(&confusion);
    cr_expect(json_is_null(json_object_get(all, "confusion")));
    json_decref(all);
    const char *screen = text_of(&confusion, confusion_print);
    cr_expect_null(strstr(screen, "mistakes"));
    confusion_free(&confusion);
}

Test(record_confusion, classes_without_a_name_are_numbers) {
    struct confusion confusion;
    confusion_new(4, names, 2, &confusion);
    confusion_add(&confusion, 1, 3);
    const char *screen = text_of(&confusion, confusion_print);
    cr_expect(strstr(screen, "dog") && strstr(screen, "\n3 "), "%s", screen);
    json_t *all = confusion_json(&confusion);
    cr_expect(
        json_is_null(json_object_get(json_array_get(json_object_get(all, "classes"), 3), "name")));
    json_decref(all);
    confusion_free(&confusion);
}
