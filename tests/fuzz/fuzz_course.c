/* Any bytes as a recorded course; what is accepted is in order, fits itself, and is the same when
 * it is printed and read again. */
#include <string.h>

#include "fuzz.h"
#include "plan/course_file.h"

static char *print(const struct course_file *file, size_t *bytes) {
    char *text = NULL;
    struct run_config config = {.ranks = file->ranks, .batch = file->batch};
    struct course course = {.config = &config, .blocks = file->blocks};
    FILE *out = open_memstream(&text, bytes);
    if (!out) abort();
    for (int i = 0; i < file->count; i++) course_file_print(&course, &file->part[i], out);
    fclose(out);
    return text;
}

static void check(const struct course_file *file, struct arena *arena) {
    struct course_file again;
    size_t bytes;
    if (file->count < 1 || file->part[0].step != 0) fuzz_wrong("a course without a begin");
    for (int i = 1; i < file->count; i++)
        if (!course_follows(&file->part[i], &file->part[i - 1])) fuzz_wrong("a part goes back");
    char *text = print(file, &bytes);
    if (course_file_parse("again", text, bytes, arena, &again) != STATUS_OK)
        fuzz_wrong("its own text is refused");
    if (again.count != file->count ||
        memcmp(again.part, file->part, (size_t)file->count * sizeof *file->part) != 0)
        fuzz_wrong("the course changed");
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct course_file file;
    struct arena arena = {0};
    fuzz_begin();
    enum status status = course_file_parse("input", (const char *)data, size, &arena, &file);
    fuzz_end(status);
    if (status == STATUS_OK) check(&file, &arena);
    arena_free(&arena);
    return 0;
}
