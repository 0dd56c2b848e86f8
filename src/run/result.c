/* What a run comes to: summary.json, the table on the screen, the report. */
#include <math.h>
#include <stdlib.h>

#include <jansson.h>

#include "base/display.h"
#include "base/json.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/text.h"
#include "record/range_test.h"
#include "record/report.h"
#include "run/missed.h"
#include "run/peak.h"
#include "run/session.h"
#include "stretto.h"

static void describe_run(const struct session *session, struct summary *summary) {
    const struct run_config *config = &session_plan(session)->config;
    const struct options *options = &session->planned.options;
    struct device *device = session_plan(session)->device;
    char isa[96];
    device->backend->isa(device->index, isa, sizeof isa);
    summary->version = stretto_version();
    summary->strategy = options->strategy;
    summary->model = config->model->name;
    summary->data = options->data;
    summary->device = options->device;
    summary->dtype = options->dtype;
    summary->isa = summary_text(summary, isa);
    summary->threads = config->threads;
    summary->comm = comm_name(engine_comm(session->engine));
    summary->deterministic = options->deterministic ? SUMMARY_ON : SUMMARY_OFF;
    summary->sync_bn = config->sync_bn ? SUMMARY_ON : SUMMARY_OFF;
    summary->seed = options->seed;
    summary->ranks = config->ranks;
    summary->stages = config->grid.stages;
    summary->virtual = config->grid.chunks;
    summary->replicas = config->grid.replicas;
    summary->micro_batches = config->micro_batches;
    summary->batch = config->batch;
    summary->params = graph_param_elements(session_plan(session)->micro[0].graph);
}

/* Groups of ranks that train on samples of their own. */
static int pipelines_of(const struct plan *plan) {
    return group_count(&plan->config.grid, GROUP_PIPELINE);
}

/* Replicas meet once a step. */
static double syncs_per_s(const struct recorder *recorder) {
    bool known = recorder->timed_steps > 0 && pipelines_of(recorder_plan(recorder)) > 1;
    return known ? (double)recorder->timed_steps / ((double)recorder->timed.total_ns * 1e-9) : NAN;
}

static void measure_run(struct session *session, struct summary *summary) {
    const struct train_result *result = &session->result;
    struct history_times times = history_total(session->history);
    summary->steps = result->steps;
    summary->epochs = (double)result->steps / (double)session_plan(session)->config.steps_per_epoch;
    if (result->evaluated) {
        summary->eval_loss = result->eval.loss;
        summary->acc1 = result->eval.acc1;
        summary->acc5 = result->eval.acc5;
    }
    summary->predicted_step_ms.p50 = session->predicted.p50_ms;
    summary->predicted_step_ms.low = session->predicted.low_ms;
    summary->predicted_step_ms.high = session->predicted.high_ms;
    summary->wall_s = times.wall_s;
    summary->user_s = times.user_s;
    summary->sys_s = times.sys_s;
}

/* Of a device with memory of its own what was taken of that. Else resident size since the plan,
 * less what is not this rank's: ranks of one process share it evenly; ranks as processes that share
 * memory have each other's heaps among their pages, and keep them to the end. */
int64_t result_peak_bytes(const struct session *session) {
    const struct mem_parts *before = &session->planned.before;
    struct device *device = session_plan(session)->device;
    if (device->backend->apart) {
        struct device_bytes bytes;
        device->backend->memory_bytes(device, &bytes);
        return (int64_t)(bytes.peak + bytes.libraries);
    }
    int64_t peak = (int64_t)(mem_peak_bytes() - before->own_bytes - before->file_bytes);
    if (session->planned.threads) return peak / comm_size(engine_comm(session->engine));
    return peak - (int64_t)comm_foreign_bytes(engine_comm(session->engine));
}

/* Hashing takes a copy of each tensor, as writing does: before memory is measured. */
static void hash_tensors(struct session *session, struct rank_figures *out) {
    const struct store *store = engine_store(session->engine);
    bool first = session_plan(session)->config.cell.first_replica == 0;
    /* All replicas give their slices, where there are any. */
    bool sliced = session_plan(session)->program->sliced & SLICED_PARAMS;
    if (!first && !sliced) return;
    bool hashed = engine_param_hash(session->engine, &out->param_hash) == STATUS_OK;
    out->hashed = first && hashed && store_buffer_hash(store, &out->buffer_hash) == STATUS_OK;
}

/* Gradients that this rank adds up with the other replicas of its stages. */
static int64_t reduced_bytes(const struct session *session) {
    int64_t elements = engine_store(session->engine)->layout->param_elements;
    return pipelines_of(session_plan(session)) > 1 ? state_bytes(elements) : 0;
}

/* In the steps of this run, without what it took to start and to change the plan. */
static int64_t sent_bytes(const struct session *session) {
    uint64_t now = comm_sent_bytes(engine_comm(session->engine));
    return (int64_t)(session->sent + now - session->sent_before);
}

void result_measure(struct session *session) {
    SCOPED(summary_free) struct summary timed = {0};
    summary_init(&timed);
    recorder_summary(&session->recorder, &timed);
    int64_t steps = session->result.steps - session->result.first_step;
    session->figures = (struct rank_figures){
        .samples_per_s = timed.samples_per_s / pipelines_of(session_plan(session)),
        .reduced_bytes_per_step = reduced_bytes(session),
        .laws = session->state.laws,
        .stale = session->state.stale,
        .groups = session->state.groups,
        .use = recorder_use(&session->recorder),
        .load = recorder_load(&session->recorder),
        .step_flops =
            plan_step_flops(session_plan(session)) - plan_recompute_flops(session_plan(session)),
        .predicted_bytes = (int64_t)plan_bytes(session->planned.plan),
        .sent_bytes_per_step = steps > 0 ? sent_bytes(session) / steps : 0};
    hash_tensors(session, &session->figures);
    session->figures.peak_bytes = result_peak_bytes(session);
}

enum status result_gather(struct session *session) {
    session->all = MEM_ARRAY(struct rank_figures, comm_size(engine_comm(session->engine)));
    return comm_exchange(comm_world(engine_comm(session->engine)), &session->figures,
                         sizeof session->figures, session->all);
}

int64_t result_predicted_bytes(const struct session *session, int rank) {
    int ranks = comm_size(engine_comm(session->engine));
    int64_t sum = 0;
    if (!session->all) return session->figures.predicted_bytes;
    if (!session->planned.threads) return session->all[rank].predicted_bytes;
    for (int r = 0; r < ranks; r++) sum += session->all[r].predicted_bytes;
    return sum / ranks;
}

static void fill_ranks(const struct session *session, struct summary *summary) {
    int ranks = session->all ? comm_size(engine_comm(session->engine)) : 1,
        stages = session_plan(session)->config.grid.stages;
    bool draws = session_plan(session)->config.chooses && session->all;
    if (draws) summary->samples_per_s = 0; /* each replica has a rate of its own */
    summary->samples_per_s_rank = summary_reals_new(summary, ranks);
    summary->peak_bytes = summary_ints_new(summary, ranks);
    summary->predicted_peak_bytes = summary_ints_new(summary, ranks);
    summary->sent_bytes_per_step = summary_ints_new(summary, ranks);
    for (int r = 0; r < ranks; r++) {
        const struct rank_figures *of = session->all ? &session->all[r] : &session->figures;
        summary->samples_per_s_rank.item[r] = of->samples_per_s;
        if (draws && r % stages == 0) summary->samples_per_s += of->samples_per_s;
        summary->peak_bytes.item[r] = of->peak_bytes;
        summary->predicted_peak_bytes.item[r] = result_predicted_bytes(session, r);
        summary->sent_bytes_per_step.item[r] = of->sent_bytes_per_step;
    }
}

/* A run that failed knows nothing of the other ranks. */
static void fill_bubbles(const struct session *session, struct summary *summary) {
    int ranks = comm_size(engine_comm(session->engine));
    SCOPED_FREE const struct recorder_use **use = MEM_ARRAY(const struct recorder_use *, ranks);
    if (ranks == 1 || session->all) {
        for (int r = 0; r < ranks; r++)
            use[r] = session->all ? &session->all[r].use : &session->figures.use;
        recorder_bubbles(use, ranks, summary);
    }
}

/* Rank 0 goes on after all were measured. */
static void measure_again(struct session *session) {
    int ranks =
        session->all && session->planned.threads ? comm_size(engine_comm(session->engine)) : 1;
    session->figures.peak_bytes = result_peak_bytes(session);
    for (int r = 0; session->all && r < ranks; r++)
        session->all[r].peak_bytes = session->figures.peak_bytes;
}

/* The ranks of replica 0 hold each tensor once. */
static void sum_replica(const struct session *session, struct summary *summary) {
    const struct grid *grid = &session_plan(session)->config.grid;
    int ranks = session->all ? grid->drivers + grid->stages : 1; /* drivers hold nothing */
    bool known = true;
    summary->reduced_bytes_per_step = 0;
    for (int r = 0; r < ranks; r++) {
        const struct rank_figures *of = session->all ? &session->all[r] : &session->figures;
        known &= of->hashed;
        summary->param_hash.value += of->param_hash;
        summary->buffer_hash.value += of->buffer_hash;
        summary->reduced_bytes_per_step += of->reduced_bytes_per_step;
    }
    summary->param_hash.known = summary->buffer_hash.known = known;
    /* After a failure the figures of the other stages were not gathered. */
    if (!session->all && session_plan(session)->config.grid.stages > 1)
        summary->reduced_bytes_per_step = SUMMARY_NO_INT,
        summary->param_hash.known = summary->buffer_hash.known = false;
}

/* The share of what the ranks could compute together, if each could do as much as rank 0. Passes
 * that only wait compute nothing. */
static void fill_mfu(const struct session *session, struct summary *summary) {
    const struct run_config *config = &session_plan(session)->config;
    int ranks = comm_size(engine_comm(session->engine));
    double flops = 0;
    bool timed = !config->costs->delays && !config->costs->simulated && summary->step_ms.p50 > 0,
         known = (ranks == 1 || session->all) && timed;
    if (!known) return;
    for (int r = 0; r < ranks; r++)
        flops += session->all ? session->all[r].step_flops : session->figures.step_flops;
    summary->peak_flops = peak_flops(session_plan(session)->device, config->dtype);
    summary->mfu = flops / (summary->step_ms.p50 * 1e-3) /
                   (summary->peak_flops * (ranks - config->grid.drivers));
}

/* A run whose passes are longer than their law is not what its options say. */
static void fill_late(const struct session *session, struct summary *summary) {
    int ranks = session->all ? comm_size(engine_comm(session->engine)) : 1;
    struct train_laws sum = {0};
    for (int r = 0; r < ranks; r++) {
        const struct train_laws *of = session->all ? &session->all[r].laws : &session->figures.laws;
        sum.passes += of->passes;
        sum.late += of->late;
    }
    if (sum.passes == 0) return;
    summary->law_passes = sum.passes;
    summary->law_late = sum.late;
    if (sum.late * 100 > sum.passes)
        log_warning("%.1f%% of the passes computed longer than --hetero %s says (%lld of %lld)\n"
                    "  give base more time, or run fewer ranks on this machine",
                    100 * (double)sum.late / (double)sum.passes, session->planned.options.hetero,
                    (long long)sum.late, (long long)sum.passes);
}

static bool keeps_versions(const struct program *program) {
    bool keeps = program->ahead > 0;
    for (int k = 0; k < program->kind_count; k++) keeps |= program->kinds[k].chunk[0].older > 0;
    return keeps;
}

/* Of strategies that keep versions; all others update with what they have just read. */
static void fill_stale(const struct session *session, struct summary *summary) {
    int ranks = session->all ? comm_size(engine_comm(session->engine)) : 1, most = 0;
    int64_t sum[STALE_MOST + 1] = {0};
    if (!keeps_versions(session_plan(session)->program)) return;
    summary->staleness_rank = summary_reals_new(summary, ranks);
    for (int r = 0; r < ranks; r++) {
        const struct train_stale *of =
            session->all ? &session->all[r].stale : &session->figures.stale;
        double updates = 0, stale = 0;
        for (int i = 0; i <= STALE_MOST; i++) {
            sum[i] += of->updates[i];
            updates += (double)of->updates[i];
            stale += (double)of->updates[i] * i;
            if (of->updates[i] > 0 && i > most) most = i;
        }
        summary->staleness_rank.item[r] = updates > 0 ? stale / updates : NAN;
    }
    summary->staleness = summary_ints_new(summary, most + 1);
    for (int i = 0; i <= most; i++) summary->staleness.item[i] = sum[i];
    if (session->recorder.metrics)
        metrics_histogram(session->recorder.metrics, session->result.steps, "train/staleness", sum,
                          most + 1);
}

/* One bar behind the last that is not 0. */
static void fill_bars(struct session *session, struct summary *summary, const int64_t *sum,
                      const char *tag, struct summary_ints *out) {
    int most = STALE_MOST;
    while (most > 0 && sum[most] == 0) most--;
    *out = summary_ints_new(summary, most + 1);
    for (int i = 0; i <= most; i++) out->item[i] = sum[i];
    if (session->recorder.metrics)
        metrics_histogram(session->recorder.metrics, session->result.steps, tag, sum, most + 1);
}

static void fill_groups(struct session *session, struct summary *summary) {
    int ranks = session->all ? comm_size(engine_comm(session->engine)) : 1;
    struct train_groups sum = {0};
    if (!session_plan(session)->config.chooses) return;
    for (int r = 0; r < ranks; r++) {
        const struct train_groups *of =
            session->all ? &session->all[r].groups : &session->figures.groups;
        for (int i = 0; i <= STALE_MOST; i++) {
            sum.members[i] += of->members[i];
            sum.spread[i] += of->spread[i];
        }
    }
    fill_bars(session, summary, sum.members, "train/group_members", &summary->group_members);
    fill_bars(session, summary, sum.spread, "train/group_spread", &summary->group_spread);
}

enum status result_fill(struct session *session, int exit_code) {
    struct summary *summary = &session->summary;
    recorder_lacks(&session->recorder, recorder_note_times(&session->recorder), "history.jsonl");
    recorder_summary(&session->recorder, summary);
    measure_run(session, summary);
    measure_again(session);
    fill_ranks(session, summary);
    fill_bubbles(session, summary);
    describe_run(session, summary);
    summary->syncs_per_s = syncs_per_s(&session->recorder);
    sum_replica(session, summary);
    fill_mfu(session, summary);
    fill_late(session, summary);
    fill_stale(session, summary);
    fill_groups(session, summary);
    summary->exit = exit_code;
    return STATUS_OK;
}

/* Of the rank that needed most, as in the report. */
static void print_peak(const struct summary *summary, struct text_table *table) {
    int rank = summary_largest(&summary->peak_bytes);
    char size[TEXT_BYTES], predicted[TEXT_BYTES], where[TEXT_BYTES] = "";
    if (rank < 0) return;
    if (summary->peak_bytes.count > 1) snprintf(where, sizeof where, " on rank %d", rank);
    text_table_cell(table, "peak memory");
    text_table_cell(table, "%s%s (predicted %s)", text_size(summary->peak_bytes.item[rank], size),
                    where, text_size(summary->predicted_peak_bytes.item[rank], predicted));
}

static bool is_range_test(const struct session *session) {
    return session_plan(session)->config.lr.policy == LR_RANGE;
}

static void print_range_test(const struct session *session) {
    SCOPED(curves_free) struct curves curves = {0};
    if (!is_range_test(session)) return;
    curves_read(session->folder, &curves);
    struct range_test test = range_test_read(&curves);
    SCOPED_FREE char *words = range_test_words(&test);
    fprintf(display_out(), "\n");
    text_wrap(display_out(), words, 0, text_columns(display_out(), 100));
}

/* Cores that others than the ranks kept busy; NaN where ranks are elsewhere, too. */
static double other_cores(const struct session *session, bool spread) {
    const struct load *machine = &session->figures.load;
    int ranks =
        session->all && !session->planned.threads ? comm_size(engine_comm(session->engine)) : 1;
    double own_ns = 0;
    for (int r = 0; r < ranks; r++)
        own_ns += (double)(session->all ? session->all[r].load.own_ns : machine->own_ns);
    bool known =
        machine->busy_ns >= 0 && machine->at_ns > 0 && !spread &&
        (ranks > 1 || session->planned.threads || comm_size(engine_comm(session->engine)) == 1);
    return known ? ((double)machine->busy_ns - own_ns) / (double)machine->at_ns : NAN;
}

static double share_of(int64_t part_ns, const struct load *load) {
    return part_ns >= 0 && load->at_ns > 0 ? (double)part_ns / (double)load->at_ns : NAN;
}

static struct missed_facts facts_of(const struct session *session) {
    const struct summary *summary = &session->summary;
    const struct session_forecast *predicted = &session->predicted;
    const struct load *load = &session->figures.load;
    const struct cores_share *cores = &session->planned.cores;
    bool spread = session->planned.local_ranks < comm_size(engine_comm(session->engine));
    return (struct missed_facts){.step_ms = summary->step_ms.p50,
                                 .p50_ms = predicted->p50_ms,
                                 .low_ms = predicted->low_ms,
                                 .high_ms = predicted->high_ms,
                                 .data_ms = summary->time_ms.data,
                                 .passes_ms = session->figures.use.busy_ms,
                                 .predicted_passes_ms = predicted->passes_ms,
                                 .waits_ms = summary->time_ms.comm_exposed + summary->time_ms.idle,
                                 .predicted_waits_ms = predicted->waits_ms,
                                 .other_cores = other_cores(session, spread),
                                 .stolen_cores = share_of(load->stolen_ns, load),
                                 .coreless = share_of(load->wait_ns, load),
                                 .ranks = session->planned.local_ranks,
                                 .threads = session_plan(session)->config.threads,
                                 .usable_cores = session->host_cores > 0 ? session->host_cores
                                                 : cores->pool > 0       ? cores->pool
                                                                         : cores->usable,
                                 .online_cores = machine_cores("").online,
                                 .crowd = predicted->crowd,
                                 .profile =
                                     option_is_given(&session->planned.options, OPTION_profile)
                                         ? session->planned.options.profile
                                         : NULL,
                                 .estimated = predicted->estimated,
                                 .spread = spread};
}

/* Why the step took another time than was said before it began. */
static void print_missed(const struct session *session) {
    enum { NAME_COLUMNS = 15 };
    struct missed_facts facts = facts_of(session);
    SCOPED(missed_free) struct missed_words words = {0};
    if (!missed_words(&facts, &words)) return;
    text_entry(display_out(), "forecast", NAME_COLUMNS, words.forecast);
    text_entry(display_out(), "what differs", NAME_COLUMNS, words.differs);
    text_entry(display_out(), "try", NAME_COLUMNS, words.hints);
}

void result_print(const struct session *session) {
    const struct summary *summary = &session->summary;
    char wall[TEXT_BYTES], text[TEXT_BYTES];
    struct text_table table = {.align = "ll"};
    text_table_cell(&table, "steps"),
        text_table_cell(&table, "%lld (%.2f epochs)", (long long)summary->steps, summary->epochs);
    if (!isnan(summary->loss_first) && !isnan(summary->loss_last))
        text_table_cell(&table, "training loss"),
            text_table_cell(&table, "%.4f at the first step, %.4f at the last", summary->loss_first,
                            summary->loss_last);
    if (!isnan(summary->eval_loss)) {
        text_table_cell(&table, "test loss"), text_table_cell(&table, "%.4f", summary->eval_loss);
        if (!isnan(summary->acc1))
            text_table_cell(&table, "accuracy"),
                text_table_cell(&table, "%s", text_accuracy(summary->acc1, summary->acc5, text));
    }
    if (!isnan(summary->samples_per_s)) {
        text_table_cell(&table, "speed");
        text_table_cell(&table, "%s samples/s, step %.2f ms (p90 %.2f)",
                        text_rate(summary->samples_per_s, text), summary->step_ms.p50,
                        summary->step_ms.p90);
    }
    if (!isnan(summary->mfu)) {
        text_table_cell(&table, "of the peak");
        text_table_cell(&table, "%.1f%% of %.0f GFLOP/s a rank (mfu, see docs/metrics.md)",
                        summary->mfu * 100, summary->peak_flops * 1e-9);
    }
    if (summary->damaged_samples > 0 || summary->skipped_samples > 0) {
        text_table_cell(&table, "damaged");
        text_table_cell(&table, "%lld samples left out, %lld skipped in the steps",
                        (long long)summary->damaged_samples, (long long)summary->skipped_samples);
    }
    print_peak(summary, &table);
    text_table_cell(&table, "time"),
        text_table_cell(&table, "%s", text_duration(summary->wall_s, wall));
    text_table_cell(&table, "param_hash"),
        text_table_cell(&table, "%016llx", (unsigned long long)summary->param_hash.value);
    text_table_cell(&table, "report");
    text_table_cell(&table, "%s/report.html", session->folder);
    fputs("\n", display_out());
    text_table_print(&table, 0, display_out());
    text_table_free(&table);
    print_missed(session);
    print_range_test(session);
}

void result_print_json(const struct session *session) {
    const struct summary *summary = &session->summary;
    char hash[17];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)summary->param_hash.value);
    json_auto_t *end =
        json_pack("{s:s, s:I, s:s, s:s, s:I}", "kind", "end", "step", (json_int_t)summary->steps,
                  "out", session->folder, "param_hash", hash, "exit", (json_int_t)summary->exit);
    if (end) json_print(end, JSON_COMPACT, display_out()); /* a folder's name may be no UTF-8 */
}

static char *text_of(const char *folder, const char *name) {
    enum { TEXT_LIMIT = 64 << 20 };
    SCOPED_FREE char *path = folder_path(folder, name);
    struct bytes bytes;
    return file_read(path, TEXT_LIMIT, &bytes) == STATUS_OK ? (char *)bytes.data : NULL;
}

static const char delay_notice[] =
    "Nothing was learned: with --delay passes wait instead of computing, so losses, accuracies and "
    "norms of gradients say nothing; times do";

/* The parts that have begun; `parts` has room for all. */
static struct report_course course_of(const struct session *session,
                                      struct report_course_part *parts) {
    const struct course *course = &session->planned.course;
    struct report_course out = {
        .part = parts, .of = course->blocks, .steps = session->result.steps};
    for (int i = 0; course_changes(course) && i < course->count; i++) {
        const struct course_part *part = &course->part[i];
        if (i > 0 && part->step >= out.steps) break;
        parts[out.count++] = (struct report_course_part){part->step, part->frozen, part->stages,
                                                         part->replicas, part->micro_batches};
    }
    return out;
}

enum status result_report(const struct session *session, const struct timeline *timeline) {
    SCOPED_FREE char *lines = history_commands(session->history),
                     *yaml = text_of(session->folder, "config.yml"),
                     *program = text_of(session->folder, "program.txt");
    bool waits = option_is_given(&session->planned.options, OPTION_delay);
    SCOPED_FREE struct report_course_part *parts =
        MEM_ARRAY(struct report_course_part, session->planned.course.count + 1);
    struct report_input input = {.summary = &session->summary,
                                 .notice = waits ? delay_notice : NULL,
                                 .command_lines = lines,
                                 .config_yaml = yaml,
                                 .timeline = timeline,
                                 .course = course_of(session, parts),
                                 .range_test = is_range_test(session),
                                 .program_text = program};
    return report_write(session->folder, &input);
}
