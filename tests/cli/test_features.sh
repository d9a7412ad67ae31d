# Features, their accuracy report, the map in a file, and info for each kind of file.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
house 500 51 | awk -F, -v OFS=, 'NR > 1 { $2 /= 100; $3 /= 50; $4 /= 100 } { print }' >table.csv

succeeds "$BOCHNER" features table.csv --kernel rbf --features 256 --gamma 0.5 --out Z.npy
[ "$(wc -c <Z.npy)" -eq $((128 + 500 * 256 * 4)) ] || complain "Z.npy has $(wc -c <Z.npy) bytes"
head -c 128 Z.npy | grep -q "'<f4'.*(500, 256)" || complain "the header of Z.npy is $(head -c 128 Z.npy | tail -c 118)"
succeeds "$BOCHNER" features table.csv --kernel rbf --features 256 --gamma 0.5 --threads 1 --out again.npy
cmp -s Z.npy again.npy || complain "the number of threads changes the features"
succeeds "$BOCHNER" features table.csv --kernel rbf --features 256 --gamma 0.5 --seed 1 --out other.npy
cmp -s Z.npy other.npy && complain "the seed does not change the features"

# The accuracy report: for every shift-invariant kernel the measured error agrees with the variance up to the draw. The
# error of one draw of m frequencies varies widely; a factor of 4 either way is ten times the variation between seeds.
for kernel in rbf laplacian cauchy matern12 matern32 matern52 rational-quadratic; do
    succeeds "$BOCHNER" features --error table.csv --kernel $kernel --features 512 --draw iid --json --quiet
    ratio=$(field out ratio)
    expect "$kernel: measured / predicted" "$ratio" '>' 0.25
    expect "$kernel: measured / predicted" "$ratio" '<' 4
done
succeeds "$BOCHNER" features --error table.csv --features 512
grep -q "Summary: over 2,000 pairs" out || complain "no sentence: $(cat out)"
grep -q "median distance" err || complain "the origin of gamma is not reported"
# Four times the features halve the error.
succeeds "$BOCHNER" features --error table.csv --draw iid --features 256 --gamma 1 --json --pairs 500
predicted=$(field out predicted_rms)
succeeds "$BOCHNER" features --error table.csv --draw iid --features 1024 --gamma 1 --json --pairs 500
awk -v a="$predicted" -v b="$(field out predicted_rms)" 'BEGIN { r = a / b; exit !(r > 1.98 && r < 2.02) }' ||
    complain "predicted errors $predicted and $(field out predicted_rms) are not 2 : 1"
# Exact maps have no error and a fixed length.
succeeds "$BOCHNER" features --error table.csv --kernel polynomial --degree 3 --json
[ "$(field out features)" = 35 ] || complain "monomials up to degree 3 of 4 columns: $(field out features)"
expect "error of an exact map" "$(field out error_rms)" '<' 1e-4

# Invalid combinations are refused with the reason; length scales; a target is left out.
fails 1 "cosbias" "$BOCHNER" features table.csv --kernel softmax --function cosbias --out Z2.npy
fails 2 ".npy" "$BOCHNER" features table.csv --out Z.csv
fails 2 "--error" "$BOCHNER" features table.csv
echo "1 2 4 8" >scales.txt
succeeds "$BOCHNER" features table.csv --length-scales scales.txt --features 64 --out Z3.npy
echo "1 2 4" >scales.txt
fails 1 "scales.txt|table.csv (4), found 3" "$BOCHNER" features table.csv --length-scales scales.txt --features 64 --out Z4.npy
echo "1 2 -4 8" >scales.txt
fails 1 "scales.txt|positive|-4|number 3" "$BOCHNER" features table.csv --length-scales scales.txt --features 64 --out Z4.npy
fails 2 "--pairs|1000000" "$BOCHNER" features --error table.csv --pairs 999999999999
# Length scales of a fit: a column that is divided by a large number has no influence, in memory and in a stream.
awk 'BEGIN { srand(5); print "a,b,y"; for (i = 0; i < 400; i++) { a = rand(); print a "," rand() "," sin(9 * a) } }' >one.csv
echo "1 1e6" >scales.txt
for way in "" --stream; do
    # shellcheck disable=SC2086
    succeeds "$BOCHNER" fit one.csv $way --features 128 --gamma 1 --lambda 0.01 --length-scales scales.txt --out one.model
    printf 'a,b\n0.3,0.1\n0.3,0.9\n' >two.csv
    succeeds "$BOCHNER" predict one.model two.csv
    # gamma 1, inputs scaled to deviation 1, b over 1e6: the kernel of the two rows is 1 - 1e-11
    awk 'NR > 1 { v[NR] = $1 } END { d = v[2] - v[3]; exit !(d * d < 1e-8 && v[2] > 0) }' out || complain "fit $way --length-scales: $(cat out)"
done
echo "1 1 1" >scales.txt
fails 1 "scales.txt|one.csv (2), found 3" "$BOCHNER" fit one.csv --features 64 --length-scales scales.txt --out two.model
succeeds "$BOCHNER" features table.csv --target price --features 64 --out Z4.npy --json
[ "$(field out dim)" = 3 ] || complain "without its target the table has $(field out dim) columns"

# A saved map, a model, and their info.
succeeds "$BOCHNER" features table.csv --features 64 --kernel matern32 --save map.features
succeeds "$BOCHNER" info map.features
grep -q "feature map" out && grep -q matern32 out || complain "info of a map: $(cat out)"
succeeds "$BOCHNER" info map.features --json
[ "$(field out holds)" = features ] || complain "info of a map as JSON: $(cat out)"
sed 's/bochner.checksum/unknown.property/' map.features | sed 's/\\"format\\": 1,/\\"format\\": 9,/' >newer.features
cmp -s map.features newer.features && complain "no format to change in a map"
fails 1 "newer.features|format version 9|up to 1" "$BOCHNER" info newer.features
succeeds "$BOCHNER" fit table.csv --features 64 --out table.model
succeeds "$BOCHNER" info table.model
for word in regression rooms price gamma lambda '64 features'; do grep -q "$word" out || complain "info of a model lacks $word"; done
succeeds "$BOCHNER" info table.model --json
[ "$(field out holds)" = machine ] && [ "$(field out rows)" = 500 ] || complain "info of a model as JSON: $(cat out)"
succeeds "$BOCHNER" fit table.csv --features 64 --solver dual --out table.model
succeeds "$BOCHNER" info table.model --json
[ "$(field out keeps_rows)" = true ] || complain "info does not show that a dual model keeps rows: $(field out solver)"
succeeds "$BOCHNER" fit table.csv --features 64 --solver primal --out table.model
succeeds "$BOCHNER" info table.model --json
[ "$(field out keeps_rows)" = false ] || complain "info shows that a primal model keeps rows"
fails 1 "map.features" "$BOCHNER" predict map.features table.csv
finish
