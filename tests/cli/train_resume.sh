# --resume names a folder: one that holds no run is refused, one without a checkpoint begins at step 1, and explain reads the run.
. "$ROOT/tests/cli/lib.sh"
# answer CODE TEXT ARGUMENTS: exit code and a part of what is said on standard error, in three lines.
answer() {
    answers "$@"
    [ "$1" = 0 ] || [ "$(grep -vc warning: err)" -le 3 ] || say "$*: a long message: $(cat err)"
}
mlp="--model mlp --device ref --threads 1 --batch 32 --steps 2"

# shellcheck disable=SC2086
{
    answer 0 '' train $mlp --out first --quiet
    mkdir empty
    for out in frist empty; do
        for command in train explain; do
            answer 2 "--out $out holds no run to resume" $command --resume --out $out --steps 1
        done
        for spawn in processes threads; do
            answer 2 "--out $out holds no run to resume" train --resume --out $out -n 2 --spawn $spawn --steps 1
        done
    done
    [ ! -e frist ] || say "a refused folder was made"
    [ -z "$(ls -A empty)" ] || say "a refused folder holds $(ls -A empty)"
    answer 2 '--resume needs --out' explain --resume

    # Named on the command line or in --config, the model may begin there.
    answer 0 'starting at step 1' train $mlp --resume --out named
    echo 'model: mlp' >model.yml
    answer 0 'starting at step 1' train --config model.yml --device ref --threads 1 --steps 1 --resume --out configured
    grep -q '"model": "mlp"' configured/summary.json || say "--config names mlp, trained: $(grep '"model"' configured/summary.json)"

    # Files of another program under a run's names are not a run: they stay as they are, whatever is named.
    for file in model.safetensors metrics.jsonl summary.json config.yml checkpoints/notes; do
        rm -rf foreign && mkdir -p "foreign/$(dirname $file)" && echo 'lr: 0.05' >foreign/$file
        for command in explain train; do
            answer 2 "holds ${file%/*}, but nothing that shows a run of stretto" $command $mlp --resume --out foreign
        done
        [ "$(find foreign -type f)" = foreign/$file ] && [ "$(cat foreign/$file)" = 'lr: 0.05' ] || say "foreign $file was changed"
    done
    rm -r foreign && mkdir foreign && echo 'lr: 0.05' >foreign/config.yml
    answer 2 'holds config.yml, but nothing that shows a run of stretto' train --device ref --threads 1 --steps 1 --resume --out foreign
    answer 2 'holds config.yml, but nothing that shows a run of stretto' train $mlp -n 2 --resume --out foreign

    # A link named checkpoints whose folder is missing: it may hold some, so nothing is touched.
    answer 0 '' train $mlp --out linked --quiet
    mv linked/checkpoints elsewhere && ln -s ../missing linked/checkpoints
    ls -l --time-style=full-iso linked >before
    for command in explain train; do
        answer 3 'linked/checkpoints: cannot open folder' $command --resume --out linked --steps 4
    done
    ls -l --time-style=full-iso linked | cmp -s - before || say "changed: $(ls -l linked)"
    rm linked/checkpoints && ln -s ../elsewhere linked/checkpoints
    answer 0 'resuming from linked/checkpoints/step-00000002' train --resume --out linked --steps 4

    # Fewer steps than a run has done that did not come to its end: refused, and nothing changes.
    answer 0 '' train $mlp --steps 4 --out longer --quiet
    rm longer/summary.json longer/model.safetensors
    ls -l --time-style=full-iso longer | grep -v '^total' >before
    answer 2 'longer has done 4 steps, --steps or --epochs ends the run at 3' train --resume --out longer --steps 3 -n 2 --spawn threads --quiet
    for command in explain train; do
        answer 2 'longer has done 4 steps, --steps or --epochs ends the run at 3' $command --resume --out longer --steps 3 --quiet
    done
    ls -l --time-style=full-iso longer | grep -v '^total' | cmp -s - before || say "changed: $(ls -l longer)"
    answer 0 'its results are written anew' train --resume --out longer
    answer 0 '' explain --resume --out longer --steps 3 --quiet
    answer 0 'nothing to do: longer is at step 4, beyond the 3 of this run' train --resume --out longer --steps 3

    # A run that was stopped before its first checkpoint begins again, with its own options.
    rm -r first/checkpoints first/summary.json
    answer 0 'no checkpoint in first/checkpoints: starting at step 1' train --resume --out first --seed 3
    grep -q '"model": "mlp"' first/summary.json || say "not the run's model: $(grep '"model"' first/summary.json)"
    grep -q '"seed": 3' first/summary.json || say "--seed 3 was lost"

    # explain describes the run, with what is named besides.
    answer 0 '' explain --resume --out first
    grep -q '^model *mlp,' out || say "explain --resume: $(head -1 out)"
    grep -q '^batch *32 ' out || say "explain --resume: $(grep batch out)"
    answer 0 '' explain --resume --out first --steps 7
    grep -q '^training *7 steps' out || say "explain --resume --steps 7: $(grep training out)"
}

# A rank lost while joining: there is no config.yml yet for the ranks that the launcher starts again with --resume.
STRETTO_FAULT=rank=1,at=JOIN,do=kill "$STRETTO" train -n 2 --threads 1 --device ref --steps 1 --batch 32 --restarts 1 --out again --quiet >out 2>err
got=$?
[ $got = 0 ] && grep -q 'all ranks start again' err || say "--restarts before config.yml: exit $got: $(cat err)"
exit $failed
