/* `stretto explain`: what a run would do, before anything runs. */
#include "cli/explain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/log.h"
#include "base/text.h"
#include "cli/cli.h"

struct bill_row {
    const char *name;
    size_t bytes;
};

enum { BILL_ROWS = 9 };

static void bill_rows(const struct plan *plan, struct bill_row rows[BILL_ROWS]) {
    const struct memory_bill *bill = &plan->bill;
    const struct bill_row all[BILL_ROWS] = {
        {"parameters", bill->params},       {"gradients", bill->gradients},
        {"optimizer", bill->state},         {"buffers", bill->buffers},
        {"activations", bill->activations}, {"scratch", bill->scratch},
        {"loader", bill->loader},           {"library", bill->library},
        {"communicator", bill->comm},
    };
    memcpy(rows, all, sizeof all);
}

static void print_model(const struct job *job, FILE *out) {
    const struct plan *plan = job->plan;
    const struct graph *graph = plan->micro[0].graph;
    char device[128];
    plan->device->backend->describe(plan->device, device, sizeof device);
    fprintf(out, "model      %s, %lld parameters in %d tensors, %d blocks\n",
            plan->config.model->name, (long long)graph_param_elements(graph), graph->param_count,
            graph->block + 1);
    fprintf(out, "data       %s, %lld to train on, %lld to test on, %lld steps an epoch\n",
            plan->config.dataset->spec, (long long)plan->config.dataset->count[SPLIT_TRAIN],
            (long long)plan->config.dataset->count[SPLIT_TEST], (long long)plan->steps_per_epoch);
    fprintf(out, "device     %s; %d rank(s), sync %s\n", device, plan->config.ranks,
            plan->config.sync);
}

static void print_batch(const struct plan *plan, FILE *out) {
    const struct run_config *config = &plan->config;
    long long micro = (long long)config->batch / config->replicas / config->micro_batches;
    fprintf(out, "batch      %lld = %d replica(s) x %d micro-batch(es) x %lld samples",
            (long long)config->batch, config->replicas, config->micro_batches, micro);
    if (plan->last_samples) {
        int64_t total = 0, count = (int64_t)config->replicas * config->micro_batches;
        for (int64_t g = 0; g < count; g++) total += plan->last_samples[g];
        fprintf(out, "; the last of an epoch has %lld", (long long)total);
    }
    fprintf(out, "\n");
}

static void print_sync_bn(const struct job *job, FILE *out) {
    const struct graph *graph = job->plan->micro[0].graph;
    struct graph_exchanges forward = graph_exchanges(graph, PHASE_FORWARD),
                           backward = graph_exchanges(graph, PHASE_BACKWARD);
    char size[TEXT_BYTES];
    if (!job->options.sync_bn) return;
    if (!job->plan->config.sync_bn)
        fprintf(out, "sync-bn    one rank: ordinary batch norm\n");
    else if (forward.count == 0)
        fprintf(out, "sync-bn    %s has no batch norm\n", job->plan->config.model->name);
    else
        fprintf(out,
                "sync-bn    statistics of %d ranks: %d forward and %d backward exchanges a "
                "micro-batch, %s a rank\n",
                job->plan->config.ranks, forward.count, backward.count,
                text_size((int64_t)(forward.bytes + backward.bytes), size));
}

static void print_training(const struct job *job, FILE *out) {
    const struct run_config *config = &job->plan->config;
    fprintf(out, "training   %s, lr %g %s, warm-up %lld of %lld steps, weight decay %g, clip %g\n",
            config->optimizer->name, config->optim.lr, job->options.lr_policy,
            (long long)config->lr.warmup_steps, (long long)config->lr.total_steps,
            config->optim.weight_decay, config->clip);
}

/* The body in a few words: runs of the same instruction are counted. */
static void print_program(const struct plan *plan, FILE *out) {
    const struct instr_list *body = &plan->program->rank[0].list[LIST_BODY];
    fprintf(out, "program    %s: %d instructions a step:", plan->config.schedule, body->count);
    int shown = 0;
    for (int i = 0; i < body->count && shown < 12; i++, shown++)
        fprintf(out, " %s", instr_name((enum instr_op)body->items[i].op));
    fprintf(out, "%s; %d slot(s), %d gradient buffer(s)\n", body->count > shown ? " ..." : "",
            plan->slots, plan->grads);
}

static void print_memory(const struct plan *plan, FILE *out) {
    struct bill_row rows[BILL_ROWS];
    char size[TEXT_BYTES];
    bill_rows(plan, rows);
    fprintf(out, "memory     %s predicted peak:", text_size((int64_t)plan_bytes(plan), size));
    for (int i = 0; i < BILL_ROWS; i++)
        fprintf(out, "%s %s %s", i ? "," : "", rows[i].name,
                text_size((int64_t)rows[i].bytes, size));
    fprintf(out, "\n");
}

static void print_work(const struct job *job, FILE *out) {
    const struct plan *plan = job->plan;
    const struct graph *graph = plan->micro[0].graph;
    int reorders = 0;
    for (int i = 0; i < graph->node_count; i++) reorders += graph->nodes[i].op == OP_REORDER;
    char step[TEXT_BYTES];
    fprintf(out, "work       %d forward and %d backward nodes a micro-batch, %d of them reorders\n",
            graph->forward_count, graph->node_count - graph->forward_count, reorders);
    fprintf(out, "time       %.3f GFLOP a step, about %s by the backend's estimate\n",
            plan_step_flops(plan) * 1e-9, text_duration(job_step_ns(job) * 1e-9, step));
}

void explain_print(const struct job *job, FILE *out) {
    print_model(job, out);
    print_batch(job->plan, out);
    print_sync_bn(job, out);
    print_training(job, out);
    print_program(job->plan, out);
    print_work(job, out);
    print_memory(job->plan, out);
}

static void show_part(const struct job *job, const char *part, FILE *out) {
    enum { MEMORY_LINES = 40 };
    const struct micro_plan *main = &job->plan->micro[0];
    char arena[TEXT_BYTES], live[TEXT_BYTES];
    if (strcmp(part, "graph") == 0) graph_print(main->graph, out);
    if (strcmp(part, "program") == 0) program_print(job->plan->program, out);
    if (strcmp(part, "memory") != 0) return;
    fprintf(out, "  arena of a micro-batch %s; most bytes alive at once %s\n",
            text_size((int64_t)main->placement.bytes, arena),
            text_size((int64_t)main->placement.live_bytes, live));
    placement_print(&main->placement, out, MEMORY_LINES);
}

/* The parts of --show as texts. */
static json_t *shown_parts(const struct job *job) {
    json_t *parts = json_object();
    for (int i = 0; i < job->options.show.count; i++) {
        const char *part = job->options.show.item[i];
        char *text = NULL;
        size_t bytes;
        FILE *stream = open_memstream(&text, &bytes);
        show_part(job, part, stream);
        fclose(stream);
        json_object_set_new(parts, part, json_string(text));
        free(text);
    }
    return parts;
}

void explain_print_json(const struct job *job, FILE *out) {
    const struct plan *plan = job->plan;
    const struct run_config *config = &plan->config;
    struct bill_row rows[BILL_ROWS];
    bill_rows(plan, rows);
    json_t *bill = json_object();
    for (int i = 0; i < BILL_ROWS; i++)
        json_object_set_new(bill, rows[i].name, json_integer((json_int_t)rows[i].bytes));
    json_t *root = json_pack(
        "{s:s, s:s, s:I, s:I, s:i, s:i, s:b, s:I, s:I, s:i, s:f, s:f, s:I, s:o}", "model",
        config->model->name, "data", config->dataset->spec, "params",
        (json_int_t)graph_param_elements(plan->micro[0].graph), "batch", (json_int_t)config->batch,
        "replicas", config->replicas, "micro_batches", config->micro_batches, "sync_bn",
        config->sync_bn, "steps", (json_int_t)config->lr.total_steps, "steps_per_epoch",
        (json_int_t)plan->steps_per_epoch, "instructions",
        plan->program->rank[0].list[LIST_BODY].count, "step_flops", plan_step_flops(plan),
        "predicted_step_ms", job_step_ns(job) * 1e-6, "predicted_peak_bytes",
        (json_int_t)plan_bytes(plan), "memory", bill);
    if (job->options.show.count) json_object_set_new(root, "show", shown_parts(job));
    char *text = json_dumps(root, JSON_REAL_PRECISION(9));
    fprintf(out, "%s\n", text);
    free(text);
    json_decref(root);
}

enum status explain_save_program(const struct plan *plan, const char *path) {
    FILE *file = fopen(path, "wx");
    if (!file)
        return fail(errno == EEXIST ? STATUS_USAGE : STATUS_DATA,
                    "%s: cannot write the program: %s", path, strerror(errno));
    program_print(plan->program, file);
    bool bad = ferror(file);
    if (fclose(file) != 0 || bad)
        return fail(STATUS_DATA, "%s: write failed: %s", path, strerror(errno));
    return STATUS_OK;
}

enum status explain_run(const struct options *options) {
    struct job job;
    struct job_seat seat = {.rank = 0, .ranks = (int)options->local_ranks};
    TRY(job_open(options, &seat, &job));
    if (options->json)
        explain_print_json(&job, stdout);
    else
        explain_print(&job, stdout);
    for (int i = 0; i < options->show.count && !options->json; i++) {
        printf("\n%s\n", options->show.item[i]);
        show_part(&job, options->show.item[i], stdout);
    }
    enum status status = job_check_memory(&job);
    if (status == STATUS_OK && option_is_set(options, OPTION_save_program))
        status = explain_save_program(job.plan, options->save_program);
    job_close(&job);
    return status;
}
