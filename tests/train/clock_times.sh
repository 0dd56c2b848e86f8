# In virtual time the third step of a training takes what the simulator says, to the last bit (tests/equal/equal.c compares), and
# the parameters are those of one device: every schedule, data parallel and ZeRO, with costs from every source.
. "$ROOT/tests/train/lib.sh"
slow_build
cat >two.yml <<'END'
classes:
  - {name: fast, ranks: 3, gflops_per_s: 50, memory_gib: 8, memory_gb_per_s: 20}
  - {name: old, ranks: 3, gflops_per_s: 20, memory_gib: 8, memory_gb_per_s: 5}
hosts:
  - {ranks: 2, count: 3}
links:
  in_host: {latency_us: 2, bandwidth_gb_per_s: 4}
  between_hosts: {latency_us: 30, bandwidth_gb_per_s: 0.5}
END
common="--model resnet8 --data synthetic:size=8,test_count=8,count=96 --device cpu --batch 16 --steps 3"
for costs in "" "--hetero base=1ms,slow=1:2,transient=0.3:500us,link=0:1:200us:10MB/s" "--cluster two.yml --hetero slow=0:1.5"; do
    for schedule in $(sed -n 's/^PIPELINE(\(.*\))$/\1/p' "$ROOT/src/program/pipeline.def" | tr _ -); do
        for grid in 2x1 2x2; do
            stages=${grid%x*} replicas=${grid#*x} more=0
            case $schedule in
            pipedream*) # steps overlap: a mean of steps, and a replay of the rule, of which a replica is one device
                micros=1
                [ "$schedule" = pipedream ] || micros=4
                long="${common%3}12"
                echo "$((stages * replicas)) $long --strategy $schedule --stages $stages --replicas $replicas --micro-batches $micros --clock virtual $costs | replay ${long% --batch 16*} --batch $((16 / replicas)) --steps 12 --drop-last --clip 0 --deal 1x$micros"
                continue
                ;;
            esac
            [ "$schedule" = rpc ] && { more=1; [ "$replicas" = 1 ] || continue; }
            echo "$((stages * replicas + more)) $common --strategy $schedule --stages $stages --replicas $replicas --micro-batches 4 --clock virtual $costs | $common --deal ${replicas}x4"
        done
    done
    for strategy in "ddp" "ddp --clip 0" "ddp --sync-bn" zero1 zero2 zero3; do
        one=; case $strategy in *--*) one=--${strategy#*--} ;; esac
        echo "4 $common --strategy $strategy --replicas 4 --micro-batches 2 --clock virtual $costs | $common --deal 4x2 $one"
    done
done >cells
[ "$(wc -l <cells)" -gt 90 ] || { echo "only $(wc -l <cells) cells"; exit 1; }
"$ROOT/$B/equal" <cells >out || { cat out; exit 1; }
