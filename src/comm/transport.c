/* The transports this build has, and what they do before any communicator is open. */
#include "comm/transport.h"

static const struct p2p_transport_ops *const transports[] = {
#define TRANSPORT(name) &p2p_transport_##name,
#include "comm/comm.def"
    NULL};

const struct p2p_transport_ops *p2p_transport_best(void) {
    for (int i = 0; transports[i]; i++)
        if (transports[i]->fits()) return transports[i];
    return NULL;
}

static const struct p2p_transport_ops *bootstrap_transport(void) {
    for (int i = 0; transports[i]; i++)
        if (transports[i]->bootstrap && transports[i]->fits()) return transports[i];
    return NULL;
}

bool comm_bootstrap_exists(const struct comm_config *config) {
    const struct p2p_transport_ops *transport = bootstrap_transport();
    return transport && transport->can_bootstrap(config);
}

enum status comm_bootstrap(const struct comm_config *config, void *data, size_t bytes,
                           double limit_s) {
    return bootstrap_transport()->bootstrap(config, data, bytes, limit_s);
}
