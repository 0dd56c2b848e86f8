/* Convolutions by cuDNN's graph API, in C: tensors, an operation on them, the engines that its
 * heuristics name for it, and the first of them that may be used becomes a plan.
 *
 * An engine may not be used where its sums come in an order of their own, where its transforms or
 * types cost digits (Winograd, Fourier, narrower sums), and, for f32 that is not tf32, where it
 * runs on tensor cores, which round f32 operands. Descriptors are kept until the plan is made. */
#include <stdio.h>
#include <stdlib.h>

#include "backend/cuda/product.h"
#include "base/log.h"
#include "base/mem.h"

/* Plans that want more are passed over. */
static const int64_t workspace_limit = (int64_t)256 << 20;
enum { CANDIDATES = 32, KEPT = 16, ALIGN = 16 };
enum uid { UID_X = 1, UID_W, UID_Y };

struct cuda_engine {
    cudnnBackendDescriptor_t plan;
    int64_t workspace;
    enum op op;
    char name[32];
};

/* Descriptors on the way to a plan. */
struct making {
    cudnnHandle_t handle;
    const struct op_call *call;
    cudnnBackendDescriptor_t kept[KEPT];
    int count;
    bool refused; /* a call said no */
};

static cudnnDataType_t type_of(enum dtype dtype) {
    return dtype == DTYPE_F32    ? CUDNN_DATA_FLOAT
           : dtype == DTYPE_BF16 ? CUDNN_DATA_BFLOAT16
                                 : CUDNN_DATA_HALF;
}

static cudnnBackendDescriptor_t create(struct making *m, cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t descriptor = NULL;
    CHECK(m->count < KEPT, "%d descriptors of one convolution", m->count);
    if (cuda_call.cudnnBackendCreateDescriptor(type, &descriptor) != CUDNN_STATUS_SUCCESS)
        m->refused = true;
    m->kept[m->count++] = descriptor;
    return descriptor;
}

static void set(struct making *m, cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *value) {
    if (m->refused) return;
    m->refused =
        cuda_call.cudnnBackendSetAttribute(of, name, type, count, value) != CUDNN_STATUS_SUCCESS;
}

static void finalize(struct making *m, cudnnBackendDescriptor_t of) {
    if (!m->refused) m->refused = cuda_call.cudnnBackendFinalize(of) != CUDNN_STATUS_SUCCESS;
}

static void set_descriptor(struct making *m, cudnnBackendDescriptor_t of,
                           cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value) {
    set(m, of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

/* A tensor with the channels last. */
static cudnnBackendDescriptor_t tensor(struct making *m, int64_t uid,
                                       const struct tensor_type *type) {
    const int64_t *d = type->shape.dim;
    int64_t step[4] = {d[1] * d[2] * d[3], 1, d[1] * d[3], d[1]}, align = ALIGN;
    cudnnDataType_t kind = type_of(type->dtype);
    cudnnBackendDescriptor_t t = create(m, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(m, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &kind);
    set(m, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, d);
    set(m, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, step);
    set(m, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    set(m, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    finalize(m, t);
    return t;
}

static cudnnBackendDescriptor_t geometry(struct making *m) {
    const struct op_attrs *attrs = &m->call->attrs;
    int64_t dims = 2, pad[2], stride[2], dilation[2];
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    for (int i = 0; i < 2; i++)
        pad[i] = attrs->conv.pad[i], stride[i] = attrs->conv.stride[i],
        dilation[i] = attrs->conv.dilation[i];
    cudnnBackendDescriptor_t g = create(m, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(m, g, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dims);
    set(m, g, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    set(m, g, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(m, g, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pad);
    set(m, g, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pad);
    set(m, g, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilation);
    set(m, g, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride);
    finalize(m, g);
    return g;
}

/* How the attributes of the three directions are called; x, w and y are the forward's. */
struct direction {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t conv, x, w, y, alpha, beta;
};

static const struct direction *direction_of(enum op op) {
    static const struct direction forward = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    static const struct direction data = {
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    static const struct direction weight = {
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    return op == OP_CONV2D ? &forward : op == OP_CONV2D_BWD_DATA ? &data : &weight;
}

/* x, w and y of the forward convolution among the tensors of the call. */
static void forward_types(const struct op_call *call, const struct tensor_type *out[3]) {
    const struct tensor_type *in = call->in, *made = &call->out[0];
    bool forward = call->op == OP_CONV2D, data = call->op == OP_CONV2D_BWD_DATA;
    out[0] = forward ? &in[0] : data ? made : &in[0];
    out[1] = forward ? &in[1] : data ? &in[1] : made;
    out[2] = forward ? made : data ? &in[0] : &in[1];
}

static cudnnBackendDescriptor_t graph(struct making *m) {
    const struct direction *d = direction_of(m->call->op);
    const struct tensor_type *types[3];
    float one = 1, zero = 0;
    forward_types(m->call, types);
    cudnnBackendDescriptor_t x = tensor(m, UID_X, types[0]), w = tensor(m, UID_W, types[1]),
                             y = tensor(m, UID_Y, types[2]), conv = geometry(m);
    cudnnBackendDescriptor_t operation = create(m, d->type);
    set_descriptor(m, operation, d->conv, conv);
    set_descriptor(m, operation, d->x, x);
    set_descriptor(m, operation, d->w, w);
    set_descriptor(m, operation, d->y, y);
    set(m, operation, d->alpha, CUDNN_TYPE_FLOAT, 1, &one);
    set(m, operation, d->beta, CUDNN_TYPE_FLOAT, 1, &zero);
    finalize(m, operation);
    cudnnBackendDescriptor_t graph = create(m, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(m, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &m->handle);
    set_descriptor(m, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
    finalize(m, graph);
    return graph;
}

/* --- engines --- */

static bool has_note(const cudnnBackendNumericalNote_t *notes, int64_t count,
                     cudnnBackendNumericalNote_t note) {
    for (int64_t i = 0; i < count; i++)
        if (notes[i] == note) return true;
    return false;
}

/* May the engine of this configuration be used? */
static bool allowed(struct cuda_device *device, const struct op_call *call,
                    cudnnBackendDescriptor_t config, int64_t *index) {
    static const cudnnBackendNumericalNote_t never[] = {
        CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
        CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
        CUDNN_NUMERICAL_NOTE_FFT,
        CUDNN_NUMERICAL_NOTE_WINOGRAD,
        CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4,
        CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
        CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13};
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    cudnnBackendDescriptor_t engine = NULL;
    int64_t count = 0, one = 0;
    if (cuda_call.cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) !=
        CUDNN_STATUS_SUCCESS)
        return false;
    bool ok = cuda_call.cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &one,
                                                 &engine) == CUDNN_STATUS_SUCCESS &&
              cuda_call.cudnnBackendGetAttribute(
                  engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                  CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes) == CUDNN_STATUS_SUCCESS;
    cuda_call.cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                                       &one, index);
    cuda_call.cudnnBackendDestroyDescriptor(engine);
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        ok = ok && !has_note(notes, count, never[i]);
    bool exact = call->in[0].dtype == DTYPE_F32 && !device->base.tf32;
    return ok && !(exact && (has_note(notes, count, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) ||
                             has_note(notes, count, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)));
}

/* A plan of this configuration; NULL where it cannot be had. */
static cudnnBackendDescriptor_t plan_of(cudnnHandle_t handle, cudnnBackendDescriptor_t config,
                                        int64_t *workspace) {
    cudnnBackendDescriptor_t plan = NULL;
    int64_t one = 0;
    if (cuda_call.cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) !=
        CUDNN_STATUS_SUCCESS)
        return NULL;
    bool ok =
        cuda_call.cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                                           CUDNN_TYPE_HANDLE, 1, &handle) == CUDNN_STATUS_SUCCESS &&
        cuda_call.cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                           CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                           &config) == CUDNN_STATUS_SUCCESS &&
        cuda_call.cudnnBackendFinalize(plan) == CUDNN_STATUS_SUCCESS &&
        cuda_call.cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                           CUDNN_TYPE_INT64, 1, &one,
                                           workspace) == CUDNN_STATUS_SUCCESS &&
        *workspace <= workspace_limit;
    if (ok) return plan;
    cuda_call.cudnnBackendDestroyDescriptor(plan);
    return NULL;
}

static void try_configs(struct cuda_device *device, const struct op_call *call,
                        cudnnBackendDescriptor_t *configs, int64_t count,
                        struct cuda_engine *engine) {
    for (int64_t i = 0; i < count && !engine->plan; i++) {
        int64_t index = -1;
        if (!allowed(device, call, configs[i], &index)) continue;
        engine->plan = plan_of(device->dnn, configs[i], &engine->workspace);
        snprintf(engine->name, sizeof engine->name, "cudnn:%lld", (long long)index);
    }
}

/* The engines that one way of guessing names, best first. */
static void try_mode(struct cuda_device *device, struct making *m, cudnnBackendDescriptor_t graph,
                     cudnnBackendHeurMode_t mode, struct cuda_engine *engine) {
    cudnnBackendDescriptor_t configs[CANDIDATES] = {0};
    int64_t count = 0;
    cudnnBackendDescriptor_t guess = create(m, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_descriptor(m, guess, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(m, guess, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finalize(m, guess);
    bool ok = !m->refused;
    for (int i = 0; i < CANDIDATES && ok; i++)
        ok = cuda_call.cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                                    &configs[i]) == CUDNN_STATUS_SUCCESS;
    if (ok && cuda_call.cudnnBackendGetAttribute(guess, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, CANDIDATES, &count,
                                                 configs) == CUDNN_STATUS_SUCCESS)
        try_configs(device, m->call, configs, count, engine);
    for (int i = 0; i < CANDIDATES; i++)
        if (configs[i]) cuda_call.cudnnBackendDestroyDescriptor(configs[i]);
}

/* Operands of one type: what else there is has no engine worth asking for. */
static bool types_fit(const struct op_call *call) {
    return call->in[0].dtype == call->in[1].dtype;
}

enum status cuda_engine_new(struct cuda_device *device, const struct op_call *call,
                            struct cuda_engine **out) {
    if (!types_fit(call)) return STATUS_NO;
    TRY(cuda_need_dnn(device));
    struct cuda_engine *engine = MEM_NEW(struct cuda_engine);
    struct making m = {.handle = device->dnn, .call = call};
    cudnnBackendDescriptor_t of = graph(&m);
    engine->op = call->op;
    if (!m.refused) try_mode(device, &m, of, CUDNN_HEUR_MODE_A, engine);
    m.refused = false;
    if (!engine->plan) try_mode(device, &m, of, CUDNN_HEUR_MODE_FALLBACK, engine);
    for (int i = m.count - 1; i >= 0; i--)
        if (m.kept[i]) cuda_call.cudnnBackendDestroyDescriptor(m.kept[i]);
    if (!engine->plan) {
        cuda_engine_free(&engine);
        return STATUS_NO;
    }
    *out = engine;
    return STATUS_OK;
}

void cuda_engine_free(struct cuda_engine **engine) {
    if (!*engine) return;
    if ((*engine)->plan) cuda_call.cudnnBackendDestroyDescriptor((*engine)->plan);
    free(*engine);
    *engine = NULL;
}

size_t cuda_engine_scratch(const struct cuda_engine *engine) {
    return (size_t)engine->workspace;
}

const char *cuda_engine_name(const struct cuda_engine *engine) {
    return engine->name;
}

#define TRY_DNN(call)                                                                              \
    do {                                                                                           \
        cudnnStatus_t dnn_status_ = cuda_call.call;                                                \
        if (dnn_status_ != CUDNN_STATUS_SUCCESS)                                                   \
            return fail(STATUS_BUG, "cuDNN, %s: %s", #call,                                        \
                        cuda_call.cudnnGetErrorString(dnn_status_));                               \
    } while (0)

/* What a run is told: addresses by number. A finished one cannot be changed, so each run has its
 * own. */
static enum status execute(struct cuda_device *device, const struct cuda_engine *engine,
                           cudnnBackendDescriptor_t pack, void *pointers[3], void *scratch) {
    int64_t uids[] = {UID_X, UID_W, UID_Y};
    TRY_DNN(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                     CUDNN_TYPE_VOID_PTR, 3, pointers));
    TRY_DNN(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3,
                                     uids));
    TRY_DNN(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                                     1, &scratch));
    TRY_DNN(cudnnBackendFinalize(pack));
    TRY_DNN(cudnnBackendExecute(device->dnn, engine->plan, pack));
    return STATUS_OK;
}

enum status cuda_engine_run(struct cuda_device *device, const struct cuda_engine *engine,
                            void *const in[], void *out, void *scratch, CUstream stream) {
    bool forward = engine->op == OP_CONV2D, data = engine->op == OP_CONV2D_BWD_DATA;
    void *pointers[] = {data ? out : in[0], forward || data ? in[1] : out,
                        forward ? out
                        : data  ? in[0]
                                : in[1]};
    cudnnBackendDescriptor_t pack;
    TRY_DNN(cudnnSetStream(device->dnn, stream));
    TRY_DNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack));
    enum status status = execute(device, engine, pack, pointers, scratch);
    cuda_call.cudnnBackendDestroyDescriptor(pack);
    return status;
}
