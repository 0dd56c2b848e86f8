/* What contradicts a strategy, for every row of the table and by the messages. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/option_registry.h"
#include "plan/strategy.h"
#include "program/auto.h"
#include "program/schedule.h"
#include "sync/sync.h"

static char message[1024];

static enum status check(const char *line, int64_t ranks) {
    char copy[256], *rest = copy, *argv[16];
    int argc = 0;
    struct options options;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word; (word = strsep(&rest, " "));)
        if (*word) argv[argc++] = word;
    cr_assert_eq(options_parse(COMMAND_TRAIN, argc, argv, &options), STATUS_OK, "%s", line);
    message[0] = 0;
    log_capture(message, sizeof message);
    enum status status = strategy_check(&options, ranks);
    log_capture(NULL, 0);
    options_free(&options);
    return status;
}

/* A row names a schedule and a sync policy that exist. */
Test(plan_strategy, rows_are_sound) {
    int count;
    const struct strategy *all = strategy_all(&count);
    for (int i = 0; i < count; i++) {
        cr_expect(strategy_find(all[i].name) == &all[i], "%s is there twice", all[i].name);
        cr_expect(schedule_find(all[i].schedule) || pipeline_is(all[i].schedule), "%s: schedule %s",
                  all[i].name, all[i].schedule);
        cr_expect(sync_find(all[i].sync), "%s: sync policy %s", all[i].name, all[i].sync);
        cr_expect(*all[i].help, "%s", all[i].name);
    }
    cr_expect_null(strategy_find("abacus"));
}

/* What a policy says of its options holds: they exist, and act with it alone. */
Test(plan_strategy, policies_are_sound) {
    const struct sync_policy *policy, *other;
    for (int i = 0; (policy = sync_at(i)); i++) {
        struct option_word word = {.acts = policy->acts};
        cr_expect_eq(sync_find(policy->name), policy, "%s is there twice", policy->name);
        if (policy->whole)
            cr_expect(sync_find(policy->whole) && !sync_find(policy->whole)->whole,
                      "%s: sync policy %s", policy->name, policy->whole);
        cr_expect(policy->verb && policy->what, "%s", policy->name);
        cr_expect(!policy->implied_by || option_word_acts(&word, policy->implied_by), "%s",
                  policy->name);
        char *names = mem_text(policy->acts ? policy->acts : ""), *rest = names;
        for (char *name; (name = strsep(&rest, " "));) {
            enum option_id id;
            if (!*name) continue;
            cr_expect(option_find(name, &id), "%s: no option is called %s", policy->name, name);
            for (int k = 0; (other = sync_at(k)); k++)
                cr_expect(other == policy ||
                              !option_word_acts(&(struct option_word){.acts = other->acts}, name),
                          "option %s belongs to both %s and %s", name, policy->name, other->name);
        }
        free(names);
    }
}

Test(plan_strategy, contradictions) {
    static const struct {
        const char *line;
        int ranks;
        const char *part; /* of the refusal; NULL: taken */
    } rows[] = {
        {"", 1, NULL},
        {"-n 4", 4, NULL},
        {"--strategy single", 1, NULL},
        {"--strategy single --nodes 1", 1, NULL},
        {"--strategy single -n 2", 2, "-n 2 asks for several ranks, but --strategy single"},
        {"--strategy single --nodes 2", 2, "--nodes asks for several ranks"},
        {"--strategy single", 3, "3 ranks were started, but --strategy single runs on one"},
        {"--strategy ddp -n 2 --comm mpi", 2, NULL},
        {"--strategy dp -n 2", 2, NULL},
        {"--strategy dp -n 2 --spawn threads --comm shm", 2, NULL},
        {"--strategy dp -n 2 --spawn processes", 2, "--strategy dp runs ranks as threads"},
        {"--strategy dp -n 2 --comm mpi", 2, "with --strategy dp, --comm is mpi"},
        {"--spawn threads -n 2 --comm mpi", 2, "with --spawn threads, --comm is mpi"},
        {"--spawn threads --hostfile h", 2, "--hostfile asks for other processes"},
        {"--spawn threads -n 2 --nodes 2", 4, "--nodes asks for other processes"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        enum status status = check(rows[i].line, rows[i].ranks);
        cr_expect_eq(status, rows[i].part ? STATUS_USAGE : STATUS_OK, "%s: %s", rows[i].line,
                     message);
        cr_expect(!rows[i].part || strstr(message, rows[i].part), "%s: %s", rows[i].line, message);
    }
}
