/* The drawings: well-formed and harmless whatever the timeline holds, every block there, no number
 * gone wrong. */
#include "folder.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "record/draw.h"
#include "record/draw_parts.h"
#include "sample.h"

static struct sample sample;

static void set_up(void) {
    sample_make(&sample, 4, 8);
    sample_version(&sample, TIMELINE_PREDICTED, &sample_predicted);
}

static void tear_down(void) {
    sample_free(&sample);
}

TestSuite(record_draw, .init = set_up, .fini = tear_down);

static char *svg_of(const struct timeline *timeline) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    cr_assert_eq(draw_svg(stream, timeline), STATUS_OK);
    cr_assert_eq(fclose(stream), 0);
    return text;
}

static char *html_of(const struct timeline *timeline) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    draw_html_page(stream, timeline);
    cr_assert_eq(fclose(stream), 0);
    return text;
}

static int count_of(const char *text, const char *part) {
    int count = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) count++;
    return count;
}

/* --- XML, as strict as a parser --- */

struct xml {
    const char *at;
    char open[64][24];
    int depth;
};

static size_t xml_name(const char *at) {
    size_t length = 0;
    while (isalnum((unsigned char)at[length]) || strchr(":-_", at[length] ? at[length] : ' '))
        length++;
    return length;
}

static void xml_entity(const char *at) {
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strncmp(at, known[i], strlen(known[i])) == 0) return;
    cr_assert(false, "bare & at %.60s", at);
}

static void xml_attributes(struct xml *xml) {
    while (isspace((unsigned char)*xml->at)) {
        xml->at += strspn(xml->at, " \n");
        size_t length = xml_name(xml->at);
        if (length == 0) return;
        cr_assert_eq(strncmp(xml->at + length, "=\"", 2), 0, "attribute at %.60s", xml->at);
        const char *value = xml->at + length + 2, *end = strchr(value, '"');
        cr_assert(end, "open quote at %.60s", value);
        size_t bytes = (size_t)(end - value);
        cr_assert_not(memchr(value, '<', bytes), "< in an attribute at %.60s", value);
        cr_assert_not(memmem(value, bytes, "nan", 3) || memmem(value, bytes, "inf", 3),
                      "not a finite number at %.60s", xml->at);
        for (const char *c = value; c < end; c++)
            if (*c == '&') xml_entity(c);
        xml->at = end + 1;
    }
}

static void xml_tag(struct xml *xml) {
    bool closing = *xml->at == '/';
    xml->at += closing;
    size_t length = xml_name(xml->at);
    cr_assert(length > 0 && length < 24, "tag at %.60s", xml->at);
    char name[24] = "";
    memcpy(name, xml->at, length);
    xml->at += length;
    if (closing) {
        cr_assert(xml->depth > 0 && strcmp(xml->open[xml->depth - 1], name) == 0,
                  "</%s> out of order", name);
        xml->depth--;
    } else {
        xml_attributes(xml);
        bool alone = *xml->at == '/';
        xml->at += alone;
        cr_assert_lt(xml->depth, 63);
        if (!alone) memcpy(xml->open[xml->depth++], name, sizeof name);
    }
    cr_assert_eq(*xml->at++, '>', "end of <%s> at %.60s", name, xml->at - 1);
}

static void check_xml(const char *text) {
    struct xml xml = {.at = text};
    while (*xml.at) {
        if (*xml.at == '<') {
            xml.at++;
            xml_tag(&xml);
            cr_assert(xml.depth > 0 || strspn(xml.at, "\n") == strlen(xml.at), "after the root");
            continue;
        }
        if (*xml.at == '&') xml_entity(xml.at);
        xml.at++;
    }
    cr_assert_eq(xml.depth, 0);
}

/* The data inside a page, parsed; the caller frees it. */
static json_t *data_of(const char *page) {
    static const char start[] = "<script type=\"application/json\" class=\"tl-data\">";
    const char *from = strstr(page, start);
    cr_assert(from);
    from += sizeof start - 1;
    const char *end = strstr(from, "</script>");
    cr_assert(end);
    json_error_t error;
    json_t *data = json_loadb(from, (size_t)(end - from), 0, &error);
    cr_assert(data, "%s at %d", error.text, error.position);
    cr_assert_not(memchr(from, '<', (size_t)(end - from)), "< in the data");
    return data;
}

/* Both drawings, checked. */
static void check_both(const struct timeline *timeline) {
    char *svg = svg_of(timeline), *html = html_of(timeline);
    check_xml(svg);
    cr_assert_eq(count_of(html, "<script"), 2);
    cr_assert_eq(count_of(html, "</script>"), 2);
    json_decref(data_of(html));
    cr_assert_not(strstr(html, "nan%"));
    free(svg);
    free(html);
}

static size_t lane_blocks(const json_t *data, int version, size_t row) {
    json_t *lane = json_array_get(
        json_object_get(json_array_get(json_object_get(data, "versions"), (size_t)version),
                        "lanes"),
        row);
    return json_array_size(json_object_get(lane, "b")) / 3;
}

/* --- tests --- */

Test(record_draw, every_block_is_there) {
    char *svg = svg_of(&sample.timeline), *html = html_of(&sample.timeline);
    check_xml(svg);
    cr_assert_eq(count_of(svg, "<rect class=\"b "), (int)draw_interval_count(&sample.timeline));
    json_t *data = data_of(html);
    size_t sum = 0;
    for (size_t r = 0; r < 4; r++) {
        cr_assert_eq(lane_blocks(data, 0, r), sample.timeline.version[0].lane[r].interval_count);
        sum += lane_blocks(data, 0, r);
    }
    cr_assert_eq(sum, draw_interval_count(&sample.timeline));
    cr_assert(strstr(svg, ">31.5%<") && strstr(html, ">31.5%<"));
    json_decref(data);
    free(svg);
    free(html);
}

Test(record_draw, both_versions) {
    sample_version(&sample, TIMELINE_MEASURED, &sample_measured);
    char *svg = svg_of(&sample.timeline), *html = html_of(&sample.timeline);
    check_xml(svg);
    cr_assert_eq(count_of(svg, "<rect class=\"b "), (int)draw_interval_count(&sample.timeline));
    cr_assert(strstr(svg, "longer than the predicted"));
    cr_assert(strstr(html, "Where the difference came from"));
    cr_assert(strstr(html, "value=\"both\" checked"));
    free(svg);
    free(html);
}

Test(record_draw, texts_cannot_break_out) {
    static const char *const bad =
        "</script><script>alert(1)</script>\"'&<b>]]>\\\x01\xff\xE2\x80\xA8";
    struct timeline_kind kinds[SAMPLE_LOAD + 1];
    memcpy(kinds, sample_kinds, sizeof kinds);
    for (int i = 0; i <= SAMPLE_LOAD; i++) kinds[i].name = bad;
    for (size_t r = 0; r < 4; r++) {
        sample.rows[r].label = bad;
        const struct timeline_lane *lane = &sample.lanes[0][r];
        struct timeline_interval *interval = (struct timeline_interval *)lane->interval;
        for (size_t i = 0; i < lane->interval_count; i++) interval[i].text = bad;
    }
    struct timeline timeline = sample.timeline;
    timeline.title = bad;
    timeline.kind = kinds;
    timeline.subtitle = timeline.sentence = &bad;
    timeline.subtitle_count = timeline.sentence_count = 1;
    check_both(&timeline);
    char *html = html_of(&timeline);
    cr_assert_not(strstr(html, "<script>alert") || strstr(html, "<b>]"));
    json_t *data = data_of(html);
    const char *label = json_string_value(json_array_get(json_object_get(data, "labels"), 0));
    cr_assert(strstr(label, "</script><script>alert(1)</script>\"'&<b>]]>\\\x01"));
    json_decref(data);
    free(html);
}

Test(record_draw, nothing_one_and_odd) {
    struct timeline timeline = {.title = "empty"};
    timeline.version[0].figures = timeline.version[1].figures = timeline_figures_none;
    check_both(&timeline);
    const struct timeline_interval odd[] = {
        {.begin = 5, .end = 5}, {.begin = 9, .end = 7, .micro = -1}, {.begin = 7, .end = 7}};
    struct timeline_row row = {NULL, 0};
    struct timeline_lane lane = {0};
    timeline.row = &row;
    timeline.row_count = 1;
    timeline.kind = sample_kinds;
    timeline.kind_count = 7;
    timeline.version[TIMELINE_MEASURED].lane = &lane;
    check_both(&timeline); /* a rank without intervals */
    lane = (struct timeline_lane){odd, 1, NULL, 0};
    check_both(&timeline); /* one of no length */
    lane = (struct timeline_lane){odd, 3, NULL, 0};
    check_both(&timeline);
}

Test(record_draw, huge_times_and_sizes) {
    const struct timeline_interval far[] = {{.begin = INT64_MIN, .end = INT64_MIN + 1},
                                            {.begin = 0, .end = INT64_MAX, .micro = INT16_MAX}};
    const struct timeline_point points[] = {{INT64_MIN, 0}, {0, INT64_MAX}};
    struct timeline_row row = {"rank 0", INT64_MAX};
    struct timeline_lane lane = {far, 2, points, 2};
    struct timeline timeline = {.kind = sample_kinds, .kind_count = 7, .row = &row, .row_count = 1};
    timeline.version[0].lane = timeline.version[1].lane = &lane;
    timeline.version[0].figures = timeline.version[1].figures = timeline_figures_none;
    timeline.version[0].figures.step_low = INFINITY;
    check_both(&timeline);
    timeline.unit = TIMELINE_UNITS;
    check_both(&timeline);
}

Test(record_draw, many_rows_are_thinned_and_said) {
    size_t count = 2 * DRAW_SVG_ROWS + 1;
    struct timeline_lane *lanes = MEM_ARRAY(struct timeline_lane, count);
    struct timeline_row *rows = MEM_ARRAY(struct timeline_row, count);
    for (size_t i = 0; i < count; i++) {
        lanes[i] = sample.lanes[0][0];
        rows[i].label = "rank";
    }
    struct timeline timeline = sample.timeline;
    timeline.row = rows;
    timeline.row_count = count;
    timeline.version[0].lane = lanes;
    char *svg = svg_of(&timeline);
    check_xml(svg);
    cr_assert(strstr(svg, "One of 3 rows is drawn: 171 of 513 ranks."));
    free(svg);
    free(lanes);
    free(rows);
}

Test(record_draw, shades_and_inks) {
    cr_assert_eq(draw_shade_of(TIMELINE_NONE, 8), 0);
    cr_assert_eq(draw_shade_of(0, 1), 0);
    for (int micros = 2; micros < 300; micros++) {
        cr_assert_eq(draw_shade_of(0, micros), 0);
        cr_assert_eq(draw_shade_of(micros - 1, micros), DRAW_SHADES - 1);
    }
    cr_assert_eq(draw_colour(TIMELINE_FORWARD, 0, false),
                 timeline_categories[TIMELINE_FORWARD].light);
    cr_assert_eq(draw_ink_on(0x000000), 0xffffff);
    cr_assert_eq(draw_ink_on(0xffffff), 0x14181f);
}

Test(record_draw, the_name_gives_the_form) {
    make_folder();
    log_quiet(true);
    char *path = mem_format("%s/x.png", folder), *svg = mem_format("%s/x.svg", folder);
    cr_assert_eq(draw_write(path, &sample.timeline), STATUS_USAGE);
    cr_assert_not(file_exists(path));
    cr_assert_eq(draw_write(svg, &sample.timeline), STATUS_OK);
    struct bytes bytes;
    cr_assert_eq(file_read(svg, 1 << 24, &bytes), STATUS_OK);
    check_xml((const char *)bytes.data);
    bytes_free(&bytes);
    free(path);
    free(svg);
    remove_folder();
}
