/* Any bytes as a gzip stream: what unpacks is as long as its header announces, and the limit
 * holds. */
#include "base/announced.h"
#include "fuzz.h"

enum { LIMIT = 65536 };

/* One byte that announces so many. */
static enum status parse(const char *name, const unsigned char *head, size_t count,
                         size_t *header_bytes, size_t *value_bytes) {
    (void)name;
    *header_bytes = count > 0;
    *value_bytes = count > 0 ? head[0] * (size_t)257 : 0;
    return STATUS_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct announced_kind kind = {.head_bytes = 2, .limit = LIMIT, .parse = parse};
    struct bytes unpacked = {0};
    fuzz_begin();
    enum status status = announced_gunzip("input", data, size, &kind, &unpacked);
    if (status == STATUS_OK) {
        if (unpacked.count > LIMIT) fuzz_wrong("more than the limit");
        if (unpacked.count > 0 && unpacked.count != 1 + unpacked.data[0] * (size_t)257)
            fuzz_wrong("not as long as announced");
        fuzz_touch(unpacked.data, unpacked.count + 1);
    }
    fuzz_end(status);
    bytes_free(&unpacked);
    return 0;
}
