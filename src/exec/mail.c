/* See mail.h. Rejected: copies straight from the sender's slot (its places would have to be told
 * one by one, and the slot kept until the receiver has read it), and a push into memory of the
 * receiver (the sender would need a credit before it may copy). */
#include "exec/mail.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "exec/places.h"
#include "exec/queues.h"

static int channel_count(const struct engine *engine) {
    return (plan_stages(engine->plan) - 1) * PHASE_COUNT;
}

/* --- opening --- */

enum status mail_open_plane(struct engine *engine) {
    const struct plan *plan = engine->plan;
    struct mail *mail = &engine->mail;
    if (!plan_mails(plan)) return STATUS_OK;
    if (plan_mails_by_plane(plan)) {
        mail->plane = engine->plane; /* NULL: devices do not reach one another, which was said */
        return STATUS_OK;
    }
    struct plane_config config = {.device = plan->device,
                                  .comm = engine->comm,
                                  .stream = engine->stream[STREAM_MOVE],
                                  .bytes = plan_mail_bytes(plan)};
    enum status status = plane_open("peer", &config, &mail->plane);
    mail->own = status == STATUS_OK;
    return status == STATUS_NO ? STATUS_OK : status;
}

static enum status open_box(struct engine *engine, int channel, struct mail_box *box) {
    const struct plan *plan = engine->plan;
    void *memory;
    box->places = plan_mail_places(plan, channel, &box->bytes);
    if (box->places == 0) return STATUS_OK;
    TRY(plane_alloc(engine->mail.plane, (size_t)box->places * box->bytes, "messages", &memory));
    box->memory = memory;
    box->place = MEM_ARRAY(struct mail_place, box->places);
    return STATUS_OK;
}

enum status mail_open(struct engine *engine) {
    struct mail *mail = &engine->mail;
    if (!mail->plane) return STATUS_OK;
    mail->box = MEM_ARRAY(struct mail_box, channel_count(engine) + 1);
    for (int c = 0; c < channel_count(engine); c++)
        if (engine->channel[c]) TRY(open_box(engine, c, &mail->box[c]));
    return STATUS_OK;
}

void mail_close(struct engine *engine) {
    struct mail *mail = &engine->mail;
    for (int c = 0; mail->box && c < channel_count(engine); c++) free(mail->box[c].place);
    free(mail->box);
    if (mail->own) plane_close(&mail->plane);
}

/* --- messages --- */

static struct mail_box *box_of(const struct engine *engine, const struct instr *instr) {
    return &engine->mail.box[instr_channel(instr)];
}

enum status mail_put(struct engine *engine, const struct instr *instr,
                     const struct comm_piece *pieces, int count) {
    struct device *device = engine->plan->device;
    struct mail_box *box = box_of(engine, instr);
    int at = (int)(box->count++ % (uint64_t)box->places);
    char *to = box->memory + (size_t)at * box->bytes;
    engine_posted(engine, instr)->number = (uint64_t)at;
    queues_follow(engine);
    for (int i = 0; i < count; i++) {
        TRY(device->backend->array_copy(device, to, pieces[i].data, pieces[i].bytes,
                                        engine->stream[STREAM_MOVE]));
        to += pieces[i].bytes;
    }
    return plane_offer(engine->mail.plane, box->memory + (size_t)at * box->bytes,
                       &box->place[at].offset);
}

struct comm_piece mail_piece(struct engine *engine, const struct instr *instr) {
    uint64_t at = engine_posted(engine, instr)->number;
    return (struct comm_piece){&box_of(engine, instr)->place[at], sizeof(struct mail_place)};
}

static int sender_of(const struct engine *engine, const struct instr *instr) {
    const struct run_config *config = &engine->plan->config;
    int channel = instr_channel(instr), stage = channel / PHASE_COUNT + channel % PHASE_COUNT;
    return grid_owner(&engine->plan->program->grid, stage, config->cell.first_replica);
}

enum status mail_take(struct engine *engine, const struct instr *instr, const void *from,
                      const struct comm_piece *pieces, int count) {
    const struct mail_place *place = from;
    int sender = sender_of(engine, instr);
    uint64_t at = place->offset;
    TRY(plane_follow(engine->mail.plane, sender));
    for (int i = 0; i < count; i++) {
        TRY(plane_fetch(engine->mail.plane, sender, at, (void *)(uintptr_t)pieces[i].data,
                        pieces[i].bytes));
        at += pieces[i].bytes;
    }
    return STATUS_OK;
}
