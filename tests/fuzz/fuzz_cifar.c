/* Any bytes as a CIFAR-10 file. */
#include "data/cifar.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int64_t records = 0;
    fuzz_begin();
    enum status status = cifar_parse("input", data, size, &records);
    if (status == STATUS_OK && (size_t)records * CIFAR_RECORD != size)
        fuzz_wrong("records do not fill the file");
    fuzz_end(status);
    return 0;
}
