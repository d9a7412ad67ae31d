#include "ranks.h"
#include <stdint.h>
#include <stdlib.h>
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

static bo_status sum(void *user, double *values, size_t count)
{
    (void)user;
    for (size_t at = 0; at < count; at += PIECE) {
        int piece = (int)(count - at < PIECE ? count - at : PIECE);
        if (MPI_Allreduce(MPI_IN_PLACE, values + at, piece, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS)
            return BO_IO;
    }
    return BO_OK;
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

#endif

bo_collective cli_ranks_collective(cli_ranks *ranks)
{
    return (bo_collective){.rank = ranks->rank, .size = ranks->size, .sum = sum, .user = ranks};
}
