/* Fits of kernel machines on the device: random rows that stream in blocks, with given γ and λ. The sums over the rows
 * and the solution of the system are timed by the host clock. */
#include "device.h"
#include "../../src/backend/backend.h"
#include "../../cli/shared/hash.h"
#include <bochner/machines.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLE_ROWS = 4096, BLOCK_ROWS = 65536 };

typedef struct fit {
    const device_fit_options *options;
    bo_gram_precision precision;
    float *x; /* BLOCK_ROWS rows, which are added repeatedly */
    double *y;
    double adding, solving; /* seconds of the latest fit */
} fit;

static void fill(fit *f)
{
    const size_t columns = f->options->columns;
    for (size_t i = 0; i < BLOCK_ROWS; i++) {
        float *row = f->x + i * columns;
        for (size_t j = 0; j < columns; j++)
            row[j] = (float)((double)(cli_hash(f->options->seed, i * columns + j) >> 11) * 0x1p-52 - 1);
        f->y[i] = sin(3 * (double)row[0]) + (double)row[columns - 1];
    }
}

static bo_samples rows_of(const fit *f, size_t rows)
{
    return (bo_samples){.rows = rows, .dim = f->options->columns, .targets = 1, .x = f->x, .y = f->y};
}

static bo_status fit_blocks(bo_context *context, fit *f, bo_fitting *fitting, bo_machine **machine)
{
    const double start = cli_now();
    for (size_t first = 0; first < f->options->rows; first += BLOCK_ROWS) {
        const bo_samples block = rows_of(f, bo_min(BLOCK_ROWS, f->options->rows - first));
        BO_TRY(bo_fitting_add(context, fitting, &block));
    }
    BO_TRY(bo_device_wait(context, bo_device_of(context)));
    f->adding = cli_now() - start;
    const bo_status status = bo_fitting_finish(context, fitting, machine);
    f->solving = cli_now() - start - f->adding;
    return status;
}

static bool fit_once(device_bench *bench, void *what, double *seconds)
{
    fit *f = what;
    const device_fit_options *o = f->options;
    const bo_machine_desc desc = {
        .features = {.features = o->features, .gamma = 1 / (double)o->columns, .draw = BO_DRAW_IID},
        .lambda = 1,
        .precision = f->precision,
        .solver = BO_SOLVER_PRIMAL,
        .loss = BO_LOSS_RIDGE,
        .target_scale = BO_TARGET_SCALE_LINEAR,
        .stream_rows = o->rows,
        .seed = o->seed};
    const bo_samples sample = rows_of(f, bo_min(SAMPLE_ROWS, o->rows));
    bo_fitting *fitting = NULL;
    bo_machine *machine = NULL;
    bo_status status = bo_fitting_create(bench->context, &desc, &sample, &fitting);
    if (status == BO_OK) status = fit_blocks(bench->context, f, fitting, &machine);
    bo_machine_destroy(machine);
    bo_fitting_destroy(fitting);
    *seconds = f->adding + f->solving;
    return device_ok(bench, status);
}

static bool measure(device_bench *bench, fit *f)
{
    const device_fit_options *o = f->options;
    double seconds;
    if (!device_time_steps(bench, 1, fit_once, f, &seconds)) return false;
    const double rate = bench_fit_operations((double)o->rows, (double)o->columns, (double)o->features) / seconds;
    char name[96];
    snprintf(name, sizeof name, "fit of %zu x %zu, R = %zu, %s", o->rows, o->columns, o->features,
             bo_enum_name(BO_ENUM_GRAM_PRECISION, f->precision));
    bench_add(bench->run, name, seconds, "s", NAN, true, "sums %.3g s, solution %.3g s, %.4g TFLOP/s; %s in use on %s",
              f->adding, f->solving, 1e-12 * rate, cli_bytes(device_used(bench)).s, bench->name);
    return true;
}

int device_fit(bench_run *run, const device_fit_options *options)
{
    static const bo_gram_precision precisions[] = {BO_GRAM_PRECISION_INT8, BO_GRAM_PRECISION_FLOAT32,
                                                   BO_GRAM_PRECISION_FLOAT64};
    device_bench bench;
    fit f = {.options = options};
    f.x = cli_allocate(BLOCK_ROWS * options->columns, sizeof *f.x, "random rows");
    f.y = cli_allocate(BLOCK_ROWS, sizeof *f.y, "random rows");
    fill(&f);
    bool ok = device_open(run, options->device, BO_PRECISION_FLOAT32, options->repeats, &bench);
    for (size_t i = 0; ok && i < CLI_COUNT_OF(precisions); i++) {
        f.precision = precisions[i];
        ok = measure(&bench, &f);
    }
    device_close(&bench);
    free(f.x);
    free(f.y);
    return ok ? CLI_DONE : CLI_FAILED;
}
