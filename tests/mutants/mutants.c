/* Mutants of programs: what the verifier says of each against what the judge says.
 *
 *   mutants COUNT [SEED]
 *
 * None that the judge shows wrong may be accepted: each is printed, and the exit status is 1. The
 * share of harmless ones that are refused is reported, by kind of damage and by rule. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cases.h"
#include "judge.h"
#include "mutate.h"

enum { MOST_RULES = 64, SHOWN = 20 };

struct tally {
    long made, wrong, harmless, refused_harmless, missed;
};

struct report {
    struct tally by_kind[MUTATION_COUNT];
    long by_rule[MOST_RULES], harmless_by_rule[MOST_RULES];
    long missed;
    bool verbose;
};

static int rule_of(const char *log) {
    const char *at = strstr(log, "rule ");
    int rule = at ? atoi(at + 5) : 0;
    return rule > 0 && rule < MOST_RULES ? rule : 0;
}

static bool accepted(const struct program *program, const int64_t *samples, char log[1024]) {
    memset(log, 0, 1024);
    log_capture(log, 1024);
    enum status status = program_verify(program, samples);
    log_capture(NULL, 0);
    return status == STATUS_OK;
}

static void note(struct report *report, enum mutation kind, const struct case_of *of,
                 const char *what, const char *wrong, bool taken, const char *log) {
    struct tally *tally = &report->by_kind[kind];
    tally->made++;
    if (wrong)
        tally->wrong++;
    else
        tally->harmless++;
    if (!taken) report->by_rule[rule_of(log)]++;
    if (!wrong && !taken) {
        tally->refused_harmless++;
        report->harmless_by_rule[rule_of(log)]++;
        if (report->verbose) printf("harmless, refused: %s: %s\n    %s\n", of->name, what, log);
    }
    if (wrong && taken) {
        tally->missed++;
        if (report->missed++ < SHOWN)
            printf("wrong (%s), accepted: %s: %s, %s\n", wrong, of->name, what,
                   mutation_words[kind]);
    }
}

static void try_one(struct report *report, const struct case_of *of, enum mutation kind,
                    struct dice *dice) {
    char what[160] = "", log[1024];
    struct program *mutant = mutant_copy(of->program);
    while (!mutate(mutant, kind, dice, what)) {
        program_free(&mutant);
        mutant = mutant_copy(of->program);
        kind = (enum mutation)dice_roll(dice, MUTATION_COUNT);
    }
    bool taken = accepted(mutant, of->samples, log);
    note(report, kind, of, what, judge(mutant, of->samples, of->shares, of->driven), taken, log);
    program_free(&mutant);
}

/* The programs themselves are right, by both. */
static bool check_whole(const struct case_of *of) {
    char log[1024];
    bool taken = accepted(of->program, of->samples, log);
    const char *wrong = judge(of->program, of->samples, of->shares, of->driven);
    if (taken && !wrong) return true;
    printf("%s: verifier: %s; judge: %s\n", of->name, taken ? "accepted" : log,
           wrong ? wrong : "harmless");
    return false;
}

static void print_report(const struct report *report) {
    struct tally all = {0};
    printf("%-22s %8s %8s %9s %17s %7s\n", "damage", "mutants", "wrong", "harmless",
           "of them refused", "missed");
    for (int k = 0; k < MUTATION_COUNT; k++) {
        const struct tally *t = &report->by_kind[k];
        printf("%-22s %8ld %8ld %9ld %9ld (%3.0f%%)  %7ld\n", mutation_words[k], t->made, t->wrong,
               t->harmless, t->refused_harmless,
               t->harmless ? 100.0 * (double)t->refused_harmless / (double)t->harmless : 0,
               t->missed);
        all.made += t->made, all.wrong += t->wrong, all.harmless += t->harmless;
        all.refused_harmless += t->refused_harmless, all.missed += t->missed;
    }
    printf("%-22s %8ld %8ld %9ld %9ld (%3.0f%%)  %7ld\n", "all", all.made, all.wrong, all.harmless,
           all.refused_harmless,
           all.harmless ? 100.0 * (double)all.refused_harmless / (double)all.harmless : 0,
           all.missed);
    printf("\n%-6s %9s %17s\n", "rule", "refusals", "of harmless ones");
    for (int r = 0; r < MOST_RULES; r++)
        if (report->by_rule[r])
            printf("%-6d %9ld %17ld\n", r, report->by_rule[r], report->harmless_by_rule[r]);
}

int main(int argc, char **argv) {
    int wanted = argc > 1 ? atoi(argv[1]) : 100000, count, failed = 0;
    struct dice dice = {.state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1};
    struct report report = {.verbose = getenv("MUTANTS_VERBOSE") != NULL};
    struct case_of *cases = cases_all(&count);
    for (int c = 0; c < count; c++) failed += !check_whole(&cases[c]);
    for (int i = 0; i < wanted && failed == 0; i++)
        try_one(&report, &cases[dice_roll(&dice, count)], (enum mutation)(i % MUTATION_COUNT),
                &dice);
    if (failed == 0) print_report(&report);
    printf("%d programs; wrong ones accepted: %ld\n", count, report.missed);
    cases_free(cases, count);
    return failed || report.missed ? 1 : 0;
}
