/* Fault injection: what the text means, when it is triggered. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/log.h"
#include "run/fault.h"

Test(run_fault, is_of_one_rank_and_the_first_start) {
    struct fault fault;
    const char *text = "rank=1,step=7,at=REDUCE,do=kill";
    cr_assert_eq(fault_parse(text, 1, 0, &fault), STATUS_OK);
    cr_expect_eq(fault.action, FAULT_KILL);
    cr_expect_eq(fault.step, 7);
    cr_expect_str_eq(fault.at, "REDUCE");
    cr_assert_eq(fault_parse(text, 0, 0, &fault), STATUS_OK);
    cr_expect_eq(fault.action, FAULT_NONE);
    cr_assert_eq(fault_parse(text, 1, 1, &fault), STATUS_OK);
    cr_expect_eq(fault.action, FAULT_NONE);
    cr_assert_eq(fault_parse(NULL, 0, 0, &fault), STATUS_OK);
    cr_expect_eq(fault.action, FAULT_NONE);
}

Test(run_fault, triggers_once_where_it_is_due) {
    struct fault fault;
    cr_assert_eq(fault_parse("rank=0,at=F,step=3,do=nan", 0, 0, &fault), STATUS_OK);
    cr_expect_not(fault_trigger(&fault, "F", 2));
    cr_expect_not(fault_trigger(&fault, "B", 3));
    cr_expect(fault_trigger(&fault, "F", 3));
    cr_expect_not(fault_trigger(&fault, "F", 3));
    cr_assert_eq(fault_parse("do=nan,at=EVAL,rank=0", 0, 0, &fault), STATUS_OK);
    cr_expect(fault_trigger(&fault, "EVAL", 40), "without a step the first time counts");
}

Test(run_fault, rubbish_is_refused_with_the_part) {
    static const char *const texts[] = {"",
                                        "rank=1",
                                        "rank=x,at=F,do=kill",
                                        "rank=-1,at=F,do=kill",
                                        "rank=1,at=,do=kill",
                                        "rank=1,at=F,do=frob",
                                        "rank=1,at=AVERYLONGINSTRUCTION,do=kill",
                                        "rank=1,when=F,do=kill"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct fault fault = {.step = 99};
        char message[512];
        log_capture(message, sizeof message);
        enum status status = fault_parse(texts[i], 1, 0, &fault);
        log_capture(NULL, 0);
        cr_expect_eq(status, STATUS_USAGE, "%s", texts[i]);
        cr_expect_eq(fault.step, 99, "%s: nothing is written", texts[i]);
        cr_expect(strstr(message, "STRETTO_FAULT"), "%s", message);
    }
}
