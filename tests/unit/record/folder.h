/* A folder of its own for each test that writes files. */
#ifndef TESTS_RECORD_FOLDER_H
#define TESTS_RECORD_FOLDER_H

#include <criterion/criterion.h>

#include <stdlib.h>

#include "base/file.h"

static char folder[] = "/tmp/stretto-record-XXXXXX";

static void make_folder(void) {
    cr_assert(mkdtemp(folder));
}

static void remove_folder(void) {
    cr_assert_eq(folder_remove(folder), STATUS_OK);
}

#endif
