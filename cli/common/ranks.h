/* The ranks of a parallel job started with mpirun. Without MPI in the build, or alone, there is one rank. */
#ifndef CLI_COMMON_RANKS_H
#define CLI_COMMON_RANKS_H

#include <bochner/machines.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct cli_ranks {
    int rank, size;
    bool started;                /* MPI is to be ended */
    struct cli_ranks_room *room; /* of sums; made by the first */
} cli_ranks;

/* How many ranks the environment of mpirun announces; 1 outside of it. */
int cli_ranks_announced(void);
int cli_ranks_announced_rank(void); /* this one's number; 0 outside */
/* False: this program was started by mpirun but built without MPI, or MPI did not start. */
bool cli_ranks_open(cli_ranks *ranks);
void cli_ranks_close(cli_ranks *ranks);
/* Ends every rank with this exit status. */
void cli_ranks_abort(const cli_ranks *ranks, int status);
/* Rank 0's bytes to all; does nothing alone. */
bool cli_ranks_broadcast(const cli_ranks *ranks, void *bytes, size_t size);
/* Sums over the ranks, in their order; needs `ranks` to stay where it is. */
bo_collective cli_ranks_collective(cli_ranks *ranks);
/* Threads a rank should use: the cores of a machine divided by the ranks on it; 0: the default. */
size_t cli_ranks_threads(const cli_ranks *ranks);

#endif
