/* The registration table of data sets, and the thin wrapper around it: finds the row a spec names,
 * checks what an implementation filled in, checks arguments of reads. */
#include "data/dataset.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/option_registry.h"
#include "base/text.h"

#define DATASET(name) extern const struct dataset_ops dataset_##name;
#include "data/dataset.def"

#ifndef HAVE_HDF5
const struct dataset_ops dataset_wiki = {.name = "wiki",
                                         .argument = "DIR",
                                         .help = "BERT pre-training rows",
                                         .needs = "HDF5 (Debian: libhdf5-dev)"};
const struct dataset_ops dataset_hdf5 = {.name = "hdf5",
                                         .argument = "FILE[,...]",
                                         .help = "your own arrays",
                                         .needs = "HDF5 (Debian: libhdf5-dev)"};
#endif

#ifndef HAVE_PICTURES
const struct dataset_ops dataset_folder = {
    .name = "folder",
    .argument = "DIR[,train=NAME,test=NAME]",
    .help = "JPEG and PNG pictures",
    .needs = "libjpeg-turbo and libpng (Debian: libjpeg-dev libpng-dev)"};
#endif

static const struct dataset_ops *const built_in[] = {
#define DATASET(name) &dataset_##name,
#include "data/dataset.def"
};

enum { BUILT_IN = sizeof built_in / sizeof built_in[0], MOST = BUILT_IN + 64 };

/* Rows that were added, behind the others; they are never changed or taken away again. */
static const struct dataset_ops *added[MOST - BUILT_IN];
static atomic_int added_count;

static int table_count(void) {
    return BUILT_IN + atomic_load_explicit(&added_count, memory_order_acquire);
}

static const struct dataset_ops *row(int index) {
    return index < BUILT_IN ? built_in[index] : added[index - BUILT_IN];
}

const struct dataset_ops *dataset_at(int index) {
    return index >= 0 && index < table_count() ? row(index) : NULL;
}

static const struct dataset_ops *find(const char *spec, size_t length) {
    for (int i = 0; i < table_count(); i++)
        if (strlen(row(i)->name) == length && strncmp(row(i)->name, spec, length) == 0)
            return row(i);
    return NULL;
}

const struct dataset_ops *dataset_find(const char *name) {
    return find(name, strlen(name));
}

enum status dataset_add(const struct dataset_ops *ops) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    enum status status = STATUS_OK;
    pthread_mutex_lock(&lock);
    int count = table_count() - BUILT_IN;
    if (find(ops->name, strlen(ops->name)))
        status = fail(STATUS_USAGE, "there is a data set %s already", ops->name);
    else if (count == MOST - BUILT_IN)
        status = fail(STATUS_USAGE, "data set %s: no more than %d can be added", ops->name, count);
    else
        added[count] = ops;
    if (status == STATUS_OK) atomic_store_explicit(&added_count, count + 1, memory_order_release);
    pthread_mutex_unlock(&lock);
    return status;
}

/* "digits mnist:DIR ...", without what may be left out, in lines for a message. The caller frees
 * it. */
static char *known_usages(int count) {
    SCOPED_FREE char *words = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&words, &bytes);
    for (int i = 0; i < count; i++) {
        struct option_word word = {.name = row(i)->name, .argument = row(i)->argument};
        SCOPED_FREE char *usage = option_word_usage(&word);
        fprintf(stream, "%s%.*s", i ? " " : "", (int)strcspn(usage, "["), usage);
    }
    fclose(stream);
    char *lines = text_wrapped(words, 9, 80); /* behind "  known: " */
    return lines;
}

/* The kind that a path without one suggests by how it ends, or by what is in it; or NULL. */
static const char *kind_of_path(const char *path) {
    static const struct {
        const char *sign, *kind;
    } ends[] = {{".npz", "npy"}, {".npy", "npy"}, {".h5", "hdf5"}, {".hdf5", "hdf5"}},
      inside[] = {{"train", "folder"},           {"x_train.npy", "npy"},
                  {"train.tokens", "tokens"},    {"train-images-idx3-ubyte", "mnist"},
                  {"test_batch.bin", "cifar10"}, {"train-images-idx3-ubyte.gz", "mnist"}};
    const char *dot = strrchr(path, '.');
    if (!file_exists(path)) return NULL;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (dot && strcmp(dot, ends[i].sign) == 0) return ends[i].kind;
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
        char *file = mem_format("%s/%s", path, inside[i].sign);
        bool there = file_exists(file);
        free(file);
        if (there) return inside[i].kind;
    }
    return NULL;
}

/* What to do with a file that is no data set yet; NULL: nothing is known of it. */
static const char *use_of_file(const char *path) {
    static const char pictures[] =
        "pictures are read from folders, one for each class: folder:DIR (docs/data.md);\n"
        "  without labels: stretto predict RUN --input FILE";
    static const char arrays[] =
        "from Python: numpy.savez('data.npz', x_train=x, y_train=y), then npy:data.npz";
    static const char other_pictures[] = "of pictures JPEG and PNG are read: convert it first";
    static const struct {
        const char *end, *use;
    } files[] = {{".webp", other_pictures},
                 {".gif", other_pictures},
                 {".bmp", other_pictures},
                 {".tif", other_pictures},
                 {".tiff", other_pictures},
                 {".jpg", pictures},
                 {".jpeg", pictures},
                 {".png", pictures},
                 {".csv", arrays},
                 {".pt", arrays},
                 {".pth", arrays},
                 {".pkl", arrays},
                 {".txt", "stretto tokens TRAIN.txt DIR makes a data set of text: tokens:DIR"}};
    const char *dot = strrchr(path, '.');
    if (!dot || !file_exists(path)) return NULL;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (strcasecmp(dot, files[i].end) == 0) return files[i].use;
    return NULL;
}

static enum status fail_unknown(const char *spec) {
    char word[32], quoted[TEXT_QUOTED_BYTES];
    const char *names[MOST];
    int count = table_count();
    for (int i = 0; i < count; i++) names[i] = row(i)->name;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(spec, ":"), spec);
    const char *near = text_nearest(word, names, count);
    const char *kind = kind_of_path(spec);
    if (kind)
        return fail(STATUS_USAGE,
                    "unknown data set %s: a path has the kind of its data before it\n"
                    "  such as %s:%s; docs/data.md lists all kinds",
                    text_quoted(spec, quoted), kind, spec);
    const char *use = use_of_file(spec);
    if (use) return fail(STATUS_USAGE, "%s is no data set\n  %-s", text_quoted(spec, quoted), use);
    if (near)
        return fail(STATUS_USAGE, "unknown data set %s; did you mean %s?",
                    text_quoted(spec, quoted), near);
    SCOPED_FREE char *known = known_usages(count);
    return fail(STATUS_USAGE, "unknown data set %s\n  known: %-s", text_quoted(spec, quoted),
                known);
}

/* Where the path of a spec begins and how long it is; NULL: it has none. */
static const char *path_in(const char *spec, const struct dataset_ops *ops, size_t *length) {
    const char *colon = strchr(spec, ':'), *form = ops ? ops->argument : NULL;
    bool is = form && (strncmp(form, "DIR", 3) == 0 || strncmp(form, "FILE", 4) == 0);
    if (!colon || !colon[1] || !is) return NULL;
    *length = strchr(form, '[') ? strcspn(colon + 1, ",") : strlen(colon + 1);
    return colon + 1;
}

void dataset_paths(const char *spec, void (*visit)(void *context, const char *path),
                   void *context) {
    size_t length;
    const struct dataset_ops *ops = find(spec, strcspn(spec, ":"));
    const char *at = path_in(spec, ops, &length);
    if (!at) return;
    SCOPED_FREE char *path = mem_format("%.*s", (int)length, at);
    visit(context, path);
    if (ops->named) ops->named(at, visit, context);
}

char *dataset_absolute(const char *spec) {
    size_t length;
    const char *at = path_in(spec, find(spec, strcspn(spec, ":")), &length);
    if (!at || length == 0) return mem_text(spec);
    char *path = mem_format("%.*s", (int)length, at), *whole = file_absolute(path),
         *out = mem_format("%.*s%s%s", (int)(at - spec), spec, whole, at + length);
    free(path);
    free(whole);
    return out;
}

static enum status find_checked(const char *spec, const struct dataset_ops **ops,
                                const char **argument) {
    const char *colon = strchr(spec, ':');
    *ops = find(spec, colon ? (size_t)(colon - spec) : strlen(spec));
    *argument = colon ? colon + 1 : NULL;
    if (!*ops) return fail_unknown(spec);
    if (!(*ops)->open)
        return fail(STATUS_USAGE,
                    "data set '%s': this build was made without %s\n  install it and build again",
                    spec, (*ops)->needs);
    if (*argument && !(*ops)->argument)
        return fail(STATUS_USAGE, "data set '%s': %s takes no argument", spec, (*ops)->name);
    bool required = (*ops)->argument && (*ops)->argument[0] != '[';
    if (required && (!*argument || !**argument))
        return fail(STATUS_USAGE, "data set '%s': the argument is missing\n  write it as %s:%s",
                    spec, (*ops)->name, (*ops)->argument);
    return STATUS_OK;
}

/* Said once here, so that an implementation only meets folders that exist. */
static enum status check_folder(const struct dataset_ops *ops, const char *argument) {
    struct stat info;
    if (!ops->argument || strcmp(ops->argument, "DIR") != 0) return STATUS_OK;
    if (stat(argument, &info) != 0)
        return fail(STATUS_DATA, "%s: cannot open the folder of data set %s: %s", argument,
                    ops->name, strerror(errno));
    const char *use = use_of_file(argument);
    if (!S_ISDIR(info.st_mode))
        return fail(STATUS_DATA, "%s: not a folder, which data set %s needs\n  %-s", argument,
                    ops->name, use ? use : "docs/data.md says what is in it");
    return STATUS_OK;
}

enum status dataset_open(const char *spec, const struct dataset_config *config,
                         struct dataset **out) {
    const struct dataset_ops *ops;
    const char *argument;
    TRY(find_checked(spec, &ops, &argument));
    TRY(check_folder(ops, argument));
    struct dataset *dataset = MEM_NEW(struct dataset);
    dataset->ops = ops;
    enum status status = ops->open(argument, config, dataset);
    if (status != STATUS_OK) {
        free(dataset);
        return status;
    }
    CHECK(dataset->count[SPLIT_TRAIN] > 0 && dataset->count[SPLIT_TEST] > 0, "%s opened empty",
          spec);
    CHECK(dataset->field_count > 0 && dataset->field_count <= DATASET_MAX_FIELDS, "%s: %d fields",
          spec, dataset->field_count);
    dataset->spec = mem_text(spec);
    *out = dataset;
    return STATUS_OK;
}

void dataset_free(struct dataset **dataset) {
    if (!*dataset) return;
    if ((*dataset)->ops->close) (*dataset)->ops->close(*dataset);
    free((*dataset)->spec);
    free(*dataset);
    *dataset = NULL;
}

enum status dataset_read_in(const struct dataset *dataset, enum split split, int64_t index,
                            uint64_t key, void *scratch, void *const out[]) {
    CHECK(index >= 0 && index < dataset->count[split], "sample %lld of %lld", (long long)index,
          (long long)dataset->count[split]);
    return dataset->ops->read(dataset, split, index, key, scratch, out);
}

enum status dataset_read(const struct dataset *dataset, enum split split, int64_t index,
                         uint64_t key, void *const out[]) {
    SCOPED(region_free) struct region scratch = {0};
    if (dataset->scratch_bytes)
        TRY(region_map(dataset->scratch_bytes, "the reading of a sample", &scratch));
    return dataset_read_in(dataset, split, index, key, scratch.base, out);
}

char *dataset_file(const struct dataset *dataset, enum split split, int64_t index) {
    return dataset->ops->file ? dataset->ops->file(dataset, split, index) : NULL;
}

size_t dataset_field_bytes(const struct dataset *dataset, int field) {
    const struct field *f = &dataset->field[field];
    return (size_t)shape_count(&f->shape) * dtype_bytes(f->dtype);
}

int dataset_field(const struct dataset *dataset, const char *name) {
    for (int f = 0; f < dataset->field_count; f++)
        if (strcmp(dataset->field[f].name, name) == 0) return f;
    return -1;
}
