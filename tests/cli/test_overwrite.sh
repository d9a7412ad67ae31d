# Inputs are not overwritten: an output that is also an input, or another output, is a usage error and changes nothing.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
house 120 61 >train.csv
cp train.csv kept.csv
ln -s train.csv link.csv
ln train.csv hard.svg
cut -d, -f4 train.csv >labels.csv
mkdir directory
options="--features 16 --gamma 0.3 --lambda 0.1 --quiet"

# untouched: the table has not changed.
untouched() {
    cmp -s train.csv kept.csv || { complain "$1 replaced the table"; cp kept.csv train.csv; }
}
# shellcheck disable=SC2086
{
    fails 2 "--out train.csv would replace|another name" "$BOCHNER" fit train.csv $options --out train.csv
    untouched "fit --out"
    fails 2 "--out ./link.csv would replace|(train.csv)" "$BOCHNER" fit train.csv $options --out ./link.csv
    fails 2 "--out directory/../train.csv would replace" "$BOCHNER" fit kept.csv train.csv $options --out directory/../train.csv
    fails 2 "--plot hard.svg would replace" "$BOCHNER" fit train.csv $options --holdout 0.2 --plot hard.svg
    untouched "fit --plot"
    fails 2 "--test train.csv" "$BOCHNER" fit kept.csv --test train.csv $options --out train.csv
    fails 2 "--labels labels.csv" "$BOCHNER" fit train.csv --labels labels.csv $options --out labels.csv
    fails 2 "--out and --plot name the same file" "$BOCHNER" fit train.csv $options --holdout 0.2 --out both.svg --plot directory/../both.svg
    [ -e both.svg ] && complain "one of two outputs of a name was written"
    succeeds "$BOCHNER" fit train.csv $options --out good.model
    succeeds "$BOCHNER" fit train.csv $options --out good.model # an existing output may be replaced
    succeeds "$BOCHNER" fit train.csv $options --out directory/train.csv # another file with the same name
}
cp good.model model.csv
fails 2 "--out train.csv would replace" "$BOCHNER" predict good.model train.csv --out train.csv
fails 2 "--out model.csv would replace" "$BOCHNER" predict model.csv train.csv --out model.csv
untouched predict
cmp -s good.model model.csv || complain "predict replaced its model"
"$BOCHNER" features train.csv --features 16 --out z.npy --quiet >out
fails 2 "--out z.npy would replace" "$BOCHNER" features z.npy --features 16 --out z.npy
fails 2 "--save train.csv would replace" "$BOCHNER" features train.csv --features 16 --save train.csv
fails 2 "--out and --save name the same file" "$BOCHNER" features train.csv --features 16 --out y.npy --save y.npy
untouched features
succeeds "$BOCHNER" predict good.model train.csv --out /dev/null
finish
