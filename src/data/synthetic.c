/* synthetic[:key=value,...]: samples made from keyed random numbers as they are read, so of any
 * size and count without memory, and the same on every machine (no libm is involved).
 *
 * Images: each class has a coarse pattern of 4x4 cells a channel; a sample is its class's pattern
 * plus noise, so the label can be learnt. Tokens: rows in wiki's layout, [CLS] A [SEP] B [SEP] and
 * padding, whose words come from one of 16 topics; the topic tells the masked words, and B is of
 * A's topic exactly when it "follows". Text: rows of words in which mostly the word before tells
 * the next. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/text.h"
#include "data/dataset.h"
#include "data/image.h"
#include "data/token.h"

struct synthetic {
    enum kind { IMAGES, TOKENS, TEXT } kind;
    int64_t count, test_count, seed;
    int64_t channels, size, classes;
    int64_t seq, predictions, vocab;
};

static const struct {
    const char *name;
    size_t offset;
    int64_t least, most;
} keys[] = {
#define KEY(name, least, most)                                                                     \
    { #name, offsetof(struct synthetic, name), least, most }
    KEY(count, 1, (int64_t)1 << 40),
    KEY(test_count, 1, (int64_t)1 << 40),
    KEY(seed, 0, INT64_MAX),
    KEY(channels, 1, 4096),
    KEY(size, 1, IMAGE_MAX_SIZE),
    KEY(classes, 1, 1 << 20),
    KEY(seq, 8, 1 << 16),
    KEY(predictions, 1, 1 << 16),
    KEY(vocab, 64, 1 << 24),
#undef KEY
};

enum { KEY_COUNT = sizeof keys / sizeof keys[0] };

static enum status set_kind(const char *value, struct synthetic *state) {
    static const char *const names[] = {[IMAGES] = "images", [TOKENS] = "tokens", [TEXT] = "text"};
    int kind = TEXT_FIND(value, names);
    if (kind < 0)
        return fail(STATUS_USAGE, "synthetic: kind '%s', expected images, tokens or text", value);
    state->kind = (enum kind)kind;
    return STATUS_OK;
}

static enum status set_key(const char *name, const char *value, struct synthetic *state) {
    if (strcmp(name, "kind") == 0) return set_kind(value, state);
    for (int k = 0; k < KEY_COUNT; k++) {
        if (strcmp(keys[k].name, name) != 0) continue;
        char *end;
        errno = 0;
        long long number = strtoll(value, &end, 10);
        if (*value == 0 || *end != 0 || errno != 0 || number < keys[k].least ||
            number > keys[k].most)
            return fail(STATUS_USAGE, "synthetic: %s '%s', expected %lld to %lld", name, value,
                        (long long)keys[k].least, (long long)keys[k].most);
        *(int64_t *)((char *)state + keys[k].offset) = number;
        return STATUS_OK;
    }
    return fail(
        STATUS_USAGE,
        "synthetic: unknown key '%s'\n  known: kind count test_count seed, for images channels "
        "size classes, for tokens seq predictions vocab, for text seq vocab",
        name);
}

static enum status parse(const char *argument, struct synthetic *state) {
    char *text = mem_text(argument ? argument : ""), *rest = text, *item;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && (item = strsep(&rest, ","))) {
        if (*item == 0) continue;
        char *value = strchr(item, '=');
        if (value) *value++ = 0;
        status = value ? set_key(item, value, state)
                       : fail(STATUS_USAGE, "synthetic: '%s' has no value\n  write it as %s=...",
                              item, item);
    }
    free(text);
    return status;
}

static enum status check(const struct synthetic *state) {
    if (state->kind != TOKENS || state->predictions <= state->seq - 3) return STATUS_OK;
    return fail(STATUS_USAGE,
                "synthetic: %lld predictions in rows of %lld tokens, 3 of them special\n"
                "  set predictions to at most %lld",
                (long long)state->predictions, (long long)state->seq, (long long)state->seq - 3);
}

static void describe(const struct synthetic *state, struct dataset *out) {
    if (state->kind == TOKENS)
        token_fields(state->seq, state->predictions, state->vocab, out);
    else if (state->kind == TEXT)
        token_text_fields(state->seq, state->vocab, out);
    else
        image_fields(state->channels, state->size, state->size, state->classes, out);
    out->count[SPLIT_TRAIN] = state->count;
    out->count[SPLIT_TEST] = state->test_count;
    out->content_hash = rng_key_text(state->kind, "synthetic");
    for (int k = 0; k < KEY_COUNT; k++)
        out->content_hash =
            hash64(out->content_hash, (const char *)state + keys[k].offset, sizeof(int64_t));
    out->bytes = sizeof *state;
}

/* Its images are as random as they can be. */
static enum status check_augment(enum augment_policy policy) {
    if (policy == AUGMENT_STANDARD || policy == AUGMENT_NONE) return STATUS_OK;
    return fail(STATUS_USAGE, "--augment %s has no effect with --data synthetic",
                augment_name(policy));
}

static enum status synthetic_open(const char *argument, const struct dataset_config *config,
                                  struct dataset *out) {
    struct synthetic state = {.count = 2048,
                              .test_count = 512,
                              .channels = 3,
                              .size = 32,
                              .classes = 10,
                              .seq = 128,
                              .predictions = 20,
                              .vocab = 30522};
    TRY(parse(argument, &state));
    TRY(check_augment(config->augment));
    if (config->image_size) {
        TRY(image_size_check("synthetic", config->image_size));
        state.size = config->image_size; /* made at that size, so there is nothing to resize */
    }
    if (config->seq) state.seq = config->seq;
    TRY(check(&state));
    describe(&state, out);
    struct synthetic *kept = MEM_NEW(struct synthetic);
    *kept = state;
    out->state = kept;
    return STATUS_OK;
}

/* Uniform in [-1, 1). */
static float symmetric(uint32_t word) {
    return (float)(word >> 8) * 0x1p-23f - 1.0f;
}

enum { CELLS = 4 };

/* Noise is drawn so many blocks of four words at a time: several at once in vectors. */
enum { NOISE_BLOCKS = 64, NOISE_WORDS = 4 * NOISE_BLOCKS };

/* Cells of row `row` of the pattern, one a pixel. */
static void pattern_row(uint64_t pattern, int64_t row, int64_t size, float *out) {
    uint32_t cell[CELLS];
    rng_block(pattern, (uint64_t)(row / size * CELLS + row % size * CELLS / size), cell);
    for (int64_t x = 0; x < size; x++) out[x] = symmetric(cell[x * CELLS / size]);
}

/* Pattern in -1..1 plus noise in -1..1: both have variance 1/3, and the image so about 2/3. */
static void read_image(const struct synthetic *state, uint64_t sample, int64_t label, float *out) {
    uint64_t pattern = rng_key(rng_key_text((uint64_t)state->seed, "pattern"), (uint64_t)label);
    uint64_t noise = rng_key_text(sample, "noise");
    int64_t size = state->size, rows = state->channels * size, count = rows * size;
    uint32_t words[NOISE_WORDS];
    for (int64_t row = 0; row < rows; row++) pattern_row(pattern, row, size, out + row * size);
    for (int64_t i = 0; i < count; i += NOISE_WORDS) {
        int64_t here = count - i < NOISE_WORDS ? count - i : NOISE_WORDS;
        rng_words(noise, (uint64_t)i / 4, (here + 3) / 4, words);
        for (int64_t k = 0; k < here; k++) out[i + k] += symmetric(words[k]);
    }
}

enum { ID_PAD = 0, ID_CLS = 1, ID_SEP = 2, ID_MASK = 3, ID_WORDS = 4, TOPICS = 16 };

static int32_t word_of(const struct synthetic *state, uint32_t topic, uint32_t draw) {
    uint32_t words = (uint32_t)(state->vocab - ID_WORDS) / TOPICS;
    if (words > 32) words = 32; /* few enough to be learnt in a short run */
    return (int32_t)(ID_WORDS + topic * words + draw % words);
}

/* Masks `wanted` word positions, ascending: each is taken with the chance that leaves the right
 * number. */
static void mask_words(const struct synthetic *state, uint64_t sample, int64_t words,
                       struct token_row *row) {
    uint64_t key = rng_key_text(sample, "mask");
    int64_t wanted = words * 15 / 100, left = words, taken = 0;
    if (wanted < 1) wanted = 1;
    if (wanted > state->predictions) wanted = state->predictions;
    for (int64_t t = 0; t < state->seq && taken < wanted; t++) {
        if (row->input_ids[t] < ID_WORDS) continue;
        if (rng_word(key, (uint64_t)t) % (uint64_t)left-- >= (uint64_t)(wanted - taken)) continue;
        row->masked_positions[taken] = (int32_t)t;
        row->masked_labels[taken++] = row->input_ids[t];
        row->input_ids[t] = ID_MASK;
    }
    for (int64_t k = taken; k < state->predictions; k++) {
        row->masked_positions[k] = 0;
        row->masked_labels[k] = LABEL_IGNORE;
    }
}

static void read_tokens(const struct synthetic *state, uint64_t sample, struct token_row *row) {
    uint32_t draw[4];
    rng_block(rng_key_text(sample, "row"), 0, draw);
    int64_t length = state->seq - draw[0] % (uint32_t)(state->seq / 2); /* more than half */
    int64_t split = length / 2;
    uint32_t topic = draw[1] % TOPICS;
    *row->next_sentence = (int32_t)(draw[2] & 1); /* 1: B does not follow A */
    uint32_t other = (topic + (draw[2] & 1) * (1 + draw[3] % (TOPICS - 1))) % TOPICS;
    uint64_t words = rng_key_text(sample, "words");
    for (int64_t t = 0; t < state->seq; t++) {
        bool inside = t < length;
        bool second = t > split;
        int32_t id = word_of(state, second ? other : topic, rng_word(words, (uint64_t)t));
        if (t == 0) id = ID_CLS;
        if (t == split || t == length - 1) id = ID_SEP;
        row->input_ids[t] = inside ? id : ID_PAD;
        row->segment_ids[t] = inside && second;
        row->input_mask[t] = inside;
    }
    mask_words(state, sample, length - 3, row);
}

/* A word is followed by its own successor three times of four, else by any: the loss falls towards
 * what the rest leaves open. */
static void read_text(const struct synthetic *state, uint64_t sample, int32_t *ids, int32_t *next) {
    uint64_t words = rng_key_text(sample, "words"),
             grammar = rng_key_text((uint64_t)state->seed, "grammar");
    uint32_t count = (uint32_t)(state->vocab < 256 ? state->vocab : 256), draw[4];
    uint32_t word = rng_word(words, 0) % count;
    for (int64_t t = 0; t < state->seq; t++) {
        ids[t] = (int32_t)word;
        rng_block(words, (uint64_t)t + 1, draw);
        word = (draw[0] % 4 ? rng_word(grammar, word) : draw[1]) % count;
        next[t] = (int32_t)word;
    }
}

static enum status synthetic_read(const struct dataset *dataset, enum split split, int64_t index,
                                  uint64_t key, void *scratch, void *const out[]) {
    (void)scratch;
    (void)key; /* nothing to augment */
    const struct synthetic *state = dataset->state;
    uint64_t sample =
        rng_key(rng_key(rng_key_text((uint64_t)state->seed, "sample"), split), (uint64_t)index);
    if (state->kind == TEXT) {
        read_text(state, sample, out[0], out[1]);
        return STATUS_OK;
    }
    if (state->kind == TOKENS) {
        struct token_row row = token_row(out);
        read_tokens(state, sample, &row);
        return STATUS_OK;
    }
    int64_t label = rng_word(rng_key_text(sample, "label"), 0) % (uint64_t)state->classes;
    if (out[0]) read_image(state, sample, label, out[0]);
    *(int32_t *)out[1] = (int32_t)label;
    return STATUS_OK;
}

static void synthetic_close(struct dataset *dataset) {
    free(dataset->state);
}

extern const struct dataset_ops dataset_synthetic;
const struct dataset_ops dataset_synthetic = {
    .name = "synthetic",
    .argument = "[key=value,...]",
    .help = "keyed random images (count test_count channels size classes) or kind=tokens (seq "
            "predictions vocab) or kind=text (seq vocab)",
    .open = synthetic_open,
    .read = synthetic_read,
    .close = synthetic_close,
};
