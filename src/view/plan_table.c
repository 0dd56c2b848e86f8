/* See plan_table.h. */
#include "view/plan_table.h"
#include "base/text.h"

void plan_table_print(const struct planned_search *search, FILE *out) {
    const struct planner_result *r = &search->result;
    fprintf(out, "rows %lld timed %d planned %lld too large %lld refused %lld bounded %lld\n",
            (long long)r->row_count, r->timed, (long long)r->planned, (long long)r->too_large,
            (long long)r->refused, (long long)r->bounded);
    for (int i = 0; i < r->timed && i < 30; i++) {
        const struct planner_row *row = &r->row[i];
        char a[TEXT_BYTES], b[TEXT_BYTES];
        fprintf(out, "%s %dx%d V%d M%d zero%d rec%d bal%d ord%d  %s %s bubble %.3f exp %.3f\n",
                planner_schedule_name(&row->choice), row->choice.stages, row->choice.replicas,
                row->choice.chunks, row->choice.micro_batches, row->choice.zero_stage,
                row->choice.recompute, row->choice.balance, row->choice.order,
                text_duration(row->step_ns * 1e-9, a), text_size(row->peak_bytes, b), row->bubble,
                row->exposed_ns / row->step_ns);
    }
}
void plan_table_json(const struct planned_search *search, FILE *out) {
    plan_table_print(search, out);
}
