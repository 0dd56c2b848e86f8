/* Ranks (threads here) that save and resume together: optimizer state in slices, as many as there
 * are ranks or one for each bucket, saved by one layout and read under another; a rank that fails;
 * and what the others see of an evaluation. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/state.h"
#include "exec/train.h"
#include "saves.h"

TestSuite(exec_sliced, .init = saves_begin, .fini = saves_end);

enum { MAX_RANKS = 4, MAX_SLICES = 2, MICRO_BATCHES = 12 /* of a step */ };
enum slicing { WHOLE, SLICED, SLICED_WITH_A_GAP, SLICED_BY_BUCKET };

#define EVEN "--model mlp --data digits --device ref --threads 1 --batch 120 --steps 9 "

struct rank_set;

struct member {
    struct rank_set *set;
    int rank;
    struct comm *comm;
    struct kit_plan planned;
    struct train_state training;
    struct engine *engine;
    struct slice owned[MAX_SLICES];
    char *folder; /* of its checkpoints */
    enum status status;
    struct checkpoint_state state;
    struct eval_result eval;
    pthread_t thread;
};

struct rank_set {
    struct options options;
    int ranks;
    enum slicing slicing;
    void (*act)(struct member *member); /* between engine_open and the end */
    const struct kit_run *like;         /* what `act` compares with */
    struct member members[MAX_RANKS];
    struct comm *comms[MAX_RANKS];
};

/* --- plans whose state is in slices, as a policy would make them --- */

static struct slice slice_of(struct comm *comm, int64_t begin, int64_t count) {
    struct slice slice;
    comm_slice(comm_world(comm), count, comm_rank(comm), &slice.begin, &slice.count);
    slice.begin += begin;
    return slice;
}

/* Two buckets, the last parameters first. */
static void cut_buckets(struct plan *plan) {
    const struct state_layout *layout = plan->store;
    int half = layout->param_count / 2;
    int64_t middle = layout->params[half].begin;
    free(plan->chunk[0].buckets.items);
    plan->chunk[0].buckets = (struct bucket_list){MEM_ARRAY(struct bucket, 2), 2};
    plan->chunk[0].buckets.items[0] = (struct bucket){.first = half,
                                                      .count = layout->param_count - half,
                                                      .begin = middle,
                                                      .elements = layout->param_elements - middle,
                                                      false};
    plan->chunk[0].buckets.items[1] = (struct bucket){.count = half, .elements = middle, false};
}

static int own_slices(struct member *member) {
    struct plan *plan = member->planned.plan;
    if (member->set->slicing != SLICED_BY_BUCKET) {
        bool gap = member->set->slicing == SLICED_WITH_A_GAP && member->rank > 0;
        member->owned[0] = slice_of(member->comm, 0, plan->store->param_elements);
        if (gap) member->owned[0].count = 0;
        return 1;
    }
    cut_buckets(plan);
    for (int b = 0; b < 2; b++) /* ascending */
        member->owned[b] = slice_of(member->comm, plan->chunk[0].buckets.items[1 - b].begin,
                                    plan->chunk[0].buckets.items[1 - b].elements);
    return 2;
}

static void add_collect(struct rank_program *rank, int bucket) {
    struct instr_list *save = &rank->list[LIST_SAVE];
    struct instr *collect = program_add(rank, LIST_SAVE, INSTR_COLLECT);
    collect->bucket = (int16_t)bucket;
    struct instr made = *collect;
    memmove(save->items + 2, save->items + 1, (size_t)(save->count - 2) * sizeof made);
    save->items[1] = made;
}

static void slice_plan(struct member *member) {
    struct plan *plan = member->planned.plan;
    int count = own_slices(member);
    struct state_config config = {
        .graph = plan->micro[0].graph,
        .optimizer = plan->config.optimizer,
        .grads = plan->grads,
        .owned = member->owned,
        .owned_count = count,
        .array = {[ARRAY_GRAD] = {.memory = MEMORY_COMM}, [ARRAY_STATE] = {.sliced = true}}};
    state_layout_free(&plan->store);
    plan->store = state_layout_new(&config);
    for (int k = 0; k < plan->program->kind_count; k++)
        for (int b = 0; b < count; b++) add_collect(&plan->program->kinds[k], b);
    if (count == 1) cr_assert_eq(program_verify(plan->program, NULL), STATUS_OK);
}

/* --- sets of ranks --- */

static void *member_main(void *argument) {
    struct member *member = argument;
    struct engine *engine = NULL;
    if (member->set->slicing != WHOLE) slice_plan(member);
    member->training = train_fresh();
    member->status = kit_engine(member->planned.plan, &member->training, &member->comm, &engine);
    member->engine = engine;
    if (member->status == STATUS_OK) member->set->act(member);
    if (member->status != STATUS_OK) comm_abort(engine_comm(member->engine), member->rank);
    return NULL;
}

/* Micro-batches of one size for any number of ranks: the device chooses layouts by it. */
static const char *with_ranks(const char *line, int ranks) {
    static char many[512];
    snprintf(many, sizeof many, "%s -n %d --micro-batches %d", line, ranks, MICRO_BATCHES / ranks);
    return many;
}

static void ranks_open(struct rank_set *set, const char *line, int ranks) {
    kit_options(with_ranks(line, ranks), &set->options);
    set->ranks = ranks;
    for (int r = 0; r < ranks; r++) {
        struct member *member = &set->members[r];
        *member = (struct member){.set = set, .rank = r, .folder = folder};
        cr_assert_eq(
            kit_plan(&set->options, r, ranks, set->members[0].planned.dataset, &member->planned),
            STATUS_OK);
    }
    cr_assert_eq(
        comm_open_threads(ranks, plan_heap_bytes(set->members[0].planned.plan), 0, set->comms),
        STATUS_OK);
    for (int r = 0; r < ranks; r++) set->members[r].comm = set->comms[r];
}

static void ranks_run(struct rank_set *set) {
    for (int r = 0; r < set->ranks; r++)
        cr_assert_eq(pthread_create(&set->members[r].thread, NULL, member_main, &set->members[r]),
                     0);
    for (int r = 0; r < set->ranks; r++) pthread_join(set->members[r].thread, NULL);
}

static void ranks_free(struct rank_set *set) {
    for (int r = 0; r < set->ranks; r++) engine_close(&set->members[r].engine);
    for (int r = set->ranks - 1; r >= 0; r--) kit_plan_free(&set->members[r].planned);
    options_free(&set->options);
}

/* --- saving and resuming --- */

static struct checkpoint_config config_in(const struct member *member) {
    return (struct checkpoint_config){.folder = member->folder, .keep = 9};
}

static void expect_state(struct member *member) {
    const struct store *have = engine_store(member->engine),
                       *want = engine_store(member->set->like->engine);
    for (int s = 0; s < have->layout->optimizer->state_count; s++) {
        int array = state_array(have->layout, ARRAY_STATE, s);
        const struct array_layout *of = &have->layout->arrays[array];
        for (int i = 0; i < of->slice_count; i++) {
            struct elements mine = store_elements(have, array, of->slices[i].begin,
                                                  of->slices[i].count),
                            theirs = store_elements(want, array, of->slices[i].begin,
                                                    of->slices[i].count);
            cr_expect_eq(memcmp(mine.data, theirs.data, elements_bytes(&mine)), 0,
                         "rank %d, state %d, slice %d", member->rank, s, i);
        }
    }
}

/* Sums and norms run over the padding of gradients: it is zero between steps. */
static void expect_free(const struct member *member) {
    const struct store *store = engine_store(member->engine);
    const struct elements *grad = &store->held[state_array(store->layout, ARRAY_GRAD, 0)];
    for (int64_t i = 0; i < grad->count; i++)
        cr_assert_eq(((const float *)grad->data)[i], 0, "rank %d", member->rank);
}

/* Resumes and starts as a run does, and saves what it has as another step. */
static void resume_and_save(struct member *member) {
    struct checkpoint_config config = config_in(member);
    struct checkpoint_state state = train_fresh().done;
    bool found;
    member->status = checkpoint_resume(&config, member->engine, &state, &found);
    if (member->status == STATUS_OK) member->status = engine_start(member->engine);
    if (member->status != STATUS_OK) return;
    expect_state(member);
    state.step++;
    member->status = checkpoint_save(&config, member->engine, &state, STATUS_OK);
    expect_free(member);
}

static void through_ranks(const char *line, int ranks, enum slicing slicing,
                          const struct kit_run *like) {
    struct rank_set set = {.slicing = slicing, .act = resume_and_save, .like = like};
    ranks_open(&set, line, ranks);
    /* Who gets all from the first rank needs no folder. */
    for (int r = 1; slicing == WHOLE && r < ranks; r++) set.members[r].folder = "/nowhere";
    ranks_run(&set);
    for (int r = 0; r < ranks; r++) cr_expect_eq(set.members[r].status, STATUS_OK);
    ranks_free(&set);
}

static void expect_same_files(int step, int other) {
    for (int f = 0; f < 2; f++) {
        char *a = path_of(step, files[f]), *b = path_of(other, files[f]);
        struct bytes x, y;
        cr_assert_eq(file_read(a, 1 << 30, &x), STATUS_OK);
        cr_assert_eq(file_read(b, 1 << 30, &y), STATUS_OK);
        cr_expect(x.count == y.count && memcmp(x.data, y.data, x.count) == 0, "%s", files[f]);
        bytes_free(&x);
        bytes_free(&y);
        free(a);
        free(b);
    }
}

/* The index names a file for each tensor, and all its files are there. */
static void expect_index(int step, int writers) {
    char *path = path_of(step, "optimizer.safetensors.index.json"), name[64];
    json_t *root = json_load_file(path, 0, NULL), *map = json_object_get(root, "weight_map");
    cr_assert_not_null(root, "%s", path);
    cr_expect_gt(
        json_integer_value(json_object_get(json_object_get(root, "metadata"), "total_size")), 0);
    const char *tensor;
    json_t *file;
    json_object_foreach(map, tensor, file) {
        char *there = path_of(step, json_string_value(file));
        cr_expect(file_exists(there), "%s of %s", there, tensor);
        free(there);
    }
    for (int w = 1; w <= writers; w++) {
        snprintf(name, sizeof name, "optimizer-%05d-of-%05d.safetensors", w, writers);
        char *there = path_of(step, name);
        cr_expect(file_exists(there), "%s", there);
        free(there);
    }
    json_decref(root);
    free(path);
}

/* One rank saves step 2; ranks with slices make step 3 of it, others step 4, one rank step 5. */
static void round_trip(const char *line) {
    struct kit_run *one = kit_open("%s", with_ranks(line, 1));
    kit_steps(one, 2);
    save(one, 9, -1);
    through_ranks(line, 3, SLICED, one);
    expect_index(3, 3);
    char *model = path_of(3, "model.safetensors");
    cr_expect(file_exists(model), "parameters are whole on rank 0: it alone writes them");
    free(model);
    through_ranks(line, 2, SLICED_BY_BUCKET, one);
    struct kit_run *again = kit_open("%s", with_ranks(line, 1));
    cr_assert_eq(resume(again), 4, "%s", said);
    cr_expect_eq(kit_hash(again), kit_hash(one));
    engine_seek(again->engine, 5, NULL);
    save(again, 9, -1);
    expect_same_files(2, 5);
    through_ranks(line, 4, WHOLE, one); /* of replicas the first one reads and writes */
    expect_same_files(2, 6);
    kit_close(&again);
    kit_close(&one);
}

Test(exec_sliced, what_one_layout_saved_another_reads) {
    round_trip(EVEN "--optimizer adam");
}

Test(exec_sliced, also_where_the_device_has_layouts_of_its_own) {
    round_trip("--model resnet8 --data digits --device cpu --threads 1 --batch 24 --steps 9 "
               "--optimizer adamw");
}

static void resume_only(struct member *member) {
    struct checkpoint_config config = config_in(member);
    struct checkpoint_state state = train_fresh().done;
    bool found;
    member->state.saved_step = checkpoint_resume(&config, member->engine, &state, &found);
}

/* Each rank finds all that it holds, but some tensors are nobody's. */
Test(exec_sliced, tensors_that_no_rank_holds_are_refused) {
    struct kit_run *one = kit_open(EVEN);
    struct rank_set set = {.slicing = SLICED_WITH_A_GAP, .act = resume_only};
    save(one, 9, -1);
    ranks_open(&set, EVEN, 3);
    log_capture(said, sizeof said);
    ranks_run(&set);
    log_capture(NULL, 0);
    for (int r = 0; r < 3; r++) cr_expect_eq(set.members[r].state.saved_step, STATUS_DATA);
    cr_expect(strstr(said, "optimizer has") && strstr(said, "tensors, the ranks hold"), "%s", said);
    ranks_free(&set);
    kit_close(&one);
}

/* --- failing together --- */

static void save_once(struct member *member) {
    struct checkpoint_config config = config_in(member);
    struct checkpoint_state state = train_fresh().done;
    enum status ready = member->rank == 1 && !member->state.step ? STATUS_NUMERIC : STATUS_OK;
    enum status status = checkpoint_save(&config, member->engine, &state, ready);
    member->state.saved_step = status;
}

static void expect_none_saved(struct rank_set *set, enum status want) {
    log_capture(said, sizeof said);
    ranks_run(set);
    log_capture(NULL, 0);
    for (int r = 0; r < set->ranks; r++) {
        cr_expect_eq(set->members[r].status, STATUS_OK);
        cr_expect_eq(set->members[r].state.saved_step, want, "rank %d", r);
        cr_expect_eq(comm_blamed(set->comms[r]), 1);
    }
    cr_expect(!has(".step-00000000.tmp") && !has("step-00000000"));
    ranks_free(set);
}

Test(exec_sliced, a_rank_that_is_not_ready_stops_all) {
    struct rank_set set = {.slicing = SLICED, .act = save_once};
    ranks_open(&set, EVEN, 3);
    expect_none_saved(&set, STATUS_NUMERIC);
}

/* The folder is not where this rank looks: its host does not share the disk. */
Test(exec_sliced, a_rank_that_cannot_write_stops_all) {
    struct rank_set set = {.slicing = SLICED, .act = save_once};
    ranks_open(&set, EVEN, 3);
    for (int r = 0; r < 3; r++) set.members[r].state.step = 1;
    set.members[1].folder = "/nowhere";
    expect_none_saved(&set, STATUS_DATA);
    cr_expect(strstr(said, "/nowhere/.step-00000000.tmp") && strstr(said, "--out"), "%s", said);
}

/* Of replicas that hold the same, the others need no folder. */
Test(exec_sliced, who_writes_nothing_needs_no_folder) {
    struct rank_set set = {.slicing = WHOLE, .act = save_once};
    ranks_open(&set, EVEN, 2);
    for (int r = 0; r < 2; r++) set.members[r].state.step = 1;
    set.members[1].folder = "/nowhere";
    ranks_run(&set);
    for (int r = 0; r < 2; r++) cr_expect_eq(set.members[r].state.saved_step, STATUS_OK);
    cr_expect(has("step-00000000") && !file_exists("/nowhere"));
    ranks_free(&set);
}

/* --- evaluation --- */

static uint64_t statistics(struct engine *engine) {
    uint64_t hash = 0;
    cr_assert_eq(store_buffer_hash(engine_store(engine), &hash), STATUS_OK);
    return hash;
}

static void train_and_evaluate(struct member *member) {
    struct checkpoint_config config = config_in(member);
    struct checkpoint_state state = train_fresh().done;
    struct step_result result;
    member->status = engine_start(member->engine);
    for (int i = 0; i < 3 && member->status == STATUS_OK; i++)
        member->status = engine_step(member->engine, &result);
    if (member->status != STATUS_OK) return;
    uint64_t own = statistics(member->engine);
    member->status = engine_evaluate(member->engine, &member->eval);
    cr_expect_eq(statistics(member->engine), own, "rank %d has other statistics", member->rank);
    state.step = 3;
    if (member->status == STATUS_OK)
        member->status = checkpoint_save(&config, member->engine, &state, STATUS_OK);
}

/* 13 test samples are one round more than two ranks can share evenly. */
Test(exec_sliced, ranks_evaluate_what_is_saved) {
    const char *line = "--model resnet8 --device cpu --threads 1 --batch 12 --steps 9 "
                       "--data synthetic:count=48,test_count=13,size=8";
    struct rank_set set = {.act = train_and_evaluate};
    struct eval_result one;
    ranks_open(&set, line, 2);
    ranks_run(&set);
    const struct member *members = set.members;
    for (int r = 0; r < 2; r++) cr_assert_eq(members[r].status, STATUS_OK);
    cr_expect_neq(statistics(members[0].engine), statistics(members[1].engine));
    cr_expect_eq(members[0].eval.loss, members[1].eval.loss);
    cr_expect_eq(members[0].eval.samples, 13);
    struct kit_run *run = kit_open("%s", line);
    cr_assert_eq(resume(run), 3, "%s", said);
    cr_assert_eq(engine_evaluate(run->engine, &one), STATUS_OK);
    cr_expect_float_eq(one.loss, members[0].eval.loss, 1e-6);
    kit_close(&run);
    ranks_free(&set);
}
