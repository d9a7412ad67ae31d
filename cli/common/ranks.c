/* Detects the launcher of a parallel job from the environment, and loads the plugin that connects the ranks. */
#include "ranks.h"
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include "../../src/base/plugin.h"

/* ---- the launcher ------------------------------------------------------------------------------------------------ */

/* Variables of the launchers: number of ranks, number of this rank, number of ranks on this host, number of this rank
 * among them. The first match is used: mpirun inside a Slurm job takes precedence over the variables that srun sets for
 * the helper processes of mpirun. SLURM_NTASKS is not read: it is the number of tasks that a job may start, and is also
 * set if a batch script runs one process. */
static const struct launcher {
    const char *size, *rank, *local, *local_rank;
} launchers[] = {
    /* Open MPI's mpirun */
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    /* MVAPICH */
    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"},
    {"PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"},  /* MPICH, Intel MPI, Slurm's PMI2 */
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", NULL, "SLURM_LOCALID"}, /* srun */
    {NULL, "PMIX_RANK", NULL, NULL}, /* other launchers with PMIx, which do not announce the number */
};

enum { COUNT = sizeof launchers / sizeof *launchers, UNKNOWN = 0 };

#define VARIABLE "BOCHNER_MPI"

/* NULL: no launcher, or each process runs independently. */
static const struct launcher *launcher(void)
{
    const char *setting = bo_plugin_variable(VARIABLE);
    if (setting && strcasecmp(setting, "off") == 0) return NULL;
    for (size_t i = 0; i < COUNT; i++) {
        const char *value = getenv(launchers[i].size ? launchers[i].size : launchers[i].rank);
        if (value && (atoi(value) > 0 || !launchers[i].size)) return &launchers[i];
    }
    return NULL;
}

static int number(const char *name)
{
    const char *value = name ? getenv(name) : NULL;
    return value && atoi(value) > 0 ? atoi(value) : 0;
}

/* The number of ranks, or UNKNOWN. */
static int announced(void)
{
    const struct launcher *by = launcher();
    return !by ? 1 : by->size ? number(by->size) : UNKNOWN;
}

bool cli_ranks_announced(void)
{
    return announced() != 1;
}

int cli_ranks_announced_rank(void)
{
    const struct launcher *by = launcher();
    return by ? number(by->rank) : 0;
}

size_t cli_ranks_local(void)
{
    const struct launcher *by = launcher();
    const char *name = !by ? NULL : by->local_rank && getenv(by->local_rank) ? by->local_rank : by->rank;
    return (size_t)number(name);
}

/* mpirun usually binds each rank to some cores. Without binding, each rank on a host would use all cores. */
size_t cli_ranks_threads(const cli_ranks *ranks)
{
    const struct launcher *by = launcher();
    int local = by ? number(by->local) : 0;
    if (ranks->size < 2 || local < 2) return 0;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
    int available = CPU_COUNT(&set);
    if (available < (int)sysconf(_SC_NPROCESSORS_ONLN)) return 0;
    return (size_t)(available / local > 1 ? available / local : 1);
}

/* ---- the plugin -------------------------------------------------------------------------------------------------- */

#define MPI_OFF_HINT "BOCHNER_MPI=off runs each process independently"

/* The plugin stays loaded: an MPI that was started cannot be unloaded. Returns NULL with the reason in `why`. */
static const cli_ranks_plugin *load_plugin(char *why, size_t size)
{
    char path[BO_PLUGIN_TEXT];
    if (!bo_plugin_find("bochner-mpi.so", VARIABLE, path)) {
        snprintf(why, size,
                 "started as one of several ranks, but the MPI plugin was not found: %.1000s. Install the component "
                 "mpi of a Bochner build with MPI (Debian: libopenmpi-dev openmpi-bin); " MPI_OFF_HINT,
                 path);
        return NULL;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* MPI components require global symbols */
    const cli_ranks_plugin *plugin = library ? dlsym(library, "bochner_ranks_plugin") : NULL;
    if (!plugin)
        snprintf(
            why, size,
            "started as one of several ranks, but the MPI plugin does not load: %.1000s. Install the MPI that it was "
            "built with (Debian: openmpi-bin); " MPI_OFF_HINT,
            dlerror());
    else if (strcmp(plugin->version, bo_version()) != 0) {
        snprintf(why, size,
                 "%.1000s is a plugin for version %.20s; this program is version %s: install both from one build", path,
                 plugin->version, bo_version());
        return NULL;
    }
    return plugin;
}

bool cli_ranks_open(cli_ranks *ranks, char *why, size_t size)
{
    *ranks = (cli_ranks){.rank = cli_ranks_announced_rank(), .size = 1};
    int expected = announced();
    if (expected == 1) return true;
    ranks->size = ranks->rank + 2; /* a lower bound, so that messages name the rank */
    const cli_ranks_plugin *plugin = load_plugin(why, size);
    if (!plugin) return false;
    if (!plugin->start(ranks)) {
        snprintf(why, size, "%.100s did not start", plugin->implementation());
        return false;
    }
    if (expected == UNKNOWN || ranks->size == expected) {
        ranks->plugin = plugin;
        return true;
    }
    snprintf(why, size,
             "the launcher announces %d ranks, but %.100s connects %d: start the program with the mpirun of that MPI "
             "(or srun --mpi=pmix); " MPI_OFF_HINT,
             expected, plugin->implementation(), ranks->size);
    plugin->finish(ranks);
    return false;
}

void cli_ranks_close(cli_ranks *ranks)
{
    if (ranks->plugin) ranks->plugin->finish(ranks);
    ranks->plugin = NULL;
}

void cli_ranks_abort(const cli_ranks *ranks, int status)
{
    if (ranks->plugin) ranks->plugin->end_all(status);
}

bool cli_ranks_broadcast(const cli_ranks *ranks, void *bytes, size_t size)
{
    return !ranks->plugin || ranks->plugin->broadcast(bytes, size);
}

static bo_status sum_alone(void *ranks, double *values, size_t count)
{
    (void)ranks;
    (void)values;
    (void)count;
    return BO_OK;
}

static bo_status sum_f32_alone(void *ranks, float *values, size_t count)
{
    (void)ranks;
    (void)values;
    (void)count;
    return BO_OK;
}

bo_collective cli_ranks_collective(cli_ranks *ranks)
{
    const cli_ranks_plugin *plugin = ranks->plugin;
    return (bo_collective){.rank = ranks->rank,
                           .size = ranks->size,
                           .sum = plugin ? plugin->sum : sum_alone,
                           .sum_f32 = plugin ? plugin->sum_f32 : sum_f32_alone,
                           .user = ranks};
}
