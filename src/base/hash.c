/* hash64 folds 8-byte words with a multiply-xorshift; the tail is zero padded and the length folded
 * last. */
#include "base/hash.h"

#include <string.h>

#include <isa-l/crc.h>

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes) {
    const unsigned char *cursor = data;
    crc = ~crc;
    while (bytes > 0) { /* ISA-L takes an int length */
        int piece = bytes > (1 << 30) ? 1 << 30 : (int)bytes;
        crc = crc32_iscsi((unsigned char *)cursor, piece, crc);
        cursor += piece;
        bytes -= (size_t)piece;
    }
    return ~crc;
}

static uint64_t fold(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
}

uint64_t hash64(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *cursor = data;
    size_t left = bytes;
    uint64_t word;
    for (; left >= 8; left -= 8, cursor += 8) {
        memcpy(&word, cursor, 8);
        hash = fold(hash, word);
    }
    word = 0;
    if (left) memcpy(&word, cursor, left);
    return fold(fold(hash, word), bytes);
}
