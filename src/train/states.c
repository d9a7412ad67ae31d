/* States that are carried from step to step: their memory, the pointers of a pass, and their file. */
#include "../text/batches.h"
#include <string.h>
#include "../nn/enums.h"
#include "../attention/attention.h"
#include "../device/cpu/kernels.h"
#include "states.h"

/* Memory is divided into consecutive pieces, one per lane or run. A piece has the states of all layers, or their
 * gradients. Invariant: runs that neither start nor end a window use `empty`, `spare` and `zeros`. */
struct bo_train_states {
    bo_train_states_desc desc;
    size_t layers, runs; /* runs: the maximum number in a pass */
    size_t *at;          /* offset of each layer in the states of a lane; [layers]: their total size */
    size_t *gradient_at; /* the same for gradients, in floats */
    size_t largest, largest_gradient;
    char *now, *next;               /* of all lanes: at the start and at the end of the step */
    uint64_t *read_now, *read_next; /* tokens that a lane has read since its start */
    char *between;                  /* of the lanes of a micro-batch, after each window but the last */
    uint64_t *read_between;
    char *empty;            /* one piece */
    char *spare;            /* final states of runs that are not continued: one layer per run */
    float *gradients[2];    /* gradients between windows, for a micro-batch */
    float *spare_gradients; /* gradients of states that no run continues: one layer per run */
    float *zeros;           /* one layer */
    void **initial, **final;
    float **initial_gradients;
    const float **final_gradients;
};

/* ---- supported models -------------------------------------------------------------------------------------------- */

static bo_status check_layer(bo_context *context, bo_mixer mixer, const bo_attention *attention)
{
    if (!attention && mixer >= BO_MIXER_RNN && mixer <= BO_MIXER_LSTM) return BO_OK;
    if (!attention)
        return bo_fail(context, BO_INVALID, "stateful: expected attention or mixer rnn, gru or lstm, found mixer %s",
                       bo_mixer_name(mixer));
    const bo_attention_desc *d = bo_attention_describe(attention);
    if (!bo_attention_has(d, BO_TRAIT_CAPACITY) || d->window) return BO_OK;
    return bo_fail(context, BO_INVALID,
                   "stateful: attention %s keeps all keys; a state of fixed size is required: give it a window, or use "
                   "another attention",
                   bo_attention_name(d));
}

bo_status bo_train_states_check(bo_context *context, const bo_model *model)
{
    const bo_model_desc *d = &model->desc;
    bo_device *device = bo_weights_device(model->weights);
    if (bo_device_is_gpu(device))
        return bo_fail(context, BO_UNSUPPORTED,
                       "stateful: states cannot be carried from step to step on %s; train on the CPU",
                       bo_device_name(device));
    if (bo_model_positions_kind(d) == BO_POSITIONS_LEARNED)
        return bo_fail(context, BO_INVALID,
                       "stateful: positions continue from window to window, but the model has only %zu learned "
                       "positions; use rope or none",
                       d->context);
    for (size_t i = 0; i < d->layers; i++)
        BO_TRY(check_layer(context, bo_model_block(d, i)->mixer, model->attentions[i]));
    return BO_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static size_t state_stride(const bo_model *model, size_t layer)
{
    return bo_layer_state_stride(&model->desc, layer, model->attentions[layer]);
}

/* Floats of the gradient of a state. */
static size_t gradient_floats(const bo_model *model, size_t layer)
{
    const bo_attention *attention = model->attentions[layer];
    if (attention) return bo_attention_state_gradient_floats(attention);
    return bo_layer_state_bytes(&model->desc, layer, attention) / sizeof(float);
}

/* The maximum number of runs in a pass. */
static size_t max_runs(const bo_train_states_desc *d)
{
    return d->max_runs ? d->max_runs : d->micro_batch;
}

/* Bytes of places, numbers of tokens, and pointers. */
static size_t list_bytes(const bo_train_states_desc *d)
{
    const size_t layers = d->model->desc.layers, lanes = 2 * d->lanes + (d->windows - 1) * d->micro_batch;
    return sizeof(bo_train_states) + 2 * (layers + 1) * sizeof(size_t) + lanes * sizeof(uint64_t) +
           4 * layers * max_runs(d) * sizeof(void *);
}

size_t bo_train_states_bytes(const bo_train_states_desc *d)
{
    size_t state = 0, gradient = 0, largest = 0, largest_gradient = 0;
    const bool flows = d->windows > 1;
    for (size_t i = 0; i < d->model->desc.layers; i++) {
        state += state_stride(d->model, i);
        gradient += gradient_floats(d->model, i);
        largest = bo_max(largest, state_stride(d->model, i));
        largest_gradient = bo_max(largest_gradient, gradient_floats(d->model, i));
    }
    const size_t states = 2 * d->lanes + (d->windows - 1) * d->micro_batch + 1, extra = d->max_runs;
    const size_t gradients = flows ? 2 * d->micro_batch * gradient + (extra + 1) * largest_gradient : 0;
    return states * state + extra * largest + gradients * sizeof(float) + list_bytes(d);
}

static bo_status place_layers(bo_context *context, bo_train_states *s)
{
    s->at = bo_alloc(context, s->layers + 1, sizeof *s->at, "places of states");
    s->gradient_at = bo_alloc(context, s->layers + 1, sizeof *s->gradient_at, "places of states");
    if (!s->at || !s->gradient_at) return BO_MEMORY;
    for (size_t i = 0; i < s->layers; i++) {
        const size_t stride = state_stride(s->desc.model, i), gradient = gradient_floats(s->desc.model, i);
        s->at[i + 1] = s->at[i] + stride;
        s->gradient_at[i + 1] = s->gradient_at[i] + gradient;
        s->largest = bo_max(s->largest, stride);
        s->largest_gradient = bo_max(s->largest_gradient, gradient);
    }
    return BO_OK;
}

/* Allocates the memory that lasts from step to step. */
static bo_status allocate_lanes(bo_context *context, bo_train_states *s)
{
    const size_t lanes = s->desc.lanes, stride = s->at[s->layers];
    s->now = bo_alloc(context, lanes, stride, "states of a batch");
    s->next = bo_alloc(context, lanes, stride, "states of a batch");
    s->empty = bo_alloc(context, 1, stride, "an empty state");
    s->read_now = bo_alloc(context, lanes, sizeof *s->read_now, "positions");
    s->read_next = bo_alloc(context, lanes, sizeof *s->read_next, "positions");
    return s->now && s->next && s->empty && s->read_now && s->read_next ? BO_OK : BO_MEMORY;
}

static bo_status build(bo_context *context, bo_train_states *s)
{
    BO_TRY(place_layers(context, s));
    BO_TRY(allocate_lanes(context, s));
    return bo_train_states_reset(context, s);
}

bo_status bo_train_states_create(bo_context *context, const bo_train_states_desc *desc, bo_train_states **out)
{
    bo_train_states *s = bo_alloc(context, 1, sizeof *s, "states of a batch");
    *out = NULL;
    if (!s) return BO_MEMORY;
    s->desc = *desc;
    s->layers = desc->model->desc.layers;
    const bo_status status = build(context, s);
    if (status != BO_OK)
        bo_train_states_destroy(s);
    else
        *out = s;
    return status;
}

/* Allocates zeros for the pointer at `out`, unless none are needed or an earlier call that failed has allocated
 * them. */
static bool allocate(bo_context *context, size_t count, size_t size, const char *what, void *out)
{
    void *memory;
    memcpy(&memory, out, sizeof memory);
    if (memory || !count) return true;
    memory = bo_alloc(context, count, size, what);
    memcpy(out, &memory, sizeof memory);
    return memory != NULL;
}

bo_status bo_train_states_open(bo_context *context, bo_train_states *s, const bo_train_states_desc *desc)
{
    static const char states[] = "states of a pass", gradients[] = "gradients of states";
    if (s->initial) return BO_OK;
    s->desc = *desc;
    s->runs = max_runs(desc);
    const size_t micro = desc->micro_batch, inner = (desc->windows - 1) * micro, extra = desc->max_runs;
    const size_t gradient = inner ? s->gradient_at[s->layers] : 0, largest = inner ? s->largest_gradient : 0;
    const size_t pointers = s->layers * s->runs;
    const bool all = allocate(context, inner, s->at[s->layers], states, &s->between) &&
                     allocate(context, inner, sizeof *s->read_between, "positions", &s->read_between) &&
                     allocate(context, extra, s->largest, states, &s->spare) &&
                     allocate(context, micro * gradient, sizeof(float), gradients, &s->gradients[0]) &&
                     allocate(context, micro * gradient, sizeof(float), gradients, &s->gradients[1]) &&
                     allocate(context, extra * largest, sizeof(float), gradients, &s->spare_gradients) &&
                     allocate(context, largest, sizeof(float), gradients, &s->zeros) &&
                     allocate(context, pointers, sizeof *s->final, states, &s->final) &&
                     allocate(context, pointers, sizeof *s->initial_gradients, states, &s->initial_gradients) &&
                     allocate(context, pointers, sizeof *s->final_gradients, states, &s->final_gradients) &&
                     allocate(context, pointers, sizeof *s->initial, states, &s->initial);
    return all ? BO_OK : BO_MEMORY;
}

void bo_train_states_destroy(bo_train_states *s)
{
    if (!s) return;
    void *const pieces[] = {s->at,
                            s->gradient_at,
                            s->now,
                            s->next,
                            s->read_now,
                            s->read_next,
                            s->between,
                            s->read_between,
                            s->empty,
                            s->spare,
                            s->gradients[0],
                            s->gradients[1],
                            s->spare_gradients,
                            s->zeros,
                            s->initial,
                            s->final,
                            s->initial_gradients,
                            s->final_gradients};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) bo_free(pieces[i]);
    bo_free(s);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

bo_status bo_train_states_reset(bo_context *context, bo_train_states *s)
{
    const bo_model *model = s->desc.model;
    const size_t stride = s->at[s->layers];
    for (size_t i = 0; i < s->layers; i++)
        BO_TRY(bo_layer_state_begin(context, model, i, model->attentions[i], s->empty + s->at[i]));
    for (size_t lane = 0; lane < s->desc.lanes; lane++) memcpy(s->now + lane * stride, s->empty, stride);
    memset(s->read_now, 0, s->desc.lanes * sizeof *s->read_now);
    return BO_OK;
}

void bo_train_states_advance(bo_train_states *s)
{
    char *states = s->now;
    uint64_t *read = s->read_now;
    s->now = s->next, s->next = states;
    s->read_now = s->read_next, s->read_next = read;
}

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

/* One lane in the pass of a segment; `lane` is its number in the micro-batch. NULL: the pass has no such gradient. */
typedef struct lane_ends {
    char *initial, *final;
    uint64_t read, *read_final;
    float *initial_gradient;
    const float *final_gradient;
} lane_ends;

/* Returns the state of the lane after window `window` of the step. Window -1: at the start of the step. */
static char *state_after(const bo_train_states *s, size_t window, size_t lane, size_t first, uint64_t **read)
{
    const size_t stride = s->at[s->layers], inner = window * s->desc.micro_batch + lane;
    const size_t of_all = s->desc.first + first + lane;
    const bool last = window + 1 == s->desc.windows;
    if (window == SIZE_MAX) return *read = s->read_now + of_all, s->now + of_all * stride;
    if (last) return *read = s->read_next + of_all, s->next + of_all * stride;
    return *read = s->read_between + inner, s->between + inner * stride;
}

static lane_ends ends_of(const bo_train_states *s, const bo_train_segment *segment, size_t lane)
{
    const size_t window = segment->window, first = segment->first, gradient = s->gradient_at[s->layers];
    lane_ends out = {0};
    uint64_t *read;
    out.initial = state_after(s, window - 1, lane, first, &read);
    out.final = state_after(s, window, lane, first, &out.read_final);
    out.read = *read;
    if (bo_batches_begins(segment->batches, segment->step, first + lane)) out.initial = s->empty, out.read = 0;
    if (window > 0) out.initial_gradient = s->gradients[window % 2] + lane * gradient;
    /* no gradient crosses the border to a window that starts with an empty state */
    if (window + 1 < s->desc.windows)
        out.final_gradient = bo_batches_begins(segment->batches, segment->step + 1, first + lane)
                                 ? s->zeros
                                 : s->gradients[(window + 1) % 2] + lane * gradient;
    return out;
}

/* Sets the pointers of one run, of `runs` in the pass. */
static void set_run(bo_train_states *s, size_t runs, size_t run, const lane_ends *ends, bool is_first, bool is_last)
{
    for (size_t i = 0; i < s->layers; i++) {
        const size_t at = i * runs + run;
        s->initial[at] = (is_first ? ends->initial : s->empty) + s->at[i];
        s->final[at] = is_last ? ends->final + s->at[i] : s->spare + run * s->largest;
        if (ends->initial_gradient)
            s->initial_gradients[at] =
                is_first ? ends->initial_gradient + s->gradient_at[i] : s->spare_gradients + run * s->largest_gradient;
        if (ends->final_gradient)
            s->final_gradients[at] =
                is_last && ends->final_gradient != s->zeros ? ends->final_gradient + s->gradient_at[i] : s->zeros;
    }
}

/* Sets the runs of a lane from `run` on and returns the run after them. */
static size_t set_lane(bo_train_states *s, const bo_train_segment *segment, size_t runs, size_t run, size_t lane,
                       int32_t *positions)
{
    const size_t context = segment->batches->context;
    const lane_ends ends = ends_of(s, segment, lane);
    uint64_t read = ends.read;
    for (size_t done = 0; done < context; run++) {
        const size_t length = segment->lengths ? segment->lengths[run] : context;
        if (done) read = 0;
        for (size_t i = 0; i < length; i++) positions[done + i] += (int32_t)read;
        read += length;
        set_run(s, runs, run, &ends, done == 0, done + length == context);
        done += length;
    }
    *ends.read_final = read;
    return run;
}

bo_status bo_train_states_load(bo_context *context, bo_train_states *s, const bo_train_segment *segment,
                               int32_t *positions, bo_graph_pass *pass)
{
    const size_t tokens = segment->batches->context, runs = segment->lengths ? segment->runs : s->desc.micro_batch;
    for (size_t lane = 0, run = 0; lane < s->desc.micro_batch; lane++) {
        if (s->read_now[s->desc.first + segment->first + lane] + s->desc.windows * tokens > INT32_MAX)
            return bo_fail(context, BO_INVALID, "stateful: positions are limited to %d", INT32_MAX);
        run = set_lane(s, segment, runs, run, lane, positions + lane * tokens);
    }
    pass->states = s->initial;
    pass->final_states = s->final;
    if (segment->window > 0) pass->state_gradients = s->initial_gradients;
    if (segment->window + 1 < s->desc.windows) pass->final_gradients = s->final_gradients;
    return BO_OK;
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

enum { EXCHANGE = BO_SIZE(1 << 12, 16) }; /* 64-bit words exchanged at a time */

/* Replaces bytes by the bytes of the rank that owns them. Sums are exact: each word, as a double, is zero on all ranks
 * but one. */
static bo_status gather_bytes(bo_context *context, const bo_collective *ranks, bool is_local, char *bytes, size_t count)
{
    double values[EXCHANGE];
    for (size_t at = 0, some; at < count; at += some * sizeof(uint32_t)) {
        const size_t left = (count - at) / sizeof(uint32_t);
        uint32_t word;
        some = left < EXCHANGE ? left : EXCHANGE;
        for (size_t i = 0; i < some; i++) {
            memcpy(&word, bytes + at + i * sizeof word, sizeof word);
            values[i] = is_local ? (double)word : 0;
        }
        if (ranks->sum(ranks->user, values, some) != BO_OK)
            return bo_fail(context, BO_IO, "stateful: a sum over the ranks failed");
        for (size_t i = 0; i < some; i++) {
            word = (uint32_t)values[i];
            memcpy(bytes + at + i * sizeof word, &word, sizeof word);
        }
    }
    return BO_OK;
}

bo_status bo_train_states_gather(bo_context *context, bo_train_states *s, const bo_collective *ranks)
{
    const size_t stride = s->at[s->layers], read = sizeof *s->read_now;
    for (size_t lane = 0; lane < s->desc.lanes; lane++) {
        const bool is_local = lane >= s->desc.first && lane < s->desc.first + s->desc.share;
        BO_TRY(gather_bytes(context, ranks, is_local, s->now + lane * stride, stride));
        BO_TRY(gather_bytes(context, ranks, is_local, (char *)&s->read_now[lane], read));
    }
    return BO_OK;
}

/* ---- file -------------------------------------------------------------------------------------------------------- */

enum { FORMAT_VERSION = 1 };
static const char format_name[] = "bochner.states";

bo_status bo_train_states_write(bo_context *context, const bo_train_states *s, const char *path)
{
    const size_t lanes = s->desc.lanes, stride = s->at[s->layers];
    const bo_file_tensor tensors[] = {{.name = "states",
                                       .dtype = BO_U8,
                                       .rank = 2,
                                       .shape = {lanes, stride},
                                       .data = s->now,
                                       .bytes = lanes * stride},
                                      {.name = "tokens",
                                       .dtype = BO_I64,
                                       .rank = 1,
                                       .shape = {lanes},
                                       .data = s->read_now,
                                       .bytes = lanes * sizeof *s->read_now}};
    char version[16];
    snprintf(version, sizeof version, "%d", FORMAT_VERSION);
    const bo_meta metadata[] = {{"format", format_name}, {"format_version", version}};
    return bo_tensors_write(context, path, tensors, 2, metadata, 2);
}

static bo_status check_state(bo_context *context, const bo_train_states *s, const char *path, size_t lane, size_t layer)
{
    const void *state = s->now + lane * s->at[s->layers] + s->at[layer];
    const bo_attention *attention = s->desc.model->attentions[layer];
    if (!attention && !bo_context_kernels(context)->finite(state_stride(s->desc.model, layer) / sizeof(float), state))
        return bo_fail(context, BO_FORMAT, "%s: sequence %zu, layer %zu: the state contains a NaN or infinity", path,
                       lane, layer);
    const bo_status status = attention ? bo_attention_state_check(context, attention, state) : BO_OK;
    if (status != BO_INVALID && status != BO_VERSION) return status;
    return bo_fail(context, BO_FORMAT, "%s: sequence %zu, layer %zu: %s", path, lane, layer, bo_context_error(context));
}

bo_status bo_train_states_read_tensors(bo_context *context, bo_train_states *s, const bo_tensors *file)
{
    const size_t lanes = s->desc.lanes, shape[2] = {lanes, s->at[s->layers]};
    const char *path = bo_tensors_path(file), *format = bo_tensors_meta(file, "format"),
               *version = bo_tensors_meta(file, "format_version");
    const bo_file_tensor *states, *tokens;
    BO_TRY(bo_train_states_reset(context, s)); /* the empty state depends on the current frequencies */
    if (!format || strcmp(format, format_name) != 0 || !version)
        return bo_fail(context, BO_FORMAT, "%s: expected the states of a run, found %.60s", path,
                       format ? format : "another safetensors file");
    if (strcmp(version, "1") != 0)
        return bo_fail(context, BO_VERSION, "%s: the states have format %.20s, but Bochner %s reads formats up to %d",
                       path, version, bo_version(), FORMAT_VERSION);
    BO_TRY(bo_tensors_require(context, file, "states", BO_U8, 2, shape, &states));
    BO_TRY(bo_tensors_require(context, file, "tokens", BO_I64, 1, shape, &tokens));
    memcpy(s->now, states->data, states->bytes);
    memcpy(s->read_now, tokens->data, tokens->bytes);
    for (size_t lane = 0; lane < lanes; lane++) {
        if (s->read_now[lane] > INT32_MAX)
            return bo_fail(context, BO_FORMAT, "%s: sequence %zu: expected at most %d tokens, found %llu", path, lane,
                           INT32_MAX, (unsigned long long)s->read_now[lane]);
        for (size_t i = 0; i < s->layers; i++) BO_TRY(check_state(context, s, path, lane, i));
    }
    return BO_OK;
}

bo_status bo_train_states_read(bo_context *context, bo_train_states *s, const char *path)
{
    bo_tensors *file;
    BO_TRY(bo_tensors_open(context, path, &file));
    const bo_status status = bo_train_states_read_tensors(context, s, file);
    bo_tensors_close(file);
    return status;
}
