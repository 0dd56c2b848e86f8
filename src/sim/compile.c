/* See compile.h. */
#include "sim/compile.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "program/resource.h"

/* To run again is a forward pass. */
int sim_pass_of(const struct instr *instr) {
    int kind = instr_cost_kind(instr);
    return kind == COST_R ? COST_PASS_F : kind;
}

struct compiler {
    const struct program *program;
    const struct rank_program *own;
    const struct sim_costs *costs;
    int rank;
    struct grid_cell cell;
    bool unclipped;
    struct sim_kind *out;
    struct sim_op *op;       /* of the kind */
    struct sim_await *await; /* likewise */
    /* Per instruction: the letters of the buffers it touches, each once, but for those on which
     * nothing is ever under way. */
    char letters[INSTR_COUNT_][8];
    int *posted;  /* per buffer: the instruction under way there + 1, or 0 */
    int *renamed; /* per buffer: its place + 1, or 0: nothing was ever posted there */
    bool pairs;   /* something was posted on two buffers */
    struct resource_map map;
    int await_count;
    int first;            /* row of the kind that the list begins at */
    const double *shares; /* of the short last step's micro-batches; NULL: all are whole */
    int64_t live_bytes;
};

/* --- buffers on which something can be under way --- */

/* Behind those of the map one more: what an instruction waits for where it stands, so that the next
 * one awaits it. */
static int standing_buffer(const struct compiler *compiler) {
    return compiler->map.first[RESOURCE_COUNT];
}

static int buffer_count(const struct compiler *compiler) {
    return standing_buffer(compiler) + 1;
}

static bool lasts(const struct compiler *compiler, int buffer) {
    return buffer < standing_buffer(compiler) && resource_lasts(&compiler->map, buffer);
}

static struct touched buffers_of(const struct compiler *compiler, const struct instr *instr,
                                 char letter) {
    if (!compiler->unclipped) return resource_touched(&compiler->map, instr, letter);
    struct instr asked = *instr;
    asked.flags &= (uint16_t)~INSTR_CLIP;
    return resource_touched(&compiler->map, &asked, letter);
}

/* An operation on two buffers is awaited by the first instruction that touches either. */
static void await_buffer(struct compiler *compiler, int buffer) {
    int posted = compiler->posted[buffer];
    if (!posted) return;
    compiler->await[compiler->await_count++] =
        (struct sim_await){compiler->renamed[buffer] - 1, posted - 1};
    compiler->posted[buffer] = 0;
    for (int b = 0; compiler->pairs && b < buffer_count(compiler); b++)
        if (compiler->posted[b] == posted) compiler->posted[b] = 0;
}

static void add_letters(struct compiler *compiler, struct instr *instr, const char *letters) {
    char *known = compiler->letters[instr->op];
    for (; *letters; letters++) {
        if (resource_touched(&compiler->map, instr, *letters).count == 0 || strchr(known, *letters))
            continue;
        size_t used = strlen(known);
        CHECK(used + 1 < sizeof compiler->letters[0], "%s touches many buffers",
              instr_row(instr)->name);
        known[used] = *letters;
    }
}

static void list_letters(struct compiler *compiler) {
    for (int op = 0; op < INSTR_COUNT_; op++) {
        struct instr any = {.op = (uint8_t)op,
                            .flags = INSTR_CLIP}; /* some are read with it alone */
        add_letters(compiler, &any, instr_row(&any)->reads);
        add_letters(compiler, &any, instr_row(&any)->writes);
    }
}

static void await_touched(struct compiler *compiler, const struct instr *instr) {
    for (const char *letter = compiler->letters[instr->op]; *letter; letter++) {
        struct touched touched = buffers_of(compiler, instr, *letter);
        for (int b = 0; b < touched.count; b++) await_buffer(compiler, touched.first + b);
        for (int i = 0; i < touched.also_count; i++) await_buffer(compiler, touched.also[i]);
    }
}

/* It is kept at the first of its two buffers. */
static int post(struct compiler *compiler, const struct instr *instr, int at) {
    struct posted_on on = {{standing_buffer(compiler), 0}, 1};
    if (instr_row(instr)->meets != MEETS_CALL) on = resource_posted(&compiler->map, instr);
    compiler->pairs |= on.count > 1;
    for (int b = 0; b < on.count; b++) compiler->posted[on.buffer[b]] = at + 1;
    int *place = &compiler->renamed[on.buffer[0]];
    if (!*place) *place = ++compiler->out->place_count;
    if (on.count > 1) compiler->renamed[on.buffer[1]] = *place;
    return *place - 1;
}

/* --- costs --- */

static const struct sim_stage *stage_of(const struct compiler *compiler,
                                        const struct instr *instr) {
    return &compiler->costs->stage[instr->stage];
}

static int buckets_of(const struct compiler *compiler, const struct instr *instr) {
    return compiler->own->chunk[grid_chunk(&compiler->program->grid, instr->stage)].buckets;
}

/* The part of a pass that a segment is; forward is taken to be spread over the buckets as backward
 * is. */
static double segment_share(const struct compiler *compiler, const struct instr *instr) {
    const struct sim_stage *stage = stage_of(compiler, instr);
    if (!instr_is_segment(instr)) return 1;
    int buckets = buckets_of(compiler, instr);
    if (buckets == 1) return 1;
    bool known = stage->segment && stage->segment_count == buckets;
    return known ? stage->segment[instr->segment] : 1.0 / buckets;
}

/* NORM and STEP are of all chunks. */
static double of_chunks(const struct compiler *compiler, bool norm) {
    const struct grid *grid = &compiler->program->grid;
    double sum = 0;
    for (int c = 0; compiler->cell.role == GRID_STAGE && c < grid->chunks; c++) {
        const struct sim_stage *stage =
            &compiler->costs->stage[grid_stage(grid, compiler->cell.position, c)];
        sum += norm ? stage->norm : stage->step;
    }
    return sum;
}

/* The part that its micro-batch is of a whole one. */
static double sample_share(const struct compiler *compiler, const struct instr *instr) {
    int first = compiler->cell.first_replica * compiler->program->micro_batches;
    return compiler->shares ? compiler->shares[first + instr->micro] : 1;
}

static double cost_of(const struct compiler *compiler, const struct instr *instr) {
    const struct sim_stage *stage = stage_of(compiler, instr);
    int pass = sim_pass_of(instr);
    bool adds = (instr->op == INSTR_B || instr->op == INSTR_W) && !(instr->flags & INSTR_NEW);
    double share = pass >= 0 ? segment_share(compiler, instr) : 1;
    if (instr->op == INSTR_R && stage->again > 0)
        return stage->again * share * sample_share(compiler, instr);
    if (pass >= 0)
        return (stage->pass[pass] * sample_share(compiler, instr) + (adds ? stage->add : 0)) *
               share;
    switch (instr->op) {
    case INSTR_LOAD: return stage->load;
    case INSTR_SUM: return stage->sum;
    case INSTR_ZERO:
        return instr->bucket == INSTR_ALL ? stage->zero : stage->zero / buckets_of(compiler, instr);
    case INSTR_NORM: return of_chunks(compiler, true);
    case INSTR_STEP: return of_chunks(compiler, false);
    default: return 0;
    }
}

/* --- messages and groups --- */

static void message(const struct compiler *compiler, const struct instr *instr, struct sim_op *op) {
    int channel = instr_channel(instr), back = channel % 2;
    const struct sim_stage *from = &compiler->costs->stage[channel / 2 + back];
    op->action = instr_receives(instr) ? SIM_RECEIVE : SIM_SEND;
    op->target = channel;
    double share = sample_share(compiler, instr);
    op->bytes = (double)from->message_bytes[back] * share;
    op->cost += from->copy[back] * share;
}

/* Behind the channels of the cuts: one from the driver to each position. */
static void call(const struct compiler *compiler, const struct instr *instr, struct sim_op *op) {
    const struct grid *grid = &compiler->program->grid;
    op->action = instr_receives(instr) ? SIM_RECEIVE : SIM_SEND;
    op->target = 2 * (grid->stages * grid->chunks - 1) + grid_position(grid, instr->stage);
    op->bytes = PROGRAM_CALL_BYTES;
}

static void operation(struct compiler *compiler, const struct instr *instr, struct sim_op *op) {
    const struct instr_row *row = instr_row(instr);
    op->action = row->queue == QUEUE_COMM ? SIM_POST : SIM_MEET;
    op->target = instr->group;
    op->rounds = 1;
    op->bytes = (double)compiler->costs->exchange_bytes;
    op->barrier = instr->op == INSTR_MEET;
    op->reduces = instr_moves_bucket(instr);
    if (op->reduces) {
        const int64_t *bytes = stage_of(compiler, instr)->bucket_bytes;
        op->bytes = bytes ? (double)bytes[instr->bucket] * instr_reduce_share(instr) : 0;
    }
    compiler->out->operations[instr->group]++;
}

/* A pass that shares statistics meets the others once, before it, and pays for all its exchanges
 * there; a later segment of the same pass meets nobody, nor does a rank that has all replicas. */
static void shared_pass(struct compiler *compiler, const struct instr *instr, struct sim_op *op) {
    const struct sim_stage *stage = stage_of(compiler, instr);
    bool by_segment = compiler->program->sliced & (SLICED_GRADIENTS | SLICED_PARAMS);
    bool goes_on = instr->op == INSTR_B && instr->segment > 0 && !by_segment;
    if (compiler->cell.replica_count != 1 || goes_on) return;
    int direction = instr_is_forward(instr) ? SIM_FORWARD : SIM_BACKWARD;
    operation(compiler, instr, op);
    op->rounds =
        (float)(stage->stats[direction] * (by_segment ? segment_share(compiler, instr) : 1));
    op->bytes = (double)stage->stats_bytes[direction];
}

/* --- memory --- */

static bool ends_backward(const struct program *program, int rank, const struct instr *instr) {
    int chunk = grid_chunk(&program->grid, instr->stage);
    return instr->segment == INSTR_ALL ||
           instr->segment == program_of(program, rank)->chunk[chunk].buckets - 1;
}

int64_t sim_memory_change(const struct program *program, const struct sim_costs *costs, int rank,
                          const struct instr *instr) {
    const struct sim_stage *stage = &costs->stage[instr->stage];
    switch (instr->op) {
    case INSTR_LOAD: return stage->kept_bytes;
    case INSTR_I:
        return ends_backward(program, rank, instr) ? stage->kept_half_bytes - stage->kept_bytes : 0;
    case INSTR_B: return ends_backward(program, rank, instr) ? -stage->kept_bytes : 0;
    case INSTR_W: return ends_backward(program, rank, instr) ? -stage->kept_half_bytes : 0;
    default: return 0;
    }
}

int64_t sim_fixed_bytes(const struct program *program, const struct sim_costs *costs, int rank) {
    const struct grid *grid = &program->grid;
    struct grid_cell cell = grid_cell(grid, rank);
    int64_t sum = 0;
    for (int c = 0; cell.role == GRID_STAGE && c < grid->chunks; c++) {
        const struct sim_stage *stage = &costs->stage[grid_stage(grid, cell.position, c)];
        sum += stage->fixed_bytes;
        /* Where steps overlap all slots but one are in use between bodies. */
        if (program->ahead > 0)
            sum += stage->kept_bytes * (program_of(program, rank)->chunk[c].slots - 1);
    }
    return sum;
}

static void keep(struct compiler *compiler, const struct instr *instr) {
    compiler->live_bytes +=
        sim_memory_change(compiler->program, compiler->costs, compiler->rank, instr);
    if (compiler->live_bytes > compiler->out->peak_bytes)
        compiler->out->peak_bytes = compiler->live_bytes;
}

/* --- the whole --- */

static struct sim_op compile_one(struct compiler *compiler, const struct instr *instr, int at) {
    const struct instr_row *row = instr_row(instr);
    struct sim_op op = {.action = SIM_RUN, .await_first = compiler->await_count};
    await_buffer(compiler, standing_buffer(compiler));
    await_touched(compiler, instr);
    op.await_count = compiler->await_count - op.await_first;
    op.cost = cost_of(compiler, instr);
    op.pass = sim_pass_of(instr) >= 0;
    if (op.pass) compiler->out->busy += op.cost;
    op.cost += compiler->costs->instruction;
    if (row->meets == MEETS_PEER) message(compiler, instr, &op);
    if (row->meets == MEETS_CALL) call(compiler, instr, &op);
    if (row->meets == MEETS_GROUP && instr->group != INSTR_ALL) operation(compiler, instr, &op);
    if (instr_shares(instr)) shared_pass(compiler, instr, &op);
    if (row->meets == MEETS_CHOICE) op.action = SIM_ASK;
    if (op.action == SIM_SEND || op.action == SIM_RECEIVE || op.action == SIM_POST ||
        op.action == SIM_ASK)
        op.place = post(compiler, instr, at);
    keep(compiler, instr);
    return op;
}

/* What is posted is under way in two buffers at most, each of which is awaited once, or left to the
 * next step: as many again come from the step before. */
int64_t sim_room(const struct program *program, int rank) {
    return (int64_t)program_list(program, rank, LIST_BODY)->count + 1;
}

/* All but what lasts is awaited at the end. */
static void compile_body(struct compiler *compiler, const struct instr_list *body) {
    struct sim_kind *out = compiler->out;
    int first = compiler->first;
    compiler->live_bytes = out->peak_bytes =
        sim_fixed_bytes(compiler->program, compiler->costs, compiler->rank);
    out->busy = 0;
    memset(out->operations, 0, sizeof out->operations);
    for (int i = 0; i < body->count; i++)
        compiler->op[first + i] = compile_one(compiler, &body->items[i], first + i);
    struct sim_op *end = &compiler->op[first + body->count];
    *end = (struct sim_op){.action = SIM_END, .await_first = compiler->await_count};
    for (int b = 0; b < buffer_count(compiler); b++)
        if (!lasts(compiler, b)) await_buffer(compiler, b);
    end->await_count = compiler->await_count - end->await_first;
}

/* What is under way on buffers that last: listed as awaits, and left under way. */
static void list_left(struct compiler *compiler) {
    struct sim_kind *out = compiler->out;
    size_t bytes = (size_t)buffer_count(compiler) * sizeof *compiler->posted;
    SCOPED_FREE int *posted = mem_new(bytes);
    memcpy(posted, compiler->posted, bytes);
    out->left_first = compiler->await_count;
    for (int b = 0; b < buffer_count(compiler); b++) await_buffer(compiler, b);
    out->left_count = compiler->await_count - out->left_first;
    memcpy(compiler->posted, posted, bytes);
}

static struct compiler compiler_new(const struct sim_input *input, int rank,
                                    const struct sim_costs *costs, struct sim_op *op,
                                    struct sim_await *await, struct sim_kind *out) {
    const struct program *program = input->program;
    const struct rank_program *own = program_of(program, rank);
    struct compiler compiler = {.program = program,
                                .own = own,
                                .costs = costs,
                                .rank = rank,
                                .cell = grid_cell(&program->grid, rank),
                                .unclipped = input->unclipped,
                                .out = out,
                                .op = op,
                                .await = await,
                                .map = resource_map(program, own->grads, own->chunks, own->chunk)};
    compiler.posted = MEM_ARRAY(int, buffer_count(&compiler));
    compiler.renamed = MEM_ARRAY(int, buffer_count(&compiler));
    list_letters(&compiler);
    return compiler;
}

static void compiler_free(struct compiler *compiler) {
    free(compiler->posted);
    free(compiler->renamed);
}

/* A second time, where the first has left something, as it begins with that under way. */
static void compile_first(struct compiler *compiler, const struct instr_list *body) {
    compile_body(compiler, body);
    list_left(compiler);
    if (compiler->out->left_count == 0) return;
    compiler->await_count = 0;
    compile_body(compiler, body);
    list_left(compiler);
}

void sim_compile(const struct sim_input *input, int rank, const struct sim_costs *costs,
                 struct sim_op *op, struct sim_await *await, struct sim_kind *out) {
    const struct instr_list *body = &program_of(input->program, rank)->list[LIST_BODY];
    *out = (struct sim_kind){.count = body->count, .op = op, .await = await};
    struct compiler compiler = compiler_new(input, rank, costs, op, await, out);
    compile_first(&compiler, body);
    compiler_free(&compiler);
}

/* Rings of groups are as long as bodies want. */
void sim_compile_chain(const struct sim_input *input, int rank, const struct sim_costs *costs,
                       const double *shares, struct sim_op *op, struct sim_await *await,
                       struct sim_chain *out) {
    static const enum list_name lists[] = {LIST_BODY, LIST_LAST, LIST_BODY, LIST_LAST};
    static const int behind[] = {0, 0, 1, 1}; /* a part of that list stands before */
    const struct rank_program *own = program_of(input->program, rank);
    *out = (struct sim_chain){.kind = {.op = op, .await = await}};
    struct compiler compiler = compiler_new(input, rank, costs, op, await, &out->kind);
    size_t bytes = (size_t)buffer_count(&compiler) * sizeof *compiler.posted;
    int *left[2] = {mem_new(bytes), mem_new(bytes)};
    for (int part = 0; part < SIM_PART_COUNT; part++) {
        const struct instr_list *list = &own->list[lists[part]];
        bool last = lists[part] == LIST_LAST;
        compiler.shares = last ? shares : NULL;
        if (part > 0) memcpy(compiler.posted, left[behind[part]], bytes);
        if (part == 0)
            compile_first(&compiler, list);
        else if (shares || own->list[LIST_LAST].count > 0)
            compile_body(&compiler, list);
        if (part < 2) memcpy(left[part], compiler.posted, bytes);
        compiler.first += list->count + 1;
        out->at[part + 1] = compiler.first;
    }
    out->kind.count = compiler.first;
    free(left[0]);
    free(left[1]);
    compiler_free(&compiler);
}
