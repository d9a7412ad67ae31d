/* Long passes report their progress and stop on request. */
#include <bochner/attention.h>
#include "../testing.h"

enum { DIM = 4, MOST = 600000 };

typedef struct watch_case {
    const char *name;
    bo_attention_desc desc;
    size_t tokens; /* several times the work between two calls of the callback */
} watch_case;

static const watch_case cases[] = {
    {"softmax", {.kind = BO_ATTENTION_SOFTMAX, .causal = true}, 20000},
    {"favor", {.kind = BO_ATTENTION_FAVOR, .causal = true, .features = {.features = 64}}, MOST},
    {"favor, both ways", {.kind = BO_ATTENTION_FAVOR, .features = {.features = 64}}, MOST},
    {"hybrid", {.kind = BO_ATTENTION_HYBRID, .causal = true, .features = {.features = 64}}, MOST},
    {"power", {.kind = BO_ATTENTION_POWER, .causal = true}, 20000},
    {"hedgehog", {.kind = BO_ATTENTION_LEARNED, .causal = true, .chunk = 1}, MOST / 2},
    {"retention",
     {.kind = BO_ATTENTION_LINEAR,
      .causal = true,
      .gate = BO_GATE_FIXED,
      .chunk = 1,
      .features = {.kernel = BO_KERNEL_LINEAR}},
     MOST / 2},
    {"gla", {.kind = BO_ATTENTION_GLA, .causal = true, .chunk = 1}, MOST / 2},
    {"delta", {.kind = BO_ATTENTION_DELTA, .causal = true, .unit = true, .chunk = 1}, MOST / 2},
    {"ridge", {.kind = BO_ATTENTION_RIDGE, .causal = true}, MOST},
    {"ridge, both ways", {.kind = BO_ATTENTION_RIDGE, .chunk = 1}, MOST},
    {"gated ridge", {.kind = BO_ATTENTION_RIDGE, .causal = true, .gate = BO_GATE_DECAY}, MOST / 4},
};

/* How often the callback was called, when it returns false, and the reported progress. */
typedef struct listener {
    int asked, stop_at;
    double done, total;
} listener;

static bool listen(void *user, const char *what, double done, double total)
{
    listener *l = user;
    if (!strstr(what, "attention") || done < l->done || done > total || (l->asked && total != l->total))
        fail_msg("%s: %g of %g after %g of %g", what, done, total, l->done, l->total);
    l->done = done, l->total = total;
    return ++l->asked != l->stop_at;
}

static void passes_end_on_request(void **state)
{
    (void)state;
    float *x = malloc(MOST * DIM * sizeof *x), *out = malloc(MOST * DIM * sizeof *out),
          *dq = malloc(MOST * DIM * sizeof *dq), *gates = malloc(MOST * DIM * sizeof *gates);
    for (size_t i = 0; i < MOST * DIM; i++) {
        x[i] = (float)((i * 2654435761u >> 7) % 1000) / 500 - 1;
        gates[i] = -0.01F * fabsf(x[i]);
    }
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const watch_case *test = &cases[c];
        for (int threads = 1; threads <= 2; threads++) {
            listener l = {.stop_at = 1};
            bo_context_desc how = {.threads = threads, .progress = listen, .user = &l};
            bo_context *context = NULL;
            assert_int_equal(bo_context_create(&how, &context), BO_OK);
            bo_attention_desc desc = test->desc;
            desc.heads = 1, desc.dim = DIM;
            bo_attention *attention;
            assert_ok(context, bo_attention_create(context, &desc, &attention));
            bo_attention_shape shape = {.sequences = 1, .tokens = test->tokens};
            bo_attention_inputs in = {.q = x, .k = x, .v = x};
            if (desc.kind == BO_ATTENTION_GLA || desc.gate == BO_GATE_DECAY) in.log_gate = gates;
            assert_fails(context, BO_CANCELED, "attention, forward",
                         bo_attention_forward(context, attention, &shape, &in, NULL, NULL, out, NULL));
            assert_int_equal(l.asked, 1);

            size_t bytes;
            assert_ok(context, bo_attention_tape_bytes(context, attention, &shape, &bytes));
            void *tape = aligned_alloc(64, (bytes + 63) / 64 * 64);
            l = (listener){0};
            assert_ok(context, bo_attention_forward(context, attention, &shape, &in, NULL, NULL, out, tape));
            l = (listener){.stop_at = 1};
            bo_attention_gradients gradients = {.q = dq};
            assert_fails(context, BO_CANCELED, "attention, backward",
                         bo_attention_backward(context, attention, &shape, &in, NULL, out, tape, x, NULL, &gradients));
            free(tape);
            bo_attention_destroy(attention);
            bo_context_destroy(context);
        }
    }
    free(x), free(out), free(dq), free(gates);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(passes_end_on_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
