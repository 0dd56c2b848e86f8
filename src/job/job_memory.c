/* What a run takes of this machine's memory, and whether it fits.
 *
 * The plan knows its own arrays. The rest of a process is found here: what planning took is
 * measured (graphs, kernels and their code exist by then; what kernels would make when the first
 * one runs is made now), what comes when ranks run and meet is two figures of ours, measured once.
 * A model of all of it was tried and dropped: it depends on the instruction set and on the version
 * of the libraries.
 *
 * Ranks at one position of their pipelines are alike; pages of code are there once. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "job/events.h"
#include "job/job.h"
#include "job/probe.h"
#include "plan/resolve.h"
#include "plan/staging.h"

/* What a rank that is one of several processes takes for ZeroMQ, its cryptography and the threads
 * of the control plane. Measured. */
enum { CONTROL_DATA_BYTES = 380 << 10, CONTROL_CODE_BYTES = 900 << 10 };

/* What planning took is measured anew at each start, and is never quite the same: a run fits into
 * what was predicted for it the last time. */
enum { MEASURED_APART_BYTES = 512 << 10 };

static size_t grown(size_t now, size_t before) {
    return now > before ? now - before : 0;
}

/* Ranks as threads have one library together: each has an even part of it in its estimate. oneDNN
 * keeps kernels for all, so that planning a further rank with the same stages takes about two
 * thirds of what the first took. */
static size_t shared_library(const struct job *job, size_t own, size_t once) {
    const struct run_config *config = &job->plan->config;
    size_t again = config->grid.stages == 1 ? own / 3 : 0;
    return own - again + (again + once) / (size_t)config->ranks;
}

static enum status estimate_library(struct job *job) {
    struct mem_parts planned = mem_resident_parts();
    TRY(plan_warm_up(job->plan));
    struct mem_parts now = mem_resident_parts();
    size_t own = grown(planned.own_bytes, job->before.own_bytes) + RUN_DATA_BYTES,
           once = grown(now.own_bytes, planned.own_bytes),
           code = grown(now.file_bytes, job->before.file_bytes) + RUN_CODE_BYTES;
    int ranks = job->plan->config.ranks;
    if (ranks > 1 && !job->threads) own += CONTROL_DATA_BYTES, code += CONTROL_CODE_BYTES;
    if (!job->threads) {
        job->code_bytes = code;
        job->plan->memory.library = own + once + code;
        return STATUS_OK;
    }
    job->plan->memory.library = shared_library(job, own, once + code);
    return STATUS_OK;
}

enum status job_estimate_memory(struct job *job, const struct rank_info *info) {
    struct memory_estimate *estimate = &job->plan->memory;
    struct trace_config trace =
        events_trace_config(job->plan, &job->options, job->plan->config.rank);
    estimate->trace = trace_bytes(&trace);
    if (job->threads) estimate->staging = staging_share_bytes(job->plan);
    if (!info->library_bytes) return estimate_library(job);
    estimate->library = info->library_bytes;
    return STATUS_OK;
}

/* Beside its arrays and kernels a rank takes what this one does. */
static void with_library(const struct job *job, struct memory_estimate *memory) {
    memory->library = job->plan->memory.library;
    memory->trace = job->plan->memory.trace;
}

/* Drivers are alike, and stand behind the positions. */
static int place_of(const struct job *job, int rank) {
    const struct grid *grid = &job->plan->config.grid;
    int position = grid_cell(grid, rank).position;
    return position < 0 ? grid->stages : position;
}

void job_probe_positions(struct job *job, const struct run_config *config,
                         const struct plan_given *given) {
    int stages = config->grid.stages;
    if (stages == 1) return;
    job->position_planning = MEM_ARRAY(size_t, stages);
    probe_positions(config, given, stages, job->position_planning);
}

/* What planning takes of a rank there more than of this one. */
static ptrdiff_t planning_beside(const struct job *job, int position) {
    int own = place_of(job, job->plan->config.rank), stages = job->plan->config.grid.stages;
    const size_t *planning = job->position_planning;
    if (!planning || own >= stages || position >= stages) return 0;
    if (!planning[own] || !planning[position]) return 0;
    return (ptrdiff_t)planning[position] - (ptrdiff_t)planning[own];
}

static enum status estimate_position(struct job *job, int position) {
    const struct grid *grid = &job->plan->config.grid;
    struct memory_estimate *memory = &job->position[position];
    bool staged = position < grid->stages;
    TRY(plan_memory_of(job->plan, staged ? group_rank(grid, GROUP_PIPELINE, 0, position) : 0,
                       memory));
    with_library(job, memory);
    memory->library += (size_t)planning_beside(job, position);
    return STATUS_OK;
}

/* A driver has no arrays: what it takes most of is these plans. */
static void count_planning(struct job *job, int own) {
    size_t planning = grown(mem_peak_bytes(), job->before.own_bytes + job->before.file_bytes);
    if (job->plan->chunk_count > 0 || job->threads || job->to_start) return;
    if (planning > job->plan->memory.library) job->plan->memory.library = planning;
    job->position[own] = job->plan->memory;
}

enum status job_estimate_positions(struct job *job) {
    const struct grid *grid = &job->plan->config.grid;
    int positions = grid->stages + (grid->drivers > 0), own = place_of(job, job->plan->config.rank);
    if (positions == 1) return STATUS_OK;
    job->position = MEM_ARRAY(struct memory_estimate, positions);
    job->position[own] = job->plan->memory;
    for (int p = 0; p < positions; p++)
        if (p != own) TRY(estimate_position(job, p));
    count_planning(job, own);
    return STATUS_OK;
}

size_t job_position_bytes(const struct job *job, int position) {
    return job->position ? memory_sum(&job->position[position]) : plan_bytes(job->plan);
}

size_t job_rank_bytes(const struct job *job, int rank) {
    return job_position_bytes(job, place_of(job, rank));
}

const struct memory_estimate *job_largest(const struct job *job, int *rank) {
    const struct grid *grid = &job->plan->config.grid;
    int most = 0;
    *rank = job->plan->config.rank;
    if (!job->position) return &job->plan->memory;
    for (int p = 1; p < grid->stages; p++) /* drivers need less */
        if (job_position_bytes(job, p) > job_position_bytes(job, most)) most = p;
    *rank = group_rank(grid, GROUP_PIPELINE, 0, most);
    return &job->position[most];
}

size_t job_most_bytes(const struct job *job) {
    int rank;
    return memory_sum(job_largest(job, &rank));
}

/* Of the local rank `index`. */
static size_t local_bytes(const struct job *job, int index) {
    int first = job->first_local > 0 ? job->first_local : 0,
        rank = (first + index) % job->plan->config.ranks;
    return job_rank_bytes(job, rank);
}

/* Ranks of this machine, from the first on. */
size_t job_machine_bytes(const struct job *job) {
    size_t sum = job->code_bytes;
    if (job->met.ranks) return job->met.need_bytes;
    for (int i = 0; i < job->local_ranks; i++) {
        sum += local_bytes(job, i) - job->code_bytes;
        if (job->to_start) sum += job->before.own_bytes;
    }
    return sum;
}

/* Not more than planning counts in the estimate: what else is resident is free inside the process,
 * and nobody else can have it. */
size_t job_taken_bytes(const struct job *job) {
    size_t taken = grown(mem_resident_parts().own_bytes, job->before.own_bytes),
           counted = job->plan->memory.library - job->code_bytes;
    if (job->threads) counted *= (size_t)job->plan->config.ranks;
    return taken < counted ? taken : counted;
}

bool job_fit(const struct job *job, struct job_fit *out) {
    const struct cluster *cluster = job->costs->cluster;
    struct job_fit fit = {.limited = option_is_set(&job->options, OPTION_memory_limit_bytes)};
    size_t apart = fit.limited ? MEASURED_APART_BYTES : 0;
    if (!cluster && !fit.limited) return false;
    for (int r = 0; r < job->plan->config.ranks; r++) {
        size_t need = job_rank_bytes(job, r),
               has = (size_t)(fit.limited ? job->options.memory_limit_bytes
                                          : cluster_memory_bytes(cluster, r));
        ptrdiff_t room = (ptrdiff_t)has - (ptrdiff_t)need;
        fit.lacking += need > has + apart;
        if (r > 0 && room >= (ptrdiff_t)fit.has_bytes - (ptrdiff_t)fit.need_bytes) continue;
        fit.rank = r, fit.need_bytes = need, fit.has_bytes = has;
    }
    fit.fits = fit.lacking == 0;
    if (cluster) fit.class = cluster_class(cluster, fit.rank)->name;
    *out = fit;
    return true;
}

/* What is compared with what: one rank with --memory-limit, whatever the machine has, or the ranks
 * of this machine with what it has; or a rank with its device of a cluster. */
struct comparison {
    bool one;
    size_t need, limit;
    const char *limit_is; /* in words */
    bool cluster;         /* then it is of */
    int rank;
};

/* A rank that is a process answers for itself: the others measure what they take. */
static size_t counted(const struct job *job, bool one) {
    if (!one) return job_machine_bytes(job);
    return job->to_start || job->threads ? job_most_bytes(job) : plan_bytes(job->plan);
}

/* Whether another plan would pass, and what of it is compared. */
static bool fits_with(const struct job *other, const struct comparison *of, size_t *bytes) {
    struct job_fit fit;
    if (of->cluster && job_fit(other, &fit)) return *bytes = fit.need_bytes, fit.fits;
    *bytes = counted(other, of->one);
    return *bytes <= of->limit;
}

/* The smallest division of the micro-batch that fits, or 0. */
static int64_t micro_batches_that_fit(const struct job *job, const struct comparison *of,
                                      size_t *bytes) {
    int64_t per_replica = job->plan->config.batch / job->plan->config.replicas;
    for (int64_t count = job->plan->config.micro_batches + 1; count <= per_replica; count++) {
        if (per_replica % count != 0) continue;
        struct job other = *job;
        struct run_config config = resolve_to_compare(&job->options, &job->plan->config,
                                                      job->plan->config.recompute, (int)count);
        other.position = NULL;
        other.met = (struct job_met){0};
        if (plan_new(&config, NULL, &other.plan) != STATUS_OK) return 0;
        with_library(job, &other.plan->memory);
        enum status status = job_estimate_positions(&other);
        bool fits = status == STATUS_OK && fits_with(&other, of, bytes);
        plan_free(&other.plan);
        free(other.position);
        if (status != STATUS_OK || fits) return fits ? count : 0;
    }
    return 0;
}

/* The rank that is spoken of, where one speaks for all: the one that needs most, or fits least. */
static const struct memory_estimate *estimate_to_report(const struct job *job,
                                                        const struct comparison *of, int *rank) {
    if (of->cluster) {
        *rank = of->rank;
        return job->position ? &job->position[place_of(job, *rank)] : &job->plan->memory;
    }
    if (job->to_start || job->threads) return job_largest(job, rank);
    *rank = job->plan->config.rank;
    return &job->plan->memory;
}

/* Who needs it: "the run", "a rank", "rank 1" where others need less, or "the 8 ranks of this
 * machine". */
static const char *who_needs(const struct job *job, const struct comparison *of,
                             char text[2 * TEXT_BYTES]) {
    int rank;
    if (job->plan->config.ranks == 1) return "the run";
    if (!of->one && job->local_ranks > 1)
        return snprintf(text, 2 * TEXT_BYTES, "the %d ranks of this machine", job->local_ranks),
               text;
    if (!job->position && !of->cluster) return "a rank";
    estimate_to_report(job, of, &rank);
    return snprintf(text, 2 * TEXT_BYTES, "rank %d", rank), text;
}

/* "20 MiB each, ", or from the least to the most where ranks of this machine differ. */
static void bytes_of_each_text(const struct job *job, char text[3 * TEXT_BYTES]) {
    char low[TEXT_BYTES], high[TEXT_BYTES];
    size_t least = job->met.ranks ? job->met.least_bytes : SIZE_MAX, most = job->met.most_bytes;
    for (int i = 0; !job->met.ranks && i < job->local_ranks; i++) {
        size_t bytes = local_bytes(job, i);
        if (bytes < least) least = bytes;
        if (bytes > most) most = bytes;
    }
    text_size((int64_t)least, low), text_size((int64_t)most, high);
    if (strcmp(low, high) == 0)
        snprintf(text, 3 * TEXT_BYTES, "%s each, ", low);
    else
        snprintf(text, 3 * TEXT_BYTES, "%s to %s each, ", low, high);
}

static enum status refuse(const struct job *job, const struct comparison *of) {
    char a[TEXT_BYTES], b[TEXT_BYTES], c[TEXT_BYTES], who[2 * TEXT_BYTES],
        each[3 * TEXT_BYTES] = "";
    char largest[256], hint[192], whose[TEXT_BYTES] = "";
    int rank, own = job->plan->config.rank;
    const struct memory_estimate *estimate = estimate_to_report(job, of, &rank);
    size_t fitting = 0;
    bool forward = job->plan->config.forward;
    int64_t count = forward ? 0 : micro_batches_that_fit(job, of, &fitting);
    snprintf(largest, sizeof largest, "no activations on this rank");
    if (job->plan->chunk_count > 0)
        placement_largest(plan_placement(job->plan, &job->plan->micro[forward], 0, 0), largest,
                          sizeof largest);
    if (rank != own) snprintf(whose, sizeof whose, " of rank %d", own);
    if (!of->one && job->local_ranks > 1) bytes_of_each_text(job, each);
    if (count)
        snprintf(hint, sizeof hint, "--micro-batches %lld would need %s", (long long)count,
                 text_size((int64_t)fitting, b));
    else if (forward)
        snprintf(hint, sizeof hint,
                 "a pipeline has a part of it on each rank: -n 2 --strategy gpipe");
    else
        snprintf(
            hint, sizeof hint,
            "no number of micro-batches would fit: try another --strategy (docs/strategies.md), "
            "a smaller model%s or --batch",
            *each ? ", fewer ranks" : "");
    return fail(STATUS_MEMORY,
                "%s would need %s, %s is %s (%sactivations %s)\n  largest at the peak%s: %s\n  %s",
                who_needs(job, of, who), text_size((int64_t)of->need, a), of->limit_is,
                text_size((int64_t)of->limit, b), each,
                text_size((int64_t)estimate->activations, c), whose, largest, hint);
}

static enum status compare(const struct job *job, bool one, int64_t limit, const char *limit_is) {
    struct comparison of = {
        .one = one, .need = counted(job, one), .limit = (size_t)limit, .limit_is = limit_is};
    if (limit <= 0 || of.need <= of.limit + MEASURED_APART_BYTES) return STATUS_OK;
    return refuse(job, &of);
}

static enum status compare_given(const struct job *job) {
    return compare(job, true, job->options.memory_limit_bytes, "--memory-limit");
}

static enum status compare_cluster(const struct job *job) {
    struct job_fit fit;
    if (!job_fit(job, &fit) || fit.fits) return STATUS_OK;
    char *device =
        mem_format("the memory of its device (%s of %s)", fit.class, job->options.cluster);
    struct comparison of = {.one = true,
                            .need = fit.need_bytes,
                            .limit = fit.has_bytes,
                            .limit_is = device,
                            .cluster = true,
                            .rank = fit.rank};
    enum status status = refuse(job, &of);
    free(device);
    return status;
}

/* Each rank has a device, as far as is known here. */
static enum status compare_device(const struct job *job) {
    struct device *device = job->plan->device;
    size_t peak, all;
    device->backend->memory_bytes(device, &peak, &all);
    return compare(job, true, (int64_t)all, "the memory of its device");
}

enum status job_check_memory(const struct job *job) {
    if (option_is_set(&job->options, OPTION_memory_limit_bytes)) return compare_given(job);
    bool trains = job->options.command == COMMAND_TRAIN; /* on this machine, for a cluster or not */
    if (job->costs->cluster && (!trains || job->costs->simulated)) TRY(compare_cluster(job));
    if (job->costs->cluster && !trains) return STATUS_OK;
    if (job->plan->memory.apart) return compare_device(job);
    return compare(job, false, job->available_bytes, "what is available");
}

/* Ranks at other positions may need less than this one, which does not know. */
enum status job_check_alone(const struct job *job) {
    const struct grid *grid = &job->plan->config.grid;
    bool alike = grid->stages == 1 && grid->drivers == 0;
    if (option_is_set(&job->options, OPTION_memory_limit_bytes)) return compare_given(job);
    if (job->plan->memory.apart) return compare_device(job);
    return compare(job, !alike, job->total_bytes, "the most this machine could have");
}
