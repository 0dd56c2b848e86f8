/* See library.h. */
#include "backend/cuda/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

#define CUDA_TEXT_OF(x) #x
#define CUDA_TEXT(x) CUDA_TEXT_OF(x)

static const struct {
    const char *name, *file;
    int oldest;
    const char *package;
} libraries[] = {
#define LIBRARY(NAME, name, file, oldest, package) {name, file, oldest, package},
#include "backend/cuda/libraries.def"
#undef LIBRARY
};

struct cuda_calls cuda_call;

static struct {
    pthread_mutex_t lock;
    void *handle[CUDA_LIBRARY_COUNT];
    char *path[CUDA_LIBRARY_COUNT];
    bool ready[CUDA_LIBRARY_COUNT]; /* its calls are found */
} opened = {.lock = PTHREAD_MUTEX_INITIALIZER};

const char *cuda_library_name(enum cuda_library library) {
    return libraries[library].name;
}

const char *cuda_library_path(enum cuda_library library) {
    return opened.path[library];
}

/* --- versions --- */

static int version_of(enum cuda_library library) {
    int version = 0;
    switch (library) {
    case CUDA_LIBRARY_DRIVER: cuda_call.cuDriverGetVersion(&version); break;
    case CUDA_LIBRARY_CUBLASLT: version = (int)cuda_call.cublasLtGetVersion(); break;
    case CUDA_LIBRARY_CUDNN: version = (int)cuda_call.cudnnGetVersion(); break;
    case CUDA_LIBRARY_NCCL: cuda_call.ncclGetVersion(&version); break;
    default: break;
    }
    return version;
}

static void version_text(enum cuda_library library, int version, char *text, size_t bytes) {
    int major = version / 10000, minor = version / 100 % 100, patch = version % 100;
    if (library == CUDA_LIBRARY_DRIVER)
        snprintf(text, bytes, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    else
        snprintf(text, bytes, "%d.%d.%d", major, minor, patch);
}

void cuda_library_version(enum cuda_library library, char *text, size_t bytes) {
    snprintf(text, bytes, "not open");
    if (!opened.ready[library]) return;
    if (library != CUDA_LIBRARY_NVML)
        version_text(library, version_of(library), text, bytes);
    else if (cuda_call.nvmlInit_v2() != 0 ||
             cuda_call.nvmlSystemGetDriverVersion(text, (unsigned)bytes) != 0)
        snprintf(text, bytes, "does not answer");
}

/* --- places --- */

enum { PLACES = 64 };

struct places {
    char *path[PLACES]; /* of files that are there, each once; owned */
    int count;
};

static void add_matches(struct places *places, const char *pattern) {
    glob_t found = {0};
    if (glob(pattern, GLOB_TILDE | GLOB_BRACE, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc && places->count < PLACES; i++) {
            char *real = realpath(found.gl_pathv[i], NULL);
            bool known = !real;
            for (int k = 0; k < places->count; k++)
                known = known || strcmp(places->path[k], real) == 0;
            if (known)
                free(real);
            else
                places->path[places->count++] = real;
        }
    globfree(&found);
}

/* Where else a library may lie. */
static const char *const folders[] = {"/usr/local/cuda/lib64", "/usr/local/cuda-*/lib64",
                                      "/usr/lib/x86_64-linux-gnu", "/usr/lib/wsl/lib"};
static const char *const pythons[] = {"~/.local", "/usr/local", "/usr"};

/* A Python environment: pip's packages are in nvidia/NAME, or in nvidia/cu13 all together. */
static void find_in_python(const char *prefix, const char *package, const char *file,
                           struct places *out) {
    char pattern[2048];
    snprintf(pattern, sizeof pattern,
             "%.1000s/lib/python3*/{site,dist}-packages/nvidia/{%s,cu1?}/lib/%s", prefix, package,
             file);
    add_matches(out, pattern);
}

/* The environment of the python3 that a shell would run. */
static void find_on_path(const char *package, const char *file, struct places *out) {
    const char *path = getenv("PATH");
    for (const char *at = path; at && *at; at += strcspn(at, ":"), at += *at == ':') {
        char prefix[1024];
        int length = (int)strcspn(at, ":");
        snprintf(prefix, sizeof prefix, "%.*s/python3", length, at);
        if (access(prefix, X_OK) != 0) continue;
        snprintf(prefix, sizeof prefix, "%.*s/..", length, at);
        find_in_python(prefix, package, file, out);
        return;
    }
}

static void find_places(enum cuda_library library, struct places *out) {
    const char *file = libraries[library].file, *package = libraries[library].package;
    const char *home = getenv("CUDA_HOME"), *venv = getenv("VIRTUAL_ENV");
    char pattern[1024];
    snprintf(pattern, sizeof pattern, "%.900s/lib64/%s", home ? home : "/usr/local/cuda", file);
    add_matches(out, pattern);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(pattern, sizeof pattern, "%s/%s", folders[i], file);
        add_matches(out, pattern);
    }
    if (!package) return;
    if (venv) find_in_python(venv, package, file, out);
    find_on_path(package, file, out);
    for (size_t i = 0; i < sizeof pythons / sizeof *pythons; i++)
        find_in_python(pythons[i], package, file, out);
}

static void free_places(struct places *places) {
    for (int i = 0; i < places->count; i++) free(places->path[i]);
}

/* --- opening --- */

static enum status fail_absent(enum cuda_library library, const char *why) {
    const char *package = libraries[library].package;
    return fail(STATUS_USAGE,
                "--device cuda needs %s: %s\n"
                "  looked for by the loader, in CUDA_HOME, /usr/local/cuda*/lib64%s%s%s\n"
                "  LD_LIBRARY_PATH can name its folder; or --device cpu",
                libraries[library].name, why, package ? ", nvidia/" : ", /usr/lib/wsl/lib",
                package ? package : "", package ? " of Python's packages" : "");
}

/* What cudnnGetVersion of this file says, 0: nothing. Asked in a child: cuDNN opens parts of itself
 * by name, so that a second one in the same process would answer with the parts of the first. */
static size_t file_version(const char *path) {
    size_t version = 0;
    int ends[2];
    if (pipe(ends) != 0) return 0;
    pid_t child = fork();
    if (child == 0) {
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        void *found = handle ? dlsym(handle, "cudnnGetVersion") : NULL;
        size_t (*get)(void) = NULL;
        memcpy(&get, &found, sizeof get);
        if (get) version = get();
        _exit(write(ends[1], &version, sizeof version) != sizeof version);
    }
    close(ends[1]);
    if (child > 0) {
        if (read(ends[0], &version, sizeof version) != sizeof version) version = 0;
        waitpid(child, NULL, 0);
    }
    close(ends[0]);
    return version;
}

/* Of several cuDNN the newest: an older one beside a newer toolkit is common, and lacks engines. */
static const char *choose(enum cuda_library library, const struct places *places) {
    if (library != CUDA_LIBRARY_CUDNN) return places->count ? places->path[0] : NULL;
    const char *best = NULL;
    size_t newest = places->count ? file_version(libraries[library].file) : 0;
    for (int i = 0; i < places->count; i++) {
        size_t version = file_version(places->path[i]);
        if (version <= newest) continue;
        newest = version;
        best = places->path[i];
    }
    return best;
}

static char *path_of(void *handle, const char *call, const char *otherwise) {
    Dl_info info;
    void *address = dlsym(handle, call);
    if (address && dladdr(address, &info) && info.dli_fname) return mem_text(info.dli_fname);
    return mem_text(otherwise);
}

static enum status open_file(enum cuda_library library) {
    const char *file = libraries[library].file;
    struct places places = {0};
    find_places(library, &places);
    const char *chosen = choose(library, &places);
    bool first = library != CUDA_LIBRARY_CUDNN || !chosen;
    void *handle = first ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
    char why[512] = "";
    if (!handle && first) snprintf(why, sizeof why, "%s", dlerror());
    if (!handle && chosen) handle = dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    if (!handle && chosen) snprintf(why, sizeof why, "%s", dlerror());
    opened.handle[library] = handle;
    free_places(&places);
    return handle ? STATUS_OK : fail_absent(library, why);
}

static enum status find_call(enum cuda_library library, const char *name, void *out) {
    void *found = dlsym(opened.handle[library], name);
    if (!found) {
        char why[128];
        snprintf(why, sizeof why, "%s has no %s, it is too old", libraries[library].file, name);
        return fail_absent(library, why);
    }
    memcpy(out, &found, sizeof found);
    if (!opened.path[library])
        opened.path[library] = path_of(opened.handle[library], name, libraries[library].file);
    return STATUS_OK;
}

static enum status find_calls(enum cuda_library library) {
#define CALL(of, name)                                                                             \
    if (CUDA_LIBRARY_##of == library) TRY(find_call(library, CUDA_TEXT(name), &cuda_call.name));
#include "backend/cuda/calls.def"
#undef CALL
    return STATUS_OK;
}

static enum status check_version(enum cuda_library library) {
    char have[64], need[64];
    int version = version_of(library), oldest = libraries[library].oldest;
    if (version >= oldest) return STATUS_OK;
    version_text(library, version, have, sizeof have);
    version_text(library, oldest, need, sizeof need);
    return fail(STATUS_USAGE,
                "--device cuda needs %s, %s or newer; this is %s\n"
                "  %s\n  install a newer one, or --device cpu",
                libraries[library].name, need, have, opened.path[library]);
}

static enum status open_locked(enum cuda_library library) {
    if (opened.ready[library]) return STATUS_OK;
    if (!opened.handle[library]) TRY(open_file(library));
    TRY(find_calls(library));
    TRY(check_version(library));
    opened.ready[library] = true;
    return STATUS_OK;
}

enum status cuda_library_open(enum cuda_library library) {
    pthread_mutex_lock(&opened.lock);
    enum status status = open_locked(library);
    pthread_mutex_unlock(&opened.lock);
    return status;
}
