# The cells of the equality matrix, for tests/equal/equal.c: one a line, "RANKS OPTIONS | OPTIONS OF ONE DEVICE".
#
#     awk -f tests/equal/cells.awk [-v set=cover] [-v device=ref] src/program/pipeline.def
#
# Cells of the device late (tests/late) are held against ref, whose kernels it has; so are its own trainings of one device.
#
# Schedules are the rows of pipeline.def, so a new one has its cells at once. All cells: schedules x stages and replicas x
# micro-batches x models, the further rows of extras(), those of print_bare(), print_overlaps() and the few of print_large(). set=cover: those that together have every pair of values of two
# columns, chosen greedily, the extras dealt over the schedules. Micro-batches have at least two samples (a batch norm of one
# sample at 1x1 has no statistics), steps at least twelve.

# An extra is a row: options with several ranks, options on one device; then what it is for: the model ("" for all), samples of
# the last step (0: it is whole), schedules (a pattern), micro-batches, stages that a rank has (0: the schedule's own number).
# In the short steps replica 1 has no samples at all, and replica 0 has one or two micro-batches of one sample.
function extras() {
    extra("", "", "", 1, ".", 3, 0)
    extra("", "", "resnet8", 2, ".", 3, 0)
    extra("--sync-bn", "--sync-bn", "resnet8", 0, ".", 3, 0)
    extra("--sync-bn", "--sync-bn", "resnet8", 2, ".", 3, 0)
    extra("--clip 0.1", "--clip 0.1", "", 0, ".", 3, 0)
    extra("--optimizer adam", "--optimizer adam", "", 0, ".", 3, 0)
    extra("--sum tree", "--sum tree", "", 0, ".", 4, 0)
    extra("--virtual 3", "", "", 0, "^(interleaved|looped-bfs)$", 4, 3)
    extra("--recompute always", "", "", 0, ".", 3, 0)
    extra("--recompute except-last", "", "", 1, ".", 3, 0)
    extra("--recompute always:block", "", "", 0, ".", 3, 0)
    extra("--recompute always:block --sync-bn", "--sync-bn", "resnet8", 1, ".", 3, 0)
    extra("--hetero base=1ms,slow=0:2,transient=0.3:500us", "", "", 0, ".", 3, 0)
    extra("--clock virtual", "", "", 0, ".", 3, 0)
    extra("--clock virtual --hetero base=1ms,slow=0:2,transient=0.3:500us", "", "", 1, ".", 3, 0)
    extra("--clock virtual --sync-bn", "--sync-bn", "resnet8", 0, ".", 3, 0)
    extra("--clock virtual --zero-stage 3", "", "", 0, ".", 3, 0)
    extra("--zero-stage 1", "", "", 0, ".", 3, 0)
    extra("--zero-stage 2", "", "", 1, ".", 3, 0)
    extra("--zero-stage 3", "", "", 0, ".", 3, 0)
    extra("--zero-stage 1 --zero-accumulate scatter", "", "bert-tiny", 1, ".", 3, 0)
    extra("--zero-stage 2 --zero-accumulate scatter", "--sum replicas-first", "", 0, ".", 4, 0)
    extra("--zero-stage 3 --zero-accumulate scatter", "--sum replicas-first", "", 2, ".", 3, 0)
    extra("--freeze 1", "--freeze 1", "", 2, ".", 3, 0)
    extra("--freeze 1 --sync-bn", "--freeze 1 --sync-bn", "resnet8", 1, ".", 3, 0)
    extra("--freeze 1 --sum tree", "--freeze 1 --sum tree", "", 0, ".", 4, 0)
    extra("--freeze 2 --recompute always:block", "--freeze 2", "", 1, ".", 3, 0)
    extra("--freeze 2 --recompute except-last", "--freeze 2", "", 0, ".", 3, 0)
    extra("--freeze 2 --zero-stage 1", "--freeze 2", "", 1, ".", 3, 0)
    extra("--freeze 1 --zero-stage 2", "--freeze 1", "", 0, ".", 3, 0)
    extra("--freeze 2 --clock virtual", "--freeze 2", "", 1, ".", 3, 0)
    extra("--freeze 0,1,2 --freeze-every 1", "--freeze 0,1,2 --freeze-every 1", "", 1, ".", 3, 0)
    extra("--freeze 0,2 --freeze-every 1 --zero-stage 1", "--freeze 0,2 --freeze-every 1", "", 2, ".", 3, 0)
    extra("--freeze alpha=1/2 --freeze-every 1 --zero-stage 2 --clock virtual", "--freeze alpha=1/2 --freeze-every 1", "", 1, ".", 3, 0)
    extra("--zero-stage 3 --zero-accumulate scatter --zero-keep 2000", "--sum replicas-first", "bert-tiny", 0, ".", 3, 0)
}

function extra(many, one, model, left, schedules, micros, chunks_each) {
    extra_many[++extra_count] = many
    extra_one[extra_count] = one
    extra_model[extra_count] = model
    extra_left[extra_count] = left
    extra_schedules[extra_count] = schedules
    extra_micros[extra_count] = micros
    extra_chunks[extra_count] = chunks_each
}

function batch_of(replicas, micros,    atoms) {
    atoms = replicas * micros
    return atoms >= 6 ? 2 * atoms : atoms * int((12 + atoms - 1) / atoms)
}

function data_of(model, count) {
    return "synthetic:" (model == "bert-tiny" ? "kind=tokens,seq=16,vocab=200,predictions=3" : \
        model == "gpt2-nano" ? "kind=text,seq=16,vocab=200" : "size=8") ",test_count=8,count=" count
}

# Whether each chunk can have a layer (only mlp has less layers than the most chunks there are), and whether tied parameters of
# stages can be added in that order: those that are frozen are not added.
function fits(chunks_each, stages, model, many) {
    if (many ~ /--sum/ && many !~ /--freeze/ && model ~ /^(bert-tiny|gpt2-nano)$/) return 0
    return model != "mlp" || stages * chunks_each <= 4
}

function cell(schedule, stages, replicas, micros, model, many, one, left, chunks_each,    batch, common, line) {
    batch = batch_of(replicas, micros)
    common = "--model " model " --data " data_of(model, left ? 2 * batch + left : 96) " --batch " batch " --steps 3 --device "
    line = stages * replicas + driven[schedule] " " common device " --strategy " schedule " --stages " stages " --replicas " replicas \
        " --micro-batches " micros (many ? " " many : "")
    if (driven[schedule] && replicas > 1) return line " | refused"
    if (!fits(chunks_each ? chunks_each : chunks[schedule], stages, model, many)) return line " | refused"
    one = " --deal " replicas "x" micros (one ? " " one : "")
    if (device == "late" && !(common one in alone)) {
        alone[common one]
        deals[++deal_count] = "1 " common device one " | " common "ref" one
    }
    return line " | " common (device == "late" ? "ref" : device) one
}

# --- what all cells are made of: columns 1 schedule, 2 grid, 3 micro-batches, 4 model ---

function columns(    i) {
    size[2] = split("1x1 1x2 2x1 2x2 4x1", value2)
    size[3] = split("1 3 4 8", value3)
    size[4] = split("mlp resnet8 vit-micro bert-tiny gpt2-nano", value4)
    for (i = 1; i <= size[2]; i++) value[2, i] = value2[i]
    for (i = 1; i <= size[3]; i++) value[3, i] = value3[i]
    for (i = 1; i <= size[4]; i++) value[4, i] = value4[i]
}

function plain(a, b, c, d,    grid) {
    split(value[2, b], grid, "x")
    return cell(value[1, a], grid[1], grid[2], value[3, c], value[4, d], "", "", 0, 0)
}

function further(a, e, model) {
    return cell(value[1, a], 2, 2, extra_micros[e], model, extra_many[e], extra_one[e], extra_left[e], extra_chunks[e])
}

# They have replicas, which a driver has not.
function is_of(e, a, d) {
    return !driven[value[1, a]] && value[1, a] ~ extra_schedules[e] && (extra_model[e] == "" || extra_model[e] == value[4, d])
}

function print_all(    a, b, c, d, e) {
    for (d = 1; d <= size[4]; d++)
        for (c = 1; c <= size[3]; c++)
            for (b = 1; b <= size[2]; b++)
                for (a = 1; a <= size[1]; a++) print plain(a, b, c, d)
    for (e = 1; e <= extra_count; e++)
        for (d = 1; d <= size[4]; d++)
            for (a = 1; a <= size[1]; a++)
                if (is_of(e, a, d)) print further(a, e, value[4, d])
}

# --- the subset ---

function pairs_of(a, b, c, d) {
    p[1] = 1 SUBSEP a SUBSEP 2 SUBSEP b
    p[2] = 1 SUBSEP a SUBSEP 3 SUBSEP c
    p[3] = 1 SUBSEP a SUBSEP 4 SUBSEP d
    p[4] = 2 SUBSEP b SUBSEP 3 SUBSEP c
    p[5] = 2 SUBSEP b SUBSEP 4 SUBSEP d
    p[6] = 3 SUBSEP c SUBSEP 4 SUBSEP d
}

function fresh(a, b, c, d,    i, count) {
    pairs_of(a, b, c, d)
    for (i = 1; i <= 6; i++) count += !(p[i] in seen)
    return count
}

# The next cell is the one with most pairs that were not there yet; of equal ones the first.
function print_cover(    a, b, c, d, most, best, part, i, n) {
    do {
        most = 0
        for (a = 1; a <= size[1]; a++)
            for (b = 1; b <= size[2]; b++)
                for (c = 1; c <= size[3]; c++)
                    for (d = 1; d <= size[4]; d++) {
                        n = fresh(a, b, c, d)
                        if (n <= most) continue
                        most = n
                        best = a SUBSEP b SUBSEP c SUBSEP d
                    }
        if (!most) break
        split(best, part, SUBSEP)
        pairs_of(part[1], part[2], part[3], part[4])
        for (n = 1; n <= 6; n++) seen[p[n]]
        print plain(part[1], part[2], part[3], part[4])
    } while (most)
    # extras in turn, each with the next schedule and model that it is for
    for (n = 1; n <= extra_count; n++) {
        for (i = 0; !is_of(n, 1 + (n + i - 1) % size[1], 1 + (n + 1 + int(i / size[1])) % size[4]);) i++
        print further(1 + (n + i - 1) % size[1], n, value[4, 1 + (n + 1 + int(i / size[1])) % size[4]])
    }
}

# Frozen blocks: some, and all but the head, so that a boundary lies inside a stage or between two. Grids without replicas or
# stages and a driver, which extras do not have; dropouts before and behind the boundary.
function print_frozen(    i, j, way, part, many, one, model, count) {
    split("gpipe:1x2 gpipe:4x1 1f1b:2x2 zbv:2x1 zbv:2x2 rpc:3x1 interleaved:2x1 zb-h2:4x1", way)
    for (i = 1; i in way; i++)
        for (j = 1; j <= size[4]; j++)
            for (count = 1; count <= 2; count++) {
                if (set == "cover" && (i + 2 * j + 3 * count) % 6 != 0) continue
                split(way[i], part, "[:x]")
                model = value[4, j]
                one = "--freeze " (count == 1 ? 1 : model == "resnet8" ? 3 : model ~ /^(mlp|bert-tiny)$/ ? 2 : 4) " --dropout 0.2"
                many = one (part[3] > 1 && count == 2 ? " --zero-stage 1" : "")
                print cell(part[1], part[2], part[3], 3, model, many, one, (i + j + count) % 3, 0)
            }
}

# Blocks that freeze on the way: pipelines stay, shrink, or shrink and become replicas. With sums over a tree one device that only
# freezes is the same, but for batch norm, whose statistics follow from replicas, and tied parameters.
function print_elastic(    i, way, part, one, many) {
    split("gpipe:2x1 gpipe:4x1 1f1b:4x1 1f1b:2x2 eager-1f1b:4x1 zb-h1:4x1 zb-h2:2x1", way)
    for (i = 1; i in way; i++) {
        if (set == "cover" && i % 2 == 0) continue
        split(way[i], part, "[:x]")
        one = "--freeze 0,2,3 --freeze-every 1 --dropout 0.2 --sum tree"
        many = one " --auto-pipe params" (i % 3 ? "" : "-lambda") (part[3] == 1 && i % 2 ? "" : " --auto-dp") (i % 3 == 1 ? " --zero-stage 1" : i % 3 == 2 ? " --clock virtual" : "")
        print cell(part[1], part[2], part[3], 4, "vit-micro", many, one, i % 4, 0)
    }
}

# Families whose smallest member is too large for every cell: slices of a pipeline with replicas; and in the whole matrix a
# pipeline alone and statistics of all replicas.
function print_large(    i, large) {
    split("resnet50 pyramidnet", large)
    for (i = 1; i in large; i++) {
        print cell("1f1b", 2, 2, 1, large[i], "--zero-stage " (i + 1), "", 0, 0)
        if (set == "cover") continue
        print cell("zbv", 2, 1, 3, large[i], "", "", 0, 0)
        print cell("interleaved", 2, 2, 1, large[i], "--sync-bn", "--sync-bn", 0, 0)
    }
}

# Stages without parameters, by --model bare of equal.c: the first, the first two, one in the middle, the last, both stages of one
# rank; whole and sliced. A cover has each schedule with each of the options once, the cuts, micro-batches and short steps by turns.
function bare(many, one) {
    bare_many[++bare_count] = many
    bare_one[bare_count] = one
}

function bare_options() {
    bare("", "")
    bare("--zero-stage 1", "")
    bare("--zero-stage 2", "")
    bare("--zero-stage 3", "")
    bare("--zero-stage 1 --zero-accumulate scatter", "")
    bare("--zero-stage 2 --zero-accumulate scatter", "--sum replicas-first")
    bare("--zero-stage 3 --zero-accumulate scatter", "--sum replicas-first")
    bare("--zero-stage 3 --zero-accumulate scatter --zero-keep 300", "--sum replicas-first")
    bare("--zero-stage 3 --zero-prefetch 0", "")
    bare("--zero-stage 2 --recompute always", "")
    bare("--zero-stage 3 --recompute always:block --optimizer adam", "--optimizer adam")
}

function bare_cuts(chunks_each,    list, i) {
    delete bare_cut
    if (chunks_each == 1) bare_cut_count = split("2:loss 2:in2 2:conv1 3:pool1,conv2 4:in2,conv1,loss", list)
    else bare_cut_count = split("2:in2,conv1,loss 2:in2,conv1,pool1 2:conv1,pool1,conv2 2:conv2,fc,loss", list)
    for (i = 1; i <= bare_cut_count; i++) bare_cut[i] = list[i]
}

function print_bare_of(schedule, chunks_each, more,    e, c, m, left, replicas, part, turn) {
    bare_cuts(chunks_each)
    replicas = driven[schedule] ? 1 : 2
    for (e = 1; e <= (driven[schedule] ? 1 : bare_count); e++)
        for (c = 1; c <= bare_cut_count; c++)
            for (m = 1; m <= 3; m += 2)
                for (left = 0; left <= 1; left++) {
                    turn = (bare_turn + e) % (4 * bare_cut_count)
                    if (set == "cover" && turn != 4 * (c - 1) + m - 1 + left) continue
                    split(bare_cut[c], part, ":")
                    print cell(schedule, part[1], replicas, m, "bare", "--cut " part[2] more \
                        (bare_many[e] ? " " bare_many[e] : ""), bare_one[e], left, chunks_each)
                }
    bare_turn += 7
}

function print_bare(    a) {
    bare_options()
    for (a = 1; a <= size[1]; a++) print_bare_of(value[1, a], chunks[value[1, a]], "")
    print_bare_of("auto", 1, " --virtual 1")
    print_bare_of("auto", 2, " --virtual 2")
}

# Rows of bert that are long enough for replicas to have unequal counts of labels: one to three in a row.
function unequal(line) {
    gsub(/seq=16,vocab=200,predictions=3/, "seq=28,vocab=200,predictions=4", line)
    return line
}

# Strategies whose steps overlap: a replay of the papers' rules by one device (replay.c). There is no short last step and no
# clipping. Steps are so many that numbers 2S to 4S are not drained, which the simulator's mean is of.
function overlap(schedule, stages, replicas, micros, model, many, one,    batch, common) {
    batch = batch_of(replicas, micros)
    common = "--model " model " --data " data_of(model, 8 * batch) " --steps " 5 * stages + 2 " --device "
    many = stages * replicas " " common device " --batch " batch " --strategy " schedule " --stages " stages " --replicas " replicas \
        " --micro-batches " micros (many ? " " many : "")
    return many " | replay " common (device == "late" ? "ref" : device) " --batch " batch / replicas " --drop-last --clip 0 --deal 1x" \
        micros (one ? " " one : "")
}

function print_overlaps(    i, j, grid, part, way, models, count) {
    count = split("mlp resnet8 vit-micro", models)
    split("2x1 3x1 4x1 2x2 3x2", grid)
    way[0] = ""; way[1] = "--clock virtual"; way[2] = "--optimizer adam"; way[3] = "--recompute always"
    way[4] = "--clock virtual --hetero base=1ms,slow=0:2,transient=0.3:500us"; way[5] = "--vertical-sync"
    for (i = 1; i <= 5; i++)
        for (j = 0; j < 6 * count; j++) {
            if (set == "cover" && (j + 2 * i) % 9 != 0) continue
            split(grid[i], part, "x")
            model = models[1 + int(j / 6)]
            if (!fits(1, part[1], model, "")) continue
            one = way[j % 6] == "--optimizer adam" ? way[2] : ""
            print overlap("pipedream", part[1], part[2], 1, model, way[j % 6], one)
            if (way[j % 6] != "--vertical-sync")
                print overlap("pipedream-2bw", part[1], part[2], part[1] + i % 2, model, way[j % 6], one)
        }
    print overlap("pipedream-2bw", 1, 2, 3, "mlp", "", "")
    print overlap("pipedream", 3, 1, 1, "bert-tiny", "--untie", "--untie")
    print overlap("pipedream-2bw", 2, 2, 2, "gpt2-nano", "--untie --clock virtual", "--untie")
    print unequal(overlap("pipedream", 2, 2, 1, "bert-tiny", "--untie", "--untie"))
    print unequal(overlap("pipedream", 3, 2, 1, "bert-tiny", "--untie --vertical-sync --clock virtual", "--untie"))
    print unequal(overlap("pipedream-2bw", 3, 2, 3, "bert-tiny", "--untie --optimizer adam", "--untie --optimizer adam"))
    print unequal(overlap("pipedream-2bw", 2, 2, 2, "bert-tiny", "--untie --dropout 0.2", "--untie --dropout 0.2"))
    tied = overlap("pipedream", 2, 1, 1, "gpt2-nano", "", "")
    sub(/ \| .*/, " | refused", tied)
    print tied
    print overlap("pipedream", 3, 1, 1, "vit-micro", "--dropout 0.2", "--dropout 0.2")
}

# Replicas that train apart, held against a replay of the formulas; with rate 1 and no momentum also against their mean. The last
# step is one that averages, or not.
function apart(schedule, stages, replicas, micros, every, steps, model, many, one,    batch, line) {
    batch = batch_of(replicas, micros)
    line = "--model " model " --data " data_of(model, 4 * batch) " --steps " steps " --drop-last --device "
    return stages * replicas " " line device " --batch " batch " --strategy diloco --schedule " schedule (stages > 1 ? " --stages " stages " --replicas " replicas : "") \
        " --micro-batches " micros " --sync-every " every (many ? " " many : "") " | replay " line (device == "late" ? "ref" : device) \
        " --batch " batch / replicas " --deal 1x" micros (one ? " " one : "")
}

function print_apart(    i, j, way, other, models, count) {
    count = split("mlp resnet8 vit-micro bert-tiny", models)
    way[0] = ""; way[1] = "--clock virtual"; way[2] = "--outer-optimizer sgd --outer-lr 1"
    way[3] = "--optimizer adam"; way[4] = "--outer-lr 0.5 --outer-momentum 0.5 --clip 0.1"; way[5] = "--clock virtual --hetero base=1ms,slow=0:2"
    other[3] = "--optimizer adam"; other[4] = "--clip 0.1"
    for (i = 1; i <= count; i++)
        for (j = 0; j < 6; j++) {
            if (set == "cover" && (i + j) % 3 != 0) continue
            print apart("single", 1, 2 + j % 3, 1 + i % 2, 2 + i % 3, 7, models[i], way[j], other[j])
            if (i != 2 || j < 3) print apart(j % 2 ? "gpipe" : "1f1b", 2, 2, 3, 3, 6, models[i], way[j], other[j])
        }
    print apart("single", 1, 3, 1, 1, 5, "resnet8", way[2], "")
    print apart("interleaved", 2, 2, 4, 4, 5, "vit-micro", "", "")
    print apart("zbv", 2, 2, 4, 2, 5, "gpt2-nano", "", "")
}

# Stages that a rank has, from the schedule's own file.
function chunks_of(file,    line, count) {
    while ((getline line <file) > 0)
        if (line ~ /\.chunks = /) {
            count = line
            sub(/.*\.chunks = /, "", count)
        }
    close(file)
    return count + 0
}

# A rank more, that calls one pipeline.
function has_driver(file,    line, found) {
    while ((getline line <file) > 0) if (line ~ /\.driven = true/) found = 1
    close(file)
    return found + 0
}

function overlaps(file,    line, found) {
    while ((getline line <file) > 0) if (line ~ /\.older = /) found = 1
    close(file)
    return found + 0
}

# A name with an underscore is one with a hyphen on the command line.
/^PIPELINE\(/ {
    name = $0
    sub(/^PIPELINE\(/, "", name)
    sub(/\).*/, "", name)
    file = FILENAME
    sub(/[^\/]*$/, "schedules/" name ".c", file)
    gsub(/_/, "-", name)
    if (overlaps(file)) next
    value[1, ++size[1]] = name
    chunks[name] = chunks_of(file)
    driven[name] = has_driver(file)
}

END {
    if (device == "") device = "cpu"
    columns()
    extras()
    if (set == "cover")
        print_cover()
    else
        print_all()
    print_bare()
    print_frozen()
    print_elastic()
    print_large()
    print_overlaps()
    print_apart()
    for (i = 1; i <= deal_count; i++) print deals[i]
}
