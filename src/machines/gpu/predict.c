/* Predictions on a GPU: scaled rows are copied to it, mapped (features/gpu/map.h), centered, and multiplied by β in
 * float64. The quadratic form of deviations is |L⁻¹ v|² of rows v, by substitution from the left: for every block on
 * the diagonal of L, with its inverse V, x1 = v1 Vᵀ and v2 -= x1 L21ᵀ. The machine owns its copies on the GPU. */
#include "../../base/base.h"
#include "../../base/carver.h"
#include "../../device/copies.h"
#include "../../device/gpu/launch.h"
#include "../../features/gpu/map.h"
#include "../intervals.h"
#include "../machine.h"
#include "../prediction.h"
#include "../samples.h"
#include "../scaler.h"
#include "predict.h"
#include "sums.h"

#include <string.h>

enum { BLOCK = BO_GPU_CHOLESKY, MAX_ROWS = 16384, NUMBERS = 1 << 24, EMULATED_ROWS = 64 };

bool bo_gpu_predicts(const bo_context *context, const bo_machine *machine, const bo_input_view *inputs)
{
    return bo_context_is_on_gpu(context) && inputs->x && bo_gpu_map_exists(machine->phi);
}

/* ---- copies of the machine --------------------------------------------------------------------------------------- */

/* Offsets of the arrays in a copy, in bytes. Deviations: of the triangular system of `size` equations. */
typedef struct places {
    size_t beta, center, picked; /* of predictions */
    size_t inverses, packed, train, penalty;
    size_t bytes;
} places;

static bool is_dual(const bo_machine *machine)
{
    return machine->uncertainty == BO_UNCERTAINTY_DUAL;
}

/* Equations of the triangular system. */
static size_t size_of(const bo_machine *machine)
{
    return is_dual(machine) ? machine->train_rows : machine->report.features;
}

static size_t carve(bo_carver *carver, size_t count, size_t size)
{
    const size_t at = carver->bytes;
    bo_carve(carver, count, size);
    return at;
}

static places places_of(const bo_machine *machine, bool deviations)
{
    const size_t features = machine->report.features, n = size_of(machine);
    bo_carver carver = {0};
    places p = {0};
    if (deviations) {
        p.inverses = carve(&carver, bo_round_up(n, BLOCK) * BLOCK, sizeof(double));
        p.packed = carve(&carver, n * (n + 1) / 2, is_dual(machine) ? sizeof(double) : sizeof(float));
        p.train = carve(&carver, is_dual(machine) ? n * features : 0, sizeof(double));
        p.penalty = carve(&carver, is_dual(machine) ? features : 0, sizeof(double));
    } else {
        p.beta = carve(&carver, features * machine->report.outputs, sizeof(double));
        p.center = carve(&carver, features, sizeof(double));
        p.picked = carve(&carver, machine->intervals.columns, sizeof(uint32_t));
    }
    p.bytes = carver.bytes;
    return p;
}

static double factor_at(const bo_machine *machine, size_t i, size_t j)
{
    const size_t k = i * (i + 1) / 2 + j;
    return machine->factor ? (double)machine->factor[k] : machine->train_factor[k];
}

/* The inverse of the block of L at `first`, by substitution: lower, BLOCK x BLOCK. */
static void invert_block(const bo_machine *machine, size_t first, size_t rows, double *inverse)
{
    for (size_t j = 0; j < rows; j++)
        for (size_t i = j; i < rows; i++) {
            double sum = i == j;
            for (size_t k = j; k < i; k++) sum -= factor_at(machine, first + i, first + k) * inverse[k * BLOCK + j];
            inverse[i * BLOCK + j] = sum / factor_at(machine, first + i, first + i);
        }
}

static void fill_predictions(const bo_machine *machine, const places *p, char *host)
{
    const size_t features = machine->report.features, columns = machine->intervals.columns;
    memcpy(host + p->beta, machine->beta, features * machine->report.outputs * sizeof(double));
    memcpy(host + p->center, machine->center, features * sizeof(double));
    for (size_t k = 0; k < columns; k++) {
        const uint32_t column = (uint32_t)bo_deviation_column(features, columns, k);
        memcpy(host + p->picked + k * sizeof column, &column, sizeof column);
    }
}

static bo_status fill_deviations(bo_context *context, const bo_machine *machine, const places *p, char *host)
{
    const size_t n = size_of(machine), count = n * (n + 1) / 2;
    double *inverses = (double *)(void *)(host + p->inverses);
    for (size_t first = 0; first < n; first += BLOCK)
        invert_block(machine, first, bo_min(BLOCK, n - first), inverses + first * BLOCK);
    if (!is_dual(machine)) {
        memcpy(host + p->packed, machine->factor, count * sizeof *machine->factor);
        return BO_OK;
    }
    memcpy(host + p->packed, machine->train_factor, count * sizeof *machine->train_factor);
    memcpy(host + p->penalty, machine->penalty, machine->report.features * sizeof *machine->penalty);
    return bo_machine_train_features(context, machine, BO_MACHINE_BLOCK, (double *)(void *)(host + p->train));
}

/* Uploads the arrays of predictions or of deviations, unless they are on the device already. */
static bo_status prepare_copy(bo_context *context, const bo_machine *machine, bool deviations)
{
    bo_device *device = bo_device_of(context);
    bo_device_copies *copies = deviations ? machine->deviation_copies : machine->copies;
    if (bo_device_copy_find(copies, device, machine->version)) return BO_OK;
    const places p = places_of(machine, deviations);
    char *host = bo_alloc(context, p.bytes, 1, "a machine for the GPU");
    if (!host) return BO_MEMORY;
    bo_status status = BO_OK;
    if (deviations)
        status = fill_deviations(context, machine, &p, host);
    else
        fill_predictions(machine, &p, host);
    if (status == BO_OK) status = bo_device_copy_write(context, copies, device, machine->version, host, p.bytes);
    bo_free(host);
    return status;
}

static const char *copy_of(const bo_gpu_prediction *prediction, bool deviations)
{
    const bo_machine *machine = prediction->machine;
    return bo_device_copy_find(deviations ? machine->deviation_copies : machine->copies, prediction->device,
                               machine->version);
}

/* ---- memory of blocks -------------------------------------------------------------------------------------------- */

static size_t block_rows(const bo_context *context, const bo_machine *machine, size_t rows)
{
    const bool emulated = bo_device_properties(bo_device_of(context))->emulated; /* tests have several blocks, too */
    const size_t max_rows = bo_min(MAX_ROWS, NUMBERS / (machine->report.dim + machine->report.features) + 1);
    return bo_min(bo_max(rows, 1), emulated ? EMULATED_ROWS : max_rows);
}

/* Sets the addresses of all arrays; returns the number of bytes. */
static size_t lay_out(bo_gpu_prediction *p, void *memory)
{
    const bo_machine *machine = p->machine;
    const size_t rows = p->rows, features = machine->report.features, n = size_of(machine);
    bo_carver carver = {.at = memory};
    p->x = bo_carve_floats(&carver, rows * machine->scaler.kept);
    p->z = bo_carve_floats(&carver, rows * features);
    p->scratch = bo_carve(&carver, bo_gpu_map_bytes(machine->phi, rows), 1);
    p->wide = bo_carve(&carver, rows * features, sizeof(double));
    p->mean = bo_carve(&carver, rows * machine->report.outputs, sizeof(double));
    if (!p->deviations) return carver.bytes;
    p->picks = bo_carve(&carver, rows * machine->intervals.columns, sizeof(double));
    if (machine->uncertainty == BO_UNCERTAINTY_NONE) return carver.bytes;
    p->q = bo_carve(&carver, rows, sizeof(double));
    p->factor = bo_carve(&carver, n * n, sizeof(double));
    p->solved = bo_carve(&carver, rows * n, sizeof(double));
    p->right = is_dual(machine) ? bo_carve(&carver, rows * n, sizeof(double)) : p->wide;
    return carver.bytes;
}

static bo_status prepare(bo_context *context, bo_gpu_prediction *p)
{
    const bo_machine *machine = p->machine;
    const bool solves = p->deviations && machine->uncertainty != BO_UNCERTAINTY_NONE;
    BO_TRY(bo_gpu_map_prepare(context, machine->phi));
    BO_TRY(prepare_copy(context, machine, false));
    if (solves) BO_TRY(prepare_copy(context, machine, true));
    p->scaled = bo_alloc_raw(context, p->rows * machine->scaler.kept, sizeof *p->scaled, "a block of inputs");
    if (!p->scaled) return BO_MEMORY;
    p->memory = bo_buffer_allocate(context, p->device, lay_out(p, NULL), "a block of rows and their predictions");
    if (!p->memory) return BO_MEMORY;
    lay_out(p, p->memory);
    if (!solves) return BO_OK;
    return BO_LAUNCH(context, factor_unpack,
                     &((bo_gpu_factor_unpack){.type = is_dual(machine) ? BO_ELEMENT_FLOAT64 : BO_ELEMENT_FLOAT32,
                                              .n = size_of(machine),
                                              .packed = copy_of(p, true) + places_of(machine, true).packed,
                                              .l = p->factor,
                                              .ldl = size_of(machine)}));
}

bo_status bo_gpu_prediction_open(bo_context *context, const bo_machine *machine, size_t rows, bool deviations,
                                 bo_gpu_prediction *out)
{
    *out = (bo_gpu_prediction){.machine = machine,
                               .device = bo_device_of(context),
                               .rows = block_rows(context, machine, rows),
                               .deviations = deviations};
    bo_status status = prepare(context, out);
    if (status == BO_MEMORY && deviations)
        status = bo_fail(context, BO_MEMORY, "%s; predict without standard deviations", bo_context_error(context));
    if (status != BO_OK) bo_gpu_prediction_close(out);
    return status;
}

void bo_gpu_prediction_close(bo_gpu_prediction *prediction)
{
    bo_buffer_release(prediction->device, prediction->memory);
    bo_free(prediction->scaled);
    *prediction = (bo_gpu_prediction){0};
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Writes the centered features of the rows to `wide`, and their columns for deviations to `picks`. */
static bo_status map_rows(bo_context *context, const bo_gpu_prediction *p, const bo_input_view *inputs)
{
    const bo_machine *machine = p->machine;
    const size_t rows = inputs->rows, features = machine->report.features, dim = machine->scaler.kept;
    const char *copy = copy_of(p, false);
    const places at = places_of(machine, false);
    BO_TRY(bo_scaler_apply(context, &machine->scaler, inputs, p->scaled));
    BO_TRY(bo_buffer_write(context, p->device, p->x, p->scaled, rows * dim * sizeof *p->x));
    BO_TRY(bo_gpu_map_forward(context, machine->phi, rows, (bo_gpu_source){p->x, BO_ELEMENT_FLOAT32}, dim, NULL,
                              (bo_gpu_target){p->z, BO_ELEMENT_FLOAT32, false}, features, p->scratch));
    return BO_LAUNCH(context, feature_center,
                     &((bo_gpu_feature_center){.rows = rows,
                                               .features = features,
                                               .quantum = (float)machine->quantum,
                                               .z = p->z,
                                               .center = (const double *)(const void *)(copy + at.center),
                                               .wide = p->wide,
                                               .picks_count = p->deviations ? machine->intervals.columns : 0,
                                               .picked = (const uint32_t *)(const void *)(copy + at.picked),
                                               .picks = p->picks}));
}

/* Solves X Lᵀ = `right` for the rows of `right`, which is changed. */
static bo_status solve(bo_context *context, const bo_gpu_prediction *p, size_t rows, const double *inverses)
{
    const size_t n = size_of(p->machine);
    for (size_t first = 0; first < n; first += BLOCK) {
        const size_t size = bo_min(BLOCK, n - first), next = first + size;
        BO_TRY(bo_fit_multiply(context, false, true, rows, size, size, 1, p->right + first, n, inverses + first * BLOCK,
                               BLOCK, 0, p->solved + first, n));
        if (next < n)
            BO_TRY(bo_fit_multiply(context, false, true, rows, n - next, size, -1, p->solved + first, n,
                                   p->factor + next * n + first, n, 1, p->right + next, n));
    }
    return BO_OK;
}

static bo_status quadratic_form(bo_context *context, const bo_gpu_prediction *p, size_t rows)
{
    const bo_machine *machine = p->machine;
    const size_t features = machine->report.features, n = size_of(machine);
    const char *copy = copy_of(p, true);
    const places at = places_of(machine, true);
    if (is_dual(machine)) {
        BO_TRY(BO_LAUNCH(context, row_squares,
                         &((bo_gpu_row_squares){.rows = rows,
                                                .columns = features,
                                                .ld = features,
                                                .x = p->wide,
                                                .divisor = (const double *)(const void *)(copy + at.penalty),
                                                .out = p->q})));
        BO_TRY(bo_fit_multiply(context, false, true, rows, n, features, 1, p->wide, features,
                               (const double *)(const void *)(copy + at.train), features, 0, p->right, n));
    }
    BO_TRY(solve(context, p, rows, (const double *)(const void *)(copy + at.inverses)));
    return BO_LAUNCH(
        context, row_squares,
        &((bo_gpu_row_squares){
            .rows = rows, .columns = n, .ld = n, .x = p->solved, .subtract = is_dual(machine), .out = p->q}));
}

bo_status bo_gpu_predict(bo_context *context, const bo_gpu_prediction *p, const bo_input_view *inputs, double *mean,
                         double *columns, double *q)
{
    const bo_machine *machine = p->machine;
    const size_t rows = inputs->rows, features = machine->report.features, outputs = machine->report.outputs;
    const double *beta = (const double *)(const void *)(copy_of(p, false) + places_of(machine, false).beta);
    BO_TRY(map_rows(context, p, inputs));
    BO_TRY(bo_fit_multiply(context, false, false, rows, outputs, features, 1, p->wide, features, beta, outputs, 0,
                           p->mean, outputs));
    if (p->q) BO_TRY(quadratic_form(context, p, rows));
    BO_TRY(bo_buffer_read(context, p->device, mean, p->mean, rows * outputs * sizeof *mean));
    for (size_t k = 0; k < rows * outputs; k++) mean[k] += machine->intercept[k % outputs];
    if (!p->deviations) return BO_OK;
    BO_TRY(bo_buffer_read(context, p->device, columns, p->picks, rows * machine->intervals.columns * sizeof *columns));
    memset(q, 0, rows * sizeof *q);
    return p->q ? bo_buffer_read(context, p->device, q, p->q, rows * sizeof *q) : BO_OK;
}
