# Shared by the tests on real Slurm. Not a test itself.
. "$ROOT/tests/ranks/lib.sh"
# The scripts' own folder is not seen by others' eyes only here: all nodes are this machine.
# finish JOB: waits for a batch job to end; its state must be COMPLETED.
finish() {
    tries=0
    while squeue -h -j "$1" 2>/dev/null | grep -q .; do
        sleep 0.3
        tries=$((tries + 1))
        [ $tries -lt 400 ] || { squeue; scontrol show job "$1"; exit 1; }
    done
}
