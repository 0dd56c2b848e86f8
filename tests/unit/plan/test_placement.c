/* Placement files: the example of the documentation, hosts of unequal size, and what is refused. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "plan/placement.h"

static char message[4096];

static enum status parse(const char *text, struct stage_placement *out) {
    log_capture(message, sizeof message);
    enum status status = stage_placement_parse("p.yml", text, strlen(text), out);
    log_capture(NULL, 0);
    return status;
}

static void expect_cell(const struct stage_placement *placement, int at, const char *host,
                        int64_t index) {
    const struct stage_placement_cell *cell = &placement->cell[at];
    cr_expect_str_eq(placement->host[cell->host].name, host);
    cr_expect_eq(cell->index, index);
}

Test(plan_placement, documented_example) {
    struct bytes doc;
    cr_assert_eq(file_read("docs/placement.md", 1 << 20, &doc), STATUS_OK);
    char *begin = strstr((char *)doc.data, "```yaml\n") + strlen("```yaml\n"),
         *end = strstr(begin, "```"), *text = mem_format("%.*s", (int)(end - begin), begin);
    struct stage_placement placement;
    cr_assert_eq(parse(text, &placement), STATUS_OK, "%s", message);
    cr_expect_eq(placement.stages, 4);
    cr_expect_eq(placement.replicas, 2);
    cr_expect_eq(placement.host_count, 2);
    for (int stage = 0; stage < 4; stage++)
        for (int replica = 0; replica < 2; replica++)
            expect_cell(&placement, stage * 2 + replica, replica ? "w1" : "w0", stage);
    free(text);
    bytes_free(&doc);
    stage_placement_free(&placement);
}

Test(plan_placement, unequal_hosts) {
    struct stage_placement placement;
    cr_assert_eq(
        parse("# two stages\n- - b-1.net:2\n  - b-1.net:0\n- ['a:0', b-1.net:1]\n", &placement),
        STATUS_OK, "%s", message);
    cr_assert_eq(placement.host_count, 2);
    cr_expect_eq(placement.host[0].ranks, 3);
    cr_expect_eq(placement.host[1].ranks, 1);
    expect_cell(&placement, 0, "b-1.net", 2);
    expect_cell(&placement, 1, "b-1.net", 0);
    expect_cell(&placement, 2, "a", 0);
    expect_cell(&placement, 3, "b-1.net", 1);
    stage_placement_free(&placement);
}

Test(plan_placement, refused) {
    static const struct {
        const char *text, *part[2];
    } cases[] = {
        {"", {"p.yml:1:1: a placement is a list", ""}},
        {"[]\n", {"p.yml: no stage", "- [w0:0, w1:0]"}},
        {"stages: []\n", {"p.yml:1:1: a placement is a list", ""}},
        {"- w0:0\n", {"p.yml:1:3: a stage is a list", ""}},
        {"- []\n", {"p.yml:1:3: stage 0 has no place", ""}},
        {"- [w0:0, w0:1]\n- [w1:0]\n",
         {"p.yml:2:3: stage 1 has 1 places, stage 0 (line 1) has 2", "not run yet"}},
        {"- [w0:0, w0:1]\n- [w1:0, w0:1]\n",
         {"p.yml:2:10: w0:1 is given twice, first in line 1", "holds one stage"}},
        {"- [w0:0]\n- [w0:2]\n", {"p.yml:2:4: w0:2, but w0:1 is nowhere", "without a gap"}},
        {"- [w0:0]\n- [w1:1]\n", {"p.yml:2:4: w1:1, but w1:0 is nowhere", ""}},
        {"- [w0]\n", {"p.yml:1:4: 'w0' is not a place", "HOST:INDEX"}},
        {"- ['w0:']\n", {"'w0:' is not a place", ""}},
        {"- [':1']\n", {"':1' is not a place", ""}},
        {"- ['w0:-1']\n", {"'w0:-1' is not a place", ""}},
        {"- ['w0:1x']\n", {"'w0:1x' is not a place", ""}},
        {"- ['w0:99999999999999999999']\n", {"is not a place", ""}},
        {"- ['w0:1048576']\n", {"is not a place", ""}},
        {"- ['-o:0']\n", {"'-o:0' is not a place", ""}},
        {"- ['a b:0']\n", {"'a b:0' is not a place", ""}},
        {"- [[w0:0]]\n", {"p.yml:1:4: a place takes one value, not a list", ""}},
        {"- [~]\n", {"a place has no value", ""}},
        {"- &a [w0:0]\n- *a\n", {"anchors and aliases are not allowed", ""}},
        {"- [w0:0]\n---\n- [w0:0]\n", {"p.yml:2:1: a second document", ""}},
        {"- [w0:0\n", {"not valid YAML", ""}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stage_placement placement = {.stages = -7};
        cr_expect_eq(parse(cases[i].text, &placement), STATUS_USAGE, "'%s' was read",
                     cases[i].text);
        cr_expect_eq(placement.stages, -7);
        for (int part = 0; part < 2; part++)
            cr_expect(strstr(message, cases[i].part[part]), "'%s': '%s' not in: %s", cases[i].text,
                      cases[i].part[part], message);
    }
}
