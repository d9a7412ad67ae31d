/* Shapes with their arrays, and timing. */
#include "attention.h"
#include "../reference.h"
#include "../../cli/shared/hash.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NOISE = 1000003, MAX_REPEATS = 99 };
static const double SAMPLE_SECONDS = 0.02;

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

float *attention_floats(size_t count)
{
    size_t bytes = (count * sizeof(float) + 63) / 64 * 64;
    float *buffer = count <= SIZE_MAX / 8 ? aligned_alloc(64, bytes ? bytes : 64) : NULL;
    if (buffer) return buffer;
    fprintf(stderr, "bochner: out of memory: %zu floats for the arrays of attention\n", count);
    exit(CLI_FAILED);
}

/* Normal noise by the Box-Muller transform. */
static float *create_noise(uint64_t seed)
{
    float *noise = attention_floats(NOISE + 1);
    for (size_t i = 0; i < NOISE; i += 2) {
        double radius = sqrt(-2 * log(((double)(cli_hash(seed, i) >> 11) + 1) * 0x1p-53));
        double angle = 6.283185307179586 * ((double)(cli_hash(seed, i + 1) >> 11) * 0x1p-53);
        noise[i] = (float)(radius * cos(angle));
        noise[i + 1] = (float)(radius * sin(angle));
    }
    return noise;
}

/* Repeats the noise. Its length is odd and not a multiple of a row, so rows repeat only after a million. */
void attention_fill(attention_bench *bench, uint64_t stream, float *out, size_t count)
{
    if (!bench->noise) bench->noise = create_noise(bench->run->session->common.seed);
    size_t from = cli_hash(stream, 0) % NOISE;
    for (size_t done = 0; done < count; from = 0) {
        size_t some = NOISE - from < count - done ? NOISE - from : count - done;
        memcpy(out + done, bench->noise + from, some * sizeof(float));
        done += some;
    }
}

static float *filled(attention_bench *bench, uint64_t stream, size_t count)
{
    float *array = attention_floats(count);
    attention_fill(bench, stream, array, count);
    return array;
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

bo_attention_desc attention_favor(const attention_bench *bench, size_t features)
{
    return (bo_attention_desc){.kind = BO_ATTENTION_FAVOR,
                               .heads = ATTENTION_HEADS,
                               .dim = ATTENTION_DIM,
                               .causal = true,
                               .features = {.features = features, .seed = bench->run->session->common.seed}};
}

bo_attention_desc attention_exact(void)
{
    return (bo_attention_desc){
        .kind = BO_ATTENTION_SOFTMAX, .heads = ATTENTION_HEADS, .dim = ATTENTION_DIM, .causal = true};
}

/* Number of floats of each input for a given number of rows per head; 0 if the kind does not have the input. */
typedef struct extra_sizes {
    size_t log_gate, beta, w;
} extra_sizes;

static extra_sizes sizes_of(const bo_attention_desc *desc, size_t rows)
{
    const size_t all = desc->heads * rows, rank = desc->rank ? desc->rank : desc->dim;
    const bool gated = desc->gate == BO_GATE_CONVEX || desc->gate == BO_GATE_DECAY;
    const bool channels = bo_attention_has(desc, BO_TRAIT_CHANNELS);
    return (extra_sizes){.log_gate = channels ? all * desc->dim
                                     : gated  ? all
                                              : 0,
                         .beta = bo_attention_has(desc, BO_TRAIT_BETA) ? all : 0,
                         .w = bo_attention_has(desc, BO_TRAIT_AFFINE) ? desc->heads * rank * desc->dim : 0};
}

attention_extras attention_some_extras(attention_bench *bench, const bo_attention_desc *desc, size_t rows)
{
    const extra_sizes sizes = sizes_of(desc, rows);
    attention_extras extras = {.log_gate = sizes.log_gate ? filled(bench, 5, sizes.log_gate) : NULL,
                               .beta = sizes.beta ? filled(bench, 6, sizes.beta) : NULL,
                               .w = sizes.w ? filled(bench, 7, sizes.w) : NULL};
    for (size_t i = 0; i < sizes.log_gate; i++) extras.log_gate[i] = -0.1f * fminf(fabsf(extras.log_gate[i]), 10.0f);
    for (size_t i = 0; i < sizes.beta; i++) extras.beta[i] = 1 / (1 + expf(extras.beta[i]));
    for (size_t i = 0; i < sizes.w; i++) extras.w[i] /= sqrtf((float)desc->dim);
    return extras;
}

static attention_extras allocate_extras(const bo_attention_desc *desc, size_t rows)
{
    const extra_sizes sizes = sizes_of(desc, rows);
    return (attention_extras){.log_gate = sizes.log_gate ? attention_floats(sizes.log_gate) : NULL,
                              .beta = sizes.beta ? attention_floats(sizes.beta) : NULL,
                              .w = sizes.w ? attention_floats(sizes.w) : NULL};
}

void attention_drop_extras(attention_extras *extras)
{
    free(extras->log_gate);
    free(extras->beta);
    free(extras->w);
    *extras = (attention_extras){0};
}

void attention_add_extras(const attention_extras *extras, bo_attention_call *call)
{
    call->log_gate.data = extras->log_gate;
    call->beta.data = extras->beta;
    call->m = extras->w;
}

bool attention_case_open(attention_bench *bench, bo_context *context, const bo_attention_desc *desc, size_t tokens,
                         bool gradients, attention_case *out)
{
    *out = (attention_case){.context = context, .shape = {.sequences = 1, .tokens = tokens}};
    size_t count = desc->heads * tokens * desc->dim, tape_bytes = 0;
    bo_status status = bo_attention_create(context, desc, &out->attention);
    if (status == BO_OK && gradients)
        status = bo_attention_call_bytes(context, out->attention, &out->shape, false, &tape_bytes, NULL);
    if (status != BO_OK) {
        cli_fail(bench->run->session, "%s", bo_context_error(context));
        return false;
    }
    out->q = filled(bench, 1, count);
    out->k = filled(bench, 2, count);
    out->v = filled(bench, 3, count);
    out->out = attention_floats(count);
    out->extras = attention_some_extras(bench, desc, tokens);
    if (!gradients) return true;
    out->dout = filled(bench, 4, count);
    out->dq = attention_floats(count);
    out->dk = attention_floats(count);
    out->dv = attention_floats(count);
    out->dextras = allocate_extras(desc, tokens);
    out->tape = attention_floats(tape_bytes / sizeof(float) + 1);
    return true;
}

void attention_case_close(attention_case *what)
{
    bo_attention_destroy(what->attention);
    float *const arrays[] = {what->q,  what->k,  what->v,  what->out, what->dout,
                             what->dq, what->dk, what->dv, what->tape};
    attention_drop_extras(&what->extras);
    attention_drop_extras(&what->dextras);
    for (size_t i = 0; i < CLI_COUNT_OF(arrays); i++) free(arrays[i]);
    *what = (attention_case){0};
}

static bo_attention_call call_of(const attention_case *c, void *tape)
{
    bo_attention_call call = c->shape;
    call.q.data = c->q;
    call.k.data = c->k;
    call.v.data = c->v;
    call.out.data = c->out;
    call.tape = tape;
    attention_add_extras(&c->extras, &call);
    return call;
}

static bo_status forward(const attention_case *c, void *tape)
{
    const bo_attention_call call = call_of(c, tape);
    return bo_attention_forward(c->context, c->attention, &call);
}

bo_status attention_case_forward(void *what)
{
    return forward(what, NULL);
}

bo_status attention_case_backward(void *what)
{
    const attention_case *c = what;
    bo_attention_call call = call_of(c, c->tape);
    call.dout.data = c->dout;
    call.dq.data = c->dq;
    call.dk.data = c->dk;
    call.dv.data = c->dv;
    call.dlog_gate.data = c->dextras.log_gate;
    call.dbeta.data = c->dextras.beta;
    call.dm = c->dextras.w;
    return bo_attention_backward(c->context, c->attention, &call);
}

bo_status attention_case_both(void *what)
{
    const attention_case *c = what;
    bo_status status = forward(c, c->tape);
    return status == BO_OK ? attention_case_backward(what) : status;
}

/* ---- timing ------------------------------------------------------------------------------------------------------ */

/* Mean seconds of a given number of consecutive calls. */
static bool sample(attention_bench *bench, const attention_work *work, size_t calls, double *seconds)
{
    bo_status status = BO_OK;
    double start = cli_now();
    for (size_t i = 0; status == BO_OK && i < calls; i++) status = work->run(work->what);
    *seconds = (cli_now() - start) / (double)calls;
    if (status != BO_OK)
        cli_fail(bench->run->session, "%s", bo_context_error(work->context));
    else if (cli_interrupted())
        cli_fail(bench->run->session, "stopped on request");
    return status == BO_OK && !cli_interrupted();
}

/* Makes one warmup call and chooses the number of calls per sample. */
static bool warm_up(attention_bench *bench, attention_work *work)
{
    double seconds;
    if (!sample(bench, work, 1, &seconds)) return false;
    if (work->calls) return true;
    if (!sample(bench, work, 1, &seconds)) return false;
    work->calls = seconds < SAMPLE_SECONDS ? (size_t)ceil(SAMPLE_SECONDS / fmax(seconds, 1e-6)) : 1;
    return true;
}

bool attention_time(attention_bench *bench, attention_work *works, size_t count, double *seconds, double *ratios)
{
    size_t repeats = bench->options->repeats;
    double *samples = cli_allocate((count + 1) * repeats, sizeof(double), "times"), *shares = samples + count * repeats;
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++) ok = warm_up(bench, &works[i]);
    for (size_t r = 0; ok && r < repeats; r++)
        for (size_t i = 0; ok && i < count; i++)
            ok = sample(bench, &works[i], works[i].calls, &samples[i * repeats + r]);
    for (size_t i = 0; ok && ratios && i < count; i++) { /* before bench_median sorts the samples */
        for (size_t r = 0; r < repeats; r++) shares[r] = samples[i * repeats + r] / samples[r];
        ratios[i] = bench_median(shares, repeats);
    }
    for (size_t i = 0; ok && i < count; i++) seconds[i] = bench_median(samples + i * repeats, repeats);
    free(samples);
    return ok;
}

bool attention_small_gemm(attention_bench *bench, double *gflops, const char **implementation)
{
    bo_status status = bo_reference_small_gemm(bench->context, 1, gflops, implementation);
    if (status != BO_OK) cli_fail_status(bench->run->session, status);
    return status == BO_OK;
}

bool attention_against_small_gemm(attention_bench *bench, attention_work *work, double operations, attention_rate *out)
{
    size_t repeats = bench->options->repeats;
    double seconds[MAX_REPEATS], references[MAX_REPEATS], ratios[MAX_REPEATS], before, after;
    const char *implementation;
    if (!warm_up(bench, work) || !attention_small_gemm(bench, &before, &implementation)) return false;
    for (size_t r = 0; r < repeats; r++, before = after) {
        if (!sample(bench, work, work->calls, &seconds[r])) return false;
        if (!attention_small_gemm(bench, &after, &implementation)) return false;
        references[r] = (before + after) / 2;
        ratios[r] = 1e-9 * operations / seconds[r] / references[r];
    }
    out->seconds = bench_median(seconds, repeats);
    out->gflops = 1e-9 * operations / out->seconds;
    out->reference = bench_median(references, repeats);
    out->ratio = bench_median(ratios, repeats);
    return true;
}

void attention_crossing_add(attention_crossing *crossing, size_t tokens, double ratio)
{
    if (!crossing->last) {
        crossing->first = tokens;
        crossing->at = ratio <= 1 ? (double)tokens : INFINITY;
    } else if (ratio <= 1 && isinf(crossing->at)) {
        double high = log(crossing->ratio), share = high / (high - log(ratio));
        crossing->at = (double)crossing->last * pow((double)tokens / (double)crossing->last, share);
    }
    crossing->last = tokens;
    crossing->ratio = ratio;
}
