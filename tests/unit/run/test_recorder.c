/* What a rank is doing, as its row of the status table has it. */
#include <criterion/criterion.h>
#include <string.h>

#include "run/recorder.h"

Test(run_recorder, a_position_reads_as_its_instruction) {
    struct control_row row = {0};
    struct recorder recorder = {.rank = 3, .row = &row};
    struct engine_observer observer = recorder_engine_observer(&recorder);
    struct instr instr = instr_make(INSTR_B);
    struct control_doing doing;
    instr.id = 17, instr.micro = 5, instr.grad = 1, instr.flags = INSTR_NEW;
    control_describe_records(recorder_describe_position);
    observer.starting(observer.context, &instr, 6, 1234);
    control_row_get(&row, &doing);
    cr_expect_str_eq(doing.text, "#17 r3 B s0 m5 a0 g1 new");
    cr_expect(doing.step == 7 && doing.since_ns == 1234, "steps count from 1");
}

/* Of a rank that was killed while it wrote. */
Test(run_recorder, a_record_of_no_instruction_is_empty) {
    char record[CONTROL_DOING_BYTES], text[CONTROL_DOING_BYTES] = "before";
    memset(record, 0xff, sizeof record);
    recorder_describe_position(record, text);
    cr_expect_str_empty(text);
}
