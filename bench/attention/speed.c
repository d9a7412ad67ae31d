/* Rates of forward and backward passes relative to small-GEMM, and times compared with PyTorch. */
#include "attention.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_EXACT = 16384, /* tokens; time is quadratic, several seconds per pass */
    MAX_PEER = 16384,  /* PyTorch keeps the state of every chunk */
    MAX_PEER_EXACT = 4096,
};

/* ---- relative to small-GEMM -------------------------------------------------------------------------------------- */

typedef struct pass {
    const char *name;
    bo_attention_desc desc;
    size_t tokens;
    bool gradients;
    double goal;
    const char *curve; /* name of the curve in the plot; NULL: not drawn */
} pass;

/* The plan, which counts the operations, and a description of it. */
static bool describe_plan(attention_bench *bench, const attention_case *what, const pass *p, bo_attention_cost *plan,
                          char *plan_text, size_t size)
{
    bo_status status = bo_attention_estimate(what->context, what->attention, &what->shape, plan);
    if (status != BO_OK)
        cli_fail_status(bench->run->session, status);
    else if (bo_attention_has(&p->desc, BO_TRAIT_CAPACITY))
        snprintf(plan_text, size, "tiles of %zu queries and %zu keys", plan->query_tile, plan->key_tile);
    else if (p->gradients)
        snprintf(plan_text, size, "chunks of %zu, states kept every %zu", plan->chunk, plan->segment);
    else
        snprintf(plan_text, size, "chunks of %zu", plan->chunk);
    return status == BO_OK;
}

static bool measure_pass(attention_bench *bench, const pass *p)
{
    attention_rate rate;
    attention_case what;
    char plan_text[96];
    bo_attention_cost plan;
    bool ok = attention_case_open(bench, bench->context, &p->desc, p->tokens, p->gradients, &what) &&
              describe_plan(bench, &what, p, &plan, plan_text, sizeof plan_text);
    attention_work work = {bench->context, p->gradients ? attention_case_both : attention_case_forward, &what, 0};
    ok = ok && attention_against_small_gemm(bench, &work, (p->gradients ? 3 : 1) * plan.operations, &rate);
    attention_case_close(&what);
    if (ok && p->curve) cli_curves_add(&bench->times, p->curve, (double)p->tokens, rate.seconds);
    if (ok)
        bench_add(bench->run, p->name, rate.ratio, "", p->goal, false, "%.4g ms, %.4g of %.4g GFLOP/s, %s",
                  1e3 * rate.seconds, rate.gflops, rate.reference, plan_text);
    return ok;
}

static bool linear_passes(attention_bench *bench, const char *what, bool gradients, double goal)
{
    const cli_counts *lengths = &bench->options->lengths, *features = &bench->options->features;
    for (size_t f = 0; f < features->count; f++) {
        for (size_t i = 0; i < lengths->count; i++) {
            size_t tokens = lengths->items[i], count = features->items[f];
            char name[96], curve[48];
            snprintf(name, sizeof name, "%s, %zu features, N = %zu / small-GEMM", what, count, tokens);
            snprintf(curve, sizeof curve, "linear, %zu features", count);
            pass p = {name, attention_favor(bench, count), tokens, gradients, goal, gradients ? NULL : curve};
            if (!measure_pass(bench, &p)) return false;
        }
    }
    return true;
}

bool attention_forward_part(attention_bench *bench)
{
    return linear_passes(bench, "forward", false, 0.75);
}

/* The backward pass counts twice the operations of the forward pass. */
bool attention_backward_part(attention_bench *bench)
{
    return linear_passes(bench, "forward + backward", true, 0.55);
}

bool attention_exact_part(attention_bench *bench)
{
    const cli_counts *lengths = &bench->options->lengths;
    for (size_t i = 0; i < lengths->count && lengths->items[i] <= MAX_EXACT; i++) {
        size_t tokens = lengths->items[i];
        char name[96];
        snprintf(name, sizeof name, "softmax forward, N = %zu / small-GEMM", tokens);
        pass p = {name, attention_exact(), tokens, false, 0.45, "softmax"};
        if (!measure_pass(bench, &p)) return false;
    }
    return true;
}

/* ---- bfloat16 relative to float32 -------------------------------------------------------------------------------- */

/* Alternates between the two precisions. */
static bool compare_precisions(attention_bench *bench, const bo_attention_desc *desc, size_t tokens, bool gradients,
                               double goal, const char *name)
{
    attention_case plain = {0}, narrow = {0};
    double seconds[2], ratios[2];
    bool ok = attention_case_open(bench, bench->context, desc, tokens, gradients, &plain) &&
              attention_case_open(bench, bench->narrow, desc, tokens, gradients, &narrow);
    bo_status (*run)(void *) = gradients ? attention_case_both : attention_case_forward;
    attention_work works[] = {{bench->context, run, &plain, 0}, {bench->narrow, run, &narrow, 0}};
    ok = ok && attention_time(bench, works, 2, seconds, ratios);
    attention_case_close(&plain);
    attention_case_close(&narrow);
    if (ok)
        bench_add(bench->run, name, 1 / ratios[1], "x", bench_narrow_goal(bench->run, goal), false,
                  "%s: %.4g ms and %.4g ms", bo_context_describe(bench->context)->isa, 1e3 * seconds[1],
                  1e3 * seconds[0]);
    return ok;
}

bool attention_precision_part(attention_bench *bench)
{
    const cli_counts *lengths = &bench->options->lengths, *features = &bench->options->features;
    char name[96];
    bool ok = true;
    for (size_t f = 0; f < features->count; f++) {
        const bo_attention_desc desc = attention_favor(bench, features->items[f]);
        for (size_t i = 0; ok && i < lengths->count; i++) {
            size_t tokens = lengths->items[i], count = features->items[f];
            snprintf(name, sizeof name, "forward, %zu features, N = %zu, bfloat16 / float32", count, tokens);
            ok = compare_precisions(bench, &desc, tokens, false, 3, name);
            snprintf(name, sizeof name, "forward + backward, %zu features, N = %zu, bfloat16 / float32", count, tokens);
            ok = ok && compare_precisions(bench, &desc, tokens, true, 2.5, name);
        }
    }
    const bo_attention_desc exact = attention_exact();
    for (size_t i = 0; ok && i < lengths->count && lengths->items[i] <= MAX_EXACT; i++) {
        snprintf(name, sizeof name, "softmax forward, N = %zu, bfloat16 / float32", lengths->items[i]);
        ok = compare_precisions(bench, &exact, lengths->items[i], false, NAN, name);
    }
    return ok;
}

/* ---- compared with PyTorch --------------------------------------------------------------------------------------- */

enum { PRECISIONS = 2 }; /* float32, bfloat16 */

/* Times of Bochner for one shape: forward, and forward + backward. features 0 means softmax attention, forward only. */
typedef struct measured_shape {
    size_t features, tokens;
    double forward[PRECISIONS], both[PRECISIONS];
} measured_shape;

enum { SHAPES = CLI_COUNTS * (CLI_COUNTS + 1) };

static size_t list_shapes(const attention_options *options, measured_shape *out)
{
    size_t count = 0;
    for (size_t i = 0; i < options->lengths.count; i++) {
        size_t tokens = options->lengths.items[i];
        for (size_t f = 0; f < options->features.count && tokens <= MAX_PEER; f++)
            out[count++] = (measured_shape){.features = options->features.items[f], .tokens = tokens};
        if (tokens <= MAX_PEER_EXACT) out[count++] = (measured_shape){.tokens = tokens};
    }
    return count;
}

static bool add_half_in(attention_bench *bench, bo_context *context, size_t precision, measured_shape *shape)
{
    const bool linear = shape->features != 0;
    const bo_attention_desc desc = linear ? attention_favor(bench, shape->features) : attention_exact();
    attention_case what;
    double seconds[2] = {0};
    bool ok = attention_case_open(bench, context, &desc, shape->tokens, linear, &what);
    attention_work works[] = {{context, attention_case_forward, &what, 0}, {context, attention_case_both, &what, 0}};
    ok = ok && attention_time(bench, works, linear ? 2 : 1, seconds, NULL);
    attention_case_close(&what);
    shape->forward[precision] += seconds[0] / 2;
    shape->both[precision] += seconds[1] / 2;
    return ok;
}

/* Adds half of each time; called once before and once after the run of PyTorch. */
static bool add_half(attention_bench *bench, measured_shape *shapes, size_t count)
{
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++)
        ok = add_half_in(bench, bench->context, 0, &shapes[i]) && add_half_in(bench, bench->narrow, 1, &shapes[i]);
    return ok;
}

/* bochner_seconds: the times of both precisions. goal: for float32 compared with float32; best_goal: for bfloat16
 * compared with the best of PyTorch. */
static void compare(attention_bench *bench, const char *json, const measured_shape *shape, const char *form,
                    const double *bochner_seconds, double goal, double best_goal)
{
    char pattern[96], name[96], map[32] = "softmax", setting[32] = "", variant[64];
    snprintf(pattern, sizeof pattern, "\"form\": \"%s\", \"features\": %zu, \"tokens\": %zu,", form, shape->features,
             shape->tokens);
    const char *record = strstr(json, pattern);
    if (!record) return; /* a length that is not a multiple of any chunk size */
    double peer_seconds = bench_json_number(record, "seconds"), block = bench_json_number(record, "block");
    double plain = bench_json_number(record, "float32_seconds");
    bench_json_text(record, "variant", variant, sizeof variant);
    if (shape->features) snprintf(map, sizeof map, "%zu features", shape->features);
    if (block > 0) snprintf(setting, sizeof setting, ", chunks of %.0f", block);
    snprintf(name, sizeof name, "%s, %s, N = %zu, float32 / PyTorch float32", form, map, shape->tokens);
    bench_add(bench->run, name, plain / bochner_seconds[0], "x", goal, false,
              "PyTorch in float32 %.4g ms, bochner's median %.4g ms", 1e3 * plain, 1e3 * bochner_seconds[0]);
    for (size_t i = 0; i < PRECISIONS; i++) {
        snprintf(name, sizeof name, "%s, %s, N = %zu, %s / best PyTorch", form, map, shape->tokens,
                 i ? "bfloat16" : "float32");
        bench_add(bench->run, name, peer_seconds / bochner_seconds[i], "x",
                  i ? bench_narrow_goal(bench->run, best_goal) : NAN, false,
                  "PyTorch at its best %.4g ms (%s%s, threads: %.0f), bochner's median %.4g ms", 1e3 * peer_seconds,
                  variant, setting, bench_json_number(record, "threads"), 1e3 * bochner_seconds[i]);
    }
}

static void write_list(const cli_counts *list, size_t max_item, char *text, size_t size)
{
    size_t length = 0;
    text[0] = 0;
    for (size_t i = 0; i < list->count && list->items[i] <= max_item && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%zu", i ? "," : "", list->items[i]);
}

/* For PyTorch, the best time of its best setting counts; for Bochner, a median. */
bool attention_peer_part(attention_bench *bench)
{
    measured_shape shapes[SHAPES];
    size_t count = list_shapes(bench->options, shapes);
    char lengths[256], features[256], repeats[32], max_exact[32];
    write_list(&bench->options->lengths, MAX_PEER, lengths, sizeof lengths);
    write_list(&bench->options->features, SIZE_MAX, features, sizeof features);
    snprintf(repeats, sizeof repeats, "%zu", bench->options->repeats < 3 ? bench->options->repeats : 3);
    snprintf(max_exact, sizeof max_exact, "%d", MAX_PEER_EXACT);
    if (count == 0 || !add_half(bench, shapes, count)) return count == 0;
    const char *const arguments[] = {lengths, features, repeats, max_exact, NULL};
    char *json = bench_peer(bench->run, &bench_torch, "attention_torch.py", arguments);
    if (!json) return true;
    bool ok = add_half(bench, shapes, count);
    for (size_t i = 0; ok && i < count; i++) {
        if (shapes[i].features) {
            compare(bench, json, &shapes[i], "forward", shapes[i].forward, 7, 5);
            compare(bench, json, &shapes[i], "forward + backward", shapes[i].both, 6, 5);
        } else {
            compare(bench, json, &shapes[i], "forward", shapes[i].forward, 6, NAN);
        }
    }
    free(json);
    return ok;
}
