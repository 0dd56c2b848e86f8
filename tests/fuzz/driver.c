/* Runs a fuzz target without libFuzzer: over its corpus, every file cut at every length (long ones
 * at some), and a fixed number of mutations of each file. The same inputs every time, so that it is
 * a regression test for any compiler; inputs end at an inaccessible page, so that reading beyond
 * them is noticed without a sanitizer.
 *
 * usage: NAME MUTATIONS FILE... */
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/rng.h"
#include "fuzz.h"

enum { INPUT_MAX = 1 << 20, CUTS_MAX = 512 };

/* The end of the area that inputs are put at; the page after it cannot be touched. */
static unsigned char *area_end;
static int64_t runs;

static void make_area(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *area =
        mmap(NULL, INPUT_MAX + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED || mprotect(area + INPUT_MAX, page, PROT_NONE) != 0) {
        perror("fuzz driver");
        exit(2);
    }
    area_end = area + INPUT_MAX;
}

static void run_input(const unsigned char *data, size_t count) {
    unsigned char *place = area_end - count;
    memcpy(place, data, count);
    LLVMFuzzerTestOneInput(place, count);
    runs++;
}

/* As many cuts as mutations, at most: a slow target asks for few of both. */
static void run_cuts(const struct bytes *seed, int mutations) {
    size_t cuts = mutations < 1 ? 1 : mutations < CUTS_MAX ? (size_t)mutations : CUTS_MAX;
    size_t stride = seed->count / cuts + 1;
    for (size_t count = 0; count < seed->count; count += stride) run_input(seed->data, count);
}

/* One change to data[0..count): a bit, an interesting byte, eight bytes of a huge number, a copy of
 * another place, or a shift by one. */
static void change(unsigned char *data, size_t count, uint64_t key, uint64_t index) {
    static const unsigned char bytes[] = {0,   1,   0x7f, 0x80, 0xff, '"',
                                          '{', ']', ':',  '-',  '9',  '\n'};
    uint32_t word[4];
    rng_block(key, index, word);
    size_t at = word[0] % count, other = word[1] % count, room = count - at;
    switch (word[2] % 5) {
    case 0: data[at] ^= (unsigned char)(1u << word[3] % 8); break;
    case 1: data[at] = bytes[word[3] % sizeof bytes]; break;
    case 2: memset(data + at, word[3] & 1 ? 0xff : 0, room < 8 ? room : 8); break;
    case 3: data[at] = data[other]; break;
    default: memmove(data + at, data + at + (room > 1), room - (room > 1)); break;
    }
}

static void run_mutations(const struct bytes *seed, int mutations) {
    unsigned char *copy = malloc(seed->count);
    for (int i = 0; i < mutations; i++) {
        uint64_t key = rng_key(seed->count, (uint64_t)i);
        memcpy(copy, seed->data, seed->count);
        int changes = 1 + (int)(rng_word(key, 1000) % 4);
        for (int c = 0; c < changes; c++) change(copy, seed->count, key, (uint64_t)c);
        run_input(copy, seed->count);
    }
    free(copy);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s MUTATIONS FILE...\n", argv[0]);
        return 2;
    }
    make_area();
    for (int i = 2; i < argc; i++) {
        struct bytes seed = {0};
        if (file_read(argv[i], INPUT_MAX, &seed) != STATUS_OK) return 3;
        run_input(seed.data, seed.count);
        run_cuts(&seed, atoi(argv[1]));
        if (seed.count) run_mutations(&seed, atoi(argv[1]));
        bytes_free(&seed);
    }
    printf("%lld inputs\n", (long long)runs);
    return 0;
}
