/* See network.h. The route is found by connecting a datagram socket, which sends nothing and asks
 * the kernel's own table. */
#include "launch/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"

/* ---- the list ---- */

static const void *bytes_of(const struct sockaddr *address) {
    if (address->sa_family == AF_INET) return &((const struct sockaddr_in *)address)->sin_addr;
    return &((const struct sockaddr_in6 *)address)->sin6_addr;
}

static void add(struct network_list *list, const struct ifaddrs *entry) {
    int family = entry->ifa_addr ? entry->ifa_addr->sa_family : 0;
    if ((family != AF_INET && family != AF_INET6) || list->count == NETWORK_MAX) return;
    const void *bytes = bytes_of(entry->ifa_addr);
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)bytes)) return;
    struct network_address *item = &list->item[list->count++];
    *item = (struct network_address){.family = family,
                                     .up = entry->ifa_flags & IFF_UP,
                                     .loopback = entry->ifa_flags & IFF_LOOPBACK};
    snprintf(item->interface, sizeof item->interface, "%.15s", entry->ifa_name);
    inet_ntop(family, bytes, item->text, sizeof item->text);
}

enum status network_list(struct network_list *out) {
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0)
        return fail(STATUS_USAGE, "the network interfaces cannot be listed: %s", strerror(errno));
    out->count = 0;
    for (struct ifaddrs *entry = all; entry; entry = entry->ifa_next) add(out, entry);
    freeifaddrs(all);
    return STATUS_OK;
}

/* ---- rules ---- */

enum { RULE_BYTES = 64 };

/* A word of a comma list into `word`; false at the end. */
static bool next_word(const char **at, char word[RULE_BYTES]) {
    if (!**at) return false;
    size_t length = strcspn(*at, ",");
    snprintf(word, RULE_BYTES, "%.*s", (int)(length < RULE_BYTES ? length : RULE_BYTES - 1), *at);
    *at += length + ((*at)[length] == ',');
    return true;
}

/* "10.1.0.0/16"; false when it is none. */
static bool parse_subnet(const char *word, int *family, unsigned char bytes[16], int *bits) {
    char text[RULE_BYTES];
    const char *slash = strchr(word, '/');
    if (!slash || !slash[1] || strspn(slash + 1, "0123456789") != strlen(slash + 1) ||
        strlen(slash + 1) > 3)
        return false;
    snprintf(text, sizeof text, "%.*s", (int)(slash - word), word);
    *family = strchr(text, ':') ? AF_INET6 : AF_INET;
    *bits = (int)strtol(slash + 1, NULL, 10);
    return inet_pton(*family, text, bytes) == 1 && *bits <= (*family == AF_INET ? 32 : 128);
}

static bool in_subnet(const char *word, const struct network_address *address) {
    unsigned char net[16], own[16];
    int family, bits;
    if (!parse_subnet(word, &family, net, &bits) || family != address->family) return false;
    if (inet_pton(family, address->text, own) != 1) return false;
    int whole = bits / 8, rest = bits % 8;
    if (memcmp(net, own, (size_t)whole) != 0) return false;
    return rest == 0 || (net[whole] ^ own[whole]) >> (8 - rest) == 0;
}

/* In NCCL's manner one ^ or = at the front holds for the whole list. */
static const char *read_marks(const char *rule, bool *exclude, bool *exact) {
    *exclude = *rule == '^';
    rule += *exclude;
    *exact = *rule == '=';
    return rule + *exact;
}

enum status network_check_rule(const char *rule) {
    bool exclude, exact;
    char word[RULE_BYTES], quoted[TEXT_QUOTED_BYTES], part[TEXT_QUOTED_BYTES];
    unsigned char bytes[16];
    int family, bits, words = 0;
    const char *at = read_marks(rule, &exclude, &exact);
    for (bool good = true; next_word(&at, word); words++) {
        good = *word && (!strchr(word, '/') || parse_subnet(word, &family, bytes, &bits));
        if (!good)
            return fail(
                STATUS_USAGE,
                "--interface %s: %s is neither a name nor a subnet\n"
                "  eth0, eth (a prefix), =eth0 (exactly), ^docker,lo (all but these), 10.1.0.0/16",
                text_quoted(rule, quoted), *word ? text_quoted(word, part) : "an empty word");
    }
    return words ? STATUS_OK : fail(STATUS_USAGE, "--interface names nothing");
}

bool network_matches(const char *rule, const struct network_address *address) {
    bool exclude, exact, found = false;
    char word[RULE_BYTES];
    const char *at = read_marks(rule, &exclude, &exact);
    while (!found && next_word(&at, word)) {
        if (strchr(word, '/'))
            found = in_subnet(word, address);
        else
            found = exact ? strcmp(address->interface, word) == 0
                          : strncmp(address->interface, word, strlen(word)) == 0;
    }
    return found != exclude;
}

/* ---- choosing ---- */

/* Bridges to containers and virtual machines of this host lead nowhere else. */
static bool is_bridge(const char *interface) {
    return strncmp(interface, "docker", 6) == 0 || strncmp(interface, "virbr", 5) == 0;
}

static const struct network_address *first_of(const struct network_list *list, const char *rule,
                                              bool loopback) {
    for (int family = AF_INET; family; family = family == AF_INET ? AF_INET6 : 0) {
        for (int i = 0; i < list->count; i++) {
            const struct network_address *item = &list->item[i];
            if (item->family != family || !item->up) continue;
            if (rule ? network_matches(rule, item)
                     : item->loopback == loopback && !is_bridge(item->interface))
                return item;
        }
    }
    return NULL;
}

static const struct network_address *find_text(const struct network_list *list, const char *text) {
    for (int i = 0; i < list->count; i++) {
        if (strcmp(list->item[i].text, text) == 0) return &list->item[i];
    }
    return NULL;
}

/* "localhost" is loopback by its name (RFC 6761): a container may have no /etc/hosts to say so. */
static struct addrinfo *look_up(const char *host) {
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *found = NULL;
    if (strcmp(host, "localhost") == 0) host = "127.0.0.1";
    return getaddrinfo(host, "9", &hints, &found) == 0 ? found : NULL;
}

bool network_has_address(const char *host) {
    struct addrinfo *all = look_up(host);
    if (all) freeaddrinfo(all);
    return all != NULL;
}

static void text_of(const struct sockaddr *address, char text[NETWORK_TEXT_BYTES]) {
    inet_ntop(address->sa_family, bytes_of(address), text, NETWORK_TEXT_BYTES);
}

static const struct network_address *routed_to(const struct network_list *list, const char *peer) {
    const struct network_address *item = NULL;
    struct addrinfo *all = look_up(peer);
    for (struct addrinfo *one = all; one && !item; one = one->ai_next) {
        struct sockaddr_storage own;
        socklen_t length = sizeof own;
        char text[NETWORK_TEXT_BYTES];
        int fd = socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0) continue;
        if (connect(fd, one->ai_addr, one->ai_addrlen) == 0 &&
            getsockname(fd, (struct sockaddr *)&own, &length) == 0) {
            text_of((struct sockaddr *)&own, text);
            item = find_text(list, text);
        }
        close(fd);
    }
    if (all) freeaddrinfo(all);
    return item;
}

static enum status refuse_rule(const struct network_list *list, const char *rule) {
    char have[512] = "", quoted[TEXT_QUOTED_BYTES];
    for (int i = 0; i < list->count; i++) {
        size_t used = strlen(have);
        snprintf(have + used, sizeof have - used, "%s%s %s", i ? ", " : "", list->item[i].interface,
                 list->item[i].text);
    }
    return fail(STATUS_USAGE, "--interface %s: no address of this host fits\n  there are: %s",
                text_quoted(rule, quoted), have);
}

enum status network_choose(const struct network_list *list, const char *rule, const char *peer,
                           struct network_address *out, char why[NETWORK_WHY_BYTES]) {
    const struct network_address *item = NULL;
    if (rule) {
        TRY(network_check_rule(rule));
        item = first_of(list, rule, false);
        if (!item) return refuse_rule(list, rule);
        snprintf(why, NETWORK_WHY_BYTES, "--interface %.80s", rule);
    } else if (peer && (item = routed_to(list, peer)))
        snprintf(why, NETWORK_WHY_BYTES, "the route to %.80s", peer);
    else if ((item = first_of(list, NULL, false)))
        snprintf(why, NETWORK_WHY_BYTES, "the first interface that is up");
    else if ((item = first_of(list, NULL, true)))
        snprintf(why, NETWORK_WHY_BYTES, "no other interface is up");
    else
        return fail(STATUS_USAGE,
                    "no network interface is up, not even loopback\n  ip link set lo up");
    *out = *item;
    return STATUS_OK;
}

/* ---- is it me? ---- */

bool network_is_loopback(const char *host) {
    unsigned char bytes[16];
    static const unsigned char one[16] = {[15] = 1};
    if (strcmp(host, "localhost") == 0) return true;
    if (inet_pton(AF_INET, host, bytes) == 1) return bytes[0] == 127;
    return inet_pton(AF_INET6, host, bytes) == 1 && memcmp(bytes, one, sizeof one) == 0;
}

static bool is_own_name(const char *host) {
    char name[256] = "";
    if (gethostname(name, sizeof name - 1) != 0) return false;
    size_t short_name = strcspn(name, "."), short_host = strcspn(host, ".");
    bool cut = !name[short_name] || !host[short_host]; /* a short name means the long one */
    return strcmp(name, host) == 0 ||
           (cut && short_name == short_host && strncmp(name, host, short_name) == 0);
}

enum status network_own(const struct network_list *list, const char *host,
                        struct network_address *out) {
    const struct network_address *item = NULL;
    struct addrinfo *all = look_up(host);
    char text[NETWORK_TEXT_BYTES] = "";
    if (!all)
        return fail(STATUS_USAGE,
                    "%s: no address is known for this host name\n  give its address instead", host);
    for (struct addrinfo *one = all; one && !item; one = one->ai_next) {
        text_of(one->ai_addr, text);
        item = find_text(list, text);
    }
    freeaddrinfo(all);
    if (!item)
        return fail(STATUS_USAGE,
                    "%s (%s) is no address of this host\n  the first node must be the one that "
                    "--init or MASTER_ADDR names",
                    host, text);
    *out = *item;
    return STATUS_OK;
}

bool network_is_here(const char *host) {
    struct network_list list;
    bool here = is_own_name(host) || network_is_loopback(host);
    if (here || network_list(&list) != STATUS_OK) return here;
    struct addrinfo *all = look_up(host);
    for (struct addrinfo *one = all; one && !here; one = one->ai_next) {
        char text[NETWORK_TEXT_BYTES];
        text_of(one->ai_addr, text);
        here = find_text(&list, text) != NULL;
    }
    if (all) freeaddrinfo(all);
    return here;
}
