/* What messages between ranks take: tensors over the cuts of the model, calls of a driver. */
#include <string.h>

#include "comm/comm.h"
#include "plan/plan.h"

size_t plan_message_bytes(const struct plan *plan, int cut, enum phase phase) {
    size_t most = 0;
    for (int i = 0; i < plan->micro_count; i++) {
        size_t bytes = plan->micro[i].crossing[cut * PHASE_COUNT + phase].bytes;
        if (!plan_runs(plan, &plan->micro[i])) continue;
        if (bytes > most) most = bytes;
    }
    if (most > 0 && most < PLAN_PLACE_BYTES) most = PLAN_PLACE_BYTES;
    size_t note = PLAN_NOTE_BYTES;
    if (phase == PHASE_BACKWARD) note += (size_t)plan->config.ranks * sizeof(double);
    return plan->program->ahead > 0 ? most + note : most;
}

size_t plan_finished_bytes(const struct plan *plan) {
    return PLAN_FINISHED_BYTES + (size_t)plan->config.grid.stages * sizeof(double);
}

/* Replicas that do not meet: their first ranks tell rank 0, which answers them. All first ranks
 * count what rank 0 takes. */
static size_t speaking_bytes(const struct plan *plan, int position) {
    int others = group_count(&plan->config.grid, GROUP_PIPELINE) - 1;
    if (!program_reports_apart(plan->program) || position != 0 || others == 0) return 0;
    return (size_t)others * comm_channel_bytes(plan_finished_bytes(plan), PLAN_SPEAKER_CREDITS) +
           comm_channel_bytes(PLAN_VERDICT_BYTES, PLAN_SPEAKER_CREDITS);
}

/* At the sender: of rank 0 the answers, of the others one channel; the more of both. */
static size_t speaking_sent(const struct plan *plan, const char *name) {
    int others = group_count(&plan->config.grid, GROUP_PIPELINE) - 1;
    bool speaks = program_reports_apart(plan->program) && plan->config.cell.position == 0;
    if (!name || !speaks || others == 0) return 0;
    bool same_host = !plan->config.spread;
    return (size_t)others * comm_channel_overhead(name, COMM_SENDER, same_host, PLAN_VERDICT_BYTES,
                                                  PLAN_SPEAKER_CREDITS) +
           comm_channel_overhead(name, COMM_SENDER, same_host, plan_finished_bytes(plan),
                                 PLAN_SPEAKER_CREDITS);
}

size_t plan_channel_bytes_at(const struct plan *plan, int position) {
    const struct grid *grid = &plan->config.grid;
    size_t bytes = 0;
    for (int cut = 0; cut < plan_stages(plan) - 1; cut++) {
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            int receiver = grid_position(grid, phase == PHASE_FORWARD ? cut + 1 : cut);
            if (receiver == position)
                bytes += comm_channel_bytes(plan_message_bytes(plan, cut, (enum phase)phase),
                                            plan->program->credits);
        }
    }
    bool called = position >= 0 && grid->drivers > 0;
    if (called) bytes += comm_channel_bytes(PROGRAM_CALL_BYTES, plan->program->credits);
    return bytes + speaking_bytes(plan, position);
}

size_t plan_channel_bytes(const struct plan *plan) {
    return plan_channel_bytes_at(plan, plan->config.cell.position);
}

/* What messages take at their sender: copies of those on their way. */
static size_t sender_bytes(const struct plan *plan, const char *name) {
    const struct grid *grid = &plan->config.grid;
    size_t bytes = 0;
    for (int i = 0; name && i < (plan_stages(plan) - 1) * PHASE_COUNT; i++) {
        int cut = i / PHASE_COUNT, phase = i % PHASE_COUNT;
        int sender = grid_position(grid, phase == PHASE_FORWARD ? cut : cut + 1);
        if (sender != plan->config.cell.position) continue;
        bytes += comm_channel_overhead(name, COMM_SENDER, !plan->config.spread,
                                       plan_message_bytes(plan, cut, (enum phase)phase),
                                       plan->program->credits);
    }
    for (int p = 0; name && plan->config.cell.role == GRID_DRIVER && p < grid->stages; p++)
        bytes += comm_channel_overhead(name, COMM_SENDER, !plan->config.spread, PROGRAM_CALL_BYTES,
                                       plan->program->credits);
    return bytes + speaking_sent(plan, name);
}

int plan_sending_slots(const struct plan *plan, int channel) {
    int stage = channel / PHASE_COUNT + channel % PHASE_COUNT;
    for (int c = 0; c < plan->chunk_count; c++)
        if (plan->chunk[c].stage == stage) return plan->sizes[c].slots;
    return 0;
}

/* --- from device to device --- */

bool plan_mails(const struct plan *plan) {
    return plan->plane && !plan->config.spread && plan->config.grid.stages > 1;
}

bool plan_mails_by_plane(const struct plan *plan) {
    return plan_mails(plan) && strcmp(plan->plane, "peer") == 0;
}

int plan_mail_places(const struct plan *plan, int channel, size_t *bytes) {
    enum { ALIGN = 64 };
    size_t message =
        plan_message_bytes(plan, channel / PHASE_COUNT, (enum phase)(channel % PHASE_COUNT));
    int slots = plan_sending_slots(plan, channel);
    *bytes = (message + ALIGN - 1) / ALIGN * ALIGN;
    return slots > 0 && message > 0 ? slots + plan->program->credits : 0;
}

size_t plan_mail_bytes(const struct plan *plan) {
    size_t sum = 0, bytes;
    for (int c = 0; plan_mails(plan) && c < (plan_stages(plan) - 1) * PHASE_COUNT; c++)
        sum += (size_t)plan_mail_places(plan, c, &bytes) * bytes;
    return sum;
}

void plan_use_comm(struct plan *plan, const char *name) {
    plan->comm = name;
    plan->memory.comm = name ? comm_overhead_bytes(name, plan->config.ranks) : 0;
    plan->memory.comm += plan_channel_bytes(plan) + sender_bytes(plan, name);
}
