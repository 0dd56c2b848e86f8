# What --auto-pipe, --auto-dp and --course refuse, with both values and a way out; what explain says of a course.
. "$ROOT/tests/cli/lib.sh"
vit="--model vit-micro --data synthetic:size=8,count=53,test_count=8 --batch 16 --steps 12 --threads 1"
pipe="$vit --strategy gpipe --stages 4 -n 4 --micro-batches 4"
row() { printf '{"step":%s,"frozen":%s,"of":4,"ranks":4,"stages":%s,"replicas":%s,"micro_batches":%s,"batch":16}\n' "$@"; }
{ row 0 0 4 1 4; row 3 2 2 2 2; row 6 3 1 4 1; } >course
# shellcheck disable=SC2086
{
    answers 2 'auto-pipe params without --freeze' explain $pipe --auto-pipe params
    answers 2 'auto-dp without --freeze' explain $pipe --auto-dp
    answers 2 'auto-dp with --auto-pipe off' explain $pipe --freeze 0,2 --auto-dp
    answers 2 'auto-pipe params with 2 replicas' explain $vit --strategy gpipe --stages 2 --replicas 2 --micro-batches 4 --freeze 0,2 --freeze-every 3 --auto-pipe params
    answers 2 'auto-pipe params with schedule single' explain $vit --replicas 2 --freeze 0,2 --auto-pipe params --auto-dp
    answers 2 'auto-pipe params with schedule zbv' explain $vit --strategy zbv --stages 2 --micro-batches 4 --freeze 0,2 --auto-pipe params --auto-dp
    answers 2 'auto-pipe params with --cut' explain $pipe --cut blocks.1,blocks.2,blocks.3 --freeze 0,2 --auto-pipe params --auto-dp
    answers 2 'micro-batches 6' explain $vit --batch 12 --strategy gpipe --stages 4 --micro-batches 6 --freeze alpha=1/3 --freeze-every 3 --auto-pipe params --auto-dp
    answers 2 'with --zero-stage 3' explain $pipe --zero-stage 3 --freeze 0,2 --auto-pipe params --auto-dp
    answers 2 'zero-accumulate scatter' explain $pipe --zero-stage 2 --zero-accumulate scatter --freeze 0,2 --auto-pipe params --auto-dp
    answers 2 'grids are of 4 ranks, this run has 2' explain $vit --course course --strategy gpipe --stages 2 --micro-batches 4
    answers 2 'begins with 1 replicas x 4 micro-batches, this run with 1 x 1' explain $vit --course course
    answers 2 'the file says what is frozen' explain $vit --course course --deal 1x4 --freeze 2
    answers 2 'with --auto-dp: the file says' explain $vit --course course --deal 1x4 --auto-dp
    printf 'freeze: 2\n' >more.yml
    answers 2 'with --freeze: the file says' explain $vit --course course --deal 1x4 --config more.yml
    answers 2 'of a model with 4 blocks, resnet8 has 3' explain --model resnet8 --batch 16 --course course --deal 1x4
    answers 2 'steps have 16 samples, --batch is 8' explain $vit --batch 8 --course course --deal 1x4
    answers 3 'cannot open' explain $vit --course nowhere --deal 1x4
    sed 's/"step":3/"step":0/' course >damaged
    answers 3 'damaged:2: step: 0 comes after 0' explain $vit --course damaged --deal 1x4
    sed 's/,"ranks":4,/,/' course >damaged
    answers 3 'damaged:1: ranks: is missing' explain $vit --course damaged --deal 1x4
    "$STRETTO" explain $pipe --freeze alpha=1/3 --freeze-every 3 --auto-pipe params --auto-dp >out 2>&1 || say "explain: $(cat out)"
    "$STRETTO" explain $pipe --course course >replay 2>&1 || say "explain of a course: $(cat replay)"
}
for row in ' 1  *0  *136,650  *4 x 1, 4 ' ' 4  *2  *67,722  *2 x 2, 2 ' ' 7  *3  *34,250  *1 x 4, 1 ' 'transition'; do
    grep -q -- "$row" out || say "explain has no row $row: $(cat out)"
    grep -q -- "$row" replay || say "explain of a course has no row $row: $(cat replay)"
done
# A tied parameter freezes in all its uses, and is named.
"$STRETTO" explain --model bert-tiny --data synthetic:count=53,test_count=8,seq=16,predictions=3,vocab=100 --steps 12 --freeze 0,1 --freeze-every 3 >out 2>&1 ||
    say "explain of tied parameters: $(cat out)"
grep -q 'word_embeddings.weight freezes with the first block, wherever it is used' out || say "no tied parameter: $(cat out)"
# Every plan that the run comes to is forecast and proved.
# shellcheck disable=SC2086
{
    "$STRETTO" simulate $pipe --freeze alpha=1/3 --freeze-every 3 --auto-pipe params --auto-dp >out 2>&1 || say "simulate: $(cat out)"
    grep -q ' 7  *3  *34,250  *1 x 4, 1 ' out || say "simulate has no last part: $(cat out)"
    grep -q 'all steps and changes together: ' out || say "simulate has no sum: $(cat out)"
    "$STRETTO" simulate $pipe --course course --json >out 2>&1 || say "simulate --json: $(cat out)"
    python3 - <<'END' || say "simulate --json: $(cat out)"
import json
course = json.load(open("out"))["course"]
parts = course["parts"]
assert [(p["step"], p["stages"], p["replicas"]) for p in parts] == [(0, 4, 1), (3, 2, 2), (6, 1, 4)], parts
ends = [3, 6, 12]
whole = sum((end - p["step"]) * p["step_ns"] + p["change_ns"] for p, end in zip(parts, ends))
assert abs(course["ns"] - whole) < 1 and parts[1]["change_ns"] > 0 and parts[2]["step_ns"] < parts[0]["step_ns"], course
END
    "$STRETTO" check $pipe --freeze norm --freeze-every 3 --auto-pipe params --auto-dp >out 2>&1 || say "check: $(cat out)"
    for proved in '^proved .*gpipe: 4 ranks, 4 stages x 1' 'gpipe, 1 blocks frozen: 4 ranks' 'gpipe, 3 blocks frozen: 4 ranks, 1 stage x 4'; do
        grep -q -e "$proved" out || say "check did not say $proved: $(cat out)"
    done
}
grep -q '^course  *of course; the plan is made anew for each part' replay || say "no course: $(cat replay)"
exit $failed
