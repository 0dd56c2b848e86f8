/* See pretrained.h. What transformers would take as a default is written all the same: defaults
 * change with their versions. */
#include "model/pretrained.h"

#include "base/log.h"

#define MODEL(name, builder, ...)                                                                  \
    void builder(struct graph *graph, const struct model_config *config, const struct model *model);
#include "model/model.def"
#undef MODEL

static const struct {
    void (*build)(struct graph *graph, const struct model_config *config,
                  const struct model *model);
    json_t *(*config)(const struct model *model, const struct model_config *config);
} families[] = {{bert_build, bert_config}, {gpt2_build, gpt2_config}};

char *pretrained_config(const struct model *model, const struct model_config *config) {
    json_t *root = NULL;
    for (size_t i = 0; i < sizeof families / sizeof families[0] && !root; i++)
        if (families[i].build == model->build) root = families[i].config(model, config);
    if (!root) return NULL;
    json_object_set_new(root, "tie_word_embeddings", json_true());
    json_object_set_new(root, "torch_dtype", json_string("float32"));
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(7));
    CHECK(text, "%s: its config.json is no JSON", model->name);
    json_decref(root);
    return text;
}
