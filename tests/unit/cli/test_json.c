/* --json: every line that train and explain print is one JSON object, and nothing else is printed.
 * The command runs in a child with its output in a file. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "record/summary.h"

static char folder[64];

static void make_folder(void) {
    strncpy(folder, "/tmp/stretto-json-XXXXXX", sizeof folder - 1);
    cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void) {
    folder_remove(folder);
}

TestSuite(cli_json, .init = make_folder, .fini = remove_folder);

/* What `stretto LINE` prints; the caller frees it. */
static struct bytes output_of(const char *line, int code) {
    char *path = mem_format("%s/out", folder), *copy = mem_text(line), *state = NULL;
    char *word[32] = {"stretto"};
    int count = 1, result;
    for (char *w = strtok_r(copy, " ", &state); w && count < 31; w = strtok_r(NULL, " ", &state))
        word[count++] = w;
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0) _exit(99);
        exit(cli_main(count, word));
    }
    waitpid(pid, &result, 0);
    cr_assert(WIFEXITED(result) && WEXITSTATUS(result) == code, "stretto %s: status %x", line,
              result);
    struct bytes bytes;
    cr_assert_eq(file_read(path, 1 << 24, &bytes), STATUS_OK);
    free(path);
    free(copy);
    return bytes;
}

Test(cli_json, every_line_of_a_run_is_an_object) {
    char *line = mem_format("train --model mlp --device ref --threads 1 --steps 30 --log-every 5 "
                            "--json --out %s/run",
                            folder);
    struct bytes text = output_of(line, 0);
    char *state = NULL;
    char *out = mem_format("%s/run", folder);
    int train = 0, eval = 0, end = 0;
    for (char *l = strtok_r((char *)text.data, "\n", &state); l; l = strtok_r(NULL, "\n", &state)) {
        json_t *row = json_loads(l, JSON_REJECT_DUPLICATES, NULL);
        cr_assert(json_is_object(row), "not an object: %s", l);
        const char *kind = json_string_value(json_object_get(row, "kind"));
        cr_expect(json_is_integer(json_object_get(row, "step")));
        cr_expect_eq(end, 0, "a line after the end");
        end += strcmp(kind, "end") == 0;
        if (end) {
            cr_expect_str_eq(json_string_value(json_object_get(row, "out")), out);
            cr_expect_eq(json_integer_value(json_object_get(row, "exit")), 0);
        } else
            cr_expect(json_is_real(json_object_get(row, "loss")));
        train += strcmp(kind, "train") == 0;
        eval += strcmp(kind, "eval") == 0;
        json_decref(row);
    }
    cr_expect_geq(train, 6);
    cr_expect_eq(eval, 2);
    cr_expect_eq(end, 1);
    bytes_free(&text);
    free(line);
    free(out);
}

Test(cli_json, explain_is_one_object_with_its_parts) {
    struct bytes text =
        output_of("explain --model mlp --device ref --json --show graph,memory,program", 0);
    json_t *root = json_loadb((char *)text.data, text.count, JSON_REJECT_DUPLICATES, NULL);
    cr_assert(json_is_object(root), "%s", (char *)text.data);
    cr_expect_eq(json_integer_value(json_object_get(root, "batch")), 64);
    cr_expect_gt(json_integer_value(json_object_get(root, "predicted_peak_bytes")), 100000);
    cr_expect_str_eq(json_string_value(json_object_get(root, "strategy")), "single");
    cr_expect_eq(json_integer_value(json_object_get(root, "sent_bytes_per_step")), 0);
    const json_t *shown = json_object_get(root, "show");
    cr_expect(strstr(json_string_value(json_object_get(shown, "program")), "stretto program 5"));
    cr_expect(strstr(json_string_value(json_object_get(shown, "graph")), "fc1"));
    cr_expect(strstr(json_string_value(json_object_get(shown, "memory")), "alive at the peak"));
    json_decref(root);
    bytes_free(&text);
}

/* Four ranks on two nodes: what is reduced, and each rank's share of it. */
Test(cli_json, explain_counts_the_ranks_of_all_nodes) {
    char *line = mem_format("explain --model mlp --device ref --json -n 2 --nodes 2 --node-rank 1 "
                            "--init file://%s/meet",
                            folder);
    struct bytes text = output_of(line, 0);
    json_t *root = json_loadb((char *)text.data, text.count, JSON_REJECT_DUPLICATES, NULL);
    cr_assert(json_is_object(root), "%s", (char *)text.data);
    int64_t reduced = json_integer_value(json_object_get(root, "reduced_bytes_per_step"));
    cr_expect_eq(json_integer_value(json_object_get(root, "ranks")), 4);
    cr_expect_geq(reduced, 4 * json_integer_value(json_object_get(root, "params")));
    cr_expect_eq(json_integer_value(json_object_get(root, "sent_bytes_per_step")), reduced * 3 / 2);
    json_decref(root);
    bytes_free(&text);
    free(line);
}

/* What a rank sends in a step is its share of the sums and little else: parameters that went out
 * once, at the start, belong to no step. */
Test(cli_json, a_summary_counts_what_steps_send) {
    char *line = mem_format("train --model mlp --device ref --threads 1 --strategy dp -n 2 --steps "
                            "7 --quiet --out %s/run",
                            folder),
         *path = mem_format("%s/run/summary.json", folder);
    struct bytes text = output_of(line, 0);
    struct summary summary;
    cr_assert_eq(text.count, 0);
    cr_assert_eq(summary_read(path, &summary), STATUS_OK);
    cr_assert_eq(summary.sent_bytes_per_step.count, 2);
    for (int r = 0; r < 2; r++) {
        cr_expect_geq(summary.sent_bytes_per_step.item[r], summary.reduced_bytes_per_step);
        cr_expect_lt(summary.sent_bytes_per_step.item[r], summary.reduced_bytes_per_step + 4096);
    }
    cr_expect_str_eq(summary.isa, "any");
    cr_expect_gt(summary.syncs_per_s, 0);
    summary_free(&summary);
    bytes_free(&text);
    free(line);
    free(path);
}

/* Two pipelines of two stages, of two chunks each. */
Test(cli_json, a_summary_of_pipelines_has_their_shape) {
    char *line = mem_format("train --model mlp --device ref --threads 1 --strategy zbv --stages 2 "
                            "--replicas 2 --micro-batches 2 --spawn threads --steps 12 "
                            "--log-every 1 --quiet --out %s/run",
                            folder),
         *path = mem_format("%s/run/summary.json", folder),
         *rows = mem_format("%s/run/metrics.jsonl", folder);
    struct bytes text = output_of(line, 0), metrics;
    struct summary summary;
    cr_assert_eq(summary_read(path, &summary), STATUS_OK);
    cr_expect(summary.ranks == 4 && summary.stages == 2 && summary.replicas == 2);
    cr_expect_eq(summary.virtual, 2);
    cr_expect_geq(summary.reduced_bytes_per_step, 4 * summary.params);
    cr_expect_lt(summary.reduced_bytes_per_step, 4 * summary.params + 4 * 4096);
    double part = summary.samples_per_s_rank.item[0] / summary.samples_per_s;
    cr_expect(fabs(part - 0.5) < 1e-3, "rank 0 has %g of the samples", part);
    /* Of a V the first rank has both ends of the model. */
    cr_assert_eq(file_read(rows, 1 << 20, &metrics), STATUS_OK);
    json_t *root = json_loadb((char *)metrics.data, metrics.count, JSON_DISABLE_EOF_CHECK, NULL);
    const json_t *losses = json_object_get(root, "rank_loss");
    for (size_t r = 0; r < 4; r++)
        cr_expect_eq(json_is_null(json_array_get(losses, r)), r % 2 == 1, "rank %zu", r);
    json_decref(root);
    summary_free(&summary);
    bytes_free(&metrics);
    bytes_free(&text);
    free(line);
    free(path);
    free(rows);
}
