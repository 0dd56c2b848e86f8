/* The text form: printing and parsing are inverse, and whatever is not a program is refused with
 * the line it stands on. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "between.h"
#include "kit.h"
#include "program/schedule.h"
#include "sync/sync.h"

static void round_trip(const struct program_case *of) {
    struct program *program = program_of_case(of, NULL), *again = NULL;
    char *text = program_text(program);
    cr_assert_eq(program_parse("text", text, strlen(text), &again), STATUS_OK);
    char *second = program_text(again);
    cr_assert_str_eq(text, second);
    cr_expect_eq(again->grid.replicas, of->replicas);
    cr_expect_eq(again->micro_batches, of->micro_batches);
    cr_expect_eq(again->sum, of->sum);
    cr_expect_eq(program_of(again, 0)->chunk[0].slots, program_of(program, 0)->chunk[0].slots);
    cr_expect_eq(program_of(again, 0)->grads, program_of(program, 0)->grads);
    cr_expect_eq(program_hash(again), program_hash(program));
    const struct instr_list *a = program_list(program, 0, LIST_BODY);
    const struct instr_list *b = program_list(again, 0, LIST_BODY);
    cr_assert_eq(a->count, b->count);
    cr_expect_arr_eq(a->items, b->items, (size_t)a->count * sizeof *a->items);
    free(text);
    free(second);
    program_free(&program);
    program_free(&again);
}

Test(program_text, print_and_parse_are_inverse) {
    program_cases(round_trip);
}

/* Whatever the schedules and the sync policy build is accepted by the parser and proven again. */
static void build_again(const struct schedule_config *config, int buckets) {
    struct program *program = NULL, *again = NULL;
    char log[512] = "";
    log_capture(log, sizeof log);
    enum status status = schedule_build("single", config, &program);
    log_capture(NULL, 0);
    if (status != STATUS_OK) return; /* an order that ranks cannot have */
    cr_assert_eq(sync_insert(grid_ranks(&config->grid) > 1 ? "allreduce" : "none", program,
                             &(struct sync_config){.buckets = &(int){buckets}}),
                 STATUS_OK);
    char *text = program_text(program);
    cr_assert_eq(program_parse("text", text, strlen(text), &again), STATUS_OK,
                 "refused: %d ranks, deal %dx%d, sum %s, shares %d", grid_ranks(&config->grid),
                 config->grid.replicas, config->micro_batches, sum_order_name(config->sum),
                 config->shares);
    char *second = program_text(again);
    cr_expect_str_eq(text, second);
    cr_expect_eq(program_verify(again, config->samples), STATUS_OK);
    free(text);
    free(second);
    program_free(&program);
    program_free(&again);
}

Test(program_text, whatever_is_built_can_be_read_again) {
    static const struct {
        int replicas, micro_batches;
    } deals[] = {{1, 1}, {2, 1},  {3, 2},  {4, 4},   {2, 33},
                 {9, 8}, {16, 8}, {65, 1}, {300, 1}, {40, 16}};
    for (size_t d = 0; d < sizeof deals / sizeof deals[0]; d++) {
        for (int way = 0; way < 12; way++) { /* sum x shares x ranks */
            bool shares = way / 3 % 2, spread = way / 6;
            int replicas = deals[d].replicas;
            struct schedule_config config = {.grid = grid_flat(spread ? replicas : 1, replicas),
                                             .micro_batches = deals[d].micro_batches,
                                             .sum = (enum sum_order)(way % 3),
                                             .shares = shares && replicas > 1};
            build_again(&config, 5);
        }
    }
}

Test(program_text, the_largest_can_be_read_again) {
    build_again(
        &(struct schedule_config){.grid = grid_flat(1, 1), .micro_batches = 65536, .sum = SUM_TREE},
        1);
    build_again(&(struct schedule_config){.grid = grid_flat(1, 65536),
                                          .micro_batches = 1,
                                          .sum = SUM_REPLICA},
                1);
    build_again(
        &(struct schedule_config){
            .grid = grid_flat(1, 2), .micro_batches = 16383, .sum = SUM_TREE, .shares = true},
        1);
}

Test(program_text, more_than_the_text_form_holds_is_not_built) {
    struct schedule_config config = {
        .grid = grid_flat(1, 1025), .micro_batches = 1024, .sum = SUM_TREE};
    struct program *program = NULL;
    char log[512] = "";
    log_capture(log, sizeof log);
    cr_expect_eq(schedule_build("single", &config, &program), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(log, "1049600 micro-batches in a step, at most 1048576"), "%s", log);
}

/* The verifier's memory follows the instructions, not the numbers of a header. */
Test(program_text, a_header_of_large_numbers_takes_no_memory) {
    static const char text[] =
        "stretto program 5\nranks 1 stages 1 replicas 1024 micro-batches 1024 sum tree "
        "replicas-each 1024\ngroups world\nrank 0 slots 32767 grads 32767 buckets 32767\n"
        "rank 0 body\n#0 r0 COUNT q0\n#1 r0 STEP g0\n";
    struct program *program = NULL;
    char log[512] = "";
    cr_assert_eq(program_parse("text", text, sizeof text - 1, &program), STATUS_OK);
    size_t before = mem_resident_bytes();
    mem_reset_peak();
    log_capture(log, sizeof log);
    cr_expect_eq(program_verify(program, NULL), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(log, "not whole"), "%s", log);
    cr_expect(mem_peak_bytes() < before + (32 << 20), "%zu bytes", mem_peak_bytes() - before);
    program_free(&program);
}

Test(program_text, every_instruction_and_flag_survives) {
    struct grid grid = {.stages = 3,
                        .chunks = 2,
                        .replicas = 4,
                        .replicas_each = 2,
                        .v_shape = true,
                        .drivers = 1,
                        .servers = 2};
    struct program *program = program_new(&grid, 4, SUM_REPLICAS_FIRST), *again = NULL;
    for (int family = 0; family < GROUP_FAMILY_COUNT; family++)
        program_declare_group(program, (enum group_family)family);
    for (int r = 0; r < program->ranks; r++)
        *program_begin(program, r) = (struct rank_program){
            .grads = 8,
            .chunks = 2,
            .chunk = {{.slots = 9, .buckets = 7}, {.slots = 3, .buckets = 5}}};
    for (int op = 0; op < INSTR_COUNT_; op++) {
        struct instr *instr = program_add(program_edit(program, op % 3),
                                          (enum list_name)(op % LIST_COUNT), (enum instr_op)op);
        int value = 1;
        for (const char *letter = instr_rows[op].operands; *letter; letter++)
            if (*letter != '?') instr_set_operand(instr, *letter, value++);
        instr->flags = (uint16_t)(1 << op % FLAG_COUNT);
    }
    char *text = program_text(program);
    cr_assert_eq(program_parse("text", text, strlen(text), &again), STATUS_OK);
    char *second = program_text(again);
    cr_expect_str_eq(text, second);
    free(text);
    free(second);
    program_free(&program);
    program_free(&again);
}

Test(program_text, spaces_and_empty_lines_do_not_matter) {
    static const char text[] =
        "stretto program 5\n"
        "\n  ranks 1 stages 1 replicas 1  micro-batches\t1 sum replica\r\n"
        "groups  world\n" BETWEEN(
            "0") "rank 0 body\n\n"
                 "  #0 r0 COUNT q0\n#1 r0 LOAD s0 m0 a0\n#2 r0 F s0 m0 a0\n"
                 "#3 r0 B s0 m0 a0 g0 new\n#4 r0 TIE s0 g0\n#7 r0 REPORT q0\n#5 r0 NORM g0\n"
                 "#6 r0 STEP g0"; /* no newline at the end */
    struct program *program = NULL;
    cr_assert_eq(program_parse("text", text, sizeof text - 1, &program), STATUS_OK);
    cr_expect_eq(program_list(program, 0, LIST_BODY)->count, 8);
    cr_expect_eq(program_verify(program, NULL), STATUS_OK);
    program_free(&program);
}

#define HEADER                                                                                     \
    "stretto program 5\nranks 1 stages 1 replicas 1 micro-batches 2 sum tree\ngroups world\n"

#define SLICED                                                                                     \
    "stretto program 5\nranks 2 stages 1 replicas 2 micro-batches 1 sum replica sliced ogp\n"      \
    "groups world replicas\n"

static const struct {
    const char *text, *says;
} bad[] = {
    {"", "expected a program"},
    {"stretto\n", "line 1: expected stretto program 5, found \"stretto\""},
    {"stretto program 4\n", "a program of version 4, this stretto reads version 5"},
    {"stretto program 5", "expected a program"},
    {"stretto program 5\n\n\n", "expected a program"},
    {"stretto program 5\nranks 0 stages 1", "\"0\""},
    {"stretto program 5\nranks 1 stages 1 replicas 1 micro-batches 2\n", "sum"},
    {"stretto program 5\nranks 1 stages 1 replicas 1 sum tree\n", "micro-batches"},
    {"stretto program 5\nranks 1 stages 1 replicas 1 micro-batches 2 sum trees\n", "trees"},
    {"stretto program 5\nranks 1 stages 1 replicas 1 micro-batches 2 sum tree x\n", "\"x\""},
    {"stretto program 5\nranks 1 stages 1 replicas 1 micro-batches 2 sum tree chunks 0\n", "\"0\""},
    {"stretto program 5\nranks 2 stages 1 replicas 1 micro-batches 2 sum tree\n",
     "make ranks 1, found ranks 2"},
    {"stretto program 5\nranks 1 stages 1 replicas 3 micro-batches 2 sum tree replicas-each 2\n",
     "multiple of replicas-each 2"},
    {"stretto program 5\nranks 99999999999 stages 1\n", "99999999999"},
    {"stretto program 5\nranks 100000 stages 1 replicas 100000 micro-batches 32767 sum tree\n",
     "fewer micro-batches, found \"32767\""},
    {"stretto program 5\nsum tree micro-batches 32766 ranks 100000 replicas 100000 stages 1\n",
     "fewer micro-batches, found \"32766\""},
    {"stretto program 5\nranks 2000 stages 2000 replicas 1 micro-batches 1 sum tree chunks 30\n",
     "fewer stages and chunks, found \"2000\""},
    {"stretto program 5\nranks 1 stages 1 replicas 1 micro-batches 2 sum tree lasting g\n",
     "expected letters of np, found \"g\""},
    {HEADER "groups world\n", "one line of groups"},
    {"stretto program 5\nranks 1 stages 1 replicas 1 micro-batches 2 sum tree\ngroups all\n",
     "all"},
    {HEADER "rank 0 slots 0 grads 1 buckets 1\n", "\"0\""},
    {HEADER "rank 0 slots 1 grads 1\n", "buckets"},
    {"stretto program 5\nranks 1 stages 1 replicas 1 micro-batches 2 sum tree chunks 2\n"
     "groups world\nrank 0 slots 1,1 grads 32767 buckets 32767,32767\n",
     "fewer gradient buffers and buckets, found \"32767\""},
    {HEADER "rank 0 slots 1 grads 32768 buckets 1\n", "grads from 0 to 32767, found \"32768\""},
    {SLICED "rank 0 slots 1 grads 1 buckets 4 windows 2 gathered 99\n",
     "line 4: expected gathered from 1 to 4, a place for each bucket, found \"99\""},
    {SLICED "rank 0 slots 1 grads 1 buckets 4 windows 5 gathered 2\n",
     "expected windows from 1 to 4, a place for each bucket, found \"5\""},
    {SLICED "rank 0 slots 1 grads 1 buckets 4 windows 2 gathered 4 kept 1\n",
     "expected gathered from 1 to 3, a place for each bucket but the kept one, found \"4\""},
    {HEADER "rank 0 slots 1 grads 1 buckets 1\n#0 r0 COUNT q0\n", "before the first instruction"},
    {HEADER "#0 r0 COUNT\n", "line 4"},
    {HEADER "rank 1 body\n", "a rank of the program"},
    {HEADER "rank -1 body\n", "a rank of the program"},
    {HEADER "rank 0 middle\n", "middle"},
    {HEADER "rank 0\n", "(end of line)"},
    {HEADER "rank 0 body now\n", "\"now\""},
    {HEADER "rank 0 body\nCOUNT\n", "line 5"},
    {HEADER "rank 0 body\n# r0 COUNT\n", "\"#\""},
    {HEADER "rank 0 body\n#x r0 COUNT\n", "\"#x\""},
    {HEADER "rank 0 body\n#0\n", "(end of line)"},
    {HEADER "rank 0 body\n#0 r1 COUNT\n", "\"r1\""},
    {HEADER "rank 0 body\n#0 r0 HOP\n", "\"HOP\""},
    {HEADER "rank 0 body\n#0 r0 count\n", "\"count\""},
    {HEADER "rank 0 body\n#0 r0 LOAD\n", "operand s"},
    {HEADER "rank 0 body\n#0 r0 LOAD a0 m0\n", "operand s"},
    {HEADER "rank 0 body\n#0 r0 LOAD s0 m a0\n", "operand m"},
    {HEADER "rank 0 body\n#0 r0 LOAD s0 m-1 a0\n", "operand m"},
    {HEADER "rank 0 body\n#0 r0 LOAD s0 m0 a99999\n", "operand a"},
    {HEADER "rank 0 body\n#0 r0 LOAD s0 m0x a0\n", "operand m"},
    {HEADER "rank 0 body\n#0 r0 LOAD s0 m0 a0 old\n", "\"old\""},
    {HEADER "rank 0 body\n#0 r0 TIE s0 g0 g1\n", "\"g1\""},
};

Test(program_text, what_is_not_a_program_is_refused) {
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char log[1024] = "";
        struct program *program = NULL;
        log_capture(log, sizeof log);
        enum status status = program_parse("p.txt", bad[i].text, strlen(bad[i].text), &program);
        log_capture(NULL, 0);
        cr_expect_eq(status, STATUS_DATA, "accepted: %s", bad[i].text);
        cr_expect_null(program);
        cr_expect(strstr(log, bad[i].says) && strstr(log, "p.txt"), "\"%s\" is not in: %s",
                  bad[i].says, log);
    }
}

Test(program_text, a_zero_byte_is_refused) {
    static const char text[] = "stretto program 5\n\0ranks";
    char log[256] = "";
    struct program *program = NULL;
    log_capture(log, sizeof log);
    cr_expect_eq(program_parse("p.txt", text, sizeof text - 1, &program), STATUS_DATA);
    log_capture(NULL, 0);
    cr_expect(strstr(log, "not a text file"));
}

/* Words beyond those a line can have must not vanish. */
Test(program_text, a_line_with_too_many_words_is_refused) {
    static const char text[] =
        HEADER "rank 0 body\n#0 r0 COUNT new pure new pure new pure new pure "
               "new pure new pure new pure new nonsense\n";
    char log[256] = "";
    struct program *program = NULL;
    log_capture(log, sizeof log);
    cr_expect_eq(program_parse("p.txt", text, sizeof text - 1, &program), STATUS_DATA);
    log_capture(NULL, 0);
}
