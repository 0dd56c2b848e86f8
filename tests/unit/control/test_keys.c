/* The hash against published vectors (FIPS 180-4 examples, RFC 4231, RFC 5869), and keys from
 * secrets. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "control/keys.h"

static const char *hex(const unsigned char digest[32]) {
    static char text[65];
    for (int i = 0; i < 32; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return text;
}

Test(control_keys, sha256) {
    static const struct {
        const char *text, *digest;
    } known[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    unsigned char digest[32];
    for (int i = 0; i < 3; i++) {
        control_sha256(known[i].text, strlen(known[i].text), digest);
        cr_assert_str_eq(hex(digest), known[i].digest);
    }
}

Test(control_keys, hmac) {
    unsigned char key[131], digest[32];
    control_hmac("Jefe", 4, "what do ya want for nothing?", 28, digest);
    cr_assert_str_eq(hex(digest),
                     "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    control_hmac(key, sizeof key, "Test Using Larger Than Block-Size Key - Hash Key First", 54,
                 digest);
    cr_assert_str_eq(hex(digest),
                     "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

/* RFC 5869 has no vector with text salts; its second step is one HMAC, its first another. */
Test(control_keys, hkdf) {
    unsigned char secret[32], extracted[32], expected[32], key[32], info[7] = "server\1";
    memset(secret, 7, sizeof secret);
    control_hmac("salt", 4, secret, sizeof secret, extracted);
    control_hmac(extracted, sizeof extracted, info, sizeof info, expected);
    control_hkdf(secret, sizeof secret, "salt", "server", key);
    cr_assert_arr_eq(key, expected, 32);
}

Test(control_keys, derive) {
    struct control_secret secret = {{1}}, other = {{1}};
    struct control_keys a, b, c;
    other.bytes[31] ^= 1;
    cr_assert_eq(control_keys_derive(&secret, &a), STATUS_OK);
    cr_assert_eq(control_keys_derive(&secret, &b), STATUS_OK);
    cr_assert_eq(control_keys_derive(&other, &c), STATUS_OK);
    cr_assert_arr_eq(&a, &b, sizeof a);
    cr_assert_str_neq(a.server_secret, a.client_secret);
    cr_assert_str_neq(a.server_public, c.server_public);
    cr_assert_str_neq(a.client_public, c.client_public);
}

Test(control_keys, same_bytes) {
    cr_assert(control_same_bytes("abc", "abc", 3));
    cr_assert(!control_same_bytes("abc", "abd", 3));
}
