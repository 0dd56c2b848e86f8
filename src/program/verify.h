/* The verifier's parts; private to src/program. Each file proves one thing; verify.c walks. */
#ifndef PROGRAM_VERIFY_H
#define PROGRAM_VERIFY_H

#include "program/verify_state.h"

/* Local. Refuses the program at the walk's instruction, by a rule; `against` is the instruction it
 * disagrees with, if there is one. Returns STATUS_USAGE. */
enum status verify_broken(const struct walk *walk, enum rule rule, struct place against,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Local. An instruction of the walk's own rank; NULL: none. */
/* Local. What stands for the end of a list: its last instruction. */
struct walk verify_end_of(const struct walk *walk, enum list_name list);
struct place verify_own(const struct walk *walk, const struct instr *instr);

/* Local. The samples of the step that is walked, per micro-batch; NULL: all have some. Has
 * micro-batch `micro` of the rank samples? */
const int64_t *verify_samples(const struct walk *walk);
bool verify_present(const struct walk *walk, int micro);
/* Local. Of the walk's instruction: its chunk; its stage is the model's first, last. */
int verify_chunk(const struct walk *walk);
/* Local. "bucket 3 of stage 1", as instructions name it: of the bucket with a number among those of
 * all stages of the rank. Returns `text`. */
enum { VERIFY_BUCKET_BYTES = 64 };
const char *verify_bucket_name(const struct walk *walk, int index, char text[VERIFY_BUCKET_BYTES]);
bool verify_first_stage(const struct walk *walk);
bool verify_last_stage(const struct walk *walk);
/* Local. Are the members of a declared group those of a family? Without a group (INSTR_ALL) it is
 * the rank alone. */
bool verify_group_is(const struct program *program, int group, enum group_family family);

/* Operands, flags, and the list an instruction stands in; fills in what is known of the rows. */
void verify_know_rows(struct known_row rows[INSTR_COUNT_]);
enum status verify_form(const struct walk *walk);

/* The lists that are no step, each instruction; then whether they do all they must. */
enum status verify_other_lists(struct walk *walk);
enum status verify_between(const struct walk *walk);
/* Local. What a forward program must not have, and only it may have. */
enum status verify_forward(const struct walk *walk);
/* Local. The stage that hands out, as the first program that does says; -1: none does. */
int verify_output_stage(const struct program *program);

/* Steps that overlap, and versions of the parameters: what the header says of them; how many steps
 * are walked, those that fill a pipeline left out. The micro-batch of the walk's instruction,
 * counted through all steps. Whether a pass reads the version that it must. */
enum status verify_ahead(const struct program *program);
int verify_ahead_steps(const struct program *program);
int verify_micro(const struct walk *walk);
enum status verify_version(struct walk *walk);

/* Replicas that train apart: what the header says of them; a bucket of what is averaged; in a step,
 * where the average stands, and that it is there; between steps, each instruction and the end of a
 * list. */
enum status verify_apart(const struct program *program);
enum rule verify_rule_of_apart(const struct walk *walk);
enum status verify_sum_average(struct walk *walk, struct verify_bucket *bucket);
enum status verify_average(struct walk *walk, struct verify_bucket *bucket, int index);
enum status verify_outer(struct walk *walk);
enum status verify_outer_done(const struct walk *walk);
enum status verify_mean(struct walk *walk);
enum status verify_mean_end(struct walk *walk, enum list_name list);

/* A choice of groups: per key (a stage, where each has its own) and replica the first one of its
 * group. */
enum { PROVE_CHOICES_RANKS = 4 };
struct verify_choice {
    int first[PROVE_CHOICES_RANKS];
};

/* Groups that are chosen: what the header says of them; in a step, where it asks and averages, that
 * a bucket of what is averaged; that losses go to the own pipeline, and that each bucket was
 * averaged. Every choice of groups of a small program, one after the other; false: no further one.
 */
bool verify_first_choice(const struct program *program, struct verify_choice *out);
bool verify_next_choice(const struct program *program, struct verify_choice *choice);
enum status verify_chosen_header(const struct program *program);
enum status verify_chosen(struct walk *walk);
enum status verify_average_chosen(struct walk *walk, struct verify_bucket *bucket);
enum status verify_told_own(const struct walk *walk);
enum status verify_chosen_done(struct walk *walk);

/* Slots: the facts of the columns "needs" and "gives", each micro-batch once, running statistics;
 * at the end all are free. */
enum status verify_slot(struct walk *walk);
enum status verify_slots_free(struct walk *walk);

/* Gradients: buffers written before they are read, each micro-batch exactly once, in order; of
 * ranks together. */
enum status verify_gradient(struct walk *walk);
enum status verify_clips(struct walk *walk); /* STEP, and CALL of it: all clip, or none does */
enum status verify_header_order(const struct verifier *verifier, const int64_t *samples);
enum status verify_ties(const struct verifier *verifier);

/* Frozen stages: what the header says of them; the instruction is none that they have not. Whether
 * the rank has a stage that is trained. */
enum status verify_frozen(const struct verifier *verifier);
enum status verify_not_frozen(const struct walk *walk);
bool verify_trains(const struct walk *walk);

/* The group of the instruction is all ranks that hold its stage, and there are several. */
enum status verify_replicas(const struct walk *walk, enum rule rule);

/* Parameters: gathered before they are read, freed once; a list ends as it began. */
enum status verify_kept(const struct verifier *verifier);
void verify_params_at_begin(struct walk *walk);
enum status verify_params(struct walk *walk);
enum status verify_params_at_end(const struct walk *walk);

/* Groups. The one of its family that the walk is in, as the choice has it, or -1; how many there
 * are.
 */
int verify_group_index(const struct walk *walk, int group);
int verify_group_count(const struct verifier *verifier, int group);
/* Waits (walk->waits) until what the instruction reads or writes is done; meets those who
 * share statistics; posts what is done later. */
enum status verify_await(struct walk *walk);
/* Behind the last instruction of a step: waits until all is done that the step must not leave under
 * way. */
enum status verify_await_step(struct walk *walk);
/* What the step leaves under way for the next one, as a key that does not depend on the order; 0:
 * nothing. */
uint64_t verify_left(const struct walk *walk);
/* Local. What the instruction has posted is under way on its buffers from now on. */
void verify_under_way(struct walk *walk, const struct pending *pending);
enum status verify_share(struct walk *walk);
enum status verify_post(struct walk *walk);
/* A bucket of a gradient buffer, counted through all chunks. */
struct verify_bucket *verify_bucket(struct walk *walk, int grad, int index);

/* Channels: messages are received in the order sent, by whom they are for. Posts a send or a
 * receive; whether what is pending on a channel is done; all that was sent was received. */
enum status verify_message(struct walk *walk);
enum status verify_peer(const struct walk *walk); /* operand p has the other stage */
bool verify_message_done(const struct verifier *verifier, const struct pending *pending);
/* What was received is taken out of the channel, which gives a credit back. */
enum status verify_take_message(struct walk *walk, const struct pending *pending);
enum status verify_all_received(const struct verifier *verifier);
int verify_other_stage(const struct instr *instr);

/* Calls. Posts CALL or SERVE and waits (walk->waits) until it is done; whether a pass stands behind
 * its SERVE; at the end of a body, and of all. */
bool verify_has_calls(const struct program *program);
enum status verify_call(struct walk *walk);
enum status verify_served(struct walk *walk);
enum status verify_calls_end(struct walk *walk);
enum status verify_all_served(const struct verifier *verifier);

/* Operations done in order. Whether the walk's instruction is one of them; the walk has posted it;
 * refuses the program where one is held up for ever. */
bool verify_is_ordered(const struct walk *walk);
void verify_order(struct walk *walk, const struct pending *pending);
enum status verify_none_held_up(const struct verifier *verifier);

/* Waiting. Whether what is pending is done; where it is not, the walk waits for it. Wakes a rank,
 * who waits at one end of a channel, or those that wait for a group. */
bool verify_done(const struct verifier *verifier, const struct pending *pending);
void verify_wait(struct walk *walk, const struct pending *pending);
void verify_wake(struct walk *walk);
void verify_wake_end(struct channel *channel, bool receiver);
void verify_wake_group(struct meeting_group *group);
/* Refuses the program for the first rank that waits for ever, if there is one. */
enum status verify_none_waits(const struct verifier *verifier);

#endif
