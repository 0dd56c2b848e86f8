/* Any text as a program. What is accepted must print and parse to the same text again, and the
 * verifier must give an answer about it. */
#include "fuzz.h"
#include "program/program.h"

static char *print(const struct program *program, size_t *size) {
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    program_print(program, out);
    fclose(out);
    return text;
}

static void check_round_trip(const struct program *program) {
    struct program *again = NULL;
    size_t first_size = 0, second_size = 0;
    char *first = print(program, &first_size);
    if (program_parse("printed", first, first_size, &again) != STATUS_OK)
        fuzz_wrong("its own text is refused");
    char *second = print(again, &second_size);
    if (first_size != second_size || memcmp(first, second, first_size) != 0)
        fuzz_wrong("the text changed");
    program_free(&again);
    free(first);
    free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct program *program = NULL;
    fuzz_begin();
    enum status status = program_parse("input", (const char *)data, size, &program);
    fuzz_end(status);
    if (status != STATUS_OK) return 0;
    check_round_trip(program);
    fuzz_begin();
    fuzz_end(program_verify(program, NULL));
    program_free(&program);
    return 0;
}
