/* Any bytes as a picture: the header, and the pixels in the memory that the header announced. */
#include "fuzz.h"

#ifdef HAVE_PICTURES
#include "data/picture.h"

enum { SIDE = 16, MOST_BYTES = 4 << 20 };

static void decode(const uint8_t *data, size_t size, const struct picture_header *header,
                   uint64_t key) {
    static float table[PICTURE_CHANNELS][256], out[PICTURE_CHANNELS * SIDE * SIDE];
    struct augment augment = {AUGMENT_RESIZED_CROP, FRAME_CENTRE, SIDE, SIDE};
    size_t bytes = transform_bytes(header->height, header->width, SIDE, SIDE);
    if (bytes > MOST_BYTES || header->decoder_bytes > MOST_BYTES) return;
    struct picture_reading reading = {
        .data = data,
        .count = size,
        .augment = &augment,
        .key = key,
        .memory = {malloc(header->decoder_bytes), header->decoder_bytes, 0},
        .transform_memory = aligned_alloc(64, bytes),
        .transform_bytes = bytes};
    if (picture_read(&reading))
        transform_end(&reading.transform, table, PICTURE_CHANNELS, out);
    else if (!reading.why[0])
        fuzz_wrong("refused without a reason");
    free(reading.memory.base);
    free(reading.transform_memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct picture_header header = {0};
    char why[PICTURE_WHY_BYTES] = "";
    bool more;
    if (picture_probe(data, size, size, &header, &more, why)) {
        if ((int64_t)header.height * header.width > PICTURE_MAX_PIXELS) fuzz_wrong("too large");
        for (uint64_t key = 0; key < 3; key++) decode(data, size, &header, key);
    } else if (!why[0] || more) {
        fuzz_wrong("a whole file refused without a reason");
    }
    return 0;
}
#else
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    (void)data, (void)size;
    return 0;
}
#endif
