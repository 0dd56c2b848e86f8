/* See link_share.h. The first rank publishes the values together: the bytes of all, then the length
 * and the bytes of each, cut into parts that the link takes. */
#include "comm/link_share.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

enum { KEY_BYTES = 96, WORD = sizeof(uint64_t) };

static void key_of(const char *key, const char *kind, int index, char out[KEY_BYTES]) {
    snprintf(out, KEY_BYTES, "%s/%s%d", key, kind, index);
}

void comm_link_share_free(struct bytes *values, int count) {
    for (int i = 0; i < count; i++) bytes_free(&values[i]);
}

/* --- the first rank --- */

static enum status collect(const struct comm_link *link, const char *key, int count,
                           const struct bytes *own, struct bytes *out) {
    char from[KEY_BYTES];
    out[0] = (struct bytes){memcpy(mem_new(own->count + 1), own->data, own->count), own->count};
    for (int i = 1; i < count; i++) {
        void *value;
        key_of(key, "", i, from);
        TRY(link->get(link->context, from, &value, &out[i].count));
        out[i].data = value;
    }
    return STATUS_OK;
}

static unsigned char *put_word(unsigned char *at, uint64_t word) {
    memcpy(at, &word, WORD);
    return at + WORD;
}

static struct bytes pack(const struct bytes *values, int count) {
    struct bytes packed = {.count = WORD};
    for (int i = 0; i < count; i++) packed.count += WORD + values[i].count;
    packed.data = mem_new(packed.count + 1);
    unsigned char *at = put_word(packed.data, packed.count);
    for (int i = 0; i < count; i++) {
        at = put_word(at, values[i].count);
        if (values[i].count) memcpy(at, values[i].data, values[i].count);
        at += values[i].count;
    }
    return packed;
}

static size_t part_bytes(size_t left) {
    return left < COMM_LINK_VALUE_BYTES ? left : COMM_LINK_VALUE_BYTES;
}

static enum status publish(const struct comm_link *link, const char *key,
                           const struct bytes *packed) {
    char to[KEY_BYTES];
    size_t bytes;
    for (size_t part = 0, at = 0; at < packed->count; part++, at += bytes) {
        bytes = part_bytes(packed->count - at);
        key_of(key, "all/", (int)part, to);
        TRY(link->put(link->context, to, packed->data + at, bytes));
    }
    return STATUS_OK;
}

static enum status gather(const struct comm_link *link, const char *key, int count,
                          const struct bytes *own, struct bytes *out) {
    TRY(collect(link, key, count, own, out));
    SCOPED(bytes_free) struct bytes packed = pack(out, count);
    return publish(link, key, &packed);
}

/* --- the others --- */

static uint64_t get_word(const unsigned char *at) {
    uint64_t word;
    memcpy(&word, at, WORD);
    return word;
}

static enum status refuse(const char *key) {
    return fail(STATUS_BUG, "what the first rank published under %s is damaged", key);
}

/* The first part tells how long all are. */
static enum status fetch(const struct comm_link *link, const char *key, int count,
                         struct bytes *out) {
    char from[KEY_BYTES];
    size_t total = 0, most = WORD + (size_t)count * (WORD + COMM_LINK_VALUE_BYTES);
    *out = (struct bytes){0};
    for (int part = 0; part == 0 || out->count < total; part++) {
        void *value;
        size_t bytes;
        key_of(key, "all/", part, from);
        TRY(link->get(link->context, from, &value, &bytes));
        if (part == 0 && bytes >= WORD && get_word(value) <= most) {
            total = get_word(value);
            out->data = mem_new(total + 1);
        }
        bool fits = bytes > 0 && bytes == part_bytes(total - out->count);
        if (fits) memcpy(out->data + out->count, value, bytes);
        out->count += bytes;
        free(value);
        if (!fits) return refuse(key);
    }
    return STATUS_OK;
}

static enum status unpack(const char *key, const struct bytes *packed, int count,
                          struct bytes *out) {
    size_t at = WORD;
    for (int i = 0; i < count; i++) {
        if (packed->count - at < WORD) return refuse(key);
        uint64_t bytes = get_word(packed->data + at);
        at += WORD;
        if (packed->count - at < bytes) return refuse(key);
        out[i] = (struct bytes){mem_new(bytes + 1), bytes};
        memcpy(out[i].data, packed->data + at, bytes);
        at += bytes;
    }
    return at == packed->count ? STATUS_OK : refuse(key);
}

static enum status give(const struct comm_link *link, const char *key, int index, int count,
                        const struct bytes *own, struct bytes *out) {
    char to[KEY_BYTES];
    SCOPED(bytes_free) struct bytes packed = {0};
    key_of(key, "", index, to);
    TRY(link->put(link->context, to, own->data, own->count));
    TRY(fetch(link, key, count, &packed));
    return unpack(key, &packed, count, out);
}

enum status comm_link_share(const struct comm_link *link, const char *key, int index, int count,
                            const struct bytes *own, struct bytes *out) {
    memset(out, 0, (size_t)count * sizeof *out);
    return index == 0 ? gather(link, key, count, own, out)
                      : give(link, key, index, count, own, out);
}
