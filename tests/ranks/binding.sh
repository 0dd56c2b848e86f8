# Variables that bind OpenMP's threads, as cluster profiles set them: every thread of a run may use all cores its rank was given.
. "$ROOT/tests/ranks/lib.sh"
command -v taskset >/dev/null || { echo "taskset is not installed"; exit 77; }
given=$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status)
unset OMP_NUM_THREADS OMP_PROC_BIND OMP_PLACES GOMP_CPU_AFFINITY KMP_AFFINITY
count=$(nproc)
[ "$count" -gt 1 ] || { echo "one core: binding shows nothing"; exit 77; }
one=${given##*[,-]}
masks() { sed -n 's/^Cpus_allowed_list:\t//p' /proc/"$1"/task/*/status | sort -u | tr '\n' ' '; }
trains() { grep -q step "$1/metrics.jsonl"; }
# run WANTED COMMAND... OPTION...: the masks of all threads of its process, or of its ranks one by one.
run() {
    wanted=$1
    shift
    rm -rf run
    "$@" --model mlp --threads 2 --batch 24 --steps 100000000 --log-every 1 --eval-every never --save-every never --quiet \
        --out run >out 2>err &
    pid=$!
    await 300 trains run
    pids=$(pids_of run)
    found=
    for each in ${pids:-$pid}; do found="$found$(masks "$each")"; done
    kill -TERM $pid
    wait $pid
    [ "$found" = "$wanted" ] || { echo "$*: threads on cores $found, not $wanted"; exit 1; }
}
for setting in OMP_PROC_BIND=true OMP_PROC_BIND=spread OMP_PLACES=cores GOMP_CPU_AFFINITY="$given" KMP_AFFINITY=granularity=fine,compact; do
    run "$given " env "$setting" "$STRETTO" train
    env "$setting" "$STRETTO" doctor >out
    says out "affinity allows $count,"
    says out "OMP_PROC_BIND .*${setting%%=*} is '"
    says out 'set aside: the threads of a rank use all cores'
    # A program with the library is not started again: what OpenMP calls its places are its cores. Beside libomp (clang)
    # oneDNN's libgomp has bound the process before, and nobody can tell.
    ! ldd "$probe" | grep -q libomp || continue
    [ "$(env "$setting" PROBE=cores "$probe")" = "$count" ] || { echo "$setting: the library sees other cores"; exit 1; }
done
export OMP_PROC_BIND=close
run "$given " "$STRETTO" train -n 2 --spawn threads
run "$given $given " "$STRETTO" train -n 2
run "$one " taskset -c "$one" "$STRETTO" train
run "$one $one " taskset -c "$one" "$STRETTO" train -n 2
rm -rf run
"$STRETTO" train -n 2 --model mlp --batch 24 --steps 4 --quiet --out run || exit 1
says run/summary.json "\"threads\": $((count / 2)),"
