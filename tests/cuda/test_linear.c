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

static void results_match_the_cpu(void **state)
{
    (void)state;
    for (size_t i = 0; i < TRIALS; i++) trial_compare(&trials[i]);
}

static void later_tokens_change_nothing(void **state)
{
    (void)state;
    static const size_t which[] = {0, 3, 5, 6, 10};
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) trial_change_later(trials[which[i]]);
}

static void states_continue(void **state)
{
    (void)state;
    static const size_t which[] = {0, 6, 7, 10, 13};
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) trial_continue(trials[which[i]]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(results_match_the_cpu),
                                       cmocka_unit_test(later_tokens_change_nothing),
                                       cmocka_unit_test(states_continue)};
    if (!trials_begin()) return 77;
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    trials_end();
    return failures;
}
