/* The bytes of a MUNGE bootstrap. Private to src/control.
 *
 * The client sends CONTROL_BOOTSTRAP_MAGIC, its nonce in 32 hexadecimal digits and a newline; the
 * server sends the sealed record and closes. */
#ifndef CONTROL_MUNGE_BOOTSTRAP_PROTOCOL_H
#define CONTROL_MUNGE_BOOTSTRAP_PROTOCOL_H

#define CONTROL_BOOTSTRAP_MAGIC "stretto munge 1 "
enum {
    CONTROL_BOOTSTRAP_NONCE = 32,
    CONTROL_BOOTSTRAP_REQUEST_BYTES =
        sizeof CONTROL_BOOTSTRAP_MAGIC - 1 + CONTROL_BOOTSTRAP_NONCE + 1,
    CONTROL_BOOTSTRAP_REPLY_BYTES = 16 << 10, /* at most */
};

#endif
