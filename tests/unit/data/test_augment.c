/* Augmentation against torchvision's windows (augment_values.py), and that keys decide all. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "data/augment.h"

static double given(void *context, int index) {
    return fmod((index + 1) * 0.6180339887498949 * (*(int *)context + 1), 1.0);
}

static void expect_crop(int height, int width, int seed, const int want[4]) {
    struct view view = {0};
    augment_resized_crop(height, width, given, &seed, &view);
    int have[] = {view.top, view.left, view.height, view.width};
    cr_assert_eq(memcmp(have, want, sizeof have), 0, "%dx%d seed %d: %d %d %d %d", height, width,
                 seed, have[0], have[1], have[2], have[3]);
}

static void expect_centre(int height, int width, int size, const int want[4]) {
    struct augment augment = {AUGMENT_RESIZED_CROP, FRAME_CENTRE, size, size};
    struct view view = augment_view(&augment, height, width, 0);
    int have[] = {view.full_height, view.full_width, view.out_top, view.out_left};
    cr_assert_eq(memcmp(have, want, sizeof have), 0, "%dx%d to %d: %d %d %d %d", height, width,
                 size, have[0], have[1], have[2], have[3]);
    cr_assert(view.height == height && view.width == width && !view.flip);
}

Test(data_augment, windows_are_torchvisions) {
#define CROP(h, w, seed, ...) expect_crop(h, w, seed, (const int[]){__VA_ARGS__});
#define CENTRE(h, w, size, ...) expect_centre(h, w, size, (const int[]){__VA_ARGS__});
#include "augment_values.def"
}

Test(data_augment, names_are_found) {
    for (int p = 0; p < AUGMENT_COUNT; p++)
        cr_assert_eq(augment_find(augment_name((enum augment_policy)p)), p);
    cr_assert_eq(augment_find("nothing"), -1);
}

/* Evaluation draws nothing; training draws the same for the same key, and covers what it may. */
Test(data_augment, keys_decide) {
    enum { SIDE = 32, KEYS = 2000 };
    for (int p = AUGMENT_STANDARD + 1; p < AUGMENT_COUNT; p++) {
        struct augment augment = {(enum augment_policy)p, FRAME_STRETCH, SIDE, SIDE};
        struct view whole = augment_view(&augment, SIDE, SIDE, 0);
        int flips = 0, least = SIDE, most = -SIDE, other = 0;
        for (uint64_t key = 1; key <= KEYS; key++) {
            struct view view = augment_view(&augment, SIDE, SIDE, key * 7919);
            struct view again = augment_view(&augment, SIDE, SIDE, key * 7919);
            cr_assert_eq(memcmp(&view, &again, sizeof view), 0);
            flips += view.flip;
            if (view.top < least) least = view.top;
            if (view.top > most) most = view.top;
            other += view.height != SIDE || view.width != SIDE;
        }
        bool mirrors = p != AUGMENT_NONE;
        cr_assert(!whole.flip && whole.top == 0 && whole.height == SIDE && whole.width == SIDE);
        cr_assert(mirrors ? flips > KEYS / 3 && flips < KEYS * 2 / 3 : flips == 0, "%d", flips);
        if (p == AUGMENT_CROP) cr_assert(least == -4 && most == 4, "%d %d", least, most);
        cr_assert(p == AUGMENT_RESIZED_CROP ? other > KEYS / 2 : other == 0, "%d", other);
    }
}
