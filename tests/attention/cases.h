/* Test cases shared by forward and backward tests, grouped by subject. Each function calls `visit` for every case. */
#ifndef BO_TEST_ATTENTION_CASES_H
#define BO_TEST_ATTENTION_CASES_H

#include "verify.h"
#include "kind_cases.h"

typedef void (*case_visitor)(bo_context *context, const trial_desc *desc);

/* A few kinds that together use every algorithm, scaled and moderate features, gates and windows. */
static const char *const case_engines[] = {
    "softmax",
    "softmax in a window",
    "linear elu",
    "favor",
    "favor, convex",
    "rfa-gate",
    "dark of low rank",
    "favor sin/cos, convex",
    "hybrid",
    "hybrid of elu",
    "retention",
    "t2r of low rank",
    "hedgehog, convex",
    "hybrid of hedgehog",
    "power",
    "power of 3.7 in a window",
    "linear polynomial",
    "gated delta",
    "delta of plain keys",
    "gla",
    "ridge",
    "gated ridge of unit keys",
};
enum { CASE_ENGINES = sizeof case_engines / sizeof *case_engines };

#define CASE_NAME(...) (snprintf(name, sizeof name, __VA_ARGS__), name)

/* Every kind and map, causal and not, in both layouts. */
static inline void cases_kinds(bo_context *context, case_visitor visit)
{
    char name[128];
    for (size_t i = 0; i < KINDS; i++)
        for (int causal = kinds[i].causal_only; causal < 2; causal++) {
            trial_desc desc = {
                .name = CASE_NAME("%s%s", kinds[i].name, causal ? ", causal" : ""),
                .attention = kind_desc(&kinds[i], 4, 2, 8, 5, causal, 22),
                .shape = {.sequences = 2,
                          .tokens = 41,
                          .layout = (i + (size_t)causal) % 2 ? BO_LAYOUT_TOKENS_FIRST : BO_LAYOUT_HEADS_FIRST},
                .seed = i};
            visit(context, &desc);
        }
}

/* Lengths around the sizes of chunks and tiles. */
static inline void cases_lengths(bo_context *context, case_visitor visit)
{
    static const size_t lengths[] = {1, 2, 3, 15, 16, 17, 31, 33, 61, 63, 64, 65, 97, 127, 128, 129};
    char name[128];
    for (size_t i = 0; i < CASE_ENGINES; i++)
        for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++)
            for (size_t chunk = 0; chunk <= 40; chunk += chunk ? 24 : 16) {
                const kind_of *kind = kind_named(case_engines[i]);
                bool causal = kind->causal_only || n % 4;
                if (chunk && kind_is_explicit(kind)) continue;
                trial_desc desc = {.name = CASE_NAME("%s, %zu tokens, chunk %zu", kind->name, lengths[n], chunk),
                                   .attention = kind_desc(kind, 1, 1, 4, 3, causal, 8),
                                   .shape = {.sequences = 1, .tokens = lengths[n]},
                                   .seed = n};
                desc.attention.chunk = chunk;
                visit(context, &desc);
            }
}

/* Widths that are multiples of a vector, and widths that are not. */
static inline void cases_widths(bo_context *context, case_visitor visit)
{
    static const size_t widths[][3] = {{1, 1, 2},    {3, 7, 6},    {7, 3, 14},   {17, 1, 34},   {64, 64, 128},
                                       {80, 65, 66}, {16, 32, 18}, {5, 129, 10}, {130, 129, 40}};
    char name[128];
    for (size_t i = 0; i < CASE_ENGINES; i++)
        for (size_t n = 0; n < sizeof widths / sizeof *widths; n++) {
            const kind_of *kind = kind_named(case_engines[i]);
            size_t dim = widths[n][0], value = widths[n][1], features = widths[n][2];
            if (kind->function == BO_FUNCTION_POSITIVE) features -= n % 2; /* also odd numbers of features */
            if (kind_grows(kind) && dim > 17) dim = 17;
            trial_desc desc = {
                .name = CASE_NAME("%s, dim %zu, value_dim %zu, %zu features", kind->name, dim, value, features),
                .attention = kind_desc(kind, 2, 1, dim, value, true, features),
                .shape = {.sequences = 1, .tokens = 37, .layout = BO_LAYOUT_TOKENS_FIRST},
                .seed = n};
            visit(context, &desc);
        }
}

static inline void cases_groups(bo_context *context, case_visitor visit)
{
    static const size_t key_heads[] = {1, 2, 3, 6};
    char name[128];
    for (size_t i = 0; i < CASE_ENGINES; i++)
        for (size_t n = 0; n < 8; n++) {
            const kind_of *kind = kind_named(case_engines[i]);
            trial_desc desc = {.name = CASE_NAME("%s, %zu of 6 heads", kind->name, key_heads[n % 4]),
                               .attention = kind_desc(kind, 6, key_heads[n % 4], 4, 3, true, 8),
                               .shape = {.sequences = 2,
                                         .tokens = 19,
                                         .layout = n < 4 ? BO_LAYOUT_HEADS_FIRST : BO_LAYOUT_TOKENS_FIRST},
                               .no_parameters = n % 2,
                               .one_map = n % 3 == 2,
                               .seed = n};
            desc.attention.one_draw = n % 3 == 0 && kind_has_map(kind);
            visit(context, &desc);
        }
}

/* Packed sequences of any length, including 0 and 1. */
static inline void cases_packed(bo_context *context, case_visitor visit)
{
    static const size_t lengths[][5] = {{0, 1, 5, 0, 40}, {33, 0, 2, 1, 1}, {0, 0, 0, 0, 0}, {1, 1, 1, 1, 70}};
    char name[128];
    for (size_t i = 0; i < CASE_ENGINES; i++)
        for (size_t n = 0; n < 8; n++) {
            const kind_of *kind = kind_named(case_engines[i]);
            trial_desc desc = {.name = CASE_NAME("%s, packed %zu", kind->name, n),
                               .attention = kind_desc(kind, 4, 2, 4, 3, n < 6, 8),
                               .shape = {.sequences = 5,
                                         .lengths = lengths[n % 4],
                                         .layout = n % 3 ? BO_LAYOUT_HEADS_FIRST : BO_LAYOUT_TOKENS_FIRST},
                               .final_gradient = n % 2 || n == 6,
                               .seed = n};
            visit(context, &desc);
        }
}

/* Numbers of keys that differ from the number of queries. */
static inline void cases_cross(bo_context *context, case_visitor visit)
{
    static const size_t queries[3] = {7, 0, 3}, keys[3] = {1, 20, 0};
    static const size_t tokens[][2] = {
        {1, 50}, {50, 1}, {13, 29}, {65, 64}, {0, 9}}; /* the last case creates a state */
    char name[128];
    for (size_t i = 0; i < KINDS; i++)
        for (size_t n = 0; !kinds[i].causal_only && n < 6; n++) {
            trial_desc desc = {
                .name = CASE_NAME("%s, cross %zu", kinds[i].name, n),
                .attention = kind_desc(&kinds[i], 2, 1, 4, 3, false, 8),
                .shape = {.sequences = n < 5 ? 2 : 3, .layout = n % 2 ? BO_LAYOUT_HEADS_FIRST : BO_LAYOUT_TOKENS_FIRST},
                .final_gradient = n % 2 || n == 4,
                .seed = n};
            if (n < 5) desc.shape.tokens = tokens[n][0], desc.shape.key_tokens = tokens[n][1];
            if (n == 5) desc.shape.lengths = queries, desc.shape.key_lengths = keys;
            visit(context, &desc);
        }
}

/* Initial states that have absorbed tokens, and final states that the loss depends on. */
static inline void cases_states(bo_context *context, case_visitor visit)
{
    static const size_t pasts[] = {0, 1, 3, 40, 80};
    char name[128];
    for (size_t i = 0; i < KINDS; i++)
        for (size_t n = 0; n < 5; n++) {
            trial_desc desc = {.name = CASE_NAME("%s, after %zu tokens", kinds[i].name, pasts[n]),
                               .attention = kind_desc(&kinds[i], 4, 2, 4, 3, n != 3, 8),
                               .shape = {.sequences = 2, .tokens = n == 2 ? 1 : 21},
                               .past = pasts[n],
                               .final_gradient = true,
                               .seed = i + 7 * n};
            if (kind_is_explicit(&kinds[i]) && !kinds[i].window) desc.attention.capacity = 128;
            visit(context, &desc);
            desc.name = CASE_NAME("%s, read after %zu tokens", kinds[i].name, pasts[n]);
            desc.shape.no_keys = true;
            if (n % 2) visit(context, &desc);
        }
}

/* |q| = |k| = 30: exponents of several hundred. */
static inline void cases_norms(bo_context *context, case_visitor visit)
{
    char name[128];
    for (size_t i = 0; i < KINDS; i++)
        for (size_t n = 0; n < 2; n++) {
            trial_desc desc = {.name = CASE_NAME("%s, norm 30, dim %d", kinds[i].name, n ? 64 : 8),
                               .attention = kind_desc(&kinds[i], 2, 1, n ? 64 : 8, 4, true, 32),
                               .shape = {.sequences = 1, .tokens = 40},
                               .norm = 30,
                               .past = n ? 9 : 0,
                               .final_gradient = n == 1,
                               .seed = i};
            if (n && kind_grows(&kinds[i])) continue; /* thousands of features */
            visit(context, &desc);
        }
}

/* Denominators below the clamp, because of a large clamp or because of features of both signs. */
static inline void cases_clamps(bo_context *context, case_visitor visit)
{
    static const double clamps[] = {1e-2, 0.3, 20};
    char name[128];
    for (size_t i = 0; i < KINDS; i++)
        for (size_t n = 0; kind_has_map(&kinds[i]) && n < 3; n++) {
            trial_desc desc = {.name = CASE_NAME("%s, clamp %g", kinds[i].name, clamps[n]),
                               .attention = kind_desc(&kinds[i], 2, 1, 4, 3, n != 1, 8),
                               .shape = {.sequences = 1, .tokens = 37},
                               .past = n == 2 ? 20 : 0,
                               .seed = i};
            desc.attention.clamp = clamps[n];
            visit(context, &desc);
        }
}

/* Enough chunks that the tape stores only some of the states. */
static inline void cases_tapes(bo_context *context, case_visitor visit)
{
    char name[128];
    for (size_t i = 0; i < KINDS; i++)
        for (size_t chunk = 3; kind_is_memory(&kinds[i]) && chunk <= 16; chunk += 13) {
            trial_desc desc = {.name = CASE_NAME("%s, a tape of chunks of %zu", kinds[i].name, chunk),
                               .attention = kind_desc(&kinds[i], 2, 1, 5, 3, true, 8),
                               .shape = {.sequences = 1, .tokens = 701},
                               .past = 7,
                               .final_gradient = true,
                               .seed = i};
            desc.attention.chunk = chunk;
            visit(context, &desc);
        }
}

/* Defines one test per subject and the main program: every case is checked with `check`. */
#define CASES_TEST(subject, check)                                                                                     \
    static void of_##subject(void **state)                                                                             \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        bo_context *context = test_context(2);                                                                         \
        cases_##subject(context, check);                                                                               \
        bo_context_destroy(context);                                                                                   \
    }

#define CASES_RUN(check)                                                                                               \
    CASES_TEST(kinds, check)                                                                                           \
    CASES_TEST(lengths, check)                                                                                         \
    CASES_TEST(widths, check)                                                                                          \
    CASES_TEST(groups, check)                                                                                          \
    CASES_TEST(packed, check)                                                                                          \
    CASES_TEST(cross, check)                                                                                           \
    CASES_TEST(states, check)                                                                                          \
    CASES_TEST(norms, check)                                                                                           \
    CASES_TEST(clamps, check)                                                                                          \
    CASES_TEST(tapes, check)                                                                                           \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        const struct CMUnitTest tests[] = {                                                                            \
            cmocka_unit_test(of_kinds),  cmocka_unit_test(of_lengths), cmocka_unit_test(of_widths),                    \
            cmocka_unit_test(of_groups), cmocka_unit_test(of_packed),  cmocka_unit_test(of_cross),                     \
            cmocka_unit_test(of_states), cmocka_unit_test(of_norms),   cmocka_unit_test(of_clamps),                    \
            cmocka_unit_test(of_tapes),                                                                                \
        };                                                                                                             \
        return cmocka_run_group_tests(tests, NULL, NULL);                                                              \
    }

#endif
