# The program does not link MPI; it loads a plugin under a launcher. If the plugin cannot be used, the program reports
# what is missing and writes nothing. Several processes never run as independent single processes, unless that is
# requested.
. "$BOCHNER_SOURCE/tests/cli/common.sh"

readelf -d "$BOCHNER" | grep NEEDED | grep -qi 'mpi\|open-rte\|pmix' && complain "bochner links MPI: $(readelf -d "$BOCHNER" | grep NEEDED)"

house 200 5 >train.csv
cp "$BOCHNER" bochner # no plugin in the same directory
fit="./bochner fit train.csv --features 16 --gamma 1 --lambda 1 --threads 1 --quiet --out model"
# An environment without a launcher, even if the tests run under one: variables of launchers, then the command.
unset OMPI_COMM_WORLD_SIZE MV2_COMM_WORLD_SIZE PMI_SIZE SLURM_STEP_NUM_TASKS PMIX_RANK BOCHNER_MPI

# shellcheck disable=SC2086
refused() { # words, variables
    fails 1 "$1" env $2 $fit
    [ -e model ] && complain "$2: refused, but there is a model"
    rm -f model
}
# shellcheck disable=SC2086
alone() { # variables
    succeeds env $1 $fit
    [ -e model ] || complain "$1: no model"
    rm -f model
}

# Variables that indicate several ranks.
for variables in "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0" "MV2_COMM_WORLD_SIZE=2" "PMI_SIZE=3 PMI_RANK=2" \
    "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0" "SLURM_STEP_NUM_TASKS=2 PMIX_RANK=0" "PMIX_RANK=0" "PMIX_RANK=1" \
    "SLURM_STEP_NUM_TASKS=1 OMPI_COMM_WORLD_SIZE=2"; do
    refused "MPI plugin was not found|bochner-mpi.so|component mpi|libopenmpi-dev|BOCHNER_MPI=off" "$variables"
done
for variables in "SLURM_NTASKS=4 SLURM_PROCID=0" "OMPI_COMM_WORLD_SIZE=1 SLURM_STEP_NUM_TASKS=4" "PMI_SIZE=1" "PMI_SIZE=x" \
    "SLURM_STEP_NUM_TASKS=1 PMIX_RANK=0" "OMPI_COMM_WORLD_SIZE=2 BOCHNER_MPI=off"; do
    alone "$variables"
done
refused "rank 1: started" "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1" # the rank shows which host lacks the plugin
fails 2 "--test FILE" env PMI_SIZE=2 "$BOCHNER" fit train.csv --holdout 0.2 --out model
succeeds env OMPI_COMM_WORLD_SIZE=2 ./bochner version # version concerns one process only

# A plugin whose MPI is missing; of another version; whose MPI finds no other rank; that is not a plugin; that cannot
# start.
echo 'int absent(void); int absent(void) { return 0; }' >absent.c
"$CC" -shared -fPIC absent.c -o libabsent.so
plugin() { # file, version, start
    cat >plugin.c <<END
#include "$BOCHNER_SOURCE/cli/common/ranks.h"
int absent(void);
static bool start(cli_ranks *ranks) { $3; }
static void finish(cli_ranks *ranks) { ranks->size = 0; }
static const char *implementation(void) { return "Some MPI 1.0"; }
const cli_ranks_plugin bochner_ranks_plugin = {.version = "$2", .start = start, .finish = finish,
    .implementation = implementation};
END
    "$CC" -shared -fPIC -I"$BOCHNER_SOURCE/include" plugin.c -Wl,--no-as-needed -L. -labsent -o "$1" || exit 1
}
version=$("$BOCHNER" version | sed 's/^bochner \([^ ]*\).*/\1/')
several="OMPI_COMM_WORLD_SIZE=2 BOCHNER_MPI=$work/fake.so LD_LIBRARY_PATH=$work"
plugin fake.so "$version" 'ranks->size = 1; return true'
refused "announces 2 ranks|Some MPI 1.0 connects 1|mpirun of that MPI" "$several"
plugin fake.so "$version" '(void)ranks; return false'
refused "Some MPI 1.0 did not start" "$several"
plugin fake.so 0.0.9 'ranks->size = 2; return true'
refused "fake.so is a plugin for version 0.0.9; this program is version $version" "$several"
refused "does not load|libabsent.so|openmpi-bin" "OMPI_COMM_WORLD_SIZE=2 BOCHNER_MPI=$work/fake.so"
refused "does not load|bochner_ranks_plugin" "OMPI_COMM_WORLD_SIZE=2 BOCHNER_MPI=$work/libabsent.so"
refused "BOCHNER_MPI must be an absolute path, found libabsent.so" "OMPI_COMM_WORLD_SIZE=2 BOCHNER_MPI=libabsent.so"
refused "/nowhere/x.so does not exist" "OMPI_COMM_WORLD_SIZE=2 BOCHNER_MPI=/nowhere/x.so"

# The same with a real launcher; the real plugin in the directory of the program, and where an install puts it
# (cli.parallel tests more).
if [ -n "${MPIEXEC:-}" ]; then
    . "$BOCHNER_SOURCE/tests/cli/ranks.sh"
    # shellcheck disable=SC2086
    {
        ranks 2 $fit >out 2>err && complain "two ranks without a plugin succeed"
        grep -q "MPI plugin was not found" err || complain "two ranks without a plugin: $(head -c 300 err)"
        [ -e model ] && complain "two ranks without a plugin leave a model"
        cp "$BOCHNER_BUILD/bochner-mpi.so" .
        succeeds ranks 2 $fit --json
        [ "$(field out ranks)" = 2 ] || complain "two ranks with a plugin call themselves $(field out ranks)"
    }
fi
finish
