/* docs/models.md against the code: sizes and recipes, layers, kinds and initial values of
 * parameters. Rows are those that begin with a model's name, or a pattern of names, in back quotes.
 */
#include <criterion/criterion.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "model/model.h"

enum { CELLS = 11, CELL_BYTES = 320 };

struct row {
    int cells;
    char cell[CELLS][CELL_BYTES];
};

static struct bytes page;

static void read_page(void) {
    cr_assert_eq(file_read("docs/models.md", 1 << 20, &page), STATUS_OK);
}

static void free_page(void) {
    bytes_free(&page);
}

TestSuite(model_doc, .init = read_page, .fini = free_page);

/* The cells of a line "| a | b |", blanks around them cut. */
static struct row split(const char *line, const char *end) {
    struct row row = {0};
    while (line < end && row.cells < CELLS) {
        const char *first = line + 1 + strspn(line + 1, " ");
        const char *bar = memchr(line + 1, '|', (size_t)(end - line - 1));
        if (!bar) break;
        const char *last = bar;
        while (last > first && last[-1] == ' ') last--;
        snprintf(row.cell[row.cells++], CELL_BYTES, "%.*s", (int)(last > first ? last - first : 0),
                 first);
        line = bar;
    }
    return row;
}

/* The next row of `cells` cells that begins with a back quote; *at moves behind it. */
static bool next_row(const char **at, int cells, struct row *out) {
    for (const char *line = *at; *line;) {
        const char *end = strchrnul(line, '\n');
        *at = *end ? end + 1 : end;
        if (strncmp(line, "| `", 3) == 0) {
            *out = split(line, end);
            if (out->cells == cells) return true;
        }
        line = *at;
    }
    return false;
}

/* Whether a cell of patterns in back quotes has one for this name. */
static bool has_name(const char *cell, const char *name) {
    char pattern[CELL_BYTES];
    while ((cell = strchr(cell, '`'))) {
        const char *end = strchr(++cell, '`');
        cr_assert(end, "an open back quote in '%s'", cell);
        snprintf(pattern, sizeof pattern, "%.*s", (int)(end - cell), cell);
        if (fnmatch(pattern, name, 0) == 0) return true;
        cell = end + 1;
    }
    return false;
}

static struct graph *build(const struct model *model, int64_t channels, int64_t side) {
    struct model_config config = {
        .batch = 2, .training = true, .dropout = -1, .channels = channels, .height = side};
    struct graph *graph = NULL;
    cr_assert_eq(model_build(model, &config, &graph), STATUS_OK, "%s", model->name);
    return graph;
}

static void expect_number(const struct row *row, int cell, double value) {
    double written = *row->cell[cell] ? strtod(row->cell[cell], NULL) : 0; /* "none" is 0, too */
    cr_expect_eq(written, value, "%s, column %d: %s, the code has %g", row->cell[0], cell,
                 row->cell[cell], value);
}

Test(model_doc, sizes_and_recipes) {
    int count, found = 0;
    const struct model *all = model_all(&count);
    struct row row;
    for (const char *at = (const char *)page.data; next_row(&at, 11, &row); found++) {
        cr_assert(found < count && has_name(row.cell[0], all[found].name), "row %s",
                  row.cell[0]); /* in the order of the table */
        const struct model *model = &all[found];
        struct graph *graph = build(model, 0, 0);
        expect_number(&row, 1, model->depth);
        expect_number(&row, 2, model->width);
        expect_number(&row, 3, model->heads);
        expect_number(&row, 4, model->hidden);
        expect_number(&row, 5, (double)graph_param_elements(graph));
        expect_number(&row, 6, graph->param_count);
        cr_expect_str_eq(row.cell[7], model->optimizer);
        expect_number(&row, 8, model->lr);
        expect_number(&row, 9, model->weight_decay);
        expect_number(&row, 10, model->clip);
        graph_free(&graph);
    }
    cr_expect_eq(found, count);
    struct graph *mnist = build(model_find("lenet"), 1, 28);
    cr_expect_eq(graph_param_elements(mnist), 61706);
    cr_expect(strstr((const char *)page.data, "61,706 parameters on MNIST"));
    graph_free(&mnist);
}

/* What the forward nodes of a model say of its layers. */
struct layers {
    const char *norm;
    float epsilon, dropout;
    bool op[OP_COUNT];
};

static struct layers layers_of(const struct model *model) {
    struct graph *graph = build(model, 0, 0);
    struct layers layers = {.norm = "none"};
    for (int i = 0; i < graph->node_count; i++) {
        const struct node *node = &graph->nodes[i];
        layers.op[node->op] = true;
        if (node->op == OP_BATCH_NORM || node->op == OP_LAYER_NORM) {
            cr_expect(layers.epsilon == 0 || layers.epsilon == node->attrs.norm.epsilon);
            layers.norm = op_def(node->op)->name;
            layers.epsilon = node->attrs.norm.epsilon;
        }
        if (node->op == OP_DROPOUT) layers.dropout = node->attrs.dropout.probability;
        if (node->op == OP_ATTENTION)
            cr_expect_eq(node->attrs.attention.heads, model->heads, "%s", model->name);
    }
    graph_free(&graph);
    return layers;
}

static void expect_layers(const struct model *model, const struct row *row) {
    struct layers layers = layers_of(model);
    char said[64] = "";
    for (int i = ACTIVATION_NONE + 1; i < ACTIVATION_COUNT; i++) {
        size_t used = strlen(said);
        enum op op = op_of_activation((enum activation)i);
        if (layers.op[op])
            snprintf(said + used, sizeof said - used, "%s%s", used ? ", " : "", op_def(op)->name);
    }
    cr_expect_str_eq(row->cell[1], layers.norm, "%s", model->name);
    cr_expect_eq((float)strtod(row->cell[2], NULL), layers.epsilon, "%s: epsilon %s, not %g",
                 model->name, row->cell[2], (double)layers.epsilon);
    cr_expect_str_eq(row->cell[3], said, "%s", model->name);
    cr_expect_eq((float)strtod(row->cell[4], NULL), layers.dropout, "%s: dropout", model->name);
}

Test(model_doc, layers) {
    int count;
    const struct model *all = model_all(&count);
    for (int m = 0; m < count; m++) {
        struct row row;
        int found = 0;
        for (const char *at = (const char *)page.data; next_row(&at, 5, &row);) {
            if (!has_name(row.cell[0], all[m].name)) continue;
            expect_layers(&all[m], &row);
            found++;
        }
        cr_expect_eq(found, 1, "%s is in %d rows", all[m].name, found);
    }
}

/* An initial value as the page writes it. */
static const char *start_text(const struct graph *graph, const struct param *param,
                              const struct model *model, char *text, size_t room) {
    const struct shape *shape = &graph->values[param->value].type.shape;
    int64_t window = shape_span(shape, 2, shape->rank);
    double fan_out = (double)(shape->dim[0] * window);
    bool he = shape->rank == 4 && fabs(param->scale - sqrt(2 / fan_out)) < 1e-6;
    bool last = fabs(param->scale - 0.02 / sqrt(2.0 * model->depth)) < 1e-8;
    char scale[TEXT_BYTES];
    snprintf(scale, sizeof scale, last ? "0.02 / sqrt(2 depth)" : "%g", (double)param->scale);
    switch (param->init) {
    case INIT_ZERO: return "0";
    case INIT_ONE: return "1";
    case INIT_UNIFORM: return "uniform within 1/sqrt(fan in)";
    case INIT_NORMAL: snprintf(text, room, "normal, %s", he ? "sqrt(2 / fan out)" : scale); break;
    case INIT_NORMAL_PADDED: snprintf(text, room, "normal, %s; row 0 is 0", scale); break;
    case INIT_TRUNC_NORMAL: snprintf(text, room, "truncated normal, %s", scale); break;
    }
    return text;
}

/* The bound of a uniform: of a bias it is that of the weight before it. */
static void expect_bound(const struct graph *graph, int index) {
    const struct param *param = &graph->params[index];
    if (param->init != INIT_UNIFORM) return;
    const struct param *weight = param->class == PARAM_BIAS ? param - 1 : param;
    const struct shape *shape = &graph->values[weight->value].type.shape;
    double fan_in = (double)shape_span(shape, 1, shape->rank);
    cr_expect_float_eq(param->scale, 1 / sqrt(fan_in), 1e-6, "%s", param->name);
}

static void expect_param(const struct graph *graph, int index, const struct model *of) {
    static const char *const kinds[] = {"weight", "bias", "norm"};
    const struct param *param = &graph->params[index];
    const char *model = of->name;
    char start[64];
    struct row row;
    int found = 0;
    for (const char *at = (const char *)page.data; next_row(&at, 4, &row);) {
        if (!has_name(row.cell[0], model) || !has_name(row.cell[1], param->name)) continue;
        found++;
        cr_expect_str_eq(row.cell[2], kinds[param->class], "%s %s", model, param->name);
        cr_expect_str_eq(row.cell[3], start_text(graph, param, of, start, sizeof start), "%s %s",
                         model, param->name);
    }
    cr_expect_eq(found, 1, "%s: %s is in %d rows", model, param->name, found);
    expect_bound(graph, index);
}

Test(model_doc, parameters) {
    int count;
    const struct model *all = model_all(&count);
    for (int m = 0; m < count; m++) {
        struct graph *graph = build(&all[m], 0, 0);
        for (int p = 0; p < graph->param_count; p++) expect_param(graph, p, &all[m]);
        graph_free(&graph);
    }
}
