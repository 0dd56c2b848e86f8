/* See kept_costs.h. */
#include "run/kept_costs.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "planned/paths.h"

enum { LIMIT = 1 << 30 };

static bool says_costs(const char *label) {
    return strcmp(label, "--cluster") == 0 || strcmp(label, "--profile") == 0 ||
           strcmp(label, "--hetero") == 0;
}

/* --- the name --- */

static enum status add_content(void *context, const char *path, const char *label) {
    uint64_t *hash = context;
    struct bytes bytes;
    if (!says_costs(label)) return STATUS_OK;
    TRY(file_read(path, LIMIT, &bytes));
    *hash = hash64(*hash, bytes.data, bytes.count);
    bytes_free(&bytes);
    return STATUS_OK;
}

/* Laws but for the path of a trace. */
static uint64_t add_laws(uint64_t hash, const char *text) {
    char *path = hetero_trace_path(text);
    const char *at = path ? strstr(text, path) : NULL;
    size_t before = at ? (size_t)(at - text) : strlen(text);
    hash = hash64(hash, text, before);
    if (at) hash = hash64(hash, at + strlen(path), strlen(at + strlen(path)));
    free(path);
    return hash;
}

enum status kept_costs_name(const struct options *options, char **out) {
    uint64_t hash = HASH64_START;
    TRY(paths_each_input(options, add_content, &hash));
    bool word = option_is_given(options, OPTION_cluster) && cluster_is_word(options->cluster);
    if (word) hash = hash64(hash, options->cluster, strlen(options->cluster));
    if (option_is_given(options, OPTION_hetero)) hash = add_laws(hash, options->hetero);
    *out = mem_format("%016llx", (unsigned long long)hash);
    return STATUS_OK;
}

/* --- copies --- */

struct copies {
    const char *folder;
    int count;
};

/* The name of a file without its folders, nor what a copy has before it. The caller frees it. */
static char *own_name(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return mem_text(kept_costs_is_copy(name) ? strchr(name + strlen("clock-"), '-') + 1 : name);
}

/* The caller frees it. */
static char *copy_path(struct copies *copies, const char *path) {
    SCOPED_FREE char *own = own_name(path), *name = mem_format("clock-%d-%s", ++copies->count, own);
    return folder_path(copies->folder, name);
}

static enum status copy(void *context, const char *path, const char *label) {
    struct copies *copies = context;
    struct bytes bytes;
    struct file_writer writer;
    if (!says_costs(label)) return STATUS_OK;
    TRY(file_read(path, LIMIT, &bytes));
    SCOPED_FREE char *to = copy_path(copies, path);
    enum status status = file_begin(to, &writer);
    if (status == STATUS_OK) {
        status = file_write(&writer, bytes.data, bytes.count);
        if (status == STATUS_OK)
            status = file_commit(&writer);
        else
            file_abandon(&writer);
    }
    bytes_free(&bytes);
    return status;
}

enum status kept_costs_write(const struct options *options, const char *folder) {
    return paths_each_input(options, copy, &(struct copies){.folder = folder});
}

static enum status check(void *context, const char *path, const char *label) {
    if (!says_costs(label)) return STATUS_OK;
    SCOPED_FREE char *kept = copy_path(context, path);
    if (file_exists(path) || !file_exists(kept)) return STATUS_OK;
    return fail(STATUS_DATA, "%s %s: it is not there any more\n  the run has a copy of it, %s",
                label, path, kept);
}

enum status kept_costs_check(const struct options *options, const char *folder) {
    return paths_each_input(options, check, &(struct copies){.folder = folder});
}

bool kept_costs_is_copy(const char *name) {
    static const char prefix[] = "clock-";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return false;
    size_t digits = strspn(name + sizeof prefix - 1, "0123456789");
    return digits > 0 && name[sizeof prefix - 1 + digits] == '-';
}
