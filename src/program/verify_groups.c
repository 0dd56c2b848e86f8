/* What is proven of groups: all members post the same operations in the same order, and none waits
 * for ever.
 *
 * An instruction of the queue COMM is posted and done once all members have posted theirs; the
 * first instruction that reads or writes one of its buffers awaits that. Passes that share
 * statistics wait where they stand. */
#include "base/mem.h"
#include "program/verify.h"

static struct meeting_group *group_of_walk(const struct walk *walk, int group) {
    const struct program *program = walk->program;
    return &walk->verifier
                ->groups[group][group_of(&program->grid, program->group[group], walk->rank)];
}

static bool is_done(const struct pending *pending) {
    return !pending->group ||
           pending->group->items[pending->number].arrived == pending->group->members;
}

/* A group carries one exchange at a time: what COUNT or REPORT posted there must have been awaited.
 * A reduction is none. */
static enum status check_exchange(const struct walk *walk, const struct meeting_group *of,
                                  int group) {
    bool open = walk->seeds.group == of || walk->losses.group == of;
    if (!open || walk->instr->op == INSTR_REDUCE) return STATUS_OK;
    return verify_broken(walk, "an exchange of group %d (%s) is under way and was not awaited",
                         group, walk->seeds.group == of ? "COUNT" : "REPORT");
}

/* Posts the walk's instruction as the next operation of a group. */
static enum status post(struct walk *walk, int group, int64_t what, struct pending *out) {
    struct meeting_group *of = group_of_walk(walk, group);
    TRY(check_exchange(walk, of, group));
    int number = walk->posted[group]++;
    if (number == of->count) {
        of->items = mem_grow(of->items, &of->capacity, (size_t)number + 1, sizeof *of->items);
        of->items[of->count++] =
            (struct meeting){.what = what, .instr = walk->instr, .rank = walk->rank};
    }
    struct meeting *meeting = &of->items[number];
    char other[INSTR_TEXT_BYTES];
    if (meeting->what != what)
        return verify_broken(walk, "rank %d comes to this meeting of group %d with %s",
                             meeting->rank, group,
                             instr_text(meeting->instr, meeting->rank, other));
    meeting->arrived++;
    *out = (struct pending){of, number};
    return STATUS_OK;
}

/* --- posted, and awaited by who touches the buffer --- */

/* What was awaited is under way no more. */
static bool await_one(struct pending *pending) {
    if (!is_done(pending)) return false;
    *pending = (struct pending){0};
    return true;
}

static bool gradient_done(const struct walk *walk, const struct instr_access *access) {
    const struct bucket *bucket = walk->grads[access->grad].bucket;
    for (int b = 0; bucket && b < access->bucket_count; b++)
        if (!is_done(&bucket[access->first_bucket + b].pending)) return false;
    return true;
}

static bool letter_done(struct walk *walk, char letter) {
    struct instr_access access = instr_access(walk->instr, letter, walk->own->buckets);
    switch (access.resource) {
    case RESOURCE_SEEDS: return await_one(&walk->seeds);
    case RESOURCE_LOSSES: return await_one(&walk->losses);
    case RESOURCE_GRADIENT: return gradient_done(walk, &access);
    case RESOURCE_READY: break;
    }
    return true;
}

void verify_await(struct walk *walk) {
    const struct instr_row *row = instr_row(walk->instr);
    for (const char *letter = row->reads; *letter; letter++)
        walk->waits |= !letter_done(walk, *letter);
    for (const char *letter = row->writes; *letter; letter++)
        walk->waits |= !letter_done(walk, *letter);
}

static int64_t operation(const struct instr *instr, int what) {
    return (int64_t)instr->op << 48 | (int64_t)instr->grad << 32 | (uint32_t)what;
}

enum status verify_post(struct walk *walk) {
    const struct instr *instr = walk->instr;
    const struct instr_row *row = instr_row(instr);
    struct pending pending;
    if (row->meets != MEETS_GROUP) return STATUS_OK;
    TRY(post(walk, instr->group, operation(instr, instr->bucket), &pending));
    for (const char *letter = row->writes; *letter; letter++) {
        struct instr_access access = instr_access(instr, *letter, walk->own->buckets);
        if (access.resource == RESOURCE_SEEDS) walk->seeds = pending;
        if (access.resource == RESOURCE_LOSSES) walk->losses = pending;
        if (access.resource == RESOURCE_GRADIENT)
            verify_bucket(walk, access.grad, access.first_bucket)->pending = pending;
    }
    return STATUS_OK;
}

/* --- shared statistics --- */

/* What a pass shares: the statistics of a stage, told apart by the place of the micro-batch in its
 * replica's step, and by direction. The segments of a backward are one. */
static int64_t shared_by(const struct walk *walk) {
    const struct instr *instr = walk->instr;
    bool forward = instr->op == INSTR_F || instr->op == INSTR_STATS_F;
    int place = instr->micro % walk->program->micro_batches;
    return (int64_t)instr->stage << 32 | (int64_t)place * 2 | !forward;
}

static bool goes_on(const struct instr *instr) {
    return instr->op == INSTR_B && instr->segment > 0;
}

/* Between two segments of a backward that shares no other pass does: the others would wait in the
 * middle of theirs. */
static enum status check_between(struct walk *walk) {
    const struct instr *instr = walk->instr;
    if (!goes_on(instr) && walk->in_backward >= 0)
        return verify_broken(walk,
                             "shares statistics between segments of the backward of micro-batch %d",
                             walk->in_backward);
    bool open = instr->op == INSTR_B && instr->segment != INSTR_ALL &&
                instr->segment < walk->own->buckets - 1;
    walk->in_backward = open ? instr->micro : -1;
    return STATUS_OK;
}

static int sharers_of(const struct walk *walk, int micro) {
    int count = 0, each = walk->program->micro_batches;
    for (int m = micro % each; m < walk->micros; m += each) count += verify_present(walk, m);
    return count;
}

/* One rank runs the replicas that share as one: they stand one behind the other, all of them. That
 * they have slots of their own follows, since nothing is loaded between. */
static enum status share_here(struct walk *walk) {
    const struct instr *instr = walk->instr;
    int what = (int)shared_by(walk);
    if (instr->op == INSTR_STATS_F || instr->op == INSTR_STATS_B)
        return verify_broken(walk, "a replica without samples needs no part on one rank");
    if (instr->op == INSTR_B && instr->segment != INSTR_ALL)
        return verify_broken(walk, "on one rank a backward that shares statistics is not cut");
    if (walk->together > 0 && what != walk->together_what)
        return verify_broken(walk,
                             "replicas that share statistics stand before it, but not all of them");
    walk->together_what = what;
    if (++walk->together == sharers_of(walk, instr->micro)) walk->together = 0;
    return STATUS_OK;
}

static enum status check_group(const struct walk *walk) {
    const struct instr *instr = walk->instr;
    bool shares = instr_shares(instr);
    if (walk->verifier->shares != shares)
        return verify_broken(walk,
                             "some instructions share statistics (a group) and this one does not");
    if (shares && walk->program->group[instr->group] == GROUP_PIPELINE)
        return verify_broken(walk, "group %d is not the replicas of this stage", instr->group);
    if (shares && walk->program->grid.replicas == 1)
        return verify_broken(walk, "there is no other replica to share statistics with");
    return STATUS_OK;
}

enum status verify_share(struct walk *walk) {
    const struct instr *instr = walk->instr;
    if (instr_row(instr)->meets == MEETS_SHARERS) TRY(check_group(walk));
    if (walk->together > 0 && !instr_shares(instr))
        return verify_broken(walk,
                             "replicas that share statistics stand before it, but not all of them");
    if (!instr_shares(instr)) return STATUS_OK;
    if (walk->cell.replica_count > 1) return share_here(walk);
    struct pending pending = {group_of_walk(walk, instr->group), walk->posted[instr->group] - 1};
    if (!walk->arrived) {
        TRY(check_between(walk));
        if (goes_on(instr)) return STATUS_OK;
        TRY(post(walk, instr->group, shared_by(walk), &pending));
    }
    walk->waits = walk->arrived = !is_done(&pending);
    return STATUS_OK;
}
