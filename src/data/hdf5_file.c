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

/* Before the values of an array, or, with a status other than OK, before an error text of
 * `text_bytes`. */
struct frame {
    int64_t status, text_bytes, there;
    enum dtype dtype;
    struct shape shape;
};

static size_t values_bytes(enum dtype dtype, const struct shape *shape) {
    return (size_t)shape_count(shape) * dtype_bytes(dtype);
}

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

/* More values than this the file cannot hold. */
static bool is_possible(const struct shape *shape, size_t file_bytes) {
    int64_t most = (int64_t)file_bytes * VALUES_PER_BYTE;
    if (shape->rank < 1 || shape->rank > SHAPE_MAX_RANK) return false;
    for (int d = 0; d < shape->rank; d++) {
        if (shape->dim[d] < 1 || shape->dim[d] > most) return false;
        most /= shape->dim[d];
    }
    return true;
}

static enum status inspect_shape(const struct source *source, hid_t space,
                                 struct hdf5_array *array) {
    hsize_t dims[H5S_MAX_RANK] = {0};
    char text[SHAPE_TEXT_BYTES];
    int rank = H5Sget_simple_extent_ndims(space);
    if (rank < 0) return fail_hdf5(source->path, array->name);
    if (rank < array->rank_least || rank > array->rank_most)
        return fail(STATUS_DATA, "%s: %s has %d dimensions, expected %d%s%.0d", source->path,
                    array->name, rank, array->rank_least,
                    array->rank_most > array->rank_least ? " to " : "",
                    array->rank_most > array->rank_least ? array->rank_most : 0);
    H5Sget_simple_extent_dims(space, dims, NULL);
    array->shape = (struct shape){.rank = rank};
    for (int d = 0; d < rank; d++)
        array->shape.dim[d] = dims[d] > INT64_MAX ? INT64_MAX : (int64_t)dims[d];
    for (int d = 0; d < rank; d++)
        if (dims[d] == 0)
            return fail(STATUS_DATA, "%s: %s is empty: shape %s", source->path, array->name,
                        shape_text(&array->shape, text));
    if (is_possible(&array->shape, source->bytes)) return STATUS_OK;
    return fail(STATUS_DATA,
                "%s: %s announces the shape %s, more than a file of %zu bytes can hold",
                source->path, array->name, shape_text(&array->shape, text), source->bytes);
}

/* Type, shape and place of the values; those must lie in this very file. */
static enum status inspect(const struct source *source, hid_t set, struct hdf5_array *array) {
    hid_t space = H5Dget_space(set), type = H5Dget_type(set), plan = H5Dget_create_plist(set);
    if (type < 0 || plan < 0 || space < 0) return fail_hdf5(source->path, array->name);
    TRY(inspect_shape(source, space, array));
    H5T_class_t class = H5Tget_class(type);
    bool numbers = array->kind == HDF5_NUMBERS;
    if (class != H5T_INTEGER && !(numbers && class == H5T_FLOAT))
        return fail(STATUS_DATA, "%s: %s does not hold %s%-s%-s", source->path, array->name,
                    numbers ? "numbers" : "integers", array->type_hint ? "\n  " : "",
                    array->type_hint ? array->type_hint : "");
    if (H5Pget_layout(plan) == H5D_VIRTUAL || H5Pget_external_count(plan) != 0)
        return fail(STATUS_DATA, "%s: %s keeps its values in another file", source->path,
                    array->name);
    bool bytes =
        class == H5T_INTEGER && H5Tget_size(type) == 1 && H5Tget_sign(type) == H5T_SGN_NONE;
    array->dtype = !numbers ? DTYPE_I32 : bytes ? DTYPE_U8 : DTYPE_F32;
    return STATUS_OK;
}

/* Every part of "group/x" must be in this file: a link could lead into another one. */
static enum status find_links(const struct source *source, const char *name, bool *there) {
    char *path = mem_text(name);
    enum status status = STATUS_OK;
    *there = true;
    for (char *slash = path; slash && *there && status == STATUS_OK;) {
        H5L_info_t info;
        slash = strchr(slash, '/');
        if (slash) *slash = 0;
        *there = *path == 0 || H5Lexists(source->file, path, H5P_DEFAULT) > 0;
        if (*there && *path &&
            (H5Lget_info(source->file, path, &info, H5P_DEFAULT) < 0 || info.type != H5L_TYPE_HARD))
            status = fail(STATUS_DATA, "%s: %s is a link, not a dataset", source->path, path);
        if (slash) *slash++ = '/';
    }
    free(path);
    return status;
}

/* Datasets that are there, for who named another. */
struct listing {
    char text[320];
    size_t used;
};

static herr_t list_one(hid_t group, const char *name, const H5L_info_t *info, void *context) {
    struct listing *listing = context;
    size_t room = sizeof listing->text - listing->used;
    if (info->type != H5L_TYPE_HARD) return 0;
    hid_t object = H5Oopen(group, name, H5P_DEFAULT);
    bool dataset = object >= 0 && H5Iget_type(object) == H5I_DATASET;
    if (object >= 0) H5Oclose(object);
    if (!dataset) return 0;
    bool fits = strlen(name) + sizeof ", ..." < room;
    listing->used += (size_t)snprintf(listing->text + listing->used, room, "%s%s",
                                      listing->used ? ", " : "", fits ? name : "...");
    return !fits; /* ends it */
}

static enum status fail_missing(const struct source *source, const struct hdf5_array *array) {
    struct listing listing = {.text = ""};
    H5Lvisit(source->file, H5_INDEX_NAME, H5_ITER_INC, list_one, &listing);
    return fail(STATUS_DATA, "%s: dataset %s is missing; it has %s%s%-s%-s", source->path,
                array->name, listing.used ? "" : "none", listing.text, array->hint ? "\n  " : "",
                array->hint ? array->hint : "");
}

static enum status read_array(const struct source *source, struct hdf5_array *array, bool *there) {
    TRY(find_links(source, array->name, there));
    if (!*there && array->optional) return STATUS_OK;
    if (!*there) return fail_missing(source, array);
    hid_t set = H5Dopen2(source->file, array->name, H5P_DEFAULT);
    if (set < 0) return fail_hdf5(source->path, array->name);
    TRY(inspect(source, set, array));
    hid_t type = array->dtype == DTYPE_I32   ? H5T_NATIVE_INT32
                 : array->dtype == DTYPE_F32 ? H5T_NATIVE_FLOAT
                                             : H5T_NATIVE_UINT8;
    array->values = malloc(values_bytes(array->dtype, &array->shape));
    if (!array->values)
        return fail(STATUS_MEMORY, "%s: out of memory: %s", source->path, array->name);
    if (H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, array->values) < 0)
        return fail_hdf5(source->path, array->name);
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
static void child_main(const char *path, const struct bytes *bytes, struct hdf5_array *array,
                       int count, int pipe) {
    char text[TEXT_BYTES];
    log_capture(text, sizeof text);
    become_expendable(bytes->count);
    struct source source = {.path = path, .bytes = bytes->count};
    enum status status = open_image(bytes, &source);
    for (int i = 0; i < count && status == STATUS_OK; i++) {
        bool there;
        status = read_array(&source, &array[i], &there);
        if (status != STATUS_OK) break;
        struct frame frame = {.there = there, .dtype = array[i].dtype, .shape = array[i].shape};
        send_all(pipe, &frame, sizeof frame);
        if (there) send_all(pipe, array[i].values, values_bytes(array[i].dtype, &array[i].shape));
    }
    if (status != STATUS_OK) {
        struct frame frame = {.status = status, .text_bytes = (int64_t)strlen(text)};
        send_all(pipe, &frame, sizeof frame);
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
    size_t bytes = frame->text_bytes >= 0 && frame->text_bytes < TEXT_BYTES
                       ? (size_t)frame->text_bytes
                       : TEXT_BYTES - 1;
    receive_all(pipe, text, bytes);
    const char *body = strncmp(text, prefix, strlen(prefix)) == 0 ? text + strlen(prefix) : text;
    return fail(frame->status == STATUS_MEMORY ? STATUS_MEMORY : STATUS_DATA, "%-s", body);
}

/* STATUS_BUG stands for an early end, which only the child's exit status explains; it is not passed
 * on. */
static enum status receive_array(int pipe, const char *path, size_t file_bytes,
                                 struct hdf5_array *array) {
    struct frame frame;
    if (!receive_all(pipe, &frame, sizeof frame)) return STATUS_BUG;
    if (frame.status != STATUS_OK) return pass_on(pipe, &frame);
    if (!frame.there && array->optional) return STATUS_OK;
    if (!is_possible(&frame.shape, file_bytes) ||
        (frame.dtype != DTYPE_I32 && frame.dtype != DTYPE_F32 && frame.dtype != DTYPE_U8))
        return fail(STATUS_DATA, "%s: %s cannot be read: the file is damaged", path, array->name);
    size_t bytes = values_bytes(frame.dtype, &frame.shape);
    void *values = malloc(bytes);
    if (!values)
        return fail(STATUS_MEMORY, "%s: out of memory: %zu bytes for %s", path, bytes, array->name);
    if (!receive_all(pipe, values, bytes)) {
        free(values);
        return STATUS_BUG;
    }
    array->dtype = frame.dtype;
    array->shape = frame.shape;
    array->values = values;
    return STATUS_OK;
}

static enum status receive(pid_t child, int pipe, const char *path, size_t file_bytes,
                           struct hdf5_array *array, int count) {
    enum status status = STATUS_OK;
    int done = 0, code = 0;
    while (done < count && status == STATUS_OK) {
        status = receive_array(pipe, path, file_bytes, &array[done]);
        if (status == STATUS_OK) done++;
    }
    close(pipe); /* a child still writing ends by that */
    while (waitpid(child, &code, 0) < 0 && errno == EINTR) {
    }
    if (status == STATUS_BUG)
        status = fail(
            STATUS_DATA, "%s: %s: the HDF5 library failed on it (%s)\n  the file is damaged", path,
            array[done].name, WIFSIGNALED(code) ? strsignal(WTERMSIG(code)) : "early end");
    for (int i = 0; i < done && status != STATUS_OK; i++) {
        free(array[i].values);
        array[i].values = NULL;
    }
    return status;
}

static enum status start_child(const char *path, const struct bytes *bytes,
                               struct hdf5_array *array, int count) {
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC) != 0)
        return fail(STATUS_DATA, "%s: no pipe: %s", path, strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        close(pipes[0]);
        child_main(path, bytes, array, count, pipes[1]);
        _exit(0);
    }
    close(pipes[1]);
    if (child > 0) return receive(child, pipes[0], path, bytes->count, array, count);
    enum status status =
        fail(STATUS_MEMORY, "%s: no process to read it in: %s", path, strerror(errno));
    close(pipes[0]);
    return status;
}

enum status hdf5_read(const char *path, struct hdf5_array *array, int count) {
    SCOPED(bytes_free) struct bytes bytes = {0};
    TRY(file_read(path, file_limit, &bytes));
    return bytes.count ? start_child(path, &bytes, array, count)
                       : fail(STATUS_DATA, "%s: empty, expected an HDF5 file", path);
}

void hdf5_version(char *text, size_t bytes) {
    unsigned major = 0, minor = 0, patch = 0;
    H5get_libversion(&major, &minor, &patch);
    snprintf(text, bytes, "HDF5 %u.%u.%u", major, minor, patch);
}
