/* The CURVE key pairs of a job, derived from its secret: whoever has the secret has the keys, and
 * nobody else. One pair for the server and one that all ranks share: members trust one another. */
#ifndef CONTROL_KEYS_H
#define CONTROL_KEYS_H

#include <stddef.h>

#include "control/control.h"

enum { CONTROL_KEY_TEXT = 41, CONTROL_DIGEST_BYTES = 32 }; /* Z85 with its zero byte */

struct control_keys {
    char server_public[CONTROL_KEY_TEXT], server_secret[CONTROL_KEY_TEXT];
    char client_public[CONTROL_KEY_TEXT], client_secret[CONTROL_KEY_TEXT];
};

/* Local. The caller wipes the keys with explicit_bzero when they are set. STATUS_USAGE where the
 * ZeroMQ of this machine has no CURVE. */
enum status control_keys_derive(const struct control_secret *secret, struct control_keys *out);

/* Local. SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104); here because nothing we depend on
 * exports a keyed hash. */
void control_sha256(const void *data, size_t bytes, unsigned char digest[CONTROL_DIGEST_BYTES]);
void control_hmac(const void *key, size_t key_bytes, const void *data, size_t bytes,
                  unsigned char digest[CONTROL_DIGEST_BYTES]);
/* Local. HKDF-SHA-256 (RFC 5869), first block: 32 bytes of key for the purpose `info`. */
void control_hkdf(const void *secret, size_t secret_bytes, const char *salt, const char *info,
                  unsigned char key[CONTROL_DIGEST_BYTES]);
/* Local. Takes the same time wherever the two differ. */
int control_same_bytes(const void *a, const void *b, size_t bytes);

#endif
