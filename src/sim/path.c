/* The critical path of a recorded step, from its last instruction back to its begin: see run.h.
 *
 * An instruction was issued when the one before it on its rank had ended, or when what it awaited
 * was done: a transfer that some instruction, of the same rank or another, had posted. So was the
 * end of the step. */
#include <stdlib.h>

#include "base/mem.h"
#include "sim/run.h"

static void add(struct sim_path *path, struct sim_path_item item) {
    if (item.end <= item.begin) return;
    path->item = mem_grow(path->item, &path->capacity, (size_t)path->count + 1, sizeof *path->item);
    path->item[path->count++] = item;
}

static int latest_run(const struct sim_result *result) {
    int latest = 0;
    for (int r = 1; r < result->run_count; r++)
        if (result->rank[r].end > result->rank[latest].end) latest = r;
    return latest;
}

static const struct sim_record *record_of(const struct sim_result *result, int run, int at) {
    return &result->rank[run].record[at];
}

/* What let it be issued at that time. */
struct place {
    int run, at;
    double time;
};

/* A transfer that (run, at) began, which ended at `end`. */
static struct place over_transfer(const struct sim_result *result, int run, int at, double end,
                                  struct sim_path *path) {
    double begin = record_of(result, run, at)->issued;
    if (begin > end) begin = end; /* a credit came back before all that its taker awaits was done */
    add(path, (struct sim_path_item){run, at, begin, end, true});
    return (struct place){run, at, begin};
}

/* The instruction itself ended at place.time: its own run, then where it met others. */
static struct place over_instruction(const struct sim_input *input, const struct sim_result *result,
                                     struct place place, struct sim_path *path) {
    const struct sim_record *record = record_of(result, place.run, place.at);
    const struct instr *instr =
        &program_list(input->program, result->rank[place.run].rank, LIST_BODY)->items[place.at];
    bool computes = instr_row(instr)->queue == QUEUE_COMPUTE;
    double begin = computes ? record->begin : record->issued;
    add(path, (struct sim_path_item){place.run, place.at, begin, place.time, false});
    if (computes && record->peer_run >= 0)
        return over_transfer(result, record->peer_run, record->peer_at, begin, path);
    return (struct place){place.run, place.at, begin};
}

/* Where steps overlap what let it be issued may be of an earlier body, which is not recorded. */
static bool is_before(const struct sim_input *input, const struct sim_result *result,
                      const struct sim_record *record, struct place place) {
    return input->program->ahead > 0 &&
           record_of(result, record->cause_run, record->cause_at)->issued >= place.time;
}

/* Where steps overlap what the step waits for reaches back into those before it: that is theirs. */
static void cut_at_begin(double begin, struct sim_path *path) {
    while (path->count > 0 && path->item[path->count - 1].end <= begin) path->count--;
    if (path->count > 0 && path->item[path->count - 1].begin < begin)
        path->item[path->count - 1].begin = begin;
}

static void follow(const struct sim_input *input, const struct sim_result *result,
                   struct sim_path *out) {
    int run = latest_run(result),
        count = program_list(input->program, result->rank[run].rank, LIST_BODY)->count;
    struct place place = {run, count, result->rank[run].end};
    int64_t most = 2 * result->instructions; /* then two takers of credits point at one another */
    *out = (struct sim_path){0};
    while (most-- > 0 && (input->program->ahead == 0 || place.time > result->begin) &&
           (place.at > 0 || (place.at == 0 && record_of(result, place.run, 0)->cause_run >= 0))) {
        const struct sim_record *record = record_of(result, place.run, place.at);
        if (record->cause_run >= 0 &&
            (record->cause_before || is_before(input, result, record, place))) {
            add(out, (struct sim_path_item){record->cause_run, record->cause_at, result->begin,
                                            place.time, true});
            return; /* it was under way when the step began */
        }
        if (record->cause_run >= 0) {
            place = over_transfer(result, record->cause_run, record->cause_at, place.time, out);
        } else {
            place.at--;
            place = over_instruction(input, result, place, out);
        }
    }
}

void sim_path(const struct sim_input *input, const struct sim_result *result,
              struct sim_path *out) {
    follow(input, result, out);
    if (input->program->ahead > 0) cut_at_begin(result->begin, out);
}

void sim_path_free(struct sim_path *path) {
    free(path->item);
    *path = (struct sim_path){0};
}
