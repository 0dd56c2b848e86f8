# The cells of the equality matrix, for tests/equal/equal.c: one a line, "RANKS OPTIONS | OPTIONS OF ONE DEVICE".
#
#     awk -f tests/equal/cells.awk [-v set=cover] [-v device=ref] src/program/pipeline.def
#
# Schedules are the rows of pipeline.def, so a new one has its cells at once. All cells: schedules x stages and replicas x
# micro-batches x models, and the further rows of extras(). set=cover: those that together have every pair of values of two
# columns, chosen greedily, the extras dealt over the schedules. Micro-batches have at least two samples (a batch norm of one
# sample at 1x1 has no statistics), steps at least twelve.

# An extra is a row: name, its options with several ranks, its options on one device, columns that it fixes ("" for any).
# The "short" ones have a last step of so few samples that replica 1 has none, or only its first micro-batch has one.
function extras() {
    extra("short", "", "", "", 1)
    extra("shorter", "", "", "resnet8", 2)
    extra("sync-bn", "--sync-bn", "--sync-bn", "resnet8", 0)
    extra("sync-bn-short", "--sync-bn", "--sync-bn", "resnet8", 2)
    extra("clip", "--clip 0.1", "--clip 0.1", "", 0)
    extra("adam", "--optimizer adam", "--optimizer adam", "", 0)
    # --recompute always, and --zero-stage 1, 2, 3 with --zero-accumulate local and scatter (--sum replicas-first on one
    # device) are rows here.
}

function extra(name, many, one, model, left) {
    extra_name[++extra_count] = name
    extra_many[extra_count] = many
    extra_one[extra_count] = one
    extra_model[extra_count] = model
    extra_left[extra_count] = left # samples of the last step; 0: it is whole
}

function batch_of(replicas, micros,    atoms) {
    atoms = replicas * micros
    return atoms >= 6 ? 2 * atoms : atoms * int((12 + atoms - 1) / atoms)
}

function data_of(model, count) {
    return "synthetic:" (model == "bert-tiny" ? "kind=tokens,seq=16,vocab=200,predictions=3" : "size=8") ",test_count=8,count=" count
}

# Whether each chunk can have a layer; only mlp has less layers than the most chunks there are.
function fits(schedule, stages, model) {
    return model != "mlp" || stages * chunks[schedule] <= 4
}

function cell(schedule, stages, replicas, micros, model, many, one, left,    batch, common, line) {
    batch = batch_of(replicas, micros)
    common = "--model " model " --data " data_of(model, left ? 2 * batch + left : 96) " --device " device " --batch " batch \
        " --steps 3"
    line = stages * replicas " " common " --strategy " schedule " --stages " stages " --replicas " replicas \
        " --micro-batches " micros (many ? " " many : "")
    if (!fits(schedule, stages, model)) return line " | refused"
    return line " | " common " --deal " replicas "x" micros (one ? " " one : "")
}

# --- what all cells are made of: columns 1 schedule, 2 grid, 3 micro-batches, 4 model ---

function columns(    i) {
    size[2] = split("1x1 1x2 2x1 2x2 4x1", value2)
    size[3] = split("1 3 4 8", value3)
    size[4] = split("mlp resnet8 vit-micro bert-tiny", value4)
    for (i = 1; i <= size[2]; i++) value[2, i] = value2[i]
    for (i = 1; i <= size[3]; i++) value[3, i] = value3[i]
    for (i = 1; i <= size[4]; i++) value[4, i] = value4[i]
}

function plain(a, b, c, d,    grid) {
    split(value[2, b], grid, "x")
    return cell(value[1, a], grid[1], grid[2], value[3, c], value[4, d], "", "", 0)
}

function further(a, e, model,    grid) {
    return cell(value[1, a], 2, 2, 3, model, extra_many[e], extra_one[e], extra_left[e])
}

function print_all(    a, b, c, d, e) {
    for (d = 1; d <= size[4]; d++)
        for (c = 1; c <= size[3]; c++)
            for (b = 1; b <= size[2]; b++)
                for (a = 1; a <= size[1]; a++) print plain(a, b, c, d)
    for (e = 1; e <= extra_count; e++)
        for (d = 1; d <= size[4]; d++)
            for (a = 1; a <= size[1]; a++)
                if (extra_model[e] == "" || extra_model[e] == value[4, d]) print further(a, e, value[4, d])
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
function print_cover(    a, b, c, d, most, best, i, n) {
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
        split(best, i, SUBSEP)
        pairs_of(i[1], i[2], i[3], i[4])
        for (n = 1; n <= 6; n++) seen[p[n]]
        print plain(i[1], i[2], i[3], i[4])
    } while (most)
    for (a = 1; a <= size[1]; a++) {
        n = 1 + (a - 1) % extra_count
        print further(a, n, extra_model[n] != "" ? extra_model[n] : value[4, 1 + a % size[4]])
    }
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

# A name with an underscore is one with a hyphen on the command line.
/^PIPELINE\(/ {
    name = $0
    sub(/^PIPELINE\(/, "", name)
    sub(/\).*/, "", name)
    file = FILENAME
    sub(/[^\/]*$/, "schedules/" name ".c", file)
    gsub(/_/, "-", name)
    value[1, ++size[1]] = name
    chunks[name] = chunks_of(file)
}

END {
    if (device == "") device = "cpu"
    columns()
    extras()
    if (set == "cover")
        print_cover()
    else
        print_all()
}
