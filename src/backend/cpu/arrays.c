/* Arithmetic on f32 arrays by the OpenMP team; other types go one after the other, as the reference
 * does. Cut into chunks that do not depend on the team. */
#include "backend/cpu/cpu.h"
#include "backend/host.h"
#include "base/clones.h"

/* Fewer elements than these are not worth waking a team for. */
enum { TEAM_LEAST = 4 * HOST_CHUNK };

static int64_t chunk_count(int64_t begin, int64_t count) {
    return count - begin < HOST_CHUNK ? count - begin : HOST_CHUNK;
}

enum status cpu_array_fill(struct device *device, const struct elements *to, float value,
                           struct stream *stream) {
    if (to->dtype != DTYPE_F32) return host_array_fill(device, to, value, stream);
    float *values = to->data;
#pragma omp parallel for simd schedule(static) if (to->count > TEAM_LEAST)
    for (int64_t i = 0; i < to->count; i++) values[i] = value;
    return STATUS_OK;
}

VECTOR_CLONES
static void add_chunk(float *restrict into, const float *restrict from, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) into[i] += from[i];
}

enum status cpu_array_add(struct device *device, const struct elements *into,
                          const struct elements *from, struct stream *stream) {
    if (into->dtype != DTYPE_F32 || from->dtype != DTYPE_F32 || into->count != from->count)
        return host_array_add(device, into, from, stream);
    float *a = into->data;
    const float *b = from->data;
#pragma omp parallel for schedule(static) if (into->count > TEAM_LEAST)
    for (int64_t begin = 0; begin < into->count; begin += HOST_CHUNK)
        add_chunk(a + begin, b + begin, chunk_count(begin, into->count));
    return STATUS_OK;
}

enum status cpu_array_squares(struct device *device, const struct elements *of, double *sums,
                              struct stream *stream) {
    if (of->dtype != DTYPE_F32) return host_array_squares(device, of, sums, stream);
    int64_t blocks = of->count / NORM_BLOCK, rest = of->count % NORM_BLOCK;
#pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < blocks; b++)
        sums[b] = host_block_squares((const float *)of->data + b * NORM_BLOCK);
    if (rest == 0) return STATUS_OK;
    struct elements last = elements_part(of, blocks * NORM_BLOCK, rest);
    return host_array_squares(device, &last, sums + blocks, stream);
}

enum status cpu_array_check(struct device *device, const struct elements *of, int32_t *bad,
                            struct stream *stream) {
    if (of->dtype != DTYPE_F32) return host_array_check(device, of, bad, stream);
    const float *values = of->data;
    bool finite = true;
#pragma omp parallel for schedule(static) reduction(&& : finite) if (of->count > TEAM_LEAST)
    for (int64_t begin = 0; begin < of->count; begin += HOST_CHUNK)
        finite = host_all_finite(values + begin, chunk_count(begin, of->count)) && finite;
    if (!finite) *bad = 1;
    return STATUS_OK;
}

/* One parallel region over all spans: most are small. */
enum status cpu_array_update(struct device *device, const struct optim_update *given, int32_t *bad,
                             struct stream *stream) {
    (void)device, (void)stream;
    struct optim_step step;
    struct optim_update own, *update = &own;
    bool finite = true;
    host_check_update(given);
    if (!host_decided(given, &step, update)) return STATUS_OK;
#pragma omp parallel reduction(&& : finite)
    for (int i = 0; i < update->span_count; i++) {
        const struct optim_span *span = &update->spans[i];
        int64_t chunks = (span->count + HOST_CHUNK - 1) / HOST_CHUNK;
#pragma omp for schedule(static) nowait
        for (int64_t c = 0; c < chunks; c++) finite = host_update_chunk(update, span, c) && finite;
    }
    if (!finite) *bad = 1;
    return STATUS_OK;
}
