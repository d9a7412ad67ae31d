/* What the files of attention share: a call's sequences, gradients and scratch as the engine takes them. */
#ifndef BO_BACKEND_CPU_ATTENTION_H
#define BO_BACKEND_CPU_ATTENTION_H

#include "blocks.h"
#include "sequences.h"
#include "../../attention/attention.h"

/* Pieces of a call's scratch in their order; NULL where they are not needed. */
typedef struct bo_attention_room {
    float *added;      /* gradients that are to be added: the engine overwrites */
    float *parameters; /* reading: a second gradient of each parameter */
    void **states;     /* reading: states, one per sequence, and behind them their gradients */
    char *memory;      /* reading: bytes of states, or of their gradients */
    bo_work work;      /* of the engine */
} bo_attention_room;

size_t bo_attention_sequences(const bo_op_call *call); /* at most */
size_t bo_attention_keys(const bo_op_call *call);      /* rows of keys */
/* Lays a call's scratch out in call->scratch; with NULL there it only counts it into *bytes. */
bo_attention_room bo_attention_room_of(bo_context *context, const bo_op_call *call, bool backward, size_t *bytes);
/* Where the engine puts gradients that are wanted; those to be added go to the room. */
bo_attention_gradients bo_attention_gradients_of(const bo_op_call *call, const bo_attention_room *room);
/* Of the input that a bit of bo_attention_given names. */
float **bo_attention_gradient_place(bo_attention_gradients *gradients, size_t bit);

/* ---- reading: cross attention of kinds that take keys in one after the other ------------------------------------- */

/* The source is read into a state for each sequence, which every query asks: all of them see all of it. */
static inline bool bo_attention_reads(const bo_op_call *call)
{
    const bo_attention_attributes *a = call->attributes;
    return a->cross && !a->ask && bo_attention_describe(a->attention)->causal;
}

/* The shapes of its two calls. */
bo_attention_shape bo_attention_reading(const bo_attention_shape *shape);
bo_attention_shape bo_attention_asking(const bo_attention_shape *shape);
size_t bo_attention_reading_saved(const bo_op_call *call);
void bo_attention_carve_reading(const bo_op_call *call, bool backward, bo_carver *carver, bo_attention_room *room);
/* states: of the pass, where what was read stays; NULL: none. */
bo_status bo_attention_read(bo_context *context, const bo_op_call *call, const bo_attention_shape *shape,
                            const bo_attention_inputs *in, void *const *states, bo_attention_room *room);
bo_status bo_attention_read_back(bo_context *context, const bo_op_call *call, const bo_attention_shape *shape,
                                 const bo_attention_inputs *in, const bo_attention_gradients *gradients,
                                 bo_attention_room *room);

#endif
