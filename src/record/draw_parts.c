/* Colours, figures and sentences of the drawings. */
#include "record/draw_parts.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "record/difference.h"

const double draw_lightest = 0.48;

int draw_shade_of(int32_t micro, int32_t micros) {
    if (micro < 0 || micros <= 1) return 0;
    if (micros <= DRAW_SHADES) return (int)(micro * (DRAW_SHADES - 1) / (micros - 1));
    return (int)((int64_t)micro * DRAW_SHADES / micros);
}

static uint32_t mix(uint32_t colour, uint32_t other, double share) {
    uint32_t mixed = 0;
    for (int shift = 0; shift <= 16; shift += 8) {
        double a = (colour >> shift) & 255, b = (other >> shift) & 255;
        mixed |= (uint32_t)lround(a + (b - a) * share) << shift;
    }
    return mixed;
}

uint32_t draw_colour(enum timeline_category category, int shade, bool dark) {
    const struct timeline_category_row *row = &timeline_categories[category];
    return mix(dark ? row->dark : row->light, 0xffffff, draw_lightest * shade / (DRAW_SHADES - 1));
}

/* Relative luminance as WCAG defines it. */
static double luminance(uint32_t colour) {
    static const double weight[] = {0.0722, 0.7152, 0.2126};
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        double part = ((colour >> (8 * i)) & 255) / 255.0;
        sum += weight[i] * (part <= 0.03928 ? part / 12.92 : pow((part + 0.055) / 1.055, 2.4));
    }
    return sum;
}

uint32_t draw_ink_on(uint32_t colour) {
    double light = luminance(colour);
    return 1.05 / (light + 0.05) > (light + 0.05) / 0.055 ? 0xffffff : 0x14181f;
}

/* Whether any interval has the category (or any, for TIMELINE_CATEGORIES) and is critical enough.
 */
static bool any(const struct timeline *timeline, int category, bool critical) {
    for (int v = 0; v < TIMELINE_VERSIONS; v++)
        for (size_t r = 0; timeline_has(timeline, v) && r < timeline->row_count; r++) {
            const struct timeline_lane *lane = &timeline->version[v].lane[r];
            for (size_t i = 0; i < lane->interval_count; i++) {
                const struct timeline_interval *interval = &lane->interval[i];
                bool fits =
                    category == TIMELINE_CATEGORIES ||
                    timeline_category_of(timeline, interval) == &timeline_categories[category];
                if (fits && (interval->critical || !critical)) return true;
            }
        }
    return false;
}

bool draw_has_category(const struct timeline *timeline, enum timeline_category category) {
    return any(timeline, category, false);
}

bool draw_has_critical(const struct timeline *timeline) {
    return any(timeline, TIMELINE_CATEGORIES, true);
}

bool draw_has_side(const struct timeline *timeline) {
    for (size_t i = 0; i < timeline->kind_count; i++)
        if (timeline_categories[timeline->kind[i].category].track == TIMELINE_SIDE) return true;
    return false;
}

static void set_figure(struct draw_figure *figure, int v, double value, bool fraction,
                       const struct timeline *timeline) {
    if (!isfinite(value)) return;
    figure->there[v] = true;
    if (fraction && fabs(value) < 0.0005) value = 0; /* rounding must not say -0.0% */
    if (fraction)
        snprintf(figure->value[v], TEXT_BYTES, "%.1f%%", value * 100);
    else
        timeline_time(timeline, value, figure->value[v]);
    size_t used = strlen(figure->value[v]);
    if (!fraction && timeline->unit == TIMELINE_UNITS)
        snprintf(figure->value[v] + used, TEXT_BYTES - used, " units");
}

void draw_figures(const struct timeline *timeline, struct draw_figure figure[DRAW_FIGURES]) {
    static const char *const names[DRAW_FIGURES] = {
        "Step time", "Bubble", "Span bubble", "Exposed communication", "Peak memory of a rank"};
    for (int i = 0; i < DRAW_FIGURES; i++) figure[i] = (struct draw_figure){.name = names[i]};
    for (int v = 0; v < TIMELINE_VERSIONS; v++) {
        if (!timeline_has(timeline, v)) continue;
        struct timeline_figures is = timeline_figures(timeline, v);
        char low[TEXT_BYTES], high[TEXT_BYTES];
        set_figure(&figure[0], v, is.step, false, timeline);
        if (isfinite(is.step_low) && isfinite(is.step_high))
            snprintf(figure[0].note[v], sizeof figure[0].note[v], "%s to %s",
                     timeline_time(timeline, is.step_low, low),
                     timeline_time(timeline, is.step_high, high));
        set_figure(&figure[1], v, is.bubble, true, timeline);
        set_figure(&figure[2], v, is.span_bubble, true, timeline);
        set_figure(&figure[3], v, is.exposed, false, timeline);
        figure[4].there[v] = isfinite(is.peak_bytes) && is.peak_bytes < 9e18;
        if (figure[4].there[v]) text_size((int64_t)is.peak_bytes, figure[4].value[v]);
    }
}

char **draw_sentences(const struct timeline *timeline, size_t *count) {
    char **sentences = MEM_ARRAY(char *, timeline->sentence_count + DIFFERENCE_SENTENCES);
    *count = 0;
    for (size_t i = 0; i < timeline->sentence_count; i++)
        sentences[(*count)++] = mem_text(timeline->sentence[i]);
    if (!timeline_has(timeline, TIMELINE_PREDICTED) || !timeline_has(timeline, TIMELINE_MEASURED))
        return sentences;
    SCOPED(difference_free) struct difference difference = difference_of(timeline);
    *count += (size_t)difference_sentences(timeline, &difference, sentences + *count);
    return sentences;
}

struct draw_time_axis draw_time_axis(const struct timeline *timeline, double length, int most) {
    static const struct {
        double ns;
        const char *name;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
    struct draw_time_axis time = {.scale = 1, .unit = ""};
    for (int i = 0; timeline->unit == TIMELINE_NS && i < 4; i++)
        if (length >= units[i].ns || i == 3) {
            time.scale = units[i].ns;
            time.unit = units[i].name;
            break;
        }
    time.axis = axis_fit(AXIS_NUMBER, false, 0, length > 0 ? length / time.scale : 1, most);
    return time;
}
