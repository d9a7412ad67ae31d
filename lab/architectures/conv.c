/* conv: output sizes and receptive fields of convolutions, the growth of the gradient of a shared kernel, and gradients
 * of pooling. */
#include "../experiment.h"
#include <math.h>
#include <string.h>
#include <bochner/network.h>

static const bo_lab_claim claims[] = {
    {.name = "shapes",
     .statement = "A convolution or pooling layer with kernel K, stride S and padding P has ⌊(n - K + 2P) / S⌋ + 1 "
                  "outputs for n inputs; F kernels over C channels in G groups have F K² C / G weights and F biases.",
     .number = "number of layers with a different shape or number of weights",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0,
     .passage = LAB_NOTES "lines 342-358: \"of weights: FK²C\", \"of bias: F\", \"W' = ⌊(W-K+2P)/S⌋ + 1\"; we add "
                          "groups, and rounding and padding of pooling"},
    {.name = "receptive-field",
     .statement = "An output depends on exactly 1 + Σ (K_l - 1) Π_{i<l} S_i inputs along an axis (its receptive "
                  "field).",
     .number = "number of inputs with zero gradient inside the receptive field or nonzero gradient outside",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0,
     .passage = LAB_NOTES "line 360: \"L layers with kernel size of K, and stride is 1 […] receptive field size is L × "
                          "(K-1) + 1\"; we add other strides"},
    {.name = "effective-field",
     .statement = "The effective receptive field grows as the square root of the depth, while the receptive field "
                  "grows linearly: in a deep stack the gradient is concentrated in the middle of the field.",
     .number = "exponent of the width of the gradient (root mean square distance from the center) as a power of the "
               "depth",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.4,
     .upper = 0.6,
     .source = "Luo, Li, Urtasun, Zemel: Understanding the effective receptive field, arXiv 1701.04128"},
    {.name = "independent",
     .statement =
         "If inputs and arriving gradients are independent with mean zero, the gradient of a kernel applied at m x m "
         "positions has standard deviation m σ_x σ_y: it grows as the side of the image.",
     .number = "exponent of the standard deviation as a power of m",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.95,
     .upper = 1.05,
     .passage = LAB_NOTES "lines 376-380: \"Var(dw_ij) = m² σ_x² σ_y²\", \"∴ Std(dw_ij) = Θ(n)\""},
    {.name = "independent-size",
     .statement = "The constant in this law is 1: for inputs and gradients of standard deviation 1, the standard "
                  "deviation of the gradient is m.",
     .number = "measured standard deviation divided by m, mean over sizes",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.97,
     .upper = 1.03,
     .passage = LAB_NOTES "line 378: \"Var(dw_ij) = m² σ_x² σ_y², where m = n - k + 1\""},
    {.name = "aligned",
     .statement =
         "Control: gradients that depend on the inputs add up. For the loss |y|²/2, whose gradient at the output is "
         "the output, the gradient of the kernel grows as m², the number of positions.",
     .number = "exponent of the root mean square as a power of m",
     .rule = BO_LAB_BETWEEN,
     .bound = 1.9,
     .upper = 2.1,
     .source = "Bochner"},
    {.name = "pooling",
     .statement =
         "Max pooling sends the whole gradient of a window to its largest input, and mean pooling sends 1/K² of it to "
         "each.",
     .number = "largest difference from this rule, for gradients of size 1",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-6,
     .passage = LAB_NOTES "lines 382-384: \"If max: only one of input pixel has gradient\", \"If average: distribute "
                          "gradient evenly\""},
};

static const bo_lab_table tables[] = {
    {.name = "field",
     .title = "Receptive field by depth (kernel 3, stride 1)",
     .rows = "layers",
     .values = "positions",
     .log_x = true,
     .log_y = true,
     .theory = "2 L + 1"},
    {.name = "strides",
     .title = "Receptive field by stack of layers",
     .rows = "layers, starting at the input",
     .values = "positions along an axis",
     .plot = BO_LAB_BARS,
     .theory = "predicted"},
    {.name = "gradient",
     .title = "Gradient of a shared kernel by output size",
     .rows = "m, side of the output",
     .values = "root mean square of the entries",
     .log_x = true,
     .log_y = true,
     .theory = "m"},
};

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

typedef struct shape_case {
    size_t kernel, stride, padding, groups; /* groups 0: a pooling layer */
} shape_case;

enum { HEIGHT = 11, WIDTH = 8, CHANNELS = 4, KERNELS = 6 };

static size_t places_after(size_t places, const shape_case *c)
{
    return (places + 2 * c->padding - c->kernel) / c->stride + 1;
}

/* Returns 1 if the first layer of the network differs from the formula. */
static bo_status check_shape(lab_run *run, const shape_case *c, size_t *wrong)
{
    char layer[160], model[512], expected[64];
    const size_t out = c->groups ? KERNELS : CHANNELS;
    snprintf(layer, sizeof layer,
             c->groups ? "\"type\": \"conv\", \"channels\": %d, \"groups\": %zu"
                       : "\"type\": \"pool\", \"kind\": \"max\"",
             KERNELS, c->groups);
    snprintf(model, sizeof model,
             "{\"input\": {\"kind\": \"image\", \"height\": %d, \"width\": %d, \"channels\": %d}, \"layers\": [{%s, "
             "\"kernel\": %zu, \"stride\": %zu, \"padding\": %zu}, {\"type\": \"flatten\"}, {\"type\": \"linear\", "
             "\"width\": \"classes\"}], \"classes\": 2, \"loss\": \"cross-entropy\"}",
             HEIGHT, WIDTH, CHANNELS, layer, c->kernel, c->stride, c->padding);
    bo_model *network;
    BO_TRY(bo_model_create_described(lab_context(run), &(bo_description){.text = model}, &network));
    const bo_layer_info *info = &bo_model_report(network)->network->layer[0];
    const size_t weights = c->groups ? KERNELS * c->kernel * c->kernel * CHANNELS / c->groups + KERNELS : 0;
    snprintf(expected, sizeof expected, "%zu x %zu x %zu", places_after(HEIGHT, c), places_after(WIDTH, c), out);
    if (strcmp(info->shape, expected) != 0 || info->weights != weights) (*wrong)++;
    bo_model_destroy(network);
    return BO_OK;
}

static bo_status measure_shapes(lab_run *run)
{
    size_t wrong = 0;
    const size_t max_kernel = lab_size(run, 5, 3);
    for (size_t groups = 0; groups <= 2; groups++)
        for (size_t kernel = 1; kernel <= max_kernel; kernel++)
            for (size_t stride = 1; stride <= 4; stride++)
                for (size_t padding = 0; padding <= 2 && (groups || padding == 0); padding++)
                    BO_TRY(check_shape(run, &(shape_case){kernel, stride, padding, groups}, &wrong));
    lab_claim(run, "shapes", (double)wrong);
    return BO_OK;
}

/* ---- receptive fields -------------------------------------------------------------------------------------------- */

enum { MAX_LAYERS = 32, SIDE = 48 };

typedef struct stack {
    const char *name;
    size_t layers;
    size_t kernel[4], stride[4];
    bool pool[4];
} stack;

static size_t field_of(const stack *s, size_t *step)
{
    size_t field = 1;
    *step = 1;
    for (size_t l = 0; l < s->layers; l++) field += (s->kernel[l] - 1) * *step, *step *= s->stride[l];
    return field;
}

/* Uses tanh between layers, because it has a nonzero gradient everywhere. */
static bo_value record_stack(lab_tape *tape, const stack *s, bo_value x, lab_image *image)
{
    for (size_t l = 0; l < s->layers; l++) {
        const bo_windows windows = lab_windows(*image, s->kernel[l], s->stride[l], 0);
        x = s->pool[l]
                ? lab_pool(tape->graph, x, BO_POOL_KIND_MEAN, &windows)
                : lab_convolution(tape->graph, lab_join("conv.", (char[]){(char)('0' + l), 0}).text, x, &windows, 4);
        x = lab_graph_unary(tape->graph, BO_UNARY_TANH, x);
        *image = lab_image_after(&windows);
    }
    return x;
}

/* Counts positions of the image with a wrong gradient. *active: the number of positions along the first axis with a
 * nonzero gradient. */
static size_t count_errors(const float *gradient, size_t row, size_t column, size_t field, size_t *active)
{
    size_t wrong = 0;
    *active = 0;
    for (size_t i = 0; i < SIDE; i++) {
        bool any = false;
        for (size_t j = 0; j < SIDE; j++) {
            const bool inside = i >= row && i < row + field && j >= column && j < column + field;
            const bool reached = gradient[i * SIDE + j] != 0;
            any |= reached;
            wrong += inside != reached;
        }
        *active += any;
    }
    return wrong;
}

static bo_status check_strides(lab_run *run, const stack *s, lab_tape *tape, double *wrong)
{
    lab_image image = {SIDE, SIDE};
    bo_value x = lab_tape_leaf(tape, "x", SIDE * SIDE, 1);
    bo_value y = record_stack(tape, s, x, &image);
    const size_t channels = bo_graph_columns(tape->graph, y);
    BO_TRY(lab_tape_plan(tape, y, lab_seed(run)));
    float x_numbers[SIDE * SIDE], arriving[SIDE * SIDE * 4] = {0}, gradient[SIDE * SIDE];
    bo_rng rng = lab_rng(run, s->name);
    lab_fill_normal(&rng, 1, SIDE * SIDE, x_numbers);
    const size_t row = image.height / 2, column = image.width / 3;
    arriving[(row * image.width + column) * channels] = 1;
    BO_TRY(lab_tape_write(tape, "x", x_numbers));
    BO_TRY(lab_tape_write(tape, LAB_ARRIVING, arriving));
    BO_TRY(lab_tape_run(tape, NULL));
    BO_TRY(lab_tape_gradient(tape, "x", gradient));
    size_t step, active;
    const size_t field = field_of(s, &step);
    *wrong += (double)count_errors(gradient, row * step, column * step, field, &active);
    lab_cell(run, "strides", s->name, "measured", (double)active);
    lab_cell(run, "strides", s->name, "predicted", (double)field);
    return BO_OK;
}

static bo_status measure_fields(lab_run *run)
{
    static const stack stacks[] = {
        {"one kernel of 5", 1, {5}, {1}, {false}},
        {"three kernels of 3", 3, {3, 3, 3}, {1, 1, 1}, {false}},
        {"two kernels of 5", 2, {5, 5}, {1, 1}, {false}},
        {"3, mean 2 stride 2, 3, mean 2 stride 2", 4, {3, 2, 3, 2}, {1, 2, 1, 2}, {false, true, false, true}},
        {"three of 3, stride 2", 3, {3, 3, 3}, {2, 2, 2}, {false}},
        {"5 stride 3, 3, 2 stride 2", 3, {5, 3, 2}, {3, 1, 2}, {false}},
    };
    double wrong = 0;
    for (size_t i = 0; i < LAB_COUNT_OF(stacks); i++) {
        lab_tape tape;
        bo_status status = lab_tape_open(lab_context(run), &tape);
        if (status == BO_OK) status = check_strides(run, &stacks[i], &tape, &wrong);
        lab_tape_close(&tape);
        BO_TRY(status);
    }
    lab_claim(run, "receptive-field", wrong);
    return BO_OK;
}

/* ---- effective receptive fields ---------------------------------------------------------------------------------- */

enum { WIDE = 16 };

/* Returns Σ g² distance² / Σ g² over the positions for one draw: a stack of kernels of size 3 along a sequence, reduced
 * to one position. */
static bo_status width_of(lab_run *run, lab_tape *tape, size_t layers, uint64_t seed, double *square)
{
    lab_image image = {1, 2 * layers + 1};
    const size_t places = image.width;
    bo_value x = lab_tape_leaf(tape, "x", places, WIDE), y = x;
    for (size_t l = 0; l < layers; l++) {
        char name[32];
        snprintf(name, sizeof name, "conv.%zu", l);
        const bo_windows windows = {.height = {.size = 1, .kernel = 1}, .width = {.size = image.width, .kernel = 3}};
        y = lab_convolution(tape->graph, name, y, &windows, WIDE);
        image = lab_image_after(&windows);
    }
    BO_TRY(lab_tape_plan(tape, y, seed));
    BO_TRY(lab_tape_run(tape, NULL));
    float gradient[(2 * MAX_LAYERS + 1) * WIDE];
    BO_TRY(lab_tape_gradient(tape, "x", gradient));
    double sum = 0, weighted = 0;
    for (size_t p = 0; p < places; p++) {
        const double distance = (double)p - (double)layers;
        for (size_t c = 0; c < WIDE; c++) {
            const double g = (double)gradient[p * WIDE + c];
            sum += g * g, weighted += g * g * distance * distance;
        }
    }
    *square = weighted / sum;
    return lab_progress(run, 0.3);
}

/* For independent kernels, the mean of g² is the distribution of a random walk with uniform steps from {-1, 0, 1}, one
 * per layer: its width is √(2 L / 3). */
static bo_status measure_effective(lab_run *run)
{
    double depths[6], widths[6];
    size_t count = 0;
    for (size_t layers = 1; layers <= MAX_LAYERS; layers *= 2) {
        const size_t draws = lab_size(run, 40, 12);
        double sum = 0;
        for (size_t draw = 0; draw < draws; draw++) {
            lab_tape tape;
            double square = 0;
            bo_status status = lab_tape_open(lab_context(run), &tape);
            if (status == BO_OK) status = width_of(run, &tape, layers, lab_seed(run) * 1000 + draw, &square);
            lab_tape_close(&tape);
            BO_TRY(status);
            sum += square;
        }
        depths[count] = (double)layers;
        widths[count++] = sqrt(sum / (double)draws);
        lab_point(run, "field", "2 L + 1", (double)layers, 2 * (double)layers + 1);
        lab_point(run, "field", "width of the gradient", (double)layers, widths[count - 1]);
        lab_point(run, "field", "√(2 L / 3)", (double)layers, sqrt(2 * (double)layers / 3));
    }
    lab_claim(run, "effective-field", lab_exponent(depths, widths, count));
    return BO_OK;
}

/* ---- the gradient of a shared kernel ----------------------------------------------------------------------------- */

enum {
    KERNEL = 3,
    TAPS = KERNEL * KERNEL,
    SIZES = 5,
    MIN_SIDE = 8,
    MAX_SIDE = MIN_SIDE << (SIZES - 1),
    PADDED_SIDE = MAX_SIDE + KERNEL - 1
};

typedef struct sharing {
    lab_tape tape;
    size_t m;
    bo_rng rng;
    float *x, *y; /* PADDED_SIDE² numbers */
} sharing;

static bo_status open_sharing(lab_run *run, sharing *s)
{
    const size_t n = s->m + KERNEL - 1;
    BO_TRY(lab_tape_open(lab_context(run), &s->tape));
    const bo_windows windows = lab_windows((lab_image){n, n}, KERNEL, 1, 0);
    bo_value x = lab_tape_leaf(&s->tape, "x", n * n, 1);
    return lab_tape_plan(&s->tape, lab_convolution(s->tape.graph, "conv", x, &windows, 1), lab_seed(run));
}

/* Returns the mean square of the entries of the gradient of the kernel. The arriving gradient is random, or the output
 * itself. */
static bo_status draw_gradient(sharing *s, bool aligned, double *square)
{
    const size_t n = s->m + KERNEL - 1;
    float gradient[TAPS];
    lab_fill_normal(&s->rng, 1, n * n, s->x);
    lab_fill_normal(&s->rng, 1, s->m * s->m, s->y);
    BO_TRY(lab_tape_write(&s->tape, "x", s->x));
    if (aligned) BO_TRY(lab_tape_run(&s->tape, NULL));
    if (aligned) BO_TRY(lab_tape_output(&s->tape, s->y));
    BO_TRY(lab_tape_write(&s->tape, LAB_ARRIVING, s->y));
    BO_TRY(lab_tape_run(&s->tape, NULL));
    BO_TRY(lab_tape_gradient(&s->tape, "conv.weight", gradient));
    *square = 0;
    for (size_t i = 0; i < TAPS; i++) *square += (double)gradient[i] * (double)gradient[i] / TAPS;
    return BO_OK;
}

static bo_status root_mean_square(sharing *s, bool aligned, size_t draws, double *out)
{
    double sum = 0;
    for (size_t i = 0; i < draws; i++) {
        double square;
        BO_TRY(draw_gradient(s, aligned, &square));
        sum += square;
    }
    *out = sqrt(sum / (double)draws);
    return BO_OK;
}

static bo_status share(lab_run *run, sharing *s)
{
    double sides[SIZES], drawn[SIZES], aligned[SIZES], ratio = 0;
    const size_t sizes = lab_size(run, SIZES, SIZES - 1);
    for (size_t i = 0; i < sizes; i++) {
        s->m = (size_t)MIN_SIDE << i;
        bo_status status = open_sharing(run, s);
        if (status == BO_OK) status = root_mean_square(s, false, lab_size(run, 600, 300), &drawn[i]);
        if (status == BO_OK) status = root_mean_square(s, true, lab_size(run, 40, 10), &aligned[i]);
        lab_tape_close(&s->tape);
        BO_TRY(status);
        sides[i] = (double)s->m;
        ratio += drawn[i] / sides[i] / (double)sizes;
        lab_point(run, "gradient", "m", sides[i], sides[i]);
        lab_point(run, "gradient", "gradients independent of the input", sides[i], drawn[i]);
        lab_point(run, "gradient", "gradients of |y|²/2", sides[i], aligned[i]);
        BO_TRY(lab_progress(run, 0.4 + 0.1 * (double)i));
    }
    lab_claim(run, "independent", lab_exponent(sides, drawn, sizes));
    lab_claim(run, "independent-size", ratio);
    lab_claim(run, "aligned", lab_exponent(sides, aligned, sizes));
    return BO_OK;
}

static bo_status measure_sharing(lab_run *run)
{
    sharing s = {.rng = lab_rng(run, "lab.conv")};
    s.x = bo_alloc(lab_context(run), PADDED_SIDE * PADDED_SIDE, sizeof(float), "an image");
    s.y = bo_alloc(lab_context(run), PADDED_SIDE * PADDED_SIDE, sizeof(float), "a gradient");
    const bo_status status = s.x && s.y ? share(run, &s) : BO_MEMORY;
    bo_free(s.x);
    bo_free(s.y);
    return status;
}

/* ---- pooling ----------------------------------------------------------------------------------------------------- */

enum { WINDOW = 3, POOLED = 4, POOL_SIDE = WINDOW * POOLED };

/* Returns the largest difference of the gradient in window (i, j) from the expected one. arriving: the gradient of the
 * window. */
static double window_error(const float *x, const float *gradient, bool max, size_t i, size_t j, float arriving)
{
    size_t winner = (i * POOL_SIDE + j) * WINDOW;
    double worst = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t k = 0; k < WINDOW * WINDOW; k++) {
            const size_t at = (i * WINDOW + k / WINDOW) * POOL_SIDE + j * WINDOW + k % WINDOW;
            if (pass == 0 && x[at] > x[winner]) winner = at;
            if (pass == 0) continue;
            const double share = max ? (at == winner ? 1.0 : 0.0) : 1.0 / (WINDOW * WINDOW);
            worst = fmax(worst, fabs((double)gradient[at] - share * (double)arriving));
        }
    return worst;
}

static bo_status pool_error(lab_run *run, lab_tape *tape, bo_pool_kind kind, double *worst)
{
    float x[POOL_SIDE * POOL_SIDE], arriving[POOLED * POOLED], gradient[POOL_SIDE * POOL_SIDE];
    bo_rng rng = lab_rng(run, "lab.conv.pool");
    const bo_windows windows = lab_windows((lab_image){POOL_SIDE, POOL_SIDE}, WINDOW, WINDOW, 0);
    bo_value leaf = lab_tape_leaf(tape, "x", POOL_SIDE * POOL_SIDE, 1);
    BO_TRY(lab_tape_plan(tape, lab_pool(tape->graph, leaf, kind, &windows), 1));
    lab_fill_normal(&rng, 1, POOL_SIDE * POOL_SIDE, x);
    lab_fill_normal(&rng, 1, POOLED * POOLED, arriving);
    BO_TRY(lab_tape_write(tape, "x", x));
    BO_TRY(lab_tape_write(tape, LAB_ARRIVING, arriving));
    BO_TRY(lab_tape_run(tape, NULL));
    BO_TRY(lab_tape_gradient(tape, "x", gradient));
    for (size_t i = 0; i < POOLED; i++)
        for (size_t j = 0; j < POOLED; j++)
            *worst = fmax(*worst, window_error(x, gradient, kind == BO_POOL_KIND_MAX, i, j, arriving[i * POOLED + j]));
    return BO_OK;
}

static bo_status measure_pooling(lab_run *run)
{
    double worst = 0;
    for (int kind = 0; kind < BO_POOL_COUNT; kind++) {
        lab_tape tape;
        bo_status status = lab_tape_open(lab_context(run), &tape);
        if (status == BO_OK) status = pool_error(run, &tape, (bo_pool_kind)kind, &worst);
        lab_tape_close(&tape);
        BO_TRY(status);
    }
    lab_claim(run, "pooling", worst);
    return BO_OK;
}

static bo_status measure(lab_run *run)
{
    BO_TRY(measure_shapes(run));
    BO_TRY(measure_fields(run));
    BO_TRY(measure_effective(run));
    BO_TRY(measure_sharing(run));
    return measure_pooling(run);
}

const lab_experiment lab_conv = {
    {.name = "conv",
     .group = LAB_ARCHITECTURES,
     .title = "Convolutions: output sizes, receptive fields, gradients of shared kernels",
     .claim =
         "Output sizes and receptive fields of convolutions follow from kernel, stride and padding. The gradient of a "
         "kernel shared by m x m positions grows as m if inputs and gradients are independent, and as m² if they are "
         "not.",
     .source = "course notes, feature dimensions of a CNN; weights and gradients in a CNN",
     .method =
         "Layers with every kernel up to 5, stride up to 4, padding up to 2 and one or two groups are created on "
         "images of 11 x 8 x 4 (the library has no dilation). Receptive fields: in stacks of layers with tanh between "
         "them, a gradient is sent into one output and read at all inputs of a 48 x 48 image. Effective receptive "
         "fields: 1 to 32 linear layers of 16 channels with kernels of 3 are drawn 40 times; the theory of "
         "independent weights predicts √(2 L / 3). Shared kernels: one 3 x 3 kernel is applied to images of normal "
         "numbers from 10 x 10 to 130 x 130; the gradient at the output is normal and independent, or the output "
         "itself. The course notes state Θ(n), which is the first case.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
