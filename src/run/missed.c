/* See missed.h. A fact is named where it is large enough to matter: a tenth of a step or of a core,
 * a quarter of what was forecast. */
#include "run/missed.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/text.h"

static const double part_of_step = 0.1, part_of_core = 0.2, part_of_forecast = 0.25;

struct lists {
    char *differs, *hints; /* "", or with "; " between them */
};

static void append(char **list, const char *format, va_list args) {
    char text[512];
    vsnprintf(text, sizeof text, format, args);
    char *longer = mem_format("%s%s%s", *list, **list ? "; " : "", text);
    free(*list);
    *list = longer;
}

__attribute__((format(printf, 2, 3))) static void differs(struct lists *lists, const char *format,
                                                          ...) {
    va_list args;
    va_start(args, format);
    append(&lists->differs, format, args);
    va_end(args);
}

__attribute__((format(printf, 2, 3))) static void suggest(struct lists *lists, const char *format,
                                                          ...) {
    va_list args;
    va_start(args, format);
    append(&lists->hints, format, args);
    va_end(args);
}

static const char *ms_text(double ms, char text[TEXT_BYTES]) {
    return text_duration(ms * 1e-3, text);
}

static bool slower(const struct missed_facts *facts) {
    return facts->step_ms > facts->high_ms;
}

/* Whether two times differ by enough of the forecast, and of the step, in the direction of the
 * step. */
static bool apart(const struct missed_facts *facts, double measured, double predicted) {
    double more = slower(facts) ? measured - predicted : predicted - measured;
    return more > part_of_forecast * predicted && more > part_of_step * facts->step_ms;
}

/* --- cores --- */

static void add_others(const struct missed_facts *facts, struct lists *lists) {
    char cores[TEXT_BYTES];
    if (!(facts->other_cores >= part_of_core)) return;
    differs(lists, "other programs kept %.1f of %s busy meanwhile", facts->other_cores,
            text_count(facts->online_cores, "core", cores));
    suggest(lists, "run it while the machine does nothing else");
}

static void add_stolen(const struct missed_facts *facts, struct lists *lists) {
    char cores[TEXT_BYTES];
    if (!(facts->stolen_cores >= part_of_core)) return;
    differs(lists, "the hypervisor gave %.1f of %s to other machines (steal time)",
            facts->stolen_cores, text_count(facts->online_cores, "core", cores));
    suggest(lists, "another time, or a machine with cores of its own");
}

static void add_crowd(const struct missed_facts *facts, struct lists *lists) {
    char ranks[TEXT_BYTES], threads[TEXT_BYTES], cores[TEXT_BYTES];
    int all = facts->ranks * facts->threads;
    if (all <= facts->usable_cores) return;
    differs(lists, "%s with %s each take turns on %s%s", text_count(facts->ranks, "rank", ranks),
            text_count(facts->threads, "thread", threads),
            text_count(facts->usable_cores, "usable core", cores),
            facts->crowd * facts->usable_cores < all * 0.99
                ? ", for which the forecast counts with more cores"
                : ", and the forecast leaves out what the turns cost");
    suggest(lists, facts->threads > 1 ? "--threads %d" : "-n %d",
            facts->threads > 1 && facts->usable_cores >= facts->ranks
                ? facts->usable_cores / facts->ranks
            : facts->threads > 1 ? 1
                                 : facts->usable_cores);
}

/* What these come to; alone where none of them is known. */
static void add_cores(const struct missed_facts *facts, struct lists *lists) {
    if (!slower(facts)) return;
    add_others(facts, lists);
    add_stolen(facts, lists);
    add_crowd(facts, lists);
    if (facts->coreless >= part_of_step)
        differs(lists, "rank 0 was ready to go on and had no core for %.0f%% of the time",
                100 * facts->coreless);
}

/* --- work --- */

static void add_data(const struct missed_facts *facts, struct lists *lists) {
    char time[TEXT_BYTES];
    if (!slower(facts) || !(facts->data_ms > part_of_step * facts->step_ms)) return;
    differs(lists, "%s of a step waited for data, which the forecast leaves out",
            ms_text(facts->data_ms, time));
    suggest(lists, "more --workers, or data on a faster disk");
}

static void add_passes(const struct missed_facts *facts, struct lists *lists) {
    char took[TEXT_BYTES], forecast[TEXT_BYTES];
    if (!apart(facts, facts->passes_ms, facts->predicted_passes_ms)) return;
    ms_text(facts->passes_ms, took), ms_text(facts->predicted_passes_ms, forecast);
    if (!facts->profile) {
        differs(lists,
                "forward and backward took %s on rank 0, by the rules of the operations %s: "
                "none of them was measured on this machine",
                took, forecast);
        suggest(lists, "train with --save-profile FILE, then stretto simulate with --profile FILE");
        return;
    }
    differs(lists, "forward and backward took %s on rank 0, by the times of %s %s%s", took,
            facts->profile, forecast, facts->estimated ? ", which lacks some operations" : "");
    suggest(lists, "measure anew, here and with these options: --save-profile FILE");
}

static void add_waits(const struct missed_facts *facts, struct lists *lists) {
    char took[TEXT_BYTES], forecast[TEXT_BYTES];
    if (!apart(facts, facts->waits_ms, facts->predicted_waits_ms)) return;
    differs(lists, "rank 0 waited %s for other ranks and their messages, in the forecast %s%s",
            ms_text(facts->waits_ms, took), ms_text(facts->predicted_waits_ms, forecast),
            facts->spread ? ", which is for ranks of one machine" : "");
    if (facts->spread) suggest(lists, "stretto simulate --cluster FILE describes the links");
}

/* --- the whole --- */

static char *forecast_text(const struct missed_facts *facts) {
    char step[TEXT_BYTES], forecast[TEXT_BYTES], low[TEXT_BYTES], high[TEXT_BYTES];
    return mem_format("the median step took %s, %s the forecast of %s (90%% sure: %s to %s)",
                      ms_text(facts->step_ms, step), slower(facts) ? "above" : "below",
                      ms_text(facts->p50_ms, forecast), ms_text(facts->low_ms, low),
                      ms_text(facts->high_ms, high));
}

bool missed_words(const struct missed_facts *facts, struct missed_words *out) {
    bool known = facts->step_ms > 0 && facts->low_ms < facts->high_ms,
         outside = facts->step_ms < facts->low_ms || facts->step_ms > facts->high_ms;
    struct lists lists = {mem_text(""), mem_text("")};
    if (known && outside) {
        add_cores(facts, &lists);
        add_data(facts, &lists);
        add_passes(facts, &lists);
        add_waits(facts, &lists);
        if (!*lists.differs) differs(&lists, "nothing that was measured explains it");
        if (!*lists.hints)
            suggest(&lists, "report.html has the forecast and the measured step over one another");
        *out = (struct missed_words){forecast_text(facts), lists.differs, lists.hints};
        return true;
    }
    free(lists.differs);
    free(lists.hints);
    return false;
}

void missed_free(struct missed_words *words) {
    free(words->forecast);
    free(words->differs);
    free(words->hints);
    *words = (struct missed_words){0};
}
