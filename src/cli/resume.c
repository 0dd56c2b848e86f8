/* See resume.h. A run is resumed by naming its folder alone: repeating every option by hand is how
 * runs diverge. */
#include "cli/resume.h"

#include <stdlib.h>

#include "base/file.h"
#include "cli/folder.h"

static enum status apply_given(const struct options *given, struct options *out) {
    for (int id = 0; id < OPTION_COUNT; id++) {
        if (!option_is_given(given, (enum option_id)id)) continue;
        char *text = option_text(given, (enum option_id)id);
        enum status status =
            option_set(out, (enum option_id)id, text, option_rows[id].name, given->source[id]);
        free(text);
        TRY(status);
    }
    out->json = given->json; /* how to talk is this command's matter, not the run's */
    out->quiet = given->quiet;
    return options_check(out);
}

static enum status read_config(const char *path, struct options *out) {
    enum { CONFIG_LIMIT = 1 << 20 };
    struct bytes text;
    TRY(file_read(path, CONFIG_LIMIT, &text));
    enum status status = options_parse_yaml(path, text.data, text.count, out);
    bytes_free(&text);
    return status;
}

static enum status merge(const struct options *given, const char *path, struct options *out) {
    struct options merged;
    options_init(given->command, &merged);
    enum status status = path ? read_config(path, &merged) : STATUS_OK;
    if (status == STATUS_OK) status = apply_given(given, &merged);
    if (status == STATUS_OK)
        *out = merged;
    else
        options_free(&merged);
    return status;
}

enum status resume_options(const struct options *given, struct options *out, bool *found) {
    *found = false;
    if (!given->resume) return STATUS_OK;
    char *path =
        option_is_set(given, OPTION_out) ? folder_path(given->out, "config.yml") : mem_text("");
    enum status status = merge(given, file_exists(path) ? path : NULL, out);
    *found = status == STATUS_OK;
    free(path);
    return status;
}
