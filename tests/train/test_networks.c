/* Training of networks: every example learns, and a stopped run resumes to the same bits. */
#include "network/networks.h"
#include <bochner/train.h>
#include <ftw.h>
#include <unistd.h>

typedef struct subject {
    const char *name;
    size_t dim, classes;
    bool graph;
    double width; /* multiplier that keeps tests short */
    double falls; /* maximum of the final loss relative to the initial one */
} subject;

static const subject subjects[] = {
    {"mlp", 784, 3, false, 0.25, 0.2},
    {"cnn", 784, 3, false, 0.25, 0.3},
    {"graph", 6, 3, true, 0.5, 0.5},
    {"autoencoder", 12, 0, false, 0.25, 0.7},
    {"denoising", 784, 0, false, 0.25, 0.9},
    {"masked", 784, 0, false, 0.25, 0.95},
    {"random-features", 5, 0, false, 0.25, 0.7},
};

static bo_trainer_desc run_of(bo_model *network, const made *m, const subject *s, uint64_t steps)
{
    return (bo_trainer_desc){
        .model = network, .train.examples = m->examples, .batch = s->graph ? 0 : 12, .steps = steps, .seed = 3};
}

static bo_model *network_of(bo_context *context, const subject *s, const made *m)
{
    bo_model *network;
    char *text = example_text(s->name);
    const bo_description desc = {.text = text, .examples = m->examples, .width_multiplier = s->width, .seed = 7};
    assert_ok(context, bo_model_create_described(context, &desc, &network));
    free(text);
    return network;
}

static double loss_of(bo_context *context, const bo_model *network, const made *m)
{
    bo_examples_evaluation found;
    assert_ok(context, bo_model_evaluate_examples(context, network, m->examples, BO_SPLIT_ALL, &found));
    return found.loss;
}

static void test_learning(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        const subject *s = &subjects[i];
        made *m = made_new(context, s->dim, s->classes, s->graph);
        bo_model *network = network_of(context, s, m);
        const double before = loss_of(context, network, m);
        bo_trainer *trainer;
        const bo_trainer_desc desc = run_of(network, m, s, 40);
        assert_ok(context, bo_trainer_create(context, &desc, &trainer));
        assert_ok(context, bo_trainer_run(context, trainer));
        bo_trainer_destroy(trainer);
        const double after = loss_of(context, network, m);
        if (!(after < s->falls * before)) fail_msg("%s: the loss was %g and is %g", s->name, before, after);
        bo_model_destroy(network);
        made_free(m);
    }
    bo_context_destroy(context);
}

/* ---- resuming ---------------------------------------------------------------------------------------------------- */

static int remove_any(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about, (void)kind, (void)where;
    return remove(path);
}

/* Trains until step `stop` in a directory and returns the weights. */
static float *weights_after(bo_context *context, const subject *s, const made *m, const char *directory, uint64_t stop)
{
    bo_model *network = network_of(context, s, m);
    bo_trainer_desc desc = run_of(network, m, s, 8);
    bo_trainer *trainer;
    desc.directory = directory;
    desc.resume = true;
    desc.valid.examples = m->examples;
    assert_ok(context, bo_trainer_create(context, &desc, &trainer));
    while (stop--) assert_ok(context, bo_trainer_step(context, trainer, NULL));
    assert_ok(context, bo_trainer_checkpoint(context, trainer));
    bo_trainer_destroy(trainer);
    const size_t floats = bo_weights_floats(network->weights);
    float *kept = malloc(floats * sizeof *kept);
    memcpy(kept, bo_weights_data(network->weights), floats * sizeof *kept);
    bo_model_destroy(network);
    return kept;
}

static void test_resuming(void **state)
{
    static const size_t which[] = {1, 2, 5}; /* running means of BatchNorm, dropout of a graph, masks */
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
        const subject *s = &subjects[which[i]];
        made *m = made_new(context, s->dim, s->classes, s->graph);
        assert_ok(context, bo_examples_split(context, m->examples, 0.25, 0, 1));
        char whole[] = "/tmp/bochner-network-XXXXXX", cut[] = "/tmp/bochner-network-XXXXXX";
        assert_non_null(mkdtemp(whole));
        assert_non_null(mkdtemp(cut));
        float *expected = weights_after(context, s, m, whole, 8);
        free(weights_after(context, s, m, cut, 3));
        float *found = weights_after(context, s, m, cut, 5);
        bo_model *loaded, *fresh = network_of(context, s, m);
        if (memcmp(expected, found, bo_weights_floats(fresh->weights) * sizeof *found) != 0)
            fail_msg("%s: a resumed run has other weights", s->name);
        assert_ok(context, bo_model_load(context, &(bo_source){.path = cut}, NULL,
                                         &loaded)); /* the directory of a run is the directory of a network */
        assert_memory_equal(bo_weights_data(loaded->weights), found, bo_weights_floats(fresh->weights) * sizeof *found);
        bo_model_destroy(loaded);
        bo_model_destroy(fresh);
        free(expected), free(found);
        nftw(whole, remove_any, 8, FTW_DEPTH | FTW_PHYS);
        nftw(cut, remove_any, 8, FTW_DEPTH | FTW_PHYS);
        made_free(m);
    }
    bo_context_destroy(context);
}

static bo_status no_sum(void *user, double *values, size_t count)
{
    (void)user, (void)values, (void)count;
    return BO_IO;
}

static bo_status no_sum_f32(void *user, float *values, size_t count)
{
    (void)user, (void)values, (void)count;
    return BO_IO;
}

static void test_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const subject *graph = &subjects[2];
    made *m = made_new(context, graph->dim, graph->classes, true), *other = made_new(context, 5, 3, false);
    bo_model *network = network_of(context, graph, m);
    bo_trainer *trainer;
    bo_trainer_desc desc = run_of(network, m, graph, 4);
    desc.batch = 2;
    assert_fails(context, BO_INVALID, "expected 1, found 2", bo_trainer_create(context, &desc, &trainer));
    desc.batch = 0;
    desc.ranks = &(bo_collective){.size = 2, .sum = no_sum, .sum_f32 = no_sum_f32};
    assert_fails(context, BO_INVALID, "a single batch that cannot be divided: expected 1 rank, found 2",
                 bo_trainer_create(context, &desc, &trainer));
    desc.ranks = NULL;
    desc.train.examples = other->examples;
    assert_fails(context, BO_INVALID, "expects 6 numbers", bo_trainer_create(context, &desc, &trainer));
    desc.train.examples = NULL;
    assert_fails(context, BO_INVALID, "needs examples", bo_trainer_create(context, &desc, &trainer));
    bo_model_destroy(network);
    made_free(m), made_free(other);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_learning), cmocka_unit_test(test_resuming),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
