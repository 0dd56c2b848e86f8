/* Several slots in one memory plan: a replay that knows nothing of lifetimes. Every line of the
 * arenas remembers which value of which slot was written there last; nodes run pass by pass, the
 * slots' passes interleaved in every order, and each must find its inputs whole. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rng.h"
#include "kit.h"

enum { LINE_BYTES = 64, MOST_SLOTS = 4, MOST_STEPS = 64 };

TestSuite(graph_slots, .init = kit_open_devices, .fini = kit_close_devices);

/* A micro-batch's way through a slot, a letter a step: r receive from the stage before, F forward,
 * s send on; R receive from the stage behind, B backward or I and W its halves, S send back; digits
 * are segments of backward; b and i are B and I with forward run again right before, k and j the
 * same segment by segment. */
struct micro {
    const struct ranges *ranges;
    const struct placement *plan;
    const char *steps;
};

struct replay {
    struct micro micro[MOST_SLOTS];
    int slots, stage;
    size_t apart; /* of the slots' arenas; the shared one lies behind the last */
    size_t lines;
    int *stamp; /* per line */
    const char *name;
    int lost; /* inputs that were written over */
};

static struct replay replay_new(const char *name, int slots, const struct micro *micros,
                                int stage) {
    struct replay replay = {.slots = slots, .stage = stage, .name = name};
    size_t shared = 0;
    for (int s = 0; s < slots; s++) {
        const struct placement *plan = micros[s].plan;
        replay.micro[s] = micros[s];
        if (plan->slot_bytes > replay.apart) replay.apart = plan->slot_bytes;
        if (plan->shared_bytes > shared) shared = plan->shared_bytes;
    }
    replay.lines = (replay.apart * (size_t)slots + shared) / LINE_BYTES;
    replay.stamp = MEM_ARRAY(int, replay.lines + 1);
    return replay;
}

static int stamp_of(int slot, int root) {
    return (root + 1) * MOST_SLOTS + slot;
}

/* The lines of a value, [*begin, *end); false where it lies in no arena. */
static bool lines_of(const struct replay *replay, int slot, int value, size_t *begin, size_t *end) {
    const struct placement *plan = replay->micro[slot].plan;
    int root = plan->graph->values[value].root;
    if (plan->graph->values[root].kind != VALUE_LOCAL || plan->offset[root] == PLACED_ELSEWHERE)
        return false;
    size_t base = replay->apart * (size_t)(plan->in_shared[root] ? replay->slots : slot);
    size_t bytes = plan->graph->values[root].layout->bytes;
    *begin = (base + plan->offset[root]) / LINE_BYTES;
    *end = (base + plan->offset[root] + bytes + LINE_BYTES - 1) / LINE_BYTES;
    cr_assert_leq(*end, replay->lines, "%s: beyond the arenas", replay->name);
    return true;
}

static void write_value(struct replay *replay, int slot, int value) {
    size_t begin, end;
    int root = replay->micro[slot].ranges->graph->values[value].root;
    if (!lines_of(replay, slot, value, &begin, &end)) return;
    for (size_t i = begin; i < end; i++) replay->stamp[i] = stamp_of(slot, root);
}

static void read_value(struct replay *replay, int slot, int value) {
    size_t begin, end;
    int root = replay->micro[slot].ranges->graph->values[value].root;
    if (!lines_of(replay, slot, value, &begin, &end)) return;
    for (size_t i = begin; i < end; i++) {
        if (replay->stamp[i] == stamp_of(slot, root)) continue;
        replay->lost++;
        return;
    }
}

/* A kernel may write before it has read: an output lies over no input but the one it may replace.
 */
static void check_overlap(struct replay *replay, int slot, const struct node *node) {
    size_t begin, end, in_begin, in_end;
    for (int k = 0; k < node->out_count; k++) {
        if (!lines_of(replay, slot, node->out[k], &begin, &end)) continue;
        for (int i = 0; i < node->in_count; i++) {
            if (!lines_of(replay, slot, node->in[i], &in_begin, &in_end)) continue;
            bool in_place =
                k == 0 && i == 0 && begin == in_begin && op_def(node->op)->flags & OP_IN_PLACE;
            if (begin < in_end && in_begin < end && !in_place) replay->lost++;
        }
    }
}

static void run_node(struct replay *replay, int slot, int n) {
    const struct graph *graph = replay->micro[slot].ranges->graph;
    const struct node *node = &graph->nodes[n];
    for (int i = 0; i < node->in_count; i++) read_value(replay, slot, node->in[i]);
    if (!node->kernel) return; /* a view */
    check_overlap(replay, slot, node);
    for (int k = 0; k < node->out_count; k++) write_value(replay, slot, node->out[k]);
    for (int k = 0; k < node->out_count; k++) read_value(replay, slot, node->out[k]);
}

static bool in_pass(const struct node *node, char step) {
    step = (char)toupper(step);
    return step == 'I' ? node->half == OP_HALF_I : step == 'W' ? node->half == OP_HALF_W : true;
}

static void run_again(struct replay *replay, int slot) {
    struct recompute recompute =
        graph_recompute_of(replay->micro[slot].ranges, replay->stage, false);
    for (int n = 0; n < replay->micro[slot].ranges->graph->node_count; n++)
        if (recompute.again[n]) run_node(replay, slot, n);
    graph_recompute_free(&recompute);
}

static void run_blocks(struct replay *replay, int slot, bool halves) {
    const struct ranges *ranges = replay->micro[slot].ranges;
    struct recompute recompute = graph_recompute_of(ranges, replay->stage, true);
    for (int e = 0; e < ranges->stages[replay->stage].phase[PHASE_BACKWARD].segment_count; e++) {
        struct node_range again = ranges_of_bucket(ranges, replay->stage, e, PHASE_FORWARD),
                          nodes = ranges_of_bucket(ranges, replay->stage, e, PHASE_BACKWARD);
        for (int n = again.begin; n < again.end; n++)
            if (recompute.again[n]) run_node(replay, slot, n);
        for (int n = nodes.begin; n < nodes.end; n++)
            if (in_pass(&ranges->graph->nodes[n], halves ? 'I' : 'B')) run_node(replay, slot, n);
    }
    graph_recompute_free(&recompute);
}

static void run_pass(struct replay *replay, int slot, char step) {
    const struct ranges *ranges = replay->micro[slot].ranges;
    if (step == 'k' || step == 'j') {
        run_blocks(replay, slot, step == 'j');
        return;
    }
    if (step == 'b' || step == 'i') run_again(replay, slot);
    int segment = step >= '0' && step <= '9' ? step - '0' : SEGMENT_ALL;
    struct node_range nodes =
        ranges_find(ranges, replay->stage, segment, step == 'F' ? PHASE_FORWARD : PHASE_BACKWARD);
    for (int n = nodes.begin; n < nodes.end; n++)
        if (in_pass(&ranges->graph->nodes[n], step)) run_node(replay, slot, n);
}

/* What the executor reads behind a pass. */
static void read_results(struct replay *replay, int slot, char step) {
    const struct ranges *ranges = replay->micro[slot].ranges;
    const struct graph *graph = ranges->graph;
    for (int i = 0; step == 'F' && i < graph->loss_count; i++) {
        int sum = graph->losses[i].sum, top_k = graph->losses[i].top_k;
        if (ranges_stage(ranges, &graph->nodes[graph->values[sum].producer]) != replay->stage)
            continue;
        read_value(replay, slot, sum);
        if (top_k != NO_VALUE) read_value(replay, slot, top_k);
    }
    for (int u = 0; step == 'W' && u < graph->use_count; u++) {
        int gradient = graph->uses[u].gradient;
        const struct node *maker = &graph->nodes[graph->values[gradient].producer];
        if (maker->half == OP_HALF_I && ranges_stage(ranges, maker) == replay->stage)
            read_value(replay, slot, gradient);
    }
}

static void transfer(struct replay *replay, int slot, char step) {
    const struct ranges *ranges = replay->micro[slot].ranges;
    bool before = step == 'r' || step == 'S'; /* the cut before the stage, or the one behind it */
    int at = before ? replay->stage - 1 : replay->stage;
    if (at < 0 || at >= ranges->stage_count - 1) return;
    enum phase phase = step == 'r' || step == 's' ? PHASE_FORWARD : PHASE_BACKWARD;
    struct crossing crossing = ranges_crossing(ranges, at, phase);
    for (int i = 0; i < crossing.count; i++) {
        if (step == 'r' || step == 'R')
            write_value(replay, slot, crossing.values[i]);
        else
            read_value(replay, slot, crossing.values[i]);
    }
    free(crossing.values);
}

static void run_step(struct replay *replay, int slot, char step) {
    if (strchr("rsRS", step)) {
        transfer(replay, slot, step);
        return;
    }
    run_pass(replay, slot, step);
    read_results(replay, slot, step);
}

/* --- orders --- */

/* All interleavings of the slots' steps: calls itself for each slot that may go on, and replays at
 * the end. Returns how many there were. */
static int replay_every_order(struct replay *replay, char order[MOST_STEPS], int depth) {
    int done[MOST_SLOTS] = {0}, orders = 0;
    for (int i = 0; i < depth; i++) done[(int)order[i]]++;
    for (int s = 0; s < replay->slots; s++) {
        if (!replay->micro[s].steps[done[s]]) continue;
        order[depth] = (char)s;
        orders += replay_every_order(replay, order, depth + 1);
    }
    if (orders) return orders;
    memset(replay->stamp, 0, replay->lines * sizeof *replay->stamp);
    memset(done, 0, sizeof done);
    replay->lost = 0;
    for (int i = 0; i < depth; i++) {
        int slot = order[i];
        run_step(replay, slot, replay->micro[slot].steps[done[slot]++]);
    }
    cr_expect_eq(replay->lost, 0, "%s: %d values are lost in an order that begins %d %d %d",
                 replay->name, replay->lost, order[0], order[1], order[2]);
    return 1;
}

static int check_every_order(const char *name, int slots, const struct micro *micros, int stage) {
    struct replay replay = replay_new(name, slots, micros, stage);
    char order[MOST_STEPS];
    int orders = replay_every_order(&replay, order, 0);
    free(replay.stamp);
    return orders;
}

/* As many micro-batches as wanted go through the slots, each taken again when it is done. */
static void check_stream(const char *name, int slots, const struct micro *micros, int count,
                         uint64_t seed) {
    struct replay replay = replay_new(name, slots, micros, 0);
    int done[MOST_SLOTS] = {0}, finished = 0;
    for (uint64_t turn = 0; finished < count; turn++) {
        /* seed 0: one forward, one backward, as pipelines do once they are full */
        int slot = seed ? (int)(rng_word(seed, turn) % (uint32_t)slots) : finished % slots;
        for (int s = 0; !seed && s < slots; s++)
            if (done[s] == 0) slot = s;
        run_step(&replay, slot, replay.micro[slot].steps[done[slot]++]);
        if (replay.micro[slot].steps[done[slot]]) continue;
        done[slot] = 0;
        finished++;
    }
    cr_expect_eq(replay.lost, 0, "%s, seed %d: %d values are lost", name, (int)seed, replay.lost);
    free(replay.stamp);
}

/* --- graphs and plans --- */

static const char *const models[] = {"resnet8", "vit-micro", "bert-tiny", "lenet"};
enum { MODELS = sizeof models / sizeof models[0], SIZES = 2 };

/* A graph of two sizes: an epoch's short last step has both under way. */
struct setting {
    struct graph *graph[SIZES];
    struct ranges ranges[SIZES];
    struct placement plan[SIZES];
};

static struct setting setting_new(const char *model, struct device *device, const int *cuts,
                                  int count) {
    struct setting setting;
    for (int i = 0; i < SIZES; i++) {
        setting.graph[i] = kit_model(model, 2 + i, true);
        kit_compile(setting.graph[i], device, NULL);
        cr_assert_eq(ranges_new(setting.graph[i], cuts, count, &setting.ranges[i]), STATUS_OK);
    }
    return setting;
}

static void setting_place(struct setting *setting, int stage,
                          const struct placement_config *config) {
    for (int i = 0; i < SIZES; i++)
        setting->plan[i] = graph_place(&setting->ranges[i], stage, config);
}

static void setting_unplace(struct setting *setting) {
    for (int i = 0; i < SIZES; i++) placement_free(&setting->plan[i]);
}

static void setting_free(struct setting *setting) {
    for (int i = 0; i < SIZES; i++) {
        ranges_free(&setting->ranges[i]);
        graph_free(&setting->graph[i]);
    }
}

static struct micro micro_of(const struct setting *setting, int slot, const char *steps) {
    return (struct micro){&setting->ranges[slot % SIZES], &setting->plan[slot % SIZES], steps};
}

struct way {
    struct placement_config config;
    const char *steps[2]; /* of even and odd slots */
};

static const struct way ways[] = {
    {{.shared = true}, {"FB", "FB"}},
    {{.shared = true, .gradients_outside = true}, {"FB", "FB"}},
    {{.shared = true, .life = {.split = true}}, {"FIW", "FIW"}},
    {{.shared = true, .life = {.split = true, .mixed = true}}, {"FIW", "FB"}},
    {{.shared = true, .life = {.split = true, .mixed = true}}, {"FB", "FIW"}},
    {{.shared = false}, {"FB", "FB"}},
    {{.shared = true, .life = {.recompute = true}}, {"Fb", "Fb"}},
    {{.shared = false, .life = {.recompute = true}}, {"Fb", "Fb"}},
    {{.shared = true, .life = {.recompute = true, .split = true}}, {"FiW", "FiW"}},
    {{.shared = true, .life = {.recompute = true, .some_kept = true}}, {"Fb", "FB"}},
    {{.shared = true, .life = {.recompute = true, .some_kept = true, .split = true, .mixed = true}},
     {"FiW", "FB"}},
    {{.shared = true, .life = {.recompute = true, .split = true, .mixed = true}}, {"FiW", "Fb"}},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

Test(graph_slots, every_order_of_passes_finds_its_values) {
    struct device *devices[] = {ref, twist};
    for (int m = 0; m < MODELS; m++) {
        for (int d = 0; d < 2; d++) {
            struct setting setting = setting_new(models[m], devices[d], NULL, 0);
            for (int w = 0; w < WAYS; w++) {
                setting_place(&setting, 0, &ways[w].config);
                for (int slots = 2; slots <= 3; slots++) {
                    struct micro micros[MOST_SLOTS];
                    for (int s = 0; s < slots; s++)
                        micros[s] = micro_of(&setting, s, ways[w].steps[s % 2]);
                    if (slots == 3 && strlen(ways[w].steps[0]) > 2) continue; /* too many */
                    int orders = check_every_order(models[m], slots, micros, 0);
                    cr_expect_geq(orders, slots == 2 ? 6 : 90);
                    for (uint64_t seed = 0; seed < 5; seed++)
                        check_stream(models[m], slots, micros, 8, seed);
                }
                setting_unplace(&setting);
            }
            setting_free(&setting);
        }
    }
}

/* Other slots may run between the segments of a backward. */
Test(graph_slots, nor_is_anything_lost_between_segments) {
    static const struct placement_config config = {.shared = true,
                                                   .life = {.segments_apart = true}};
    for (int m = 0; m < MODELS; m++) {
        struct setting setting = setting_new(models[m], ref, NULL, 0);
        for (int i = 0; i < SIZES; i++) {
            struct node_range all = ranges_find(&setting.ranges[i], 0, SEGMENT_ALL, PHASE_BACKWARD);
            int count = all.end - all.begin;
            int ends[] = {all.begin + count / 3, all.begin + count / 3, all.begin + count / 2,
                          all.end};
            ranges_cut_segments(&setting.ranges[i], 0, PHASE_BACKWARD, ends, 4);
        }
        setting_place(&setting, 0, &config);
        struct micro micros[] = {micro_of(&setting, 0, "F0123"), micro_of(&setting, 1, "F0123")};
        cr_expect_eq(check_every_order(models[m], 2, micros, 0), 252);
        setting_unplace(&setting);
        setting_free(&setting);
    }
}

/* --- blocks --- */

static const struct way block_ways[] = {
    {{.shared = true, .life = {.recompute = true, .blocks = true}}, {"Fk", "Fk"}},
    {{.shared = false, .life = {.recompute = true, .blocks = true}}, {"Fk", "Fk"}},
    {{.shared = true, .gradients_outside = true, .life = {.recompute = true, .blocks = true}},
     {"Fk", "Fk"}},
    {{.shared = true, .life = {.recompute = true, .blocks = true, .some_kept = true}},
     {"Fk", "FB"}},
    {{.shared = true, .life = {.recompute = true, .blocks = true, .split = true}}, {"FjW", "FjW"}},
    {{.shared = true,
      .life = {.recompute = true, .blocks = true, .some_kept = true, .split = true, .mixed = true}},
     {"FjW", "FB"}},
};
enum { BLOCK_WAYS = sizeof block_ways / sizeof block_ways[0] };

Test(graph_slots, blocks_that_are_made_again_one_by_one_find_their_values) {
    struct device *devices[] = {ref, twist};
    for (int i = 0; i < MODELS * 2; i++) {
        const char *model = models[i / 2];
        struct setting setting = setting_new(model, devices[i % 2], NULL, 0);
        for (int k = 0; k < SIZES; k++) cr_expect_gt(kit_cut_blocks(&setting.ranges[k], 0), 2);
        for (int w = 0; w < BLOCK_WAYS; w++) {
            setting_place(&setting, 0, &block_ways[w].config);
            struct micro micros[] = {micro_of(&setting, 0, block_ways[w].steps[0]),
                                     micro_of(&setting, 1, block_ways[w].steps[1])};
            cr_expect_geq(check_every_order(model, 2, micros, 0), 6);
            for (uint64_t seed = 0; seed < 3; seed++) check_stream(model, 2, micros, 6, seed);
            setting_unplace(&setting);
        }
        setting_free(&setting);
    }
}

/* What is received, and what waits to be sent, is safe from every other slot too. */
Test(graph_slots, stages_keep_what_crosses_their_cuts) {
    static const struct placement_config together = {.shared = true},
                                         again = {.shared = true, .life = {.recompute = true}},
                                         split = {.shared = true, .life = {.split = true}},
                                         blocks = {.shared = true,
                                                   .life = {.recompute = true, .blocks = true}};
    for (int m = 0; m < MODELS - 1; m++) {
        struct graph *graph = kit_model(models[m], 2, true);
        kit_compile(graph, twist, NULL);
        int units = graph_unit_count(graph), cuts[] = {units / 4, units / 2 + 1};
        graph_free(&graph);
        struct setting setting = setting_new(models[m], twist, cuts, 2);
        for (int stage = 0; stage < 3; stage++) {
            setting_place(&setting, stage, &together);
            struct micro micros[] = {micro_of(&setting, 0, "rFsRBS"),
                                     micro_of(&setting, 1, "rFsRBS")};
            cr_expect_eq(check_every_order(models[m], 2, micros, stage), 924);
            setting_unplace(&setting);
            setting_place(&setting, stage, &again);
            micros[0].steps = micros[1].steps = "rFsRbS";
            cr_expect_eq(check_every_order(models[m], 2, micros, stage), 924);
            setting_unplace(&setting);
            for (int k = 0; k < SIZES; k++) kit_cut_blocks(&setting.ranges[k], stage);
            setting_place(&setting, stage, &blocks);
            micros[0].steps = micros[1].steps = "rFsRkS";
            cr_expect_eq(check_every_order(models[m], 2, micros, stage), 924);
            setting_unplace(&setting);
            if (m > 0 || stage != 1) continue; /* too many orders for all */
            setting_place(&setting, stage, &split);
            struct micro halves[] = {micro_of(&setting, 0, "rFsRISW"),
                                     micro_of(&setting, 1, "rFsRIWS")};
            cr_expect_eq(check_every_order(models[m], 2, halves, stage), 3432);
            setting_unplace(&setting);
        }
        setting_free(&setting);
    }
}

/* --- lockstep passes --- */

static bool is_exchange(const struct node *node) {
    return op_def(node->op)->flags & OP_EXCHANGE;
}

/* Every slot up to the next exchange, then the exchange of all, and so on. */
static int run_lockstep(struct replay *replay, char step) {
    struct node_range nodes[MOST_SLOTS];
    int exchanges = 0;
    bool more = true;
    for (int s = 0; s < replay->slots; s++)
        nodes[s] = ranges_find(replay->micro[s].ranges, 0, SEGMENT_ALL,
                               step == 'F' ? PHASE_FORWARD : PHASE_BACKWARD);
    while (more) {
        more = false;
        for (int s = 0; s < replay->slots; s++) {
            const struct node *list = replay->micro[s].ranges->graph->nodes;
            for (; nodes[s].begin < nodes[s].end && !is_exchange(&list[nodes[s].begin]);
                 nodes[s].begin++)
                if (in_pass(&list[nodes[s].begin], step)) run_node(replay, s, nodes[s].begin);
            more = nodes[s].begin < nodes[s].end;
        }
        for (int k = 0; more && k < 2; k++) {
            for (int s = 0; s < replay->slots; s++) {
                const struct node *node = &replay->micro[s].ranges->graph->nodes[nodes[s].begin];
                if (k == 0) read_value(replay, s, node->in[0]);
                if (k == 1) write_value(replay, s, node->out[0]);
                nodes[s].begin += k;
            }
            exchanges += k;
        }
    }
    for (int s = 0; s < replay->slots; s++) read_results(replay, s, step);
    return exchanges;
}

static struct graph *sharing_graph(int64_t batch) {
    struct graph *graph = kit_sharing_model("resnet8", batch, 3);
    kit_compile(graph, ref, NULL);
    return graph;
}

/* With --sync-bn on one device all slots are in the midst of their passes at once. */
Test(graph_slots, lockstep_passes_find_their_values) {
    static const struct way lockstep[] = {
        {{.shared = true, .life = {.lockstep = true}}, {"FB"}},
        {{.shared = true, .gradients_outside = true, .life = {.lockstep = true}}, {"FB"}},
        {{.shared = true, .life = {.lockstep = true, .split = true}}, {"FIW"}}};
    struct setting setting;
    for (int i = 0; i < SIZES; i++) {
        setting.graph[i] = sharing_graph(2 + i);
        cr_assert_eq(ranges_new(setting.graph[i], NULL, 0, &setting.ranges[i]), STATUS_OK);
    }
    for (size_t w = 0; w < sizeof lockstep / sizeof lockstep[0]; w++) {
        setting_place(&setting, 0, &lockstep[w].config);
        struct micro micros[] = {micro_of(&setting, 0, ""), micro_of(&setting, 1, ""),
                                 micro_of(&setting, 0, "")};
        struct replay replay = replay_new("resnet8", 3, micros, 0);
        for (const char *step = lockstep[w].steps[0]; *step; step++) {
            if (*step != 'W')
                cr_expect_gt(run_lockstep(&replay, *step), 5);
            else
                for (int slot = 0; slot < 3; slot++) run_step(&replay, slot, *step);
        }
        cr_expect_eq(replay.lost, 0, "way %d: %d values are lost", (int)w, replay.lost);
        free(replay.stamp);
        setting_unplace(&setting);
    }
    setting_free(&setting);
}

/* --- how much --- */

/* What a slot keeps is less than all it holds at its peak. */
Test(graph_slots, several_slots_take_less_than_as_many_arenas) {
    for (int m = 0; m < MODELS; m++) {
        struct graph *graph = kit_model(models[m], 8, true);
        kit_compile(graph, ref, NULL);
        for (int w = 0; w < 4; w++) {
            struct placement_config config = ways[w].config;
            struct placement shared = kit_identity(graph, &config);
            config.shared = false;
            struct placement joint = kit_identity(graph, &config);
            cr_expect_eq(joint.shared_bytes, 0);
            cr_expect_lt(shared.slot_bytes, joint.slot_bytes, "%s", models[m]);
            cr_expect_lt(placement_bytes(&shared, 4), placement_bytes(&joint, 4), "%s", models[m]);
            cr_expect_eq(placement_bytes(&shared, 4), 4 * shared.slot_bytes + shared.shared_bytes);
            placement_free(&shared);
            placement_free(&joint);
        }
        graph_free(&graph);
    }
}

/* A transient value of backward lies where a kept one has died, and takes no other room. */
Test(graph_slots, transient_values_lie_in_dead_space_of_their_slot) {
    struct graph *graph = kit_model("lenet", 8, true);
    kit_compile(graph, ref, NULL);
    struct placement plan = kit_identity(graph, &ways[1].config);
    size_t inside = 0, outside = 0;
    for (int v = 0; v < graph->value_count; v++) {
        if (plan.offset[v] == PLACED_ELSEWHERE || graph->values[v].root != v) continue;
        if (plan.life.pass[v] == LIFE_KEPT) {
            cr_expect_not(plan.in_shared[v], "%s is kept", graph->values[v].name);
            continue;
        }
        *(plan.in_shared[v] ? &outside : &inside) += graph->values[v].layout->bytes;
    }
    cr_expect_gt(inside, 0);
    cr_expect_gt(outside, 0);
    placement_free(&plan);
    graph_free(&graph);
}

/* What crosses the cuts of a stage, both ways. */
static size_t crossing_bytes(const struct ranges *ranges, int stage) {
    size_t bytes = 0;
    for (int i = 0; i < 2 * PHASE_COUNT; i++) {
        int cut = stage - i % 2;
        if (cut < 0 || cut >= ranges->stage_count - 1) continue;
        struct crossing crossing = ranges_crossing(ranges, cut, (enum phase)(i / 2));
        bytes += crossing.bytes + (size_t)crossing.count * LINE_BYTES;
        free(crossing.values);
    }
    return bytes;
}

/* Losses, and statistics that ranks have exchanged. */
static size_t held_bytes(const struct graph *graph, const struct placement *plan) {
    size_t bytes = 2 * LINE_BYTES;
    for (int v = 0; v < graph->value_count; v++)
        if (plan->life.recompute.held[v]) bytes += graph->values[v].layout->bytes + LINE_BYTES;
    return bytes;
}

/* Forward makes it all again. */
Test(graph_slots, a_recomputed_stage_keeps_what_crosses_its_cuts) {
    static const struct placement_config kept = {.shared = true},
                                         again = {.shared = true, .life = {.recompute = true}};
    for (int m = 0; m <= MODELS; m++) {
        struct graph *graph = m < MODELS ? kit_model(models[m], 8, true) : sharing_graph(8);
        if (m < MODELS) kit_compile(graph, ref, NULL);
        int units = graph_unit_count(graph), cuts[] = {units / 3, 2 * units / 3};
        struct ranges ranges;
        cr_assert_eq(ranges_new(graph, cuts, 2, &ranges), STATUS_OK);
        size_t light_bytes = 0, full_bytes = 0;
        for (int stage = 0; stage < 3; stage++) {
            struct placement full = graph_place(&ranges, stage, &kept),
                             light = graph_place(&ranges, stage, &again);
            cr_expect_leq(light.slot_bytes,
                          crossing_bytes(&ranges, stage) + held_bytes(graph, &light), "%d stage %d",
                          m, stage);
            light_bytes += light.slot_bytes;
            full_bytes += full.slot_bytes;
            placement_free(&full);
            placement_free(&light);
        }
        cr_expect_lt(light_bytes, full_bytes, "%d", m);
        ranges_free(&ranges);
        graph_free(&graph);
    }
}
