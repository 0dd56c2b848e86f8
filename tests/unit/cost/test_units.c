/* Costs and delays by hand: what follows from what, both ways, and what is refused. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cost/units.h"

static char message[2048];

static enum status parse(bool delay, const char *text, struct cost_units *out) {
    log_capture(message, sizeof message);
    enum status status = delay ? cost_units_parse_delay("--delay", text, out)
                               : cost_units_parse("--costs", text, out);
    log_capture(NULL, 0);
    return status;
}

static void expect_text(const char *text, const char *whole) {
    struct cost_units costs, again;
    cr_assert_eq(parse(false, text, &costs), STATUS_OK, "%s", message);
    char *printed = cost_units_text(&costs);
    cr_expect_str_eq(printed, whole);
    cr_assert_eq(parse(false, printed, &again), STATUS_OK, "%s", message);
    for (int kind = 0; kind < COST_COUNT; kind++) cr_expect_eq(costs.of[kind], again.of[kind]);
    free(printed);
}

Test(cost_units, units) {
    expect_text("f=1,i=1,w=1,c=0", "f=1,b=2,i=1,w=1,r=1,c=0,s=0");
    expect_text("c=0.5", "f=1,b=2,i=1,w=1,r=1,c=0.5,s=0");
    expect_text("w=3,f=2,i=.5", "f=2,b=3.5,i=0.5,w=3,r=2,c=0,s=0");
    expect_text("b=1.75,r=1.25,s=4", "f=1,b=1.75,i=1,w=1,r=1.25,c=0,s=4");
    expect_text("f=0,i=0,w=0.1", "f=0,b=0.1,i=0,w=0.1,r=0,c=0,s=0");
}

Test(cost_units, delays) {
    static const struct {
        const char *text;
        double f, b, i, w, r; /* ns */
    } cases[] = {{"f=5ms,i=5ms,w=5ms", 5e6, 1e7, 5e6, 5e6, 5e6},
                 {"f=20us,b=1s", 2e4, 1e9, 0, 0, 2e4}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct cost_units costs;
        cr_assert_eq(parse(true, cases[k].text, &costs), STATUS_OK, "%s", message);
        cr_expect_eq(costs.of[COST_F], cases[k].f);
        cr_expect_eq(costs.of[COST_B], cases[k].b);
        cr_expect_eq(costs.of[COST_I], cases[k].i);
        cr_expect_eq(costs.of[COST_W], cases[k].w);
        cr_expect_eq(costs.of[COST_R], cases[k].r);
    }
}

Test(cost_units, refused) {
    static const struct {
        bool delay;
        const char *text, *part[2];
    } cases[] = {
        {false, "", {"--costs: '' is not LETTER=NUMBER", "f, b, i, w, r, c, s"}},
        {false, "f", {"--costs: 'f' is not", ""}},
        {false, "f=1,", {"--costs: '' is not", ""}},
        {false, "x=1", {"--costs: 'x=1' is not", ""}},
        {false, "ff=1", {"--costs: 'ff=1' is not", ""}},
        {false, "=1", {"--costs: '=1' is not", ""}},
        {false, "f=1,f=2", {"--costs: f is given twice", ""}},
        {false, "f=-1", {"--costs: f: '-1' is not allowed", "from 0 to 1e9"}},
        {false, "w=1e10", {"--costs: w: '1e10' is not allowed", ""}},
        {false, "w=1ms", {"--costs: w: '1ms' is not allowed", "a number"}},
        {false, "w=", {"--costs: w: '' is not allowed", ""}},
        {false, "f=0,i=0,w=0", {"--costs: f, b, i and w are all 0", ""}},
        {true, "c=1ms", {"--delay: 'c=1ms' is not LETTER=TIME", "f, b, i, w, r"}},
        {true, "f=5mm", {"--delay: f: '5mm' is not allowed", "a time such as 5ms"}},
        {true, "f=1h", {"--delay: f: '1h' is not allowed", "1000s"}},
        {true, "r=1ms", {"--delay: f, b, i and w are all 0", ""}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cost_units costs = {{-7}};
        cr_expect_eq(parse(cases[i].delay, cases[i].text, &costs), STATUS_USAGE, "'%s' was read",
                     cases[i].text);
        cr_expect_eq(costs.of[0], -7);
        for (int part = 0; part < 2; part++)
            cr_expect(strstr(message, cases[i].part[part]), "'%s': '%s' not in: %s", cases[i].text,
                      cases[i].part[part], message);
    }
}
