/* npy:DIR[,key=value,...]: people's own arrays in NumPy's files: one .npy file an array in a
 * folder, or one .npz archive, which is named itself or is the only one in the folder. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "data/arrays.h"
#include "tensor/npy.h"

struct archive_search {
    const char *folder;
    char *found; /* the name of one, owned */
    int count;
};

static enum status visit(void *context, const char *name) {
    struct archive_search *search = context;
    size_t length = strlen(name);
    if (length < 5 || name[0] == '.' || strcmp(name + length - 4, ".npz") != 0) return STATUS_OK;
    search->count++;
    if (!search->found) search->found = mem_text(name);
    return STATUS_OK;
}

/* The archive of a folder; *out stays NULL where there is none. */
static enum status find_archive(const char *folder, char **out) {
    struct archive_search search = {.folder = folder};
    enum status status = folder_each(folder, visit, &search);
    if (status == STATUS_OK && search.count > 1)
        status = fail(STATUS_DATA, "%s: %d .npz files\n  name the one to read: npy:%s/%s", folder,
                      search.count, folder, search.found);
    if (status == STATUS_OK && search.count == 1) *out = mem_format("%s/%s", folder, search.found);
    free(search.found);
    return status;
}

/* Reads one array of an open file. */
static enum status read_array(const struct npy *file, size_t index, const char *label,
                              enum array_role role, struct array *out) {
    struct npy_array described;
    TRY(npy_describe(file, index, &described));
    bool labels = role == ARRAY_Y || role == ARRAY_TEST_Y;
    enum dtype dtype = labels                              ? DTYPE_I64
                       : strcmp(described.type, "u1") == 0 ? DTYPE_U8
                                                           : DTYPE_F32;
    if (labels && described.real)
        return fail(STATUS_DATA, "%s: labels of type %s, expected whole numbers\n  %-s", label,
                    described.type, ARRAY_REAL_LABELS);
    TRY(array_new(label, role, dtype, &described.shape, out));
    out->values = malloc(array_bytes(out));
    if (!out->values)
        return fail(STATUS_MEMORY, "%s: out of memory: %zu bytes", label, array_bytes(out));
    return npy_read(file, index, dtype, out->values, array_bytes(out));
}

static enum status read_file(const char *path, int role, struct array *out) {
    SCOPED(npy_close) struct npy *file = NULL;
    TRY(npy_open(path, &file));
    return npy_count(file) == 1 && !*npy_name(file, 0)
               ? read_array(file, 0, path, (enum array_role)role, out)
               : fail(STATUS_DATA, "%s: an archive, expected one array", path);
}

static enum status read_folder(const struct array_spec *spec, struct array out[ARRAY_ROLES]) {
    for (int role = 0; role < ARRAY_ROLES; role++) {
        SCOPED_FREE char *path = mem_format("%s/%s.npy", spec->path, spec->name[role]);
        if (file_exists(path) || spec->needed[role]) TRY(read_file(path, role, &out[role]));
    }
    return STATUS_OK;
}

/* What is no archive may be one array, or something else. */
static enum status refuse_one(const char *path, const struct npy *file,
                              const struct array_spec *spec) {
    struct npy_array described;
    TRY(npy_describe(file, 0, &described));
    if (!spec->needed[ARRAY_Y])
        return fail(STATUS_USAGE, "%s: one array: its rows are inputs as they are\n  --input %s",
                    path, path);
    return fail(STATUS_DATA,
                "%s: one array, but samples and labels are needed\n"
                "  name a folder with %s.npy and %s.npy, or a .npz file",
                path, spec->name[ARRAY_X], spec->name[ARRAY_Y]);
}

/* "a, b, ..."; the caller frees it. */
static char *names_in(const struct npy *file) {
    enum { SHOWN = 8 };
    char *names = mem_text(npy_count(file) ? "" : "none");
    for (size_t i = 0; i < npy_count(file) && i <= SHOWN; i++) {
        char *longer =
            mem_format("%s%s%.40s", names, i ? ", " : "", i < SHOWN ? npy_name(file, i) : "...");
        free(names);
        names = longer;
    }
    return names;
}

static enum status read_archive(const char *path, const struct array_spec *spec,
                                struct array out[ARRAY_ROLES]) {
    SCOPED(npy_close) struct npy *file = NULL;
    enum status status = STATUS_OK;
    TRY(npy_open(path, &file));
    if (npy_count(file) == 1 && !*npy_name(file, 0)) status = refuse_one(path, file, spec);
    for (int role = 0; role < ARRAY_ROLES && status == STATUS_OK; role++) {
        size_t index;
        if (npy_find(file, spec->name[role], &index)) {
            SCOPED_FREE char *label = mem_format("%s: %s", path, spec->name[role]);
            status = read_array(file, index, label, (enum array_role)role, &out[role]);
        } else if (spec->needed[role]) {
            SCOPED_FREE char *names = names_in(file);
            status =
                fail(STATUS_DATA, "%s: no array %s in it\n  it has %s; choose: npy:%s,x=NAME%s",
                     path, spec->name[role], names, path, spec->needed[ARRAY_Y] ? ",y=NAME" : "");
        }
    }
    return status;
}

static enum status read_arrays(const struct array_spec *spec, struct array out[ARRAY_ROLES]) {
    struct stat info;
    if (stat(spec->path, &info) != 0)
        return fail(STATUS_DATA,
                    "%s: cannot open: %s\n  a .npz file, or a folder with %s.npy and %s.npy",
                    spec->path, strerror(errno), spec->name[ARRAY_X], spec->name[ARRAY_Y]);
    if (!S_ISDIR(info.st_mode)) return read_archive(spec->path, spec, out);
    SCOPED_FREE char *archive = NULL,
                     *first = mem_format("%s/%s.npy", spec->path, spec->name[ARRAY_X]);
    bool by_files = file_exists(first);
    if (!by_files) TRY(find_archive(spec->path, &archive));
    if (!by_files && !archive)
        return fail(STATUS_DATA,
                    "%s: neither %s.npy nor a .npz file is in it\n"
                    "  numpy.save('%s', x) writes one",
                    spec->path, spec->name[ARRAY_X], first);
    return by_files ? read_folder(spec, out) : read_archive(archive, spec, out);
}

static enum status npy_data_open(const char *argument, const struct dataset_config *config,
                                 struct dataset *out) {
    return arrays_open("npy", read_arrays, argument, config, out);
}

/* The arrays of a folder, by their usual names and by those that keys give them. */
static void npy_named(const char *argument, void (*visit)(void *context, const char *path),
                      void *context) {
    static const char *const usual[] = {"x_train", "y_train", "x_test", "y_test"};
    static const char *const keys[] = {"x", "y", "test_x", "test_y"};
    char *text = mem_text(argument), *rest = text, *item;
    const char *folder = strsep(&rest, ",");
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        SCOPED_FREE char *path = mem_format("%s/%s.npy", folder, usual[i]);
        visit(context, path);
    }
    while ((item = strsep(&rest, ","))) {
        const char *key = strsep(&item, "=");
        SCOPED_FREE char *path = mem_format("%s/%s.npy", folder, item ? item : "");
        if (item && TEXT_FIND(key, keys) >= 0) visit(context, path);
    }
    free(text);
}

extern const struct dataset_ops dataset_npy;
const struct dataset_ops dataset_npy = {
    .name = "npy",
    .argument = "DIR[,...]",
    .help = "your own images or rows of numbers: NumPy's .npy files, or one .npz",
    .open = npy_data_open,
    .named = npy_named,
    .read = arrays_read,
    .close = arrays_close,
};
