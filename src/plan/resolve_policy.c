/* Options that act with one sync policy alone: whether somebody asks for them, and with another
 * policy a refusal that names the one they act with. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/option_registry.h"
#include "plan/resolve.h"
#include "sync/sync.h"

/* Whether the user asks for anything by it: a run that is resumed has every option in its
 * config.yml, where defaults ask for nothing. */
static bool asks(const struct options *options, enum option_id id) {
    SCOPED(options_free) struct options untouched = {0};
    if (!option_is_given(options, id)) return false;
    options_init(options->command, &untouched);
    SCOPED_FREE char *text = option_text(options, id), *usual = option_text(&untouched, id);
    return strcmp(text, usual) != 0;
}

static bool acts_with(const struct sync_policy *policy, enum option_id id) {
    return option_word_acts(&(struct option_word){.acts = policy->acts}, option_rows[id].name);
}

bool resolve_asks_policy(const struct options *options, const struct sync_policy *policy,
                         enum option_id *out) {
    for (int id = 0; id < OPTION_COUNT; id++) {
        *out = (enum option_id)id;
        if (acts_with(policy, *out) && asks(options, *out)) return true;
    }
    return false;
}

/* Options of one policy have no effect with another. */
enum status resolve_policy_options(const struct options *options,
                                   const struct sync_policy *policy) {
    const struct sync_policy *other;
    for (int i = 0; (other = sync_at(i)); i++)
        for (int id = 0; id < OPTION_COUNT; id++)
            if (acts_with(other, (enum option_id)id) && !acts_with(policy, (enum option_id)id) &&
                asks(options, (enum option_id)id))
                return fail(STATUS_USAGE,
                            "--%s has no effect with --sync %s\n  it acts with --sync %s",
                            option_rows[id].name, policy->name, other->name);
    return STATUS_OK;
}
