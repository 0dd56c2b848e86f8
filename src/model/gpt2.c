/* GPT-2 with its language head, under HF's names: pre-norm blocks, causal attention, the tanh form
 * of GELU.
 *
 * Its linear layers store their weights [inputs, outputs]. The head is the word embedding again
 * (tied). Projections that end in a residual start smaller, by the root of their number. */
#include <math.h>

#include "model/layer.h"
#include "model/pretrained.h"

enum { GPT2_POSITIONS = 1024 };
static const float gpt2_epsilon = 1e-5f, gpt2_deviation = 0.02f, gpt2_dropout = 0.1f;
static const char gpt2_words[] = "transformer.wte";

static int linear(struct graph *graph, const char *name, int x, int64_t out, float deviation) {
    int64_t in = graph_shape(graph, x).dim[2];
    int weight = graph_param(graph, NAME("%s.weight", name), SHAPE(in, out), PARAM_WEIGHT,
                             INIT_NORMAL, deviation);
    int bias = graph_param(graph, NAME("%s.bias", name), SHAPE(out), PARAM_BIAS, INIT_ZERO, 0);
    return graph_linear_across(graph, name, x, weight, bias);
}

static int embeddings(struct graph *graph, const struct model_config *config, int64_t width,
                      float dropout) {
    struct shape tokens = SHAPE(config->batch, config->sequence);
    int ids = graph_input(graph, "input_ids", DTYPE_I32, tokens);
    int x = layer_embedding(graph, gpt2_words, ids, config->vocabulary, width, false);
    int places = layer_positions(graph, "transformer.wpe", GPT2_POSITIONS, config->sequence, width);
    x = graph_add(graph, "transformer.add", x, places);
    return graph_dropout(graph, "transformer.drop", x, dropout);
}

static int attention(struct graph *graph, const char *name, int x, int heads, float last,
                     float dropout) {
    int64_t width = graph_shape(graph, x).dim[2];
    x = linear(graph, NAME("%s.c_attn", name), x, 3 * width, gpt2_deviation);
    x = graph_attention(graph, name, x, NO_VALUE, NO_VALUE, NO_VALUE, heads, true, dropout);
    x = linear(graph, NAME("%s.c_proj", name), x, width, last);
    return graph_dropout(graph, NAME("%s.resid_dropout", name), x, dropout);
}

static int mlp(struct graph *graph, const char *name, int x, int64_t hidden, float last,
               float dropout) {
    int64_t width = graph_shape(graph, x).dim[2];
    x = linear(graph, NAME("%s.c_fc", name), x, hidden, gpt2_deviation);
    x = graph_gelu(graph, NAME("%s.act", name), x, true);
    x = linear(graph, NAME("%s.c_proj", name), x, width, last);
    return graph_dropout(graph, NAME("%s.dropout", name), x, dropout);
}

static int block(struct graph *graph, const char *name, int x, const struct model *model,
                 float dropout) {
    float last = gpt2_deviation / sqrtf(2 * (float)model->depth);
    int y = layer_layer_norm(graph, NAME("%s.ln_1", name), x, gpt2_epsilon);
    y = attention(graph, NAME("%s.attn", name), y, model->heads, last, dropout);
    x = graph_add(graph, NAME("%s.add1", name), y, x);
    y = layer_layer_norm(graph, NAME("%s.ln_2", name), x, gpt2_epsilon);
    y = mlp(graph, NAME("%s.mlp", name), y, model->hidden, last, dropout);
    return graph_add(graph, NAME("%s.add2", name), y, x);
}

void gpt2_build(struct graph *graph, const struct model_config *config, const struct model *model) {
    if (config->sequence > GPT2_POSITIONS) {
        graph_misfit(graph, model->name,
                     "sequences of %ld tokens, there are %d positions\n  give --seq %d",
                     (long)config->sequence, GPT2_POSITIONS, GPT2_POSITIONS);
        return;
    }
    float dropout = layer_dropout(config, gpt2_dropout);
    graph_stem(graph);
    int x = embeddings(graph, config, model->width, dropout);
    for (int i = 0; i < model->depth; i++) {
        graph_next_block(graph);
        x = block(graph, NAME("transformer.h.%d", i), x, model, dropout);
    }
    graph_next_block(graph);
    x = layer_layer_norm(graph, "transformer.ln_f", x, gpt2_epsilon);
    int words = config->untie
                    ? graph_param(graph, "lm_head.weight", SHAPE(config->vocabulary, model->width),
                                  PARAM_WEIGHT, INIT_NORMAL, gpt2_deviation)
                    : graph_param_find(graph, NAME("%s.weight", gpt2_words));
    x = graph_linear(graph, "lm_head", x, words, NO_VALUE);
    int next = graph_input(graph, "next_ids", DTYPE_I32, SHAPE(config->batch, config->sequence));
    graph_cross_entropy(graph, "next_words", x, next, config->smoothing, true);
}

/* The token that ends a text is the last of OpenAI's vocabulary; others have none that is known. */
json_t *gpt2_config(const struct model *model, const struct model_config *config) {
    enum { OPENAI_WORDS = 50257 };
    double dropout = (double)layer_dropout(config, gpt2_dropout);
    json_t *root = json_pack(
        "{s:s, s:[s], s:s, s:I, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:b}",
        "model_type", "gpt2", "architectures", "GPT2LMHeadModel", "activation_function", "gelu_new",
        "vocab_size", (json_int_t)config->vocabulary, "n_positions", GPT2_POSITIONS, "n_embd",
        model->width, "n_layer", model->depth, "n_head", model->heads, "n_inner", model->hidden,
        "layer_norm_epsilon", (double)gpt2_epsilon, "initializer_range", (double)gpt2_deviation,
        "embd_pdrop", dropout, "attn_pdrop", dropout, "resid_pdrop", dropout, "scale_attn_weights",
        true);
    static const char *const ends[] = {"bos_token_id", "eos_token_id"};
    for (int i = 0; i < 2; i++)
        json_object_set_new(root, ends[i],
                            config->vocabulary == OPENAI_WORDS ? json_integer(OPENAI_WORDS - 1)
                                                               : json_null());
    return root;
}
