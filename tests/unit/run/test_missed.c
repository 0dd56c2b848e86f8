/* What is said of a forecast that a run did not keep to: what was observed, and nothing else. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "run/missed.h"

/* A step of 100 ms where 10 were forecast, and nothing known of why. */
static struct missed_facts unknown(void) {
    return (struct missed_facts){.step_ms = 100,
                                 .p50_ms = 10,
                                 .low_ms = 6,
                                 .high_ms = 14,
                                 .data_ms = NAN,
                                 .passes_ms = NAN,
                                 .predicted_passes_ms = 9,
                                 .waits_ms = NAN,
                                 .predicted_waits_ms = 0.5,
                                 .other_cores = NAN,
                                 .stolen_cores = NAN,
                                 .coreless = NAN,
                                 .ranks = 1,
                                 .threads = 1,
                                 .usable_cores = 4,
                                 .online_cores = 4,
                                 .crowd = 1};
}

static bool has(const char *text, const char *part) {
    bool found = strstr(text, part) != NULL;
    if (!found) fprintf(stderr, "no '%s' in '%s'\n", part, text);
    return found;
}

/* Each word that a fact brings, and with it what to try. */
static void expect(const struct missed_facts *facts, const char *differs, const char *hints) {
    struct missed_words words;
    cr_assert(missed_words(facts, &words));
    cr_expect(has(words.differs, differs));
    cr_expect(has(words.hints, hints));
    missed_free(&words);
}

Test(run_missed, a_step_inside_the_interval_is_no_miss) {
    static const double inside[] = {6, 10, 14};
    struct missed_words words;
    for (int i = 0; i < 3; i++) {
        struct missed_facts facts = unknown();
        facts.step_ms = inside[i];
        facts.other_cores = 3;
        cr_expect(!missed_words(&facts, &words));
    }
}

Test(run_missed, without_steps_or_interval_there_is_nothing_to_say) {
    struct missed_words words;
    struct missed_facts facts = unknown();
    facts.step_ms = NAN;
    cr_expect(!missed_words(&facts, &words));
    facts = unknown();
    facts.low_ms = facts.high_ms = facts.p50_ms; /* of --delay: it claims no interval */
    cr_expect(!missed_words(&facts, &words));
}

Test(run_missed, both_times_and_the_interval_are_said) {
    struct missed_facts facts = unknown();
    struct missed_words words;
    cr_assert(missed_words(&facts, &words));
    cr_expect_str_eq(words.forecast, "the median step took 100 ms, above the forecast of 10 ms "
                                     "(90% sure: 6 ms to 14 ms)");
    missed_free(&words);
    facts.step_ms = 3;
    cr_assert(missed_words(&facts, &words));
    cr_expect(has(words.forecast, "the median step took 3 ms, below the forecast of 10 ms"));
    missed_free(&words);
}

Test(run_missed, what_was_not_observed_is_not_named) {
    struct missed_facts facts = unknown();
    struct missed_words words;
    cr_assert(missed_words(&facts, &words));
    cr_expect_str_eq(words.differs, "nothing that was measured explains it");
    cr_expect(has(words.hints, "report.html"));
    missed_free(&words);
    facts.other_cores = 0.1, facts.stolen_cores = 0, facts.coreless = 0.01, facts.data_ms = 1;
    facts.passes_ms = 9.5, facts.waits_ms = 1; /* as forecast, or too little to matter */
    cr_assert(missed_words(&facts, &words));
    cr_expect_str_eq(words.differs, "nothing that was measured explains it");
    missed_free(&words);
}

Test(run_missed, busy_cores) {
    struct missed_facts facts = unknown();
    facts.other_cores = 2.4;
    expect(&facts, "other programs kept 2.4 of 4 cores busy",
           "while the machine does nothing else");
    facts = unknown(), facts.stolen_cores = 1;
    expect(&facts, "the hypervisor gave 1.0 of 4 cores to other machines", "cores of its own");
    facts = unknown(), facts.coreless = 0.46;
    expect(&facts, "had no core for 46% of the time", "report.html");
}

Test(run_missed, more_threads_than_cores) {
    struct missed_facts facts = unknown();
    facts.ranks = 8, facts.crowd = 2;
    expect(&facts, "8 ranks with 1 thread each take turns on 4 usable cores, and the forecast",
           "-n 4");
    facts.usable_cores = 2; /* of 4, which is what the forecast counts with */
    expect(&facts, "for which the forecast counts with more cores", "-n 2");
    facts = unknown(), facts.ranks = 2, facts.threads = 4, facts.crowd = 2;
    expect(&facts, "2 ranks with 4 threads each", "--threads 2");
}

Test(run_missed, data) {
    struct missed_facts facts = unknown();
    facts.data_ms = 80;
    expect(&facts, "80 ms of a step waited for data", "--workers");
}

Test(run_missed, passes_by_rules_and_by_a_profile) {
    struct missed_facts facts = unknown();
    facts.passes_ms = 95;
    expect(&facts, "forward and backward took 95 ms on rank 0, by the rules of the operations 9 ms",
           "--save-profile FILE");
    facts.profile = "old.json";
    expect(&facts, "by the times of old.json 9 ms", "measure anew");
    facts.estimated = true;
    expect(&facts, "which lacks some operations", "measure anew");
}

Test(run_missed, other_ranks) {
    struct missed_facts facts = unknown();
    facts.waits_ms = 70;
    expect(&facts, "rank 0 waited 70 ms for other ranks and their messages, in the forecast 500 us",
           "report.html");
    facts.spread = true;
    expect(&facts, "which is for ranks of one machine", "--cluster FILE");
}

/* Nothing that makes a step longer explains a shorter one. */
Test(run_missed, a_faster_step_has_other_reasons) {
    struct missed_facts facts = unknown();
    struct missed_words words;
    facts.step_ms = 3, facts.other_cores = 2, facts.coreless = 0.5, facts.data_ms = 2;
    facts.ranks = 8, facts.passes_ms = 2.5;
    cr_assert(missed_words(&facts, &words));
    cr_expect(has(words.differs, "forward and backward took 2.5 ms on rank 0"));
    cr_expect(!strstr(words.differs, "other programs") && !strstr(words.differs, "data") &&
              !strstr(words.differs, "usable cores") && !strstr(words.differs, "no core"));
    missed_free(&words);
}
