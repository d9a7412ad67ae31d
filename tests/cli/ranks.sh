# For tests with mpirun, after common.sh: ranks NUMBER COMMAND... The test is skipped if mpirun does not work.
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_base_warn_component_unused=0
OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_btl_base_warn_component_unused
export OMPI_MCA_btl_vader_single_copy_mechanism
ranks() {
    number=$1
    shift
    "$MPIEXEC" -n "$number" --oversubscribe "$@"
}
ranks 2 true >/dev/null 2>&1 || { echo "mpirun does not work here" >&2; exit 77; }
