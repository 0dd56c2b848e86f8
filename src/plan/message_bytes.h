/* What messages between ranks take. A part of plan.h, which includes it. */
#ifndef PLAN_MESSAGE_BYTES_H
#define PLAN_MESSAGE_BYTES_H

#include "plan/plan.h"

/* What goes with a message where steps overlap: losses and requests of the step; with gradients
 * also a time for each rank. What carries, instead of tensors, the place of a message from device
 * to device (exec/mail.h). */
enum { PLAN_NOTE_BYTES = 512, PLAN_PLACE_BYTES = 8 };
/* Messages of replicas that do not meet at the end of a step (exec/speakers.h). */
enum { PLAN_FINISHED_BYTES = 512, PLAN_VERDICT_BYTES = 64, PLAN_SPEAKER_CREDITS = 4 };

/* Local. The most bytes of a message over a cut, of any graph that a rank runs; what a rank sets
 * aside for the messages it receives, this one and those at a position. */
size_t plan_message_bytes(const struct plan *plan, int cut, enum phase phase);
/* Local. Likewise, what a replica tells of a mini-batch that it has finished. */
size_t plan_finished_bytes(const struct plan *plan);
size_t plan_channel_bytes(const struct plan *plan);
size_t plan_channel_bytes_at(const struct plan *plan, int position);
/* Local. Slots of the chunk of this rank that sends on a channel (instr_channel); 0: it does not.
 */
int plan_sending_slots(const struct plan *plan, int channel);
/* Local. Whether messages between stages go from device to device (exec/mail.h), and if so whether
 * in memory of the plan's plane. Places of a channel that this rank sends on, 0: none, and the
 * bytes of each; those of all its channels. */
bool plan_mails(const struct plan *plan);
bool plan_mails_by_plane(const struct plan *plan);
int plan_mail_places(const struct plan *plan, int channel, size_t *bytes);
size_t plan_mail_bytes(const struct plan *plan);

#endif
