# --overwrite and --resume take away what a run of ours left, and nothing else.
. "$ROOT/tests/cli/lib.sh"
mlp="--model mlp --device ref --threads 1 --steps 2 --batch 32 --quiet"
# expect CODE TEXT ARGUMENTS
expect() {
    code=$1 part=$2
    shift 2
    answers "$code" "$part" train "$@"
}
# content FOLDER: names and bytes of all that is in it
content() { (cd "$1" && find . | sort && find . -type f | sort | xargs cksum); }

# shellcheck disable=SC2086
{
    # Names like ours in a folder that is no run: refused, and as they were.
    for name in config.yml checkpoints summary.json metrics.jsonl model.safetensors; do
        rm -rf foreign
        mkdir foreign
        case $name in
        checkpoints) mkdir -p foreign/checkpoints/step-00000002 && echo mine >foreign/checkpoints/step-00000002/notes ;;
        summary.json) echo '{"version": 3, "exit": 0}' >foreign/summary.json ;;
        *) echo "mine: 1" >foreign/$name ;;
        esac
        echo x >foreign/config.yml.tmp.12
        content foreign >before
        for option in "" --overwrite; do
            expect 2 "holds $name, but nothing that shows a run" $mlp --out foreign $option
            content foreign | cmp -s - before || say "$name $option: changed: $(content foreign | diff before -)"
        done
    done

    # What marks a run: the mark, or a summary, or a manifest alone; also of a damaged checkpoint.
    expect 0 '' $mlp --out run
    for kept in .stretto-run summary.json checkpoints; do
        rm -rf one
        mkdir one
        cp -r run/$kept run/program.txt one
        expect 2 'holds a run already' $mlp --out one
        expect 0 '' $mlp --out one --overwrite
    done
    # A run that was killed before it left anything but its first files.
    rm -rf one
    mkdir one
    cp run/.stretto-run run/config.yml run/metrics.jsonl one
    expect 0 '' $mlp --out one --overwrite

    # Within a run: what is not the run's stays, in checkpoints/ too; what killed writes left goes.
    for option in --overwrite --resume; do
        rm -rf mixed
        cp -r run mixed
        echo mine >mixed/notes.txt
        echo mine >mixed/notes.txt.tmp.7
        echo mine >mixed/config.yml.tmp.x7
        echo mine >mixed/checkpoints/notes.txt
        mkdir mixed/checkpoints/step-00000001.damaged mixed/checkpoints/.step-00000003.tmp
        touch mixed/checkpoints/.step-00000003.tmp/model.safetensors.tmp.99
        for left in config.yml metrics.jsonl model.safetensors summary.json report.html trace.json program.txt \
            rank-3.safetensors .stretto-run; do echo half >mixed/$left.tmp.4242; done
        expect 0 '' $mlp --out mixed $option
        for mine in notes.txt notes.txt.tmp.7 config.yml.tmp.x7 checkpoints/notes.txt; do
            [ "$(cat mixed/$mine)" = mine ] || say "$option removed $mine"
        done
        # shellcheck disable=SC2012
        ls -A mixed mixed/checkpoints | grep -E '\.tmp\.4242|\.step-' && say "$option left the above"
    done
    [ -d mixed/checkpoints/step-00000001.damaged ] || say "--resume removed a damaged checkpoint"
    expect 0 '' $mlp --out mixed --overwrite
    [ ! -e mixed/checkpoints/step-00000001.damaged ] || say "--overwrite left a damaged checkpoint"
}
exit $failed
