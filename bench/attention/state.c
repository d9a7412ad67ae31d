/* Sequences that are decoded one token at a time, started as copies of one state. */
#include "attention.h"
#include <stdlib.h>
#include <string.h>

void attention_decoder_drop(attention_decoder *d)
{
    float *const arrays[] = {d->q, d->k, d->v, d->out};
    for (size_t i = 0; i < CLI_COUNT_OF(arrays); i++) free(arrays[i]);
    free(d->buffer);
    free(d->states);
    d->buffer = NULL;
    d->states = NULL;
    d->q = d->k = d->v = d->out = NULL;
    attention_drop_extras(&d->extras);
}

void attention_decoder_close(attention_decoder *d)
{
    attention_decoder_drop(d);
    free(d->first);
    bo_attention_destroy(d->attention);
    *d = (attention_decoder){0};
}

static void *allocate_states(size_t bytes)
{
    return attention_floats(bytes / sizeof(float) + 16);
}

static bo_status absorb(attention_decoder *d, attention_bench *bench, size_t tokens)
{
    size_t count = ATTENTION_HEADS * tokens * ATTENTION_DIM;
    float *q = attention_floats(4 * count), *k = q + count, *v = k + count, *out = v + count;
    attention_fill(bench, 11, q, 3 * count);
    attention_extras extras = attention_some_extras(bench, bo_attention_describe(d->attention), tokens);
    void *state = d->first;
    bo_attention_call call = {.sequences = 1,
                              .tokens = tokens,
                              .q = {q},
                              .k = {k},
                              .v = {v},
                              .out = {out},
                              .initial = &state,
                              .final = &state};
    attention_add_extras(&extras, &call);
    bo_status status = bo_attention_forward(d->context, d->attention, &call);
    free(q);
    attention_drop_extras(&extras);
    return status;
}

bool attention_decoder_open(attention_bench *bench, const bo_attention_desc *desc, size_t prompt,
                            attention_decoder *out)
{
    *out = (attention_decoder){.context = bench->context};
    bo_status status = bo_attention_create(bench->context, desc, &out->attention);
    if (status == BO_OK) {
        out->bytes = (bo_attention_state_bytes(out->attention) + 63) / 64 * 64;
        out->first = allocate_states(out->bytes);
        status = bo_attention_state_init(bench->context, out->attention, out->first);
    }
    if (status == BO_OK) status = absorb(out, bench, prompt);
    if (status != BO_OK) cli_fail_status(bench->run->session, status);
    return status == BO_OK;
}

/* A state contains no pointers, so copying its bytes forks it. */
void attention_decoder_fork(attention_bench *bench, attention_decoder *d, size_t count)
{
    attention_decoder_drop(d);
    size_t floats = count * ATTENTION_HEADS * ATTENTION_DIM;
    d->count = count;
    d->buffer = allocate_states(count * d->bytes);
    d->states = cli_allocate(count, sizeof(void *), "states");
    for (size_t i = 0; i < count; i++) {
        d->states[i] = d->buffer + i * d->bytes;
        memcpy(d->states[i], d->first, d->bytes);
    }
    d->q = attention_floats(floats);
    d->k = attention_floats(floats);
    d->v = attention_floats(floats);
    d->out = attention_floats(floats);
    attention_fill(bench, 12, d->q, floats);
    attention_fill(bench, 13, d->k, floats);
    attention_fill(bench, 14, d->v, floats);
    d->extras = attention_some_extras(bench, bo_attention_describe(d->attention), count);
}

bo_status attention_decoder_step(void *what)
{
    attention_decoder *d = what;
    bo_attention_call call = {.sequences = d->count,
                              .tokens = 1,
                              .q = {d->q},
                              .k = {d->k},
                              .v = {d->v},
                              .out = {d->out},
                              .initial = d->states,
                              .final = d->states};
    attention_add_extras(&d->extras, &call);
    return bo_attention_forward(d->context, d->attention, &call);
}
