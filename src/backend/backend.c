/* The registry of backends, and the checks in front of their tables. */
#include "backend/registry.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

#define BACKEND(name) extern const struct backend backend_##name;
#include "backend/backend.def"
#undef BACKEND

static const struct backend *all[] = {
#define BACKEND(name) &backend_##name,
#include "backend/backend.def"
#undef BACKEND
    NULL, NULL, /* of backend_add */
};

static const char *names[] = {
#define BACKEND(name) #name,
#define MISSING(name, needs) #name,
#include "backend/backend.def"
#undef BACKEND
    NULL, NULL, /* of backend_add */
};

const struct backend *const *backend_all(void) {
    return all;
}

const char *backend_name_at(int index) {
    return names[index];
}

void backend_add(const struct backend *backend) {
    size_t last = sizeof all / sizeof *all - 2;
    CHECK(!all[last], "a second backend of the program's own");
    all[last] = backend;
    names[sizeof names / sizeof *names - 2] = backend->name;
}

const struct backend *backend_find(const char *name) {
    for (int i = 0; all[i]; i++)
        if (strcmp(all[i]->name, name) == 0) return all[i];
    return NULL;
}

const char *backend_tried_isa(void) {
    const char *tried = NULL;
    for (int i = 0; all[i] && !tried; i++)
        if (all[i]->tried_isa) tried = all[i]->tried_isa();
    return tried;
}

static enum status fail_unknown(const char *name) {
    char known[256] = "";
#define BACKEND(of)
#define MISSING(of, needs)                                                                         \
    if (strcmp(name, #of) == 0)                                                                    \
        return fail(STATUS_USAGE,                                                                  \
                    "this build has no device " #of "\n"                                           \
                    "  it was made without " needs "; docs/gpu.md tells how to build with them");
#include "backend/backend.def"
#undef BACKEND
    for (int i = 0, used = 0; all[i] && used < (int)sizeof known; i++)
        used += snprintf(known + used, sizeof known - (size_t)used, "%s%s", i ? ", " : "",
                         all[i]->name);
    return fail(STATUS_USAGE, "device \"%s\" is not known\nthis build has: %s", name, known);
}

/* Which entry of "0,2,5" a rank has, in turn. */
static int entry_of(const char *list, int rank) {
    int count = 1, entry = 0;
    for (const char *at = list; *at; at++) count += *at == ',';
    for (int i = 0; i < rank % count; i++) list = strchr(list, ',') + 1;
    for (; *list >= '0' && *list <= '9'; list++) entry = 10 * entry + (*list - '0');
    return entry;
}

enum status device_named(const char *text, int local_rank, const char **backend, int *index) {
    char name[64];
    size_t length = strcspn(text, ":");
    snprintf(name, sizeof name, "%.*s", (int)length, text);
    const struct backend *found = backend_find(name);
    if (!found) return fail_unknown(name);
    *backend = found->name;
    *index = text[length] ? entry_of(text + length + 1, local_rank) : 0;
    return STATUS_OK;
}

enum status device_open(const char *backend, int index, int threads, struct device **out) {
    const struct backend *table = backend_find(backend);
    if (!table) return fail_unknown(backend);
    if (index < 0 || threads < 1)
        return fail(STATUS_USAGE, "device %s:%d with %d threads: at least 0 and 1 are needed",
                    backend, index, threads);
    return table->open(index, threads, out);
}

void device_close(struct device **device) {
    if (*device) (*device)->backend->close(*device);
    *device = NULL;
}

enum status kernel_create(struct device *device, const struct op_call *call,
                          const struct layout *const in[], struct kernel **out) {
    for (int i = 0; i < call->in_count; i++)
        CHECK(!in[i] || tensor_type_equal(&in[i]->type, &call->in[i]),
              "input %d of %s has a layout of another type", i, op_def(call->op)->name);
    if (!device->backend->supports(device, call)) {
        char text[OP_TEXT_BYTES];
        return fail(STATUS_USAGE, "device %s:%d cannot run %s %s", device->backend->name,
                    device->index, op_def(call->op)->name, op_attrs_text(call, text));
    }
    return device->backend->kernel_create(device, call, in, out);
}

void kernel_free(struct kernel **kernel) {
    if (*kernel) (*kernel)->device->backend->kernel_free(*kernel);
    *kernel = NULL;
}
