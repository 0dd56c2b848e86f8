/* Any text as the manifest of a checkpoint: as it is, and where it is JSON, with its checksum put
 * right, so that the fields are reached. What is accepted must print and parse to the same again.
 */
#include <jansson.h>

#include "base/hash.h"
#include "exec/manifest.h"
#include "fuzz.h"

static void check_round_trip(const struct manifest *manifest) {
    struct manifest again = {0};
    char *text = manifest_print(manifest);
    if (!text || manifest_parse("again", text, strlen(text), &again) != STATUS_OK)
        fuzz_wrong("its own text is refused");
    const struct checkpoint_state *a = &manifest->state, *b = &again.state;
    if (a->step != b->step || a->best_step != b->best_step ||
        manifest->next.epoch != again.next.epoch || manifest->next.sample != again.next.sample ||
        manifest_compare(&again, manifest->facts, manifest->fact_count, "again") != STATUS_OK ||
        manifest->fact_count != again.fact_count)
        fuzz_wrong("the manifest changed");
    if (manifest->file_count != again.file_count) fuzz_wrong("a file is gone");
    for (int i = 0; i < manifest->file_count; i++) {
        const struct manifest_file *file = &manifest->files[i], *same = again.files;
        while (same < again.files + again.file_count && strcmp(same->name, file->name) != 0) same++;
        if (same == again.files + again.file_count || same->mark.bytes != file->mark.bytes ||
            same->mark.crc32c != file->mark.crc32c)
            fuzz_wrong("a file's mark changed");
    }
    manifest_free(&again);
    free(text);
}

static void parse(const void *text, size_t bytes) {
    struct manifest manifest = {0};
    fuzz_begin();
    enum status status = manifest_parse("input", text, bytes, &manifest);
    if (status == STATUS_OK) check_round_trip(&manifest);
    fuzz_end(status);
    manifest_free(&manifest);
}

/* The same JSON with the right checksum, or NULL. */
static char *with_check(const uint8_t *data, size_t size) {
    json_error_t error;
    json_t *root = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, &error);
    char check[16], *text = NULL;
    if (json_is_object(root)) {
        json_object_del(root, "check");
        char *canonical = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
        snprintf(check, sizeof check, "%08x", crc32c(0, canonical, strlen(canonical)));
        free(canonical);
        json_object_set_new(root, "check", json_string(check));
        text = json_dumps(root, JSON_REAL_PRECISION(17));
    }
    json_decref(root);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse(data, size);
    char *text = with_check(data, size);
    if (text) parse(text, strlen(text));
    free(text);
    return 0;
}
