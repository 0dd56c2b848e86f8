/* tokens:DIR: text as numbers, in rows of --seq tokens, each with the token that follows it.
 *
 * The files are train.tokens and test.tokens: a header of 32 bytes (magic, format, bytes of a
 * token, tokens, vocabulary, all little-endian), then the tokens. `stretto tokens` writes them. A
 * split is cut into rows from its begin; what is left behind the last whole row is not used. */
#include "data/tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/announced.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/dataset.h"
#include "data/token.h"

enum { TOKENS_USUAL_ROW = 128, TOKENS_FORMAT = 1 };
static const char magic[8] = "STRETTOK";

struct tokens {
    struct bytes file[SPLIT_COUNT];
    struct tokens_header header[SPLIT_COUNT];
    int64_t seq;
};

static uint64_t little_endian(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static void put(unsigned char *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) at[i] = (unsigned char)(value >> (8 * i));
}

void tokens_header_write(const struct tokens_header *header,
                         unsigned char out[TOKENS_HEADER_BYTES]) {
    memcpy(out, magic, sizeof magic);
    put(out + 8, TOKENS_FORMAT, 4);
    put(out + 12, (uint64_t)header->width, 4);
    put(out + 16, header->count, 8);
    put(out + 24, header->vocab, 8);
}

int tokens_width(uint64_t vocab) {
    return vocab <= 1 << 16 ? 2 : 4;
}

static uint64_t token_at(const struct tokens_header *header, const struct bytes *file, uint64_t i) {
    return little_endian(file->data + TOKENS_HEADER_BYTES + i * (size_t)header->width,
                         header->width);
}

static enum status parse_header(const char *path, const unsigned char *head, size_t count,
                                struct tokens_header *out) {
    if (count < TOKENS_HEADER_BYTES)
        return fail(STATUS_DATA, "%s: %zu bytes, but the header alone has %d", path, count,
                    TOKENS_HEADER_BYTES);
    if (memcmp(head, magic, sizeof magic) != 0)
        return fail(STATUS_DATA,
                    "%s: byte 0: not a file of tokens\n  stretto tokens TEXT --out DIR makes one",
                    path);
    uint64_t format = little_endian(head + 8, 4), width = little_endian(head + 12, 4);
    if (format != TOKENS_FORMAT)
        return fail(STATUS_DATA, "%s: byte 8: format %llu, expected %d", path,
                    (unsigned long long)format, TOKENS_FORMAT);
    if (width != 2 && width != 4)
        return fail(STATUS_DATA, "%s: byte 12: tokens of %llu bytes, expected 2 or 4", path,
                    (unsigned long long)width);
    *out = (struct tokens_header){.width = (int)width,
                                  .count = little_endian(head + 16, 8),
                                  .vocab = little_endian(head + 24, 8)};
    if (out->vocab < 1 || out->vocab > INT32_MAX)
        return fail(STATUS_DATA, "%s: byte 24: a vocabulary of %llu, expected 1 to %d", path,
                    (unsigned long long)out->vocab, INT32_MAX);
    return STATUS_OK;
}

static enum status announce(const char *path, const unsigned char *head, size_t count,
                            size_t *header_bytes, size_t *value_bytes) {
    struct tokens_header header;
    TRY(parse_header(path, head, count, &header));
    *header_bytes = TOKENS_HEADER_BYTES;
    if (!__builtin_mul_overflow((size_t)header.count, (size_t)header.width, value_bytes))
        return STATUS_OK;
    return fail(STATUS_DATA, "%s: byte 16: %llu tokens: more bytes than can be counted", path,
                (unsigned long long)header.count);
}

static const struct announced_kind kind = {
    .head_bytes = TOKENS_HEADER_BYTES, .limit = (size_t)1 << 40, .parse = announce};

static enum status check_tokens(const char *path, const struct bytes *file,
                                const struct tokens_header *header) {
    for (uint64_t i = 0; i < header->count; i++)
        if (token_at(header, file, i) >= header->vocab)
            return fail(STATUS_DATA, "%s: byte %llu: token %llu, expected 0 to %llu", path,
                        (unsigned long long)(TOKENS_HEADER_BYTES + i * (size_t)header->width),
                        (unsigned long long)token_at(header, file, i),
                        (unsigned long long)header->vocab - 1);
    return STATUS_OK;
}

static enum status read_split(const char *folder, const char *name, int64_t seq, struct bytes *file,
                              struct tokens_header *header) {
    SCOPED_FREE char *path = mem_format("%s/%s", folder, name);
    TRY(announced_read(path, &kind, file));
    TRY(parse_header(path, file->data, file->count, header));
    TRY(check_tokens(path, file, header));
    if (header->count < (uint64_t)seq + 1)
        return fail(STATUS_DATA,
                    "%s: %llu tokens, a row of %lld needs %lld\n  give a smaller --seq", path,
                    (unsigned long long)header->count, (long long)seq, (long long)seq + 1);
    return STATUS_OK;
}

static void free_state(struct tokens *state) {
    for (int split = 0; split < SPLIT_COUNT; split++) bytes_free(&state->file[split]);
    free(state);
}

static enum status read_splits(const char *folder, struct tokens *state) {
    static const char *const names[] = {
        [SPLIT_TRAIN] = "train.tokens", [SPLIT_TEST] = "test.tokens"};
    for (int split = 0; split < SPLIT_COUNT; split++)
        TRY(read_split(folder, names[split], state->seq, &state->file[split],
                       &state->header[split]));
    if (state->header[SPLIT_TRAIN].vocab == state->header[SPLIT_TEST].vocab) return STATUS_OK;
    return fail(STATUS_DATA, "%s: train.tokens has a vocabulary of %llu, test.tokens one of %llu",
                folder, (unsigned long long)state->header[SPLIT_TRAIN].vocab,
                (unsigned long long)state->header[SPLIT_TEST].vocab);
}

static enum status tokens_open(const char *argument, const struct dataset_config *config,
                               struct dataset *out) {
    struct tokens *state = MEM_NEW(struct tokens);
    state->seq = config->seq ? config->seq : TOKENS_USUAL_ROW;
    enum status status = read_splits(argument, state);
    if (status != STATUS_OK) {
        free_state(state);
        return status;
    }
    token_text_fields(state->seq, (int64_t)state->header[0].vocab, out);
    out->bytes = sizeof *state;
    out->content_hash = (uint64_t)state->seq;
    for (int split = 0; split < SPLIT_COUNT; split++) {
        const struct bytes *file = &state->file[split];
        out->count[split] = (int64_t)(state->header[split].count - 1) / state->seq;
        out->content_hash = hash64(out->content_hash, file->data, file->count);
        out->bytes += file->count;
    }
    out->state = state;
    return STATUS_OK;
}

static enum status tokens_read(const struct dataset *dataset, enum split split, int64_t index,
                               uint64_t key, void *scratch, void *const out[]) {
    (void)scratch;
    (void)key; /* nothing to augment */
    const struct tokens *state = dataset->state;
    int32_t *ids = out[0], *next = out[1];
    uint64_t first = (uint64_t)(index * state->seq);
    for (int64_t t = 0; t <= state->seq; t++) {
        int32_t id =
            (int32_t)token_at(&state->header[split], &state->file[split], first + (uint64_t)t);
        if (t < state->seq) ids[t] = id;
        if (t > 0) next[t - 1] = id;
    }
    return STATUS_OK;
}

static void tokens_close(struct dataset *dataset) {
    free_state(dataset->state);
}

extern const struct dataset_ops dataset_tokens;
const struct dataset_ops dataset_tokens = {
    .name = "tokens",
    .argument = "DIR",
    .help = "text as numbers: train.tokens and test.tokens, made by stretto tokens",
    .open = tokens_open,
    .read = tokens_read,
    .close = tokens_close,
};
