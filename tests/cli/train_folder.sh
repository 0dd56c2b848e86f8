# --out: never written over by accident, checked before training, and whole after it.
. "$ROOT/tests/cli/lib.sh"
mlp="--model mlp --device ref --threads 1 --steps 2 --batch 32"
# expect CODE TEXT ARGUMENTS: exit code and a part of what is said on standard error, in few lines.
expect() {
    code=$1 part=$2
    shift 2
    answers "$code" "$part" train "$@"
    [ "$(grep -c . err)" -le 5 ] || [ "$part" = 'none of 2 checkpoints is whole' ] || say "$*: a long message: $(cat err)"
}

# shellcheck disable=SC2086
{
    expect 0 '' $mlp --out run --quiet
    for file in config.yml summary.json metrics.jsonl program.txt trace.json model.safetensors report.html checkpoints; do
        [ -s run/$file ] || say "no $file"
    done
    ls run/events.out.tfevents.* >/dev/null || say "no event file"
    [ -f run/checkpoints/step-00000002/manifest.json ] || say "no checkpoint at the end"
    [ "$(readlink run/checkpoints/best)" = step-00000002 ] || say "best is $(readlink run/checkpoints/best)"
    echo precious >run/notes.txt
    cksum run/model.safetensors >before

    expect 2 'holds a run' $mlp --out run
    cksum run/model.safetensors | cmp -s - before || say "a refused run changed the folder"
    # the node that has rank 0 keeps the folder, whichever is the chief
    printf 'nodes:\n- {host: a, workers: 1}\n- {host: b, workers: 1, chief: true}\n' >nodes.yml
    nodes="--nodes-file nodes.yml --init tcp://127.0.0.1:9 --join-limit 0.2s"
    expect 2 'holds a run' $mlp --out run $nodes --node-rank 0
    "$STRETTO" explain $mlp --out run $nodes --node-rank 1 >out 2>err || say "the other node: $(cat err)"
    expect 2 'exclude one another' $mlp --out run --resume --overwrite
    expect 2 '--out' $mlp --resume
    touch run/rank-7.log run/rank-7.safetensors run/rank-7.txt # of an older run with more ranks; and somebody's own
    expect 0 '' $mlp --out run --overwrite --seed 3 --quiet
    [ "$(ls run | grep rank-)" = rank-7.txt ] || say "--overwrite of ranks left $(ls run | grep rank-)"
    cksum run/model.safetensors | cmp -s - before && say "--overwrite kept the old model"
    [ -s run/notes.txt ] || say "--overwrite removed a file that is not a run's"

    # A model that Hugging Face knows has its config.json; --overwrite by another one removes it.
    [ ! -e run/config.json ] || say "mlp has a config.json"
    words="--threads 1 --steps 1 --batch 4 --eval-every never --save-every never --quiet --out words"
    expect 0 '' --model gpt2-nano --data synthetic:kind=text,count=8,test_count=4,seq=16,vocab=300 $words
    grep -q '"vocab_size": 300,' words/config.json && grep -q '"n_layer": 4,' words/config.json || say "gpt2-nano: $(cat words/config.json)"
    expect 0 '' --model bert-tiny --data synthetic:kind=tokens,count=8,test_count=4,seq=16,predictions=2,vocab=300 --overwrite $words
    grep -q '"hidden_size": 128,' words/config.json || say "bert-tiny: $(cat words/config.json)"
    expect 0 '' --model mlp --overwrite $words
    [ ! -e words/config.json ] || say "--overwrite left a config.json"

    echo text >file
    expect 2 'file' $mlp --out file
    expect 3 'file' $mlp --out file/below
    expect 3 '/proc' $mlp --out /proc/run
    if [ "$(id -u)" != 0 ]; then
        mkdir locked && chmod 555 locked
        expect 3 'locked' $mlp --out locked/run
        expect 3 'locked' $mlp --out locked
    fi

    # A disk that takes no more than 10 KiB of a file: the checkpoint does not fit.
    (trap '' XFSZ && ulimit -f 20 && exec "$STRETTO" train $mlp --out full --quiet) 2>err
    code=$?
    [ $code = 3 ] || say "a full disk: exit $code, not 3: $(cat err)"
    ls full/checkpoints 2>/dev/null | grep -q . && say "a full disk left: $(ls full/checkpoints)"

    # A full disk later on: the checkpoint before it is whole, and the run goes on from there.
    expect 0 '' $mlp --out later --quiet
    (trap '' XFSZ && ulimit -f 20 && exec "$STRETTO" train --resume --steps 4 --out later --quiet) 2>err
    code=$?
    [ $code = 3 ] || say "a disk that fills up: exit $code, not 3: $(cat err)"
    expect 0 'resuming from later/checkpoints/step-00000002' --resume --steps 4 --out later
}

# Without --out: the names of the next minutes are taken by other runs, so another one is chosen.
mkdir crowd && cd crowd || exit 1
now=$(date +%s)
names=$(for i in $(seq 0 300); do date -d "@$((now + i))" +runs/mlp-%Y%m%d-%H%M%S; done)
echo "$names" | xargs mkdir -p
for name in $names; do : >"$name/.stretto-run" && : >"$name/config.yml"; done
for command in explain train; do
    # shellcheck disable=SC2086
    "$STRETTO" $command $mlp --quiet 2>err || say "$command with the first name taken: exit $?: $(cat err)"
done
[ "$(ls -d runs/*-2 | wc -l)" = 1 ] || say "another name: $(ls -d runs/*-2)"
find runs -name '.stretto-*' ! -name .stretto-run | grep . && say "left behind"
cd ..

# A damaged newest checkpoint: the older one is taken, saying so; with none left the run stops.
"$STRETTO" train --model mlp --device ref --threads 1 --steps 4 --save-every 2 --out damaged --quiet || say "a run failed"
echo x >>damaged/checkpoints/step-00000004/model.safetensors
expect 0 'step-00000004 is damaged and is passed over' --resume --out damaged
[ -f damaged/checkpoints/step-00000004.damaged/manifest.json ] || say "the damaged checkpoint was not kept"
for step in damaged/checkpoints/step-*; do echo x >>"$step/optimizer.safetensors"; done
expect 3 'none of 2 checkpoints is whole' --resume --out damaged

# A newest checkpoint that cannot be read, or that a newer version wrote, may be whole: the run stops, and nothing changes.
"$STRETTO" train --model mlp --device ref --threads 1 --steps 4 --save-every 2 --out newer --quiet || say "a run failed"
ls -R newer/checkpoints >before
sed -i 's/"format": 1/"format": 2/' newer/checkpoints/step-00000004/manifest.json
expect 2 'format 2, this version reads 1' --resume --steps 6 --out newer
sed -i 's/"format": 2/"format": 1/' newer/checkpoints/step-00000004/manifest.json
chmod 0 newer/checkpoints/step-00000004/model.safetensors
plain=$STRETTO
if [ "$(id -u)" = 0 ]; then # root reads everything, unless it gives that up
    STRETTO=./unprivileged
    printf '#!/bin/sh\nexec setpriv --bounding-set=-all --inh-caps=-all "%s" "$@"\n' "$plain" >$STRETTO
    chmod +x $STRETTO
fi
expect 3 'Permission denied' --resume --steps 6 --out newer
STRETTO=$plain
ls -R newer/checkpoints | cmp -s - before || say "a refused resume changed the checkpoints"
chmod 644 newer/checkpoints/step-00000004/model.safetensors
expect 0 'resuming from newer/checkpoints/step-00000004' --resume --steps 6 --out newer
exit $failed
