/* BERT with its two pre-training heads, under HF's names: post-norm blocks, exact GELU.
 *
 * The masked-word head runs on the masked positions alone (a seventh of the tokens): it ends in a
 * product with the whole vocabulary, which for small models is most of the work. Its decoder is the
 * word embedding again (tied). */
#include "model/layer.h"
#include "model/pretrained.h"

enum { BERT_POSITIONS = 512, BERT_SEGMENTS = 2 };
static const float bert_epsilon = 1e-12f, bert_deviation = 0.02f, bert_dropout = 0.1f;
static const char bert_words[] = "bert.embeddings.word_embeddings";

static int linear(struct graph *graph, const char *name, int x, int64_t out) {
    return layer_linear(graph, name, x, out, LAYER_NORMAL);
}

static int norm(struct graph *graph, const char *name, int x) {
    return layer_layer_norm(graph, name, x, bert_epsilon);
}

static int embeddings(struct graph *graph, const struct model_config *config, int64_t width,
                      float dropout) {
    struct shape tokens = SHAPE(config->batch, config->sequence);
    int ids = graph_input(graph, "input_ids", DTYPE_I32, tokens);
    int segments = graph_input(graph, "segment_ids", DTYPE_I32, tokens);
    int x = layer_embedding(graph, bert_words, ids, config->vocabulary, width, true);
    int place = layer_positions(graph, "bert.embeddings.position_embeddings", BERT_POSITIONS,
                                config->sequence, width);
    int segment = layer_embedding(graph, "bert.embeddings.token_type_embeddings", segments,
                                  BERT_SEGMENTS, width, false);
    x = graph_add(graph, "bert.embeddings.add1", x, segment);
    x = graph_add(graph, "bert.embeddings.add2", x, place);
    x = norm(graph, "bert.embeddings.LayerNorm", x);
    return graph_dropout(graph, "bert.embeddings.dropout", x, dropout);
}

static int attention(struct graph *graph, const char *name, int x, int mask, int heads,
                     float dropout) {
    int64_t width = graph_shape(graph, x).dim[2];
    int query = linear(graph, NAME("%s.self.query", name), x, width);
    int key = linear(graph, NAME("%s.self.key", name), x, width);
    int value = linear(graph, NAME("%s.self.value", name), x, width);
    int y = graph_attention(graph, NAME("%s.self", name), query, key, value, mask, heads, false,
                            dropout);
    y = linear(graph, NAME("%s.output.dense", name), y, width);
    y = graph_dropout(graph, NAME("%s.output.dropout", name), y, dropout);
    y = graph_add(graph, NAME("%s.output.add", name), y, x);
    return norm(graph, NAME("%s.output.LayerNorm", name), y);
}

static int block(struct graph *graph, const char *name, int x, int mask, const struct model *model,
                 float dropout) {
    x = attention(graph, NAME("%s.attention", name), x, mask, model->heads, dropout);
    int y = linear(graph, NAME("%s.intermediate.dense", name), x, model->hidden);
    y = graph_gelu(graph, NAME("%s.intermediate.gelu", name), y, false);
    y = linear(graph, NAME("%s.output.dense", name), y, model->width);
    y = graph_dropout(graph, NAME("%s.output.dropout", name), y, dropout);
    y = graph_add(graph, NAME("%s.output.add", name), y, x);
    return norm(graph, NAME("%s.output.LayerNorm", name), y);
}

/* tanh of a linear layer on the first token, [B,C]. */
static int pooler(struct graph *graph, int x, int64_t batch, int64_t width) {
    x = graph_slice(graph, "bert.pooler.first", x, 1, 0, 1);
    x = graph_reshape(graph, "bert.pooler.flatten", x, SHAPE(batch, width));
    x = linear(graph, "bert.pooler.dense", x, width);
    return graph_tanh(graph, "bert.pooler.tanh", x);
}

/* Scores of all words at the masked positions, [B,K,V]. */
static int masked_words(struct graph *graph, const struct model_config *config, int x,
                        int64_t width) {
    struct shape masked = SHAPE(config->batch, config->predictions);
    int index = graph_input(graph, "masked_positions", DTYPE_I32, masked);
    int bias = graph_param(graph, "cls.predictions.bias", SHAPE(config->vocabulary), PARAM_BIAS,
                           INIT_ZERO, 0);
    x = graph_gather_rows(graph, "cls.predictions.masked", x, index);
    x = linear(graph, "cls.predictions.transform.dense", x, width);
    x = graph_gelu(graph, "cls.predictions.transform.gelu", x, false);
    x = norm(graph, "cls.predictions.transform.LayerNorm", x);
    int words = config->untie ? graph_param(graph, "cls.predictions.decoder.weight",
                                            SHAPE(config->vocabulary, width), PARAM_WEIGHT,
                                            INIT_NORMAL, bert_deviation)
                              : graph_param_find(graph, NAME("%s.weight", bert_words));
    return graph_linear(graph, "cls.predictions.decoder", x, words, bias);
}

static void losses(struct graph *graph, const struct model_config *config, int words, int follows) {
    int masked =
        graph_input(graph, "masked_labels", DTYPE_I32, SHAPE(config->batch, config->predictions));
    int label = graph_input(graph, "next_sentence", DTYPE_I32, SHAPE(config->batch));
    graph_cross_entropy(graph, "masked_words", words, masked, config->smoothing, true);
    graph_cross_entropy(graph, "next_sentence", follows, label, config->smoothing, false);
}

void bert_build(struct graph *graph, const struct model_config *config, const struct model *model) {
    if (config->sequence > BERT_POSITIONS) {
        graph_misfit(graph, model->name,
                     "sequences of %ld tokens, there are %d positions\n  give --seq %d",
                     (long)config->sequence, BERT_POSITIONS, BERT_POSITIONS);
        return;
    }
    float dropout = layer_dropout(config, bert_dropout);
    graph_stem(graph);
    int x = embeddings(graph, config, model->width, dropout);
    int mask = graph_input(graph, "input_mask", DTYPE_I32, SHAPE(config->batch, config->sequence));
    for (int i = 0; i < model->depth; i++) {
        graph_next_block(graph);
        x = block(graph, NAME("bert.encoder.layer.%d", i), x, mask, model, dropout);
    }
    graph_next_block(graph);
    int pooled = pooler(graph, x, config->batch, model->width);
    int words = masked_words(graph, config, x, model->width);
    losses(graph, config, words, linear(graph, "cls.seq_relationship", pooled, 2));
}

json_t *bert_config(const struct model *model, const struct model_config *config) {
    double dropout = (double)layer_dropout(config, bert_dropout);
    return json_pack(
        "{s:s, s:[s], s:s, s:s, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:i}",
        "model_type", "bert", "architectures", "BertForPreTraining", "hidden_act", "gelu",
        "position_embedding_type", "absolute", "vocab_size", (json_int_t)config->vocabulary,
        "max_position_embeddings", BERT_POSITIONS, "type_vocab_size", BERT_SEGMENTS, "hidden_size",
        model->width, "num_hidden_layers", model->depth, "num_attention_heads", model->heads,
        "intermediate_size", model->hidden, "layer_norm_eps", (double)bert_epsilon,
        "initializer_range", 0.02, "hidden_dropout_prob", dropout, "attention_probs_dropout_prob",
        dropout, "pad_token_id", 0);
}
