/* Deep polynomials: twenty layers of one degree, as MLP and as mixer, without any activation function, are trained
 * without divergence. The total degree is the 40th power of a layer's degree. */
#include "nn/enums.h"
#include "runs.h"

enum { DEEP = 20, STEPS = 60 };

/* Trains the model. Every loss is finite and none is far above the first. Returns the mean of the last ten. */
static double trained_loss(runs *r, const char *name, const bo_model_desc *model_desc, double *first)
{
    bo_model *model = runs_model_of(r, model_desc);
    bo_trainer_desc desc = runs_trainer(r, model, NULL);
    bo_trainer *trainer;
    double loss = 0, sum = 0;
    desc.steps = STEPS, desc.valid.corpus = NULL, desc.eval_every = 0;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    for (int step = 0; step < STEPS; step++) {
        if (bo_trainer_step(r->context, trainer, &loss) != BO_OK)
            fail_msg("%s: step %d: %s", name, step, bo_context_error(r->context));
        if (step == 0) *first = loss;
        if (!(loss < *first + 0.5))
            fail_msg("%s: the loss of step %d is %g, that of the first was %g", name, step, loss, *first);
        if (step >= STEPS - 10) sum += loss / 10;
    }
    bo_trainer_destroy(trainer);
    bo_model_destroy(model);
    return sum;
}

static void twenty_layers_train(void **state)
{
    static const struct {
        bo_mixer mixer;
        bo_mlp mlp;
    } degrees[] = {{BO_MIXER_DEGREE_2, BO_MLP_DEGREE_2},
                   {BO_MIXER_DEGREE_3, BO_MLP_DEGREE_3},
                   {BO_MIXER_DEGREE_4, BO_MLP_DEGREE_4},
                   {BO_MIXER_DEGREE_E, BO_MLP_DEGREE_E}};
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++) {
        bo_model_desc desc = {.layers = DEEP, .width = 16, .block.heads = 2, .context = 16, .vocab = 256, .seed = 3};
        double first, last;
        desc.block.mixer = degrees[i].mixer, desc.block.mlp = degrees[i].mlp, desc.block.degree_heads = 1 + i % 2;
        last = trained_loss(*state, bo_mixer_name(desc.block.mixer), &desc, &first);
        if (!(last < first - 2))
            fail_msg("%s: the loss went from %g to %g", bo_mixer_name(desc.block.mixer), first, last);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(twenty_layers_train, runs_setup, runs_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
