/* See init.h. */
#include "launch/init.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "launch/hostfile.h"

static enum status refuse(const char *text, const char *why) {
    char quoted[TEXT_QUOTED_BYTES];
    return fail(STATUS_USAGE, "--init %s: %s\n  tcp://host:port, file:///shared/path or env://",
                text_quoted(text, quoted), why);
}

static bool parse_port(const char *text, int *out) {
    size_t length = strlen(text);
    long port = strtol(text, NULL, 10);
    if (length == 0 || length > 5 || strspn(text, "0123456789") != length || port < 1 ||
        port > 65535)
        return false;
    *out = (int)port;
    return true;
}

static bool good_host(const char *host, bool brackets) {
    if (brackets) return *host && strspn(host, "0123456789abcdefABCDEF:.") == strlen(host);
    return hostfile_good_name(host, strlen(host));
}

static enum status parse_tcp(const char *text, struct init *out) {
    const char *rest = text + strlen("tcp://"), *colon = strrchr(rest, ':');
    bool brackets = *rest == '[';
    if (!colon) return refuse(text, "the port is missing");
    if (!parse_port(colon + 1, &out->port))
        return refuse(text, "the port is a number from 1 to 65535");
    const char *begin = rest + brackets, *end = colon - brackets;
    if (end < begin || (size_t)(end - begin) >= sizeof out->host || (brackets && *end != ']'))
        return refuse(text, "not a host");
    snprintf(out->host, sizeof out->host, "%.*s", (int)(end - begin), begin);
    if (!good_host(out->host, brackets)) return refuse(text, "not a host");
    out->kind = INIT_TCP;
    return STATUS_OK;
}

static enum status parse_file(const char *text, struct init *out) {
    const char *path = text + strlen("file://");
    size_t length = strlen(path);
    if (*path != '/') return refuse(text, "the path must be absolute: file:///path");
    if (length >= sizeof out->path || path[length - 1] == '/')
        return refuse(text, "not the path of a file");
    snprintf(out->path, sizeof out->path, "%s", path);
    out->kind = INIT_FILE;
    return STATUS_OK;
}

/* Both, or the one that is missing is named. */
static enum status check_master(const char *host, const char *port) {
    if (!host && !port)
        return fail(STATUS_USAGE,
                    "--init env:// needs MASTER_ADDR and MASTER_PORT in the environment");
    if (!host || !port)
        return fail(STATUS_USAGE, "%s is set but %s is not\n  set both, or give --init",
                    host ? "MASTER_ADDR" : "MASTER_PORT", host ? "MASTER_PORT" : "MASTER_ADDR");
    return STATUS_OK;
}

static enum status parse_env(const struct launch_config *config, struct init *out) {
    const char *host = launch_variable(config, "MASTER_ADDR"),
               *port = launch_variable(config, "MASTER_PORT");
    char quoted[TEXT_QUOTED_BYTES];
    TRY(check_master(host, port));
    bool sixth = strchr(host, ':') != NULL;
    if (strlen(host) >= sizeof out->host || !good_host(host, sixth))
        return fail(STATUS_USAGE, "MASTER_ADDR is %s, not the name or address of a host",
                    text_quoted(host, quoted));
    if (!parse_port(port, &out->port))
        return fail(STATUS_USAGE, "MASTER_PORT is %s, not a port: a number from 1 to 65535",
                    text_quoted(port, quoted));
    snprintf(out->host, sizeof out->host, "%s", host);
    out->kind = INIT_TCP;
    return STATUS_OK;
}

bool init_is_exported(const struct launch_config *config) {
    return launch_variable(config, "MASTER_ADDR") || launch_variable(config, "MASTER_PORT");
}

struct launch_config init_by_hand(const struct launch_config *config) {
    struct launch_config own = *config;
    if (!own.init && init_is_exported(config)) own.init = "env://";
    return own;
}

enum status init_parse(const struct launch_config *config, struct init *out) {
    struct init init = {.kind = INIT_NONE};
    const char *text = config->init;
    if (text && strncmp(text, "tcp://", 6) == 0)
        TRY(parse_tcp(text, &init));
    else if (text && strncmp(text, "file://", 7) == 0)
        TRY(parse_file(text, &init));
    else if (text && strcmp(text, "env://") == 0)
        TRY(parse_env(config, &init));
    else if (text)
        return refuse(text, "an unknown kind of address");
    *out = init;
    return STATUS_OK;
}
