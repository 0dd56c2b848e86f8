/* Any bytes as a configuration file of the train command; what is accepted must also survive the
 * checks that follow. */
#include "base/option.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct options options;
    options_init(COMMAND_TRAIN, &options);
    fuzz_begin();
    enum status status = options_parse_yaml("input", data, size, &options);
    fuzz_end(status);
    if (status == STATUS_OK) {
        fuzz_begin();
        status = options_check(&options);
        if (status == STATUS_OK) status = options_solve_batch(&options, options.local_ranks);
        fuzz_end(status);
    }
    options_free(&options);
    return 0;
}
