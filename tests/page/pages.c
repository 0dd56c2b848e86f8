/* pages FOLDER: writes the drawings that `make test-page` looks at in a browser, and prints for
 * each its name, how many blocks it has and how many of them are measured. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../unit/record/sample.h"
#include "record/draw.h"

static const struct page {
    const char *name;
    int stages, micros;
    bool predicted, measured;
} pages[] = {
    {"4x8", 4, 8, true, false},       {"4x8-both", 4, 8, true, true},
    {"8x32-both", 8, 32, true, true}, {"16x64", 16, 64, true, false},
    {"64x128", 64, 128, true, false}, {"64x128-both", 64, 128, true, true},
    {"1x4", 1, 4, false, true},       {"1000x500", 1000, 500, true, false},
};

static const char *const subtitles[] = {
    "resnet18-cifar on cifar10 \xC2\xB7 the pipeline of the tests",
    "costs: a profile of 2 threads a rank; link 300 us a message",
};
static const char *const hostile = "</script><script>document.title='broken'</script>\"'&<b>";

static size_t count_of(const struct timeline *timeline, enum timeline_version version) {
    size_t count = 0;
    for (size_t r = 0; timeline_has(timeline, version) && r < timeline->row_count; r++)
        count += timeline->version[version].lane[r].interval_count;
    return count;
}

static enum status write_page(const char *folder, const struct page *page, bool hostile_names) {
    struct sample sample;
    sample_make(&sample, page->stages, page->micros);
    if (page->predicted) sample_version(&sample, TIMELINE_PREDICTED, &sample_predicted);
    if (page->measured) sample_version(&sample, TIMELINE_MEASURED, &sample_measured);
    struct timeline *timeline = &sample.timeline;
    char stages[TEXT_BYTES], micros[TEXT_BYTES];
    char *title = mem_format("1f1b, %s x %s", text_count(page->stages, "stage", stages),
                             text_count(page->micros, "micro-batch", micros));
    timeline->title = hostile_names ? hostile : title;
    timeline->subtitle = subtitles;
    timeline->subtitle_count = 2;
    timeline->sentence = &hostile;
    timeline->sentence_count = hostile_names;
    for (int s = 0; s < page->stages; s++) {
        sample.rows[s].limit_bytes = page->micros == 8 ? 400 << 20 : 0;
        if (hostile_names) sample.rows[s].label = hostile;
    }
    struct timeline_figures *figures = &timeline->version[TIMELINE_PREDICTED].figures;
    double step = (double)timeline_range(timeline, TIMELINE_PREDICTED).length;
    figures->step_low = page->predicted ? step * 0.95 : NAN;
    figures->step_high = page->predicted ? step * 1.05 : NAN;
    enum status status = STATUS_OK;
    static const char *const forms[] = {"svg", "html"};
    for (int i = 0; i < 2 && status == STATUS_OK; i++) {
        char *path =
            mem_format("%s/%s.%s", folder, hostile_names ? "hostile" : page->name, forms[i]);
        status = draw_write(path, timeline);
        free(path);
    }
    size_t measured = count_of(timeline, TIMELINE_MEASURED);
    printf("%s %zu %zu\n", hostile_names ? "hostile" : page->name,
           count_of(timeline, TIMELINE_PREDICTED) + measured, measured);
    free(title);
    sample_free(&sample);
    return status;
}

int main(int count, char **argument) {
    if (count != 2) return 2;
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
        if (write_page(argument[1], &pages[i], false) != STATUS_OK) return 1;
    return write_page(argument[1], &pages[1], true) != STATUS_OK;
}
