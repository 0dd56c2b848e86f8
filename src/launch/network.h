/* The networks of this host, and which one to use. Local; names of other hosts are looked up, which
 * may block. */
#ifndef LAUNCH_NETWORK_H
#define LAUNCH_NETWORK_H

#include <stdbool.h>

#include "base/status.h"

enum {
    NETWORK_TEXT_BYTES = 64,
    NETWORK_NAME_BYTES = 16,
    NETWORK_MAX = 256,
    NETWORK_WHY_BYTES = 160
};

struct network_address {
    char interface[NETWORK_NAME_BYTES];
    char text[NETWORK_TEXT_BYTES]; /* "10.0.0.5", "fd00::5" */
    int family;                    /* AF_INET, AF_INET6 */
    bool up, loopback;
};
struct network_list {
    int count;
    struct network_address item[NETWORK_MAX];
};

/* The addresses of this host; link-local ones are left out, since they need a scope. */
enum status network_list(struct network_list *out);

/* Pure. Whether --interface means this address. A rule is a comma list of prefixes of names
 * ("eth,ib0"); ^ in front excludes them, = means the whole name; "10.1.0.0/16" is a subnet. */
enum status network_check_rule(const char *rule);
bool network_matches(const char *rule, const struct network_address *address);

/* The address to use, and why in words. With a rule: the first that matches, IPv4 first. Without:
 * the one that routes to `peer` (a host name or address, NULL: none); else the first that is up and
 * not loopback; else loopback. */
enum status network_choose(const struct network_list *list, const char *rule, const char *peer,
                           struct network_address *out, char why[NETWORK_WHY_BYTES]);

/* Whether a name or address is this host's; loopback counts. */
bool network_is_here(const char *host);
/* Whether a name has an address, or is one. */
bool network_has_address(const char *host);
/* Whether a name or address is loopback's, without asking anybody: "localhost", 127.0.0.0/8, ::1.
 */
bool network_is_loopback(const char *host);
/* The address of `host` that is one of `list`, for binding to it; STATUS_USAGE when it is
 * another's. */
enum status network_own(const struct network_list *list, const char *host,
                        struct network_address *out);

#endif
