/* See team.h. */
#include "exec/team.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"

struct member {
    const struct team_config *config;
    int rank;
    const struct plan *plan;
    struct comm *comm;
    struct exec *exec;
    enum status status;
    struct team_answer answer; /* its part of it; kept parameters are those it answers for */
    pthread_t thread;
};

static enum status keep_param(void *context, int param, const void *plain) {
    struct member *member = context;
    size_t bytes = tensor_type_bytes(&member->plan->store->params[param].type);
    member->answer.param[param] = mem_new(bytes);
    memcpy(member->answer.param[param], plain, bytes);
    return STATUS_OK;
}

static enum status answer(struct member *member) {
    struct team_answer *out = &member->answer;
    TRY(exec_compare_copies(member->exec));
    TRY(exec_param_hash(member->exec, &out->params));
    TRY(store_buffer_hash(exec_store(member->exec), &out->buffers));
    if (!member->config->keep_params) return STATUS_OK;
    out->param_count = member->plan->store->param_count;
    out->param = MEM_ARRAY(float *, out->param_count);
    return exec_each_param(member->exec, keep_param, member);
}

static enum status train(struct member *member) {
    const struct team_config *config = member->config;
    const struct exec_observer *observer =
        config->observers ? &config->observers[member->rank] : NULL;
    struct step_result result = {0};
    TRY(exec_new(member->plan, member->comm, observer, &member->exec));
    if (config->ready) TRY(config->ready(config->context, member->rank, member->exec));
    TRY(exec_start(member->exec));
    while (exec_next_step(member->exec) < member->plan->config.steps)
        TRY(exec_step(member->exec, &result));
    TRY(exec_drain(member->exec));
    member->answer = (struct team_answer){.loss = result.loss};
    exec_norm(member->exec, result.step, &member->answer.norm);
    return answer(member);
}

static void *member_main(void *argument) {
    struct member *member = argument;
    const struct team_config *config = member->config;
    if (!member->plan) member->status = config->plan(config->context, member->rank, &member->plan);
    if (member->status == STATUS_OK) member->status = train(member);
    if (member->status != STATUS_OK && member->comm) comm_abort(member->comm, member->rank);
    return NULL;
}

static enum status open_comms(struct member *members, int ranks) {
    struct comm **comms = MEM_ARRAY(struct comm *, ranks);
    size_t heap, channels;
    plan_most_shared_bytes(members[0].plan, &heap, &channels);
    enum status status = comm_open_threads(ranks, heap, channels, comms);
    for (int r = 0; r < ranks && status == STATUS_OK; r++) members[r].comm = comms[r];
    free(comms);
    return status;
}

/* The status to end with: the first that is not the echo of another's failure. */
static enum status status_of_all(const struct member *members, int ranks) {
    enum status status = STATUS_OK;
    for (int r = 0; r < ranks; r++) {
        if (members[r].status == STATUS_OK) continue;
        if (status == STATUS_OK || status == STATUS_PEER) status = members[r].status;
    }
    return status;
}

static enum status run(struct member *members, int ranks) {
    int started = 1;
    const struct team_config *config = members[0].config;
    TRY(config->plan(config->context, 0, &members[0].plan));
    if (ranks > 1) TRY(open_comms(members, ranks));
    while (started < ranks &&
           thread_try(&members[started].thread, member_main, &members[started]) == 0)
        started++;
    if (started < ranks) comm_abort(members[0].comm, started);
    member_main(&members[0]);
    for (int r = 1; r < started; r++) pthread_join(members[r].thread, NULL);
    if (started < ranks)
        return fail(STATUS_MEMORY, "rank %d of %d cannot be started: no more threads", started,
                    ranks);
    return status_of_all(members, ranks);
}

/* The ranks of a pipeline have the model together. */
static void add_part(struct member *member, bool keeps, struct team_answer *sum) {
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
static enum status collect(struct member *members, int ranks, struct team_answer *out) {
    const struct grid *grid = &members[0].plan->config.grid;
    int pipelines = (ranks - grid->drivers) / grid->stages;
    for (int pipeline = 0; pipeline < pipelines; pipeline++) {
        struct team_answer sum = {.loss = members[0].answer.loss, .norm = members[0].answer.norm};
        for (int p = 0; p < grid->stages; p++)
            add_part(&members[group_rank(grid, GROUP_PIPELINE, pipeline, p)], pipeline == 0, &sum);
        if (pipeline == 0) *out = sum;
        if (sum.params != out->params)
            return fail(STATUS_NO, "replica %d has other parameters than replica 0", pipeline);
    }
    return STATUS_OK;
}

enum status team_train(const struct team_config *config, struct team_answer *out) {
    int ranks = config->ranks;
    struct member *members = MEM_ARRAY(struct member, ranks);
    struct team_answer all = {0};
    for (int r = 0; r < ranks; r++) members[r] = (struct member){.config = config, .rank = r};
    enum status status = run(members, ranks);
    if (status == STATUS_OK) status = collect(members, ranks, &all);
    for (int r = 0; r < ranks; r++) exec_free(&members[r].exec);
    for (int r = 0; r < ranks; r++) comm_close(&members[r].comm);
    for (int r = 0; r < ranks; r++) team_answer_free(&members[r].answer);
    free(members);
    if (status == STATUS_OK)
        *out = all;
    else
        team_answer_free(&all);
    return status;
}

void team_answer_free(struct team_answer *answer) {
    for (int i = 0; i < answer->param_count; i++) free(answer->param[i]);
    free(answer->param);
    *answer = (struct team_answer){0};
}

const char *team_difference(const struct team_answer *a, const struct team_answer *b) {
    if (a->params != b->params) return "parameters";
    if (a->buffers != b->buffers) return "running statistics";
    if (a->loss != b->loss) return "loss";
    return a->norm != b->norm ? "norm of the gradients" : NULL;
}
