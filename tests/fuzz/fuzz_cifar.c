/* Any bytes as a file of CIFAR-10 and of CIFAR-100. */
#include "data/cifar.h"
#include "fuzz.h"

static void as_form(const struct cifar_form *form, const uint8_t *data, size_t size) {
    int64_t records = 0;
    fuzz_begin();
    enum status status = cifar_parse("input", form, data, size, &records);
    if (status == STATUS_OK && (size_t)records * cifar_record(form) != size)
        fuzz_wrong("records do not fill the file");
    fuzz_end(status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    as_form(&cifar_10, data, size);
    as_form(&cifar_100, data, size);
    return 0;
}
