/* The four displays are one table of functions; all they know comes from metrics rows. */
#include "record/progress.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/display.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/shown.h"
#include "base/text.h"

static const int64_t redraw_ns = 100000000;
enum {
    PARTS = 10,
    PART_BYTES = 64,
    BAR_MIN = 10,
    BAR_MAX = 30,
    BAR_EDGE = 4,
    SHORT_LINE = 60,
    LINE_BYTES = 512
};

struct display {
    void (*step)(struct progress *, const struct metrics_row *);
    void (*eval)(struct progress *, const struct metrics_row *);
};

struct progress {
    struct progress_config config;
    const struct display *display;
    int64_t start_ns, drawn_ns;
    double acc1;               /* of the last evaluation, NaN before it */
    struct metrics_row newest; /* of a step; step 0 before the first */
    atomic_bool on_screen;     /* a bar is */
};

/* The one whose bar log messages must clear away. */
static _Atomic(struct progress *) current;

static void clear(void) {
    struct progress *progress = atomic_load(&current);
    if (!progress || !atomic_exchange(&progress->on_screen, false)) return;
    fputs("\r\033[K", progress->config.stream);
    fflush(progress->config.stream);
}

static double seconds_left(const struct progress *progress, const struct metrics_row *row) {
    const struct progress_config *config = &progress->config;
    int64_t done = row->step - config->first_step, left = config->total_steps - row->step;
    if (done <= 0 || left < 0) return NAN;
    double elapsed_s = (double)(config->now_ns() - progress->start_ns) * 1e-9;
    return elapsed_s / (double)done * (double)left;
}

static int digits(int64_t count) {
    return snprintf(NULL, 0, "%lld", (long long)count);
}

/* What is said of a step, the most important first; an empty text is not known. Aligned, the bar
 * before it does not move as steps are counted up. */
static void step_parts(const struct progress *progress, const struct metrics_row *row, bool aligned,
                       char parts[PARTS][PART_BYTES]) {
    const struct progress_config *config = &progress->config;
    char left[TEXT_BYTES], rate[TEXT_BYTES];
    memset(parts, 0, PARTS * PART_BYTES);
    if (config->total_steps > 0)
        snprintf(parts[0], PART_BYTES, "step %*lld/%lld", aligned ? digits(config->total_steps) : 0,
                 (long long)row->step, (long long)config->total_steps);
    else
        snprintf(parts[0], PART_BYTES, "step %lld", (long long)row->step);
    snprintf(parts[1], PART_BYTES, "loss %.4f", row->loss);
    if (config->total_steps > 0)
        snprintf(parts[2], PART_BYTES, "left %s",
                 text_duration(round(seconds_left(progress, row)), left));
    if (isfinite(row->samples_per_s))
        snprintf(parts[3], PART_BYTES, "%s samples/s", text_rate(row->samples_per_s, rate));
    if (isfinite(progress->acc1))
        snprintf(parts[4], PART_BYTES, "last eval acc1 %.2f%%", progress->acc1 * 100);
    snprintf(parts[5], PART_BYTES, "epoch %lld", (long long)row->epoch);
    if (isfinite(row->virtual_s))
        snprintf(parts[6], PART_BYTES, "virtual time %s", text_duration(row->virtual_s, left));
    if (config->numbers && isfinite(row->numbers))
        snprintf(parts[7], PART_BYTES, "mini-batches %.0f", row->numbers);
    if (config->numbers && isfinite(row->least))
        snprintf(parts[8], PART_BYTES, "replicas at %.0f to %.0f", row->least, row->most);
    if (isfinite(row->group_size))
        snprintf(parts[9], PART_BYTES, "groups of %.1f", row->group_size);
}

static void eval_text(const struct metrics_row *row, char text[LINE_BYTES]) {
    int used = snprintf(text, LINE_BYTES, "epoch %lld  step %lld  eval loss %.4f",
                        (long long)row->epoch, (long long)row->step, row->loss);
    if (isfinite(row->acc1))
        used += snprintf(text + used, LINE_BYTES - (size_t)used, "  acc1 %.2f%%", row->acc1 * 100);
    if (isfinite(row->acc5))
        snprintf(text + used, LINE_BYTES - (size_t)used, "  acc5 %.2f%%", row->acc5 * 100);
}

/* An evaluation is a line of its own on a terminal too. */
static void plain_eval(struct progress *progress, const struct metrics_row *row) {
    char text[LINE_BYTES];
    eval_text(row, text);
    shown_print(progress->config.stream, "%-s\n", text);
    fflush(progress->config.stream);
}

/* Bar. */

static int columns_of(const struct progress *progress) {
    if (progress->config.columns > 0) return progress->config.columns;
    return text_columns(progress->config.stream, 80);
}

/* A bar, unless the line is short, and as many parts as fit behind it. */
static void bar_line(const struct progress *progress, const struct metrics_row *row, int columns,
                     char line[LINE_BYTES]) {
    char parts[PARTS][PART_BYTES], text[PARTS * (PART_BYTES + 2)] = "";
    int room = (columns < LINE_BYTES ? columns : LINE_BYTES) - 1; /* the last cell wraps */
    int text_room = columns < SHORT_LINE ? room : room - BAR_MIN - BAR_EDGE, used = 0;
    step_parts(progress, row, columns >= SHORT_LINE, parts);
    for (int i = 0; i < PARTS; i++) {
        int need = (int)strlen(parts[i]) + (used > 0 ? 2 : 0);
        if (!parts[i][0] || used + need > text_room) continue;
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%s", used > 0 ? "  " : "",
                         parts[i]);
    }
    int width = room - used - BAR_EDGE < BAR_MAX ? room - used - BAR_EDGE : BAR_MAX;
    if (width < BAR_MIN || progress->config.total_steps <= 0) {
        snprintf(line, LINE_BYTES, "%s", text);
        return;
    }
    int full = (int)((double)width * (double)row->step / (double)progress->config.total_steps);
    full = full > width ? width : full;
    char bar[BAR_MAX + 1] = "";
    memset(bar, '#', (size_t)full);
    memset(bar + full, '.', (size_t)(width - full));
    snprintf(line, LINE_BYTES, "[%s]  %s", bar, text);
}

static void bar_draw(struct progress *progress, const struct metrics_row *row) {
    char line[LINE_BYTES];
    bar_line(progress, row, columns_of(progress), line);
    fprintf(progress->config.stream, "\r%s\033[K", line);
    atomic_store(&progress->on_screen, true);
    fflush(progress->config.stream);
    progress->drawn_ns = progress->config.now_ns();
}

static void bar_step(struct progress *progress, const struct metrics_row *row) {
    bool last = row->step == progress->config.total_steps;
    if (progress->newest.step > 0 && !last &&
        progress->config.now_ns() - progress->drawn_ns < redraw_ns)
        return;
    bar_draw(progress, row);
}

static void bar_eval(struct progress *progress, const struct metrics_row *row) {
    clear();
    plain_eval(progress, row);
    if (progress->newest.step > 0) bar_draw(progress, &progress->newest);
}

/* Lines. */

static bool line_is_due(const struct progress *progress, const struct metrics_row *row) {
    const struct progress_config *config = &progress->config;
    return row->step == config->first_step + 1 || row->step == config->total_steps ||
           (config->log_every > 0 && row->step % config->log_every == 0) ||
           (config->steps_per_epoch > 0 && row->step % config->steps_per_epoch == 0);
}

static void plain_step(struct progress *progress, const struct metrics_row *row) {
    if (!line_is_due(progress, row)) return;
    char parts[PARTS][PART_BYTES];
    step_parts(progress, row, false, parts);
    for (int i = 0; i < PARTS; i++)
        if (parts[i][0]) shown_print(progress->config.stream, "%s%s", i ? "  " : "", parts[i]);
    fputs("\n", progress->config.stream);
    fflush(progress->config.stream);
}

static void json_line(struct progress *progress, const struct metrics_row *row) {
    metrics_emit(progress->config.stream, row);
    fflush(progress->config.stream);
}

static void json_step(struct progress *progress, const struct metrics_row *row) {
    if (line_is_due(progress, row)) json_line(progress, row);
}

static void nothing(struct progress *progress, const struct metrics_row *row) {
    (void)progress, (void)row;
}

static const struct display bar = {bar_step, bar_eval}, plain = {plain_step, plain_eval},
                            json = {json_step, json_line}, quiet = {nothing, nothing};

static const struct display *choose(const struct progress_config *config) {
    if (config->quiet) return &quiet;
    if (config->json) return &json;
    if (config->columns != 0) return config->columns > 0 ? &bar : &plain;
    const char *term = getenv("TERM");
    bool able = term && strcmp(term, "dumb") != 0;
    return able && isatty(display_fd(config->stream)) ? &bar : &plain;
}

struct progress *progress_open(const struct progress_config *config) {
    struct progress *progress = MEM_NEW(struct progress);
    progress->config = *config;
    if (!config->stream) progress->config.stream = display_out();
    if (!config->now_ns) progress->config.now_ns = clock_ns;
    progress->display = choose(&progress->config);
    progress->start_ns = progress->config.now_ns();
    progress->acc1 = NAN;
    if (progress->display == &bar) {
        atomic_store(&current, progress);
        log_before(clear);
    }
    return progress;
}

void progress_step(struct progress *progress, const struct metrics_row *row) {
    progress->display->step(progress, row);
    progress->newest = *row;
}

void progress_eval(struct progress *progress, const struct metrics_row *row) {
    progress->acc1 = row->acc1;
    progress->display->eval(progress, row);
}

void progress_close(struct progress **progress) {
    if (!*progress) return;
    if ((*progress)->display == &bar) {
        log_before(NULL);
        if ((*progress)->newest.step > 0) { /* the newest may have come too soon to be drawn */
            bar_draw(*progress, &(*progress)->newest);
            fputs("\n", (*progress)->config.stream);
        }
        atomic_store(&current, NULL);
    }
    fflush((*progress)->config.stream);
    free(*progress);
    *progress = NULL;
}
