/* See speakers.h. */
#include "exec/speakers.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "exec/state.h"

struct speakers {
    int replicas, stages;
    size_t bytes; /* of what is told: struct finished and a time for each stage */
    /* Of rank 0, per replica; its own has none. */
    struct rows *rows;
    struct comm_channel **from, **back;
    struct comm_request **coming;
    uint64_t *number; /* of the message that is coming */
    struct verdict verdict[PLAN_SPEAKER_CREDITS];
    struct comm_request **deciding; /* [replicas][PLAN_SPEAKER_CREDITS] */
    /* Of another speaker. */
    struct comm_channel *to, *hears;
    struct comm_request *sending[SPEAKERS_SENT];
    char *sent; /* as many messages */
    int64_t sent_count, heard;
    /* Of each. */
    int64_t told; /* the next step to tell of */
};

static bool is_speaker(const struct engine *engine) {
    return program_reports_apart(engine->plan->program) && engine->plan->config.cell.position == 0;
}

static int speaker_of(const struct engine *engine, int replica) {
    return group_rank(&engine->plan->program->grid, GROUP_PIPELINE, replica, 0);
}

static bool is_first(const struct engine *engine) {
    return comm_rank(engine->comm) == speaker_of(engine, 0);
}

/* Every rank declares all channels. Their kinds follow those of messages and calls. */
static enum status open_channels(struct engine *engine, struct speakers *speakers) {
    const struct grid *grid = &engine->plan->program->grid;
    int kind = (grid->stages * grid->chunks - 1) * PHASE_COUNT + grid->stages,
        own = comm_rank(engine->comm), first = speaker_of(engine, 0);
    for (int r = 1; r < speakers->replicas; r++) {
        int other = speaker_of(engine, r);
        struct comm_channel *told, *back;
        TRY(comm_channel_new(engine->comm, other, first, kind, plan_finished_bytes(engine->plan),
                             PLAN_SPEAKER_CREDITS, &told));
        TRY(comm_channel_new(engine->comm, first, other, kind + 1, PLAN_VERDICT_BYTES,
                             PLAN_SPEAKER_CREDITS, &back));
        if (own == first) speakers->from[r] = told, speakers->back[r] = back;
        if (own == other) speakers->to = told, speakers->hears = back;
    }
    return STATUS_OK;
}

static enum status await_next(struct speakers *speakers, int replica) {
    TRY(comm_channel_post_receive(speakers->from[replica], &speakers->coming[replica]));
    speakers->number[replica] = comm_request_sequence(speakers->coming[replica]);
    return STATUS_OK;
}

enum status speakers_open(struct engine *engine) {
    const struct program *program = engine->plan->program;
    if (!program_reports_apart(program)) return STATUS_OK;
    struct speakers *speakers = engine->speakers = MEM_NEW(struct speakers);
    int replicas = speakers->replicas = group_count(&program->grid, GROUP_PIPELINE);
    speakers->stages = program->grid.stages;
    speakers->bytes = sizeof(struct finished) + (size_t)speakers->stages * sizeof(double);
    speakers->from = MEM_ARRAY(struct comm_channel *, replicas);
    speakers->back = MEM_ARRAY(struct comm_channel *, replicas);
    speakers->coming = MEM_ARRAY(struct comm_request *, replicas);
    speakers->number = MEM_ARRAY(uint64_t, replicas);
    speakers->deciding = MEM_ARRAY(struct comm_request *, replicas * PLAN_SPEAKER_CREDITS);
    speakers->sent = mem_new(SPEAKERS_SENT * speakers->bytes);
    if (is_first(engine))
        speakers->rows = rows_new(&program->grid, engine->plan->micro[0].graph->loss_count);
    TRY(open_channels(engine, speakers));
    for (int r = 1; speakers->rows && r < replicas; r++) TRY(await_next(speakers, r));
    return STATUS_OK;
}

/* Requests belong to the communicator, which is closed behind this. */
void speakers_close(struct engine *engine) {
    struct speakers *speakers = engine->speakers;
    if (!speakers) return;
    rows_free(&speakers->rows);
    free(speakers->from);
    free(speakers->back);
    free(speakers->coming);
    free(speakers->number);
    free(speakers->deciding);
    free(speakers->sent);
    free(speakers);
    engine->speakers = NULL;
}

/* Replicas that draw numbers have done unequally many. */
static void begin_rows(struct engine *engine, int64_t step) {
    const struct engine_chooser *chooser = engine->meeting.chooser;
    struct rows *rows = engine->speakers->rows;
    rows_begin(rows, rounds_act(engine) ? engine->state->done.step : step);
    for (int r = 0; rounds_act(engine) && r < engine->speakers->replicas; r++)
        rows_place(rows, r, chooser->drawn(chooser->context, r));
}

void speakers_begin(struct engine *engine, int64_t step) {
    struct speakers *speakers = engine->speakers;
    if (!speakers) return;
    if (speakers->rows) begin_rows(engine, step);
    speakers->told = step;
    speakers->heard = step - 1;
}

/* --- what is finished --- */

/* Replicas take turns: number k of the run is replica k mod R's in step k div R. */
static void describe(const struct engine *engine, const struct step *step, char *message) {
    const struct grid *grid = &engine->plan->program->grid;
    int own = comm_rank(engine->comm), replica = group_of(grid, GROUP_PIPELINE, own);
    bool draws = rounds_act(engine);
    struct finished finished = {
        .number = draws ? step->drawn : step->number * engine->speakers->replicas + replica,
        .index = step->number,
        .at_ns = step->end_ns,
        .members = step->members,
        .spread = step->spread,
        /* Where stages meet, the last one has told its losses there. */
        .share = draws ? step->shares[step_reports(step) - 1] : step->share};
    double *ms = (double *)(message + sizeof finished);
    struct exact_sum squares = step->squares;
    for (int i = 0; i < LOSS_PARTS && step->late.step == step->number; i++)
        exact_add(&squares, step->late.squares[i]);
    exact_split(&squares, LOSS_PARTS, finished.squares);
    memcpy(message, &finished, sizeof finished);
    for (int p = 0; p < grid->stages; p++)
        ms[p] = step->late_ms[group_rank(grid, GROUP_PIPELINE, replica, p)];
}

/* Rows that nobody takes make room for others. */
static bool make_room(struct rows *rows, int64_t number) {
    struct step_row row;
    struct tally sum;
    while (!rows_have_room(rows, number))
        if (!rows_take(rows, &row, &sum)) return false;
    return true;
}

static bool add(struct rows *rows, int replica, const char *message) {
    struct finished finished;
    memcpy(&finished, message, sizeof finished);
    if (!make_room(rows, finished.number)) return false;
    rows_add(rows, replica, &finished, (const double *)(message + sizeof finished));
    return true;
}

enum status speakers_tell(struct engine *engine, const struct step *step) {
    struct speakers *speakers = engine->speakers;
    if (!speakers || !is_speaker(engine) || step->number != speakers->told) return STATUS_OK;
    int at = (int)(speakers->sent_count++ % SPEAKERS_SENT);
    char *message = speakers->sent + (size_t)at * speakers->bytes;
    TRY(comm_wait(&speakers->sending[at]));
    describe(engine, step, message);
    speakers->told++;
    if (speakers->rows) {
        CHECK(add(speakers->rows, 0, message), "no room for step %lld", (long long)step->number);
        return STATUS_OK;
    }
    struct comm_piece piece = {message, speakers->bytes};
    return comm_channel_post_send(speakers->to, &piece, 1, &speakers->sending[at]);
}

/* A replica that is too far ahead of a row is left waiting: *more is false then, too. */
static enum status take_one(struct speakers *speakers, int replica, struct step_request *asked,
                            bool *more) {
    size_t bytes;
    TRY(comm_test(&speakers->coming[replica], more));
    if (speakers->coming[replica]) return STATUS_OK;
    const char *message =
        comm_channel_message(speakers->from[replica], speakers->number[replica], &bytes);
    CHECK(bytes == speakers->bytes, "replica %d tells of a step in %zu bytes", replica, bytes);
    *more = add(speakers->rows, replica, message);
    if (!*more) return STATUS_OK;
    step_request_add(asked, &((const struct finished *)(const void *)message)->share.request);
    TRY(comm_channel_release(speakers->from[replica]));
    return await_next(speakers, replica);
}

enum status speakers_look(struct engine *engine, struct step_request *asked) {
    struct speakers *speakers = engine->speakers;
    *asked = (struct step_request){0};
    if (!speakers || !speakers->rows) return STATUS_OK;
    TRY(comm_progress(engine->comm));
    for (int r = 1; r < speakers->replicas; r++)
        for (bool more = true; more;) TRY(take_one(speakers, r, asked, &more));
    return STATUS_OK;
}

static enum status take_until(struct speakers *speakers, int replica, int64_t step) {
    struct step_request late; /* ranks that pause ask one another themselves */
    while (rows_done(speakers->rows, replica) < step) {
        bool more;
        TRY(comm_wait(&speakers->coming[replica]));
        TRY(take_one(speakers, replica, &late, &more));
        CHECK(more, "no room for what replica %d tells", replica);
    }
    return STATUS_OK;
}

enum status speakers_settle(struct engine *engine, int64_t step) {
    struct speakers *speakers = engine->speakers;
    if (!speakers) return STATUS_OK;
    bool draws = rounds_act(engine);
    const struct engine_chooser *chooser = engine->meeting.chooser;
    CHECK(draws || !is_speaker(engine) || speakers->told == step,
          "step %lld was not told of, but %lld is over", (long long)speakers->told,
          (long long)step - 1);
    for (int r = 1; speakers->rows && r < speakers->replicas; r++)
        TRY(take_until(speakers, r, draws ? chooser->drawn(chooser->context, r) : step));
    for (int i = 0; i < SPEAKERS_SENT; i++) TRY(comm_wait(&speakers->sending[i]));
    return STATUS_OK;
}

bool speakers_have_rows(const struct engine *engine) {
    return engine->speakers && engine->speakers->rows;
}

bool speakers_row(struct engine *engine, int64_t step, struct step_row *out, struct tally *sum) {
    struct rows *rows = engine->speakers->rows;
    return rows_next(rows) == step && rows_take(rows, out, sum);
}

/* --- what is decided --- */

/* A speaker is less than PLAN_SPEAKER_CREDITS verdicts behind. */
enum status speakers_decide(struct engine *engine, const struct verdict *verdict) {
    struct speakers *speakers = engine->speakers;
    int at = (int)(verdict->step % PLAN_SPEAKER_CREDITS);
    for (int r = 1; r < speakers->replicas; r++)
        TRY(comm_wait(&speakers->deciding[r * PLAN_SPEAKER_CREDITS + at]));
    speakers->verdict[at] = *verdict;
    struct comm_piece piece = {&speakers->verdict[at], sizeof *verdict};
    for (int r = 1; r < speakers->replicas; r++)
        TRY(comm_channel_post_send(speakers->back[r], &piece, 1,
                                   &speakers->deciding[r * PLAN_SPEAKER_CREDITS + at]));
    return STATUS_OK;
}

enum status speakers_hear(struct engine *engine, int64_t step,
                          void (*take)(struct engine *engine, const struct verdict *verdict)) {
    struct speakers *speakers = engine->speakers;
    if (!speakers || !speakers->hears) return STATUS_OK;
    while (speakers->heard < step) {
        void *message;
        struct verdict verdict;
        TRY(posted_move(engine, true)); /* others may wait for what has not left this device */
        TRY(comm_channel_receive(speakers->hears, &message));
        memcpy(&verdict, message, sizeof verdict);
        TRY(comm_channel_release(speakers->hears));
        CHECK(verdict.step == ++speakers->heard, "a verdict on step %lld, not %lld",
              (long long)verdict.step, (long long)speakers->heard);
        take(engine, &verdict);
    }
    return STATUS_OK;
}
