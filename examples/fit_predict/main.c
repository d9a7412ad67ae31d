/* Fits a kernel machine to a table and predicts new rows with 95% intervals.
 *
 * The table is CSV text in memory; to read a file, set `.path` of bo_data_desc instead of `.bytes` and `.size`. */
#include <bochner/bochner.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 600, LINE = 64 };

static int fail(bo_context *context)
{
    fprintf(stderr, "fit_predict: %s\n", bo_context_error(context));
    return 1;
}

/* Houses: the price depends on the area and the age, and has noise with a standard deviation of about 6. */
static size_t write_table(char *csv, unsigned seed)
{
    size_t size = (size_t)sprintf(csv, "area,age,price\n");
    srand(seed);
    for (int i = 0; i < ROWS; i++) {
        const double area = 40 + 120.0 * rand() / RAND_MAX, age = 60.0 * rand() / RAND_MAX;
        double noise = -6;
        for (int j = 0; j < 12; j++) noise += (double)rand() / RAND_MAX;
        const double price = 50 + 2 * area + 15 * sin(area / 15) - 0.5 * age + 6 * noise;
        size += (size_t)sprintf(csv + size, "%.1f,%.1f,%.1f\n", area, age, price);
    }
    return size;
}

int main(void)
{
    static char csv[2][(ROWS + 1) * LINE];
    static double mean[ROWS], low[ROWS], high[ROWS];
    bo_context *context;
    bo_data *train, *test;
    bo_machine *machine;
    bo_samples samples;
    if (bo_context_create(NULL, &context) != BO_OK) return 1;

    bo_data_desc old_houses = {.bytes = csv[0], .size = write_table(csv[0], 1), .target = "price"};
    bo_data_desc new_houses = {.bytes = csv[1], .size = write_table(csv[1], 2), .target = "price"};
    if (bo_data_load(context, &old_houses, NULL, &train) != BO_OK) return fail(context);
    /* The schema of the training table ensures that the columns of the second table match. */
    if (bo_data_load(context, &new_houses, train->schema, &test) != BO_OK) return fail(context);

    /* Every other field is zero, which means the default. The regularization and the kernel width are searched. */
    bo_machine_desc desc = {.features = {.features = 512}};
    bo_data_get_samples(train, &samples);
    if (bo_machine_fit(context, &desc, &samples, &machine) != BO_OK) return fail(context);

    /* The interval includes the noise of the data: it is for the price of a new house. */
    bo_inputs rows = {.rows = test->rows, .x = test->x};
    bo_prediction out = {.mean = mean, .low = low, .high = high, .level = 0.95};
    if (bo_machine_predict(context, machine, &rows, &out) != BO_OK) return fail(context);
    size_t inside = 0;
    double squares = 0;
    for (size_t i = 0; i < test->rows; i++) {
        const double error = test->y[i] - mean[i];
        inside += test->y[i] >= low[i] && test->y[i] <= high[i];
        squares += error * error;
        if (i < 5)
            printf("predicted %6.1f, 95%% interval %6.1f to %6.1f, true %6.1f\n", mean[i], low[i], high[i], test->y[i]);
    }
    const double rmse = sqrt(squares / (double)test->rows), coverage = (double)inside / (double)test->rows;
    printf("RMSE %.2f; %.1f%% of %zu prices are inside their 95%% interval\n", rmse, 100 * coverage, test->rows);

    bo_machine_destroy(machine);
    bo_data_destroy(test);
    bo_data_destroy(train);
    bo_context_destroy(context);
    return rmse < 8 && coverage > 0.9 ? 0 : 1;
}
