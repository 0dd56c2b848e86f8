/* The rows of `stretto doctor`. A new check is a function and a row, or only a row where a table
 * serves. */
#include "cli/doctor.h"
#include "launch/openmp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <isa-l.h>
#include <jansson.h>
#include <yaml.h>
#include <zlib.h>

#include "backend/backend.h"
#include "backend/host.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/text.h"
#include "comm/comm.h"
#include "control/seal.h"
#include "data/dataset.h"
#include "stretto.h"

enum { MIB = 1 << 20 };

/* ---- build ---- */

static void look_version(const struct check *check, struct finding *out) {
    (void)check;
    doctor_say(out, "%s", stretto_version());
}

static void look_compiler(const struct check *check, struct finding *out) {
    (void)check;
#ifdef __clang__
    doctor_say(out, "%s", __VERSION__);
#else
    doctor_say(out, "gcc %s", __VERSION__);
#endif
}

static void look_system(const struct check *check, struct finding *out) {
    (void)check;
    struct utsname name;
    if (uname(&name) == 0) doctor_say(out, "%s %s, %s", name.sysname, name.release, name.machine);
}

static bool has_data_set(const char *name) {
    const struct dataset_ops *ops;
    for (int i = 0; (ops = dataset_at(i)); i++) {
        if (strcmp(ops->name, name) == 0) return !ops->needs;
    }
    return false;
}

/* Parts of the build that may be left out, by what is missing then: the tables of data sets
 * and communicators know it. */
static const struct {
    const char *name, *kind, *what;
    bool (*built)(const char *what);
} parts[] = {
    {"HDF5", "data set", "wiki", has_data_set},
    {"pictures", "data set", "folder", has_data_set},
    {"UCX", "--comm", "ucx", comm_exists},
    {"MPI", "--comm", "mpi", comm_exists},
    {"MUNGE", "key under srun by", "munge", control_seal_exists},
};

static void look_parts(const struct check *check, struct finding *out) {
    (void)check;
    char *at = out->value, *end = out->value + sizeof out->value;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        at += snprintf(at, (size_t)(end - at), "%s%s ", i ? ", " : "", parts[i].name);
        if (parts[i].built(parts[i].what))
            at += snprintf(at, (size_t)(end - at), "built");
        else
            at += snprintf(at, (size_t)(end - at), "left out (no %s %s)", parts[i].kind,
                           parts[i].what);
    }
}

static void look_libraries(const struct check *check, struct finding *out) {
    (void)check;
    const struct dataset_ops *ops;
    doctor_say(out, "zlib %s, jansson %s, libyaml %s, ISA-L %d.%d.%d", zlibVersion(),
               jansson_version_str(), yaml_get_version_string(), ISAL_MAJOR_VERSION,
               ISAL_MINOR_VERSION, ISAL_PATCH_VERSION);
    for (int i = 0; (ops = dataset_at(i)); i++) {
        char library[64];
        size_t used = strlen(out->value);
        if (!ops->library) continue;
        ops->library(library, sizeof library);
        if (strstr(out->value, library)) continue; /* two data sets of one library */
        snprintf(out->value + used, sizeof out->value - used, ", %s", library);
    }
}

/* ---- processor and memory ---- */

static void look_cpu(const struct check *check, struct finding *out) {
    (void)check;
    char text[MACHINE_TEXT_BYTES];
    doctor_say(out, "%s", machine_cpu_name("", text));
}

static void look_cores(const struct check *check, struct finding *out) {
    (void)check;
    struct machine_cores cores = machine_cores("");
    char quota[64] = "no cgroup quota";
    if (cores.quota > 0) snprintf(quota, sizeof quota, "cgroup quota %.3g", cores.quota);
    doctor_say(out, "%d usable: %d online, affinity allows %d, %s", cores.usable, cores.online,
               cores.affinity, quota);
    if (cores.usable < cores.online)
        doctor_judge(out, DOCTOR_OK, "the machine has more, but not for this process");
}

static void look_caches(const struct check *check, struct finding *out) {
    (void)check;
    size_t used = 0;
    for (int level = 1; level <= 3; level++) {
        char text[TEXT_BYTES];
        int64_t bytes = machine_cache_bytes("", level);
        if (bytes == 0) continue;
        used += (size_t)snprintf(out->value + used, sizeof out->value - used, "%sL%d %s",
                                 used ? ", " : "", level, text_size(bytes, text));
    }
    if (used == 0) doctor_say(out, "unknown");
}

static void look_memory(const struct check *check, struct finding *out) {
    (void)check;
    struct machine_memory memory = machine_memory("");
    char usable[TEXT_BYTES], total[TEXT_BYTES], limit[TEXT_BYTES];
    doctor_say(out, "%s usable: %s in the machine, %s%s", text_size(memory.usable_bytes, usable),
               text_size(memory.total_bytes, total),
               memory.limit_bytes ? "cgroup limit " : "no cgroup limit",
               memory.limit_bytes ? text_size(memory.limit_bytes, limit) : "");
    if (memory.total_bytes == 0)
        doctor_judge(out, DOCTOR_WARN,
                     "/proc/meminfo cannot be read: give --memory-limit yourself");
    else if (memory.usable_bytes < 128 * (int64_t)MIB)
        doctor_judge(out, DOCTOR_BAD,
                     "too little for any run: end other programs, or raise the limit");
    else if (memory.usable_bytes < 1024 * (int64_t)MIB)
        doctor_judge(out, DOCTOR_WARN, "enough for small models only");
}

/* ---- limits of the shell ---- */

struct limit {
    int resource;
    rlim_t bad, warn; /* below these */
    int64_t unit;     /* 1: a count; MIB: bytes */
    const char *hint;
};

static void look_limit(const struct check *check, struct finding *out) {
    const struct limit *limit = check->data;
    struct rlimit now;
    char text[TEXT_BYTES];
    if (getrlimit(limit->resource, &now) != 0) {
        doctor_say(out, "unknown");
        return;
    }
    if (now.rlim_cur == RLIM_INFINITY)
        doctor_say(out, "unlimited");
    else
        doctor_say(out, "%s",
                   limit->unit == 1
                       ? (snprintf(text, sizeof text, "%" PRIu64, (uint64_t)now.rlim_cur), text)
                       : text_size((int64_t)now.rlim_cur, text));
    if (now.rlim_cur != RLIM_INFINITY && now.rlim_cur < limit->warn)
        doctor_judge(out, now.rlim_cur < limit->bad ? DOCTOR_BAD : DOCTOR_WARN, "%s", limit->hint);
}

static const struct limit open_files = {RLIMIT_NOFILE, 32, 256, 1, "raise it with: ulimit -n 1024"};
static const struct limit processes = {RLIMIT_NPROC, 8, 64, 1,
                                       "threads count as well; raise it with: ulimit -u"};
static const struct limit file_size = {
    RLIMIT_FSIZE, MIB, 1024u * MIB, MIB,
    "checkpoints may not fit; raise it with: ulimit -f unlimited"};
static const struct limit address_space = {
    RLIMIT_AS, 512u * MIB, 4096u * (rlim_t)MIB, MIB,
    "plans map memory in one piece; raise it with: ulimit -v unlimited"};
static const struct limit stack_size = {RLIMIT_STACK, MIB / 2, MIB, MIB,
                                        "raise it with: ulimit -s 8192"};

/* ---- folders ---- */

struct folder {
    const char *path;
    int64_t bad_bytes, warn_bytes;
    enum doctor_level unwritable;
    const char *hint;
};

static void look_folder(const struct check *check, struct finding *out) {
    const struct folder *folder = check->data;
    struct statvfs info;
    if (statvfs(folder->path, &info) != 0) {
        doctor_say(out, "not there: %s", strerror(errno));
        doctor_judge(out, folder->unwritable, "%s", folder->hint);
        return;
    }
    char text[TEXT_BYTES];
    int64_t free_bytes = (int64_t)info.f_bavail * (int64_t)info.f_frsize;
    bool writable = access(folder->path, W_OK) == 0 && !(info.f_flag & ST_RDONLY);
    doctor_say(out, "%s free%s", text_size(free_bytes, text), writable ? "" : ", not writable");
    if (!writable)
        doctor_judge(out, folder->unwritable, "%s", folder->hint);
    else if (free_bytes < folder->warn_bytes)
        doctor_judge(out, free_bytes < folder->bad_bytes ? DOCTOR_BAD : DOCTOR_WARN, "%s",
                     folder->hint);
}

static const struct folder here = {
    ".", 16 * (int64_t)MIB, 1024 * (int64_t)MIB, DOCTOR_WARN,
    "runs are written to ./runs by default: choose another place with --out"};
static const struct folder shared_memory = {
    "/dev/shm", 0, 256 * (int64_t)MIB, DOCTOR_WARN,
    "MPI and UCX share memory through it; --comm shm needs none"};

/* ---- environment ---- */

struct variable {
    const char *names[2]; /* the second one: an older name or one to the same end, or NULL */
    const char *bad;      /* a value that is judged by itself, or NULL */
    enum doctor_level set, level_bad;
    const char *hint; /* when it is set */
};

static void look_variable(const struct check *check, struct finding *out) {
    const struct variable *variable = check->data;
    const char *name = variable->names[0], *value = getenv(name);
    if (!value && variable->names[1]) name = variable->names[1], value = getenv(name);
    if (!value) {
        doctor_say(out, "not set");
        return;
    }
    char quoted[TEXT_QUOTED_BYTES];
    bool other = name != variable->names[0];
    doctor_say(out, "%s%s%s", other ? name : "", other ? " is " : "", text_quoted(value, quoted));
    bool bad = variable->bad && strcasecmp(value, variable->bad) == 0;
    doctor_judge(out, bad ? variable->level_bad : variable->set, "%s", variable->hint);
}

static const struct variable num_threads = {
    .names = {"OMP_NUM_THREADS"},
    .hint = "it does not count: --threads does, by default usable cores / local ranks"};
static const struct variable max_isa = {
    .names = {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"},
    .set = DOCTOR_WARN,
    .hint = "caps the instruction set: slower, and other bits than without it"};
static const struct variable verbose = {.names = {"ONEDNN_VERBOSE", "DNNL_VERBOSE"},
                                        .bad = "0",
                                        .set = DOCTOR_WARN,
                                        .level_bad = DOCTOR_OK,
                                        .hint = "prints every kernel to standard output: unset it"};

/* Where nobody says how OpenMP's workers wait, the program did so before it came here
 * (launch/openmp.c).
 */
static void look_wait_policy(const struct check *check, struct finding *out) {
    (void)check;
    char quoted[TEXT_QUOTED_BYTES];
    const char *policy = getenv("OMP_WAIT_POLICY"), *spins = getenv("GOMP_SPINCOUNT");
    if (policy) {
        doctor_say(out, "%s", text_quoted(policy, quoted));
        doctor_judge(out, DOCTOR_OK,
                     "active waiting pays only while there are no more threads than cores");
    } else if (spins) {
        doctor_say(out, "not set; GOMP_SPINCOUNT is %s", text_quoted(spins, quoted));
        doctor_judge(out, DOCTOR_OK,
                     "workers spin so often, then sleep, whether others want the cores or not");
    } else {
        doctor_say(out, "not set");
        doctor_judge(out, DOCTOR_OK, "workers spin while no one else wants their cores");
    }
}

/* All variables that bind threads, in one row: one of them is enough. */
static void look_binding(const struct check *check, struct finding *out) {
    (void)check;
    bool bound = false;
    for (int i = 0; openmp_binding[i]; i++) {
        const char *value = getenv(openmp_binding[i]), *aside = openmp_aside(openmp_binding[i]);
        char quoted[TEXT_QUOTED_BYTES];
        size_t used = strlen(out->value);
        if (!value && !aside) continue;
        bound |= value != NULL;
        snprintf(out->value + used, sizeof out->value - used, "%s%s is %s", used ? ", " : "",
                 openmp_binding[i], text_quoted(value ? value : aside, quoted));
    }
    if (bound)
        doctor_judge(
            out, DOCTOR_WARN,
            "OpenMP ties each thread to one core; other threads share the first: unset it");
    else if (out->value[0])
        doctor_judge(out, DOCTOR_OK,
                     "set aside: the threads of a rank use all cores that the rank was given");
    else
        doctor_say(out, "not set, nor another variable that binds threads");
}

static void look_thread_limit(const struct check *check, struct finding *out) {
    (void)check;
    const char *value = getenv("OMP_THREAD_LIMIT");
    if (!value) {
        doctor_say(out, "not set");
        return;
    }
    char quoted[TEXT_QUOTED_BYTES];
    struct cores_share share;
    doctor_rank_share(&share);
    int threads = cores_threads(&share);
    long limit = strtol(value, NULL, 10);
    doctor_say(out, "%s", text_quoted(value, quoted));
    if (limit > 0 && limit < threads)
        doctor_judge(out, DOCTOR_BAD,
                     "below the %d threads a run would use: unset it, or give --threads %ld",
                     threads, limit);
}

/* ---- devices ---- */

void doctor_look_device(const struct check *check, struct finding *out) {
    SCOPED(device_close) struct device *device = NULL;
    const char *name = check->data;
    struct cores_share share;
    doctor_rank_share(&share);
    bool optional = !host_has_memory_of(backend_find(name)); /* a device that a machine may lack */
    char said[512] = "";
    if (optional) log_capture(said, sizeof said);
    enum status status = device_open(name, 0, cores_threads(&share), &device);
    if (optional) log_capture(NULL, 0);
    if (status != STATUS_OK) {
        doctor_say(out, optional ? "not on this machine" : "cannot be opened");
        if (!optional)
            doctor_judge(out, DOCTOR_BAD, "--device %s would fail with the message above", name);
        return;
    }
    device->backend->describe(device, out->value, sizeof out->value);
}

void doctor_look_part(const struct check *check, struct finding *out) {
    const struct doctor_part *part = check->data;
    const char *name;
    part->backend->part(part->index, &name, out->value, sizeof out->value);
}

const struct check doctor_checks[] = {
    {"build", "version", look_version, NULL},
    {"build", "compiler", look_compiler, NULL},
    {"build", "optional parts", look_parts, NULL},
    {"build", "libraries", look_libraries, NULL},
    {"machine", "system", look_system, NULL},
    {"machine", "processor", look_cpu, NULL},
    {"machine", "cores", look_cores, NULL},
    {"machine", "caches", look_caches, NULL},
    {"machine", "instruction set", doctor_look_isa, NULL},
    {"machine", "memory", look_memory, NULL},
    {"folders", "this folder", look_folder, &here},
    {"folders", "/dev/shm", look_folder, &shared_memory},
    {"limits", "open files", look_limit, &open_files},
    {"limits", "processes", look_limit, &processes},
    {"limits", "file size", look_limit, &file_size},
    {"limits", "address space", look_limit, &address_space},
    {"limits", "stack", look_limit, &stack_size},
    {"ranks", "rank", doctor_look_identity, NULL},
    {"ranks", "cores a rank", doctor_look_rank_cores, NULL},
    {"ranks", "rendezvous", doctor_look_rendezvous, NULL},
    {"ranks", "host name", doctor_look_host, NULL},
    {"ranks", "network", doctor_look_network, NULL},
    {"ranks", "Slurm", doctor_look_slurm, NULL},
    {"environment", "OMP_NUM_THREADS", look_variable, &num_threads},
    {"environment", "OMP_PROC_BIND", look_binding, NULL},
    {"environment", "OMP_THREAD_LIMIT", look_thread_limit, NULL},
    {"environment", "OMP_WAIT_POLICY", look_wait_policy, NULL},
    {"environment", "ONEDNN_MAX_CPU_ISA", look_variable, &max_isa},
    {"environment", "ONEDNN_VERBOSE", look_variable, &verbose},
};
const int doctor_check_count = sizeof doctor_checks / sizeof doctor_checks[0];
