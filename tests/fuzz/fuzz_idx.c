/* Any bytes as an IDX file, and as the image or the label file of a pair. */
#include "data/idx.h"
#include "fuzz.h"

static const unsigned char three_labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 0, 4, 9};
static const unsigned char three_images[] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0,
                                             1, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6};

static void as_pair(struct bytes image, struct bytes label) {
    struct image_set set[SPLIT_COUNT] = {{0}};
    fuzz_begin();
    enum status status = idx_images("images", image, "labels", label, 10, &set[0]);
    fuzz_end(status);
    if (status == STATUS_OK) image_sets_free(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct idx idx = {0};
    fuzz_begin();
    enum status status = idx_parse("input", data, size, &idx);
    if (status == STATUS_OK) fuzz_touch(idx.values, idx.value_bytes);
    fuzz_end(status);
    struct bytes input = {(unsigned char *)data, size};
    as_pair(input, (struct bytes){(unsigned char *)three_labels, sizeof three_labels});
    as_pair((struct bytes){(unsigned char *)three_images, sizeof three_images}, input);
    return 0;
}
