/* Any bytes as a safetensors file; what was accepted is read back whole, by index and by name. */
#include "fuzz.h"
#include "tensor/safetensors.h"

static void read_all(const struct safetensors *file, size_t size) {
    for (size_t i = 0; i < safetensors_count(file); i++) {
        const struct safetensors_entry *entry = safetensors_at(file, i);
        size_t found = 0;
        if (entry->bytes > size) fuzz_wrong("a tensor larger than the file");
        if (!safetensors_find(file, entry->name, &found) || found != i)
            fuzz_wrong("a name not found again");
        void *buffer = malloc(entry->bytes + 1);
        if (safetensors_read(file, i, buffer, entry->bytes) != STATUS_OK)
            fuzz_wrong("an entry cannot be read");
        free(buffer);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct safetensors *file = NULL;
    fuzz_begin();
    enum status status = safetensors_parse("input", data, size, &file);
    if (status == STATUS_OK) read_all(file, size);
    fuzz_end(status);
    safetensors_close(&file);
    return 0;
}
