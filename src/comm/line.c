/* The lines this build has, and what they do before any communicator is open. */
#include "comm/line.h"

static const struct p2p_line_ops *const lines[] = {
#define LINE(name) &p2p_line_##name,
#include "comm/line.def"
#undef LINE
    NULL};

const struct p2p_line_ops *p2p_line_best(void) {
    for (int i = 0; lines[i]; i++)
        if (lines[i]->fits()) return lines[i];
    return NULL;
}

static const struct p2p_line_ops *carrier(void) {
    for (int i = 0; lines[i]; i++)
        if (lines[i]->carry && lines[i]->fits()) return lines[i];
    return NULL;
}

bool comm_carrier_there(const struct comm_config *config) {
    const struct p2p_line_ops *line = carrier();
    return line && line->carries(config);
}

enum status comm_carry(const struct comm_config *config, void *data, size_t bytes, double limit_s) {
    return carrier()->carry(config, data, bytes, limit_s);
}
