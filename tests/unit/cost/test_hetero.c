/* Laws of --hetero: what they say, by hand; what their draws depend on; what is refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cost/cost.h"

static char message[4096];

static enum status read_laws(const char *text, struct hetero *out) {
    log_capture(message, sizeof message);
    enum status status = hetero_read("--hetero", text, out);
    log_capture(NULL, 0);
    return status;
}

static struct hetero law_of(const char *text) {
    struct hetero law;
    cr_assert_eq(read_laws(text, &law), STATUS_OK, "%s: %s", text, message);
    return law;
}

static const struct hetero_pass first = {.kind = COST_F, .ends = true};

static struct hetero_pass of_rank(int rank) {
    struct hetero_pass pass = first;
    pass.rank = rank;
    return pass;
}

Test(cost_hetero, slow_ranks_take_a_multiple) {
    struct hetero law = law_of("slow=4-7:3,slow=1:1.5");
    static const double factor[9] = {1, 1.5, 1, 1, 3, 3, 3, 3, 1};
    for (int r = 0; r < 9; r++) {
        struct hetero_pass pass = of_rank(r);
        cr_expect_eq(hetero_pass_ns(&law, &pass, 0, 100), 100 * factor[r], "rank %d", r);
        cr_expect_eq(hetero_slowness(&law, r), factor[r], "rank %d", r);
    }
    cr_expect(hetero_is_unequal(&law) && !hetero_differs(&law));
    hetero_free(&law);
}

/* A limit of waits: the slowest of all ranks, with a draw for each pass. */
Test(cost_hetero, the_slowest_rank_and_every_draw_bound_a_wait) {
    struct hetero law = law_of("slow=1:2,slow=3:5,transient=0.1:7ms");
    cr_expect_float_eq(hetero_most_ns(&law, 1e6, 4), 5e6 + 4 * 7e6, 1e-3);
    hetero_free(&law);
    law = (struct hetero){0};
    cr_expect_float_eq(hetero_most_ns(&law, 1e6, 4), 1e6, 1e-3);
}

Test(cost_hetero, a_base_alone_makes_nobody_slower) {
    struct hetero law = law_of("base=20ms");
    cr_expect_eq(law.base_ns, 2e7);
    cr_expect(!hetero_is_unequal(&law));
    cr_expect_eq(hetero_pass_ns(&law, &first, 0, 100), 100);
    hetero_free(&law);
}

/* --- draws --- */

/* Of the first thousand numbers of rank 0, seed 0, which pass draws. */
static int draws(const struct hetero *law, struct hetero_pass pass, bool *drawn) {
    int count = 0;
    for (pass.number = 0; pass.number < 1000; pass.number++) {
        bool one = hetero_transient_ns(law, &pass) > 0;
        if (drawn) drawn[pass.number] = one;
        count += one;
    }
    return count;
}

Test(cost_hetero, transient_times_come_with_their_probability) {
    static const struct {
        const char *text;
        int least, most;
    } cases[] = {{"transient=0:1s", 0, 0},
                 {"transient=1:1s", 1000, 1000},
                 {"transient=0.1:100ms", 70, 130},
                 {"transient=0.5:1ms", 440, 560}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hetero law = law_of(cases[i].text);
        int count = draws(&law, first, NULL);
        cr_expect(count >= cases[i].least && count <= cases[i].most, "%s: %d", cases[i].text,
                  count);
        hetero_free(&law);
    }
}

/* A draw is a function of its key alone, and each part of the key counts. */
Test(cost_hetero, each_part_of_the_key_counts) {
    struct hetero law = law_of("transient=0.5:1ms");
    bool want[1000], got[1000];
    struct hetero_pass others[5] = {first, first, first, first, first};
    others[0].seed = 1, others[1].rank = 1, others[2].micro = 1, others[3].stage = 1;
    others[4].kind = COST_B;
    draws(&law, first, want);
    draws(&law, first, got);
    cr_expect_arr_eq(want, got, sizeof want, "the same key draws the same");
    for (int i = 0; i < 5; i++) {
        int differs = 0;
        draws(&law, others[i], got);
        for (int n = 0; n < 1000; n++) differs += want[n] != got[n];
        cr_expect(differs > 400 && differs < 600, "part %d: %d of 1000 differ", i, differs);
    }
    hetero_free(&law);
}

/* The bits of the draws are part of every run's result: they must not change. */
Test(cost_hetero, the_first_draws_are_these) {
    struct hetero law = law_of("transient=0.5:1ms");
    char text[33] = "";
    for (int n = 0; n < 32; n++) {
        struct hetero_pass pass = first;
        pass.number = n;
        text[n] = hetero_transient_ns(&law, &pass) > 0 ? '1' : '0';
    }
    cr_expect_str_eq(text, "11011001101010111011011111100010");
    hetero_free(&law);
}

Test(cost_hetero, a_draw_adds_its_time_once_for_a_pass) {
    struct hetero law = law_of("transient=1:100ms,slow=0:2"), bare = law_of("0.25");
    struct hetero_pass segment = first;
    cr_expect_eq(hetero_pass_ns(&law, &first, 0, 1e6), 2e6 + 1e8, "it is not stretched");
    segment.ends = false;
    cr_expect_eq(hetero_pass_ns(&law, &segment, 0, 1e6), 2e6);
    cr_expect(bare.probability == 0.1 && bare.transient_ns == 0.25e9, "a number is seconds");
    hetero_free(&law);
    hetero_free(&bare);
}

/* --- traces --- */

static void write_trace(const char *text) {
    cr_assert_eq(file_write_text("trace.csv", text), STATUS_OK);
}

static void in_a_folder(void) {
    char folder[] = "/tmp/hetero-XXXXXX";
    cr_assert(mkdtemp(folder) && chdir(folder) == 0);
}

static void leave_the_folder(void) {
    char *folder = getcwd(NULL, 0);
    cr_assert(folder && chdir("/") == 0);
    folder_remove(folder);
    free(folder);
}

/* Half the speed for ten seconds, then full speed for ten, then a quarter. */
Test(cost_hetero, a_trace_is_added_up_piece_by_piece, .init = in_a_folder,
     .fini = leave_the_folder) {
    static const struct {
        double begin, work, takes;
    } cases[] = {{0, 1, 2},  {0, 5, 10},  {8, 2, 3},  {10, 3, 3},
                 {19, 2, 5}, {0, 16, 24}, {50, 1, 4}, {9.5, 1, 1.25}};
    write_trace("# seconds,rank,speed\n20,1,0.25\n0,1,0.5\n\n10,1,1\r\n");
    struct hetero law = law_of("trace=trace.csv"), short_law = law_of("trace=trace.csv:0.5");
    struct hetero_pass pass = of_rank(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double begin = cases[i].begin * 1e9, work = cases[i].work * 1e9;
        cr_expect_float_eq(hetero_pass_ns(&law, &pass, begin, work), cases[i].takes * 1e9, 1,
                           "case %zu: %g", i, hetero_pass_ns(&law, &pass, begin, work));
        cr_expect_float_eq(hetero_pass_ns(&short_law, &pass, begin / 2, work / 2),
                           cases[i].takes * 0.5e9, 1, "case %zu, scaled", i);
        cr_expect_eq(hetero_pass_ns(&law, &first, begin, work), work, "rank 0 has no row");
    }
    cr_expect(hetero_differs(&law));
    hetero_free(&law);
    hetero_free(&short_law);
}

Test(cost_hetero, wrong_lines_are_named, .init = in_a_folder, .fini = leave_the_folder) {
    static const struct {
        const char *text, *says;
    } cases[] = {{"0,0,1\n5,0\n", "trace.csv: line 2: it is not seconds,rank,speed"},
                 {"0,0,1,2\n", "trace.csv: line 1: it is not seconds,rank,speed"},
                 {"# a\n-1,0,1\n", "trace.csv: line 2: seconds is '-1'"},
                 {"0,x,1\n", "trace.csv: line 1: rank is 'x'"},
                 {"0,0,0\n", "trace.csv: line 1: speed is '0'"},
                 {"0,0,1e-300\n", "trace.csv: line 1: speed is '1e-300'"},
                 {"0,0,nan\n", "trace.csv: line 1: speed is 'nan'"},
                 {"3,1,1\n3,0,1\n3,1,0.5\n",
                  "trace.csv: line 3: rank 1 has a speed at that time, on line 1"},
                 {"# nothing\n", "trace.csv: it has no line"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hetero law;
        write_trace(cases[i].text);
        cr_expect_eq(read_laws("trace=trace.csv", &law), STATUS_DATA, "case %zu", i);
        cr_expect(strstr(message, cases[i].says), "case %zu: %s", i, message);
    }
}

Test(cost_hetero, the_path_of_a_trace_is_found, .init = in_a_folder, .fini = leave_the_folder) {
    char *path = hetero_trace_path("slow=1:2,trace=a/b.csv:0.1,base=1s"), *whole,
         *here = file_absolute("a/b.csv"),
         *want = mem_format("slow=1:2,trace=%s:0.1,base=1s", here);
    cr_expect_str_eq(path, "a/b.csv");
    cr_expect_null(hetero_trace_path("slow=1:2"));
    whole = hetero_absolute("slow=1:2,trace=a/b.csv:0.1,base=1s");
    cr_expect_str_eq(whole, want);
    free(path), free(whole), free(here), free(want);
}

/* --- links --- */

Test(cost_hetero, a_link_is_later_and_not_faster) {
    struct hetero law = law_of("link=2:0:10ms:2GB/s");
    struct costs costs = {.hetero = &law};
    struct cost_net net = cost_net_of(&costs, 1);
    net.link = (struct cost_link){1000, 4};
    struct cost_link slow = cost_link(&net, 0, 2), back = cost_link(&net, 2, 0),
                     other = cost_link(&net, 0, 1);
    cr_expect(slow.latency == 1e7 + 1000 && slow.bytes_per_time == 2, "%g %g", slow.latency,
              slow.bytes_per_time);
    cr_expect(back.latency == slow.latency && back.bytes_per_time == 2, "in both directions");
    cr_expect(other.latency == 1000 && other.bytes_per_time == 4);
    net.link.bytes_per_time = 1;
    cr_expect_eq(cost_link(&net, 0, 2).bytes_per_time, 1, "the slower rate counts");
    hetero_free(&law);
}

/* --- what is refused --- */

Test(cost_hetero, wrong_laws_are_named) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "'' is not a law"},
        {"speed=2", "'speed=2' is not a law"},
        {"base", "'base' is not a law"},
        {"base=0", "base: '0' is not allowed"},
        {"base=1001s", "base: '1001s' is not allowed"},
        {"base=1s,base=2s", "base is given twice, again as '2s'\n  keep one of the two"},
        {"slow=3", "slow: '3' is not allowed"},
        {"slow=7-4:3", "slow: '7-4:3' is not allowed"},
        {"slow=1:0.5", "slow: '1:0.5' is not allowed"},
        {"slow=1:1e7", "a factor from 1 to 1e6"},
        {"transient=0.1:1001s", "a time up to 1000s"},
        {"link=0:1:1001s", "a time up to 1000s"},
        {"trace=x:1e10", "a scale above 0, up to 1e9"},
        {"slow=0-3:2,slow=3:4", "slow: rank 3 has two factors, 2 and 4\n  name each rank once"},
        {"transient=1.1:1s", "transient: '1.1:1s' is not allowed"},
        {"transient=0.1", "transient: '0.1' is not allowed"},
        {"0.1,0.2", "transient is given twice, again as '0.1:0.2'"},
        {"-1", "a number alone: '-1' is not allowed"},
        {"1001", "a number alone: '1001' is not allowed"},
        {"link=0:0:1ms", "link: '0:0:1ms' is not allowed"},
        {"link=0:1", "link: '0:1' is not allowed"},
        {"link=0:1:1ms:5", "link: '0:1:1ms:5' is not allowed"},
        {"link=0:1:1ms,link=1:0:2ms", "a link is given twice, again as '1:0:2ms'"},
        {"link=0:1:0s,link=1:0:2ms", "a link is given twice"},
        {"trace=", "trace: '' is not allowed"},
        {"trace=x:0", "trace: 'x:0' is not allowed"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hetero law;
        cr_expect_eq(read_laws(cases[i].text, &law), STATUS_USAGE, "%s", cases[i].text);
        cr_expect(strstr(message, cases[i].says), "%s: %s", cases[i].text, message);
    }
}

Test(cost_hetero, ranks_that_are_not_there_are_named, .init = in_a_folder,
     .fini = leave_the_folder) {
    static const struct {
        const char *text, *says;
        enum status status;
    } cases[] = {
        {"slow=1-4:2", "--hetero: slow: rank 4 is not one of this run", STATUS_USAGE},
        {"link=0:4:1s", "--hetero: link: rank 4 is not one of this run", STATUS_USAGE},
        {"trace=trace.csv", "trace.csv: line 2: rank 9 is not one of this run", STATUS_DATA}};
    write_trace("0,1,1\n0,9,1\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hetero law = law_of(cases[i].text);
        log_capture(message, sizeof message);
        enum status status = hetero_check_ranks("--hetero", &law, cases[i].text, 4);
        log_capture(NULL, 0);
        cr_expect_eq(status, cases[i].status, "%s", cases[i].text);
        cr_expect(strstr(message, cases[i].says), "%s: %s", cases[i].text, message);
        cr_expect_eq(hetero_check_ranks("--hetero", &law, cases[i].text, 10), STATUS_OK);
        hetero_free(&law);
    }
}
