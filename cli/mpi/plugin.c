/* The MPI plugin. The program does not link MPI; it loads this plugin under a launcher (cli/common/ranks.h). */
#include "../common/ranks.h"
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static bool start(cli_ranks *ranks)
{
    int provided;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) return false;
    MPI_Comm_rank(MPI_COMM_WORLD, &ranks->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks->size);
    return true;
}

static void finish(cli_ranks *ranks)
{
    MPI_Finalize();
    free(ranks->buffers);
    ranks->buffers = NULL;
}

static void end_all(int status)
{
    MPI_Abort(MPI_COMM_WORLD, status);
}

static const char *implementation(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = 0; /* keeps the name and the version */
    return text;
}

/* MPI counts are ints, so large arrays are sent in pieces. */
enum { PIECE = 1 << 26 };

static bool broadcast(void *bytes, size_t size)
{
    for (size_t at = 0; at < size; at += PIECE) {
        int count = (int)(size - at < PIECE ? size - at : PIECE);
        if (MPI_Bcast((char *)bytes + at, count, MPI_BYTE, 0, MPI_COMM_WORLD) != MPI_SUCCESS) return false;
    }
    return true;
}

/* ---- sums in rank order ------------------------------------------------------------------------------------------ */

typedef void (*add_fn)(void *total, const void *more, size_t count);

static void add_f64(void *total, const void *more, size_t count)
{
    double *to = total;
    const double *from = more;
    for (size_t i = 0; i < count; i++) to[i] += from[i];
}

static void add_f32(void *total, const void *more, size_t count)
{
    float *to = total;
    const float *from = more;
    for (size_t i = 0; i < count; i++) to[i] += from[i];
}

enum { SUMMED = 1 << 20 }; /* numbers summed at a time */

/* Buffers of a sum: the division of the numbers into one slice per rank, and the parts of all ranks for one slice. */
struct cli_ranks_buffers {
    int *counts, *starts;         /* of the slices */
    int *own_counts, *own_starts; /* the received parts of this rank's slice */
    char *parts;
};

/* One memory block, released by free(). */
static struct cli_ranks_buffers *create_buffers(int size)
{
    size_t ranks = (size_t)size, head = sizeof(struct cli_ranks_buffers) + (4 * ranks * sizeof(int) + 63) / 64 * 64;
    char *block = malloc(head + (SUMMED + ranks) * sizeof(double));
    if (!block) return NULL;
    int *numbers = (int *)(block + sizeof(struct cli_ranks_buffers));
    struct cli_ranks_buffers *buffers = (struct cli_ranks_buffers *)block;
    *buffers =
        (struct cli_ranks_buffers){numbers, numbers + ranks, numbers + 2 * ranks, numbers + 3 * ranks, block + head};
    return buffers;
}

static void cut(const cli_ranks *ranks, int count)
{
    struct cli_ranks_buffers *buffers = ranks->buffers;
    int slice = (count + ranks->size - 1) / ranks->size;
    for (int i = 0; i < ranks->size; i++) {
        buffers->starts[i] = i * slice < count ? i * slice : count;
        buffers->counts[i] = count - buffers->starts[i] < slice ? count - buffers->starts[i] : slice;
    }
    for (int i = 0; i < ranks->size; i++) {
        buffers->own_counts[i] = buffers->counts[ranks->rank];
        buffers->own_starts[i] = i * buffers->own_counts[i];
    }
}

/* Each rank receives all parts of its slice, adds them in rank order and sends the total to all ranks. The order of
 * additions is fixed, and all ranks get the same bits; MPI_Allreduce guarantees neither. */
static bool sum_slices(cli_ranks *ranks, MPI_Datatype type, size_t element, add_fn add, char *values, int count)
{
    struct cli_ranks_buffers *buffers = ranks->buffers;
    cut(ranks, count);
    if (MPI_Alltoallv(values, buffers->counts, buffers->starts, type, buffers->parts, buffers->own_counts,
                      buffers->own_starts, type, MPI_COMM_WORLD) != MPI_SUCCESS)
        return false;
    size_t own_count = (size_t)buffers->counts[ranks->rank];
    char *total = values + (size_t)buffers->starts[ranks->rank] * element;
    memcpy(total, buffers->parts, own_count * element);
    for (int i = 1; i < ranks->size; i++) add(total, buffers->parts + (size_t)i * own_count * element, own_count);
    return MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, values, buffers->counts, buffers->starts, type,
                          MPI_COMM_WORLD) == MPI_SUCCESS;
}

static bo_status sum_all(cli_ranks *ranks, MPI_Datatype type, size_t element, add_fn add, void *values, size_t count)
{
    if (!ranks->buffers) ranks->buffers = create_buffers(ranks->size);
    if (!ranks->buffers) return BO_MEMORY;
    for (size_t at = 0; at < count; at += SUMMED) {
        int piece = (int)(count - at < SUMMED ? count - at : SUMMED);
        if (!sum_slices(ranks, type, element, add, (char *)values + at * element, piece)) return BO_IO;
    }
    return BO_OK;
}

static bo_status sum(void *user, double *values, size_t count)
{
    return sum_all(user, MPI_DOUBLE, sizeof *values, add_f64, values, count);
}

static bo_status sum_f32(void *user, float *values, size_t count)
{
    return sum_all(user, MPI_FLOAT, sizeof *values, add_f32, values, count);
}

__attribute__((visibility("default"))) const cli_ranks_plugin bochner_ranks_plugin = {
    .version = BO_VERSION_STRING,
    .start = start,
    .finish = finish,
    .end_all = end_all,
    .implementation = implementation,
    .broadcast = broadcast,
    .sum = sum,
    .sum_f32 = sum_f32,
};
