/* What is proven of groups whose members are chosen while ranks run.
 *
 * All replicas are walked as members of one group: then they post the same operations in the same
 * order, and none waits for ever. Fewer members of a group wait for fewer; for four ranks and fewer
 * every choice is walked. A choice could make
 * ranks wait in a circle only where a rank meets ranks of other replicas before its average, or
 * asks behind something that waits for one: so a step has nothing else that meets other replicas,
 * and its question stands before its averages. */
#include "base/log.h"
#include "program/verify.h"

static const struct place nobody = {NULL, 0};

static enum status refuse(const char *what) {
    return fail(STATUS_USAGE, "program refused by rule %d in the header: %s", RULE_CHOSEN, what);
}

enum status verify_chosen_header(const struct program *program) {
    const struct grid *grid = &program->grid;
    int group = program_chosen(program);
    if (group < 0) return STATUS_OK;
    for (int g = 0; g < group; g++)
        if (group_is_chosen(program->group[g])) return refuse("a second group is chosen");
    if (program_is_forward(program)) return refuse("a program without a step averages nothing");
    if (grid->drivers + grid->servers > 0) return refuse("members are chosen, and nobody drives");
    if (grid->replicas_each > 1 || grid->replicas == 1)
        return refuse("there are not several replicas, each on ranks of its own, to choose from");
    if (program->ahead > 0) return refuse("steps overlap");
    if (program->every > 0) return refuse("all replicas average every so many steps");
    if (program->sliced) return refuse("replicas that train apart hold everything whole");
    if (program_shares(program)) return refuse("replicas that train apart share no statistics");
    if (program_has_last(program)) return refuse("steps have unequal numbers of samples");
    if (program->group[group] == GROUP_CHOSEN_BY_STAGE && grid->chunks > 1)
        return refuse("each stage has groups of its own, and a rank holds several stages");
    for (int t = 0; t < program->tie_count && program->group[group] == GROUP_CHOSEN_BY_STAGE; t++)
        if (tie_is_apart(&program->tie[t]))
            return refuse("each stage has groups of its own, and two of them share parameters");
    return STATUS_OK;
}

enum status verify_told_own(const struct walk *walk) {
    int group = walk->instr->group;
    bool own = group == INSTR_ALL ? walk->program->grid.stages == 1
                                  : walk->program->group[group] == GROUP_PIPELINE;
    if (own) return STATUS_OK;
    return verify_broken(walk, RULE_CHOSEN, nobody,
                         "replicas wait for one another in averages alone: losses go to the own "
                         "pipeline");
}

static bool is_chosen(const struct walk *walk) {
    return walk->instr->group == program_chosen(walk->program);
}

/* Of a step. */
static enum status check_meeting(const struct walk *walk) {
    int group = walk->instr->group;
    if (!(walk->verifier->rows[walk->instr->op].operands >> OPERAND_group & 1) ||
        group == INSTR_ALL)
        return STATUS_OK;
    enum group_family family = walk->program->group[group];
    if (family == GROUP_PIPELINE || family == GROUP_TIED || is_chosen(walk)) return STATUS_OK;
    return verify_broken(walk, RULE_CHOSEN, nobody,
                         "in a step replicas meet in averages alone, not in group %d", group);
}

static enum status ask(struct walk *walk) {
    if (!is_chosen(walk))
        return verify_broken(walk, RULE_CHOSEN, nobody, "the members of group %d are not chosen",
                             walk->instr->group);
    if (walk->asked)
        return verify_broken(walk, RULE_CHOSEN, verify_own(walk, walk->asked), "a second GROUP");
    if (walk->stepped)
        return verify_broken(walk, RULE_CHOSEN, verify_own(walk, walk->stepped),
                             "it stands before the last pass of backward");
    walk->asked = walk->instr;
    return STATUS_OK;
}

static enum status average(struct walk *walk) {
    if (!is_chosen(walk))
        return verify_broken(walk, RULE_CHOSEN, nobody, "the members of group %d are not chosen",
                             walk->instr->group);
    if (!walk->asked)
        return verify_broken(walk, RULE_CHOSEN, nobody, "nobody has asked for members (GROUP)");
    if (!walk->stepped)
        return verify_broken(walk, RULE_CHOSEN, nobody, "the step's update stands before it");
    return STATUS_OK;
}

enum status verify_chosen(struct walk *walk) {
    enum instr_op op = (enum instr_op)walk->instr->op;
    bool of_choice = op == INSTR_GROUP || op == INSTR_AVERAGE;
    if (program_chosen(walk->program) < 0)
        return of_choice ? verify_broken(walk, RULE_CHOSEN, nobody, "no group is chosen")
                         : STATUS_OK;
    TRY(check_meeting(walk));
    if (op == INSTR_GROUP) return ask(walk);
    return op == INSTR_AVERAGE ? average(walk) : STATUS_OK;
}

enum status verify_average_chosen(struct walk *walk, struct verify_bucket *bucket) {
    if (bucket->average != AVERAGE_NONE)
        return verify_broken(walk, RULE_CHOSEN, verify_own(walk, bucket->last),
                             "bucket %d was averaged already", walk->instr->bucket);
    bucket->started = bucket->tied = false;
    bucket->average = AVERAGE_SUMMED;
    return STATUS_OK;
}

enum status verify_chosen_done(struct walk *walk) {
    char name[VERIFY_BUCKET_BYTES];
    if (program_chosen(walk->program) < 0 || walk->cell.role != GRID_STAGE) return STATUS_OK;
    struct walk end = verify_end_of(walk, walk->list);
    for (int b = 0; b < walk->map.buckets; b++) {
        struct verify_bucket *bucket = verify_bucket(walk, 0, b);
        if (bucket->average != AVERAGE_SUMMED)
            return verify_broken(&end, RULE_CHOSEN, nobody, "%s was not averaged (AVERAGE)",
                                 verify_bucket_name(walk, b, name));
        bucket->average = AVERAGE_NONE;
    }
    return STATUS_OK;
}

/* --- every choice --- */

static int keys_of(const struct program *program) {
    bool by_stage = program->group[program_chosen(program)] == GROUP_CHOSEN_BY_STAGE;
    return by_stage ? program->grid.stages : 1;
}

bool verify_first_choice(const struct program *program, struct verify_choice *out) {
    (void)program;
    *out = (struct verify_choice){{0}};
    return true;
}

/* Whether the replica may be in a group whose first one is `first`: that is first of its own. */
static bool is_first(const int *row, int replica, int first) {
    return first == replica || row[first] == first;
}

/* All divisions of the replicas into groups, of each key: an odometer whose digit r is the first
 * replica of the group that replica r is in. */
bool verify_next_choice(const struct program *program, struct verify_choice *choice) {
    int replicas = program->grid.replicas, digits = keys_of(program) * replicas;
    for (int d = digits - 1; d >= 0; d--) {
        int *row = choice->first + d / replicas * replicas, replica = d % replicas,
            next = row[replica] + 1;
        while (next <= replica && !is_first(row, replica, next)) next++;
        row[replica] = next <= replica ? next : 0;
        if (next > replica) continue;
        return true;
    }
    return false;
}

static bool is_divided(const struct verifier *verifier, int group) {
    return verifier->choice && group_is_chosen(verifier->program->group[group]);
}

int verify_group_index(const struct walk *walk, int group) {
    const struct program *program = walk->program;
    int index = group_of(&program->grid, program->group[group], walk->rank),
        replicas = program->grid.replicas;
    if (index < 0 || !is_divided(walk->verifier, group)) return index;
    int key = keys_of(program) > 1 ? walk->cell.position : 0;
    return index * replicas +
           walk->verifier->choice->first[key * replicas + walk->cell.first_replica];
}

int verify_group_count(const struct verifier *verifier, int group) {
    const struct grid *grid = &verifier->program->grid;
    int count = group_count(grid, verifier->program->group[group]);
    return is_divided(verifier, group) ? count * grid->replicas : count;
}
