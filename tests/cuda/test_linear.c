/* Linear attention on a device in bfloat16, compared with the CPU on the same rounded inputs: outputs, gradients,
 * states, and the bits of earlier tokens. */
#include "trials.h"

static const trial trials[] = {
    {.name = "favor", .preset = "favor", .heads = 2, .key_heads = 2, .features = 128, .sequences = 1, .lengths = {200}},
    {.name = "favor, several sequences, grouped",
     .preset = "favor",
     .heads = 4,
     .key_heads = 2,
     .features = 128,
     .sequences = 3,
     .lengths = {70, 1, 130}},
    {.name = "favor, not causal",
     .preset = "favor",
     .heads = 2,
     .key_heads = 1,
     .features = 128,
     .sequences = 2,
     .lengths = {65, 90},
     .everywhere = true},
    {.name = "favor, decay",
     .preset = "favor",
     .heads = 2,
     .key_heads = 2,
     .features = 128,
     .sequences = 1,
     .lengths = {150},
     .gate = BO_GATE_DECAY},
    {.name = "hyperbolic",
     .preset = "favor",
     .heads = 2,
     .key_heads = 2,
     .features = 128,
     .sequences = 1,
     .lengths = {100},
     .function = BO_FUNCTION_HYPERBOLIC},
    {.name = "rfa", .preset = "rfa", .heads = 2, .key_heads = 2, .features = 128, .sequences = 1, .lengths = {140}},
    {.name = "rfa-gate",
     .preset = "rfa-gate",
     .heads = 2,
     .key_heads = 1,
     .features = 128,
     .sequences = 2,
     .lengths = {129, 64}},
    {.name = "linear", .preset = "linear", .heads = 2, .key_heads = 2, .features = 0, .sequences = 1, .lengths = {190}},
    {.name = "retention",
     .preset = "retention",
     .heads = 2,
     .key_heads = 2,
     .features = 0,
     .sequences = 1,
     .lengths = {190}},
    {.name = "favor, other sizes",
     .preset = "favor",
     .heads = 2,
     .key_heads = 2,
     .features = 24,
     .sequences = 1,
     .lengths = {50},
     .dim = 16,
     .value_dim = 24},
    {.name = "dark", .preset = "dark", .heads = 2, .key_heads = 2, .features = 128, .sequences = 1, .lengths = {200}},
    {.name = "dark, several sequences, grouped, convex gates",
     .preset = "dark",
     .heads = 4,
     .key_heads = 2,
     .features = 128,
     .sequences = 3,
     .lengths = {70, 1, 130},
     .gate = BO_GATE_CONVEX},
    {.name = "dark, not causal",
     .preset = "dark",
     .heads = 2,
     .key_heads = 1,
     .features = 64,
     .sequences = 2,
     .lengths = {65, 90},
     .everywhere = true},
    {.name = "hedgehog",
     .preset = "hedgehog",
     .heads = 2,
     .key_heads = 2,
     .features = 128,
     .sequences = 1,
     .lengths = {150}},
    {.name = "hedgehog, several sequences, grouped, one side",
     .preset = "hedgehog",
     .heads = 4,
     .key_heads = 1,
     .features = 128,
     .sequences = 2,
     .lengths = {140, 33},
     .one_side = true},
    {.name = "t2r", .preset = "t2r", .heads = 2, .key_heads = 1, .features = 64, .sequences = 1, .lengths = {700}},
};
enum { TRIALS = sizeof trials / sizeof *trials };

/* Shapes of the kernels with features in memory: several segments of 256 tokens, tiles of features, values and rows
 * that are not full, maps of one and of several warps per row; and shapes one past their limits. */
static const trial shapes[] = {
    {.name = "favor, 256 features",
     .preset = "favor",
     .heads = 2,
     .key_heads = 1,
     .features = 256,
     .sequences = 1,
     .lengths = {600}},
    {.name = "favor, 512 features, 80 dimensions",
     .preset = "favor",
     .heads = 1,
     .key_heads = 1,
     .features = 512,
     .sequences = 2,
     .lengths = {280, 40},
     .dim = 80,
     .value_dim = 96},
    {.name = "rfa, 512 features, 128 dimensions",
     .preset = "rfa",
     .heads = 1,
     .key_heads = 1,
     .features = 512,
     .sequences = 1,
     .lengths = {300},
     .dim = 128,
     .value_dim = 128},
    {.name = "rfa-gate, 32 features, 32 dimensions",
     .preset = "rfa-gate",
     .heads = 4,
     .key_heads = 2,
     .features = 32,
     .sequences = 3,
     .lengths = {513, 1, 256},
     .dim = 32,
     .value_dim = 32},
    {.name = "rfa-gate, 256 features, 96 and 256 dimensions",
     .preset = "rfa-gate",
     .heads = 1,
     .key_heads = 1,
     .features = 256,
     .sequences = 1,
     .lengths = {310},
     .dim = 96,
     .value_dim = 256},
    {.name = "favor, decay, 192 features, 40 and 72 dimensions",
     .preset = "favor",
     .heads = 2,
     .key_heads = 2,
     .features = 192,
     .sequences = 1,
     .lengths = {520},
     .gate = BO_GATE_DECAY,
     .dim = 40,
     .value_dim = 72},
    {.name = "favor, convex gates, 64 features, 256 and 160 dimensions",
     .preset = "favor",
     .heads = 2,
     .key_heads = 1,
     .features = 64,
     .sequences = 1,
     .lengths = {290},
     .gate = BO_GATE_CONVEX,
     .dim = 256,
     .value_dim = 160},
    {.name = "hyperbolic, 512 features, not causal",
     .preset = "favor",
     .heads = 2,
     .key_heads = 1,
     .features = 512,
     .sequences = 2,
     .lengths = {265, 30},
     .everywhere = true,
     .function = BO_FUNCTION_HYPERBOLIC},
    {.name = "dark, 256 features, convex gates",
     .preset = "dark",
     .heads = 2,
     .key_heads = 1,
     .features = 256,
     .sequences = 2,
     .lengths = {300, 20},
     .gate = BO_GATE_CONVEX},
    {.name = "linear, 128 dimensions",
     .preset = "linear",
     .heads = 2,
     .key_heads = 1,
     .sequences = 1,
     .lengths = {520},
     .dim = 128,
     .value_dim = 64},
    {.name = "favor, 520 features",
     .preset = "favor",
     .heads = 1,
     .key_heads = 1,
     .features = 520,
     .sequences = 1,
     .lengths = {70}},
    {.name = "favor, 36 features, 20 dimensions",
     .preset = "favor",
     .heads = 1,
     .key_heads = 1,
     .features = 36,
     .sequences = 1,
     .lengths = {70},
     .dim = 20,
     .value_dim = 36},
    {.name = "favor, 264 dimensions",
     .preset = "favor",
     .heads = 1,
     .key_heads = 1,
     .features = 64,
     .sequences = 1,
     .lengths = {40},
     .dim = 264,
     .value_dim = 264},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void every_shape_is_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) trial_compare(&shapes[i]);
}

static void results_are_those_of_the_cpu(void **state)
{
    (void)state;
    for (size_t i = 0; i < TRIALS; i++) trial_compare(&trials[i]);
}

static void later_tokens_change_nothing(void **state)
{
    (void)state;
    static const size_t which[] = {0, 3, 5, 6, 10};
    static const size_t which_shapes[] = {0, 2, 4, 5, 9};
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) trial_change_later(trials[which[i]]);
    for (size_t i = 0; i < sizeof which_shapes / sizeof *which_shapes; i++) trial_change_later(shapes[which_shapes[i]]);
}

static void states_continue(void **state)
{
    (void)state;
    static const size_t which[] = {0, 6, 7, 10, 13};
    static const size_t which_shapes[] = {0, 2, 4, 5, 9};
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) trial_continue(trials[which[i]]);
    for (size_t i = 0; i < sizeof which_shapes / sizeof *which_shapes; i++) trial_continue(shapes[which_shapes[i]]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_the_cpu), cmocka_unit_test(every_shape_is_right),
        cmocka_unit_test(later_tokens_change_nothing), cmocka_unit_test(states_continue)};
    if (!trials_begin()) return 77;
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    trials_end();
    return failures;
}
