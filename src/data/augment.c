/* See augment.h. Arithmetic is torchvision's, in double, with its roundings: to even where Python's
 * round() does so. */
#include "data/augment.h"

#include <math.h>

#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"

enum window { OWN, WHOLE, SHIFT, RESIZED_CROP };

static const struct row {
    const char *name, *help;
    enum window window;
    bool flip;
} table[AUGMENT_COUNT] = {
#define AUGMENT(id, name, window, flip, help) {name, help, window, flip},
#include "data/augment.def"
};

const char *augment_name(enum augment_policy policy) {
    return table[policy].name;
}

const char *augment_help(enum augment_policy policy) {
    return table[policy].help;
}

int augment_find(const char *name) {
    return TEXT_FIND(name, table);
}

/* Words of a sample's key: two of the shift, one of the mirror, then those of the resized crop. */
enum { WORD_TOP, WORD_LEFT, WORD_FLIP, WORD_CROP };

static int shift(uint64_t key, uint64_t word, int side) {
    int most = side / 8;
    return (int)(rng_word(key, word) % (2 * (uint32_t)most + 1)) - most;
}

static double draw_keyed(void *context, int index) {
    return (double)rng_uniform(*(uint64_t *)context, (uint64_t)(WORD_CROP + index));
}

/* The largest window in the centre with an aspect between the limits. */
static void central_crop(int height, int width, double least, double most, struct view *out) {
    double aspect = (double)width / height;
    out->height = height, out->width = width;
    if (aspect < least) out->height = (int)nearbyint(width / least);
    if (aspect > most) out->width = (int)nearbyint(height * most);
    out->top = (height - out->height) / 2;
    out->left = (width - out->width) / 2;
}

void augment_resized_crop(int height, int width, double (*draw)(void *context, int index),
                          void *context, struct view *out) {
    enum { TRIES = 10, DRAWS = 4 };
    const double least_area = 0.08, least_aspect = 3.0 / 4.0, most_aspect = 4.0 / 3.0;
    double area = (double)height * width;
    for (int t = 0; t < TRIES * DRAWS; t += DRAWS) {
        double part = area * (least_area + (1.0 - least_area) * draw(context, t));
        double from = log(least_aspect), to = log(most_aspect);
        double aspect = exp(from + (to - from) * draw(context, t + 1));
        double w = nearbyint(sqrt(part * aspect)), h = nearbyint(sqrt(part / aspect));
        if (w < 1 || h < 1 || w > width || h > height) continue;
        out->height = (int)h, out->width = (int)w;
        out->top = (int)(draw(context, t + 2) * (height - out->height + 1));
        out->left = (int)(draw(context, t + 3) * (width - out->width + 1));
        return;
    }
    central_crop(height, width, least_aspect, most_aspect, out);
}

/* torchvision's Resize(256) and CenterCrop(224), or the same at another size. */
static void frame_centre(struct view *view) {
    int side = view->out_height < view->out_width ? view->out_width : view->out_height;
    int64_t size = (int64_t)side * 8 / 7, h = view->height, w = view->width;
    view->full_height = (int)(h <= w ? size : (int64_t)((double)(size * h) / (double)w));
    view->full_width = (int)(w <= h ? size : (int64_t)((double)(size * w) / (double)h));
    view->out_top = (int)nearbyint((view->full_height - view->out_height) / 2.0);
    view->out_left = (int)nearbyint((view->full_width - view->out_width) / 2.0);
}

struct view augment_view(const struct augment *augment, int height, int width, uint64_t key) {
    const struct row *row = &table[augment->policy];
    CHECK(row->window != OWN, "the data set did not replace %s", row->name);
    enum window window = key ? row->window : WHOLE;
    struct view view = {.height = height,
                        .width = width,
                        .full_height = augment->out_height,
                        .full_width = augment->out_width,
                        .out_height = augment->out_height,
                        .out_width = augment->out_width,
                        .flip = key && row->flip && (rng_word(key, WORD_FLIP) & 1)};
    if (window == RESIZED_CROP)
        augment_resized_crop(height, width, draw_keyed, &key, &view);
    else if (augment->frame == FRAME_CENTRE)
        frame_centre(&view);
    if (window == SHIFT) {
        view.top = shift(key, WORD_TOP, height);
        view.left = shift(key, WORD_LEFT, width);
    }
    return view;
}
