/* The words of options that are names in registries: base/option_registry.h says why this is here.
 * A new row of a registry needs nothing in this file. */
#include "backend/registry.h"
#include "base/log.h"
#include "base/option_registry.h"
#include "comm/comm.h"
#include "data/dataset.h"
#include "model/model.h"
#include "optim/optim.h"
#include "plan/balance.h"
#include "plan/resolve.h"
#include "plan/strategy.h"
#include "program/auto.h"
#include "program/schedule.h"
#include "sync/sync.h"

#include <string.h>

static bool models_word(int index, struct option_word *out) {
    int count;
    const struct model *all = model_all(&count);
    if (index >= count) return false;
    *out = (struct option_word){
        .name = all[index].name, .help = all[index].help, .acts = model_acts(&all[index])};
    return true;
}

static bool data_sets_word(int index, struct option_word *out) {
    const struct dataset_ops *ops = dataset_at(index);
    if (!ops) return false;
    *out = (struct option_word){.name = ops->name, .argument = ops->argument, .help = ops->help};
    return true;
}

static bool augments_word(int index, struct option_word *out) {
    if (index >= AUGMENT_COUNT) return false;
    enum augment_policy policy = (enum augment_policy)index;
    *out = (struct option_word){.name = augment_name(policy), .help = augment_help(policy)};
    return true;
}

static bool strategies_word(int index, struct option_word *out) {
    int count;
    const struct strategy *all = strategy_all(&count);
    if (index >= count) return false;
    *out = (struct option_word){.name = all[index].name, .help = all[index].help};
    return true;
}

/* The whole model on each rank, then the orders of pipelines, then the choice between these. */
static bool schedules_word(int index, struct option_word *out) {
    const struct schedule *single = schedule_find("single");
    int count = pipeline_count();
    if (index > count + 1) return false;
    if (index == 0)
        *out = (struct option_word){.name = single->name, .help = single->help};
    else if (index <= count)
        *out = (struct option_word){.name = pipeline_at(index - 1)->name,
                                    .help = pipeline_at(index - 1)->help};
    else
        *out = (struct option_word){.name = PIPELINE_AUTO,
                                    .help = "the best order for the costs of the stages, under "
                                            "--memory-limit"};
    return true;
}

static bool syncs_word(int index, struct option_word *out) {
    const struct sync_policy *policy = sync_at(index);
    if (!policy) return false;
    *out = (struct option_word){.name = policy->name, .help = policy->help};
    return true;
}

static bool balances_word(int index, struct option_word *out) {
    if (index >= BALANCE_COUNT) return false;
    *out = (struct option_word){.name = balance_name((enum balance)index)};
    return true;
}

static bool recomputes_word(int index, struct option_word *out) {
    if (index >= RECOMPUTE_POLICY_COUNT) return false;
    *out = (struct option_word){.name = recompute_policy_name((enum recompute_policy)index)};
    return true;
}

static bool sums_word(int index, struct option_word *out) {
    if (index >= SUM_ORDER_COUNT) return false;
    *out = (struct option_word){.name = sum_order_name((enum sum_order)index)};
    return true;
}

static bool outer_optimizers_word(int index, struct option_word *out) {
    static const struct option_word words[] = {
        {.name = "nesterov", .help = "momentum in Nesterov's form", .acts = "outer-momentum"},
        {.name = "sgd", .help = "the mean itself, times the rate"}};
    if (index >= (int)(sizeof words / sizeof words[0])) return false;
    *out = words[index];
    return true;
}

static bool group_rules_word(int index, struct option_word *out) {
    struct group_rule_word word;
    if (!groups_rule_at(index, &word)) return false;
    *out = (struct option_word){.name = word.name, .help = word.help, .acts = word.acts};
    return true;
}

static bool optimizers_word(int index, struct option_word *out) {
    int count;
    const struct optim_rule *const *all = optim_all(&count);
    if (index >= count) return false;
    *out = (struct option_word){
        .name = all[index]->name, .help = all[index]->help, .acts = all[index]->acts};
    return true;
}

static bool lr_policies_word(int index, struct option_word *out) {
    if (index >= LR_POLICY_COUNT) return false;
    enum lr_policy policy = (enum lr_policy)index;
    *out = (struct option_word){.name = lr_policy_name(policy), .acts = lr_policy_acts(policy)};
    return true;
}

static bool devices_word(int index, struct option_word *out) {
    for (int i = 0; i <= index; i++)
        if (!backend_name_at(i)) return false;
    *out = (struct option_word){.name = backend_name_at(index)};
    return true;
}

/* The communicator of one rank is nobody's choice: in its place is the word that leaves it open. */
static bool communicators_word(int index, struct option_word *out) {
    CHECK(strcmp(comm_name_at(0), "self") == 0, "the first communicator is %s", comm_name_at(0));
    for (int i = 0; i <= index; i++)
        if (!comm_name_at(i)) return false;
    *out = (struct option_word){.name = index ? comm_name_at(index) : "auto"};
    return true;
}

bool option_registry_word(enum option_registry registry, int index, struct option_word *out) {
    static bool (*const words[OPTION_REGISTRY_COUNT])(int index, struct option_word *out) = {
#define REGISTRY(name, title) [OPTION_REGISTRY_##name] = name##_word,
#include "base/options.def"
    };
    return index >= 0 && words[registry] && words[registry](index, out);
}

int64_t options_ranks(const struct options *options) {
    return resolve_ranks_asked(options);
}

/* --- defaults that depend on a word --- */

/* An optimizer has its own; a model has those of its family, with its own optimizer. */
static const char *training_default(const char *optimizer, double lr, double weight_decay,
                                    double clip, const char *option, char text[TEXT_BYTES]) {
    if (strcmp(option, "lr") == 0) return text_real(lr, text);
    if (strcmp(option, "weight-decay") == 0) return text_real(weight_decay, text);
    if (strcmp(option, "clip") == 0) return text_real(clip, text);
    return strcmp(option, "optimizer") == 0 ? optimizer : "";
}

static const char *models_default(int index, const char *option, char text[TEXT_BYTES]) {
    int count;
    const struct model *all = model_all(&count);
    if (index >= count) return "";
    return training_default(all[index].optimizer, all[index].lr, all[index].weight_decay,
                            all[index].clip, option, text);
}

static const char *optimizers_default(int index, const char *option, char text[TEXT_BYTES]) {
    int count;
    const struct optim_rule *const *all = optim_all(&count);
    if (index >= count) return "";
    return training_default("", all[index]->lr, all[index]->weight_decay, all[index]->clip, option,
                            text);
}

static const char *schedules_default(int index, const char *option, char text[TEXT_BYTES]) {
    struct option_word word;
    const struct pipeline_schedule *schedule =
        schedules_word(index, &word) ? pipeline_find(word.name) : NULL;
    if (!schedule || strcmp(option, "virtual") != 0) return "";
    snprintf(text, TEXT_BYTES, "%d", schedule->chunks);
    return text;
}

const char *option_registry_default(enum option_registry registry, int index, const char *option,
                                    char text[TEXT_BYTES]) {
    switch (registry) {
    case OPTION_REGISTRY_models: return models_default(index, option, text);
    case OPTION_REGISTRY_optimizers: return optimizers_default(index, option, text);
    case OPTION_REGISTRY_schedules: return schedules_default(index, option, text);
    default: return "";
    }
}
