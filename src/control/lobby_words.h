/* What is said in a lobby. Private to src/control.
 *
 * The guest says CONTROL_LOBBY_HELLO, its number in 32 hexadecimal digits and a newline; the host
 * says the sealed record and closes. */
#ifndef CONTROL_LOBBY_WORDS_H
#define CONTROL_LOBBY_WORDS_H

#define CONTROL_LOBBY_HELLO "stretto lobby 1 "
enum {
    CONTROL_LOBBY_NUMBER = 32,
    CONTROL_LOBBY_ASK_BYTES = sizeof CONTROL_LOBBY_HELLO - 1 + CONTROL_LOBBY_NUMBER + 1,
    CONTROL_LOBBY_ANSWER_BYTES = 16 << 10, /* at most */
};

#endif
