/* What report.html makes of single figures: cards, bars of time, ranks and memory. */
#include "record/report_parts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "record/html.h"

enum { LINE = 160, SHOWN_RANKS = 8 };

static void emit_card(FILE *stream, const char *title, const char *value, const char *below) {
    fprintf(stream, "<div class=\"card\"><h2>%s</h2><strong>%s</strong><span>%s</span></div>\n",
            title, value, below);
}

static void accuracy_card(FILE *stream, const struct summary *summary) {
    char value[TEXT_BYTES], five[TEXT_BYTES], below[LINE] = "last evaluation";
    if (isnan(summary->acc1)) {
        emit_card(stream, "Accuracy", "&ndash;", "not measured");
        return;
    }
    if (!isnan(summary->acc5))
        snprintf(below, sizeof below, "%s among the best five", html_percent(summary->acc5, five));
    emit_card(stream, "Accuracy", html_percent(summary->acc1, value), below);
}

static void loss_card(FILE *stream, const struct summary *summary) {
    char value[TEXT_BYTES], first[TEXT_BYTES], last[TEXT_BYTES], below[LINE] = "not measured";
    bool evaluated = !isnan(summary->eval_loss);
    if (!isnan(summary->loss_first) || !isnan(summary->loss_last))
        snprintf(below, sizeof below, "training %s &rarr; %s",
                 isnan(summary->loss_first) ? "?" : html_number(summary->loss_first, first),
                 isnan(summary->loss_last) ? "?" : html_number(summary->loss_last, last));
    double shown = evaluated ? summary->eval_loss : summary->loss_last;
    emit_card(stream, evaluated ? "Evaluation loss" : "Training loss",
              isnan(shown) ? "&ndash;" : html_number(shown, value), below);
}

static void speed_card(FILE *stream, const struct summary *summary) {
    char value[TEXT_BYTES], count[TEXT_BYTES], below[LINE] = "of all ranks";
    int64_t skipped = summary->steps_not_timed;
    if (isnan(summary->samples_per_s))
        snprintf(below, sizeof below, "not measured");
    else if (skipped > 0)
        snprintf(below, sizeof below, "without the first %s step%s", html_integer(skipped, count),
                 skipped == 1 ? "" : "s");
    emit_card(stream, "Samples a second",
              isnan(summary->samples_per_s) ? "&ndash;"
                                            : html_number(summary->samples_per_s, value),
              below);
}

static void step_card(FILE *stream, const struct summary *summary) {
    char value[TEXT_BYTES], slow[TEXT_BYTES], planned[TEXT_BYTES], below[LINE] = "not measured";
    double p50 = summary->step_ms.p50, predicted = summary->predicted_step_ms.p50;
    if (!isnan(summary->step_ms.p90))
        snprintf(below, sizeof below, "median, from step to step; 90%% within %s%s%s",
                 text_duration(summary->step_ms.p90 / 1e3, slow),
                 isnan(predicted) ? "" : "; predicted ",
                 isnan(predicted) ? "" : text_duration(predicted / 1e3, planned));
    emit_card(stream, "Step time", isnan(p50) ? "&ndash;" : text_duration(p50 / 1e3, value), below);
}

static int64_t item_of(const struct summary_ints *ints, int rank) {
    return rank >= 0 && rank < ints->count ? ints->item[rank] : SUMMARY_NO_INT;
}

/* The rank that needed most, and what was predicted for it. */
static void memory_card(FILE *stream, const struct summary *summary) {
    char value[TEXT_BYTES], planned[TEXT_BYTES], below[LINE] = "not measured",
                                                 where[TEXT_BYTES] = "";
    int rank = summary_largest(&summary->peak_bytes);
    int planned_rank = rank < 0 ? summary_largest(&summary->predicted_peak_bytes) : rank;
    int64_t peak = item_of(&summary->peak_bytes, rank);
    int64_t predicted = item_of(&summary->predicted_peak_bytes, planned_rank);
    if (summary->peak_bytes.count > 1 && rank >= 0)
        snprintf(where, sizeof where, "rank %d; ", rank);
    if (predicted != SUMMARY_NO_INT && peak != SUMMARY_NO_INT && peak > 0) {
        double off = 100 * ((double)predicted / (double)peak - 1);
        snprintf(below, sizeof below, "%spredicted %s (%s%.1f%%)", where,
                 text_size(predicted, planned), off < 0 ? "&minus;" : "+", fabs(off));
    } else if (predicted != SUMMARY_NO_INT)
        snprintf(below, sizeof below, "%spredicted %s", where, text_size(predicted, planned));
    else if (peak != SUMMARY_NO_INT)
        snprintf(below, sizeof below, "%snothing was predicted", where);
    emit_card(stream, "Peak memory", peak == SUMMARY_NO_INT ? "&ndash;" : text_size(peak, value),
              below);
}

static void wall_card(FILE *stream, const struct summary *summary) {
    char value[TEXT_BYTES], cpu[TEXT_BYTES], below[LINE] = "";
    double used = summary->user_s + summary->sys_s;
    if (isnan(summary->wall_s))
        snprintf(below, sizeof below, "not measured");
    else if (!isnan(used))
        snprintf(below, sizeof below, "%s of processor time", text_duration(used, cpu));
    emit_card(stream, "Whole run",
              isnan(summary->wall_s) ? "&ndash;" : text_duration(summary->wall_s, value), below);
}

void report_cards(FILE *stream, const struct summary *summary) {
    fputs("<section class=\"cards\">\n", stream);
    accuracy_card(stream, summary);
    loss_card(stream, summary);
    speed_card(stream, summary);
    step_card(stream, summary);
    memory_card(stream, summary);
    wall_card(stream, summary);
    fputs("</section>\n", stream);
}

struct part {
    const char *name;
    double ms;
};

static void emit_part_row(FILE *stream, const struct part *part, int color, double sum) {
    char text[TEXT_BYTES];
    fprintf(stream, "<tr><td><u class=\"k t%d\"></u>%s</td><td>%s</td><td>%.1f%%</td></tr>\n",
            color, part->name, text_duration(part->ms / 1e3, text), 100 * part->ms / sum);
}

/* Hidden communication runs beside computation: it has a row but no place in the bar. */
static void emit_hidden_row(FILE *stream, double ms) {
    char text[TEXT_BYTES];
    if (isfinite(ms) && ms > 0)
        fprintf(stream,
                "<tr><td><u class=\"k\"></u>communication hidden behind the above</td>"
                "<td>%s</td><td></td></tr>\n",
                text_duration(ms / 1e3, text));
}

void report_time(FILE *stream, const struct summary *summary) {
    const struct part parts[] = {
        {"waiting for data", summary->time_ms.data},
        {"forward", summary->time_ms.forward},
        {"backward", summary->time_ms.backward},
        {"communication", summary->time_ms.comm_exposed},
        {"optimizer", summary->time_ms.optimizer},
        {"idle: waiting for other ranks", summary->time_ms.idle},
    };
    enum { PARTS = sizeof parts / sizeof parts[0] };
    char text[TEXT_BYTES];
    double sum = 0;
    for (int i = 0; i < PARTS; i++)
        sum += isfinite(parts[i].ms) && parts[i].ms > 0 ? parts[i].ms : 0;
    fputs("<section class=\"panel\">\n<h2>Where a step's time went</h2>\n", stream);
    if (!(sum > 0 && isfinite(sum))) {
        fputs("<p class=\"none\">Not measured in this run.</p>\n</section>\n", stream);
        return;
    }
    fputs("<div class=\"stack\">", stream);
    for (int i = 0; i < PARTS; i++)
        if (isfinite(parts[i].ms) && parts[i].ms > 0)
            fprintf(stream, "<i class=\"t%d\" style=\"width:%.3f%%\" title=\"%s %s\"></i>", i,
                    100 * parts[i].ms / sum, parts[i].name, text_duration(parts[i].ms / 1e3, text));
    fputs("</div>\n<table>\n", stream);
    for (int i = 0; i < PARTS; i++)
        if (isfinite(parts[i].ms) && parts[i].ms > 0) emit_part_row(stream, &parts[i], i, sum);
    emit_hidden_row(stream, summary->time_ms.comm_hidden);
    fprintf(stream,
            "<tr class=\"sum\"><td>mean of a step</td><td>%s</td><td></td></tr>\n</table>\n",
            text_duration(sum / 1e3, text));
    fputs("</section>\n", stream);
}

static void emit_bar(FILE *stream, const char *name, const char *style, double share,
                     const char *text) {
    fprintf(stream,
            "<div class=\"bar\"><span>%s</span><i><i class=\"%s\" style=\"width:%.2f%%\"></i></i>"
            "<b>%s</b></div>\n",
            name, style, 100 * share, text);
}

static void emit_bytes(FILE *stream, const char *name, const char *style, int64_t bytes,
                       int64_t most) {
    char text[TEXT_BYTES];
    if (bytes == SUMMARY_NO_INT)
        fprintf(stream, "<div class=\"bar\"><span>%s</span><em>not known</em></div>\n", name);
    else
        emit_bar(stream, name, style, most > 0 && bytes > 0 ? (double)bytes / (double)most : 0.0,
                 text_size(bytes, text));
}

static double rank_ms(const struct curves_rank *rank) {
    return rank->rows > 0 ? rank->ms_sum / (double)rank->rows : NAN;
}

static void emit_sent(FILE *stream, const struct summary_ints *sent) {
    char low_text[TEXT_BYTES], high_text[TEXT_BYTES];
    int high = summary_largest(sent);
    if (high < 0 || sent->item[high] <= 0) return;
    int64_t low = sent->item[high];
    for (int r = 0; r < sent->count; r++) {
        if (sent->item[r] != SUMMARY_NO_INT && sent->item[r] < low) low = sent->item[r];
    }
    text_size(low, low_text);
    text_size(sent->item[high], high_text);
    if (strcmp(low_text, high_text) == 0)
        fprintf(stream, " Each sends %s a step.", low_text);
    else
        fprintf(stream, " They send %s to %s a step.", low_text, high_text);
}

void report_ranks(FILE *stream, const struct summary *summary, const struct curves *curves) {
    char name[TEXT_BYTES], text[TEXT_BYTES];
    double most = 0;
    for (int r = 0; r < curves->ranks; r++) most = fmax(most, rank_ms(&curves->rank[r]));
    if (curves->ranks < 2 || !(most > 0)) return;
    fputs("<div class=\"row\">\n<section class=\"panel\">\n<h2>Own time of each rank in a "
          "step</h2>\n",
          stream);
    for (int r = 0; r < curves->ranks && r < SHOWN_RANKS; r++) {
        double ms = rank_ms(&curves->rank[r]);
        snprintf(name, sizeof name, "rank %d", r);
        emit_bar(stream, name, "real", ms > 0 ? ms / most : 0, text_duration(ms / 1e3, text));
    }
    fputs(
        "<p class=\"note\">Without waiting for others: ranks that differ here slow the rest down.",
        stream);
    emit_sent(stream, &summary->sent_bytes_per_step);
    if (curves->ranks > SHOWN_RANKS)
        fprintf(stream, " The first %d of %d ranks.", SHOWN_RANKS, curves->ranks);
    fputs("</p>\n</section>\n</div>\n", stream);
}

void report_staleness(FILE *stream, const struct summary *summary) {
    const struct summary_ints *of = &summary->staleness;
    int most = summary_largest(of);
    if (most < 0 || of->item[most] <= 0) return;
    fputs("<div class=\"row\">\n<section class=\"panel\">\n<h2>Staleness of updates</h2>\n",
          stream);
    for (int i = 0; i < of->count; i++) {
        char name[TEXT_BYTES], text[TEXT_BYTES];
        snprintf(name, sizeof name, "%d", i);
        snprintf(text, sizeof text, "%" PRId64, of->item[i]);
        emit_bar(stream, name, "real", (double)of->item[i] / (double)of->item[most], text);
    }
    fputs("<p class=\"note\">Updates of all ranks, by how many others came to the same parameters "
          "between their forward and themselves: measured.</p>\n</section>\n</div>\n",
          stream);
}

static void emit_ranks(FILE *stream, const struct summary_ints *peak,
                       const struct summary_ints *planned, int ranks, int64_t most) {
    for (int i = 0; i < ranks && i < SHOWN_RANKS; i++) {
        if (ranks > 1) fprintf(stream, "<h3>Rank %d</h3>\n", i);
        emit_bytes(stream, "predicted", "planned", item_of(planned, i), most);
        emit_bytes(stream, "measured", "real", item_of(peak, i), most);
    }
    fputs(
        "<p class=\"note\">Predicted before the start; measured as resident memory beyond what the "
        "process held before its plan.</p>\n",
        stream);
}

/* Of a GPU: what was taken after each part of the first steps. */
static void emit_phases(FILE *stream, const struct summary *summary) {
    const struct {
        const char *name;
        double bytes;
    } phases[] = {{"load", summary->device_bytes.load},
                  {"forward", summary->device_bytes.forward},
                  {"backward", summary->device_bytes.backward},
                  {"update", summary->device_bytes.update}};
    char text[TEXT_BYTES];
    if (isnan(phases[0].bytes) && isnan(phases[1].bytes)) return;
    fputs("<p class=\"note\">Memory taken of rank 0's GPU after", stream);
    for (int i = 0; i < 4; i++)
        if (!isnan(phases[i].bytes))
            fprintf(stream, "%s %s %s", i ? "," : "", phases[i].name,
                    text_size((int64_t)phases[i].bytes, text));
    fputs(".</p>\n", stream);
}

void report_memory(FILE *stream, const struct summary *summary) {
    const struct summary_ints *peak = &summary->peak_bytes,
                              *planned = &summary->predicted_peak_bytes;
    int high = summary_largest(peak), high_planned = summary_largest(planned);
    int ranks = peak->count > planned->count ? peak->count : planned->count;
    int64_t most = high < 0 ? 0 : peak->item[high];
    if (high_planned >= 0 && planned->item[high_planned] > most) most = planned->item[high_planned];
    fputs("<section class=\"panel\">\n<h2>Peak memory, predicted and measured</h2>\n", stream);
    if (high >= 0 || high_planned >= 0)
        emit_ranks(stream, peak, planned, ranks, most);
    else
        fputs("<p class=\"none\">Not measured in this run.</p>\n", stream);
    if (ranks > SHOWN_RANKS && high >= 0)
        fprintf(stream,
                "<p class=\"note\">The first %d of %d ranks; rank %d measured most. All are in "
                "summary.json below.</p>\n",
                SHOWN_RANKS, ranks, high);
    emit_phases(stream, summary);
    fputs("</section>\n", stream);
}
