/* Any bytes as a profile: as they are, and where they are JSON, with the checksum put right, so
 * that the fields are reached. What is accepted prints and parses to the same again, and merges
 * with itself. */
#include "base/json.h"
#include "cost/profile.h"
#include "fuzz.h"

static void check_round_trip(const struct profile *profile) {
    struct profile again;
    char *text = profile_print(profile);
    if (profile_parse("again", text, strlen(text), &again) != STATUS_OK)
        fuzz_wrong("its own text is refused");
    char *other = profile_print(&again);
    if (strcmp(text, other) != 0) fuzz_wrong("the profile changed");
    profile_merge(&again, profile);
    for (size_t i = 0; i < profile->section_count; i++) {
        const struct profile_section *section = profile->section[i];
        for (size_t row = 0; row < section->row_count; row++)
            if (profile_find(section, &section->row[row].key) != &section->row[row])
                fuzz_wrong("a row is not found");
        if (again.section[i]->row_count != section->row_count) fuzz_wrong("rows were doubled");
    }
    free(other);
    free(text);
    profile_free(&again);
}

static void parse(const char *text, size_t bytes) {
    struct profile profile;
    fuzz_begin();
    enum status status = profile_parse("input", text, bytes, &profile);
    if (status == STATUS_OK) check_round_trip(&profile);
    fuzz_end(status);
    if (status == STATUS_OK) profile_free(&profile);
}

/* The same JSON with the right checksum, or NULL. */
static char *with_check(const uint8_t *data, size_t size) {
    json_error_t error;
    json_t *root = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, &error);
    char check[16], *text = NULL;
    if (json_is_object(root)) {
        json_object_del(root, "check");
        snprintf(check, sizeof check, "%08x", json_content_check(root));
        json_object_set_new(root, "check", json_string(check));
        text = json_dumps(root, JSON_REAL_PRECISION(17));
    }
    json_decref(root);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse((const char *)data, size);
    char *text = with_check(data, size);
    if (text) parse(text, strlen(text));
    free(text);
    return 0;
}
