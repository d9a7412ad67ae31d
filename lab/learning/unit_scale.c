/* unit-scale: weights, activations and gradients of size 1, and training in 8 bits. */
#include "../experiment.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const bo_lab_claim claims[] = {
    {.name = "float8",
     .statement = "Under unit scaling, training with 8-bit matrix products increases the held-out loss by at most "
                  "0.03 nats per byte.",
     .number = "held-out loss in 8 bits minus held-out loss in 32 bits, in nats per byte, each at its best learning "
               "rate",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.03},
    {.name = "float8-standard",
     .statement = "In the standard parametrization without rescaling, training in 8 bits increases the held-out loss "
                  "by at least 0.1 nats per byte.",
     .number = "held-out loss in 8 bits minus held-out loss in 32 bits, in nats per byte, each at its best learning "
               "rate",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.1},
    {.name = "sizes",
     .statement = "Under unit scaling, weights, activations and activation gradients start near 1, within the normal "
                  "numbers of E4M3.",
     .number = "largest |log2 of the size| of any of them; the smallest normal number is 2⁻⁶",
     .rule = BO_LAB_AT_MOST,
     .bound = 6},
    {.name = "forward",
     .statement = "With W ~ N(0, 1), y = W x / √(fan in) has the size of x.",
     .number = "exponent of the size of y as a power of the fan in",
     .rule = BO_LAB_BETWEEN,
     .bound = -0.1,
     .upper = 0.1,
     .passage = LAB_NOTES "lines 203-205: \"W should be (1/√d_1) W_previous\""},
    {.name = "forward-notes",
     .statement = "With the multiplier √(fan in) instead of its inverse, y has the size of x.",
     .number = "exponent of the size of y as a power of the fan in",
     .rule = BO_LAB_BETWEEN,
     .bound = -0.1,
     .upper = 0.1,
     .source = LAB_NOTES "line 312: \"c = √din to set variance 1/din scaled\". Probably a slip of the pen or of the "
                         "transcription: line 316 of the same derivation uses 1/√din"},
    {.name = "sign",
     .statement = "With the learning rate 1/√(fan in), sign steps change y by at most its size, at any width.",
     .number = "largest size of Δy over all fan ins, for the input of the step",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1,
     .passage = LAB_NOTES "line 324: \"‖ΔW‖ ≤ α‖sign(g) sign(xᵀ)‖ = α√(din·dout) = √dout\", which gives α = 1/√din"},
    {.name = "sign-notes",
     .statement = "With the learning rate √(fan in) instead of its inverse, sign steps change y by at most its size.",
     .number = "largest size of Δy over all fan ins, for the input of the step",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1,
     .source = LAB_NOTES "line 324: \"α√(din·dout) = √dout ∴ α = √din\". Probably a slip of the pen or of the "
                         "transcription: the equation before it gives α = 1/√din"},
    {.name = "sign-size",
     .statement =
         "A sign step of size η for one example x with normal entries of variance 1 changes an output by y' with "
         "E y'² = η² d², where d is the fan in.",
     .number = "mean y'² / (η² d²) at the largest fan in (theory: 2/π)",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.95,
     .upper = 1.05,
     .passage = LAB_NOTES
     "lines 186 and 216-218: \"entries of X are sampled i.i.d from unit Gaussian\", \"E(‖y'‖²_RMS) = "
     "[…] η² [E(Σ|x_i|)]² = η² d_1²\". That part (b), from line 211 on, has the inputs of part (a) on line "
     "186 is our reading; for entries of 1 and -1 the equation is exact"},
    {.name = "sign-scale",
     .statement = "The size of this change is proportional to d.",
     .number = "exponent of the size of y' as a power of the fan in",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.95,
     .upper = 1.05,
     .passage = LAB_NOTES "line 220: \"For Δy, y', scale is d_1 !!\""},
    {.name = "muon",
     .statement = "With the learning rate √(fan out), the change of y by a step of Muon does not depend on the shape: "
                  "|ΔW| ∝ √(fan out / fan in) with the factor 1/√(fan in) before W.",
     .number = "largest |exponent| of the size of Δy, as a power of the fan in and of the fan out",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.1,
     .source =
         LAB_NOTES "line 332: \"α ≤ √dout\", which bounds the change of y; that the change does not depend on the "
                   "shape is our extension"},
};

static const bo_lab_table tables[] = {
    {.name = "losses",
     .title = "Held-out loss at the best learning rate",
     .rows = "parametrization",
     .values = "held-out loss, nats per byte",
     .plot = BO_LAB_BARS},
    {.name = "sizes",
     .title = "Sizes before the first step",
     .rows = "quantity",
     .values = "root mean square; gradients as rounded",
     .plot = BO_LAB_NO_PLOT},
    {.name = "steps",
     .title = "Size of Δy after one step divided by the learning rate, by fan in (fan out 64)",
     .rows = "fan in",
     .values = "size of Δy / learning rate",
     .log_x = true,
     .log_y = true,
     .theory = "√(2/π) √(fan in)"},
    {.name = "muon",
     .title = "Size of Δy after one step of Muon with learning rate √(fan out)",
     .rows = "fan in or fan out",
     .values = "size of Δy",
     .log_x = true},
};

/* ---- losses ------------------------------------------------------------------------------------------------------ */

enum { LAYERS = 2, WIDTH = 64, CONTEXT = 64 };
enum { SIDES = 2, STANDARD = 0, UNIT = 1, KINDS = 2 };
static const bo_parametrization sides[SIDES] = {BO_PARAMETRIZATION_STANDARD, BO_PARAMETRIZATION_UNIT};
static const char *const side_names[SIDES] = {"standard", "unit scale"};
static const bo_storage kinds[KINDS] = {BO_STORAGE_FLOAT32, BO_STORAGE_FLOAT8};
static const char *const kind_names[KINDS] = {"32 bits", "8 bits"};

static bo_model_desc shape(lab_run *run, size_t side, bo_storage storage)
{
    return (bo_model_desc){.layers = LAYERS,
                           .width = WIDTH,
                           .block.heads = 4,
                           .context = CONTEXT,
                           .block.mlp = BO_MLP_GELU,
                           .untied = true,
                           .parametrization = sides[side],
                           .base_width = WIDTH,
                           .storage = storage,
                           .seed = lab_seed(run)};
}

static size_t batch_of(lab_run *run)
{
    return lab_size(run, 32, 16);
}

/* Returns the best loss over the learning rates. */
static bo_status train(lab_run *run, const lab_text *text, size_t side, size_t kind, double *best)
{
    const bo_model_desc desc = shape(run, side, kinds[kind]);
    const size_t rates = lab_size(run, 4, 1);
    *best = log(256);
    for (size_t i = 0; i < rates; i++) {
        const double part = 0.95 / (double)(SIDES * KINDS * rates);
        const double from = part * (double)((side * KINDS + kind) * rates + i);
        const lab_training training = {
            .optimizer = {.kind = BO_OPTIMIZER_ADAMW, .rate = rates > 1 ? ldexp(1, (int)i - 8) : 0x1p-7},
            .batch = batch_of(run),
            .steps = lab_size(run, 100, 40),
            .eval_tokens = lab_size(run, 16384, 4096),
            .from = from,
            .to = from + part};
        bo_model *model;
        lab_trained trained;
        BO_TRY(lab_train_new(run, &desc, text, &training, &model, &trained));
        bo_model_destroy(model);
        *best = fmin(*best, trained.loss);
    }
    return BO_OK;
}

static bo_status measure_losses(lab_run *run, const lab_text *text)
{
    double losses[SIDES][KINDS];
    for (size_t side = 0; side < SIDES; side++)
        for (size_t kind = 0; kind < KINDS; kind++) {
            BO_TRY(train(run, text, side, kind, &losses[side][kind]));
            lab_cell(run, "losses", side_names[side], kind_names[kind], losses[side][kind]);
        }
    lab_claim(run, "float8", losses[UNIT][1] - losses[UNIT][0]);
    lab_claim(run, "float8-standard", losses[STANDARD][1] - losses[STANDARD][0]);
    return BO_OK;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static double root_mean_square(size_t count, const float *x)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum / (double)count);
}

/* Records the size of one quantity, and the distance of the sizes under unit scaling from 1. */
typedef struct sizing {
    lab_run *run;
    bo_model *model;
    size_t side;
    double furthest; /* largest |log2 size| */
} sizing;

static void note_size(sizing *z, const char *what, double size)
{
    lab_cell(z->run, "sizes", what, side_names[z->side], size);
    z->furthest = fmax(z->furthest, fabs(log2(size)));
}

enum { SEQUENCES = 8, TOKENS = CONTEXT, LAYER_NAMES = 4 };
static const char *const layer_names[LAYER_NAMES] = {"self_attn.q_proj", "self_attn.o_proj", "mlp.up_proj",
                                                     "mlp.down_proj"};

static const bo_weight *weight_of(const sizing *z, size_t index, const char *suffix)
{
    char name[96];
    snprintf(name, sizeof name, "model.layers.%d.%s.%s", LAYERS - 1, layer_names[index], suffix);
    return bo_weights_find(lab_model_weights(z->model), name);
}

/* Only the last token has a target, so that in the last layer only its row has a gradient (except v), and the gradient
 * of a bias is that of the output of its layer. The gradient has the size that it has for one token of a training
 * batch. */
static bo_status run_gradients(const sizing *z, lab_model_pass *pass, const int32_t *ids)
{
    int32_t targets[TOKENS];
    for (size_t i = 0; i < TOKENS; i++) targets[i] = i + 1 < TOKENS ? -1 : ids[TOKENS];
    return lab_model_pass_run(lab_context(z->run), pass, ids, targets, 1 / (double)(CONTEXT * batch_of(z->run)));
}

static bo_status sum_gradients(sizing *z, lab_model_pass *pass, const int32_t *ids)
{
    double squares[LAYER_NAMES] = {0};
    char what[96];
    for (size_t s = 0; s < SEQUENCES; s++) {
        BO_TRY(run_gradients(z, pass, ids + s * TOKENS));
        for (size_t i = 0; i < LAYER_NAMES; i++) {
            const bo_weight *bias = weight_of(z, i, "bias");
            squares[i] += pow(root_mean_square(bias->rows * bias->columns, bias->gradient), 2) / SEQUENCES;
        }
    }
    for (size_t i = 0; i < LAYER_NAMES; i++) {
        const bo_weight *weight = weight_of(z, i, "weight");
        const char *last = strrchr(layer_names[i], '.') + 1;
        snprintf(what, sizeof what, "weights of %s", last);
        note_size(z, what, root_mean_square(weight->rows * weight->columns, weight->data));
        snprintf(what, sizeof what, "gradient of the output of %s", last);
        note_size(z, what, sqrt(squares[i]));
    }
    return BO_OK;
}

static bo_status note_gradients(sizing *z, const int32_t *ids)
{
    lab_model_pass *pass;
    BO_TRY(lab_model_pass_open(lab_context(z->run), z->model, TOKENS, &pass));
    const bo_status status = sum_gradients(z, pass, ids);
    lab_model_pass_close(pass);
    return status;
}

static bo_status note_stream(sizing *z, const int32_t *ids)
{
    enum { PARTS = 1 + 2 * LAYERS, NUMBERS = CONTEXT * WIDTH };
    static const char *const names[PARTS] = {"embedding", "after attention 0", "after MLP 0", "after attention 1",
                                             "after MLP 1"};
    float *stream = bo_alloc(lab_context(z->run), PARTS * NUMBERS, sizeof *stream, "a residual stream");
    if (!stream) return BO_MEMORY;
    const bo_status status = lab_stream(z->run, z->model, ids, stream);
    for (size_t i = 0; status == BO_OK && i < PARTS; i++)
        note_size(z, names[i], root_mean_square(NUMBERS, stream + i * NUMBERS));
    bo_free(stream);
    return status;
}

static bo_status measure_sizes(lab_run *run, const lab_text *text)
{
    int32_t ids[SEQUENCES * TOKENS + 1];
    BO_TRY(bo_corpus_read(lab_context(run), text->train, 0, LAB_COUNT_OF(ids), ids));
    for (size_t side = 0; side < SIDES; side++) {
        sizing z = {.run = run, .side = side};
        bo_model_desc desc = shape(run, side, BO_STORAGE_FLOAT32);
        desc.block.bias = true;
        BO_TRY(bo_model_create(lab_context(run), &desc, text->tokenizer, &z.model));
        bo_status status = note_stream(&z, ids);
        if (status == BO_OK) status = note_gradients(&z, ids);
        bo_model_destroy(z.model);
        BO_TRY(status);
        if (side == UNIT) lab_claim(run, "sizes", z.furthest);
    }
    return BO_OK;
}

/* ---- one step of one layer --------------------------------------------------------------------------------------- */

typedef struct step {
    size_t in, out, rows;
    double factor; /* factor before W */
    bo_optimizer_desc optimizer;
} step;

typedef struct moved {
    double y;                         /* size before the step */
    double same_inputs, other_inputs; /* size of the change for the inputs of the step, and for other inputs */
} moved;

static bo_value record(const void *user, bo_graph *graph, bo_value x)
{
    const step *s = user;
    char name[] = "W";
    const bo_weight_desc w = {.name = name,
                              .rank = 2,
                              .shape = (size_t[]){s->out, s->in},
                              .init = {.kind = BO_WEIGHT_INIT_KIND_NORMAL, .b = 1}};
    const bo_linear_attributes attributes = {.weights = 1, .scale = s->factor};
    return lab_graph_one(graph, BO_OPERATION_LINEAR, &attributes, 2, (bo_value[]){x, bo_graph_weight(graph, &w)});
}

static void draw(bo_rng *rng, size_t rows, size_t columns, float *out)
{
    lab_fill_normal(rng, 1, rows * columns, out);
    for (size_t r = 0; r < rows; r++) {
        const double size = root_mean_square(columns, out + r * columns);
        for (size_t c = 0; c < columns; c++) out[r * columns + c] = (float)((double)out[r * columns + c] / size);
    }
}

/* Buffers: x, other x, target; y and other y before the step; y after it. */
static bo_status take_step(const step *s, lab_fit *fit, bo_rng *rng, float *buffer, moved *out)
{
    const size_t in = s->rows * s->in, outputs = s->rows * s->out;
    float *x = buffer, *other_inputs = x + in, *target = other_inputs + in, *y = target + outputs,
          *y_other = y + outputs, *after = y_other + outputs;
    double loss;
    draw(rng, s->rows, s->in, x);
    draw(rng, s->rows, s->in, other_inputs);
    draw(rng, s->rows, s->out, target);
    BO_TRY(lab_fit_predict(fit, x, y));
    BO_TRY(lab_fit_predict(fit, other_inputs, y_other));
    out->y = root_mean_square(outputs, y);
    BO_TRY(lab_fit_step(fit, x, target, 1, &loss));
    BO_TRY(lab_fit_predict(fit, x, after));
    for (size_t i = 0; i < outputs; i++) after[i] -= y[i];
    out->same_inputs = root_mean_square(outputs, after);
    BO_TRY(lab_fit_predict(fit, other_inputs, after));
    for (size_t i = 0; i < outputs; i++) after[i] -= y_other[i];
    out->other_inputs = root_mean_square(outputs, after);
    return BO_OK;
}

static bo_status measure_step(lab_run *run, const step *s, moved *out)
{
    lab_fit fit;
    bo_rng rng = lab_rng(run, "lab.unit-scale.step");
    const lab_fit_desc desc = {
        .rows = s->rows, .in = s->in, .out = s->out, .record = record, .user = s, .optimizer = s->optimizer};
    float *buffer = bo_alloc(lab_context(run), s->rows * (2 * s->in + 4 * s->out), sizeof *buffer, "a step");
    if (!buffer) return BO_MEMORY;
    bo_status status = lab_fit_open(run, &desc, &fit);
    if (status == BO_OK) {
        status = take_step(s, &fit, &rng, buffer, out);
        lab_fit_close(&fit);
    }
    bo_free(buffer);
    return status;
}

enum { SHAPES = 7, FIRST = 16, SIDE = 64, BATCH = 64 };
static const bo_optimizer_desc by_sign = {.kind = BO_OPTIMIZER_SIGN, .rate = 1, .momentum = -1};

static bo_status measure_signs(lab_run *run)
{
    double ins[SHAPES], sizes[SHAPES], notes_sizes[SHAPES], changes[SHAPES], max = 0, notes_max = 0;
    for (size_t i = 0; i < SHAPES; i++) {
        const size_t in = (size_t)FIRST << i;
        const double root = ins[i] = sqrt((double)in);
        step s = {.in = in, .out = SIDE, .rows = 1, .factor = 1 / root, .optimizer = by_sign};
        moved one, many, notes;
        BO_TRY(measure_step(run, &s, &one));
        s.rows = BATCH;
        BO_TRY(measure_step(run, &s, &many));
        s.factor = root;
        BO_TRY(measure_step(run, &s, &notes));
        sizes[i] = many.y;
        notes_sizes[i] = notes.y;
        changes[i] = one.same_inputs * root; /* without the factor before W */
        max = fmax(max, one.same_inputs / root);
        notes_max = fmax(notes_max, one.same_inputs * root);
        lab_point(run, "steps", "sign, one example, same", (double)in, one.same_inputs);
        lab_point(run, "steps", "sign, one example, another", (double)in, one.other_inputs);
        lab_point(run, "steps", "sign, 64 examples, same", (double)in, many.same_inputs);
        lab_point(run, "steps", "√(2/π) √(fan in)", (double)in, sqrt(2 / acos(-1)) * root);
        ins[i] = (double)in;
    }
    lab_claim(run, "forward", lab_exponent(ins, sizes, SHAPES));
    lab_claim(run, "forward-notes", lab_exponent(ins, notes_sizes, SHAPES));
    lab_claim(run, "sign-size", pow(changes[SHAPES - 1] / ins[SHAPES - 1], 2));
    lab_claim(run, "sign-scale", lab_exponent(ins, changes, SHAPES));
    lab_claim(run, "sign", max);
    lab_claim(run, "sign-notes", notes_max);
    return BO_OK;
}

/* Learning rate √(fan out) and 1/√(fan in) before W: one side of the shape grows, the other is constant. */
static bo_status measure_muon(lab_run *run)
{
    double lengths[SHAPES], by_in[SHAPES], by_out[SHAPES];
    for (size_t i = 0; i < SHAPES; i++) {
        const size_t length = (size_t)FIRST << i;
        lengths[i] = (double)length;
        step s = {.rows = 1, .optimizer = {.kind = BO_OPTIMIZER_MUON, .factor = BO_MUON_FACTOR_NONE}};
        moved tall, wide;
        s.in = length, s.out = SIDE;
        s.factor = 1 / sqrt((double)s.in), s.optimizer.rate = sqrt((double)s.out);
        BO_TRY(measure_step(run, &s, &wide));
        s.in = SIDE, s.out = length;
        s.factor = 1 / sqrt((double)s.in), s.optimizer.rate = sqrt((double)s.out);
        BO_TRY(measure_step(run, &s, &tall));
        by_in[i] = wide.same_inputs;
        by_out[i] = tall.same_inputs;
        lab_point(run, "muon", "fan in grows, fan out 64", lengths[i], wide.same_inputs);
        lab_point(run, "muon", "fan out grows, fan in 64", lengths[i], tall.same_inputs);
    }
    lab_claim(run, "muon",
              fmax(fabs(lab_exponent(lengths, by_in, SHAPES)), fabs(lab_exponent(lengths, by_out, SHAPES))));
    return BO_OK;
}

static bo_status measure(lab_run *run)
{
    lab_text text;
    BO_TRY(measure_signs(run));
    BO_TRY(measure_muon(run));
    BO_TRY(lab_text_open(run, (size_t)1 << 18, &text));
    bo_status status = measure_sizes(run, &text);
    if (status == BO_OK) status = measure_losses(run, &text);
    lab_text_close(&text);
    return status;
}

const lab_experiment lab_unit_scale = {
    {.name = "unit-scale",
     .group = LAB_LEARNING,
     .title = "Unit scaling for 8-bit floating point",
     .claim = "With weights of standard deviation 1 and a constant factor before each, weights, activations and "
              "gradients start near 1, so 8-bit floating point can represent them without rescaling. The factors also "
              "determine the sizes of sign steps and of Muon steps.",
     .source = "u-μP (arXiv 2407.17465); course notes, μP at unit scale",
     .method =
         "Transformers with two layers of width 64 learn a text with AdamW for 100 steps of 32 windows of 64 bytes, "
         "at the best of the learning rates 2⁻⁸, 2⁻⁷, 2⁻⁶, 2⁻⁵. In 8 bits, x and W are rounded to E4M3 and gradients "
         "to E5M2 in every linear layer of the blocks, without rescaling. Sizes are root mean squares before the "
         "first step; gradients are those of a training batch. Steps: one layer y = c W x with W ~ N(0, 1) and c = "
         "1/√(fan in), inputs of size 1 and random targets, fan in 16 to 1024; measured is the change of y after one "
         "sign step or one step of Muon, for the example of the step, for another example, and for a batch of 64.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables),
     .text = true},
    measure};
