/* JSON written by hand where a line or an event is made in the step loop: no tree, no allocation.
 */
#ifndef RECORD_PUT_JSON_H
#define RECORD_PUT_JSON_H

#include <stdio.h>

/* Local. A quoted string, escaped; NULL is null. Bytes are taken to be UTF-8. */
void put_json_text(FILE *stream, const char *text);
/* Local. The shortest decimal that reads back as the same double; not finite is null. */
void put_json_number(FILE *stream, double value);

#endif
