/* See kit.h. */
#include "kit.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/log.h"

void expect_same_text(const struct program *program) {
    char *text[2] = {NULL, NULL};
    struct program *again = NULL;
    for (int i = 0; i < 2; i++) {
        size_t bytes;
        FILE *out = open_memstream(&text[i], &bytes);
        program_print(i ? again : program, out);
        fclose(out);
        if (i == 0) cr_assert_eq(program_parse("text", text[0], bytes, &again), STATUS_OK);
    }
    cr_expect_str_eq(text[0], text[1]);
    cr_expect_eq(program_hash(program), program_hash(again));
    free(text[0]);
    free(text[1]);
    program_free(&again);
}
