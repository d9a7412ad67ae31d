/* Separation ranks of token networks: against the network evaluated token by token, the matrix of the whole function,
 * and ranks derived by hand. */
#include "testing.h"
#include "lab/tools/token_rank.h"

typedef struct network {
    bo_context *context;
    bo_rng rng;
    lab_polynomial *net;
} network;

static network open_network(size_t degree, size_t layers, size_t width, size_t tokens)
{
    const lab_polynomial_desc desc = {degree, layers, width, tokens * width, tokens};
    network n = {test_context(1), bo_rng_make(7, bo_rng_stream("test.token_rank", 64 * degree + 8 * layers + width)),
                 NULL};
    assert_ok(n.context, lab_polynomial_create(n.context, &desc, &n.rng, &n.net));
    return n;
}

static void close_network(network *n)
{
    lab_polynomial_destroy(n->net);
    bo_context_destroy(n->context);
}

static lab_token_ranks ranks_of(size_t degree, size_t layers, size_t width, size_t tokens)
{
    network n = open_network(degree, layers, width, tokens);
    lab_token_ranks ranks;
    assert_ok(n.context, lab_token_rank(n.context, n.net, &n.rng, &ranks));
    close_network(&n);
    return ranks;
}

static void test_outputs(void **state)
{
    (void)state;
    for (size_t degree = 2; degree <= 4; degree++)
        for (size_t layers = 0; layers <= 3; layers++)
            for (size_t width = 1; width <= 4; width++) {
                enum { TOKENS = 6 };
                network n = open_network(degree, layers, width, TOKENS);
                const lab_function f = lab_polynomial_function(n.net);
                uint32_t x[LAB_INPUTS];
                for (size_t i = 0; i < TOKENS * width; i++) x[i] = lab_mod_random(&n.rng);
                const lab_sums sums = lab_sums_of(x, TOKENS, width);
                assert_int_equal(lab_token_output(n.net, &sums, x + (TOKENS - 1) * width), f.exact(f.user, x));
                close_network(&n);
            }
}

static void test_whole(void **state)
{
    (void)state;
    for (size_t degree = 2; degree <= 4; degree++)
        for (size_t tokens = 2; tokens <= 6; tokens += 2) {
            network n = open_network(degree, 2, 2, tokens);
            const lab_function f = lab_polynomial_function(n.net);
            lab_token_ranks ranks;
            size_t whole;
            assert_ok(n.context, lab_token_rank(n.context, n.net, &n.rng, &ranks));
            assert_ok(n.context, lab_exact_rank(n.context, &f, (size_t)ranks.max_rank + 4, &n.rng, &whole));
            assert_int_equal(ranks.rank, whole);
            assert_true((double)ranks.rank <= ranks.max_rank);
            close_network(&n);
        }
}

/* Width 1: the output is s^a g^b x up to a factor, with b = (3^L - 1)/2 for degree 3, a = 2^L - 1 for degree 2 and a =
 * b = (4^L - 1)/3 for degree 4. With several tokens, (s_A + s_B)^a (g_A + g_B)^b has (a + 1)(b + 1) terms. With one
 * token x in A, s = x and g = x² give the powers 0 to a + 2b of x. */
static void test_width_one(void **state)
{
    (void)state;
    for (size_t layers = 1, two = 2, three = 3, four = 4; layers <= 4; layers++, two *= 2, three *= 3, four *= 4) {
        const size_t third = (four - 1) / 3 + 1;
        assert_int_equal(ranks_of(2, layers, 1, 2).rank, two);
        assert_int_equal(ranks_of(2, layers, 1, 6).rank, two);
        assert_int_equal(ranks_of(3, layers, 1, 2).rank, (three + 1) / 2);
        assert_int_equal(ranks_of(3, layers, 1, 6).rank, (three + 1) / 2);
        assert_int_equal(ranks_of(4, layers, 1, 2).rank, four);
        assert_int_equal(ranks_of(4, layers, 1, 6).rank, third * third);
    }
}

/* One layer of attention: A contributes through d_x numbers (the products of G with the last token), or not at all. */
static void test_one_layer(void **state)
{
    (void)state;
    for (size_t width = 1; width <= 4; width++) assert_int_equal(ranks_of(3, 1, width, 4).rank, width + 1);
    assert_close(lab_token_max_rank(&(lab_polynomial_desc){3, 1, 4, 16, 4}), 5, 0);
}

static void test_refused(void **state)
{
    (void)state;
    lab_token_ranks ranks;
    network n = open_network(3, 1, 2, 3);
    assert_int_equal(lab_token_rank(n.context, n.net, &n.rng, &ranks), BO_INVALID);
    close_network(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outputs),   cmocka_unit_test(test_whole),   cmocka_unit_test(test_width_one),
        cmocka_unit_test(test_one_layer), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
