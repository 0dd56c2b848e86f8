/* Mutants of programs: what the verifier says of each against what the judge says.
 *
 *   mutants COUNT [SEED [NAME]]      NAME: of programs in whose names that is
 *
 * None that the judge shows wrong may be accepted, and each refusal must name its rule and one or
 * two instructions or the ranks that wait: else it is printed, and the exit status is 1. The share
 * of harmless ones that are refused is reported, by kind of damage and by rule. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cases.h"
#include "judge.h"
#include "mutate.h"

enum { MOST_RULES = 64, SHOWN = 20, LOG_BYTES = 4096, RULE_OF_WAITS = 23 };

struct tally {
    long made, wrong, harmless, refused_harmless, missed;
};

struct report {
    struct tally by_kind[MUTATION_COUNT];
    long by_rule[MOST_RULES], harmless_by_rule[MOST_RULES];
    long missed, unclear; /* wrong ones accepted; refusals whose text is not as it must be */
    long waits;           /* mutants whose ranks wait for ever */
    bool verbose;
};

static int rule_of(const char *log) {
    const char *at = strstr(log, "rule ");
    int rule = at ? atoi(at + 5) : 0;
    return rule > 0 && rule < MOST_RULES ? rule : 0;
}

/* --- the text of refusals --- */

/* Behind `text`, where it begins with it; else NULL. */
static const char *behind(const char *at, const char *text) {
    size_t count = strlen(text);
    return at && strncmp(at, text, count) == 0 ? at + count : NULL;
}

/* Behind a number, or an instruction: "#12 r0 LOAD s0 m1 a0 new". */
static const char *behind_number(const char *at) {
    size_t count = at ? strspn(at, "0123456789") : 0;
    return count > 0 ? at + count : NULL;
}

static const char *behind_instr(const char *at) {
    at = behind_number(behind(behind_number(behind(at, "#")), " r"));
    at = behind(at, " ");
    size_t name = at ? strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") : 0;
    if (name == 0) return NULL;
    at += name;
    while (*at == ' ' && at[1] >= 'a' && at[1] <= 'z') {
        size_t word = strcspn(at + 1, " :,\n") + 1;
        if (strncmp(at, " for ", 5) == 0) break;
        at += word;
    }
    return at;
}

/* One line, of which nothing more is asked. */
static const char *behind_line(const char *at) {
    const char *end = at && *at && *at != '\n' ? strchr(at, '\n') : NULL;
    return end ? end + 1 : NULL;
}

/* "rank 0 waits at A for rank 1, which waits at B for rank 0": each its instruction, and a circle;
 * or the last of them does not wait. */
static bool is_cycle(const char *at) {
    const char *first = at = behind(at, ": rank ");
    at = behind_number(at);
    for (const char *next = behind(at, " waits at "); next; next = behind(at, ", which waits at "))
        at = behind_number(behind(behind_instr(next), " for rank "));
    if (!at || !first) return false;
    if (behind(at, ", whose body ends without it\n")) return true;
    const char *last = at;
    while (last[-1] >= '0' && last[-1] <= '9') last--;
    return *at == '\n' && !at[1] && atoi(first) == atoi(last);
}

/* The rule by its number; then the instruction that breaks it, and the one it disagrees with, or
 * the header, or who waits for whom; and nothing else. */
static bool is_refusal(const char *log) {
    const char *at = behind_number(behind(log, "stretto: error: program refused by rule "));
    if (!at || rule_of(log) == 0) return false;
    if (is_cycle(at)) return rule_of(log) == RULE_OF_WAITS;
    const char *header = behind(at, " in the header: ");
    const char *list = behind(at, " at the empty list ");
    at = header ? header : list ? list : behind(behind_instr(behind(at, " at ")), ": ");
    at = behind_line(at);
    if (at && *at) at = behind(behind_instr(behind(at, "  against ")), "\n");
    return at && !*at;
}

/* --- one mutant --- */

static bool accepted(const struct program *program, const int64_t *samples, char log[LOG_BYTES]) {
    memset(log, 0, LOG_BYTES);
    log_capture(log, LOG_BYTES);
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
    if (!taken && !is_refusal(log) && report->unclear++ < SHOWN)
        printf("unclear: %s: %s\n    %s\n", of->name, what, log);
    /* That is a claim about what runs would do, and not a rule that may be stricter than need be.
     */
    if (!wrong && !taken && rule_of(log) == RULE_OF_WAITS && report->unclear++ < SHOWN)
        printf("does not wait for ever: %s: %s\n    %s\n", of->name, what, log);
    report->waits += wrong && strcmp(wrong, "ranks wait for ever") == 0;
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
    char what[160] = "", log[LOG_BYTES];
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
    char log[LOG_BYTES];
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
    if (argc > 3) count = cases_named(cases, count, argv[3]);
    for (int i = 0; i < wanted && failed == 0; i++)
        try_one(&report, &cases[dice_roll(&dice, count)], (enum mutation)(i % MUTATION_COUNT),
                &dice);
    if (failed == 0) print_report(&report);
    printf("%d programs; waiting for ever: %ld; wrong ones accepted: %ld; unclear refusals: %ld\n",
           count, report.waits, report.missed, report.unclear);
    cases_free(cases, count);
    return failed || report.missed || report.unclear ? 1 : 0;
}
