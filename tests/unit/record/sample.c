/* The 1F1B pipeline of sample.h, run to its end by asking each stage in turn. */
#include "sample.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

const struct timeline_kind sample_kinds[SAMPLE_KINDS] = {
    {"F", TIMELINE_FORWARD},    {"B", TIMELINE_BACKWARD},        {"RECV", TIMELINE_MESSAGE},
    {"SEND", TIMELINE_MESSAGE}, {"REDUCE", TIMELINE_COLLECTIVE}, {"STEP", TIMELINE_OPTIMIZER},
    {"LOAD", TIMELINE_DATA},
};

const struct sample_costs sample_predicted = {.load = 150000,
                                              .f = 4000000,
                                              .b = 8000000,
                                              .c = 300000,
                                              .reduce = 6000000,
                                              .step = 900000,
                                              .slow_rank = -1};
const struct sample_costs sample_measured = {.load = 150000,
                                             .f = 4050000,
                                             .b = 8100000,
                                             .c = 520000,
                                             .reduce = 6400000,
                                             .step = 980000,
                                             .slow_rank = 1,
                                             .slow_percent = 14,
                                             .jitter_percent = 4,
                                             .skew = 300000};

/* The i-th of the 2M operations of a stage: F as m, B as -1 - m. */
static int sample_order(int stages, int micros, int stage, int i) {
    int ahead = stages - 1 - stage < micros ? stages - 1 - stage : micros;
    if (i < ahead) return i;
    if (i >= 2 * micros - ahead) return -1 - (i - micros);
    int pair = i - ahead;
    return pair % 2 == 0 ? ahead + pair / 2 : -1 - pair / 2;
}

struct sample_run {
    struct sample *sample;
    const struct sample_costs *costs;
    struct timeline_interval **rows; /* being filled */
    struct timeline_interval **done; /* [stage * 2M]: F then B of a micro-batch, NULL before */
    int *next, *count;
    int64_t *free_at;
    uint32_t random;
};

static int64_t sample_work(struct sample_run *run, int stage, int64_t cost) {
    run->random = run->random * 1664525u + 1013904223u;
    double jitter = run->costs->jitter_percent / 100.0 * ((run->random >> 8) / 8388608.0 - 1);
    double slow = stage == run->costs->slow_rank ? run->costs->slow_percent / 100.0 : 0;
    return (int64_t)llround((double)cost * (1 + jitter + slow));
}

static struct timeline_interval *sample_add(struct sample_run *run, int stage, int kind, int micro,
                                            int64_t begin, int64_t end) {
    int id = run->count[stage]++;
    struct timeline_interval *interval = &run->rows[stage][id];
    char *text = mem_format("#%d r%d %s s%d m%d", id, stage, sample_kinds[kind].name, stage, micro);
    *interval =
        (struct timeline_interval){.begin = begin, .end = end, .kind = kind, .stage = stage};
    interval->micro = micro;
    interval->id = id;
    interval->cause_row = interval->cause_id = TIMELINE_NONE;
    interval->text = arena_text(&run->sample->arena, text);
    free(text);
    return interval;
}

static void sample_arrow(struct sample_run *run, int version, const struct timeline_interval *from,
                         int to, int64_t at) {
    struct timeline_side *side = &run->sample->timeline.version[version];
    run->sample->arrows[version][side->arrow_count++] =
        (struct timeline_arrow){from->stage, to, from->end, at};
}

/* Runs the next operation of a stage if what it needs is there. */
static bool sample_advance(struct sample_run *run, int version, int stage) {
    const struct sample *sample = run->sample;
    int M = sample->micros, S = sample->stages;
    if (run->next[stage] == 2 * M) return false;
    int what = sample_order(S, M, stage, run->next[stage]);
    bool forward = what >= 0;
    int m = forward ? what : -1 - what, from = forward ? stage - 1 : stage + 1;
    bool inner = from >= 0 && from < S;
    const struct timeline_interval *needs = inner ? run->done[(from * 2 + !forward) * M + m] : NULL;
    if (inner && !needs) return false;
    int64_t begin = run->free_at[stage];
    const struct timeline_interval *cause = NULL;
    if (inner) {
        struct timeline_interval *recv =
            sample_add(run, stage, SAMPLE_RECV, m, needs->end, needs->end + run->costs->c);
        recv->cause_row = from;
        recv->cause_id = needs->id;
        sample_arrow(run, version, needs, stage, recv->end);
        if (recv->end > begin) begin = recv->end, cause = recv;
    } else if (forward) {
        sample_add(run, stage, SAMPLE_LOAD, m, begin, begin + run->costs->load);
        begin += run->costs->load;
    }
    int64_t cost = sample_work(run, stage, forward ? run->costs->f : run->costs->b);
    struct timeline_interval *work =
        sample_add(run, stage, forward ? SAMPLE_F : SAMPLE_B, m, begin, begin + cost);
    if (cause) work->cause_row = stage, work->cause_id = cause->id;
    run->done[(stage * 2 + !forward) * M + m] = work;
    run->free_at[stage] = work->end;
    run->next[stage]++;
    return true;
}

static void sample_end(struct sample_run *run, int stage) {
    int64_t at = run->free_at[stage];
    struct timeline_interval *reduce =
        sample_add(run, stage, SAMPLE_REDUCE, TIMELINE_NONE, at - run->costs->b / 2,
                   at - run->costs->b / 2 + run->costs->reduce);
    if (reduce->end > at) at = reduce->end;
    struct timeline_interval *step =
        sample_add(run, stage, SAMPLE_STEP, TIMELINE_NONE, at, at + run->costs->step);
    step->cause_row = stage;
    step->cause_id = reduce->id;
}

/* Marks what set the length of the step: backwards, by the later of cause and predecessor. */
static void sample_critical(struct timeline_interval **rows, const int *count, int stages) {
    struct timeline_interval *at = NULL;
    for (int s = 0; s < stages; s++)
        for (int i = 0; i < count[s]; i++)
            if (!at || rows[s][i].end > at->end) at = &rows[s][i];
    while (at) {
        struct timeline_interval *best = NULL;
        at->critical = true;
        for (int i = 0; i < count[at->stage]; i++) {
            struct timeline_interval *other = &rows[at->stage][i];
            bool before = other->end <= at->begin && other->begin < at->begin;
            if (before && (!best || other->end > best->end)) best = other;
        }
        if (at->cause_row >= 0 && at->cause_row != at->stage)
            best = &rows[at->cause_row][at->cause_id];
        at = best;
    }
}

static void sample_memory(struct sample *sample, int version, int stage) {
    enum { MIB = 1 << 20 };
    struct timeline_lane *lane = &sample->lanes[version][stage];
    struct timeline_point *point =
        arena_new(&sample->arena, sizeof *point * (2 * (size_t)sample->micros + 1));
    int64_t bytes = (120 + 10 * (stage == 0)) * (int64_t)MIB;
    const struct timeline_interval **sorted = timeline_sorted(lane);
    point[lane->point_count++] = (struct timeline_point){sorted[0]->begin, bytes};
    for (size_t i = 0; i < lane->interval_count; i++) {
        if (sorted[i]->kind != SAMPLE_F && sorted[i]->kind != SAMPLE_B) continue;
        bool forward = sorted[i]->kind == SAMPLE_F;
        bytes += (forward ? 48 : -48) * (int64_t)MIB;
        point[lane->point_count++] =
            (struct timeline_point){forward ? sorted[i]->begin : sorted[i]->end, bytes};
    }
    free(sorted);
    lane->point = point;
}

void sample_version(struct sample *sample, int version, const struct sample_costs *costs) {
    size_t S = (size_t)sample->stages, M = (size_t)sample->micros;
    struct sample_run run = {.sample = sample, .costs = costs, .random = 7u + (uint32_t)version};
    run.rows = MEM_ARRAY(struct timeline_interval *, S);
    run.done = MEM_ARRAY(struct timeline_interval *, 2 * S * M);
    run.next = MEM_ARRAY(int, S);
    run.count = MEM_ARRAY(int, S);
    run.free_at = MEM_ARRAY(int64_t, S);
    struct timeline_side *side = &sample->timeline.version[version];
    side->figures = timeline_figures_none;
    side->lane = sample->lanes[version] = arena_new(&sample->arena, S * sizeof *side->lane);
    side->arrow = sample->arrows[version] =
        arena_new(&sample->arena, (2 * S * M + 1) * sizeof *side->arrow);
    for (size_t s = 0; s < S; s++)
        run.rows[s] = arena_new(&sample->arena, (4 * M + 8) * sizeof **run.rows);
    run.free_at[S - 1] = costs->skew;
    for (bool moved = true; moved;) {
        moved = false;
        for (int s = 0; s < sample->stages; s++)
            while (sample_advance(&run, version, s)) moved = true;
    }
    for (int s = 0; s < sample->stages; s++) {
        sample_end(&run, s);
        sample->lanes[version][s].interval = run.rows[s];
        sample->lanes[version][s].interval_count = (size_t)run.count[s];
        sample_memory(sample, version, s);
    }
    sample_critical(run.rows, run.count, sample->stages);
    free(run.rows), free(run.done), free(run.next), free(run.count), free(run.free_at);
}

void sample_make(struct sample *sample, int stages, int micros) {
    *sample = (struct sample){.stages = stages, .micros = micros};
    struct timeline *timeline = &sample->timeline;
    timeline->title = "1f1b";
    timeline->kind = sample_kinds;
    timeline->kind_count = sizeof sample_kinds / sizeof sample_kinds[0];
    timeline->row_count = (size_t)stages;
    timeline->row = sample->rows = arena_new(&sample->arena, (size_t)stages * sizeof *sample->rows);
    for (int s = 0; s < stages; s++) {
        char *label = mem_format("rank %d \xC2\xB7 stage %d", s, s);
        sample->rows[s].label = arena_text(&sample->arena, label);
        free(label);
    }
    timeline->version[0].figures = timeline->version[1].figures = timeline_figures_none;
}

void sample_free(struct sample *sample) {
    arena_free(&sample->arena);
}
