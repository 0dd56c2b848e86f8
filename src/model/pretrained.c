/* See pretrained.h. What transformers would take as a default is written all the same: defaults
 * change with their versions. */
#include "model/pretrained.h"

#include "base/log.h"

char *pretrained_config(const struct model *model, const struct model_config *config) {
    if (!model->pretrained) return NULL;
    json_auto_t *root = model->pretrained(model, config);
    CHECK(root, "%s: its config.json cannot be made", model->name);
    json_object_set_new(root, "tie_word_embeddings", json_boolean(!config->untie));
    json_object_set_new(root, "torch_dtype", json_string("float32"));
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(7));
    CHECK(text, "%s: its config.json is no JSON", model->name);
    return text;
}
