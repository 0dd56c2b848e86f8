/* Writing files: what there is no memory for. */
#include <criterion/criterion.h>

#include "base/file.h"

Test(base_file, a_text_that_could_not_be_made_is_told_of) {
    const char *path = "/tmp/stretto-test-no-text";
    cr_expect_eq(file_write_text(path, NULL), STATUS_MEMORY);
    cr_expect(!file_exists(path));
}
