/* The data of the HTML drawing as JSON for its script.
 *
 * An interval is three integers: begin less the begin before it, length, and one number for kind,
 * micro-batch and which of the lane's stages. What few have (causes, critical, texts, ids that do
 * not count up) is in lists beside them. That is some 20 bytes an interval, which a browser parses
 * at the speed of its JSON. Rejected: packed bytes in base64, a third smaller and unreadable. */
#include "record/draw_parts.h"

#include <inttypes.h>
#include <stdlib.h>

#include "record/draw.h"

/* The most that a script's numbers hold exactly. */
static const int64_t LARGEST = (int64_t)1 << 53;

static int64_t exact(int64_t value) {
    return value > LARGEST ? LARGEST : value < -LARGEST ? -LARGEST : value;
}

/* A string that can end neither its quotes nor the script element around it. */
static void emit_string(FILE *stream, const char *text) {
    putc('"', stream);
    for (text = text ? text : ""; *text;) {
        uint32_t code = 0;
        int length = text_utf8(text, &code);
        if (length == 0)
            fputs("\\ufffd", stream);
        else if (code < 0x20 || code == '"' || code == '\\' || code == '<' || code == '>' ||
                 code == '&' || code == 0x2028 || code == 0x2029)
            fprintf(stream, "\\u%04x", (unsigned)code);
        else
            fwrite(text, 1, (size_t)length, stream);
        text += length > 0 ? length : 1;
    }
    putc('"', stream);
}

enum { POINTS_MOST = 400 };

struct packing {
    FILE *stream;
    const struct timeline *timeline;
    struct timeline_range range;
    int32_t micros;
    bool texts;
    size_t step;
};

/* The stages that a lane's intervals name: a few, since a rank holds a few. */
static size_t find_stages(const struct timeline_interval **sorted, size_t count, int32_t **out) {
    int32_t *stages = NULL;
    size_t found = 0, capacity = 0;
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < found && stages[k] != sorted[i]->stage) k++;
        if (k < found) continue;
        stages = mem_grow(stages, &capacity, found + 1, sizeof *stages);
        stages[found++] = sorted[i]->stage;
    }
    *out = stages;
    return found;
}

static int64_t code_of(const struct packing *packing, const struct timeline_interval *interval,
                       const int32_t *stages) {
    int64_t stage = 0, micro = interval->micro >= 0 ? interval->micro + 1 : 0;
    while (stages[stage] != interval->stage) stage++;
    return (stage * (int64_t)packing->timeline->kind_count + interval->kind) *
               (packing->micros + 1) +
           micro;
}

static void emit_intervals(const struct packing *packing, const struct timeline_interval **sorted,
                           size_t count) {
    int64_t before = packing->range.origin;
    int32_t *stages;
    size_t stage_count = find_stages(sorted, count, &stages);
    for (size_t i = 0; i < stage_count; i++)
        fprintf(packing->stream, "%s%" PRId32, i ? "," : "{\"s\":[",
                stages[i] < 0 ? -1 : stages[i]);
    fputs(stage_count ? "],\"b\":[" : "{\"s\":[],\"b\":[", packing->stream);
    for (size_t i = 0; i < count; i++) {
        timeline_category_of(packing->timeline, sorted[i]);
        fprintf(packing->stream, "%s%" PRId64 ",%" PRId64 ",%" PRId64, i ? "," : "",
                exact(timeline_since(sorted[i]->begin, before)), exact(timeline_length(sorted[i])),
                code_of(packing, sorted[i], stages));
        before = sorted[i]->begin;
    }
    free(stages);
    fputs("],\"c\":[", packing->stream);
    const char *comma = "";
    for (size_t i = 0; i < count; i++)
        if (sorted[i]->critical) {
            fprintf(packing->stream, "%s%zu", comma, i);
            comma = ",";
        }
    fputs("]", packing->stream);
}

static void emit_causes(const struct packing *packing, const struct timeline_interval **sorted,
                        size_t count) {
    const char *comma = "";
    fputs(",\"w\":[", packing->stream);
    for (size_t i = 0; packing->texts && i < count; i++)
        if (sorted[i]->cause_row >= 0) {
            fprintf(packing->stream, "%s%zu,%" PRId32 ",%" PRId32, comma, i, sorted[i]->cause_row,
                    sorted[i]->cause_id);
            comma = ",";
        }
    fputs("]", packing->stream);
}

static void emit_names(const struct packing *packing, const struct timeline_interval **sorted,
                       size_t count) {
    char text[TIMELINE_TEXT];
    bool counting = true, any = false;
    for (size_t i = 0; i < count; i++) {
        counting &= sorted[i]->id == (int64_t)i;
        any |= sorted[i]->text != NULL;
    }
    for (size_t i = 0; !counting && i < count; i++)
        fprintf(packing->stream, "%s%" PRId32, i ? "," : ",\"id\":[",
                sorted[i]->id - (i ? sorted[i - 1]->id : 0));
    if (!counting) fputs("]", packing->stream);
    if (!any || !packing->texts) return;
    for (size_t i = 0; i < count; i++) {
        fputs(i ? "," : ",\"t\":[", packing->stream);
        emit_string(packing->stream, timeline_text(packing->timeline, sorted[i], text));
    }
    fputs("]", packing->stream);
}

/* A long curve in short: of each group of points the highest. */
static void emit_memory(const struct packing *packing, const struct timeline_lane *lane) {
    int64_t before = packing->range.origin;
    size_t group = packing->texts ? 1 : (lane->point_count + POINTS_MOST - 1) / POINTS_MOST;
    fputs(",\"m\":[", packing->stream);
    for (size_t i = 0; i < lane->point_count; i += group) {
        const struct timeline_point *point = &lane->point[i];
        for (size_t k = i + 1; k < i + group && k < lane->point_count; k++)
            if (lane->point[k].bytes > point->bytes) point = &lane->point[k];
        fprintf(packing->stream, "%s%" PRId64 ",%" PRId64, i ? "," : "",
                exact(timeline_since(point->at, before)), exact(point->bytes));
        before = point->at;
    }
    fputs("]", packing->stream);
}

static void emit_lane(const struct packing *packing, const struct timeline_lane *lane) {
    SCOPED_FREE const struct timeline_interval **sorted = timeline_sorted(lane);
    struct timeline_use use = timeline_use(packing->timeline, lane, packing->range);
    emit_intervals(packing, sorted, lane->interval_count);
    emit_causes(packing, sorted, lane->interval_count);
    emit_names(packing, sorted, lane->interval_count);
    emit_memory(packing, lane);
    fprintf(packing->stream, ",\"bubble\":%.4f,\"peak\":%" PRId64 "}", use.bubble,
            exact(use.peak_bytes));
}

static void emit_arrows(const struct packing *packing, const struct timeline_side *side) {
    fputs("],\"arrows\":[", packing->stream);
    for (size_t i = 0; packing->texts && packing->step == 1 && i < side->arrow_count; i++)
        fprintf(packing->stream, "%s%" PRId32 ",%" PRId64 ",%" PRId32 ",%" PRId64, i ? "," : "",
                side->arrow[i].from_row,
                exact(timeline_since(side->arrow[i].from, packing->range.origin)),
                side->arrow[i].to_row,
                exact(timeline_since(side->arrow[i].to, packing->range.origin)));
    fputs("]}", packing->stream);
}

static void emit_version(struct packing *packing, enum timeline_version version) {
    const struct timeline_side *side = &packing->timeline->version[version];
    if (!side->lane) {
        fputs("null", packing->stream);
        return;
    }
    packing->range = timeline_range(packing->timeline, version);
    fprintf(packing->stream, "{\"length\":%" PRId64 ",\"lanes\":[\n", exact(packing->range.length));
    for (size_t r = 0; r < packing->timeline->row_count; r += packing->step) {
        if (r > 0) fputs(",\n", packing->stream);
        emit_lane(packing, &side->lane[r]);
    }
    emit_arrows(packing, side);
}

static void emit_tables(const struct packing *packing) {
    const struct timeline *timeline = packing->timeline;
    FILE *stream = packing->stream;
    fputs(",\"labels\":[", stream);
    for (size_t r = 0; r < timeline->row_count; r += packing->step) {
        fputs(r ? "," : "", stream);
        emit_string(stream, timeline->row[r].label);
    }
    fputs("],\"limits\":[", stream);
    for (size_t r = 0; r < timeline->row_count; r += packing->step)
        fprintf(stream, "%s%" PRId64, r ? "," : "", exact(timeline->row[r].limit_bytes));
    fputs("],\"kinds\":[", stream);
    for (size_t i = 0; i < timeline->kind_count; i++) {
        fputs(i ? ",[" : "[", stream);
        emit_string(stream, timeline->kind[i].name);
        fprintf(stream, ",%d]", timeline->kind[i].category);
    }
    fputs("],\"cats\":[", stream);
    for (int i = 0; i < TIMELINE_CATEGORIES; i++) {
        const struct timeline_category_row *row = &timeline_categories[i];
        fprintf(stream, "%s[\"%s\",%d,%d,%d,%u,%u]", i ? "," : "", row->text, row->track, row->work,
                row->hatched, row->light, row->dark);
    }
    fputs("]", stream);
}

size_t draw_interval_count(const struct timeline *timeline) {
    size_t count = 0;
    for (int v = 0; v < TIMELINE_VERSIONS; v++)
        for (size_t r = 0; timeline_has(timeline, v) && r < timeline->row_count; r++)
            count += timeline->version[v].lane[r].interval_count;
    return count;
}

void draw_data(FILE *stream, const struct timeline *timeline, size_t step) {
    struct packing packing = {.stream = stream,
                              .timeline = timeline,
                              .micros = timeline_micros(timeline),
                              .texts = draw_interval_count(timeline) <= DRAW_TEXTS,
                              .step = step};
    fprintf(stream,
            "{\"unit\":\"%s\",\"step\":%zu,\"micros\":%" PRId32 ",\"lightest\":%.2f,\"sides\":%d",
            timeline->unit == TIMELINE_NS ? "ns" : "", step, packing.micros, draw_lightest,
            draw_has_side(timeline));
    emit_tables(&packing);
    fputs(",\"versions\":[", stream);
    emit_version(&packing, TIMELINE_PREDICTED);
    fputs(",", stream);
    emit_version(&packing, TIMELINE_MEASURED);
    fputs("]}", stream);
}
