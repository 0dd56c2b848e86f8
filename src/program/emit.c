/* From the order of a pipeline to the program of a position: see emit.h.
 *
 * A rank may run several replicas of the whole model (--deal): their micro-batches are numbered one
 * replica after the other, and the first alone moves running statistics.
 *
 * Around each computation stands what it needs: F loads its samples and receives what the stage
 * before it made, B and I receive gradients; what they make is sent at once. A receive stands right
 * before its reader: messages come into buffers of the receiver's own, so posting it earlier would
 * gain nothing. R stands before the receive of its B or I: it need not wait for gradients, and
 * makes use of the time until they come. By block R and B, or I, of one segment follow another, the
 * last block of the stage first; W stays as it is, since I has made all that it reads. A slot is
 * taken at F and free again when the last of its gradients are made; its send may still be under
 * way, and whoever takes the slot next awaits that.
 *
 * Frozen stages run forward only: of their backward passes in the order nothing is written, their
 * slots are free again behind F, and the first stage behind them sends no gradients. A rank that
 * has no other stages has no gradients, and makes no update.
 */
#include "program/emit.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "program/schedule.h"
#include "program/tree.h"

enum { EVERYONE, REPLICAS, PIPELINE, SHARERS }; /* groups, in the order they are declared */

/* Whole models: all ranks are the replicas, and a rank is a pipeline by itself. */
static bool is_flat(const struct schedule_config *config) {
    return config->grid.stages * config->grid.chunks == 1 && config->grid.drivers == 0;
}

/* Where steps overlap, ranks do not wait for one another at the end of one, and a loss is that of
 * the rank's own mini-batch. */
static int16_t count_group(const struct schedule_config *config) {
    if (config->overlaps) return INSTR_ALL;
    return is_flat(config) ? EVERYONE : REPLICAS;
}

static int16_t report_group(const struct schedule_config *config) {
    return config->overlaps ? INSTR_ALL : EVERYONE;
}

static int16_t sharers_group(const struct schedule_config *config) {
    return is_flat(config) ? EVERYONE + 1 : SHARERS;
}

/* Declared behind the others, also where nobody shares statistics. */
static int tied_group(const struct schedule_config *config) {
    return config->shares ? SHARERS + 1 : SHARERS;
}

static bool has_tied(const struct schedule_config *config) {
    bool apart = false;
    for (int t = 0; t < config->tie_count; t++) apart |= tie_is_apart(&config->ties[t]);
    return apart;
}

/* All stages of a pipeline meet after each B. */
static bool meets_in_body(const struct schedule_config *config) {
    return config->one_backward_at_a_time && (config->grid.stages > 1 || config->driven);
}

/* NORM may be under way when the next step has begun. A group has one exchange at a time, so where
 * others would come to its group in the meantime it has one of its own, declared last. A driver
 * hears of a gradient that is not finite, as all ranks do. */
static bool norm_is_apart(const struct schedule_config *config) {
    return meets_in_body(config) || config->grid.drivers > 0;
}

static int16_t norm_group(const struct schedule_config *config) {
    if (config->overlaps) return INSTR_ALL;
    if (config->grid.drivers == 0 && config->grid.stages == 1) return INSTR_ALL;
    return (int16_t)(norm_is_apart(config) ? tied_group(config) + has_tied(config) : PIPELINE);
}

void emit_declare(const struct schedule_config *config, struct program *program) {
    program_declare_group(program, GROUP_WORLD);
    if (!is_flat(config)) program_declare_group(program, GROUP_REPLICAS);
    if (!is_flat(config)) program_declare_group(program, GROUP_PIPELINE);
    if (config->shares) program_declare_group(program, GROUP_REPLICAS);
    for (int t = 0; t < config->tie_count; t++) {
        const char *wanted = program_declare_tie(program, &config->ties[t]);
        CHECK(!wanted, "tie %d: expected %s", t, wanted);
    }
    if (has_tied(config)) program_declare_group(program, GROUP_TIED);
    program->frozen = config->frozen;
    if (config->overlaps)
        program->ahead = (config->grid.stages - 2 + config->micro_batches) / config->micro_batches;
    if (norm_is_apart(config))
        program_declare_group(program, config->grid.drivers > 0 ? GROUP_WORLD : GROUP_PIPELINE);
}

/* What is known of one stage of the rank while its program is written. */
struct stage {
    int *slot_of; /* per micro-batch; -1: in none */
    bool *busy;   /* per slot */
    int left;     /* micro-batches whose weight gradients are not made yet */
    /* Leaves: what the order of sums adds to one another, gradients of a replica or of a
     * micro-batch. */
    struct leaf {
        int grad; /* buffer that micro-batches are added to; -1: none yet */
        int left; /* of its micro-batches */
    } * leaf;
    int added; /* leaves that were added, or have no samples */
    int sum;   /* buffer of the sum; -1: nothing is in it yet */
    struct sum_tree tree;
};

struct emitter {
    const struct schedule_config *config;
    const struct program *program;
    struct rank_program *out;
    struct grid_cell cell;
    int first;    /* micro-batch of the step that is the rank's first */
    int micros;   /* of the rank */
    int ahead;    /* micro-batches that its forwards are ahead */
    int leaves;   /* of a stage */
    bool at_once; /* each backward of the rank follows its forward: nothing is kept in between */
    struct stage stage[GRID_MAX_CHUNKS];
};

static int last_stage(const struct emitter *emitter) {
    const struct grid *grid = &emitter->config->grid;
    return grid->stages * grid->chunks - 1;
}

static bool is_frozen(const struct emitter *emitter, int stage) {
    return stage < emitter->config->frozen;
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
    for (int m = micro % count; samples && m < emitter->config->grid.replicas * count; m += count)
        if (samples[m] > 0) return true;
    return !samples;
}

static bool is_backward(const struct pipeline_op *op) {
    return op->op != INSTR_F && op->op != INSTR_LOAD;
}

/* --- slots --- */

static bool is_at_once(const struct pipeline_order *order) {
    for (int i = 0; i < order->count; i++) {
        const struct pipeline_op *op = &order->items[i], *next = op + 1;
        if (op->op != INSTR_F) continue;
        if (i + 1 == order->count || next->op != INSTR_B || next->stage != op->stage ||
            next->micro != op->micro)
            return false;
    }
    return true;
}

/* Is the micro-batch's forward run again before its backward? Not where that would be at once and
 * save nothing: of a stage, or where one micro-batch keeps all its blocks. */
static bool is_light(const struct emitter *emitter, int micro) {
    enum recompute_policy policy = emitter->config->recompute;
    if (policy == RECOMPUTE_NEVER || (emitter->at_once && policy != RECOMPUTE_ALWAYS_BLOCK))
        return false;
    return !recompute_keeps_last(policy) || micro != emitter->config->micro_batches - 1;
}

/* Segments that a backward of the micro-batch is run in. */
static int segments_of(const struct emitter *emitter, int stage, int micro) {
    bool blocks = recompute_by_block(emitter->config->recompute) && is_light(emitter, micro);
    return blocks && emitter->config->buckets ? emitter->config->buckets[stage] : 1;
}

/* Where steps overlap slots are taken in turn: micro-batch m of a body is m - M in the next. */
static int take_in_turn(struct emitter *emitter, int stage, int micro) {
    int *slots = &emitter->out->chunk[grid_chunk(&emitter->config->grid, stage)].slots;
    *slots = emitter->ahead + 1;
    return micro % *slots;
}

/* A slot that keeps all activations takes more memory than one that keeps what came in: where there
 * are both, the one that keeps all is slot 0, in every program of a run. */
static int take_slot(struct emitter *emitter, int stage, int micro) {
    if (emitter->config->overlaps) return take_in_turn(emitter, stage, micro);
    struct stage *of = stage_of(emitter, stage);
    bool reserved = recompute_keeps_last(emitter->config->recompute) && !is_frozen(emitter, stage);
    int chunk = grid_chunk(&emitter->config->grid, stage),
        slot = reserved && is_light(emitter, micro);
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
    int older = emitter->config->older ? emitter->config->older[emitter->cell.position] : 0;
    if (older && strchr(instr_row(instr)->operands, 'v')) instr->version = (int16_t)older;
    if (emitter->config->shares && instr_row(instr)->meets == MEETS_SHARERS &&
        !is_frozen(emitter, stage))
        instr->group = sharers_group(emitter->config);
    return instr;
}

static void add_message(struct emitter *emitter, enum instr_op op, int stage, int micro,
                        int other_stage) {
    if (other_stage < 0 || other_stage > last_stage(emitter)) return;
    add_pass(emitter, op, stage, micro)->peer = grid_position(&emitter->config->grid, other_stage);
}

static void load(struct emitter *emitter, int stage, int micro) {
    stage_of(emitter, stage)->slot_of[micro] = take_slot(emitter, stage, micro);
    add_pass(emitter, INSTR_LOAD, stage, micro);
}

static void forward(struct emitter *emitter, int stage, int micro) {
    if (stage_of(emitter, stage)->slot_of[micro] < 0) load(emitter, stage, micro);
    add_message(emitter, INSTR_RECV_F, stage, micro, stage - 1);
    struct instr *pass = add_pass(emitter, INSTR_F, stage, micro);
    if (micro >= emitter->config->micro_batches && !emitter->config->overlaps)
        pass->flags = INSTR_PURE;
    if (is_light(emitter, micro) && !is_frozen(emitter, stage))
        pass->flags |= recompute_by_block(emitter->config->recompute) ? INSTR_BLOCK : INSTR_LIGHT;
    add_message(emitter, INSTR_SEND_F, stage, micro, stage + 1);
    if (is_frozen(emitter, stage)) give_slot(emitter, stage, micro);
}

/* A rank that leaves out a micro-batch still takes part where the others share statistics. */
static void stand_in(struct emitter *emitter, enum instr_op op, int stage, int micro) {
    if (!emitter->config->shares || emitter->cell.replica_count > 1) return;
    if (!any_has_samples(emitter, micro)) return;
    stage_of(emitter, stage)->slot_of[micro] = take_slot(emitter, stage, micro);
    add_pass(emitter, op, stage, micro);
    give_slot(emitter, stage, micro);
}

/* --- gradients --- */

/* The stage's part of the buffer is whole; what it shares with another rank is added to theirs. */
static void tie(struct emitter *emitter, int stage, int grad) {
    const struct program_tie *tie = program_tie_of(emitter->program, stage);
    add(emitter, INSTR_TIE, stage)->grad = (int16_t)grad;
    if (!tie || !tie_is_apart(tie)) return;
    struct instr *join = add(emitter, INSTR_JOIN, stage);
    join->bucket = (int16_t)(tie->stage == stage ? tie->bucket : tie->other_bucket);
    join->grad = (int16_t)grad;
    join->group = (int16_t)tied_group(emitter->config);
}

/* All micro-batches are in. Parameters that another stage of this rank uses too are whole when that
 * one has come as far: orders with W may end with the later stage. */
static void tie_last(struct emitter *emitter, int stage) {
    const struct program_tie *of = program_tie_of(emitter->program, stage);
    bool here = of && !tie_is_apart(of);
    if (here && stage == of->stage && stage_of(emitter, of->other)->left > 0) return;
    tie(emitter, stage, stage_of(emitter, stage)->leaf[0].grad);
    if (here && stage == of->other && stage_of(emitter, of->stage)->left == 0)
        tie(emitter, of->stage, stage_of(emitter, of->stage)->leaf[0].grad);
}

static struct leaf *leaf_of(struct emitter *emitter, int stage, int micro) {
    bool replica = emitter->config->sum == SUM_REPLICA;
    return &stage_of(emitter, stage)
                ->leaf[replica ? micro / emitter->config->micro_batches : micro];
}

/* The buffer that a micro-batch's weight gradients go to: that of its leaf. */
static int grad_for(struct emitter *emitter, int stage, int micro, bool *fresh) {
    struct leaf *leaf = leaf_of(emitter, stage, micro);
    *fresh = leaf->grad < 0;
    if (*fresh) leaf->grad = tree_take(&stage_of(emitter, stage)->tree);
    return leaf->grad;
}

/* What the tree holds is complete, and is added to the sum. */
static void add_to_sum(struct stage *stage) {
    int part = tree_finish(&stage->tree);
    if (part >= 0 && stage->sum >= 0) tree_add(&stage->tree, stage->sum, part);
    if (stage->sum < 0) stage->sum = part;
}

/* Ties and adds the leaves that are whole, in the order of sums: one tree over all of them; or one
 * for each place of the replicas' steps, these one by one. */
static void add_leaves(struct emitter *emitter, struct stage *stage) {
    int micros = emitter->config->micro_batches, replicas = emitter->cell.replica_count;
    bool by_place = emitter->config->sum == SUM_REPLICAS_FIRST;
    for (; stage->added < emitter->leaves; stage->added++) {
        int place = stage->added / replicas, replica = stage->added % replicas;
        const struct leaf *leaf = &stage->leaf[by_place ? replica * micros + place : stage->added];
        if (leaf->left > 0) return;
        if (leaf->grad >= 0 && emitter->leaves == 1) tie_last(emitter, stage->tree.stage);
        if (leaf->grad >= 0 && emitter->leaves > 1) tie(emitter, stage->tree.stage, leaf->grad);
        if (leaf->grad >= 0) tree_push(&stage->tree, leaf->grad);
        if (by_place && replica == replicas - 1) add_to_sum(stage);
    }
    add_to_sum(stage);
}

/* Passes in lockstep stand side by side: what they made is added behind the last of them. */
static void end_gradients(struct emitter *emitter, int stage, int micro) {
    bool lockstep = emitter->config->shares && emitter->cell.replica_count > 1;
    stage_of(emitter, stage)->left--;
    leaf_of(emitter, stage, micro)->left--;
    if (!lockstep) add_leaves(emitter, stage_of(emitter, stage));
}

/* B or I, one segment or all, after the R that it needs. */
static void add_backward(struct emitter *emitter, const struct instr *like, int segment) {
    int stage = like->stage, micro = like->micro;
    if (is_light(emitter, micro))
        add_pass(emitter, INSTR_R, stage, micro)->segment = (int16_t)segment;
    if (segment <= 0) add_message(emitter, INSTR_RECV_B, stage, micro, stage + 1);
    struct instr *instr = add_pass(emitter, (enum instr_op)like->op, stage, micro);
    instr->segment = (int16_t)segment;
    instr->grad = like->grad;
    instr->flags = like->flags;
}

static void backward(struct emitter *emitter, enum instr_op op, int stage, int micro) {
    struct instr pass = instr_make(op);
    int segments = segments_of(emitter, stage, micro);
    bool fresh = false;
    pass.stage = (int16_t)stage;
    pass.micro = micro;
    if (op != INSTR_I) pass.grad = (int16_t)grad_for(emitter, stage, micro, &fresh);
    if (fresh) pass.flags = INSTR_NEW;
    if (op == INSTR_W) {
        struct instr *weights = add_pass(emitter, op, stage, micro);
        weights->grad = pass.grad;
        weights->flags = pass.flags;
    } else {
        for (int e = 0; e < segments; e++)
            add_backward(emitter, &pass, segments > 1 ? e : INSTR_ALL);
        if (stage > emitter->config->frozen)
            add_message(emitter, INSTR_SEND_B, stage, micro, stage - 1);
    }
    if (op == INSTR_I) return;
    end_gradients(emitter, stage, micro);
    give_slot(emitter, stage, micro);
}

/* An order names LOAD where it does not stand right before F. */
static void one(struct emitter *emitter, const struct pipeline_op *op) {
    bool frozen = is_frozen(emitter, op->stage);
    if (frozen && (is_backward(op) || !has_samples(emitter, op->micro))) return;
    if (has_samples(emitter, op->micro)) {
        if (op->op == INSTR_LOAD) {
            if (!frozen) add_leaves(emitter, stage_of(emitter, op->stage));
            load(emitter, op->stage, op->micro);
        } else if (op->op == INSTR_F)
            forward(emitter, op->stage, op->micro);
        else
            backward(emitter, (enum instr_op)op->op, op->stage, op->micro);
    } else if (op->op != INSTR_W) {
        stand_in(emitter, op->op == INSTR_F ? INSTR_STATS_F : INSTR_STATS_B, op->stage, op->micro);
    }
}

/* --- the whole --- */

static void begin_stage(struct emitter *emitter, int chunk) {
    const struct schedule_config *config = emitter->config;
    struct stage *stage = &emitter->stage[chunk];
    int micros = emitter->micros;
    *stage =
        (struct stage){.slot_of = MEM_ARRAY(int, micros + emitter->ahead),
                       .busy = MEM_ARRAY(bool, micros + emitter->ahead + 2),
                       .leaf = MEM_ARRAY(struct leaf, emitter->leaves),
                       .sum = -1,
                       .tree = {.out = emitter->out, .busy = MEM_ARRAY(bool, emitter->leaves + 1)}};
    stage->tree.stage = grid_stage(&config->grid, emitter->cell.position, chunk);
    bool blocks = recompute_by_block(config->recompute) && config->buckets;
    if (is_frozen(emitter, stage->tree.stage))
        emitter->out->chunk[chunk].buckets = 0;
    else if (blocks || program_tie_of(emitter->program, stage->tree.stage))
        emitter->out->chunk[chunk].buckets = config->buckets[stage->tree.stage];
    for (int l = 0; l < emitter->leaves; l++) stage->leaf[l].grad = -1;
    for (int m = 0; m < micros + emitter->ahead; m++)
        stage->slot_of[m] = m < emitter->ahead ? take_in_turn(emitter, stage->tree.stage, m) : -1;
    for (int m = 0; m < micros; m++) {
        bool has = has_samples(emitter, m);
        stage->left += has;
        leaf_of(emitter, stage->tree.stage, m)->left += has;
    }
}

/* A replica without samples in this step still takes part in the sums. */
static void zero_stages(struct emitter *emitter) {
    int chunks = emitter->config->grid.chunks;
    bool zeroed[GRID_MAX_CHUNKS] = {0};
    for (int c = chunks - 1; c >= 0; c--) {
        struct stage *stage = &emitter->stage[c];
        zeroed[c] = stage->sum < 0 && !is_frozen(emitter, stage->tree.stage);
        if (!zeroed[c]) continue;
        stage->sum = tree_take(&stage->tree);
        add(emitter, INSTR_ZERO, stage->tree.stage)->grad = (int16_t)stage->sum;
    }
    for (int c = chunks - 1; c >= 0; c--) {
        const struct stage *stage = &emitter->stage[c];
        if (zeroed[c]) tie(emitter, stage->tree.stage, stage->sum);
    }
}

static void end_stage(struct stage *stage) {
    free(stage->slot_of);
    free(stage->busy);
    free(stage->leaf);
    free(stage->tree.busy);
}

/* --- calls --- */

static void add_call(struct rank_program *out, enum instr_op op, int stage, int micro,
                     unsigned what) {
    struct instr *instr = program_add(out, LIST_BODY, op);
    instr->stage = (int16_t)stage;
    instr->micro = micro;
    instr->flags = (uint16_t)what;
}

/* A pass waits for the call for it. */
static void serve(struct emitter *emitter, const struct pipeline_op *op) {
    if (is_frozen(emitter, op->stage) && is_backward(op)) return;
    if (emitter->config->driven && has_samples(emitter, op->micro) && op->op != INSTR_W)
        add_call(emitter->out, INSTR_SERVE, op->stage, op->micro,
                 op->op == INSTR_F ? INSTR_FORWARD : INSTR_BACKWARD);
}

static bool is_called(const struct schedule_config *config, int micro) {
    return micro >= 0 && micro < config->micro_batches &&
           (!config->samples || config->samples[micro] > 0);
}

/* Forwards by the diagonals of the pipeline: in the order in which stages can begin them, so that
 * a stage without a credit holds up no other. */
static void call_forwards(const struct schedule_config *config, struct rank_program *out) {
    int stages = config->grid.stages;
    for (int t = 0; t < config->micro_batches + stages - 1; t++)
        for (int s = 0; s < stages; s++)
            if (is_called(config, t - s)) add_call(out, INSTR_CALL, s, t - s, INSTR_FORWARD);
}

/* The driver hears that a backward has ended everywhere where all ranks meet. */
static void call_backwards(const struct schedule_config *config, struct rank_program *out) {
    for (int m = 0; m < config->micro_batches; m++) {
        for (int s = config->grid.stages - 1; s >= config->frozen && is_called(config, m); s--)
            add_call(out, INSTR_CALL, s, m, INSTR_BACKWARD);
        program_add(out, LIST_BODY, INSTR_MEET)->group = EVERYONE;
    }
}

/* Norm and losses are awaited before the call: where they stop the run, no call is made. */
static unsigned update_call(const struct schedule_config *config) {
    return INSTR_UPDATE | (config->clips ? INSTR_CLIP : 0);
}

/* NULL: the rank has frozen stages alone. */
static const struct stage *first_trained(const struct emitter *emitter) {
    for (int c = 0; c < emitter->config->grid.chunks; c++)
        if (!is_frozen(emitter, emitter->stage[c].tree.stage)) return &emitter->stage[c];
    return NULL;
}

static void end_step(struct emitter *emitter) {
    const struct stage *trained = first_trained(emitter);
    int grad = trained ? trained->sum : INSTR_ALL;
    program_add(emitter->out, LIST_BODY, INSTR_REPORT)->group = report_group(emitter->config);
    struct instr *norm = program_add(emitter->out, LIST_BODY, INSTR_NORM);
    norm->grad = (int16_t)grad;
    norm->group = norm_group(emitter->config);
    if (!trained) emitter->out->grads = 0;
    if (!trained) return;
    if (emitter->config->driven) /* its first stage stands for the rank */
        add_call(emitter->out, INSTR_SERVE, trained->tree.stage, INSTR_ALL,
                 update_call(emitter->config));
    program_add_step(emitter->out, grad, emitter->config->clips);
}

static void meet(struct emitter *emitter) {
    program_add(emitter->out, LIST_BODY, INSTR_MEET)->group =
        emitter->config->driven ? EVERYONE : PIPELINE;
}

void emit_driver(const struct schedule_config *config, struct rank_program *out) {
    if (config->driven) {
        call_forwards(config, out);
        call_backwards(config, out);
    }
    program_add(out, LIST_BODY, INSTR_REPORT)->group = EVERYONE;
    program_add(out, LIST_BODY, INSTR_NORM)->group = norm_group(config);
    for (int s = config->frozen; config->driven && s < config->grid.stages; s++)
        add_call(out, INSTR_CALL, s, INSTR_ALL, update_call(config));
}

void emit_rank(const struct schedule_config *config, const struct program *program,
               const struct pipeline_order *order, int rank, struct rank_program *out) {
    struct emitter emitter = {.config = config,
                              .program = program,
                              .out = out,
                              .cell = grid_cell(&config->grid, rank),
                              .first = program_first_micro(program, rank),
                              .micros = program_micros(program, rank)};
    bool loss = grid_position(&config->grid, last_stage(&emitter)) == emitter.cell.position;
    bool meets = meets_in_body(config);
    if (config->overlaps) emitter.ahead = config->grid.stages - 1 - emitter.cell.position;
    for (int c = 0; config->older && c < config->grid.chunks; c++)
        out->chunk[c].older = config->older[emitter.cell.position];
    emitter.leaves = config->sum == SUM_REPLICA ? emitter.cell.replica_count : emitter.micros;
    emitter.at_once = is_at_once(order) || emitter.cell.replica_count > 1;
    for (int c = 0; c < config->grid.chunks; c++) begin_stage(&emitter, c);
    if (loss) program_add(out, LIST_BODY, INSTR_COUNT)->group = count_group(config);
    for (int i = 0; i < order->count; i++) {
        serve(&emitter, &order->items[i]);
        one(&emitter, &order->items[i]);
        if (meets && order->items[i].op == INSTR_B) meet(&emitter);
    }
    for (int c = 0; c < config->grid.chunks; c++)
        if (!is_frozen(&emitter, emitter.stage[c].tree.stage))
            add_leaves(&emitter, &emitter.stage[c]);
    zero_stages(&emitter);
    for (int c = 0; c < config->grid.chunks; c++) end_stage(&emitter.stage[c]);
    end_step(&emitter);
}
