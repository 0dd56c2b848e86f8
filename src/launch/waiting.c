/* See waiting.h. */
#include "launch/waiting.h"

#include <dirent.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

static const int64_t window_ns = 100 * 1000 * 1000;
static const int64_t pause_least_ns = INT64_C(1000) * 1000 * 1000;
static const int64_t pause_most_ns = INT64_C(16000) * 1000 * 1000;

struct waiting {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ends;
    int team; /* that lets workers sleep */
};

/* --- who stands in line --- */

static int64_t delayed_of(const char *task) {
    char path[64];
    int64_t ran, delayed;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/schedstat", task);
    FILE *file = fopen(path, "re");
    if (!file) return -1;
    int count = fscanf(file, "%" SCNd64 " %" SCNd64, &ran, &delayed);
    fclose(file);
    return count == 2 ? delayed : -1;
}

/* So long all threads of this process have stood in line since they began; -1: unknown. */
static int64_t delayed_ns(void) {
    int64_t sum = -1;
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks) return -1;
    for (struct dirent *one; (one = readdir(tasks));) {
        int64_t delayed = one->d_name[0] == '.' ? -1 : delayed_of(one->d_name);
        if (delayed >= 0) sum = (sum < 0 ? 0 : sum) + delayed;
    }
    closedir(tasks);
    return sum;
}

/* A build by clang computes on libomp, which has another rule, and keeps threads that are given
 * back. */
static bool is_libgomp(void) {
    return dlsym(RTLD_DEFAULT, "__kmpc_fork_call") == NULL;
}

bool waiting_is_watched(void) {
    return is_libgomp() && access("/proc/self/schedstat", R_OK) == 0;
}

/* --- what follows --- */

void waiting_judge(struct waiting_rule *rule, int64_t window, int64_t delayed_ns) {
    bool busy = !rule->sleeps && delayed_ns > window / 4;
    if (busy) {
        rule->pause_ns = rule->pause_ns ? 2 * rule->pause_ns : pause_least_ns;
        if (rule->pause_ns > pause_most_ns) rule->pause_ns = pause_most_ns;
    } else if (!rule->sleeps)
        rule->pause_ns = 0;
    rule->sleeps = busy;
}

int waiting_team(int cores, int ranks, int threads) {
    int counted = 1 + ranks * (threads - 1), missing = cores + 1 - counted;
    return 1 + (missing > 1 ? missing : 1);
}

static void *wait_at_gate(void *gate) {
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* Whether so many threads can be there at once. */
static bool can_start(int count) {
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    SCOPED_FREE pthread_t *threads = MEM_ARRAY(pthread_t, count);
    int started = 0;
    pthread_mutex_lock(&gate);
    while (started < count && thread_try(&threads[started], wait_at_gate, &gate) == 0) started++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    return started == count;
}

bool waiting_set_team(int threads) {
    if (threads <= 1) {
        omp_pause_resource(omp_pause_soft, omp_get_initial_device());
        return true;
    }
    if (!can_start(threads - 1)) return false;
#pragma omp parallel num_threads(threads)
    { __asm__ volatile(""); /* an empty region would be left out */ }
    return true;
}

/* Whether the watch goes on after so long. */
static bool rest(struct waiting *waiting, int64_t ns) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)((until.tv_nsec + ns) / 1000000000);
    until.tv_nsec = (until.tv_nsec + ns) % 1000000000;
    pthread_mutex_lock(&waiting->lock);
    while (!waiting->ends && pthread_cond_timedwait(&waiting->changed, &waiting->lock, &until) == 0)
        continue;
    bool goes_on = !waiting->ends;
    pthread_mutex_unlock(&waiting->lock);
    return goes_on;
}

static void *watch(void *argument) {
    struct waiting *waiting = argument;
    struct waiting_rule rule = {0};
    int64_t since_ns = clock_ns(), before = delayed_ns();
    while (rest(waiting, rule.sleeps ? rule.pause_ns : window_ns)) {
        bool slept = rule.sleeps;
        int64_t delayed = delayed_ns(), now_ns = clock_ns();
        waiting_judge(&rule, now_ns - since_ns, delayed - before);
        if (rule.sleeps != slept) waiting_set_team(rule.sleeps ? waiting->team : 0);
        since_ns = now_ns, before = delayed;
    }
    waiting_set_team(0);
    return NULL;
}

struct waiting *waiting_new(int ranks, int threads) {
    if (threads < 2 || getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return NULL;
    if (!waiting_is_watched()) return NULL;
    struct waiting *waiting = MEM_NEW(struct waiting);
    waiting->team = waiting_team(omp_get_num_procs(), ranks, threads);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&waiting->lock, NULL);
    pthread_cond_init(&waiting->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (thread_try(&waiting->thread, watch, waiting) == 0) return waiting;
    free(waiting);
    return NULL;
}

void waiting_free(struct waiting **waiting) {
    struct waiting *one = *waiting;
    if (!one) return;
    pthread_mutex_lock(&one->lock);
    one->ends = true;
    pthread_cond_signal(&one->changed);
    pthread_mutex_unlock(&one->lock);
    pthread_join(one->thread, NULL);
    pthread_cond_destroy(&one->changed);
    pthread_mutex_destroy(&one->lock);
    free(one);
    *waiting = NULL;
}
