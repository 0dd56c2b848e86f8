/* Several micro-batches under way in one memory plan: as many bytes as slots need and no more, and
 * the bits of one after the other, whatever the order of their passes. */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../program/between.h"
#include "kit.h"

#define WIDE                                                                                       \
    "--model mlp --data synthetic:size=32,channels=3,count=64,test_count=8 --device ref "          \
    "--threads 1 --batch 16 --steps 3 "
#define VIT                                                                                        \
    "--model vit-tiny --data synthetic:size=32,channels=3,count=64,test_count=8 --patch 8 "        \
    "--device cpu --threads 1 --batch 8 --steps 2 "
#define DEEP /* where both forms are nearly the same */                                            \
    "--model resnet20 --data synthetic:size=32,channels=3,count=64,test_count=8 --device cpu "     \
    "--threads 1 --batch 8 --micro-batches 2 "
#define SMALL                                                                                      \
    "--model resnet18-cifar --data synthetic:size=8,count=64,test_count=8 --device ref "           \
    "--threads 1 --batch 8 --sync-bn "
#define BN "--model resnet8 --data digits --device cpu --threads 1 --batch 24 --steps 3 "

static char *written(const char *text) {
    char *path = mem_text("/tmp/stretto-program-XXXXXX");
    int fd = mkstemp(path);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

/* Opened with a program whose body is `body`, without ids and ranks. */
static struct kit_run *open_with(const char *line, const char *header, const char *const *body) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    fprintf(out, "stretto program 5\nranks 1 stages 1 replicas 1 %s\n" BETWEEN("0") "rank 0 body\n",
            header);
    for (int i = 0; body[i]; i++) fprintf(out, "#%d r0 %s\n", i, body[i]);
    fclose(out);
    char *path = written(text);
    struct kit_run *run = kit_open("%s --program %s", line, path);
    unlink(path);
    free(path);
    free(text);
    return run;
}

static uint64_t end_of(struct kit_run *run) {
    kit_steps(run, -1);
    uint64_t hash = kit_hash(run);
    kit_close(&run);
    return hash;
}

/* The bytes of all slots' activations, each in an arena for all its values. */
static size_t joint_bytes(const struct plan *plan, const struct placement_config *config) {
    size_t most = 0;
    for (int i = 0; i < plan->micro_count; i++) {
        if (!plan->micro[i].training) continue;
        struct placement joint = graph_place(&plan->micro[i].ranges, 0, config);
        if (joint.slot_bytes > most) most = joint.slot_bytes;
        placement_free(&joint);
    }
    return most * (size_t)plan->sizes[0].slots;
}

/* Evaluation may need more, all for itself. */
static size_t arena_bytes(const struct plan *plan) {
    return plan->chunk[0].slot_bytes[FORM_KEPT] * (size_t)plan->sizes[0].slots + plan->shared_bytes;
}

Test(exec_slots, one_slot_has_one_arena_for_all) {
    static const char *const lines[] = {BN, WIDE, BN "--micro-batches 2", DEEP};
    for (int i = 0; i < 4; i++) {
        struct kit_run *run = kit_open("%s", lines[i]);
        const struct plan *plan = run->planned.plan;
        struct placement_config config = {.gradients_outside = i < 2};
        cr_expect_eq(plan->sizes[0].slots, 1);
        cr_expect_eq(plan->shared_bytes, 0);
        cr_expect_eq(plan->chunk[0].slot_bytes[FORM_KEPT], joint_bytes(plan, &config), "%s",
                     lines[i]);
        cr_expect_geq(plan->memory.activations, plan->chunk[0].slot_bytes[FORM_KEPT]);
        kit_close(&run);
    }
}

/* Replicas that share statistics on one device: R slots. */
Test(exec_slots, replicas_of_one_device_share_what_is_transient) {
    static const char *const deals[] = {"2x1", "4x2", "8x1"};
    for (int i = 0; i < 3; i++) {
        struct kit_run *run = kit_open(BN "--deal %s --sync-bn", deals[i]);
        const struct plan *plan = run->planned.plan;
        struct placement_config config = {.gradients_outside = i != 1};
        cr_expect_gt(plan->sizes[0].slots, 1);
        cr_expect_gt(plan->shared_bytes, 0);
        cr_expect_lt(arena_bytes(plan), joint_bytes(plan, &config), "%s", deals[i]);
        cr_expect_geq(plan->memory.activations, arena_bytes(plan));
        kit_close(&run);
    }
}

/* Two slots gain by sharing what is transient; eight of one small image each do not. */
Test(exec_slots, the_smaller_form_is_taken) {
    static const struct placement_config config = {.gradients_outside = true};
    for (int slots = 2; slots <= 8; slots += 6) {
        struct kit_run *run = kit_open(SMALL "--deal %dx1", slots);
        const struct plan *plan = run->planned.plan;
        cr_expect_eq(plan->sizes[0].slots, slots);
        cr_expect_eq(plan->shared_bytes > 0, slots == 2);
        cr_expect_eq(arena_bytes(plan) < joint_bytes(plan, &config), slots == 2);
        cr_expect_leq(arena_bytes(plan), joint_bytes(plan, &config));
        kit_close(&run);
    }
}

static const char *const pipelined[] = {"COUNT q0",
                                        "LOAD s0 m0 a0",
                                        "F s0 m0 a0",
                                        "LOAD s0 m1 a1",
                                        "F s0 m1 a1",
                                        "LOAD s0 m2 a2",
                                        "F s0 m2 a2",
                                        "B s0 m0 a0 g0 new",
                                        "LOAD s0 m3 a0",
                                        "F s0 m3 a0",
                                        "B s0 m1 a1 g0",
                                        "I s0 m3 a0",
                                        "B s0 m2 a2 g0",
                                        "W s0 m3 a0 g0",
                                        "TIE s0 g0",
                                        "REPORT q0",
                                        "NORM g0",
                                        "STEP g0 clip",
                                        NULL};

Test(exec_slots, passes_of_several_slots_in_turn_have_the_same_bits) {
    static const char *const lines[] = {WIDE "--micro-batches 4 ", BN "--micro-batches 4 "};
    for (int i = 0; i < 2; i++) {
        struct kit_run *run = open_with(
            lines[i], "micro-batches 4 sum replica\ngroups world\nrank 0 slots 3 grads 1 buckets 1",
            pipelined);
        const struct plan *plan = run->planned.plan;
        struct placement_config config = {.life = {.split = true, .mixed = true}};
        cr_expect_eq(plan->sizes[0].slots, 3);
        cr_expect_leq(arena_bytes(plan), joint_bytes(plan, &config));
        cr_expect_geq(plan->memory.activations, arena_bytes(plan));
        cr_expect_eq(end_of(run), end_of(kit_open("%s", lines[i])), "%s", lines[i]);
    }
}

/* Each segment of one backward runs between those of the other: what lives from one to the next
 * must not be shared. */
Test(exec_slots, segments_of_several_slots_in_turn_have_the_same_bits) {
    static const char line[] = VIT "--micro-batches 2 ";
    enum { BUCKETS = 19, LINES = 5 + 2 * BUCKETS };
    char text[LINES][48], header[96];
    const char *body[LINES + 5] = {"COUNT q0",      "LOAD s0 m0 a0", "F s0 m0 a0",
                                   "LOAD s0 m1 a1", "F s0 m1 a1",    NULL};
    int count = 5;
    for (int e = 0; e < BUCKETS; e++) {
        for (int m = 0; m < 2; m++, count++) {
            snprintf(text[count], sizeof text[count], "B s0 e%d m%d a%d g0%s", e, m, m,
                     m ? "" : " new");
            body[count] = text[count];
        }
    }
    body[count] = "TIE s0 g0", body[count + 1] = "REPORT q0";
    body[count + 2] = "NORM g0", body[count + 3] = "STEP g0 clip";
    snprintf(header, sizeof header,
             "micro-batches 2 sum replica\ngroups world\nrank 0 slots 2 grads 1 buckets %d",
             BUCKETS);
    struct kit_run *run = open_with(line, header, body);
    cr_expect_gt(run->planned.plan->shared_bytes, 0);
    cr_expect_eq(end_of(run), end_of(kit_open("%s", line)));
}

/* A program without buckets may still say "segment 0": that is the whole backward. */
Test(exec_slots, the_only_segment_is_all_of_backward) {
    static const char line[] = VIT;
    static const char *const body[] = {"COUNT q0",
                                       "LOAD s0 m0 a0",
                                       "F s0 m0 a0",
                                       "B s0 e0 m0 a0 g0 new",
                                       "TIE s0 b0 g0",
                                       "REPORT q0",
                                       "NORM g0",
                                       "STEP g0 clip",
                                       NULL};
    struct kit_run *run = open_with(
        line, "micro-batches 1 sum replica\ngroups world\nrank 0 slots 1 grads 1 buckets 1", body);
    cr_expect_eq(run->planned.plan->chunk[0].buckets.count, 1);
    cr_expect_eq(end_of(run), end_of(kit_open("%s", line)));
}
