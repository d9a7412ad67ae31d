#include "ranks.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <unistd.h>
#ifdef BOCHNER_HAVE_MPI
#include <mpi.h>
#endif

/* Open MPI, and MPICH as Slurm, announce the job in variables of their own: the first of two that is above 0. */
static int announced(const char *open_mpi, const char *others)
{
    const char *first = getenv(open_mpi), *second = getenv(others);
    int number = first ? atoi(first) : 0;
    return number > 0 ? number : second && atoi(second) > 0 ? atoi(second) : 0;
}

int cli_ranks_announced(void)
{
    int size = announced("OMPI_COMM_WORLD_SIZE", "PMI_SIZE");
    return size > 0 ? size : 1;
}

int cli_ranks_announced_rank(void)
{
    return announced("OMPI_COMM_WORLD_RANK", "PMI_RANK");
}

/* mpirun usually binds each rank to its cores; where it did not, ranks on one machine would each take all of
 * them. */
size_t cli_ranks_threads(const cli_ranks *ranks)
{
    const char *value = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    int local = value ? atoi(value) : 0;
    if (ranks->size < 2 || local < 2) return 0;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
    int mine = CPU_COUNT(&set);
    if (mine < (int)sysconf(_SC_NPROCESSORS_ONLN)) return 0;
    return (size_t)(mine / local > 1 ? mine / local : 1);
}

#ifdef BOCHNER_HAVE_MPI

bool cli_ranks_open(cli_ranks *ranks)
{
    *ranks = (cli_ranks){.rank = 0, .size = 1};
    if (cli_ranks_announced() < 2) return true;
    int provided;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) return false;
    ranks->started = true;
    MPI_Comm_rank(MPI_COMM_WORLD, &ranks->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks->size);
    return true;
}

void cli_ranks_close(cli_ranks *ranks)
{
    if (ranks->started) MPI_Finalize();
    free(ranks->room);
    ranks->room = NULL;
    ranks->started = false;
}

void cli_ranks_abort(const cli_ranks *ranks, int status)
{
    if (ranks->started) MPI_Abort(MPI_COMM_WORLD, status);
}

/* Counts of MPI are ints: large arrays go in pieces. */
enum { PIECE = 1 << 26 };

bool cli_ranks_broadcast(const cli_ranks *ranks, void *bytes, size_t size)
{
    if (!ranks->started) return true;
    for (size_t at = 0; at < size; at += PIECE) {
        int count = (int)(size - at < PIECE ? size - at : PIECE);
        if (MPI_Bcast((char *)bytes + at, count, MPI_BYTE, 0, MPI_COMM_WORLD) != MPI_SUCCESS) return false;
    }
    return true;
}

/* ---- sums in the order of the ranks -------------------------------------------------------------------------------- */

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

/* What a sum needs beside the numbers: how they are cut into a slice for each rank, and all ranks' parts of one slice. */
struct cli_ranks_room {
    int *counts, *starts; /* of the slices */
    int *mine, *places;   /* parts of this rank's slice as they arrive */
    char *parts;
};

/* One block, which free() returns. */
static struct cli_ranks_room *make_room(int size)
{
    size_t ranks = (size_t)size, head = sizeof(struct cli_ranks_room) + (4 * ranks * sizeof(int) + 63) / 64 * 64;
    char *block = malloc(head + (SUMMED + ranks) * sizeof(double));
    if (!block) return NULL;
    int *numbers = (int *)(block + sizeof(struct cli_ranks_room));
    struct cli_ranks_room *room = (struct cli_ranks_room *)block;
    *room = (struct cli_ranks_room){numbers, numbers + ranks, numbers + 2 * ranks, numbers + 3 * ranks, block + head};
    return room;
}

static void cut(const cli_ranks *ranks, int count)
{
    struct cli_ranks_room *room = ranks->room;
    int slice = (count + ranks->size - 1) / ranks->size;
    for (int i = 0; i < ranks->size; i++) {
        room->starts[i] = i * slice < count ? i * slice : count;
        room->counts[i] = count - room->starts[i] < slice ? count - room->starts[i] : slice;
    }
    for (int i = 0; i < ranks->size; i++) {
        room->mine[i] = room->counts[ranks->rank];
        room->places[i] = i * room->mine[i];
    }
}

/* Every rank gets all parts of its slice, adds them in the order of the ranks, and hands the total to all: whatever the
 * number of ranks and the network, one order, and the same bits everywhere. (MPI_Allreduce promises neither.) */
static bool sum_slices(cli_ranks *ranks, MPI_Datatype type, size_t element, add_fn add, char *values, int count)
{
    struct cli_ranks_room *room = ranks->room;
    cut(ranks, count);
    if (MPI_Alltoallv(values, room->counts, room->starts, type, room->parts, room->mine, room->places, type,
                      MPI_COMM_WORLD) != MPI_SUCCESS)
        return false;
    size_t mine = (size_t)room->counts[ranks->rank];
    char *total = values + (size_t)room->starts[ranks->rank] * element;
    memcpy(total, room->parts, mine * element);
    for (int i = 1; i < ranks->size; i++) add(total, room->parts + (size_t)i * mine * element, mine);
    return MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, values, room->counts, room->starts, type,
                          MPI_COMM_WORLD) == MPI_SUCCESS;
}

static bo_status sum_all(cli_ranks *ranks, MPI_Datatype type, size_t element, add_fn add, void *values, size_t count)
{
    if (!ranks->started) return BO_OK;
    if (!ranks->room) ranks->room = make_room(ranks->size);
    if (!ranks->room) return BO_MEMORY;
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

#else

bool cli_ranks_open(cli_ranks *ranks)
{
    *ranks = (cli_ranks){.rank = 0, .size = 1};
    return cli_ranks_announced() < 2;
}

void cli_ranks_close(cli_ranks *ranks)
{
    (void)ranks;
}

void cli_ranks_abort(const cli_ranks *ranks, int status)
{
    (void)ranks;
    (void)status;
}

bool cli_ranks_broadcast(const cli_ranks *ranks, void *bytes, size_t size)
{
    (void)ranks;
    (void)bytes;
    (void)size;
    return true;
}

static bo_status sum(void *user, double *values, size_t count)
{
    (void)user;
    (void)values;
    (void)count;
    return BO_OK;
}

static bo_status sum_f32(void *user, float *values, size_t count)
{
    (void)user;
    (void)values;
    (void)count;
    return BO_OK;
}

#endif

bo_collective cli_ranks_collective(cli_ranks *ranks)
{
    return (bo_collective){.rank = ranks->rank, .size = ranks->size, .sum = sum, .sum_f32 = sum_f32, .user = ranks};
}
