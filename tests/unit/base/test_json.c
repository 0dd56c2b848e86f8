/* Where a value stands: the line and the path of places in a text. */
#include <criterion/criterion.h>

#include <string.h>

#include "base/json.h"
#include "base/log.h"

static const char text[] =
    "\n{\n \"a\": [1,\n  \"}\\\"]{\", {\"b\":\n   [true, [2, 3],\n{\"c\":4}]}],\n"
    " \"d\": {}, \"a.b\": {\"a\":\n1}\n}";

static void expect_place(const struct json_place *place, int line, const char *path) {
    char found[JSON_PATH_BYTES];
    cr_expect_eq(json_line(place), line, "%s: line %d", path, json_line(place));
    cr_expect_str_eq(json_path(place, found), path);
}

Test(base_json, lines_and_paths) {
    struct json_file file;
    cr_assert_eq(json_file_parse("f", text, strlen(text), STATUS_USAGE, &file), STATUS_OK);
    struct json_place root = json_root(&file), a = json_member(&root, "a"), item = json_item(&a, 2),
                      b = json_member(&item, "b"), deep = json_item(&b, 2),
                      c = json_member(&deep, "c"), dotted = json_member(&root, "a.b"),
                      inner = json_member(&dotted, "a"), none = json_member(&root, "none");
    expect_place(&root, 2, "");
    expect_place(&a, 3, "a");
    expect_place(&item, 4, "a[2]");
    expect_place(&b, 4, "a[2].b");
    expect_place(&deep, 6, "a[2].b[2]");
    expect_place(&c, 6, "a[2].b[2].c");
    expect_place(&dotted, 7, "'a.b'");
    expect_place(&inner, 7, "'a.b'.a");
    expect_place(&none, 2, "none");
    cr_expect_eq(json_integer_value(c.value), 4);
    json_file_free(&file);
}

/* Whole numbers may be written as reals; long values are cut. */
Test(base_json, numbers) {
    static const char numbers[] = "[5e8, 5.5, 1e300, \"x\", 9007199254740993, [1,2,3,4,5,6,7,8,9,"
                                  "10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,"
                                  "31,32,33,34,35,36,37,38,39,40]]";
    static const bool whole[] = {true, false, false, false, true, false};
    struct json_file file;
    char message[1024], value[JSON_VALUE_BYTES];
    cr_assert_eq(json_file_parse("f", numbers, strlen(numbers), STATUS_DATA, &file), STATUS_OK);
    struct json_place root = json_root(&file);
    for (size_t i = 0; i < 6; i++) {
        int64_t found = 0;
        struct json_place place = json_item(&root, i);
        log_capture(message, sizeof message);
        cr_expect_eq(json_get_int(&place, 0, INT64_MAX, &found), whole[i] ? STATUS_OK : STATUS_DATA,
                     "item %zu", i);
        log_capture(NULL, 0);
        cr_expect_eq(found, i == 0 ? 500000000 : i == 4 ? 9007199254740993 : 0);
    }
    cr_expect(strstr(message, "32,33,...") && strlen(message) < 200, "%s", message);
    cr_expect_str_eq(json_value_text(NULL, value), "nothing");
    json_file_free(&file);
}
