/* Windows: memory of a GPU that other ranks reach. Ranks of one process have the addresses; other
 * processes open CUDA's handles. See backend/reach.h. */
#include "backend/reach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "backend/cuda/stream.h"
#include "base/log.h"
#include "base/mem.h"

/* The driver puts small allocations together; a handle is of all of them. One of this size stands
 * alone. */
enum { GRAIN = 2 << 20 };

struct card {
    uint64_t process; /* a random number, the same in all ranks of a process */
    CUuuid uuid;
    size_t bytes;
    struct device_window window; /* as its own process has it */
    CUipcMemHandle memory;
    CUipcEventHandle ready, done;
};
_Static_assert(sizeof(struct card) <= sizeof(struct device_card), "a card is too small");

static uint64_t this_process(void) {
    static _Atomic uint64_t number;
    uint64_t drawn = 0, none = 0;
    if (number) return number;
    if (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn) drawn = (uint64_t)(uintptr_t)&number;
    drawn |= 1;
    return __atomic_compare_exchange_n((uint64_t *)&number, &none, drawn, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST)
               ? drawn
               : none;
}

/* --- one's own --- */

static enum status shared_event(struct cuda_device *self, struct event **out) {
    CUevent made;
    TRY_CUDA(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    *out = MEM_NEW(struct event);
    **out = (struct event){self, made};
    return STATUS_OK;
}

static void window_free(struct device *device, struct device_window *window) {
    device->backend->memory_free(device, window->memory, window->bytes);
    device->backend->event_free(device, window->ready);
    device->backend->event_free(device, window->done);
    *window = (struct device_window){0};
}

/* Where the driver gives no handle there are no other processes to be reached from: whoever needs
 * one says so. */
static void fill_handles(const struct device_window *window, struct card *card) {
    CUdeviceptr memory = (CUdeviceptr)(uintptr_t)window->memory;
    if (cuda_call.cuIpcGetMemHandle(&card->memory, memory) != CUDA_SUCCESS ||
        cuda_call.cuIpcGetEventHandle(&card->ready, window->ready->event) != CUDA_SUCCESS ||
        cuda_call.cuIpcGetEventHandle(&card->done, window->done->event) != CUDA_SUCCESS)
        memset(&card->memory, 0, sizeof card->memory);
}

static enum status make_window(struct device *device, struct device_window *out) {
    struct cuda_device *self = cuda_device_of(device);
    void *memory;
    size_t taken = self->taken, peak = self->peak, whole = (out->bytes + GRAIN) / GRAIN * GRAIN;
    TRY(cuda_enter(self));
    TRY(device->backend->memory_new(device, whole, "data that other ranks reach", &memory));
    self->taken = taken + out->bytes; /* the rest is nobody's */
    self->peak = self->taken > peak ? self->taken : peak;
    out->memory = memory;
    TRY(shared_event(self, &out->ready));
    return shared_event(self, &out->done);
}

static enum status window_new(struct device *device, size_t bytes, struct device_window *out,
                              struct device_card *into) {
    struct card card = {.process = this_process()};
    *out = (struct device_window){.bytes = bytes};
    TRY(make_window(device, out));
    TRY_CUDA(cuDeviceGetUuid(&card.uuid, cuda_device_of(device)->device));
    card.bytes = out->bytes;
    card.window = *out;
    fill_handles(out, &card);
    memcpy(into, &card, sizeof card);
    return STATUS_OK;
}

/* --- another rank's --- */

static enum status find_device(const CUuuid *uuid, CUdevice *out) {
    int count = 0;
    cuda_call.cuDeviceGetCount(&count);
    for (int i = 0; i < count; i++) {
        CUuuid of;
        if (cuda_call.cuDeviceGet(out, i) == CUDA_SUCCESS &&
            cuda_call.cuDeviceGetUuid(&of, *out) == CUDA_SUCCESS &&
            memcmp(&of, uuid, sizeof of) == 0)
            return STATUS_OK;
    }
    return STATUS_NO;
}

/* Kernels of this device may read memory of that one: it is the same, or the two are connected. */
static enum status enable(struct cuda_device *self, const struct card *card, char *why,
                          size_t bytes) {
    CUdevice other;
    CUcontext context;
    int can = 0;
    snprintf(why, bytes, "its GPU is not visible here");
    TRY(find_device(&card->uuid, &other));
    if (other == self->device) return STATUS_OK;
    snprintf(why, bytes, "the two GPUs have no peer access");
    if (cuda_call.cuDeviceCanAccessPeer(&can, self->device, other) != CUDA_SUCCESS || !can)
        return STATUS_NO;
    if (card->process != this_process()) return STATUS_OK; /* opening its memory does it */
    TRY_CUDA(cuDevicePrimaryCtxRetain(&context, other));
    CUresult result = cuda_call.cuCtxEnablePeerAccess(context, 0);
    cuda_call.cuDevicePrimaryCtxRelease(other);
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
        return STATUS_OK;
    return cuda_fail(result, "cuCtxEnablePeerAccess");
}

static enum status refused(CUresult result) {
    const char *text = "the driver gives no handles";
    if (result != CUDA_SUCCESS) cuda_call.cuGetErrorString(result, &text);
    return fail(STATUS_USAGE,
                "processes do not reach one another's GPU memory here (CUDA IPC): %s\n"
                "  --spawn threads, or --comm shm through memory of the host",
                text);
}

static enum status open_event(struct cuda_device *self, const CUipcEventHandle *handle,
                              struct event **out) {
    CUevent event;
    CUresult result = cuda_call.cuIpcOpenEventHandle(&event, *handle);
    if (result != CUDA_SUCCESS) return refused(result);
    *out = MEM_NEW(struct event);
    **out = (struct event){self, event};
    return STATUS_OK;
}

static enum status open_window(struct cuda_device *self, const struct card *card,
                               struct device_window *out) {
    static const CUipcMemHandle none;
    CUdeviceptr memory;
    if (memcmp(&card->memory, &none, sizeof none) == 0) return refused(CUDA_SUCCESS);
    CUresult result =
        cuda_call.cuIpcOpenMemHandle(&memory, card->memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (result != CUDA_SUCCESS) return refused(result);
    out->opened = true;
    out->memory = (char *)(uintptr_t)memory;
    TRY(open_event(self, &card->ready, &out->ready));
    return open_event(self, &card->done, &out->done);
}

static void window_leave(struct device *device, struct device_window *window) {
    if (!window->opened || cuda_enter(cuda_device_of(device)) != STATUS_OK) return;
    cuda_call.cuIpcCloseMemHandle((CUdeviceptr)(uintptr_t)window->memory);
    device->backend->event_free(device, window->ready);
    device->backend->event_free(device, window->done);
}

static enum status window_reach(struct device *device, const struct device_card *from,
                                struct device_window *out, char *why, size_t bytes) {
    struct cuda_device *self = cuda_device_of(device);
    struct card card;
    memcpy(&card, from, sizeof card);
    TRY(cuda_enter(self));
    TRY(enable(self, &card, why, bytes));
    *out = (struct device_window){.bytes = card.bytes};
    if (card.process == this_process()) {
        *out = card.window;
        return STATUS_OK;
    }
    enum status status = open_window(self, &card, out);
    if (status != STATUS_OK) window_leave(device, out);
    return status;
}

/* --- sums --- */

static enum status array_tree(struct device *device, const struct tree_terms *terms,
                              struct stream *stream) {
    struct cuda_tree args = {
        .dtype = terms->dtype, .terms = terms->terms, .outs = terms->outs, .count = terms->count};
    memcpy(args.term, terms->term, sizeof args.term);
    memcpy(args.out, terms->out, sizeof args.out);
    TRY(cuda_enter(cuda_device_of(device)));
    return cuda_launch_elements(cuda_device_of(device), CUDA_KERNEL_array_tree, terms->count, &args,
                                cuda_stream_of(stream));
}

const struct backend_reach cuda_reach = {
    .window_new = window_new,
    .window_free = window_free,
    .window_reach = window_reach,
    .window_leave = window_leave,
    .array_tree = array_tree,
};
