/* The child sends, through a pipe, one frame a dataset (shape, then values) or one with an error
 * text. It opens bytes that this process read, through HDF5's memory driver: a file cut or replaced
 * meanwhile cannot hurt, and a crash is the only surprise left. Its processor time is limited, so
 * that an endless loop ends, too, and so is its memory: a changed length of four bytes in a file of
 * four kilobytes made the library fill 4 GiB. */
#include "data/hdf5_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hdf5.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

static const size_t file_limit = (size_t)16 << 30;

enum { TEXT_BYTES = 1024, CPU_LIMIT_S = 60, CPU_BYTES_PER_S = 1 << 20 };

/* Deflate packs 1032:1 at most, which bounds how many values an honest file can hold. */
enum { VALUES_PER_BYTE = 1032, LIBRARY_BYTES = 64 << 20 };

/* Before the values of a matrix, or, with a status other than OK, before an error text of `rows`
 * bytes. */
struct frame {
    int64_t status, rows, columns;
};

struct source {
    const char *path;
    size_t bytes;
    hid_t file;
};

/* --- the child's side --- */

static herr_t keep_innermost(unsigned depth, const H5E_error2_t *error, void *text) {
    if (depth == 0 && error->desc) snprintf(text, 160, "%s", error->desc);
    return 0;
}

static enum status fail_hdf5(const char *path, const char *what) {
    char text[160] = "no reason given";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, text);
    return fail(STATUS_DATA, "%s: %s: %s\n  the file is damaged, truncated or not HDF5", path, what,
                text);
}

/* HDF5 insists on a name under which no file exists. */
static enum status open_image(const struct bytes *bytes, struct source *source) {
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    if (access < 0 || H5Pset_fapl_core(access, 1 << 20, 0) < 0 ||
        H5Pset_file_image(access, bytes->data, bytes->count) < 0)
        return fail_hdf5(source->path, "cannot open");
    source->file = H5Fopen("/dev/null/image", H5F_ACC_RDONLY, access);
    return source->file < 0 ? fail_hdf5(source->path, "cannot open") : STATUS_OK;
}

/* Type, shape and place of the values; those must lie in this very file. */
static enum status inspect(const struct source *source, hid_t set, struct hdf5_matrix *matrix) {
    hid_t space = H5Dget_space(set), type = H5Dget_type(set), plan = H5Dget_create_plist(set);
    int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    if (type < 0 || plan < 0 || rank < 0) return fail_hdf5(source->path, matrix->name);
    if (rank != matrix->rank)
        return fail(STATUS_DATA, "%s: %s has %d dimensions, expected %d", source->path,
                    matrix->name, rank, matrix->rank);
    if (H5Tget_class(type) != H5T_INTEGER)
        return fail(STATUS_DATA, "%s: %s does not hold integers", source->path, matrix->name);
    if (H5Pget_layout(plan) == H5D_VIRTUAL || H5Pget_external_count(plan) != 0)
        return fail(STATUS_DATA, "%s: %s keeps its values in another file", source->path,
                    matrix->name);
    hsize_t dims[2] = {0, 1};
    H5Sget_simple_extent_dims(space, dims, NULL);
    if (dims[0] == 0 || dims[1] == 0)
        return fail(STATUS_DATA, "%s: %s is empty: %llu rows of %llu", source->path, matrix->name,
                    (unsigned long long)dims[0], (unsigned long long)dims[1]);
    uint64_t most = source->bytes * VALUES_PER_BYTE;
    if (dims[0] > most || dims[1] > most / dims[0])
        return fail(STATUS_DATA,
                    "%s: %s announces %llu rows of %llu, more than a file of %zu bytes can hold",
                    source->path, matrix->name, (unsigned long long)dims[0],
                    (unsigned long long)dims[1], source->bytes);
    matrix->rows = (int64_t)dims[0];
    matrix->columns = (int64_t)dims[1];
    return STATUS_OK;
}

static enum status read_matrix(const struct source *source, struct hdf5_matrix *matrix) {
    H5L_info_t info;
    if (H5Lexists(source->file, matrix->name, H5P_DEFAULT) <= 0)
        return fail(STATUS_DATA, "%s: dataset %s is missing", source->path, matrix->name);
    if (H5Lget_info(source->file, matrix->name, &info, H5P_DEFAULT) < 0 ||
        info.type != H5L_TYPE_HARD)
        return fail(STATUS_DATA, "%s: %s is a link, not a dataset", source->path, matrix->name);
    hid_t set = H5Dopen2(source->file, matrix->name, H5P_DEFAULT);
    if (set < 0) return fail_hdf5(source->path, matrix->name);
    TRY(inspect(source, set, matrix));
    matrix->values = malloc((size_t)(matrix->rows * matrix->columns) * sizeof *matrix->values);
    if (!matrix->values)
        return fail(STATUS_MEMORY, "%s: out of memory: %s", source->path, matrix->name);
    if (H5Dread(set, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, matrix->values) < 0)
        return fail_hdf5(source->path, matrix->name);
    return STATUS_OK;
}

static void send_all(int pipe, const void *data, size_t bytes) {
    for (const char *cursor = data; bytes > 0;) {
        ssize_t sent = write(pipe, cursor, bytes);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) _exit(1); /* nobody listens any more */
        cursor += sent;
        bytes -= (size_t)sent;
    }
}

/* As much as an honest file of this size can ask for: its values, the library's copy of it, and
 * what the library needs for itself. More, and its allocations fail, which it can handle. */
static void limit_memory(size_t bytes) {
    size_t mapped = mem_mapped_bytes(), per_byte = VALUES_PER_BYTE * sizeof(int32_t) + 2;
    if (mapped == 0 || bytes > (SIZE_MAX - mapped - LIBRARY_BYTES) / per_byte) return;
    rlim_t most = mapped + LIBRARY_BYTES + bytes * per_byte;
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur <= most) return;
    limit.rlim_cur = most;
    setrlimit(RLIMIT_AS, &limit);
}

/* A crash here is expected now and then: no core files, no handlers of the parent's. */
static void become_expendable(size_t bytes) {
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU};
    for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++) signal(deadly[i], SIG_DFL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    rlim_t seconds = CPU_LIMIT_S + bytes / CPU_BYTES_PER_S;
    setrlimit(RLIMIT_CPU, &(struct rlimit){seconds, seconds});
    limit_memory(bytes);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* our own messages say it in one line */
    H5PLset_loading_state(0);              /* a file must not name code to load */
}

/* Frees nothing: the process ends right after. */
static void child_main(const char *path, const struct bytes *bytes, struct hdf5_matrix *matrix,
                       int count, int pipe) {
    char text[TEXT_BYTES];
    log_capture(text, sizeof text);
    become_expendable(bytes->count);
    struct source source = {.path = path, .bytes = bytes->count};
    enum status status = open_image(bytes, &source);
    for (int i = 0; i < count && status == STATUS_OK; i++) {
        status = read_matrix(&source, &matrix[i]);
        if (status != STATUS_OK) break;
        send_all(pipe, &(struct frame){STATUS_OK, matrix[i].rows, matrix[i].columns},
                 sizeof(struct frame));
        send_all(pipe, matrix[i].values,
                 (size_t)(matrix[i].rows * matrix[i].columns) * sizeof(int32_t));
    }
    if (status != STATUS_OK) {
        send_all(pipe, &(struct frame){status, (int64_t)strlen(text), 0}, sizeof(struct frame));
        send_all(pipe, text, strlen(text));
    }
}

/* --- this process's side --- */

/* False at an early end: the child is gone. */
static bool receive_all(int pipe, void *data, size_t bytes) {
    for (char *cursor = data; bytes > 0;) {
        ssize_t got = read(pipe, cursor, bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        cursor += got;
        bytes -= (size_t)got;
    }
    return true;
}

/* The child's message already has the prefix; what follows it is said again from here. */
static enum status pass_on(int pipe, const struct frame *frame) {
    static const char prefix[] = "stretto: error: ";
    char text[TEXT_BYTES] = "";
    size_t bytes =
        frame->rows >= 0 && frame->rows < TEXT_BYTES ? (size_t)frame->rows : TEXT_BYTES - 1;
    receive_all(pipe, text, bytes);
    const char *body = strncmp(text, prefix, strlen(prefix)) == 0 ? text + strlen(prefix) : text;
    return fail(frame->status == STATUS_MEMORY ? STATUS_MEMORY : STATUS_DATA, "%s", body);
}

/* STATUS_BUG stands for an early end, which only the child's exit status explains; it is not passed
 * on. */
static enum status receive_matrix(int pipe, const char *path, size_t file_bytes,
                                  struct hdf5_matrix *matrix) {
    struct frame frame;
    if (!receive_all(pipe, &frame, sizeof frame)) return STATUS_BUG;
    if (frame.status != STATUS_OK) return pass_on(pipe, &frame);
    int64_t most = (int64_t)file_bytes * VALUES_PER_BYTE;
    if (frame.rows < 1 || frame.columns < 1 || frame.rows > most ||
        frame.columns > most / frame.rows)
        return fail(STATUS_DATA, "%s: %s cannot be read: the file is damaged", path, matrix->name);
    size_t bytes = (size_t)(frame.rows * frame.columns) * sizeof(int32_t);
    int32_t *values = malloc(bytes);
    if (!values)
        return fail(STATUS_MEMORY, "%s: out of memory: %zu bytes for %s", path, bytes,
                    matrix->name);
    if (!receive_all(pipe, values, bytes)) {
        free(values);
        return STATUS_BUG;
    }
    matrix->rows = frame.rows;
    matrix->columns = frame.columns;
    matrix->values = values;
    return STATUS_OK;
}

static enum status receive(pid_t child, int pipe, const char *path, size_t file_bytes,
                           struct hdf5_matrix *matrix, int count) {
    enum status status = STATUS_OK;
    int done = 0, code = 0;
    while (done < count && status == STATUS_OK) {
        status = receive_matrix(pipe, path, file_bytes, &matrix[done]);
        if (status == STATUS_OK) done++;
    }
    close(pipe); /* a child still writing ends by that */
    while (waitpid(child, &code, 0) < 0 && errno == EINTR) {
    }
    if (status == STATUS_BUG)
        status = fail(
            STATUS_DATA, "%s: %s: the HDF5 library failed on it (%s)\n  the file is damaged", path,
            matrix[done].name, WIFSIGNALED(code) ? strsignal(WTERMSIG(code)) : "early end");
    for (int i = 0; i < done && status != STATUS_OK; i++) {
        free(matrix[i].values);
        matrix[i].values = NULL;
    }
    return status;
}

static enum status start_child(const char *path, const struct bytes *bytes,
                               struct hdf5_matrix *matrix, int count) {
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC) != 0)
        return fail(STATUS_DATA, "%s: no pipe: %s", path, strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        close(pipes[0]);
        child_main(path, bytes, matrix, count, pipes[1]);
        _exit(0);
    }
    close(pipes[1]);
    if (child > 0) return receive(child, pipes[0], path, bytes->count, matrix, count);
    enum status status =
        fail(STATUS_MEMORY, "%s: no process to read it in: %s", path, strerror(errno));
    close(pipes[0]);
    return status;
}

enum status hdf5_read(const char *path, struct hdf5_matrix *matrix, int count) {
    struct bytes bytes;
    TRY(file_read(path, file_limit, &bytes));
    enum status status = bytes.count ? start_child(path, &bytes, matrix, count)
                                     : fail(STATUS_DATA, "%s: empty, expected an HDF5 file", path);
    bytes_free(&bytes);
    return status;
}

void hdf5_version(char *text, size_t bytes) {
    unsigned major = 0, minor = 0, patch = 0;
    H5get_libversion(&major, &minor, &patch);
    snprintf(text, bytes, "HDF5 %u.%u.%u", major, minor, patch);
}
