/* UCX as a line: one worker a rank, messages by tag, addresses exchanged through the link.
 *
 * The library is opened when it is first asked for, not linked: merely loaded it takes over signals
 * (SIGSEGV, SIGILL, SIGHUP) and with them our own handlers, unless told otherwise in its
 * environment before that. So runs without it never see it, and a binary starts where it is absent.
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
    CALL(ucp_request_check_status)                                                                 \
    CALL(ucp_request_cancel)                                                                       \
    CALL(ucp_request_free)                                                                         \
    CALL(ucs_status_string)

static struct {
#define CALL(name) __typeof__(&name) name;
    UCX_CALLS(CALL)
#undef CALL
} ucx;

struct line {
    struct p2p_line base;
    ucp_context_h context;
    ucp_worker_h worker;
    int events; /* readable when the worker has something to do */
    ucp_ep_h *end;
    struct wire {
        struct line *line;
        bool broken;
    } * wire;                     /* of each rank */
    struct p2p_transfer *waiting; /* receives under way */
};

/* --- the library ----------------------------------------------------------------------------- */

static void set_environment(void) {
    static const char *const settings[][2] = {{"UCX_HANDLE_ERRORS", "none"},
                                              {"UCX_DEBUG_SIGNO", "0"},
                                              {"UCX_LOG_LEVEL", "fatal"},
                                              {"UCX_WARN_UNUSED_ENV_VARS", "n"},
                                              {"UCX_MEM_EVENTS", "n"}};
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

static struct line *line_of(const struct p2p_line *base) {
    return (struct line *)base;
}

static void stop_waiting(struct line *line, struct p2p_transfer *transfer) {
    struct p2p_transfer **at = &line->waiting;
    while (*at && *at != transfer) at = &(*at)->next;
    if (*at) *at = transfer->next;
}

static void complete(struct line *line, struct p2p_transfer *transfer, ucs_status_t status) {
    line->base.moves++;
    if (status == UCS_OK)
        transfer->done = true;
    else if (status != UCS_ERR_CANCELED)
        line->wire[transfer->peer].broken = true;
}

static void on_sent(void *request, ucs_status_t status, void *context) {
    struct p2p_transfer *transfer = context;
    complete(transfer->line, transfer, status);
    ucx.ucp_request_free(request);
}

static void on_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                        void *context) {
    struct p2p_transfer *transfer = context;
    if (status == UCS_OK) transfer->bytes = info->length;
    stop_waiting(transfer->line, transfer);
    complete(transfer->line, transfer, status);
    ucx.ucp_request_free(request);
}

static ucp_tag_t tag_of(uint32_t stream, int from) {
    return (uint64_t)stream << 32 | (uint32_t)from;
}

static void ucx_send(struct p2p_line *base, int peer, uint32_t stream, const void *data,
                     size_t bytes, struct p2p_transfer *transfer) {
    struct line *line = line_of(base);
    ucp_request_param_t how = {.op_attr_mask =
                                   UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                               .cb.send = on_sent,
                               .user_data = transfer};
    *transfer = (struct p2p_transfer){.peer = peer, .line = line};
    if (line->wire[peer].broken) return;
    ucs_status_ptr_t request =
        ucx.ucp_tag_send_nbx(line->end[peer], data, bytes, tag_of(stream, base->rank), &how);
    if (UCS_PTR_IS_ERR(request) || !request) complete(line, transfer, UCS_PTR_STATUS(request));
}

static void ucx_receive(struct p2p_line *base, int peer, uint32_t stream, void *data, size_t bytes,
                        struct p2p_transfer *transfer) {
    struct line *line = line_of(base);
    ucp_tag_recv_info_t info = {0};
    ucp_request_param_t how = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                               UCP_OP_ATTR_FIELD_USER_DATA |
                                               UCP_OP_ATTR_FIELD_RECV_INFO,
                               .cb.recv = on_received,
                               .user_data = transfer,
                               .recv_info.tag_info = &info};
    *transfer = (struct p2p_transfer){.peer = peer, .line = line};
    ucs_status_ptr_t request =
        ucx.ucp_tag_recv_nbx(line->worker, data, bytes, tag_of(stream, peer), UINT64_MAX, &how);
    if (UCS_PTR_IS_ERR(request) || !request) {
        transfer->bytes = info.length;
        complete(line, transfer, UCS_PTR_STATUS(request));
    } else if (!transfer->done) {
        transfer->handle = request;
        transfer->next = line->waiting;
        line->waiting = transfer;
    }
}

static bool ucx_progress(struct p2p_line *base) {
    return ucx.ucp_worker_progress(line_of(base)->worker) != 0;
}

/* Armed, the worker raises its descriptor at the next event; it refuses where there is one now. */
static void ucx_rest(struct p2p_line *base, int64_t limit_ns) {
    struct line *line = line_of(base);
    struct pollfd look = {.fd = line->events, .events = POLLIN};
    if (ucx.ucp_worker_arm(line->worker) == UCS_OK) poll(&look, 1, (int)(limit_ns / 1000000));
    ucx.ucp_worker_progress(line->worker);
}

static bool ucx_broken(const struct p2p_line *base, int peer) {
    return line_of(base)->wire[peer].broken;
}

/* --- opening --------------------------------------------------------------------------------- */

static enum status make_context(const struct comm_config *config, struct line *line) {
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
        status =
            ucx.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &wanted, settings, &line->context);
    ucx.ucp_config_release(settings);
    return status == UCS_OK ? STATUS_OK : fail_ucx(config, "starting", status);
}

static enum status make_worker(const struct comm_config *config, struct line *line) {
    ucp_worker_params_t wanted = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    TRY(make_context(config, line));
    TRY_UCX(config, ucx.ucp_worker_create(line->context, &wanted, &line->worker));
    TRY_UCX(config, ucx.ucp_worker_get_efd(line->worker, &line->events));
    return STATUS_OK;
}

static void on_error(void *context, ucp_ep_h end, ucs_status_t status) {
    struct wire *wire = context;
    (void)end, (void)status;
    wire->broken = true;
}

static enum status publish(const struct comm_config *config, struct line *line) {
    ucp_address_t *address;
    char key[64];
    size_t bytes;
    TRY_UCX(config, ucx.ucp_worker_get_address(line->worker, &address, &bytes));
    snprintf(key, sizeof key, "comm/ucx/%d/%d", config->epoch, config->rank);
    enum status status = config->link->put(config->link->context, key, address, bytes);
    ucx.ucp_worker_release_address(line->worker, address);
    return status;
}

static enum status connect_to(const struct comm_config *config, struct line *line, int rank) {
    char key[64];
    void *address;
    size_t bytes;
    snprintf(key, sizeof key, "comm/ucx/%d/%d", config->epoch, rank);
    TRY(config->link->get(config->link->context, key, &address, &bytes));
    ucp_ep_params_t wanted = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .address = address,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = {on_error, &line->wire[rank]}};
    ucs_status_t status = ucx.ucp_ep_create(line->worker, &wanted, &line->end[rank]);
    free(address);
    return status == UCS_OK ? STATUS_OK : fail_ucx(config, "connecting", status);
}

static enum status open_steps(const struct comm_config *config, struct line *line) {
    TRY(make_worker(config, line));
    if (config->size == 1) return STATUS_OK;
    TRY(publish(config, line));
    for (int rank = 0; rank < config->size; rank++)
        if (rank != config->rank) TRY(connect_to(config, line, rank));
    return STATUS_OK;
}

static void ucx_close(struct p2p_line *base, bool clean);

static enum status ucx_open(const struct comm_config *config, struct p2p_line **out) {
    CHECK(config->link || config->size == 1, "ucx needs a link");
    TRY(load());
    struct line *line = MEM_NEW(struct line);
    line->base =
        (struct p2p_line){.ops = &p2p_line_ucx, .rank = config->rank, .size = config->size};
    line->end = MEM_ARRAY(ucp_ep_h, config->size);
    line->wire = MEM_ARRAY(struct wire, config->size);
    enum status status = open_steps(config, line);
    if (status == STATUS_OK)
        *out = &line->base;
    else
        ucx_close(&line->base, false);
    return status;
}

/* --- closing --------------------------------------------------------------------------------- */

/* Frees the request; a peer that does not answer costs two seconds, not for ever. */
static void finish(struct line *line, ucs_status_ptr_t request, int64_t end_ns) {
    if (!UCS_PTR_IS_PTR(request)) return;
    while (ucx.ucp_request_check_status(request) == UCS_INPROGRESS && clock_ns() < end_ns)
        if (!ucx.ucp_worker_progress(line->worker)) poll(NULL, 0, 1);
    ucx.ucp_request_free(request);
}

static void close_ends(struct line *line, bool clean) {
    int64_t end_ns = clock_ns() + close_limit_ns;
    ucp_request_param_t plain = {0};
    if (clean) finish(line, ucx.ucp_worker_flush_nbx(line->worker, &plain), end_ns);
    while (line->waiting) {
        struct p2p_transfer *transfer = line->waiting;
        line->waiting = transfer->next;
        ucx.ucp_request_cancel(line->worker, transfer->handle);
    }
    for (int rank = 0; rank < line->base.size; rank++) {
        bool force = !clean || line->wire[rank].broken;
        ucp_request_param_t how = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                   .flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0};
        if (line->end[rank]) finish(line, ucx.ucp_ep_close_nbx(line->end[rank], &how), end_ns);
    }
}

static void ucx_close(struct p2p_line *base, bool clean) {
    struct line *line = line_of(base);
    if (line->worker) {
        close_ends(line, clean);
        ucx.ucp_worker_destroy(line->worker);
    }
    if (line->context) ucx.ucp_cleanup(line->context);
    free(line->end);
    free(line->wire);
    free(line);
}

/* Always: it needs nothing but a network. */
static bool ucx_fits(void) {
    return true;
}

const struct p2p_line_ops p2p_line_ucx = {.name = "ucx",
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
    return p2p_open(&comm_ucx, &p2p_line_ucx, config, out);
}

static size_t overhead(int members) {
    return p2p_overhead_bytes(&p2p_line_ucx, members);
}

const struct comm_ops comm_ucx = P2P_TABLE("ucx", open_comm, overhead);
