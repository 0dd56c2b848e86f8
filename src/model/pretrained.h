/* config.json: a model as Hugging Face's transformers describe it, so that from_pretrained loads
 * the folder of a run. */
#ifndef MODEL_PRETRAINED_H
#define MODEL_PRETRAINED_H

#include <jansson.h>

#include "model/model.h"

/* Local. The text of such a file; the caller frees it. NULL: transformers have no model of its
 * names. */
char *pretrained_config(const struct model *model, const struct model_config *config);

/* Of the families that have one, in their files: the object, the caller's. */
json_t *bert_config(const struct model *model, const struct model_config *config);
json_t *gpt2_config(const struct model *model, const struct model_config *config);

#endif
