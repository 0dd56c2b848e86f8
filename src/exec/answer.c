/* See answer.h. */
#include "exec/answer.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "exec/overlap.h"
#include "exec/rank_threads.h"

struct member {
    const struct answer_config *config;
    struct rank_threads *threads;
    int rank;
    const struct plan *plan;
    struct train_state state;
    struct engine *engine;
    struct answer answer; /* its part of it; kept parameters are those it answers for */
};

static enum status keep_param(void *context, int param, const void *plain) {
    struct member *member = context;
    size_t bytes = tensor_type_bytes(&member->plan->store->params[param].type);
    member->answer.param[param] = mem_new(bytes);
    memcpy(member->answer.param[param], plain, bytes);
    return STATUS_OK;
}

static enum status fill_answer(struct member *member) {
    struct answer *out = &member->answer;
    TRY(engine_compare_copies(member->engine));
    TRY(engine_param_hash(member->engine, &out->params));
    TRY(store_buffer_hash(engine_store(member->engine), &out->buffers));
    if (!member->config->keep_params) return STATUS_OK;
    out->param_count = member->plan->store->param_count;
    out->param = MEM_ARRAY(float *, out->param_count);
    return engine_each_param(member->engine, keep_param, member);
}

static enum status open_comm(void *context, const struct plan *plan, struct comm **out) {
    struct member *member = context;
    return rank_threads_comm(member->threads, member->rank, plan, out);
}

/* Goes on with another plan where the course has one. */
static enum status follow(struct member *member) {
    const struct answer_config *config = member->config;
    const struct plan *next = member->plan;
    int64_t steps = engine_next_step(member->engine);
    if (config->next) TRY(config->next(config->context, member->rank, steps, &next));
    if (next == member->plan) return STATUS_OK;
    TRY(engine_settle(member->engine));
    TRY(engine_change_plan(&member->engine, next));
    member->plan = next;
    engine_pause(member->engine, next->config.steps);
    return STATUS_OK;
}

static enum status train_task(void *context, int rank) {
    struct member *member = (struct member *)context + rank;
    const struct answer_config *config = member->config;
    struct step_result result = {0};
    if (rank > 0) TRY(config->plan(config->context, rank, &member->plan));
    struct engine_config engine = {
        .plan = member->plan,
        .state = &member->state,
        .meeting = {.context = member, .open = config->ranks > 1 ? open_comm : NULL}};
    if (config->clock) engine.meeting.clock = config->clock(config->context, rank);
    TRY(engine_open(&engine, &member->engine));
    if (config->ready) TRY(config->ready(config->context, rank, member->engine));
    TRY(engine_start(member->engine));
    engine_pause(member->engine, member->plan->config.steps);
    while (engine_next_step(member->engine) < member->plan->config.steps) {
        TRY(follow(member));
        TRY(engine_step(member->engine, &result));
    }
    TRY(engine_drain(member->engine));
    member->answer = (struct answer){.loss = result.loss};
    engine_norm(member->engine, result.step, &member->answer.norm);
    return fill_answer(member);
}

static enum status close_task(void *context, int rank) {
    struct member *member = (struct member *)context + rank;
    engine_close(&member->engine);
    return STATUS_OK;
}

/* The ranks of a pipeline have the model together. */
static void add_part(struct member *member, bool keeps, struct answer *sum) {
    sum->params += member->answer.params;
    sum->buffers += member->answer.buffers;
    for (int i = 0; keeps && i < member->answer.param_count; i++) {
        if (!sum->param) sum->param = MEM_ARRAY(float *, member->answer.param_count);
        sum->param_count = member->answer.param_count;
        if (!sum->param[i]) {
            sum->param[i] = member->answer.param[i];
            member->answer.param[i] = NULL;
        }
    }
}

/* Every replica must have the same parameters; replica 0's answer is all. */
static enum status collect(struct member *members, int ranks, struct answer *out) {
    const struct grid *grid = &members[0].plan->config.grid;
    int pipelines = (ranks - grid->drivers) / grid->stages;
    for (int pipeline = 0; pipeline < pipelines; pipeline++) {
        struct answer sum = {.loss = members[0].answer.loss, .norm = members[0].answer.norm};
        for (int p = 0; p < grid->stages; p++)
            add_part(&members[group_rank(grid, GROUP_PIPELINE, pipeline, p)], pipeline == 0, &sum);
        if (pipeline == 0) *out = sum;
        if (sum.params != out->params)
            return fail(STATUS_NO, "replica %d has other parameters than replica 0", pipeline);
    }
    return STATUS_OK;
}

enum status answer_train(const struct answer_config *config, struct answer *out) {
    int ranks = config->ranks;
    struct rank_threads *threads;
    struct answer all = {0};
    TRY(rank_threads_open(ranks, false, &threads));
    struct member *members = MEM_ARRAY(struct member, ranks);
    for (int r = 0; r < ranks; r++) {
        members[r] = (struct member){
            .config = config, .threads = threads, .rank = r, .state = train_fresh()};
        if (config->observers) members[r].state.observer = config->observers[r];
    }
    enum status status = config->plan(config->context, 0, &members[0].plan);
    if (status == STATUS_OK) status = rank_threads_do(threads, train_task, members);
    if (status == STATUS_OK) status = collect(members, ranks, &all);
    rank_threads_try(threads, close_task, members);
    rank_threads_close(&threads);
    for (int r = 0; r < ranks; r++) answer_free(&members[r].answer);
    free(members);
    if (status == STATUS_OK)
        *out = all;
    else
        answer_free(&all);
    return status;
}

void answer_free(struct answer *answer) {
    for (int i = 0; i < answer->param_count; i++) free(answer->param[i]);
    free(answer->param);
    *answer = (struct answer){0};
}

const char *answer_difference(const struct answer *a, const struct answer *b) {
    if (a->params != b->params) return "parameters";
    if (a->buffers != b->buffers) return "running statistics";
    if (a->loss != b->loss) return "loss";
    return a->norm != b->norm ? "norm of the gradients" : NULL;
}
