/* Models: functions that build graphs, one file a family, one row each in model.def. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "graph/graph.h"

struct dataset;
struct json_t;

/* What a model is told; the caller takes it from the data set and the options. 0 means "the model's
 * own". */
struct model_config {
    int64_t batch; /* samples of a micro-batch */
    bool training;
    int stats_ranks; /* ranks that share batch norm's statistics; 0 or 1: each its own */
    int64_t channels, height, width, classes;  /* images */
    int64_t features;                          /* numbers a row; 0: it is images */
    int64_t sequence, predictions, vocabulary; /* tokens */
    int64_t patch;
    float dropout; /* < 0: the model's own */
    float layer_norm_epsilon;
    int frozen;                 /* blocks, the first ones, that are not trained: graph/freeze.h */
    bool untie;                 /* of language models: the head is not the word embedding again */
    float smoothing;            /* of labels in the loss */
    const struct dataset *data; /* for models that were added; NULL: not known */
};

/* Kinds of input, a bit each; a model may read several. */
enum model_input {
    MODEL_IMAGES = 1,
    MODEL_FEATURES = 2,
    MODEL_MASKED_TOKENS = 4,
    MODEL_TEXT = 8,
    MODEL_INPUT_END = 16,
    MODEL_OWN = 16 /* of models that were added: whatever fields they name */
};

/* A kind of input: in words; the field that data sets of this kind alone have; the kind of
 * synthetic data; what to try. Of several kinds the first. */
struct model_reads {
    const char *what, *field, *synthetic, *example;
    const char *reader; /* a small model that reads it */
};
const struct model_reads *model_reads(unsigned input);

struct model {
    const char *name, *help;
    unsigned input; /* of enum model_input */
    int side;       /* of the images that its weights are mostly made for, in pixels; 0: none */
    /* Defaults of the family, shown by --help and used where the user says nothing. */
    const char *optimizer;
    double lr, weight_decay, clip; /* clip 0: none */
    void (*build)(struct graph *graph, const struct model_config *config,
                  const struct model *model);
    /* Free to each family: depth, width and so on. */
    int depth, width, heads, hidden;
    /* Its config.json, the caller's: see pretrained.h. NULL: it has none. */
    struct json_t *(*pretrained)(const struct model *model, const struct model_config *config);
    const char *data; /* its data set where --data does not say; NULL: the default of the option */
    const void *own;  /* of models that were added */
};

/* Local. By name; NULL when there is none. The whole table for lists and suggestions. */
const struct model *model_find(const char *name);
const struct model *model_all(int *count);
/* Local, any thread. Adds a row behind those of model.def, for the rest of the process; it is
 * copied, and what it points to stays. STATUS_USAGE for a name that is taken, or without room. */
enum status model_add(const struct model *model);
/* Local. The options of shape that act with this model, as typed; static. */
const char *model_acts(const struct model *model);

/* Local. Builds the forward graph with losses; the caller owns it. Misfits (image too small ...)
 * are logged: STATUS_USAGE. */
enum status model_build(const struct model *model, const struct model_config *config,
                        struct graph **out);

/* Local. Initial values of parameter `index` in plain order, keyed by seed, name and element; the
 * caller owns `out`. */
void model_init_param(const struct graph *graph, int index, uint64_t seed, float *out);

#endif
