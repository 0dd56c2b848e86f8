/* See predictions.h. */
#include "run/predictions.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "run/forward.h"
#include "tensor/npy.h"

enum answer_form { AS_LOGITS, AS_PROBABILITIES, AS_CLASSES };

struct predictions {
    struct session *session;
    const char *path; /* "-": standard output */
    bool lines;       /* JSON lines, not .npy */
    enum answer_form form;
    int64_t rows, classes, samples; /* samples of all ranks */
    int64_t top;
    const char *const *names; /* of the first `named` classes */
    int64_t named;

    bool whole;              /* one rank: what is made goes straight into the output */
    bool begun;              /* the output was */
    struct npy_writer npy;   /* of .npy, on the first rank */
    struct file_writer file; /* of lines, likewise */
    FILE *part;              /* NULL: none */
    char *part_base;         /* the names of all parts but their numbers */
    float *row;              /* of one sample */
    int64_t *order;          /* of one row: the classes named */
};

static bool to_screen(const char *path) {
    return strcmp(path, "-") == 0;
}

enum status predictions_check(const struct options *options) {
    if (!option_is_given(options, OPTION_output))
        return fail(STATUS_USAGE, "--output FILE is missing: where predictions go\n"
                                  "  a .npy file, JSON lines in a .jsonl file, or - for standard "
                                  "output");
    const char *path = options->output;
    bool npy = text_ends_in(path, ".npy");
    if (npy && option_is_given(options, OPTION_top))
        return fail(STATUS_USAGE, "--top is of JSON lines: it has no effect on %s", path);
    if (npy || text_ends_in(path, ".jsonl") || to_screen(path)) return STATUS_OK;
    return fail(STATUS_USAGE,
                "--output %s: a .npy file, JSON lines in a .jsonl file, or - is written", path);
}

/* --- what is written of a sample --- */

/* As the loss sees them, in f64. */
static void to_probabilities(const float *scores, int64_t classes, float *out) {
    double most = scores[0], sum = 0;
    for (int64_t c = 1; c < classes; c++) most = scores[c] > most ? scores[c] : most;
    for (int64_t c = 0; c < classes; c++) sum += exp(scores[c] - most);
    for (int64_t c = 0; c < classes; c++) out[c] = (float)(exp(scores[c] - most) / sum);
}

static enum status write_failed(const char *where) {
    return fail(STATUS_DATA, "%s: write failed: %s", where, strerror(errno));
}

static enum status put(struct predictions *of, const void *data, size_t bytes) {
    if (of->whole && !of->lines) return npy_emit(&of->npy, data, bytes);
    if (of->whole && !to_screen(of->path)) return file_write(&of->file, data, bytes);
    FILE *to = of->whole ? stdout : of->part;
    if (fwrite(data, 1, bytes, to) == bytes) return STATUS_OK;
    return write_failed(of->whole ? "standard output" : of->part_base);
}

/* For an input that could not be read: NaN for each score, and no class. */
static enum status put_no_numbers(struct predictions *of) {
    int64_t count = of->rows * of->classes, none = -1;
    if (of->form == AS_CLASSES) return put(of, &none, sizeof none); /* labels are of one row */
    for (int64_t i = 0; i < count; i++) of->row[i] = NAN;
    return put(of, of->row, (size_t)count * sizeof *of->row);
}

static enum status put_numbers(struct predictions *of, const float *scores) {
    int64_t count = of->rows * of->classes;
    if (!scores) return put_no_numbers(of);
    if (of->form == AS_LOGITS) return put(of, scores, (size_t)count * sizeof *scores);
    for (int64_t r = 0; r < of->rows; r++) {
        const float *row = scores + r * of->classes;
        int64_t class = forward_class(row, of->classes);
        if (of->form == AS_CLASSES) TRY(put(of, &class, sizeof class));
        if (of->form == AS_PROBABILITIES)
            to_probabilities(row, of->classes, of->row + r * of->classes);
    }
    if (of->form == AS_CLASSES) return STATUS_OK;
    return put(of, of->row, (size_t)count * sizeof *of->row);
}

/* The highest first, of equal ones the first. */
static int64_t best_of(struct predictions *of, const float *scores) {
    int64_t count = of->top < of->classes ? of->top : of->classes, found = 0;
    for (int64_t c = 0; c < of->classes; c++) {
        if (found == count && !(scores[c] > scores[of->order[found - 1]])) continue;
        int64_t at = found < count ? found++ : count - 1;
        while (at > 0 && scores[c] > scores[of->order[at - 1]])
            of->order[at] = of->order[at - 1], at--;
        of->order[at] = c;
    }
    return found;
}

/* Names of files are any bytes, JSON is UTF-8: what is broken becomes the sign for that. */
static void print_text(FILE *out, const char *text) {
    char *whole = text_mended(text);
    json_auto_t *value = json_string(whole);
    free(whole);
    SCOPED_FREE char *quoted = value ? json_shown(value, JSON_ENCODE_ANY) : NULL;
    fputs(quoted ? quoted : "null", out);
}

static void print_class(const struct predictions *of, FILE *out, int64_t class) {
    fprintf(out, "\"class\":%lld", (long long)class);
    if (class >= of->named) return;
    fputs(",\"name\":", out);
    print_text(out, of->names[class]);
}

static void print_vector(FILE *out, const char *key, const float *values, int64_t count) {
    fprintf(out, ",\"%s\":[", key);
    for (int64_t i = 0; i < count; i++) fprintf(out, "%s%.9g", i ? "," : "", (double)values[i]);
    fputc(']', out);
}

/* Of a sample with one row of scores. */
static void print_one(struct predictions *of, FILE *out, const float *scores) {
    int64_t count = best_of(of, scores);
    to_probabilities(scores, of->classes, of->row);
    fputc(',', out);
    print_class(of, out, of->order[0]);
    fputs(",\"top\":[", out);
    for (int64_t i = 0; i < count; i++) {
        fputs(i ? ",{" : "{", out);
        print_class(of, out, of->order[i]);
        fprintf(out, ",\"probability\":%.9g}", (double)of->row[of->order[i]]);
    }
    fputc(']', out);
    bool asked = option_is_given(&of->session->planned.options, OPTION_as);
    if (asked && of->form == AS_LOGITS) print_vector(out, "logits", scores, of->classes);
    if (asked && of->form == AS_PROBABILITIES)
        print_vector(out, "probabilities", of->row, of->classes);
}

/* Of many rows: a class for each. */
static void print_rows(const struct predictions *of, FILE *out, const float *scores) {
    fputs(",\"classes\":[", out);
    for (int64_t r = 0; r < of->rows; r++)
        fprintf(out, "%s%lld", r ? "," : "",
                (long long)forward_class(scores + r * of->classes, of->classes));
    fputc(']', out);
}

/* Which file the input is, where it is one. */
static void print_file(const struct predictions *of, FILE *out, int64_t index) {
    const struct run_config *config = &of->session->planned.plan->config;
    SCOPED_FREE char *file = dataset_file(config->dataset, config->eval_split, index);
    if (!file) return;
    fputs(",\"file\":", out);
    print_text(out, file);
}

static enum status put_line(struct predictions *of, int64_t index, const float *scores) {
    SCOPED_FREE char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    CHECK(out, "a stream in memory");
    fprintf(out, "{\"index\":%lld", (long long)index);
    print_file(of, out, index);
    if (!scores)
        fputs(",\"damaged\":true", out);
    else if (of->rows == 1)
        print_one(of, out, scores);
    else
        print_rows(of, out, scores);
    fputs("}\n", out);
    fclose(out);
    return put(of, text, bytes);
}

static enum status check_finite(const struct predictions *of, int64_t index, const float *scores) {
    for (int64_t i = 0; i < of->rows * of->classes; i++) {
        if (isfinite(scores[i])) continue;
        double value = isnan(scores[i]) ? NAN : (double)scores[i];
        return fail(STATUS_NUMERIC,
                    "sample %lld: the score of class %lld is %g\n  nothing is written; is the "
                    "input what the model was trained on?",
                    (long long)index, (long long)(i % of->classes), value);
    }
    return STATUS_OK;
}

/* With --damaged skip: what stands in for a picture is no input that anybody gave. */
static bool is_damaged(const struct predictions *of, const struct engine_output *output,
                       int64_t i) {
    return of->session->planned.plan->config.dataset->skips_damaged && of->rows == 1 &&
           output->labels[i] == LABEL_IGNORE;
}

enum status predictions_add(void *context, const struct engine_output *output) {
    struct predictions *of = context;
    int64_t each = of->rows * of->classes;
    for (int64_t i = 0; i < output->samples; i++) {
        const float *scores = is_damaged(of, output, i) ? NULL : output->scores + i * each;
        if (scores) TRY(check_finite(of, output->sample_id[i], scores));
        TRY(of->lines ? put_line(of, output->sample_id[i], scores) : put_numbers(of, scores));
    }
    return STATUS_OK;
}

/* --- files --- */

static enum status begin_output(struct predictions *of) {
    enum dtype dtype = of->form == AS_CLASSES ? DTYPE_I64 : DTYPE_F32;
    struct shape shape = {.rank = 1, .dim = {of->samples}};
    if (of->rows > 1) shape.dim[shape.rank++] = of->rows;
    if (of->form != AS_CLASSES) shape.dim[shape.rank++] = of->classes;
    if (to_screen(of->path)) return STATUS_OK;
    TRY(of->lines ? file_begin(of->path, &of->file) : npy_begin(of->path, dtype, &shape, &of->npy));
    of->begun = true;
    return STATUS_OK;
}

static char *part_name(const struct predictions *of, int pipeline) {
    return mem_format("%s.part-%d", of->part_base, pipeline);
}

/* Whether this rank has outputs, and of which pipeline. */
static bool own_pipeline(const struct predictions *of, int *out) {
    const struct plan *plan = of->session->planned.plan;
    const struct run_config *config = &plan->config;
    const struct grid *grid = &config->grid;
    *out = group_of(grid, GROUP_PIPELINE, config->rank);
    return config->cell.role == GRID_STAGE &&
           grid_position(grid, ranges_output_stage(&plan->micro[0].ranges)) ==
               config->cell.position;
}

/* The process of the first rank makes the names of this start's parts. */
static enum status name_parts(struct predictions *of) {
    struct comm *comm = engine_comm(of->session->engine);
    int64_t own = (int64_t)getpid(), *all = MEM_ARRAY(int64_t, comm_size(comm));
    const char *folder = getenv("TMPDIR");
    enum status status = comm_exchange(comm_world(comm), &own, sizeof own, all);
    if (status == STATUS_OK && to_screen(of->path))
        of->part_base =
            mem_format("%s/stretto-predict-%lld", folder ? folder : "/tmp", (long long)all[0]);
    else if (status == STATUS_OK)
        of->part_base = mem_format("%s.%lld", of->path, (long long)all[0]);
    free(all);
    return status;
}

/* A new file: TMPDIR is everybody's, and a link that lies there must not be followed. What a killed
 * process of this number left goes. */
static enum status open_part(struct predictions *of) {
    int pipeline;
    if (!own_pipeline(of, &pipeline)) return STATUS_OK;
    SCOPED_FREE char *name = part_name(of, pipeline);
    unlink(name);
    of->part = fopen(name, "wxe");
    return of->part ? STATUS_OK
                    : fail(STATUS_DATA, "%s: cannot be written: %s", name, strerror(errno));
}

static enum answer_form form_of(const struct options *options) {
    if (!option_is_given(options, OPTION_as)) return AS_PROBABILITIES;
    static const char *const words[] = {
        [AS_LOGITS] = "logits", [AS_PROBABILITIES] = "probabilities", [AS_CLASSES] = "classes"};
    return (enum answer_form)TEXT_FIND(options->as, words);
}

enum status predictions_open(struct session *session, struct predictions **out) {
    const struct options *options = &session->planned.options;
    const struct plan *plan = session->planned.plan;
    const struct run_config *config = &plan->config;
    struct predictions *of = MEM_NEW(struct predictions);
    *of = (struct predictions){.session = session,
                               .path = options->output,
                               .lines = !text_ends_in(options->output, ".npy"),
                               .form = form_of(options),
                               .samples = config->dataset->count[config->eval_split],
                               .top = options->top,
                               .names = config->dataset->names,
                               .named = config->dataset->names ? config->dataset->classes : 0,
                               .whole = comm_size(engine_comm(session->engine)) == 1};
    engine_output_shape(plan, &of->rows, &of->classes);
    of->row = MEM_ARRAY(float, of->rows * of->classes);
    of->order = MEM_ARRAY(int64_t, of->top);
    enum status status = of->whole ? STATUS_OK : name_parts(of);
    if (status == STATUS_OK && forward_is_first(session)) status = begin_output(of);
    if (status == STATUS_OK && !of->whole) status = open_part(of);
    status = engine_agree(session->engine, status);
    if (status == STATUS_OK)
        *out = of;
    else
        predictions_close(&of, status);
    return status;
}

/* --- joining --- */

static enum status cut_short(const struct predictions *of, int pipeline) {
    return fail(STATUS_DATA, "%s.part-%d: it ends too early\n  ranks need a folder that they share",
                of->part_base, pipeline);
}

/* The batch's bytes out of its part. */
static enum status join_numbers(struct predictions *of, FILE *part, int64_t samples, int pipeline) {
    size_t each = of->form == AS_CLASSES ? (size_t)of->rows * sizeof(int64_t)
                                         : (size_t)(of->rows * of->classes) * sizeof(float);
    SCOPED_FREE char *row = mem_new(each);
    for (int64_t i = 0; i < samples; i++)
        TRY(fread(row, 1, each, part) == each ? npy_emit(&of->npy, row, each)
                                              : cut_short(of, pipeline));
    return STATUS_OK;
}

static enum status join_lines(struct predictions *of, FILE *part, int64_t samples, int pipeline) {
    SCOPED_FREE char *line = NULL;
    size_t room = 0;
    of->whole = true; /* from here on lines go where they belong */
    for (int64_t i = 0; i < samples; i++) {
        ssize_t bytes = getline(&line, &room, part);
        TRY(bytes > 0 ? put(of, line, (size_t)bytes) : cut_short(of, pipeline));
    }
    return STATUS_OK;
}

/* Batches were dealt to the pipelines in turn. */
static enum status join_parts(struct predictions *of, FILE **parts, int pipelines) {
    int64_t batch = of->session->planned.plan->eval_batch;
    for (int64_t first = 0, b = 0; first < of->samples; first += batch, b++) {
        int pipeline = (int)(b % pipelines);
        int64_t left = of->samples - first, samples = left < batch ? left : batch;
        TRY(of->lines ? join_lines(of, parts[pipeline], samples, pipeline)
                      : join_numbers(of, parts[pipeline], samples, pipeline));
    }
    return STATUS_OK;
}

static enum status join(struct predictions *of) {
    int pipelines = group_count(&of->session->planned.plan->config.grid, GROUP_PIPELINE);
    SCOPED_FREE FILE **parts = MEM_ARRAY(FILE *, pipelines);
    enum status status = STATUS_OK;
    for (int p = 0; p < pipelines && status == STATUS_OK; p++) {
        SCOPED_FREE char *name = part_name(of, p);
        parts[p] = fopen(name, "r");
        if (!parts[p]) status = file_open_failed(name);
    }
    if (status == STATUS_OK) status = join_parts(of, parts, pipelines);
    for (int p = 0; p < pipelines; p++)
        if (parts[p]) fclose(parts[p]);
    return status;
}

static enum status close_part(struct predictions *of) {
    bool failed = of->part && fclose(of->part) != 0;
    of->part = NULL;
    return failed ? write_failed(of->part_base) : STATUS_OK;
}

static void remove_part(const struct predictions *of) {
    int pipeline;
    if (!of->part_base || !own_pipeline(of, &pipeline)) return;
    SCOPED_FREE char *name = part_name(of, pipeline);
    unlink(name);
}

/* The first rank's. */
static enum status end_output(struct predictions *of, enum status status) {
    if (status == STATUS_OK && to_screen(of->path) && fflush(stdout) != 0)
        return write_failed("standard output");
    if (!of->begun) return status;
    if (status == STATUS_OK) return of->lines ? file_commit(&of->file) : npy_end(&of->npy);
    if (of->lines)
        file_abandon(&of->file);
    else
        npy_abandon(&of->npy);
    return status;
}

enum status predictions_close(struct predictions **predictions, enum status status) {
    struct predictions *of = *predictions;
    if (!of) return status;
    struct engine *engine = of->session->engine;
    bool first = forward_is_first(of->session), good = status == STATUS_OK;
    enum status closed = close_part(of);
    if (good) status = engine_agree(engine, closed);
    if (status == STATUS_OK && first && !of->whole) status = join(of);
    if (first) status = end_output(of, status);
    if (good) status = engine_agree(engine, status);
    remove_part(of);
    free(of->part_base);
    free(of->row);
    free(of->order);
    free(of);
    *predictions = NULL;
    return status;
}
