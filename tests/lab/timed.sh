# Claims about time, whose verdicts depend on the machine and its load.
# is_timed EXPERIMENT CLAIM: `any` asks about all claims of the experiment.
is_timed() {
    case $1/$2 in
    crossover/* | time-law/* | ssm/by-length | ssm/by-states | muon/longer-side | muon/transposed-first | \
        ridge-attention/square | ridge-attention/length | ridge-attention/pool-length | ridge-attention/pool-square | \
        ridge-attention/pool-cube | rfa/speed) return 0 ;;
    esac
    return 1
}
