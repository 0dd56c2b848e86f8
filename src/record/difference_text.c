/* The parts of a difference as sentences. A part is left out below 0.5% of the step: nobody acts on
 * it. */
#include "record/difference.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"

static const double SMALLEST = 0.005; /* of the step */
static const double MOSTLY = 0.6;     /* share from which a row is named */
static const double FAR = 10;         /* times from which both lengths say more than a percentage */
enum { PARTS = 3, NAME = 48 };

/* A row's label up to the first " · ": "rank 2". */
static const char *row_name(const struct timeline *timeline, int32_t row, char name[NAME]) {
    const char *label = timeline->row[row].label ? timeline->row[row].label : "";
    const char *end = strstr(label, " \xC2\xB7 ");
    int length = end ? (int)(end - label) : (int)strlen(label);
    snprintf(name, NAME, "%.*s", length, label);
    if (!*name) snprintf(name, NAME, "row %d", row);
    return name;
}

/* "1.2 ms", or "3 units". */
static const char *amount(const struct timeline *timeline, double time, char text[TEXT_BYTES]) {
    timeline_time(timeline, fabs(time), text);
    if (timeline->unit == TIMELINE_UNITS && strlen(text) + 7 < TEXT_BYTES)
        strncat(text, " units", TEXT_BYTES - strlen(text) - 1);
    return text;
}

static const char *share_of(double part, double whole, char text[TEXT_BYTES]) {
    double percent = fabs(part / whole) * 100;
    snprintf(text, TEXT_BYTES, percent < 9.95 ? "%.1f%%" : "%.0f%%", percent);
    return text;
}

static double delta_of(const struct difference_part *part) {
    return (double)part->measured - (double)part->predicted;
}

/* What is drawn. The time from one step to the next is another: steps leave gaps, or overlap. */
static char *span(const struct timeline *timeline) {
    if (timeline->steps < 2) return mem_text("From its first instruction to its last the step");
    return mem_format("The %d steps that are drawn", timeline->steps);
}

static char *whole_sentence(const struct timeline *timeline, const struct difference *all) {
    char measured[TEXT_BYTES], predicted[TEXT_BYTES], share[TEXT_BYTES];
    double delta = (double)all->measured - (double)all->predicted;
    amount(timeline, (double)all->measured, measured);
    amount(timeline, (double)all->predicted, predicted);
    SCOPED_FREE char *what = span(timeline);
    if (fabs(delta) < 0.0005 * (double)all->predicted)
        return mem_format("%s took %s, as predicted.", what, measured);
    if (all->predicted == 0) return mem_format("%s took %s; none was predicted.", what, measured);
    if (delta > (double)all->predicted)
        return mem_format("%s took %s, %.3g times the predicted %s.", what, measured,
                          (double)all->measured / (double)all->predicted, predicted);
    return mem_format("%s took %s, %s %s than the predicted %s.", what, measured,
                      share_of(delta, (double)all->predicted, share),
                      delta > 0 ? "longer" : "shorter", predicted);
}

static char *kind_sentence(const struct timeline *timeline, const struct difference_part *part) {
    char time[TEXT_BYTES], share[TEXT_BYTES], name[NAME], where[NAME + 32] = "";
    double delta = delta_of(part);
    const struct timeline_kind *kind = &timeline->kind[part->kind];
    const struct timeline_category_row *category = &timeline_categories[kind->category];
    const char *what = category->track == TIMELINE_SIDE ? "exposed " : "";
    amount(timeline, delta, time);
    if (part->most_row >= 0 && part->most_share >= MOSTLY && timeline->row_count > 1)
        snprintf(where, sizeof where, ", most of it on %s",
                 row_name(timeline, part->most_row, name));
    const char *effect = delta > 0 ? "adds" : "saves";
    if (part->predicted == 0)
        return mem_format("%s (%s%s) was not predicted: it adds %s%s.", kind->name, what,
                          category->text, time, where);
    if (delta > (FAR - 1) * (double)part->predicted)
        return mem_format("%s (%s%s) took %s instead of %s along the path that set the step "
                          "time%s.",
                          kind->name, what, category->text,
                          amount(timeline, (double)part->measured, time),
                          amount(timeline, (double)part->predicted, share), where);
    return mem_format("%s (%s%s) took %s %s than predicted along the path that set the step time: "
                      "it %s %s%s.",
                      kind->name, what, category->text,
                      share_of(delta, (double)part->predicted, share),
                      delta > 0 ? "longer" : "less", effect, time, where);
}

static char *part_sentence(const struct timeline *timeline, const struct difference_part *part) {
    char time[TEXT_BYTES], name[NAME];
    bool more = delta_of(part) > 0;
    amount(timeline, delta_of(part), time);
    switch (part->cause) {
    case DIFFERENCE_KIND: return kind_sentence(timeline, part);
    case DIFFERENCE_WAIT:
        return mem_format("Waiting for %s took %s %s than predicted.",
                          row_name(timeline, part->row, name), time, more ? "longer" : "less");
    case DIFFERENCE_IDLE:
        return mem_format("Gaps between instructions on %s were %s %s than predicted.",
                          row_name(timeline, part->row, name), time, more ? "longer" : "shorter");
    case DIFFERENCE_START:
        row_name(timeline, part->row, name);
        return mem_format("%c%s began %s %s than predicted.", toupper((unsigned char)name[0]),
                          name + 1, time, more ? "later" : "earlier");
    case DIFFERENCE_END:
        return mem_format("Another rank was predicted to end last, %s later: that is saved.", time);
    }
    return NULL;
}

int difference_sentences(const struct timeline *timeline, const struct difference *difference,
                         char *sentence[DIFFERENCE_SENTENCES]) {
    int count = 0;
    double longest = fmax((double)difference->predicted, (double)difference->measured);
    double rest = (double)difference->measured - (double)difference->predicted;
    sentence[count++] = whole_sentence(timeline, difference);
    for (size_t i = 0; i < difference->count && i < PARTS; i++) {
        const struct difference_part *part = &difference->part[i];
        if (fabs(delta_of(part)) < SMALLEST * longest) break;
        sentence[count++] = part_sentence(timeline, part);
        rest -= delta_of(part);
    }
    if (count == 1 || fabs(rest) < SMALLEST * longest) return count;
    char time[TEXT_BYTES];
    sentence[count++] = mem_format("Everything else together %s %s.", rest > 0 ? "adds" : "saves",
                                   amount(timeline, rest, time));
    return count;
}
