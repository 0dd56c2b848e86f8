# Training on two hosts x two ranks that mpirun starts, which tells them all they need: over MPI alone, and as auto has it.
. "$ROOT/tests/hosts/lib.sh"
command -v mpirun >/dev/null || { echo "mpirun is not installed"; exit 77; }
mpirun --version 2>/dev/null | grep -q 'Open MPI' || { echo "mpirun is not Open MPI's"; exit 77; }
[ -z "${SAN:-}" ] || { echo "MPI is not tried under sanitizers"; exit 77; }
need MPI
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 OMPI_MCA_mpi_yield_when_idle=1
# What mpirun calls as ssh HOST COMMAND...: addresses here end in the host's number.
cat >agent <<END
#!/bin/sh
name=h\${1##*.}
ns=$HOSTS_PREFIX-\${1##*.}
shift
exec ip netns exec "\$ns" unshare --uts sh -c 'hostname "\$1"; shift; exec sh -c "\$*"' sh "\$name" "\$@"
END
chmod +x agent
mpi() {
    on 1 timeout 120 mpirun --mca plm_rsh_agent "$PWD/agent" --mca oob_tcp_if_include "$net.0/24" --mca btl_tcp_if_include "$net.0/24" \
        --bind-to none --oversubscribe --host "$net.1:2,$net.2:2" -np 4 "$@"
}
options="--model mlp --data digits --threads 1 --batch 48 --epochs 1 --eval-every never --save-every never --quiet"
"$STRETTO" train $options --deal 4x1 --out one || exit 1
for comm in mpi auto $(built UCX && echo ucx); do
    code 0 mpi "$STRETTO" train $options --comm $comm --out $comm
    same one $comm
    says $comm/summary.json "\"comm\": \"$(echo $comm | sed s/auto/hosts/)\""
done
# MPI brings the key: no folder in common, and --init between hosts without --key.
cat >apart <<END
#!/bin/sh
mkdir -p "$PWD/own-\$OMPI_COMM_WORLD_RANK" && cd "$PWD/own-\$OMPI_COMM_WORLD_RANK" && exec "\$@"
END
chmod +x apart
for init in '' "--init tcp://$net.1:29611"; do
    # shellcheck disable=SC2086
    code 0 mpi "$PWD/apart" "$STRETTO" train $options --comm mpi --overwrite --out run $init
    same one own-0/run
    [ -z "$(find . -name '.stretto-*' ! -name .stretto-run ! -name .stretto-lock)" ] || { echo "a file carried the key"; exit 1; }
done
