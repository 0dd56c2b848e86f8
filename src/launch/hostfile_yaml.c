/* See hostfile.h: the nodes file, read by the events of base/yaml.h. */
#include "launch/hostfile.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/yaml.h"

enum key { HOST, WORKERS, SERVERS, CHIEF, KEYS };
static const char *const key_names[KEYS] = {"host", "workers", "servers", "chief"};

struct reader {
    struct yaml_reader yaml;
    struct hostfile hosts;
    size_t capacity;
    int chiefs;
};

static enum status refuse(const struct reader *reader, const char *what) {
    return YAML_REFUSE(&reader->yaml, reader->yaml.event.start_mark,
                       "%s\n  a node is: - {host: w0, workers: 8, servers: 0, chief: true}", what);
}

static enum status advance(struct reader *reader) {
    return yaml_next(&reader->yaml);
}

static enum status expect(struct reader *reader, yaml_event_type_t type, const char *what) {
    TRY(advance(reader));
    return reader->yaml.event.type == type ? STATUS_OK : refuse(reader, what);
}

static const char *scalar(const struct reader *reader) {
    return (const char *)reader->yaml.event.data.scalar.value;
}

static enum status read_key(struct reader *reader, bool *seen, enum key *out) {
    char quoted[TEXT_QUOTED_BYTES], what[TEXT_QUOTED_BYTES + 64];
    int key = TEXT_FIND(scalar(reader), key_names);
    if (key < 0)
        snprintf(what, sizeof what, "%s: unknown key", text_quoted(scalar(reader), quoted));
    else
        snprintf(what, sizeof what, "%s was given already", key_names[key]);
    if (key < 0 || seen[key]) return refuse(reader, what);
    seen[key] = true;
    *out = (enum key)key;
    return STATUS_OK;
}

static enum status read_count(const struct reader *reader, int *out) {
    const char *text = scalar(reader);
    size_t length = strlen(text);
    long value = strtol(text, NULL, 10);
    if (length == 0 || length > 5 || strspn(text, "0123456789") != length ||
        value > HOSTFILE_MAX_SLOTS)
        return refuse(reader, "a number from 0 to 65536 was expected");
    *out = (int)value;
    return STATUS_OK;
}

static enum status read_flag(const struct reader *reader, bool *out) {
    const char *text = scalar(reader);
    bool yes = strcmp(text, "true") == 0;
    if (!yes && strcmp(text, "false") != 0) return refuse(reader, "chief is true or false");
    *out = yes;
    return STATUS_OK;
}

static enum status read_value(struct reader *reader, enum key key, struct hostfile_node *node) {
    bool chief = false;
    TRY(expect(reader, YAML_SCALAR_EVENT, "one value was expected"));
    if (key == WORKERS) return read_count(reader, &node->slots);
    if (key == SERVERS) return read_count(reader, &node->servers);
    if (key == CHIEF) {
        TRY(read_flag(reader, &chief));
        if (chief && reader->chiefs++) return refuse(reader, "a second chief");
        if (chief) reader->hosts.chief = reader->hosts.count;
        return STATUS_OK;
    }
    size_t length = reader->yaml.event.data.scalar.length;
    if (!hostfile_good_name(scalar(reader), length)) return refuse(reader, "not a host name");
    node->host = arena_text(&reader->hosts.arena, scalar(reader));
    return STATUS_OK;
}

static enum status add_node(struct reader *reader, const struct hostfile_node *node) {
    struct hostfile *hosts = &reader->hosts;
    if (!node->host) return refuse(reader, "a node without a host");
    for (int i = 0; i < hosts->count; i++) {
        if (strcmp(hosts->node[i].host, node->host) == 0)
            return refuse(reader, "a host that was named before");
    }
    if (hosts->count == HOSTFILE_MAX_NODES) return refuse(reader, "more than 8192 nodes");
    hosts->node =
        mem_grow(hosts->node, &reader->capacity, (size_t)hosts->count + 1, sizeof *hosts->node);
    hosts->node[hosts->count++] = *node;
    return STATUS_OK;
}

/* The event at hand is the start of a node's mapping. */
static enum status read_node(struct reader *reader) {
    struct hostfile_node node = {0};
    bool seen[KEYS] = {false};
    enum key key = HOST;
    for (;;) {
        TRY(advance(reader));
        if (reader->yaml.event.type == YAML_MAPPING_END_EVENT) return add_node(reader, &node);
        if (reader->yaml.event.type != YAML_SCALAR_EVENT)
            return refuse(reader, "a key was expected");
        TRY(read_key(reader, seen, &key));
        TRY(read_value(reader, key, &node));
    }
}

static enum status read_nodes(struct reader *reader) {
    TRY(expect(reader, YAML_SEQUENCE_START_EVENT, "nodes is a list"));
    for (;;) {
        TRY(advance(reader));
        if (reader->yaml.event.type == YAML_SEQUENCE_END_EVENT) break;
        if (reader->yaml.event.type != YAML_MAPPING_START_EVENT)
            return refuse(reader, "a node is a mapping");
        TRY(read_node(reader));
    }
    if (reader->hosts.count == 0) return refuse(reader, "nodes is empty");
    if (reader->chiefs != 1) return refuse(reader, "exactly one node must be chief: true");
    return hostfile_ranks_before(&reader->hosts, reader->hosts.count)
               ? STATUS_OK
               : refuse(reader, "no node has workers");
}

static enum status read_document(struct reader *reader) {
    TRY(expect(reader, YAML_STREAM_START_EVENT, "a document was expected"));
    TRY(expect(reader, YAML_DOCUMENT_START_EVENT, "a mapping with the key nodes was expected"));
    TRY(expect(reader, YAML_MAPPING_START_EVENT, "a mapping with the key nodes was expected"));
    TRY(expect(reader, YAML_SCALAR_EVENT, "the key nodes was expected"));
    if (strcmp(scalar(reader), "nodes") != 0) return refuse(reader, "the only key is nodes");
    TRY(read_nodes(reader));
    TRY(expect(reader, YAML_MAPPING_END_EVENT, "the only key is nodes"));
    TRY(expect(reader, YAML_DOCUMENT_END_EVENT, "one document was expected"));
    return expect(reader, YAML_STREAM_END_EVENT, "one document was expected");
}

enum status hostfile_parse_yaml(const char *name, const char *text, size_t bytes,
                                struct hostfile *out) {
    struct reader reader = {0};
    TRY(yaml_open(name, text, bytes, &reader.hosts.arena, &reader.yaml));
    enum status status = read_document(&reader);
    yaml_close(&reader.yaml);
    if (status == STATUS_OK)
        *out = reader.hosts;
    else
        hostfile_free(&reader.hosts);
    return status;
}
