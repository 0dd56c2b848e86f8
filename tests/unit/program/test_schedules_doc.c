/* docs/schedules.md against the code: every schedule has its picture and its row of figures there,
 * as the replay gives them. A failure prints what belongs into the page. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "pipe_kit.h"

enum { RANKS = 4, WIDEST = 128 };

static struct bytes page;

static void read_page(void) {
    cr_assert_eq(file_read("docs/schedules.md", 1 << 20, &page), STATUS_OK);
}

static void free_page(void) {
    bytes_free(&page);
}

TestSuite(program_schedules_doc, .init = read_page, .fini = free_page);

static void expect_in_page(const char *what) {
    cr_expect(memmem(page.data, page.count, what, strlen(what)), "docs/schedules.md lacks:\n%s",
              what);
}

/* --- pictures --- */

/* Micro-batches that show a schedule's shape and keep its picture narrow. */
static int micros_of(const char *name) {
    static const struct {
        const char *name;
        int micros;
    } rows[] = {{"mp", 3},         {"pmp", 4},         {"rpc", 4},
                {"gpipe", 4},      {"interleaved", 4}, {"looped-bfs", 4},
                {"dualpipe-v", 8}, {"zb-h2", 8},       {"zbv", 8}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, name) == 0) return rows[i].micros;
    return 6;
}

/* Two characters a unit of time: letter and micro-batch, small letters for the second chunk; B
 * takes two units. */
static void draw_op(const struct pipe *pipe, struct pipeline_op op, int at, char line[]) {
    bool second = op.stage / pipe->shape.positions == 1;
    char letter = instr_rows[op.op].name[0];
    cr_assert_lt(2 * at + 4, WIDEST);
    line[2 * at] = (char)(second ? tolower(letter) : letter);
    line[2 * at + 1] = (char)('0' + op.micro);
    if (op.op == INSTR_B) memset(line + 2 * at + 2, '-', 2);
}

static void draw_position(const struct pipe *pipe, int position, const double *begin, FILE *out) {
    char line[WIDEST];
    memset(line, ' ', sizeof line);
    for (int i = 0; i < pipe->orders[position].count; i++)
        draw_op(pipe, pipe->orders[position].items[i], (int)begin[i], line);
    int length = WIDEST;
    while (line[length - 1] == ' ') length--;
    fprintf(out, "rank %d  %.*s\n", position, length, line);
}

static char *picture(const struct pipe *pipe) {
    static const double ones[] = {1, 1, 1, 1, 1, 1, 1, 1};
    const struct replay_costs costs = {.forward = ones, .input = ones, .weight = ones};
    double begin[RANKS][64], *const begins[] = {begin[0], begin[1], begin[2], begin[3]};
    struct replay replay = {.shape = &pipe->shape,
                            .orders = pipe->orders,
                            .costs = &costs,
                            .one_backward_at_a_time = pipe->schedule->one_backward_at_a_time,
                            .begin = begins};
    cr_assert(replay_run(&replay, NULL, NULL));
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    fprintf(out, "```\n%s, %d micro-batches\n", pipe->schedule->name, pipe->shape.micro_batches);
    for (int p = 0; p < RANKS; p++) draw_position(pipe, p, begin[p], out);
    fprintf(out, "```\n");
    fclose(out);
    return text;
}

Test(program_schedules_doc, pictures) {
    for (int i = 0; i < pipeline_count(); i++) {
        const char *name = pipeline_at(i)->name;
        if (pipeline_at(i)->older) continue; /* steps overlap: see test_ahead.c */
        struct pipe pipe = pipe_new(name, RANKS, 0, micros_of(name));
        char *drawn = picture(&pipe);
        expect_in_page(drawn);
        free(drawn);
        pipe_free(&pipe);
    }
}

/* --- figures --- */

Test(program_schedules_doc, figures) {
    for (int i = 0; i < pipeline_count(); i++) {
        if (pipeline_at(i)->older) continue; /* steps overlap: see test_ahead.c */
        struct pipe pipe = pipe_new(pipeline_at(i)->name, 8, 0, 32);
        double each = 1.0 / pipe.shape.chunks; /* the positions' work is the same for all */
        struct replay_times near = pipe_times(&pipe, (struct pipe_costs){each, each, each, 0});
        struct replay_times far = pipe_times(&pipe, (struct pipe_costs){each, each, each, 0.3});
        char *row = mem_format("| `%s` | %.1f%% | %.1f%% | %.1f%% | %g |", pipe.schedule->name,
                               100 * near.bubble, 100 * near.span_bubble + 1e-9, 100 * far.bubble,
                               pipe_peak(&pipe));
        expect_in_page(row);
        free(row);
        pipe_free(&pipe);
    }
}
