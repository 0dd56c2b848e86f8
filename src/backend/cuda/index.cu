/* Rows by number. Twins: op/index.c. Gradients of a row that is read several times are added in
 * index order in f32, so that the bits are the twin's. */
#include "backend/cuda/device.h"

KERNEL_OF(gather_rows, cuda_rows) {
    EACH(i, a.count * a.columns) {
        int64_t k = i / a.columns, row = k / a.per_sample * a.rows + a.index[k];
        put(a.to, i, get(a.from, row * a.columns + i % a.columns));
    }
}

KERNEL_OF(gather_rows_bwd, cuda_rows) {
    int64_t samples = a.count / a.per_sample;
    EACH(i, samples * a.rows * a.columns) {
        int64_t row = i / a.columns, sample = row / a.rows, begin = sample * a.per_sample;
        float sum = 0;
        for (int64_t k = begin; k < begin + a.per_sample; k++)
            if (a.index[k] == row % a.rows) sum += get(a.from, k * a.columns + i % a.columns);
        put(a.to, i, sum);
    }
}

/* A block an index and ROW_THREADS columns: the first index that names a row adds all that name it,
 * eight at a time so that their loads do not wait for one another; rows that nobody names were zeroed
 * before. */
KERNEL_OF(embedding_bwd, cuda_rows) {
    int64_t tiles = (a.columns + ROW_THREADS - 1) / ROW_THREADS;
    EACH_ROW(block, a.count * tiles) {
        int64_t k = block / tiles, c = block % tiles * ROW_THREADS + threadIdx.x;
        int32_t row = a.index[k];
        int earlier = 0;
        EACH_COLUMN(j, k) earlier |= a.index[j] == row;
        if (__syncthreads_or(earlier) || c >= a.columns) continue;
        float sum = 0;
        for (int64_t j = k; j < a.count; j += WIDE) {
            float v[WIDE];
            bool named[WIDE];
            for (int n = 0; n < WIDE; n++) {
                named[n] = j + n < a.count && a.index[j + n] == row;
                v[n] = named[n] ? get(a.from, (j + n) * a.columns + c) : 0;
            }
            for (int n = 0; n < WIDE; n++)
                if (named[n]) sum += v[n];
        }
        put(a.to, row * a.columns + c, sum);
    }
}
