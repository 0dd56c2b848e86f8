/* See tally.h. */
#include "exec/tally.h"

#include <string.h>

void tally_samples(const struct runnable *runnable, const struct micro_batch *samples,
                   struct tally *tally) {
    tally->samples += (double)samples->samples;
    for (int i = 0; i < runnable->plan->graph->loss_count; i++)
        tally->labels[i] += (double)samples->label_count[runnable->label_field[i]];
}

/* What a forward pass told of a loss. */
static void add_loss(struct step *step, int index, const struct loss *loss,
                     const struct loss_told *told) {
    step->tally.loss[index] += told->sum;
    exact_add(&step->loss[index], told->sum);
    if (loss->top_k == NO_VALUE) return;
    step->tally.right1 += told->counts[0];
    step->tally.right5 += told->counts[1];
    step->tally.ranked += told->counts[2];
}

void tally_read(struct step *step) {
    for (int m = 0; m < step->micros; m++) {
        if (!step->noted[m]) continue;
        const struct graph *graph = step->noted[m]->plan->graph;
        for (int i = 0; i < graph->loss_count; i++)
            add_loss(step, i, &graph->losses[i], &step->read->told.loss[m][i]);
        step->noted[m] = NULL;
    }
}

enum status tally_note(struct engine *engine, const struct slot *slot, int index) {
    const struct graph *graph = slot->runnable->plan->graph;
    struct device *device = engine->plan->device;
    struct stream *stream = engine->stream[STREAM_COMPUTE];
    void *const *address = slot->runnable->slot[index].address;
    struct step *step = slot->step;
    tally_samples(slot->runnable, &step->batch->micro[slot->micro], &step->tally);
    for (int i = 0; i < graph->loss_count; i++) {
        struct loss_told *told = &step->told->loss[slot->micro][i];
        const struct loss *loss = &graph->losses[i];
        TRY(device->backend->array_copy(device, &told->sum, address[loss->sum], sizeof told->sum,
                                        stream));
        if (engine->apart)
            TRY(device->backend->array_sum(device, &told->sum, 1, &step->told->losses, stream));
        if (loss->top_k != NO_VALUE)
            TRY(device->backend->array_copy(device, told->counts, address[loss->top_k],
                                            sizeof told->counts, stream));
    }
    step->noted[slot->micro] = slot->runnable;
    return STATUS_OK;
}

double tally_loss(const struct tally *tally, int losses) {
    double sum = 0;
    for (int i = 0; i < losses; i++) {
        if (tally->labels[i] > 0) sum += tally->loss[i] / tally->labels[i];
    }
    return sum;
}

void tally_share(const struct step *step, struct step_share *out) {
    out->tally = step->tally;
    for (int i = 0; i < GRAPH_MAX_LOSSES; i++) {
        exact_split(&step->loss[i], LOSS_PARTS, out->loss[i]);
        out->tally.loss[i] = out->loss[i][0];
    }
}

void tally_sum(const struct step_share *shares, int ranks, struct tally *sum) {
    struct tally total = {0};
    for (int r = 0; r < ranks; r++) {
        double *to = (double *)&total;
        const double *from = (const double *)&shares[r].tally;
        for (size_t i = 0; i < sizeof total / sizeof(double); i++) to[i] += from[i];
    }
    for (int i = 0; i < GRAPH_MAX_LOSSES; i++) {
        struct exact_sum loss = {0};
        for (int r = 0; r < ranks; r++)
            for (int p = 0; p < LOSS_PARTS; p++) exact_add(&loss, shares[r].loss[i][p]);
        total.loss[i] = exact_total(&loss);
    }
    *sum = total;
}
