/* Causal attention in linear time, computed twice: for an entire sequence in one call, and token by token from a state
 * of fixed size. Both have the same outputs. Softmax attention would need all earlier keys and values instead of the
 * state. */
#include <bochner/bochner.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 4, TOKENS = 1000, DIM = 32, PROMPT = 600, ROW = HEADS * DIM };

static int fail(bo_context *context)
{
    fprintf(stderr, "streaming_attention: %s\n", bo_context_error(context));
    return 1;
}

/* Numbers between -1 and 1. In a model, linear layers compute queries, keys and values. */
static void fill(float *x, unsigned seed)
{
    srand(seed);
    for (size_t i = 0; i < (size_t)TOKENS * ROW; i++) x[i] = 2 * (float)rand() / (float)RAND_MAX - 1;
}

int main(void)
{
    static float q[TOKENS * ROW], k[TOKENS * ROW], v[TOKENS * ROW], whole[TOKENS * ROW], streamed[TOKENS * ROW];
    bo_context *context;
    bo_attention *attention;
    fill(q, 1);
    fill(k, 2);
    fill(v, 3);
    if (bo_context_create(NULL, &context) != BO_OK) return 1;

    /* "favor" estimates softmax attention with positive random features. Other names are listed in
     * docs/reference/attention.md. */
    bo_attention_desc desc = {.heads = HEADS, .dim = DIM, .causal = true, .features = {.features = 256, .seed = 1}};
    if (!bo_attention_preset("favor", &desc) || bo_attention_create(context, &desc, &attention) != BO_OK)
        return fail(context);

    /* 1. The whole sequence. Arrays are (sequences, tokens, heads, dim). */
    bo_attention_call call = {.sequences = 1,
                              .tokens = TOKENS,
                              .q = {q},
                              .k = {k},
                              .v = {v},
                              .out = {whole},
                              .layout = BO_LAYOUT_TOKENS_FIRST};
    if (bo_attention_forward(context, attention, &call) != BO_OK) return fail(context);

    /* 2. A prompt as one block, then token by token. The state is plain bytes: it can be copied, saved or sent. */
    void *state = malloc(bo_attention_state_bytes(attention));
    if (!state || bo_attention_state_init(context, attention, state) != BO_OK) return fail(context);
    call.initial = call.final = &state; /* read before the first token, updated after the last */
    call.tokens = PROMPT;
    call.out.data = streamed;
    if (bo_attention_forward(context, attention, &call) != BO_OK) return fail(context);
    call.tokens = 1;
    for (size_t at = (size_t)PROMPT * ROW; at < (size_t)TOKENS * ROW; at += ROW) {
        call.q.data = q + at;
        call.k.data = k + at;
        call.v.data = v + at;
        call.out.data = streamed + at;
        if (bo_attention_forward(context, attention, &call) != BO_OK) return fail(context);
    }

    double largest = 0;
    for (size_t i = 0; i < (size_t)TOKENS * ROW; i++)
        largest = fmax(largest, fabs((double)whole[i] - (double)streamed[i]));
    printf("%d tokens; largest difference of an output %.1e\n", (int)TOKENS, largest);
    printf("state %zu bytes at any length; keys and values of %d tokens %zu bytes\n",
           bo_attention_state_bytes(attention), (int)TOKENS, 2 * sizeof k);

    free(state);
    bo_attention_destroy(attention);
    bo_context_destroy(context);
    return largest < 1e-4 ? 0 : 1;
}
