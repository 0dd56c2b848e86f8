/* A NaN or an infinity in any parameter of any model stops the step, and the message names it. No
 * activation may swallow it on the way to the loss, and what no sample's loss depends on is found
 * by the optimizer. One run serves all parameters of its model: what is left behind in the
 * optimizer's state (by infinities, which therefore come last) is of a parameter that was named
 * already. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "exec/state.h"
#include "kit.h"
#include "model/model.h"

enum { SOME = 8 }; /* parameters of a model, spread over its depth */

static struct kit_run *open_model(const struct model *model, const char *device) {
    const char *data = model->input & MODEL_IMAGES
                           ? "synthetic:count=40,test_count=8,channels=3,size=32,classes=10"
                           : "synthetic:count=40,test_count=8,seq=16,predictions=3,vocab=100";
    return kit_open("--model %s --data %s --device %s --threads 1 --batch 2 --steps 9 --warmup 0",
                    model->name, data, device);
}

static void check(struct kit_run *run, const char *model, const char *name, int64_t at,
                  float value) {
    char said[1024] = "";
    struct step_result result;
    int64_t count;
    float *before = kit_param(run, name, &count);
    if (at < 0) at = count / 2;
    kit_set_param(run, name, at, value);
    log_capture(said, sizeof said);
    enum status status = engine_step(run->engine, &result);
    log_capture(NULL, 0);
    cr_expect_eq(status, STATUS_NUMERIC, "%s: %s[%lld] = %g trains on", model, name, (long long)at,
                 (double)value);
    cr_expect(strstr(said, name) && strstr(said, "read by"), "%s: %s is not named: %s", model, name,
              said);
    engine_seek(run->engine, 0, NULL);
    kit_set_param(run, name, at, before[at]);
    free(before);
}

static void check_model(const struct model *model, const char *device) {
    struct kit_run *run = open_model(model, device);
    const struct state_layout *store = engine_store(run->engine)->layout;
    int step = (store->param_count + SOME - 1) / SOME;
    kit_steps(run, 1); /* nothing is wrong yet */
    for (int p = 0; p < store->param_count; p += step)
        check(run, model->name, store->params[p].name, -1, NAN);
    const char *ends[] = {store->params[0].name, store->params[1].name,
                          store->params[store->param_count - 1].name};
    for (int i = 0; i < 3; i++) {
        check(run, model->name, ends[i], 0, INFINITY);
        check(run, model->name, ends[i], 0, -INFINITY);
    }
    kit_close(&run);
}

/* The thread sanitizer takes more than ten minutes for all of them: it has the smallest. */
#ifdef __SANITIZE_THREAD__
enum { MOST_OF_IMAGES = 4, MOST_OF_TOKENS = 1 };
#else
enum { MOST_OF_IMAGES = 1000, MOST_OF_TOKENS = 1000 };
#endif

static void check_models(bool images) {
    int count, left = images ? MOST_OF_IMAGES : MOST_OF_TOKENS;
    const struct model *models = model_all(&count);
    for (int i = 0; i < count; i++)
        if (images == !!(models[i].input & MODEL_IMAGES) && left-- > 0)
            check_model(&models[i], "cpu");
}

Test(exec_not_finite, in_any_parameter_of_any_model_of_images) {
    check_models(true);
}

Test(exec_not_finite, in_any_parameter_of_any_model_of_tokens) {
    check_models(false);
}

Test(exec_not_finite, in_the_reference) {
    check_model(model_find("mlp"), "ref");
}
