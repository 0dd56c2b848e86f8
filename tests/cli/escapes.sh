# Names that come from files, folders, arguments and the environment show their control characters: none reaches the
# terminal, and no line of a message can be forged.
. "$ROOT/tests/cli/lib.sh"
esc=$(printf '\033')
# A colour, a line of its own, a bell, a DEL, a C1 control, a sign that turns the writing. Slashes would be folders.
bad=$(printf 'x\033[31my\nstretto: error: forged\007\177\302\233\342\200\256z')
json='x\u001b[31my\nstretto: error: forged\u0007\u007f\u009b\u202ez'

# clean WHAT FILE...: nothing but text, and the name is there with its controls shown.
clean() {
    what=$1
    shift
    cat "$@" >said
    LC_ALL=C grep -qa '[^ -~]' said && say "$what: control characters: $(LC_ALL=C grep -a '[^ -~]' said | cat -v | head -n 3)"
    grep -qE '^(stretto: error: forged|  forged)' said && say "$what: a forged line: $(cat -v said)"
    grep -qiE 'x(\\x1b|\\u001b)\[31my' said || say "$what: the name is not there: $(cat -v said | head -n 5)"
}
# shows WHAT CODE ARGUMENT...: exit code and clean streams.
shows() {
    what=$1 code=$2
    shift 2
    ends "$code" "$@"
    clean "$what" out err
}
# tensors FILE NAME JSON-SHAPE BYTES: a safetensors file with one tensor of zeros.
tensors() {
    head=$(printf '{"%s":{"dtype":"F32","shape":%s,"data_offsets":[0,%s]}}' "$2" "$3" "$4" | sed 's/\\/\\\\/g')
    head=$(printf '%b' "$head")
    length=${#head}
    # shellcheck disable=SC2059
    printf "\\$(printf %o $((length % 256)))\\$(printf %o $((length / 256)))\\0\\0\\0\\0\\0\\0" >"$1"
    printf '%s' "$head" >>"$1"
    head -c "$4" /dev/zero >>"$1"
}
mlp="--model mlp --device ref --threads 1 --steps 1 --quiet"

# Arguments and the environment.
shows "a command" 2 "$bad"
shows "an option" 2 train "--$bad"
shows "a value" 2 train --strategy "$bad"
shows "a path" 2 train $mlp --weights "$bad"
shows "a data set" 2 train $mlp --data "$bad"
shows "a folder of data" 2 train $mlp --data "mnist:$bad"
shows "an argument" 2 train "$bad"
shows "a run" 3 eval "$bad"
for variable in RANK OMPI_COMM_WORLD_SIZE PMI_SIZE; do
    case $variable in
        RANK) set -- RANK="$bad" WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 ;;
        OMPI_COMM_WORLD_SIZE) set -- OMPI_COMM_WORLD_SIZE="$bad" OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_RANK=0 ;;
        *) set -- PMI_SIZE="$bad" PMI_RANK=0 ;;
    esac
    env "$@" "$STRETTO" train $mlp --out env >out 2>err
    code=$?
    [ $code = 2 ] || say "$variable: exit $code: $(cat -v err)"
    clean "$variable" out err
    rm -rf env
done

# A text of the parser's with quotes of its own is not quoted again.
printf '\012\0\0\0\0\0\0\0{"%s[31m" }' "$esc" >raw.safetensors
answers 3 "header, byte 10: control character 0x1b near '\"'" compare raw.safetensors raw.safetensors

# Files of options, programs, clusters, costs, profiles, hosts.
printf '"%s": 1\n' "$json" | sed 's/\\u001b/\\x1b/; s/\\u0007/\\x07/; s/\\u007f/\\x7f/' >config.yml
shows "a key of YAML" 2 train $mlp --config config.yml
printf 'model: "%s"\n' "$json" | sed 's/\\u001b/\\x1b/; s/\\u0007/\\x07/; s/\\u007f/\\x7f/' >config.yml
shows "a value of YAML" 2 explain --config config.yml
printf '{"%s": 1}' "$json" >ds.json
shows "a key of JSON" 2 explain --model mlp --deepspeed ds.json
printf '{"optimizer": {"type": "%s"}}' "$json" >ds.json
shows "a value of JSON" 2 explain --model mlp --deepspeed ds.json
printf '%s\n' "$bad" >program.txt
shows "a program" 3 explain --model mlp --program program.txt
printf 'classes:\n  - {name: "x\\x1b[31my", ranks: 1, gflops_per_s: 1}\n' >cluster.yml
shows "a cluster" 2 simulate --model mlp --cluster cluster.yml
printf '{"check": "x\\u001b[31my", "format": 1}' >profile.json
ends 3 simulate --model mlp --profile profile.json
LC_ALL=C grep -qa '[^ -~]' out err && say "a profile: $(cat -v err)"
printf '%s slots=1\n' "$(printf '%s' "$bad" | tr -d '\n')" >hosts
shows "a host" 2 explain --model mlp -n 2 --hostfile hosts
shows "costs" 2 simulate --model mlp --costs "$bad"

# Tensors: of weights, in a comparison, in a file that is wrong.
tensors odd.safetensors "$json" '[4]' 16
shows "tensors that do not fit" 3 train $mlp --weights odd.safetensors --out run
"$STRETTO" train $mlp --out plain || say "train: exit $?"
shows "tensors of one file" 1 compare plain/model.safetensors odd.safetensors
shows "tensors of one file, JSON" 1 compare plain/model.safetensors odd.safetensors --json
tensors bad.safetensors "$json" '[4]' 12
shows "a tensor of another size" 3 compare bad.safetensors bad.safetensors

# Arrays of an archive, as numpy names them.
if command -v python3 >/dev/null && python3 -c 'import zipfile' 2>/dev/null; then
    BAD=$bad python3 -c '
import os, zipfile
with zipfile.ZipFile("a.npz", "w") as z: z.writestr(os.environ["BAD"] + ".npy", b"\x93NUMPY" + b"\x01\x00" + bytes([118, 0]) + b"{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2,), }".ljust(117).replace(b"\"", b"\x27") + b"\n" + bytes(8))'
    shows "an array of an archive" 3 explain --model mlp --data npy:a.npz
fi

# Classes and pictures: folders and files of any name.
if "$STRETTO" doctor 2>/dev/null | grep -q 'pictures built'; then
    mkdir -p "pics/train/$bad" pics/train/dog
    for n in 1 2 3; do
        cp "$ROOT/tests/fuzz/corpus/picture/rgb8.png" "pics/train/$bad/$n.png"
        cp "$ROOT/tests/fuzz/corpus/picture/grey8.png" pics/train/dog/$n.png
    done
    pictures="--data folder:pics,test=train --image-size 8"
    # shellcheck disable=SC2086
    ends 0 train $mlp $pictures --out seen
    shows "classes" 0 eval seen --threads 1
    ends 0 eval seen --threads 1 --output seen.json
    clean "classes, JSON" out err seen.json
    ends 0 predict seen --output seen.jsonl --threads 1
    clean "predictions" out err seen.jsonl
    head -c 60 pics/train/dog/1.png >"pics/train/dog/$bad.png"
    # shellcheck disable=SC2086
    shows "a damaged picture" 3 train $mlp $pictures --out damaged
    # shellcheck disable=SC2086
    shows "a damaged picture, passed over" 0 train --model mlp --device ref --threads 1 --steps 1 $pictures --damaged skip --out skipped
    [ -e skipped/report.html ] && LC_ALL=C grep -qa "$esc" skipped/report.html && say "report.html has an escape"
fi

# A job script says the same words to bash.
turned=$(printf 'folder:x\342\200\256y')
ends 0 launch --emit sbatch --nodes 2 --model mlp --data "$turned" --out o
LC_ALL=C grep -qa '[^ -~]' out && say "a job script: $(cat -v out)"
sed -n 's/.*--data \([^ ]*\).*/printf %s \1/p' out | bash >word
[ "$(cat word)" = "$turned" ] || say "the word of the script: $(cat -v word)"
exit $failed
