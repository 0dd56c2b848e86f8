/* Any bytes as an HDF5 shard, read as the product does: the data set starts a child process that
 * asks the library. However that child ends, the data set must open or be refused, without taking a
 * gigabyte, and neither a process nor a descriptor may be left behind. Slow, a process for each
 * input. */
#include "fuzz.h"

#ifdef HAVE_HDF5
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "data/dataset.h"

/* Asked by the address sanitizer: in the child, too, running out of memory is a NULL. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}

static int shard; /* a file in memory, under the names that wiki:DIR looks for */
static char *spec;
static char folder[] = "/tmp/fuzz-shard-XXXXXX";

static void remove_folder(void) {
    static const char *const names[] = {"x_training_0.hdf5", "x_test_0.hdf5"};
    for (int i = 0; i < 2; i++) {
        char *path = mem_format("%s/%s", folder, names[i]);
        unlink(path);
        free(path);
    }
    rmdir(folder);
    free(spec);
}

static void make_folder(void) {
    static const char *const names[] = {"x_training_0.hdf5", "x_test_0.hdf5"};
    shard = memfd_create("shard", MFD_CLOEXEC);
    if (shard < 0 || !mkdtemp(folder)) fuzz_wrong("no folder");
    char *target = mem_format("/proc/self/fd/%d", shard);
    for (int i = 0; i < 2; i++) {
        char *path = mem_format("%s/%s", folder, names[i]);
        if (symlink(target, path) != 0) fuzz_wrong("no link");
        free(path);
    }
    free(target);
    spec = mem_format("wiki:%s", folder);
    atexit(remove_folder);
}

/* The lowest free descriptor: it rises with every one that is left open. */
static int lowest_free(void) {
    int fd = dup(shard);
    close(fd);
    return fd;
}

static void read_all(const struct dataset *dataset) {
    void *out[DATASET_MAX_FIELDS];
    for (int f = 0; f < dataset->field_count; f++)
        out[f] = mem_new(dataset_field_bytes(dataset, f));
    for (int64_t i = 0; i < dataset->count[SPLIT_TRAIN]; i++)
        if (dataset_read(dataset, SPLIT_TRAIN, i, 0, out) != STATUS_OK)
            fuzz_wrong("a row cannot be read");
    for (int f = 0; f < dataset->field_count; f++) free(out[f]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct dataset *dataset = NULL;
    struct dataset_config config = {0};
    if (!spec) make_folder();
    if (ftruncate(shard, 0) != 0 || pwrite(shard, data, size, 0) != (ssize_t)size)
        fuzz_wrong("the shard cannot be written");
    int before = lowest_free();
    fuzz_begin();
    enum status status = dataset_open(spec, &config, &dataset);
    if (status == STATUS_OK) read_all(dataset);
    fuzz_end(status);
    dataset_free(&dataset);
    struct rusage own, child;
    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &child);
    if (child.ru_maxrss > own.ru_maxrss + (1 << 20)) fuzz_wrong("a child took a gigabyte");
    if (lowest_free() != before) fuzz_wrong("a descriptor is left open");
    if (waitpid(-1, NULL, WNOHANG) > 0) fuzz_wrong("a process is left"); /* libFuzzer's own live */
    return 0;
}

#else
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    (void)data, (void)size;
    return 0;
}
#endif
