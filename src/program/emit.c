/* From the order of a pipeline to the program of a position: see emit.h.
 *
 * Around each computation stands what it needs: F loads its samples and receives what the stage
 * before it made, B and I receive gradients; what they make is sent at once. A receive stands right
 * before its reader: messages come into buffers of the receiver's own, so posting it earlier would
 * gain nothing. A slot is taken at F and free again when the last of its gradients are made; its
 * send may still be under way, and whoever takes the slot next awaits that. */
#include "program/emit.h"

#include <stdlib.h>

#include "base/mem.h"
#include "program/tree.h"

enum { EVERYONE, REPLICAS, PIPELINE, SHARERS }; /* groups, in the order they are declared */

void emit_declare(const struct schedule_config *config, struct program *program) {
    program_declare_group(program, GROUP_WORLD);
    program_declare_group(program, GROUP_REPLICAS);
    program_declare_group(program, GROUP_PIPELINE);
    if (config->shares) program_declare_group(program, GROUP_REPLICAS);
}

/* What is known of one stage of the rank while its program is written. */
struct stage {
    int *slot_of; /* per micro-batch; -1: in none */
    bool *busy;   /* per slot */
    int grad;     /* buffer that micro-batches are added to; -1: none yet */
    int left;     /* weight passes of the order that are still to come, also those left out */
    struct sum_tree tree;
};

struct emitter {
    const struct schedule_config *config;
    const struct program *program;
    struct rank_program *out;
    struct grid_cell cell;
    int first; /* micro-batch of the step that is the rank's first */
    struct stage stage[GRID_MAX_CHUNKS];
};

static int last_stage(const struct emitter *emitter) {
    const struct grid *grid = &emitter->config->grid;
    return grid->stages * grid->chunks - 1;
}

static struct stage *stage_of(struct emitter *emitter, int stage) {
    return &emitter->stage[grid_chunk(&emitter->config->grid, stage)];
}

static bool has_samples(const struct emitter *emitter, int micro) {
    const int64_t *samples = emitter->config->samples;
    return !samples || samples[emitter->first + micro] > 0;
}

/* Does any replica have samples for the micro-batch at the same place of its step? */
static bool any_has_samples(const struct emitter *emitter, int micro) {
    const int64_t *samples = emitter->config->samples;
    int count = emitter->config->micro_batches;
    for (int m = micro; samples && m < emitter->config->grid.replicas * count; m += count)
        if (samples[m] > 0) return true;
    return !samples;
}

/* --- slots --- */

static int take_slot(struct emitter *emitter, int stage) {
    struct stage *of = stage_of(emitter, stage);
    int chunk = grid_chunk(&emitter->config->grid, stage), slot = 0;
    while (of->busy[slot]) slot++;
    of->busy[slot] = true;
    int *slots = &emitter->out->chunk[chunk].slots;
    if (slot + 1 > *slots) *slots = slot + 1;
    return slot;
}

static void give_slot(struct emitter *emitter, int stage, int micro) {
    struct stage *of = stage_of(emitter, stage);
    of->busy[of->slot_of[micro]] = false;
}

/* --- instructions --- */

static struct instr *add(struct emitter *emitter, enum instr_op op, int stage) {
    struct instr *instr = program_add(emitter->out, LIST_BODY, op);
    instr->stage = (int16_t)stage;
    return instr;
}

static struct instr *add_pass(struct emitter *emitter, enum instr_op op, int stage, int micro) {
    struct instr *instr = add(emitter, op, stage);
    instr->micro = micro;
    instr->slot = (int16_t)stage_of(emitter, stage)->slot_of[micro];
    if (emitter->config->shares && instr_row(instr)->meets == MEETS_SHARERS) instr->group = SHARERS;
    return instr;
}

static void add_message(struct emitter *emitter, enum instr_op op, int stage, int micro,
                        int other_stage) {
    if (other_stage < 0 || other_stage > last_stage(emitter)) return;
    add_pass(emitter, op, stage, micro)->peer = grid_position(&emitter->config->grid, other_stage);
}

static void forward(struct emitter *emitter, int stage, int micro) {
    stage_of(emitter, stage)->slot_of[micro] = take_slot(emitter, stage);
    add_pass(emitter, INSTR_LOAD, stage, micro);
    add_message(emitter, INSTR_RECV_F, stage, micro, stage - 1);
    add_pass(emitter, INSTR_F, stage, micro);
    add_message(emitter, INSTR_SEND_F, stage, micro, stage + 1);
}

/* A rank that leaves out a micro-batch still takes part where the others share statistics. */
static void stand_in(struct emitter *emitter, enum instr_op op, int stage, int micro) {
    if (!emitter->config->shares || !any_has_samples(emitter, micro)) return;
    stage_of(emitter, stage)->slot_of[micro] = take_slot(emitter, stage);
    add_pass(emitter, op, stage, micro);
    give_slot(emitter, stage, micro);
}

/* --- gradients --- */

static void tie(struct emitter *emitter, int stage, int grad) {
    add(emitter, INSTR_TIE, stage)->grad = (int16_t)grad;
}

/* The buffer that a micro-batch's weight gradients go to: one for all, or a leaf of the tree. */
static int grad_for(struct emitter *emitter, int stage, bool *fresh) {
    struct stage *of = stage_of(emitter, stage);
    *fresh = of->grad < 0;
    if (*fresh) of->grad = tree_take(&of->tree);
    return of->grad;
}

/* A replica without samples in this step still takes part in the sum. */
static void stand_in_sum(struct emitter *emitter, int stage) {
    struct stage *of = stage_of(emitter, stage);
    of->grad = tree_take(&of->tree);
    add(emitter, INSTR_ZERO, stage)->grad = (int16_t)of->grad;
    tie(emitter, stage, of->grad);
}

/* Behind each weight pass of the order. The gradients of a stage are whole at the same place of the
 * order on all replicas, whichever micro-batches they have: sums over replicas that follow stand in
 * the same order then. */
static void end_gradients(struct emitter *emitter, int stage, bool present) {
    struct stage *of = stage_of(emitter, stage);
    bool leaf = emitter->config->sum == SUM_TREE, last = --of->left == 0;
    if (leaf && present) {
        tie(emitter, stage, of->grad);
        tree_push(&of->tree, of->grad);
        of->grad = -1;
    }
    if (!last) return;
    if (leaf) of->grad = tree_finish(&of->tree);
    if (of->grad < 0)
        stand_in_sum(emitter, stage);
    else if (!leaf)
        tie(emitter, stage, of->grad);
}

static void add_weights(struct emitter *emitter, enum instr_op op, int stage, int micro) {
    bool fresh;
    int grad = grad_for(emitter, stage, &fresh);
    struct instr *instr = add_pass(emitter, op, stage, micro);
    instr->grad = (int16_t)grad;
    if (fresh) instr->flags = INSTR_NEW;
}

static void backward(struct emitter *emitter, enum instr_op op, int stage, int micro) {
    if (op != INSTR_W) add_message(emitter, INSTR_RECV_B, stage, micro, stage + 1);
    if (op == INSTR_I)
        add_pass(emitter, op, stage, micro);
    else
        add_weights(emitter, op, stage, micro);
    if (op != INSTR_W) add_message(emitter, INSTR_SEND_B, stage, micro, stage - 1);
    if (op != INSTR_I) give_slot(emitter, stage, micro);
}

static void one(struct emitter *emitter, const struct pipeline_op *op) {
    bool present = has_samples(emitter, op->micro);
    if (present) {
        if (op->op == INSTR_F)
            forward(emitter, op->stage, op->micro);
        else
            backward(emitter, (enum instr_op)op->op, op->stage, op->micro);
    } else if (op->op != INSTR_W) {
        stand_in(emitter, op->op == INSTR_F ? INSTR_STATS_F : INSTR_STATS_B, op->stage, op->micro);
    }
    if (op->op == INSTR_B || op->op == INSTR_W) end_gradients(emitter, op->stage, present);
}

/* --- the whole --- */

static void begin_stage(struct emitter *emitter, int chunk) {
    const struct schedule_config *config = emitter->config;
    struct stage *stage = &emitter->stage[chunk];
    int micros = config->micro_batches;
    *stage = (struct stage){.slot_of = MEM_ARRAY(int, micros),
                            .busy = MEM_ARRAY(bool, micros + 2),
                            .grad = -1,
                            .left = micros,
                            .tree = {.out = emitter->out}};
    stage->tree.stage = grid_stage(&config->grid, emitter->cell.position, chunk);
}

static void end_stage(struct emitter *emitter, int chunk) {
    struct stage *stage = &emitter->stage[chunk];
    free(stage->slot_of);
    free(stage->busy);
}

static void end_step(struct emitter *emitter) {
    int grad = emitter->stage[0].grad;
    program_add(emitter->out, LIST_BODY, INSTR_REPORT)->group = EVERYONE;
    struct instr *norm = program_add(emitter->out, LIST_BODY, INSTR_NORM);
    norm->grad = (int16_t)grad;
    if (emitter->config->grid.stages > 1) norm->group = PIPELINE;
    program_add(emitter->out, LIST_BODY, INSTR_STEP)->grad = (int16_t)grad;
}

static void meet(struct emitter *emitter) {
    program_add(emitter->out, LIST_BODY, INSTR_MEET)->group = PIPELINE;
}

void emit_rank(const struct schedule_config *config, const struct program *program,
               const struct pipeline_order *order, int rank, struct rank_program *out) {
    struct emitter emitter = {.config = config,
                              .program = program,
                              .out = out,
                              .cell = grid_cell(&config->grid, rank),
                              .first = program_first_micro(program, rank)};
    bool loss = grid_position(&config->grid, last_stage(&emitter)) == emitter.cell.position;
    bool meets = config->one_backward_at_a_time && config->grid.stages > 1;
    for (int c = 0; c < config->grid.chunks; c++) begin_stage(&emitter, c);
    if (loss) program_add(out, LIST_BODY, INSTR_COUNT)->group = REPLICAS;
    for (int i = 0; i < order->count; i++) {
        one(&emitter, &order->items[i]);
        if (meets && order->items[i].op == INSTR_B) meet(&emitter);
    }
    for (int c = 0; c < config->grid.chunks; c++) end_stage(&emitter, c);
    end_step(&emitter);
}
