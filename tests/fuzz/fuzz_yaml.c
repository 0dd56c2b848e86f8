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
        fuzz_end(options_check(&options));
    }
    options_free(&options);
    return 0;
}
