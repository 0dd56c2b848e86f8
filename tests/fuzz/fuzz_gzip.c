/* Any bytes as a gzip stream; the limit on the unpacked size must hold. */
#include "base/file.h"
#include "fuzz.h"

enum { LIMIT = 65536 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bytes unpacked = {0};
    fuzz_begin();
    enum status status = bytes_gunzip("input", data, size, LIMIT, &unpacked);
    if (status == STATUS_OK) {
        if (unpacked.count > LIMIT) fuzz_wrong("more than the limit");
        fuzz_touch(unpacked.data, unpacked.count + 1);
    }
    fuzz_end(status);
    bytes_free(&unpacked);
    return 0;
}
