/* Passes report their progress and stop on request. The interval between two calls of the callback is 0 here, so that
 * the speed of the host does not matter. */
#include "attention/attention.h"
#include "../testing.h"

enum { DIM = 4, TOKENS = 16384 };

typedef struct watch_case {
    const char *name;
    bo_attention_desc desc;
    size_t tokens; /* several times the work between two reports */
} watch_case;

static const watch_case cases[] = {
    {"softmax", {.kind = BO_ATTENTION_SOFTMAX, .causal = true}, TOKENS / 8},
    {"favor", {.kind = BO_ATTENTION_FAVOR, .causal = true, .features = {.features = 64}}, TOKENS},
    {"favor, both ways", {.kind = BO_ATTENTION_FAVOR, .features = {.features = 64}}, TOKENS},
    {"hybrid", {.kind = BO_ATTENTION_HYBRID, .causal = true, .features = {.features = 64}}, TOKENS},
    {"power", {.kind = BO_ATTENTION_POWER, .causal = true}, TOKENS / 8},
    {"hedgehog", {.kind = BO_ATTENTION_LEARNED, .causal = true, .chunk = 1}, TOKENS},
    {"retention",
     {.kind = BO_ATTENTION_LINEAR,
      .causal = true,
      .gate = BO_GATE_FIXED,
      .chunk = 1,
      .features = {.kernel = BO_KERNEL_LINEAR}},
     TOKENS},
    {"gla", {.kind = BO_ATTENTION_GLA, .causal = true, .chunk = 1}, TOKENS},
    {"delta", {.kind = BO_ATTENTION_DELTA, .causal = true, .unit = true, .chunk = 1}, TOKENS},
    {"ridge", {.kind = BO_ATTENTION_RIDGE, .causal = true}, TOKENS},
    {"ridge, both ways", {.kind = BO_ATTENTION_RIDGE, .chunk = 1}, TOKENS},
    {"gated ridge", {.kind = BO_ATTENTION_RIDGE, .causal = true, .gate = BO_GATE_DECAY}, TOKENS},
};

/* The number of calls of the callback, the call that returns false, and the reported progress. */
typedef struct listener {
    int calls, stop_at;
    double done, total;
} listener;

static bool listen(void *user, const char *what, double done, double total)
{
    listener *l = user;
    if (!strstr(what, "attention") || done < l->done || done > total || (l->calls && total != l->total))
        fail_msg("%s: %g of %g after %g of %g", what, done, total, l->done, l->total);
    l->done = done, l->total = total;
    return ++l->calls != l->stop_at;
}

/* One pass of a case. */
typedef struct pass {
    bo_context *context;
    const bo_attention *attention;
    bo_attention_shape shape;
    bo_attention_inputs in;
    float *out, *dq;
    void *tape;
} pass;

static bo_status run(const pass *p, bool backward)
{
    const bo_attention_gradients gradients = {.q = p->dq};
    if (!backward)
        return bo_attention_forward_arrays(p->context, p->attention, &p->shape, &p->in, NULL, NULL, p->out, p->tape);
    return bo_attention_backward_arrays(p->context, p->attention, &p->shape, &p->in, NULL, p->out, p->tape, p->in.q,
                                        NULL, &gradients);
}

/* The calling thread calls the callback, also if another thread does all the work on a busy host. */
static void assert_stops(const char *name, const pass *p, bool backward, int threads, listener *l)
{
    const char *what = backward ? "attention, backward" : "attention, forward";
    *l = (listener){0};
    assert_ok(p->context, run(p, backward));
    if (threads == 1 && (l->calls < 4 || l->done != l->total))
        fail_msg("%s, %s: %d reports, %g of %g at the end", name, what, l->calls, l->done, l->total);
    *l = (listener){.stop_at = 1};
    assert_fails(p->context, BO_CANCELED, what, run(p, backward));
    assert_int_equal(l->calls, 1);
}

static void passes_end_on_request(void **state)
{
    (void)state;
    float *x = malloc(TOKENS * DIM * sizeof *x), *out = malloc(TOKENS * DIM * sizeof *out),
          *dq = malloc(TOKENS * DIM * sizeof *dq), *gates = malloc(TOKENS * DIM * sizeof *gates);
    for (size_t i = 0; i < TOKENS * DIM; i++) {
        x[i] = (float)((i * 2654435761u >> 7) % 1000) / 500 - 1;
        gates[i] = -0.01F * fabsf(x[i]);
    }
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const watch_case *test = &cases[c];
        for (int threads = 1; threads <= 2; threads++) {
            listener l = {0};
            const bo_context_desc how = {
                .threads = threads, .precision = test_precision(), .progress = listen, .user = &l};
            pass p = {.shape = {.sequences = 1, .tokens = test->tokens}, .in = {.q = x, .k = x, .v = x}};
            p.out = out, p.dq = dq;
            assert_int_equal(bo_context_create(&how, &p.context), BO_OK);
            bo_context_set_progress_interval(p.context, 0);
            bo_attention_desc desc = test->desc;
            desc.heads = 1, desc.dim = DIM;
            bo_attention *attention;
            assert_ok(p.context, bo_attention_create(p.context, &desc, &attention));
            p.attention = attention;
            if (desc.kind == BO_ATTENTION_GLA || desc.gate == BO_GATE_DECAY) p.in.log_gate = gates;
            size_t bytes;
            assert_ok(p.context, bo_attention_tape_bytes(p.context, attention, &p.shape, &bytes));
            assert_stops(test->name, &p, false, threads, &l);
            p.tape = aligned_alloc(64, (bytes + 63) / 64 * 64);
            l = (listener){0};
            assert_ok(p.context, run(&p, false));
            assert_stops(test->name, &p, true, threads, &l);
            free(p.tape);
            bo_attention_destroy(attention);
            bo_context_destroy(p.context);
        }
    }
    free(x), free(out), free(dq), free(gates);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(passes_end_on_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
