/* See where.h. */
#include "control/where.h"

#include <stdio.h>

#include "base/text.h"

/* A rank beats twice a second: unheard of for that long, it may be dead rather than slow. */
static const double suspicious_s = 3;

void control_where_pack(struct control_message *out, const struct control_where *where) {
    control_pack_u32(out, (uint32_t)where->rank);
    control_pack_u32(out, where->state);
    control_pack_i64(out, (int64_t)(where->silent_s * 1e9));
    control_pack_i64(out, (int64_t)(where->doing_s * 1e9));
    control_pack_i64(out, where->doing.step);
    control_pack_text(out, where->doing.text, CONTROL_DOING_BYTES);
    control_pack_text(out, where->host, CONTROL_HOST_BYTES);
}

bool control_where_unpack(struct control_unpack *from, struct control_where *out) {
    out->rank = (int)control_unpack_u32(from);
    out->state = control_unpack_u32(from);
    out->silent_s = (double)control_unpack_i64(from) * 1e-9;
    out->doing_s = (double)control_unpack_i64(from) * 1e-9;
    out->doing.step = control_unpack_i64(from);
    control_clean_copy(out->doing.text, sizeof out->doing.text,
                       control_unpack_text(from, CONTROL_DOING_BYTES));
    out->host = control_unpack_text(from, CONTROL_HOST_BYTES);
    return !from->bad;
}

const char *control_where_text(const struct control_where *where, bool waited_for, char *text,
                               size_t bytes) {
    char at[CONTROL_DOING_BYTES + 32], since[TEXT_BYTES], heard[TEXT_BYTES];
    control_doing_text(&where->doing, at, sizeof at);
    text_duration(where->doing_s, since);
    text_duration(where->silent_s, heard);
    if (where->state == CONTROL_ABSENT)
        snprintf(text, bytes, "rank %d has not joined", where->rank);
    else if (where->state == CONTROL_LEFT)
        snprintf(text, bytes, "rank %d has left the job, last at %s", where->rank, at);
    else if (where->state == CONTROL_LOST)
        snprintf(text, bytes, "rank %d is lost, last at %s", where->rank, at);
    else if (where->silent_s >= suspicious_s)
        snprintf(text, bytes, "rank %d was at %s, silent for %s, perhaps dead", where->rank, at,
                 heard);
    else
        snprintf(text, bytes, "rank %d is at %s for %s (heard %s ago%s)", where->rank, at, since,
                 heard, waited_for ? ", slow" : "");
    return text;
}
