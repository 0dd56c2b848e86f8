/* From the job's secret to CURVE keys: HKDF (RFC 5869) with a label for each purpose gives a
 * private key, ZeroMQ computes the public one. The hash is written out here from FIPS 180-4 and
 * tested with the published vectors; it runs a few times a job, so it is plain rather than fast.
 * Rejected: a certificate for each rank, which would have to be handed out, and the secret itself
 * as a key, which would give all uses of it one key. */
#include "control/keys.h"

#include <stdint.h>
#include <string.h>
#include <zmq.h>

#include "base/log.h"

struct sha256 {
    uint32_t state[8];
    unsigned char block[64];
    uint64_t bytes;
};

static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t word, int by) {
    return word >> by | word << (32 - by);
}

static void expand(const unsigned char block[64], uint32_t word[64]) {
    for (int i = 0; i < 16; i++) {
        const unsigned char *at = block + 4 * i;
        word[i] =
            (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | (uint32_t)at[3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t early = word[i - 15], late = word[i - 2];
        word[i] = word[i - 16] + word[i - 7] + (rotate(early, 7) ^ rotate(early, 18) ^ early >> 3) +
                  (rotate(late, 17) ^ rotate(late, 19) ^ late >> 10);
    }
}

static void absorb(struct sha256 *sha) {
    uint32_t word[64], v[8];
    expand(sha->block, word);
    memcpy(v, sha->state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        uint32_t one = v[7] + (rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25)) + choice +
                       round_constant[i] + word[i];
        uint32_t two = (rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22)) + majority;
        memmove(v + 1, v, 7 * sizeof v[0]);
        v[4] += one;
        v[0] = one + two;
    }
    for (int i = 0; i < 8; i++) sha->state[i] += v[i];
    explicit_bzero(word, sizeof word);
}

static void sha256_begin(struct sha256 *sha) {
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(sha->state, start, sizeof start);
    sha->bytes = 0;
}

static void sha256_add(struct sha256 *sha, const void *data, size_t bytes) {
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++) {
        sha->block[sha->bytes++ % 64] = at[i];
        if (sha->bytes % 64 == 0) absorb(sha);
    }
}

static void sha256_end(struct sha256 *sha, unsigned char digest[CONTROL_DIGEST_BYTES]) {
    uint64_t bits = sha->bytes * 8;
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)(bits >> (56 - 8 * i));
    sha256_add(sha, "\x80", 1);
    while (sha->bytes % 64 != 56) sha256_add(sha, "", 1);
    sha256_add(sha, length, sizeof length);
    for (int i = 0; i < CONTROL_DIGEST_BYTES; i++)
        digest[i] = (unsigned char)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
    explicit_bzero(sha, sizeof *sha);
}

void control_sha256(const void *data, size_t bytes, unsigned char digest[CONTROL_DIGEST_BYTES]) {
    struct sha256 sha;
    sha256_begin(&sha);
    sha256_add(&sha, data, bytes);
    sha256_end(&sha, digest);
}

static void hmac_half(unsigned char fill, const unsigned char pad[64], const void *data,
                      size_t bytes, unsigned char digest[CONTROL_DIGEST_BYTES]) {
    struct sha256 sha;
    unsigned char mixed[64];
    for (int i = 0; i < 64; i++) mixed[i] = pad[i] ^ fill;
    sha256_begin(&sha);
    sha256_add(&sha, mixed, sizeof mixed);
    sha256_add(&sha, data, bytes);
    sha256_end(&sha, digest);
    explicit_bzero(mixed, sizeof mixed);
}

void control_hmac(const void *key, size_t key_bytes, const void *data, size_t bytes,
                  unsigned char digest[CONTROL_DIGEST_BYTES]) {
    unsigned char pad[64] = {0}, inner[CONTROL_DIGEST_BYTES];
    if (key_bytes > sizeof pad)
        control_sha256(key, key_bytes, pad);
    else
        memcpy(pad, key, key_bytes);
    hmac_half(0x36, pad, data, bytes, inner);
    hmac_half(0x5c, pad, inner, sizeof inner, digest);
    explicit_bzero(pad, sizeof pad);
    explicit_bzero(inner, sizeof inner);
}

void control_hkdf(const void *secret, size_t secret_bytes, const char *salt, const char *info,
                  unsigned char key[CONTROL_DIGEST_BYTES]) {
    unsigned char extracted[CONTROL_DIGEST_BYTES], block[128];
    size_t count = strlen(info);
    CHECK(count < sizeof block, "label of %zu bytes", count);
    control_hmac(salt, strlen(salt), secret, secret_bytes, extracted);
    memcpy(block, info, count);
    block[count] = 1;
    control_hmac(extracted, sizeof extracted, block, count + 1, key);
    explicit_bzero(extracted, sizeof extracted);
}

int control_same_bytes(const void *a, const void *b, size_t bytes) {
    const volatile unsigned char *left = a, *right = b;
    unsigned char difference = 0;
    for (size_t i = 0; i < bytes; i++) difference |= left[i] ^ right[i];
    return difference == 0;
}

static int derive_pair(const struct control_secret *secret, const char *label,
                       char public_key[CONTROL_KEY_TEXT], char secret_key[CONTROL_KEY_TEXT]) {
    unsigned char key[CONTROL_DIGEST_BYTES];
    control_hkdf(secret->bytes, sizeof secret->bytes, "stretto control 1", label, key);
    zmq_z85_encode(secret_key, key, sizeof key);
    explicit_bzero(key, sizeof key);
    return zmq_curve_public(public_key, secret_key);
}

enum status control_keys_derive(const struct control_secret *secret, struct control_keys *out) {
    struct control_keys keys = {0};
    if (derive_pair(secret, "server", keys.server_public, keys.server_secret) ||
        derive_pair(secret, "client", keys.client_public, keys.client_secret))
        return fail(STATUS_USAGE, "the ZeroMQ library of this machine was built without CURVE\n"
                                  "  install one with it (Debian: libzmq5)");
    *out = keys;
    explicit_bzero(&keys, sizeof keys);
    return STATUS_OK;
}
