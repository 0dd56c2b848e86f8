/* What words of other systems (fsdp, learning_rate, fp16) mean here: words.def, in answers of one
 * line. All local; the caller frees what is returned. */
#ifndef BASE_OPTION_WORD_H
#define BASE_OPTION_WORD_H

#include "base/option.h"

enum option_form {
    OPTION_FORM_ARGUMENT, /* --strategy zero3 */
    OPTION_FORM_KEY       /* strategy: zero3 */
};

/* The end of a message that refuses `name`, which is no option: "did you mean --strategy zero3?".
 * Options of the given commands alone count. NULL: the word is not known. */
char *option_word_answer(const char *name, unsigned commands, enum option_form form);
/* The same of a value that option `id` does not take; only its value where the answer is another
 * value of it: "did you mean zero3?". */
char *option_value_answer(enum option_id id, const char *value, enum option_form form);

#endif
