# Under a limit of the address space (ulimit -v), as batch systems set it, a command ends: it succeeds, or it reports
# that memory is exhausted, at every limit under which the program starts. The search of this fit computes eigenvectors.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
[ -z "${SANITIZE:-}" ] || { echo "sanitizers reserve address space"; exit 77; }

awk 'BEGIN { srand(1); for (i = 0; i < 400; i++) print rand() "," rand() "," rand() }' >table.csv
succeeded=0 refused=0
for limit in 18000 20000 22000 24000 26000 30000 40000 80000 150000 400000; do
    (ulimit -v $limit && exec timeout -k 5 60 "$BOCHNER" fit table.csv --features 300 --threads 2 --out m.model >out 2>err)
    status=$?
    if [ $status -eq 0 ]; then
        succeeded=$((succeeded + 1))
    elif [ $status -eq 1 ]; then
        grep -q 'memory' err || complain "limit of $limit kB: no message about memory: $(tail -c 300 err)"
        refused=$((refused + 1))
    elif [ $status -ne 127 ]; then # 127: the program could not be loaded
        complain "limit of $limit kB: exit status $status: $(tail -c 300 err)"
    fi
done
[ $succeeded -gt 0 ] || complain "fit succeeds at no limit"
[ $refused -gt 0 ] || complain "no limit was too low for fit"
(ulimit -v 400000 && exec timeout -k 5 60 "$BOCHNER" bench machines --only none --gemm 64 >out 2>err) ||
    complain "bench under a limit: $(tail -c 300 err)"
finish
