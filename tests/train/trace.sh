# trace.json of a run: every instruction of every step and rank is there, with the operands that program.txt gives its id;
# communication has lines of its own and goes on beside backward; waits are seen; nothing is lost; steps count from 1.
. "$ROOT/tests/train/lib.sh"
common="--threads 1 --eval-every never --save-every never --quiet"

# check FOLDER RANKS FIRST LAST: the events of these steps against the program, which is that of every step.
check() {
    grep -q '"dropped_events":0}' "$1/trace.json" || { echo "$1: events were lost"; exit 1; }
    awk -v ranks="$2" -v first="$3" -v last="$4" '
    function number(key) { return match($0, "\"" key "\":[0-9.]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) : "" }
    function text(key) { return match($0, "\"" key "\":\"[^\"]*\"") ? substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 5) : "" }
    function say(what) { print what ": " $0; bad = 1 }
    BEGIN { split("s stage e segment m micro_batch a slot g grad h other_grad b bucket q group", words, " ")
        for (i = 1; i < 16; i += 2) key_of[words[i]] = words[i + 1] }
    # program.txt
    NR == FNR && /^rank [0-9]+ / { in_body = $3 == "body" }
    NR == FNR && /^#/ && in_body {
        at = substr($2, 2) " " substr($1, 2)
        name_of[at] = $3
        body[at]
        for (i = 4; i <= NF; i++) if (substr($i, 1, 1) in key_of && $i ~ /[0-9]$/)
            value_of[at " " key_of[substr($i, 1, 1)]] = substr($i, 2)
    }
    NR == FNR { next }
    # trace.json
    /"thread_name"/ { line_of[number("pid") " " number("tid")] = /"communication"/ ? "communication" : "compute" }
    /"ph":"X"/ {
        rank = number("pid"); step = number("step") + 0; at = rank " " number("id"); line = line_of[rank " " number("tid")]
        words_in_name = split(text("name"), part, " ")
        begin = number("ts") + 0; end = begin + number("dur")
        if (!(at in name_of) || name_of[at] != part[words_in_name]) say("not in program.txt")
        for (letter in key_of) if (number(key_of[letter]) != value_of[at " " key_of[letter]]) say("another " key_of[letter])
        if (step < first || step > last) say("not a step to keep")
        if ((line == "communication") != (words_in_name == 1 && part[1] ~ /^(COUNT|REDUCE|REPORT)$/)) say("on line " line)
        if ((part[1] == "await") != (text("cat") == "wait") || (part[1] != "await" && number("waiter") != "")) say("a wait?")
        if (part[1] == "await" && number("waiter") == "" && part[2] != "REPORT") say("a wait without who waits, and not at the end of the step?")
        if (part[1] == "await") { waits++; next }
        seen[line " " step " " at]++
        when = rank " " step
        if (part[1] == "B" && end > backward_ends[when]) backward_ends[when] = end
        if (text("name") == "REDUCE" && (!(when in reduce_begins) || begin < reduce_begins[when])) reduce_begins[when] = begin
    }
    END {
        $0 = FILENAME
        for (at in body) for (step = first; step <= last; step++) {
            if (seen["compute " step " " at] != 1) say("step " step ": " seen["compute " step " " at] + 0 " times " name_of[at] " of " at)
            posted = name_of[at] ~ /^(COUNT|REDUCE|REPORT)$/
            if (seen["communication " step " " at] != posted) say("step " step ": not once under way: " name_of[at] " of " at)
        }
        for (rank = 0; rank < ranks && ranks > 1; rank++) for (step = first; step <= last; step++)
            if (!(reduce_begins[rank " " step] < backward_ends[rank " " step])) say("no REDUCE before backward ends, step " step " rank " rank)
        exit bad
    }' "$1/program.txt" "$1/trace.json" || { echo "$1: trace.json"; exit 1; }
}

# Two buckets of gradients: the first is reduced while the second is made. The last 20 steps, then those asked for.
several="--model resnet20 --data synthetic:count=96,test_count=8,size=8 --batch 8 $common"
# shellcheck disable=SC2086
{
    "$STRETTO" train $several --steps 22 --out one || exit 1
    check one 1 3 22
    for spawn in threads processes; do
        [ "$SAN:$spawn" != "thread:processes" ] || continue
        "$STRETTO" train $several --steps 22 -n 2 --spawn $spawn --out $spawn || exit 1
        check $spawn 2 3 22
        "$STRETTO" train $several --steps 6 -n 2 --spawn $spawn --micro-batches 2 --trace 2-4 --out $spawn-range || exit 1
        check $spawn-range 2 2 4
    done
    "$STRETTO" train $several --steps 2 --trace 1-1 --out first || exit 1
    check first 1 1 1
    "$STRETTO" train $several --steps 2 --trace 0-1 --out none 2>err
    [ $? = 2 ] && grep -q -e '--trace' err || { echo "--trace 0-1 was taken: steps count from 1"; cat err; exit 1; }

    # Shared statistics: a wait for every exchange inside F and B, short last steps with a rank that has no samples, nothing lost.
    "$STRETTO" train --model resnet8 --data synthetic:count=26,test_count=8,size=8 --batch 12 --micro-batches 2 --sync-bn \
        $common --steps 20 -n 2 --out shared || exit 1
}
# A pipeline that is never flushed: each instruction once in the step that it belongs to, also where the pipeline is filled and
# drained; each message with both ends.
"$STRETTO" train --model mlp --data synthetic:count=96,test_count=8,size=8 --batch 8 $common --eval-every 5 --steps 12 --trace 1-12 \
    --strategy pipedream --stages 3 --spawn threads --out ahead || exit 1
awk '
function number(key) { return match($0, "\"" key "\":[0-9.]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) : "" }
/"ph":"X"/ && !/"name":"await/ { times[number("pid") " step " number("step") " #" number("id") (/"name":"post/ ? " posted" : "")]++ }
/"name":"message"/ { match($0, /"id":"[^"]*"/); ends[substr($0, RSTART, RLENGTH)] += /"ph":"s"/ ? 1 : 100 }
END {
    for (i in times) if (times[i] != 1) { print "rank " i ": " times[i] " times"; bad = 1 }
    for (i in ends) { messages++; if (ends[i] != 101) { print i ": not one send and one receive"; bad = 1 } }
    if (messages != 12 * 4) { print messages " messages"; bad = 1 }
    exit bad
}' ahead/trace.json || { echo "ahead: trace.json"; exit 1; }
grep -q '"dropped_events":0}' shared/trace.json || { echo "shared: events were lost"; exit 1; }
for name in 'await F' 'await B' STATS_F 'await STATS_B'; do
    grep -q "\"name\":\"$name\"" shared/trace.json || { echo "shared: no $name"; exit 1; }
done
# 9 batch norms, 2 micro-batches, 2 ranks; 13 of the 20 steps are whole
waits=$(grep -c '"name":"await F"' shared/trace.json)
[ "$waits" -ge 468 ] || { echo "shared: $waits waits inside F"; exit 1; }
