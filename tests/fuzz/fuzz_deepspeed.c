/* Any bytes as a DeepSpeed file, for some numbers of ranks; what is accepted becomes texts. */
#include "fuzz.h"
#include "plan/deepspeed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int64_t replicas[] = {1, 4, 1 << 20};
    for (int i = 0; i < 3; i++) {
        struct deepspeed deepspeed;
        fuzz_begin();
        enum status status =
            deepspeed_parse("input", (const char *)data, size, replicas[i], &deepspeed);
        fuzz_end(status);
        if (status != STATUS_OK) continue;
        for (size_t k = 0; k < deepspeed.count; k++) {
            const struct deepspeed_option *option = &deepspeed.option[k];
            fuzz_touch(option->value, strlen(option->value));
            fuzz_touch(option->from, strlen(option->from));
            if (!*option->value || strchr(option->value, '\n')) fuzz_wrong("not a value");
        }
        deepspeed_free(&deepspeed);
    }
    return 0;
}
