/* `stretto eval`: how good what was trained is, on a data set. The passes are those of the
 * evaluations in training, so are the numbers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/display.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/cli.h"
#include "record/confusion.h"
#include "run/begin.h"
#include "run/forward.h"
#include "run/trained.h"
#include "view/view_forecast.h"

struct evaluation {
    struct session *session;
    struct confusion confusion; /* of models that class samples; else empty */
    struct eval_result result;
    int64_t peak_bytes;
    double predicted_ns; /* of the first rank */
};

static const struct run_config *config_of(const struct evaluation *of) {
    return &of->session->planned.plan->config;
}

static bool has_classes(const struct evaluation *of) {
    return of->confusion.classes > 0;
}

/* What of the data was tested. */
static const char *split_of(const struct evaluation *of) {
    const struct run_config *config = config_of(of);
    if (config->dataset->undivided) return "all";
    return config->eval_split == SPLIT_TRAIN ? "train" : "test";
}

/* Labels that are ignored count nowhere. */
static enum status count(void *context, const struct engine_output *output) {
    struct evaluation *of = context;
    for (int64_t i = 0; has_classes(of) && i < output->samples; i++) {
        int64_t taken = forward_class(output->scores + i * output->classes, output->classes);
        if (output->labels[i] >= 0) confusion_add(&of->confusion, output->labels[i], taken);
    }
    return STATUS_OK;
}

/* Whole numbers, added in any order. */
static enum status add_ranks(struct evaluation *of) {
    enum { PIECE = COMM_EXCHANGE_BYTES / sizeof(int64_t) };
    struct comm *comm = engine_comm(of->session->engine);
    int64_t *own = confusion_numbers(&of->confusion), left = confusion_count(of->confusion.classes);
    SCOPED_FREE int64_t *all = MEM_ARRAY(int64_t, PIECE * comm_size(comm));
    for (; comm_size(comm) > 1 && left > 0; left -= PIECE, own += PIECE) {
        size_t piece = left < PIECE ? (size_t)left : PIECE;
        TRY(comm_exchange(comm_world(comm), own, piece * sizeof *own, all));
        memset(own, 0, piece * sizeof *own);
        for (size_t i = 0; i < piece * (size_t)comm_size(comm); i++) own[i % piece] += all[i];
    }
    return STATUS_OK;
}

/* --- results --- */

/* exp of the first term, where that is of words. */
static double perplexity(const struct evaluation *of) {
    return config_of(of)->dataset->vocab > 0 ? exp(of->result.term[0]) : NAN;
}

static json_t *real(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *terms_json(const struct evaluation *of) {
    const struct graph *graph = of->session->planned.plan->micro[0].graph;
    json_t *terms = json_object();
    for (int i = 0; i < graph->loss_count; i++)
        json_object_set_new(terms, graph->losses[i].name, real(of->result.term[i]));
    return terms;
}

static json_t *result_json(const struct evaluation *of) {
    const struct run_config *config = config_of(of);
    json_t *all = json_pack("{s:s, s:s, s:s, s:s, s:I}", "model", config->model->name, "data",
                            config->dataset->spec, "split", split_of(of), "weights",
                            of->session->planned.options.argument[0], "samples",
                            (json_int_t)of->result.samples);
    if (!all) all = json_object(); /* a name may be no UTF-8 */
    json_object_set_new(all, "skipped_samples", json_integer((json_int_t)of->result.skipped));
    json_object_set_new(all, "loss", real(of->result.loss));
    json_object_set_new(all, "loss_terms", terms_json(of));
    json_object_set_new(all, "acc1", real(of->result.acc1));
    json_object_set_new(all, "acc5", real(of->result.acc5));
    json_object_set_new(all, "perplexity", real(perplexity(of)));
    json_object_set_new(all, "peak_bytes", json_integer(of->peak_bytes));
    json_object_set_new(all, "predicted_peak_bytes",
                        json_integer((json_int_t)plan_bytes(of->session->planned.plan)));
    json_object_set_new(all, "wall_s", real((double)of->result.ns * 1e-9));
    json_object_set_new(all, "predicted_s", real(of->predicted_ns * 1e-9));
    return all;
}

static void print_table(const struct evaluation *of, FILE *out) {
    const struct eval_result *result = &of->result;
    const struct graph *graph = of->session->planned.plan->micro[0].graph;
    struct text_table table = {.align = "ll"};
    char peak[TEXT_BYTES], predicted[TEXT_BYTES], wall[TEXT_BYTES], forecast[TEXT_BYTES];
    char accuracy[TEXT_BYTES];
    text_table_cell(&table, "samples"),
        text_table_cell(&table, "%lld, %s%s of %s", (long long)result->samples, split_of(of),
                        config_of(of)->dataset->undivided ? "" : " split",
                        config_of(of)->dataset->spec);
    if (result->skipped > 0)
        text_table_cell(&table, "damaged"),
            text_table_cell(&table, "%lld of the samples, skipped", (long long)result->skipped);
    text_table_cell(&table, "loss"), text_table_cell(&table, "%.4f", result->loss);
    for (int i = 0; graph->loss_count > 1 && i < graph->loss_count; i++)
        text_table_cell(&table, "  %s", graph->losses[i].name),
            text_table_cell(&table, "%.4f", result->term[i]);
    if (!isnan(perplexity(of)))
        text_table_cell(&table, "perplexity"), text_table_cell(&table, "%.4g", perplexity(of));
    if (!isnan(result->acc1))
        text_table_cell(&table, "accuracy"),
            text_table_cell(&table, "%s", text_accuracy(result->acc1, result->acc5, accuracy));
    text_table_cell(&table, "time"),
        text_table_cell(&table, "%s (predicted %s)", text_duration((double)result->ns * 1e-9, wall),
                        text_duration(of->predicted_ns * 1e-9, forecast));
    text_table_cell(&table, "peak memory"),
        text_table_cell(&table, "%s (predicted %s)", text_size(of->peak_bytes, peak),
                        text_size((int64_t)plan_bytes(of->session->planned.plan), predicted));
    text_table_print(&table, 0, out);
    text_table_free(&table);
    if (has_classes(of)) {
        fputs("\n", out);
        confusion_print(&of->confusion, out);
    }
}

static enum status write_json(const struct evaluation *of, struct file_writer *file) {
    json_auto_t *all = result_json(of);
    if (has_classes(of)) {
        json_t *classes = confusion_json(&of->confusion);
        json_object_update(all, classes);
        json_decref(classes);
    }
    SCOPED_FREE char *text = json_shown(all, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    TRY(file_write(file, text, strlen(text)));
    return file_write(file, "\n", 1);
}

static enum status write_csv(const struct evaluation *of, struct file_writer *file) {
    if (!has_classes(of))
        return fail(STATUS_USAGE, "--output %s: model %s has no classes to list\n  a .json file",
                    file->path, config_of(of)->model->name);
    confusion_csv(&of->confusion, file->stream);
    return STATUS_OK;
}

static enum status write_output(const struct evaluation *of) {
    const struct options *options = &of->session->planned.options;
    struct file_writer file;
    if (!option_is_given(options, OPTION_output)) return STATUS_OK;
    TRY(file_begin(options->output, &file));
    enum status status =
        text_ends_in(options->output, ".csv") ? write_csv(of, &file) : write_json(of, &file);
    if (status == STATUS_OK) return file_commit(&file);
    file_abandon(&file);
    return status;
}

static void print_json(const struct evaluation *of, FILE *out) {
    json_auto_t *all = result_json(of);
    json_print(all, JSON_COMPACT | JSON_REAL_PRECISION(17), out);
}

static enum status show(const struct evaluation *of) {
    const struct options *options = &of->session->planned.options;
    TRY(write_output(of));
    if (options->json)
        print_json(of, stdout);
    else if (!options->quiet)
        print_table(of, stdout);
    return STATUS_OK;
}

/* The program in virtual time: a round, as often as it is run. */
static enum status forecast(struct evaluation *of) {
    SCOPED(view_forecast_close) struct view_forecast view = {0};
    if (!forward_is_first(of->session)) return STATUS_OK;
    TRY(view_forecast_open(&of->session->planned, false, &view));
    of->predicted_ns = view.forecast.result.step * (double)of->session->planned.plan->eval_rounds;
    return STATUS_OK;
}

static enum status evaluate(struct session *session) {
    const struct plan *plan = session->planned.plan;
    struct evaluation of = {.session = session};
    struct forward forward = {.context = &of};
    int64_t rows, classes;
    engine_output_shape(plan, &rows, &classes);
    if (rows == 1 && engine_output_has_classes(plan)) {
        forward.output = count;
        confusion_new(classes, plan->config.dataset->names, plan->config.dataset->classes,
                      &of.confusion);
    }
    enum status status = engine_agree(session->engine, forecast(&of));
    if (status == STATUS_OK) status = forward_run(session, &forward, &of.result);
    if (status == STATUS_OK && has_classes(&of)) status = add_ranks(&of);
    of.peak_bytes = result_peak_bytes(session);
    if (status == STATUS_OK)
        status = engine_agree(session->engine, forward_is_first(session) ? show(&of) : STATUS_OK);
    confusion_free(&of.confusion);
    return status;
}

static enum status eval_with(const struct options *options) {
    static const struct use use = {.run = evaluate};
    return begin(options, &use);
}

enum status eval_run(const struct options *options) {
    const char *output = option_is_given(options, OPTION_output) ? options->output : NULL;
    log_quiet(options->quiet);
    if (output && !text_ends_in(output, ".json") && !text_ends_in(output, ".csv"))
        return fail(STATUS_USAGE, "--output %s: a .json or a .csv file is written", output);
    return trained_with(options, eval_with);
}
