/* UCX as a transport: one worker a rank, messages by tag, addresses exchanged through the link.
 *
 * The library is opened when it is first asked for, not linked: so runs without it do not see it,
 * unless MPI brings it (library_signals.h), and a binary starts where it is absent.
 *
 * Endpoints report the death of their peer (error handling mode "peer"); over shared memory UCX
 * notices only late, and the control plane says it first. */
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/library_signals.h"
#include "comm/link_share.h"
#include "comm/p2p.h"

/* Measured: what a worker with endpoints to a few ranks adds to the resident size. */
enum { LIBRARY_BYTES = 8 << 20 };
static const int64_t close_limit_ns = (int64_t)2 * 1000 * 1000 * 1000;

#define UCX_CALLS(CALL)                                                                            \
    CALL(ucp_config_read)                                                                          \
    CALL(ucp_config_modify)                                                                        \
    CALL(ucp_config_release)                                                                       \
    CALL(ucp_init_version)                                                                         \
    CALL(ucp_cleanup)                                                                              \
    CALL(ucp_worker_create)                                                                        \
    CALL(ucp_worker_destroy)                                                                       \
    CALL(ucp_worker_get_address)                                                                   \
    CALL(ucp_worker_release_address)                                                               \
    CALL(ucp_worker_get_efd)                                                                       \
    CALL(ucp_worker_arm)                                                                           \
    CALL(ucp_worker_progress)                                                                      \
    CALL(ucp_worker_flush_nbx)                                                                     \
    CALL(ucp_ep_create)                                                                            \
    CALL(ucp_ep_close_nbx)                                                                         \
    CALL(ucp_tag_send_nbx)                                                                         \
    CALL(ucp_tag_recv_nbx)                                                                         \
    CALL(ucp_tag_probe_nb)                                                                         \
    CALL(ucp_request_check_status)                                                                 \
    CALL(ucp_request_cancel)                                                                       \
    CALL(ucp_request_free)                                                                         \
    CALL(ucs_status_string)

static struct {
#define CALL(name) __typeof__(&name) name;
    UCX_CALLS(CALL)
#undef CALL
} ucx;

struct transport {
    struct p2p_transport base;
    ucp_context_h context;
    ucp_worker_h worker;
    int events; /* readable when the worker has something to do */
    ucp_ep_h *end;
    struct wire {
        bool broken;
    } * wire;                     /* of each rank */
    struct p2p_transfer *waiting; /* receives under way */
};

/* --- the library ----------------------------------------------------------------------------- */

static void set_environment(void) {
    static const char *const settings[][2] = {
        {"UCX_LOG_LEVEL", "fatal"}, {"UCX_WARN_UNUSED_ENV_VARS", "n"}, {"UCX_MEM_EVENTS", "n"}};
    comm_keep_signals();
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        setenv(settings[i][0], settings[i][1], 0);
}

static enum status find_call(void *library, const char *name, void *out) {
    void *found = dlsym(library, name);
    if (!found) return fail(STATUS_USAGE, "libucp.so.0 has no %s\nit is too old", name);
    memcpy(out, &found, sizeof found);
    return STATUS_OK;
}

/* Stays open until the process ends. */
static enum status load(void) {
    if (ucx.ucs_status_string) return STATUS_OK;
    set_environment();
    void *library = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return fail(STATUS_USAGE, "the communicator ucx needs UCX: %s\ninstall libucx0", dlerror());
#define CALL(name) TRY(find_call(library, #name, &ucx.name));
    UCX_CALLS(CALL)
#undef CALL
    return STATUS_OK;
}

/* UCX itself only says "no such device": what it looked at, in the order of likelihood. */
static void hint_of(const struct comm_config *config, char out[256]) {
    static const char *const settings[] = {"UCX_NET_DEVICES", "UCX_TLS"};
    if (config->interface)
        snprintf(out, 256, "the network is %s", config->interface);
    else
        snprintf(out, 256, "`ucx_info -d` lists what UCX can use here");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (getenv(settings[i]))
            snprintf(out, 256, "%s is set to %.100s", settings[i], getenv(settings[i]));
    if (access("/sys/class/net", F_OK) != 0)
        snprintf(out, 256, "UCX finds networks in /sys/class/net, which is not there: mount sysfs");
}

static enum status fail_ucx(const struct comm_config *config, const char *what,
                            ucs_status_t status) {
    char hint[256];
    hint_of(config, hint);
    return fail(STATUS_PEER, "rank %d: UCX, %s: %s\n  %s", config->rank, what,
                ucx.ucs_status_string(status), hint);
}

#define TRY_UCX(config, call)                                                                      \
    do {                                                                                           \
        ucs_status_t ucx_status_ = (call);                                                         \
        if (ucx_status_ != UCS_OK) return fail_ucx(config, #call, ucx_status_);                    \
    } while (0)

/* --- messages -------------------------------------------------------------------------------- */

static struct transport *transport_of(const struct p2p_transport *base) {
    return (struct transport *)base;
}

static void stop_waiting(struct transport *transport, struct p2p_transfer *transfer) {
    struct p2p_transfer **at = &transport->waiting;
    while (*at && *at != transfer) at = &(*at)->next;
    if (*at) *at = transfer->next;
}

static void complete(struct transport *transport, struct p2p_transfer *transfer,
                     ucs_status_t status) {
    transport->base.moves++;
    if (status == UCS_OK)
        transfer->done = true;
    else if (status != UCS_ERR_CANCELED)
        transport->wire[transfer->peer].broken = true;
}

static void on_sent(void *request, ucs_status_t status, void *context) {
    struct p2p_transfer *transfer = context;
    complete(transfer->transport, transfer, status);
    ucx.ucp_request_free(request);
}

static void on_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                        void *context) {
    struct p2p_transfer *transfer = context;
    if (status == UCS_OK) transfer->bytes = info->length;
    stop_waiting(transfer->transport, transfer);
    complete(transfer->transport, transfer, status);
    ucx.ucp_request_free(request);
}

static ucp_tag_t tag_of(uint32_t stream, int from) {
    return (uint64_t)stream << 32 | (uint32_t)from;
}

static void ucx_send(struct p2p_transport *base, int peer, uint32_t stream, const void *data,
                     size_t bytes, struct p2p_transfer *transfer) {
    struct transport *transport = transport_of(base);
    ucp_request_param_t how = {.op_attr_mask =
                                   UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                               .cb.send = on_sent,
                               .user_data = transfer};
    *transfer = (struct p2p_transfer){.peer = peer, .transport = transport};
    if (transport->wire[peer].broken) return;
    ucs_status_ptr_t request =
        ucx.ucp_tag_send_nbx(transport->end[peer], data, bytes, tag_of(stream, base->rank), &how);
    if (UCS_PTR_IS_ERR(request) || !request) complete(transport, transfer, UCS_PTR_STATUS(request));
}

/* A message that is there already may be taken at once; UCX 1.13 does not tell its length then, not
 * even where asked to (recv_info), but a probe before it does. */
static void ucx_receive(struct p2p_transport *base, int peer, uint32_t stream, void *data,
                        size_t bytes, struct p2p_transfer *transfer) {
    struct transport *transport = transport_of(base);
    ucp_tag_t tag = tag_of(stream, peer);
    ucp_tag_recv_info_t info = {0};
    ucp_request_param_t how = {.op_attr_mask =
                                   UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                               .cb.recv = on_received,
                               .user_data = transfer};
    *transfer = (struct p2p_transfer){.peer = peer, .transport = transport};
    ucx.ucp_tag_probe_nb(transport->worker, tag, UINT64_MAX, 0, &info);
    ucs_status_ptr_t request =
        ucx.ucp_tag_recv_nbx(transport->worker, data, bytes, tag, UINT64_MAX, &how);
    if (UCS_PTR_IS_ERR(request) || !request) {
        transfer->bytes = info.length;
        complete(transport, transfer, UCS_PTR_STATUS(request));
    } else if (!transfer->done) {
        transfer->handle = request;
        transfer->next = transport->waiting;
        transport->waiting = transfer;
    }
}

static bool ucx_progress(struct p2p_transport *base) {
    return ucx.ucp_worker_progress(transport_of(base)->worker) != 0;
}

/* Armed, the worker raises its descriptor at the next event; it refuses where there is one now. */
static void ucx_rest(struct p2p_transport *base, int64_t limit_ns) {
    struct transport *transport = transport_of(base);
    struct pollfd look = {.fd = transport->events, .events = POLLIN};
    if (ucx.ucp_worker_arm(transport->worker) == UCS_OK) poll(&look, 1, (int)(limit_ns / 1000000));
    ucx.ucp_worker_progress(transport->worker);
}

static bool ucx_broken(const struct p2p_transport *base, int peer) {
    return transport_of(base)->wire[peer].broken;
}

/* --- opening --------------------------------------------------------------------------------- */

static enum status make_context(const struct comm_config *config, struct transport *transport) {
    ucp_params_t wanted = {.field_mask =
                               UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
                           .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
                           .estimated_num_eps = (size_t)config->size};
    ucp_config_t *settings;
    TRY_UCX(config, ucx.ucp_config_read(NULL, NULL, &settings));
    ucs_status_t status = UCS_OK;
    if (config->interface)
        status = ucx.ucp_config_modify(settings, "NET_DEVICES", config->interface);
    if (status == UCS_OK)
        status = ucx.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &wanted, settings,
                                      &transport->context);
    ucx.ucp_config_release(settings);
    return status == UCS_OK ? STATUS_OK : fail_ucx(config, "starting", status);
}

static enum status make_worker(const struct comm_config *config, struct transport *transport) {
    ucp_worker_params_t wanted = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    TRY(make_context(config, transport));
    TRY_UCX(config, ucx.ucp_worker_create(transport->context, &wanted, &transport->worker));
    TRY_UCX(config, ucx.ucp_worker_get_efd(transport->worker, &transport->events));
    return STATUS_OK;
}

static void on_error(void *context, ucp_ep_h end, ucs_status_t status) {
    struct wire *wire = context;
    (void)end, (void)status;
    wire->broken = true;
}

static enum status connect_to(const struct comm_config *config, struct transport *transport,
                              int rank, const struct bytes *address) {
    ucp_ep_params_t wanted = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .address = (const ucp_address_t *)address->data,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = {on_error, &transport->wire[rank]}};
    ucs_status_t status = ucx.ucp_ep_create(transport->worker, &wanted, &transport->end[rank]);
    return status == UCS_OK ? STATUS_OK : fail_ucx(config, "connecting", status);
}

/* The addresses of all ranks. */
static enum status share_addresses(const struct comm_config *config, struct transport *transport,
                                   struct bytes *out) {
    ucp_address_t *address;
    char key[64];
    struct bytes own;
    TRY_UCX(config, ucx.ucp_worker_get_address(transport->worker, &address, &own.count));
    own.data = (unsigned char *)address;
    snprintf(key, sizeof key, "comm/ucx/%d", config->epoch);
    enum status status = comm_link_share(config->link, key, config->rank, config->size, &own, out);
    ucx.ucp_worker_release_address(transport->worker, address);
    return status;
}

static enum status open_steps(const struct comm_config *config, struct transport *transport) {
    TRY(make_worker(config, transport));
    if (config->size == 1) return STATUS_OK;
    SCOPED_FREE struct bytes *address = MEM_ARRAY(struct bytes, config->size);
    enum status status = share_addresses(config, transport, address);
    for (int rank = 0; rank < config->size && status == STATUS_OK; rank++)
        if (rank != config->rank) status = connect_to(config, transport, rank, &address[rank]);
    comm_link_share_free(address, config->size);
    return status;
}

static void ucx_close(struct p2p_transport *base, bool clean);

static enum status ucx_open(const struct comm_config *config, struct p2p_transport **out) {
    CHECK(config->link || config->size == 1, "ucx needs a link");
    TRY(load());
    struct transport *transport = MEM_NEW(struct transport);
    transport->base = (struct p2p_transport){
        .ops = &p2p_transport_ucx, .rank = config->rank, .size = config->size};
    transport->end = MEM_ARRAY(ucp_ep_h, config->size);
    transport->wire = MEM_ARRAY(struct wire, config->size);
    enum status status = open_steps(config, transport);
    if (status == STATUS_OK)
        *out = &transport->base;
    else
        ucx_close(&transport->base, false);
    return status;
}

/* --- closing --------------------------------------------------------------------------------- */

/* Frees the request; a peer that does not answer costs two seconds, not for ever. */
static void finish(struct transport *transport, ucs_status_ptr_t request, int64_t end_ns) {
    if (!UCS_PTR_IS_PTR(request)) return;
    while (ucx.ucp_request_check_status(request) == UCS_INPROGRESS && clock_ns() < end_ns)
        if (!ucx.ucp_worker_progress(transport->worker)) poll(NULL, 0, 1);
    ucx.ucp_request_free(request);
}

static void close_ends(struct transport *transport, bool clean) {
    int64_t end_ns = clock_ns() + close_limit_ns;
    ucp_request_param_t plain = {0};
    if (clean) finish(transport, ucx.ucp_worker_flush_nbx(transport->worker, &plain), end_ns);
    while (transport->waiting) {
        struct p2p_transfer *transfer = transport->waiting;
        transport->waiting = transfer->next;
        ucx.ucp_request_cancel(transport->worker, transfer->handle);
    }
    for (int rank = 0; rank < transport->base.size; rank++) {
        bool force = !clean || transport->wire[rank].broken;
        ucp_request_param_t how = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                   .flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0};
        if (transport->end[rank])
            finish(transport, ucx.ucp_ep_close_nbx(transport->end[rank], &how), end_ns);
    }
}

static void ucx_close(struct p2p_transport *base, bool clean) {
    struct transport *transport = transport_of(base);
    if (transport->worker) {
        close_ends(transport, clean);
        ucx.ucp_worker_destroy(transport->worker);
    }
    if (transport->context) ucx.ucp_cleanup(transport->context);
    free(transport->end);
    free(transport->wire);
    free(transport);
}

/* Always: it needs nothing but a network. */
static bool ucx_fits(void) {
    return true;
}

const struct p2p_transport_ops p2p_transport_ucx = {.name = "ucx",
                                                    .fits = ucx_fits,
                                                    .open = ucx_open,
                                                    .close = ucx_close,
                                                    .send = ucx_send,
                                                    .receive = ucx_receive,
                                                    .progress = ucx_progress,
                                                    .rest = ucx_rest,
                                                    .broken = ucx_broken,
                                                    .overhead_bytes = LIBRARY_BYTES};

static enum status open_comm(const struct comm_config *config, struct comm **out) {
    return p2p_open(&comm_ucx, &p2p_transport_ucx, config, out);
}

static size_t overhead(int members) {
    return p2p_overhead_bytes(&p2p_transport_ucx, members);
}

const struct comm_ops comm_ucx = P2P_TABLE("ucx", open_comm, overhead, p2p_channel_overhead);
