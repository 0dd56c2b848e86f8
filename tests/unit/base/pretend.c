/* See pretend.h. */
#include "pretend.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

char pretend_root[] = "/tmp/stretto-pretend-XXXXXX";

void pretend_make(void) {
    cr_assert(mkdtemp(pretend_root));
}

void pretend_remove(void) {
    folder_remove(pretend_root);
}

void pretend_put(const char *name, const char *text) {
    char *path = mem_format("%s/%s", pretend_root, name), *folder = mem_text(path);
    *strrchr(folder, '/') = 0;
    cr_assert_eq(folder_make(folder), STATUS_OK);
    cr_assert_eq(file_write_text(path, text), STATUS_OK);
    free(path);
    free(folder);
}
