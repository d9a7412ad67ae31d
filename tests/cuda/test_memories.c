/* Attention with a matrix memory, and the hybrid of a window and features, on a device in bfloat16: outputs, gradients,
 * states, and the bits of earlier tokens. */
#include "trials.h"

static const trial trials[] = {
    {.name = "gated delta", .preset = "gated-delta", .heads = 1, .key_heads = 1, .sequences = 1, .lengths = {150}},
    {.name = "delta, several sequences, grouped",
     .preset = "delta",
     .heads = 4,
     .key_heads = 2,
     .sequences = 3,
     .lengths = {70, 1, 40},
     .value_dim = 24},
    {.name = "gated delta, larger keys",
     .preset = "gated-delta",
     .heads = 1,
     .key_heads = 1,
     .sequences = 1,
     .lengths = {50},
     .dim = 128,
     .value_dim = 80},
    {.name = "gla", .preset = "gla", .heads = 1, .key_heads = 1, .sequences = 1, .lengths = {150}},
    {.name = "gla, several sequences, grouped",
     .preset = "gla",
     .heads = 2,
     .key_heads = 1,
     .sequences = 2,
     .lengths = {70, 33},
     .dim = 24,
     .value_dim = 80},
    {.name = "hybrid",
     .preset = "hybrid",
     .heads = 2,
     .key_heads = 1,
     .features = 32,
     .sequences = 2,
     .lengths = {130, 20},
     .dim = 32,
     .value_dim = 32},
    {.name = "hybrid on tensor cores",
     .preset = "hybrid",
     .heads = 2,
     .key_heads = 2,
     .features = 128,
     .sequences = 1,
     .lengths = {300}},
    {.name = "hybrid on tensor cores, several sequences, grouped, convex gates",
     .preset = "hybrid",
     .heads = 4,
     .key_heads = 2,
     .features = 128,
     .sequences = 3,
     .lengths = {250, 1, 64},
     .gate = BO_GATE_CONVEX},
    {.name = "hybrid on tensor cores, a short window, convex gates",
     .preset = "hybrid",
     .heads = 4,
     .key_heads = 2,
     .features = 128,
     .sequences = 3,
     .lengths = {250, 1, 64},
     .gate = BO_GATE_CONVEX,
     .window = 3},
    {.name = "hybrid on tensor cores, with a matrix",
     .preset = "hybrid",
     .heads = 2,
     .key_heads = 1,
     .features = 64,
     .sequences = 2,
     .lengths = {150, 90},
     .window = 16,
     .rank = 64},
    {.name = "gla, closed gates",
     .preset = "gla",
     .heads = 2,
     .key_heads = 2,
     .sequences = 1,
     .lengths = {130},
     .log_gate = -20,
     .log_gate_size = 4},
    {.name = "gla, open and closed gates",
     .preset = "gla",
     .heads = 2,
     .key_heads = 2,
     .sequences = 2,
     .lengths = {130, 65},
     .log_gate = -4,
     .log_gate_size = 6},
    {.name = "gla, open gates, larger keys",
     .preset = "gla",
     .heads = 1,
     .key_heads = 1,
     .sequences = 1,
     .lengths = {200},
     .dim = 96,
     .value_dim = 112,
     .log_gate = -0.01,
     .log_gate_size = 0.005},
    {.name = "gated delta, closed gates",
     .preset = "gated-delta",
     .heads = 2,
     .key_heads = 2,
     .sequences = 2,
     .lengths = {130, 1},
     .log_gate = -20,
     .log_gate_size = 4},
    {.name = "gated delta, open and closed gates",
     .preset = "gated-delta",
     .heads = 2,
     .key_heads = 2,
     .sequences = 1,
     .lengths = {190},
     .dim = 32,
     .value_dim = 72,
     .log_gate = -0.5,
     .log_gate_size = 3},
    {.name = "gated delta, open gates",
     .preset = "gated-delta",
     .heads = 2,
     .key_heads = 2,
     .sequences = 1,
     .lengths = {300},
     .log_gate = -0.002,
     .log_gate_size = 0.001},
};
enum { TRIALS = sizeof trials / sizeof *trials };

static void results_match_the_cpu(void **state)
{
    (void)state;
    for (size_t i = 0; i < TRIALS; i++) trial_compare(&trials[i]);
}

static const size_t alone[] = {0, 3, 5, 6, 7, 8, 9, 10, 11, 13, 14};
enum { ALONE = sizeof alone / sizeof *alone };

static void later_tokens_change_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < ALONE; i++) trial_change_later(trials[alone[i]]);
}

static void states_continue(void **state)
{
    (void)state;
    for (size_t i = 0; i < ALONE; i++) trial_continue(trials[alone[i]]);
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
