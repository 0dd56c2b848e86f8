/* The gradient of the weights by Winograd's method (winograd.h): sums over strips. With few
 * channels, so few pairs of blocks that a thread would read most of what the others brought to the
 * points, strips are summed in GROUPS: each is one thread's, and the sums of all are added up in
 * order. With more, all threads bring `abreast` strips to the points, and then a thread has some
 * points, or pairs of blocks where all strips go at once. The order of the sums is that of the
 * shape, whatever the threads. */
#include "backend/cpu/team.h"
#include "backend/cpu/winograd.h"
#include "base/clones.h"

struct sums {
    struct winograd w;
    int64_t C, O;       /* blocks */
    int64_t groups;     /* of strips; 1: none */
    int64_t parts;      /* of the blocks C, where a thread has points */
    int64_t strip, end; /* under way */
    const float *x, *dy;
    float *weights;
    float *v, *u; /* scratch: strips at the points, [C] then [O]; sums */
};

enum { GROUPS = 16, GROUP_PAIRS = 16 };

static bool at_once(const struct winograd *w) {
    return w->abreast == w->strips;
}

/* The fewest equal parts that give threads about equally many pairs of a point and a part. */
static int64_t parts_of(const struct sums *s) {
    int64_t count = 1, threads = s->w.threads;
    for (; count < s->C; count++) {
        int64_t all = POINTS * count, most = parts(all, threads);
        if (s->C % count == 0 && 16 * most * threads <= 17 * all) break;
    }
    return count;
}

static struct sums sums_of(const struct cpu_kernel *kernel) {
    struct sums s = {.w = winograd_of(kernel), .groups = 1};
    s.C = blocks_of(&s.w.from), s.O = blocks_of(&s.w.to);
    if (s.C * s.O <= GROUP_PAIRS && s.w.strips >= GROUPS) s.groups = GROUPS;
    s.parts = parts_of(&s);
    return s;
}

/* Strips at the points, of all threads; blocks of sums. */
static int64_t strips_kept(const struct sums *s) {
    return s->groups > 1 ? s->w.threads : s->w.abreast;
}

static int64_t blocks_kept(const struct sums *s) {
    return s->groups == 1 && at_once(&s->w) ? s->w.threads : s->groups * s->C * s->O;
}

/* One block of a strip: of x, or behind them of dy. */
static void bring_to_points(const struct sums *s, int64_t strip, int64_t block, float *v) {
    const struct winograd *w = &s->w;
    int64_t first = strip * w->strip, count = strip_count(w, strip);
    if (block < s->C)
        winograd_windows_to_points(w, s->x, block, first, count, v + block * strip_floats(w));
    else
        winograd_outputs_to_points(w, s->dy, block - s->C, first, count,
                                   v + block * strip_floats(w));
}

/* The product of two blocks of a strip at one point, added to the sums, or the first of them. */
static void add_product(const struct sums *s, int64_t strip, const float *v, int64_t from,
                        int64_t to, int64_t point, bool first, float *sums) {
    const struct winograd *w = &s->w;
    v += point * w->pitch * WIDE;
    w->product(&(struct cpu_product){.v = v + from * strip_floats(w),
                                     .u = v + (s->C + to) * strip_floats(w),
                                     .m = sums + point * U_PITCH * WIDE,
                                     .blocks = 1,
                                     .depth = (int)strip_count(w, strip),
                                     .rows = WIDE,
                                     .turned = true,
                                     .fresh = first});
}

/* A point of a strip, with a part of C: what is read of the strip meets many others. */
static void add_point(const struct sums *s, int64_t strip, const float *v, int64_t point,
                      int64_t part, int64_t all_parts, bool first, float *sums) {
    int64_t begin = s->C * part / all_parts, end = s->C * (part + 1) / all_parts;
    for (int64_t from = begin; from < end; from++)
        for (int64_t to = 0; to < s->O; to++)
            add_product(s, strip, v, from, to, point, first,
                        sums + (to * s->C + from) * BLOCK_FLOATS);
}

static void sum_group(const void *work, int64_t group, int thread) {
    const struct sums *s = work;
    int64_t begin = s->w.strips * group / s->groups, end = s->w.strips * (group + 1) / s->groups;
    float *v = s->v + thread * (s->C + s->O) * strip_floats(&s->w);
    for (int64_t strip = begin; strip < end; strip++) {
        for (int64_t block = 0; block < s->C + s->O; block++) bring_to_points(s, strip, block, v);
        for (int64_t k = 0; k < POINTS; k++)
            add_point(s, strip, v, k, 0, 1, strip == begin,
                      s->u + group * s->C * s->O * BLOCK_FLOATS);
    }
}

/* The sums of a pair in all groups, in their order, in the place of the first. */
VECTOR_CLONES static void join_groups(const struct sums *s, int64_t pair) {
    float *sums = s->u + pair * BLOCK_FLOATS;
    for (int64_t group = 1; group < s->groups; group++) {
        const float *more = sums + group * s->C * s->O * BLOCK_FLOATS;
#pragma omp simd
        for (int64_t i = 0; i < BLOCK_FLOATS; i++) sums[i] += more[i];
    }
}

static void finish_pair(const void *work, int64_t pair, int thread) {
    (void)thread;
    const struct sums *s = work;
    join_groups(s, pair);
    winograd_block_to_weights(s->u + pair * BLOCK_FLOATS, s->weights + pair * TAPS * BLOCK);
}

static void run_groups(const struct sums *s) {
    cpu_team_run(s->w.threads, s->groups, sum_group, s);
    cpu_team_run(s->w.threads, s->C * s->O, finish_pair, s);
}

static const float *points_of(const struct sums *s, int64_t strip) {
    return s->v + (strip - s->strip) * (s->C + s->O) * strip_floats(&s->w);
}

/* One block of the strips under way, to the points. */
static void block_in(const void *work, int64_t i, int thread) {
    (void)thread;
    const struct sums *s = work;
    int64_t blocks = s->C + s->O;
    bring_to_points(s, s->strip + i / blocks, i % blocks,
                    s->v + i / blocks * blocks * strip_floats(&s->w));
}

static void sum_pair(const void *work, int64_t pair, int thread) {
    const struct sums *s = work;
    float *sums = s->u + thread * BLOCK_FLOATS;
    for (int64_t strip = s->strip; strip < s->end; strip++)
        for (int64_t k = 0; k < POINTS; k++)
            add_product(s, strip, points_of(s, strip), pair % s->C, pair / s->C, k, strip == 0,
                        sums);
    winograd_block_to_weights(sums, s->weights + pair * TAPS * BLOCK);
}

static void sum_point(const void *work, int64_t i, int thread) {
    (void)thread;
    const struct sums *s = work;
    for (int64_t strip = s->strip; strip < s->end; strip++)
        add_point(s, strip, points_of(s, strip), i / s->parts, i % s->parts, s->parts, strip == 0,
                  s->u);
}

static void run_phases(struct sums *s) {
    const struct winograd *w = &s->w;
    for (; s->strip < w->strips; s->strip = s->end) {
        s->end = least(s->strip + w->abreast, w->strips);
        cpu_team_run(w->threads, (s->end - s->strip) * (s->C + s->O), block_in, s);
        if (at_once(w))
            cpu_team_run(w->threads, s->C * s->O, sum_pair, s);
        else
            cpu_team_run(w->threads, POINTS * s->parts, sum_point, s);
    }
    if (!at_once(w)) cpu_team_run(w->threads, s->C * s->O, finish_pair, s);
}

void winograd_weight(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                     void *scratch) {
    struct sums s = sums_of(kernel);
    s.x = in[0], s.dy = in[1], s.weights = out[0], s.v = scratch;
    s.u = s.v + strips_kept(&s) * (s.C + s.O) * strip_floats(&s.w);
    if (s.groups > 1)
        run_groups(&s);
    else
        run_phases(&s);
}

int64_t winograd_weight_floats(const struct cpu_kernel *kernel) {
    struct sums s = sums_of(kernel);
    return strips_kept(&s) * (s.C + s.O) * strip_floats(&s.w) + blocks_kept(&s) * BLOCK_FLOATS;
}
