# A pipeline's program, saved and given again, trains to the same bits; one of another shape is refused with the number
# that differs. So does one without its list last, which the schedule then builds.
. "$ROOT/tests/ranks/lib.sh"
small="--model resnet8 --threads 1 --batch 1000 --micro-batches 4 --drop-last off --epochs 1 --eval-every 1 --spawn threads"
# head FILE WORDS OTHER: a copy with another second line
head_with() { sed "2s/$2/$3/" "$1" >other.txt; }
for strategy in "1f1b --stages 2" "zbv --stages 2" "1f1b --stages 2 --replicas 2"; do
    rm -rf own given fewer other program.txt
    code 0 train $small --strategy $strategy --out own --save-program program.txt
    [ "$(sed -n 's/^ *"steps": \([0-9]*\),*/\1/p' own/summary.json)" = 2 ] || { echo "no short last step here"; exit 1; }
    code 0 train $small --strategy $strategy --out given --program program.txt
    same own given
    cmp -s own/program.txt given/program.txt || { echo "another program: $strategy"; exit 1; }
    head_with program.txt 'credits 2' 'credits 1'
    code 0 train $small --strategy $strategy --out fewer --program other.txt
    same own fewer
    grep -q '^rank 1 last$' program.txt || { echo "no list last: $strategy"; exit 1; }
    awk '/^rank/ { skip = $3 == "last" } !skip' program.txt >other.txt
    code 0 train $small --strategy $strategy --out other --program other.txt
    same own other
    cmp -s own/program.txt other/program.txt || { echo "another list last: $strategy"; exit 1; }
done
code 0 "$STRETTO" explain $small --strategy 1f1b --stages 2 --save-program flat.txt
refused() { # WORDS OTHER MESSAGE HINT
    head_with flat.txt "$1" "$2"
    code 2 "$STRETTO" explain $small --strategy 1f1b --stages 2 --program other.txt
    says err "$3"
    says err "$4"
}
refused 'micro-batches 4' 'micro-batches 2' 'the program has micro-batches 2, this run 4' '--micro-batches 2'
refused 'ranks 2 stages 2 replicas 1' 'ranks 3 stages 2 replicas 1 drivers 1' 'the program has ranks 3, this run 2' '-n 3'
refused 'ranks 2 stages 2 replicas 1' 'ranks 2 stages 1 replicas 2' 'the program has stages 1, this run 2' '--stages 1'
refused 'credits 2' 'v-shape 1 credits 2' 'the program has v-shape 1, this run 0' 'v-shape'
# each rank names as many slots as there are chunks
sed -e '2s/credits/chunks 2 credits/' -e 's/slots \([0-9]*\)/slots \1,\1/' -e 's/buckets \([0-9]*\)/buckets \1,\1/' flat.txt >other.txt
code 2 "$STRETTO" explain $small --strategy 1f1b --stages 2 --program other.txt
says err 'the program has chunks 2, this run 1'
sed '2s/ranks 2/ranks 5/' flat.txt >other.txt
code 3 "$STRETTO" explain $small --strategy 1f1b --stages 2 --program other.txt
says err 'line 2: stages 2, replicas 1 .* make ranks 2, found ranks 5'
code 0 "$STRETTO" explain --model mlp --batch 24 --deal 2x3 --save-program deal.txt
code 2 "$STRETTO" explain --model mlp --batch 24 --program deal.txt
says err '^  --deal 2x3'
