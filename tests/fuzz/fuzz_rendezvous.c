/* Any text as the record of a file:// rendezvous, with the checksum put right so that the fields
 * are reached. What is accepted must print and parse to the same again. */
#include "fuzz.h"

#include "base/hash.h"
#include "control/rendezvous_record.h"

static void check_round_trip(const struct control_rendezvous_record *record) {
    struct control_rendezvous_record again;
    char text[CONTROL_RENDEZVOUS_BYTES];
    size_t bytes = control_rendezvous_record_print(record, text);
    if (control_rendezvous_record_parse(text, bytes, &again) != CONTROL_RENDEZVOUS_GOOD)
        fuzz_wrong("its own text is refused");
    if (strcmp(record->info.address, again.info.address) != 0 || record->pid != again.pid ||
        memcmp(&record->info.secret, &again.info.secret, sizeof again.info.secret) != 0)
        fuzz_wrong("the record changed");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct control_rendezvous_record record;
    char text[2 * CONTROL_RENDEZVOUS_BYTES];
    control_rendezvous_record_parse((const char *)data, size, &record);
    if (size + 16 > sizeof text) return 0;
    if (size) memcpy(text, data, size);
    size += (size_t)snprintf(text + size, 16, "crc %08x\n", crc32c(0, text, size));
    if (control_rendezvous_record_parse(text, size, &record) == CONTROL_RENDEZVOUS_GOOD)
        check_round_trip(&record);
    return 0;
}
