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
#include "plan/resolve.h"
#include "plan/staging.h"
#include "planned/events.h"
#include "planned/planned.h"
#include "planned/probe.h"

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
static size_t shared_library(const struct planned_run *planned, size_t own, size_t once) {
    const struct run_config *config = &planned->plan->config;
    size_t again = config->grid.stages == 1 ? own / 3 : 0;
    return own - again + (again + once) / (size_t)config->ranks;
}

static enum status estimate_library(struct planned_run *planned) {
    struct mem_parts after = mem_resident_parts();
    TRY(plan_warm_up(planned->plan));
    struct mem_parts now = mem_resident_parts();
    size_t own = grown(after.own_bytes, planned->before.own_bytes) + RUN_DATA_BYTES,
           once = grown(now.own_bytes, after.own_bytes),
           code = grown(now.file_bytes, planned->before.file_bytes) + RUN_CODE_BYTES;
    int ranks = planned->plan->config.ranks;
    if (ranks > 1 && !planned->threads) own += CONTROL_DATA_BYTES, code += CONTROL_CODE_BYTES;
    if (!planned->threads) {
        planned->code_bytes = code;
        planned->plan->memory.library = own + once + code;
        return STATUS_OK;
    }
    planned->plan->memory.library = shared_library(planned, own, once + code);
    return STATUS_OK;
}

enum status planned_estimate_memory(struct planned_run *planned, const struct rank_info *info) {
    struct memory_estimate *estimate = &planned->plan->memory;
    struct trace_config trace =
        events_trace_config(planned->plan, &planned->options, planned->plan->config.rank);
    estimate->trace = trace_bytes(&trace);
    if (planned->threads) estimate->staging = staging_share_bytes(planned->plan);
    if (planned->threads) estimate->device_library /= (size_t)planned->plan->config.ranks;
    if (!info->library_bytes) return estimate_library(planned);
    estimate->library = info->library_bytes;
    return STATUS_OK;
}

/* Beside its arrays and kernels a rank takes what this one does. */
static void with_library(const struct planned_run *planned, struct memory_estimate *memory) {
    memory->library = planned->plan->memory.library;
    memory->trace = planned->plan->memory.trace;
    memory->transition = planned->plan->memory.transition;
}

/* Drivers are alike, and stand behind the positions. */
static int place_of(const struct planned_run *planned, int rank) {
    const struct grid *grid = &planned->plan->config.grid;
    int position = grid_cell(grid, rank).position;
    return position < 0 ? grid->stages : position;
}

void planned_probe_positions(struct planned_run *planned, const struct run_config *config,
                             const struct plan_given *given) {
    int stages = config->grid.stages;
    if (stages == 1 || backend_find(config->device)->apart) return; /* its own memory counts */
    planned->position_planning = MEM_ARRAY(size_t, stages);
    probe_positions(config, given, stages, planned->position_planning);
}

/* What planning takes of a rank there more than of this one. */
static ptrdiff_t planning_beside(const struct planned_run *planned, int position) {
    int own = place_of(planned, planned->plan->config.rank),
        stages = planned->plan->config.grid.stages;
    const size_t *planning = planned->position_planning;
    if (!planning || own >= stages || position >= stages) return 0;
    if (!planning[own] || !planning[position]) return 0;
    return (ptrdiff_t)planning[position] - (ptrdiff_t)planning[own];
}

static enum status estimate_position(struct planned_run *planned, int position) {
    const struct grid *grid = &planned->plan->config.grid;
    struct memory_estimate *memory = &planned->position[position];
    bool staged = position < grid->stages;
    TRY(plan_memory_of(planned->plan, staged ? group_rank(grid, GROUP_PIPELINE, 0, position) : 0,
                       memory));
    with_library(planned, memory);
    memory->library += (size_t)planning_beside(planned, position);
    return STATUS_OK;
}

/* A driver has no arrays: what it takes most of is these plans. */
static void count_planning(struct planned_run *planned, int own) {
    size_t planning =
        grown(mem_peak_bytes(), planned->before.own_bytes + planned->before.file_bytes);
    if (planned->plan->chunk_count > 0 || planned->threads || planned->to_start) return;
    if (planning > planned->plan->memory.library) planned->plan->memory.library = planning;
    planned->position[own] = planned->plan->memory;
}

enum status planned_estimate_positions(struct planned_run *planned) {
    const struct grid *grid = &planned->plan->config.grid;
    int positions = grid->stages + (grid->drivers > 0),
        own = place_of(planned, planned->plan->config.rank);
    if (positions == 1) return STATUS_OK;
    planned->position = MEM_ARRAY(struct memory_estimate, positions);
    planned->position[own] = planned->plan->memory;
    for (int p = 0; p < positions; p++)
        if (p != own) TRY(estimate_position(planned, p));
    count_planning(planned, own);
    return STATUS_OK;
}

size_t planned_position_bytes(const struct planned_run *planned, int position) {
    return planned->position ? memory_sum(&planned->position[position]) : plan_bytes(planned->plan);
}

size_t planned_rank_bytes(const struct planned_run *planned, int rank) {
    return planned_position_bytes(planned, place_of(planned, rank));
}

const struct memory_estimate *planned_largest(const struct planned_run *planned, int *rank) {
    const struct grid *grid = &planned->plan->config.grid;
    int most = 0;
    *rank = planned->plan->config.rank;
    if (!planned->position) return &planned->plan->memory;
    for (int p = 1; p < grid->stages; p++) /* drivers need less */
        if (planned_position_bytes(planned, p) > planned_position_bytes(planned, most)) most = p;
    *rank = group_rank(grid, GROUP_PIPELINE, 0, most);
    return &planned->position[most];
}

size_t planned_most_bytes(const struct planned_run *planned) {
    int rank;
    return memory_sum(planned_largest(planned, &rank));
}

/* Of the local rank `index`. */
static size_t local_bytes(const struct planned_run *planned, int index) {
    int first = planned->first_local > 0 ? planned->first_local : 0,
        rank = (first + index) % planned->plan->config.ranks;
    return planned_rank_bytes(planned, rank);
}

/* Ranks of this machine, from the first on. */
size_t planned_machine_bytes(const struct planned_run *planned) {
    size_t sum = planned->code_bytes;
    if (planned->met.ranks) return planned->met.need_bytes;
    for (int i = 0; i < planned->local_ranks; i++) {
        sum += local_bytes(planned, i) - planned->code_bytes;
        if (planned->to_start) sum += planned->before.own_bytes;
    }
    return sum;
}

/* Not more than planning counts in the estimate: what else is resident is free inside the process,
 * and nobody else can have it. */
size_t planned_taken_bytes(const struct planned_run *planned) {
    size_t taken = grown(mem_resident_parts().own_bytes, planned->before.own_bytes),
           counted = planned->plan->memory.library - planned->code_bytes;
    if (planned->threads) counted *= (size_t)planned->plan->config.ranks;
    return taken < counted ? taken : counted;
}

bool planned_fit(const struct planned_run *planned, struct planned_fit *out) {
    const struct cluster *cluster = planned->costs->cluster;
    struct planned_fit fit = {.limited =
                                  option_is_set(&planned->options, OPTION_memory_limit_bytes)};
    size_t apart = fit.limited ? MEASURED_APART_BYTES : 0;
    if (!cluster && !fit.limited) return false;
    for (int r = 0; r < planned->plan->config.ranks; r++) {
        size_t need = planned_rank_bytes(planned, r),
               has = (size_t)(fit.limited ? planned->options.memory_limit_bytes
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
static size_t counted(const struct planned_run *planned, bool one) {
    if (!one) return planned_machine_bytes(planned);
    return planned->to_start || planned->threads ? planned_most_bytes(planned)
                                                 : plan_bytes(planned->plan);
}

/* Whether another plan would pass, and what of it is compared. */
static bool fits_with(const struct planned_run *other, const struct comparison *of, size_t *bytes) {
    struct planned_fit fit;
    if (of->cluster && planned_fit(other, &fit)) return *bytes = fit.need_bytes, fit.fits;
    *bytes = counted(other, of->one);
    return *bytes <= of->limit;
}

/* The smallest division of the micro-batch that fits, or 0. */
static int64_t micro_batches_that_fit(const struct planned_run *planned,
                                      const struct comparison *of, size_t *bytes) {
    int64_t per_replica = planned->plan->config.batch / planned->plan->config.replicas;
    for (int64_t count = planned->plan->config.micro_batches + 1; count <= per_replica; count++) {
        if (per_replica % count != 0) continue;
        struct planned_run other = *planned;
        struct run_config config = resolve_to_compare(&planned->options, &planned->plan->config,
                                                      planned->plan->config.recompute, (int)count);
        other.position = NULL;
        other.met = (struct planned_met){0};
        if (plan_new(&config, NULL, &other.plan) != STATUS_OK) return 0;
        with_library(planned, &other.plan->memory);
        enum status status = planned_estimate_positions(&other);
        bool fits = status == STATUS_OK && fits_with(&other, of, bytes);
        plan_free(&other.plan);
        free(other.position);
        if (status != STATUS_OK || fits) return fits ? count : 0;
    }
    return 0;
}

/* The rank that is spoken of, where one speaks for all: the one that needs most, or fits least. */
static const struct memory_estimate *estimate_to_report(const struct planned_run *planned,
                                                        const struct comparison *of, int *rank) {
    if (of->cluster) {
        *rank = of->rank;
        return planned->position ? &planned->position[place_of(planned, *rank)]
                                 : &planned->plan->memory;
    }
    if (planned->to_start || planned->threads) return planned_largest(planned, rank);
    *rank = planned->plan->config.rank;
    return &planned->plan->memory;
}

/* Who needs it: "the run", "a rank", "rank 1" where others need less, or "the 8 ranks of this
 * machine". */
static const char *who_needs(const struct planned_run *planned, const struct comparison *of,
                             char text[2 * TEXT_BYTES]) {
    int rank;
    if (planned->plan->config.ranks == 1) return "the run";
    if (!of->one && planned->local_ranks > 1)
        return snprintf(text, 2 * TEXT_BYTES, "the %d ranks of this machine", planned->local_ranks),
               text;
    if (!planned->position && !of->cluster) return "a rank";
    estimate_to_report(planned, of, &rank);
    return snprintf(text, 2 * TEXT_BYTES, "rank %d", rank), text;
}

/* "20 MiB each, ", or from the least to the most where ranks of this machine differ. */
static void bytes_of_each_text(const struct planned_run *planned, char text[3 * TEXT_BYTES]) {
    char low[TEXT_BYTES], high[TEXT_BYTES];
    size_t least = planned->met.ranks ? planned->met.least_bytes : SIZE_MAX,
           most = planned->met.most_bytes;
    for (int i = 0; !planned->met.ranks && i < planned->local_ranks; i++) {
        size_t bytes = local_bytes(planned, i);
        if (bytes < least) least = bytes;
        if (bytes > most) most = bytes;
    }
    text_size((int64_t)least, low), text_size((int64_t)most, high);
    if (strcmp(low, high) == 0)
        snprintf(text, 3 * TEXT_BYTES, "%s each, ", low);
    else
        snprintf(text, 3 * TEXT_BYTES, "%s to %s each, ", low, high);
}

static enum status refuse(const struct planned_run *planned, const struct comparison *of) {
    char a[TEXT_BYTES], b[TEXT_BYTES], c[TEXT_BYTES], who[2 * TEXT_BYTES],
        each[3 * TEXT_BYTES] = "";
    char largest[256], hint[192], whose[TEXT_BYTES] = "";
    int rank, own = planned->plan->config.rank;
    const struct memory_estimate *estimate = estimate_to_report(planned, of, &rank);
    size_t fitting = 0;
    bool forward = planned->plan->config.forward;
    int64_t count = forward ? 0 : micro_batches_that_fit(planned, of, &fitting);
    snprintf(largest, sizeof largest, "no activations on this rank");
    if (planned->plan->chunk_count > 0)
        placement_largest(plan_placement(planned->plan, &planned->plan->micro[forward], 0, 0),
                          largest, sizeof largest);
    if (rank != own) snprintf(whose, sizeof whose, " of rank %d", own);
    if (!of->one && planned->local_ranks > 1) bytes_of_each_text(planned, each);
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
                who_needs(planned, of, who), text_size((int64_t)of->need, a), of->limit_is,
                text_size((int64_t)of->limit, b), each,
                text_size((int64_t)estimate->activations, c), whose, largest, hint);
}

static enum status compare(const struct planned_run *planned, bool one, int64_t limit,
                           const char *limit_is) {
    struct comparison of = {
        .one = one, .need = counted(planned, one), .limit = (size_t)limit, .limit_is = limit_is};
    if (limit <= 0 || of.need <= of.limit + MEASURED_APART_BYTES) return STATUS_OK;
    return refuse(planned, &of);
}

static enum status compare_given(const struct planned_run *planned) {
    return compare(planned, true, planned->options.memory_limit_bytes, "--memory-limit");
}

static enum status compare_cluster(const struct planned_run *planned) {
    struct planned_fit fit;
    if (!planned_fit(planned, &fit) || fit.fits) return STATUS_OK;
    char *device =
        mem_format("the memory of its device (%s of %s)", fit.class, planned->options.cluster);
    struct comparison of = {.one = true,
                            .need = fit.need_bytes,
                            .limit = fit.has_bytes,
                            .limit_is = device,
                            .cluster = true,
                            .rank = fit.rank};
    enum status status = refuse(planned, &of);
    free(device);
    return status;
}

/* Each rank has a device, as far as is known here. */
static enum status compare_device(const struct planned_run *planned) {
    struct device *device = planned->plan->device;
    struct device_bytes bytes;
    device->backend->memory_bytes(device, &bytes);
    return compare(planned, true, (int64_t)bytes.all, "the memory of its device");
}

enum status planned_check_memory(const struct planned_run *planned) {
    if (option_is_set(&planned->options, OPTION_memory_limit_bytes)) return compare_given(planned);
    bool trains =
        planned->options.command == COMMAND_TRAIN; /* on this machine, for a cluster or not */
    if (planned->costs->cluster && (!trains || planned->costs->simulated))
        TRY(compare_cluster(planned));
    if (planned->costs->cluster && !trains) return STATUS_OK;
    if (planned->plan->memory.apart) return compare_device(planned);
    return compare(planned, false, planned->available_bytes, "what is available");
}

/* Ranks at other positions may need less than this one, which does not know. */
enum status planned_check_alone(const struct planned_run *planned) {
    const struct grid *grid = &planned->plan->config.grid;
    bool alike = grid->stages == 1 && grid->drivers == 0;
    if (option_is_set(&planned->options, OPTION_memory_limit_bytes)) return compare_given(planned);
    if (planned->plan->memory.apart) return compare_device(planned);
    return compare(planned, !alike, planned->total_bytes, "the most this machine could have");
}
