/* The timeline of a drawing: reads the data beside it and draws what is in view on one canvas.
 *
 * Blocks are drawn one by one while they are wide enough to be seen. Where they are not, a lane is
 * sampled once a pixel into one line of an image that is stretched to its height, so the cost of a
 * frame depends on the size of the canvas and not on the number of blocks. */
"use strict";
(() => {
const AXIS = 26, BAR = 10, MEMORY = 112, DENSE = 0.35, CHOSEN = 650;

/* --- data --- */

const lowerBound = (n, less) => {
    let low = 0, high = n;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (less(middle)) low = middle + 1; else high = middle;
    }
    return low;
};

/* One lane: flat arrays, and the indices of its two tracks. */
const unpack = (lane, data) => {
    const n = lane.b.length / 3, begin = new Float64Array(n), end = new Float64Array(n);
    const kind = new Uint8Array(n), micro = new Int32Array(n), stage = new Int32Array(n);
    const tracks = [[], []], reach = [[], []], flags = new Uint8Array(n);
    for (let i = 0, at = 0; i < n; i++) {
        at += lane.b[3 * i];
        begin[i] = at;
        end[i] = at + lane.b[3 * i + 1];
        let code = lane.b[3 * i + 2];
        micro[i] = code % (data.micros + 1) - 1;
        code = Math.floor(code / (data.micros + 1));
        kind[i] = code % data.kinds.length;
        stage[i] = lane.s[Math.floor(code / data.kinds.length)];
        const track = data.cats[data.kinds[kind[i]][1]][1], most = reach[track];
        tracks[track].push(i);
        most.push(Math.max(most.length ? most[most.length - 1] : 0, end[i]));
    }
    for (const i of lane.c) flags[i] = 1;
    for (let i = 1; lane.id && i < n; i++) lane.id[i] += lane.id[i - 1];
    const causes = new Map();
    for (let i = 0; i < lane.w.length; i += 3) causes.set(lane.w[i], [lane.w[i + 1], lane.w[i + 2]]);
    const points = [];
    for (let i = 0, at = 0; i < lane.m.length; i += 2) points.push([at += lane.m[i], lane.m[i + 1]]);
    return { n, begin, end, kind, micro, stage, tracks, reach, flags, causes, points, text: lane.t,
             ids: lane.id, bubble: lane.bubble, peak: lane.peak };
};

const idOf = (lane, i) => lane.ids ? lane.ids[i] : i;
const byId = (lane, id) => {
    if (!lane.map) {
        lane.map = new Map();
        for (let i = 0; i < lane.n; i++) lane.map.set(idOf(lane, i), i);
    }
    return lane.map.has(id) ? lane.map.get(id) : -1;
};

/* --- numbers --- */

const decimals = (value, digits) => {
    const size = Math.abs(value);
    return size === 0 ? "0" : value.toFixed(Math.max(0, digits - 1 - Math.floor(Math.log10(size))));
};
const NS = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
const unitOf = (unit, time) => unit === "ns" ? NS.find(u => Math.abs(time) >= u[0]) || NS[3] : [1, ""];
const timeText = (unit, time) => {
    const [scale, name] = unitOf(unit, time);
    return decimals(time / scale, Math.abs(time / scale) >= 100 ? 4 : 3) + (name && " " + name);
};
const sizeText = bytes => {
    let unit = 0;
    while (bytes >= 1024 && unit < 5) bytes /= 1024, unit++;
    return decimals(bytes, bytes >= 100 ? 3 : 2 + (bytes >= 10)) + " " + ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit];
};
const signed = (value, text) => (value < 0 ? "\u2212" : "+") + text;
const roundUp = size => {
    const power = 10 ** Math.floor(Math.log10(size)), part = size / power;
    return (part <= 1.0001 ? 1 : part <= 2.0001 ? 2 : part <= 5.0001 ? 5 : 10) * power;
};

/* --- colours --- */

const parts = colour => [colour >> 16, (colour >> 8) & 255, colour & 255];
const mixed = (a, b, share) => a.map((value, i) => Math.round(value + (b[i] - value) * share));
const luminance = rgb => rgb.map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);

const palette = (data, root) => {
    const css = getComputedStyle(root), get = name => css.getPropertyValue("--tl-" + name).trim();
    const named = {};
    for (const name of ["ink", "soft", "grid", "idle", "panel", "bar", "bad", "area", "second"]) named[name] = get(name);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches, cache = new Map();
    const page = dark ? [26, 31, 39] : [255, 255, 255];
    named.block = (kind, micro, dim) => {
        const key = (kind * (data.micros + 1) + micro + 1) * 2 + dim;
        let found = cache.get(key);
        if (found) return found;
        const row = data.cats[data.kinds[kind][1]];
        const shade = micro > 0 && data.micros > 1 ? micro / (data.micros - 1) : 0;
        let rgb = mixed(parts(row[dark ? 5 : 4]), [255, 255, 255], data.lightest * shade);
        if (dim) rgb = mixed(rgb, page, 0.82);
        const light = luminance(rgb);
        found = { css: `rgb(${rgb})`, ink: 1.05 / (light + 0.05) > (light + 0.05) / 0.055 ? "#fff" : "#14181f",
                  rgb, hatched: row[3] && !dim };
        cache.set(key, found);
        return found;
    };
    return named;
};

/* --- one timeline --- */

const start = root => {
    const data = JSON.parse(root.querySelector(".tl-data").textContent);
    const versions = data.versions.map(v => v && { ...v, lanes: v.lanes.map(lane => unpack(lane, data)) });
    const rows = data.labels.length, both = versions.every(v => v);
    const length = Math.max(1e-9, ...versions.map(v => v ? v.length : 0));
    const stageBox = root.querySelector(".tl-stage"), canvas = stageBox.querySelector("canvas");
    const card = root.querySelector(".tl-card"), live = root.querySelector(".tl-live");
    const context = canvas.getContext("2d"), strips = document.createElement("canvas");
    const hasMemory = versions.some(v => v && v.lanes.some(lane => lane.points.length));
    const hasCritical = versions.some(v => v && v.lanes.some(lane => lane.flags.includes(1)));
    const hasArrows = versions.some(v => v && v.arrows.length);
    const state = { from: 0, to: length, top: 0, zoom: 1, shown: versions.map(v => !!v), micro: -1,
                    critical: hasCritical, arrows: hasArrows && rows <= 32 && !both, memory: hasMemory, at: null, row: -1 };
    let colours = palette(data, root), frame = 0, size = {}, blocks = 0, hatch = null;

    const name = row => (data.labels[row] || "rank " + row * data.step).split(" \u00b7 ")[0];
    const shownCount = () => state.shown.filter(v => v).length;
    const textOf = (lane, i) => lane.text ? lane.text[i] : `#${idOf(lane, i)} ${data.kinds[lane.kind[i]][0]}` +
        (lane.stage[i] >= 0 ? ` s${lane.stage[i]}` : "") + (lane.micro[i] >= 0 ? ` m${lane.micro[i]}` : "");

    /* --- geometry --- */

    const measure = () => {
        const width = stageBox.clientWidth, dpr = window.devicePixelRatio || 1;
        const lanes = shownCount(), most = lanes === 2 ? 62 : 44, least = lanes === 2 ? 7 : 4;
        context.font = font(12, CHOSEN);
        let left = 0;
        const slim = width < 640, label = slim ? name : r => data.labels[r], right = slim ? 56 : 112;
        for (let r = 0; r < rows; r += Math.ceil(rows / 200)) left = Math.max(left, context.measureText(label(r)).width);
        left = Math.min(left, width * 0.24) + 24;
        const room = Math.max(240, innerHeight * 0.62);
        const pitch = Math.min(most * 2, Math.max(least, Math.min(most, room / Math.max(1, rows))) * state.zoom);
        const area = Math.max(40, Math.min(room, rows * pitch));
        const tags = lanes === 2 && pitch >= 28 && !slim ? 62 : 0;
        const height = AXIS + area + BAR + (state.memory ? MEMORY : 0);
        size = { width, dpr, slim, label, right, left: left + tags, labels: left, plot: Math.max(50, width - left - tags - right), pitch, area, height,
                 gap: pitch >= 20 ? 8 : pitch >= 8 ? 2 : 0.5, strips: data.sides && pitch >= 6 };
        size.lane = lanes === 2 ? (pitch - size.gap - 1) / 2 : pitch - size.gap;
        if (canvas.width !== Math.round(width * dpr) || canvas.height !== Math.round(height * dpr)) {
            canvas.width = Math.round(width * dpr);
            canvas.height = Math.round(height * dpr);
            canvas.style.height = height + "px";
        }
        state.top = Math.max(0, Math.min(state.top, rows * pitch - area));
    };
    const font = (px, weight) => `${weight || 400} ${px}px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif`;
    const x = time => size.left + (time - state.from) / (state.to - state.from) * size.plot;
    const timeAt = px => state.from + (px - size.left) / size.plot * (state.to - state.from);
    const laneY = (row, version) => AXIS + row * size.pitch - state.top + size.gap / 2 +
        (shownCount() === 2 && version === 1 ? size.lane + 1 : 0);
    const mainHeight = () => size.strips ? size.lane * 0.76 - (size.lane >= 12 ? 1 : 0) : size.lane;
    const inView = () => [Math.floor(state.top / size.pitch), Math.min(rows, Math.ceil((state.top + size.area) / size.pitch))];
    const dim = micro => state.micro >= 0 && micro !== state.micro ? 1 : 0;

    /* --- blocks --- */

    const visible = (lane, track) => {
        const list = lane.tracks[track], reach = lane.reach[track];
        const a = lowerBound(list.length, i => reach[i] < state.from);
        return [a, lowerBound(list.length, i => lane.begin[list[i]] <= state.to)];
    };

    /* A lane with more blocks than pixels: one line of the image, each pixel the mean of what it covers. */
    const sample = (lane, list, a, b, words) => {
        const scale = words.length / (state.to - state.from), sums = new Float32Array(words.length * 4);
        const add = (column, share, rgb) => {
            for (let part = 0; part < 3; part++) sums[4 * column + part] += rgb[part] * share;
            sums[4 * column + 3] += share;
        };
        for (let k = a; k < b; k++) {
            const i = list[k], rgb = colours.block(lane.kind[i], lane.micro[i], dim(lane.micro[i])).rgb;
            const from = Math.max(0, (lane.begin[i] - state.from) * scale), to = Math.min(words.length, (lane.end[i] - state.from) * scale);
            for (let c = Math.floor(from); c < to; c++) add(c, Math.min(to, c + 1) - Math.max(from, c), rgb);
        }
        for (let c = 0; c < words.length; c++) {
            const share = sums[4 * c + 3], part = n => Math.min(255, sums[4 * c + n] / share);
            if (share > 0.02) words[c] = (Math.min(255, share * 255) << 24 | part(2) << 16 | part(1) << 8 | part(0)) >>> 0;
        }
    };

    const drawBlock = (lane, i, y, height) => {
        const left = Math.max(x(lane.begin[i]), size.left - 4), right = Math.min(x(lane.end[i]), size.left + size.plot + 4);
        const width = Math.max(0.5, right - left - (right - left > 3 ? 0.8 : 0));
        const colour = colours.block(lane.kind[i], lane.micro[i], dim(lane.micro[i]));
        context.fillStyle = colour.css;
        context.fillRect(left, y, width, height);
        if (colour.hatched && hatch && width > 2) {
            context.fillStyle = hatch;
            context.fillRect(left, y, width, height);
        }
        if (height < 10 || width < 9 || dim(lane.micro[i])) return;
        const px = Math.min(12, height * 0.72), micro = lane.micro[i];
        const short = micro >= 0 ? String(micro) : data.kinds[lane.kind[i]][0];
        const long = micro >= 0 ? `${data.kinds[lane.kind[i]][0]} ${micro}` : short;
        context.font = font(px);
        context.textAlign = "center";
        context.fillStyle = colour.ink;
        const text = long.length * px * 0.62 + 30 < width ? long : short.length * px * 0.62 + 3 < width && short;
        if (text) context.fillText(text, left + width / 2, y + height / 2 + px * 0.36);
    };

    const drawLanes = () => {
        const [first, last] = inView(), dense = [];
        blocks = 0;
        for (let row = first; row < last; row++)
            for (let v = 0; v < 2; v++) {
                if (!state.shown[v]) continue;
                const lane = versions[v].lanes[row], y = laneY(row, v);
                context.fillStyle = colours.idle;
                context.fillRect(x(Math.max(0, state.from)), y, Math.max(0, x(Math.min(versions[v].length, state.to)) - x(Math.max(0, state.from))), size.lane);
                for (let track = 0; track < (size.strips ? 2 : 1); track++) {
                    const [a, b] = visible(lane, track), list = lane.tracks[track];
                    const top = track ? y + size.lane * 0.76 : y, height = track ? size.lane * 0.24 : mainHeight();
                    blocks += b - a;
                    if (b - a > size.plot * DENSE) dense.push({ lane, list, a, b, top, height });
                    else for (let k = a; k < b; k++) drawBlock(lane, list[k], top, height);
                }
            }
        if (!dense.length) return;
        strips.width = Math.max(1, Math.round(size.plot * size.dpr));
        strips.height = dense.length;
        const image = new ImageData(strips.width, dense.length), words = new Uint32Array(image.data.buffer);
        dense.forEach((d, i) => sample(d.lane, d.list, d.a, d.b, words.subarray(i * strips.width, (i + 1) * strips.width)));
        strips.getContext("2d").putImageData(image, 0, 0);
        context.imageSmoothingEnabled = false;
        dense.forEach((d, i) => context.drawImage(strips, 0, i, strips.width, 1, size.left, d.top, size.plot, d.height));
    };

    /* --- over the blocks --- */

    /* Blocks of all rows that `wanted` accepts, by begin; kept until the question changes. */
    const kept = [{}, {}];
    const chain = (v, key, wanted) => {
        if (kept[v].key === key) return kept[v].list;
        const list = [];
        versions[v].lanes.forEach((lane, row) => {
            for (let i = 0; i < lane.n; i++) if (wanted(lane, i)) list.push([row, i]);
        });
        const at = ([row, i]) => versions[v].lanes[row].begin[i];
        list.sort((a, b) => at(a) - at(b));
        kept[v] = { key, list };
        return list;
    };

    const drawChain = (v, list, width, colour) => {
        let last = null;
        context.strokeStyle = colour;
        for (const [row, i] of list) {
            const lane = versions[v].lanes[row], side = data.cats[data.kinds[lane.kind[i]][1]][1];
            const height = side ? size.lane : mainHeight(), y = laneY(row, v) + (height >= 9 ? height - 1 : height / 2);
            const left = x(lane.begin[i]), right = x(lane.end[i]);
            if (last && last.y !== y && Math.max(left, last.x) > size.left && Math.min(left, last.x) < size.left + size.plot) {
                context.lineWidth = 1;
                context.globalAlpha = 0.6;
                line(last.x, last.y, left, y);
                context.globalAlpha = 1;
            }
            context.lineWidth = width;
            if (right >= size.left && left <= size.left + size.plot) line(left, y, Math.max(right - 0.8, left + 0.5), y);
            last = { x: right, y };
        }
    };
    const line = (x0, y0, x1, y1) => {
        context.beginPath();
        context.moveTo(x0, y0);
        context.lineTo(x1, y1);
        context.stroke();
    };

    const drawOver = () => {
        for (let v = 0; v < 2; v++) {
            if (!state.shown[v]) continue;
            const width = Math.min(2.6, Math.max(1, size.lane / 6));
            if (state.arrows && size.pitch >= 10) drawArrows(v);
            if (state.micro >= 0)
                drawChain(v, chain(v, "m" + state.micro, (lane, i) => lane.micro[i] === state.micro &&
                    data.cats[data.kinds[lane.kind[i]][1]][2]), width, colours.ink);
            else if (state.critical)
                drawChain(v, chain(v, "critical", (lane, i) => lane.flags[i]), width, colours.ink);
        }
        if (!state.at) return;
        const { row, v, i, twin } = state.at, outline = (version, k) => {
            const lane = versions[version].lanes[row], side = data.cats[data.kinds[lane.kind[k]][1]][1];
            const top = laneY(row, version) + (side && size.strips ? size.lane * 0.76 : 0);
            context.strokeRect(x(lane.begin[k]) - 0.5, top - 0.5, Math.max(2, x(lane.end[k]) - x(lane.begin[k])),
                (side ? size.lane * 0.24 : mainHeight()) + 1);
        };
        context.strokeStyle = colours.ink;
        context.lineWidth = 2;
        if (state.shown[v]) outline(v, i);
        if (twin >= 0 && state.shown[1 - v]) outline(1 - v, twin);
    };

    const drawArrows = v => {
        const list = versions[v].arrows, [first, last] = inView();
        context.strokeStyle = colours.soft;
        context.lineWidth = 0.8;
        context.globalAlpha = 0.5;
        for (let k = 0; k < list.length; k += 4) {
            const [r0, t0, r1, t1] = list.slice(k, k + 4);
            if (Math.max(r0, r1) < first || Math.min(r0, r1) >= last || t1 < state.from || t0 > state.to) continue;
            const down = r1 > r0;
            line(x(t0), laneY(r0, v) + (down ? size.lane : 0), x(t1), laneY(r1, v) + (down ? 0 : size.lane));
        }
        context.globalAlpha = 1;
    };

    /* --- around the blocks --- */

    const clip = (left, top, width, height, draw) => {
        context.save();
        context.beginPath();
        context.rect(left, top, width, height);
        context.clip();
        draw();
        context.restore();
    };

    const drawAxis = () => {
        const step = roundUp((state.to - state.from) / Math.max(2, size.plot / 110));
        const [scale, unit] = unitOf(data.unit, Math.max(Math.abs(state.to), step));
        const places = Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-6));
        context.font = font(11.5);
        context.textAlign = "center";
        for (let k = Math.ceil(state.from / step - 1e-6); k * step <= state.to * (1 + 1e-9); k++) {
            const px = x(k * step);
            context.fillStyle = colours.grid;
            context.fillRect(Math.round(px) - 0.5, AXIS - 6, 1, size.area + 6);
            context.fillStyle = colours.soft;
            context.fillText(k === 0 ? "0" : (k * step / scale).toFixed(places) + (unit && " " + unit), Math.max(size.left + 4, Math.min(px, size.left + size.plot - 20)), 13);
        }
        context.textAlign = "left";
        context.fillText("bubble", size.width - size.right + 16, 13);
    };

    const drawSides = () => {
        const [first, last] = inView(), apart = Math.max(1, Math.ceil(14 / size.pitch));
        for (let row = first; row < last; row++) {
            const middle = AXIS + row * size.pitch - state.top + size.pitch / 2;
            context.fillStyle = row === state.row ? colours.ink : colours.soft;
            context.font = font(Math.min(12, Math.max(10, size.pitch)), row === state.row ? CHOSEN : 400);
            context.textAlign = "right";
            if (row % apart === 0) context.fillText(cut(size.label(row), size.labels - 18), size.labels - 12, middle + 4);
            for (let v = 0; v < 2; v++) {
                if (!state.shown[v]) continue;
                const lane = versions[v].lanes[row], y = laneY(row, v), bar = Math.min(10, size.lane), top = y + (size.lane - bar) / 2;
                const px = size.width - size.right + 16;
                context.fillStyle = colours.grid;
                if (!size.slim) context.fillRect(px, top, 40, bar);
                context.fillStyle = colours.bar;
                if (!size.slim) context.fillRect(px, top, 40 * Math.max(0, Math.min(1, lane.bubble)), bar);
                if (size.lane < 9) continue;
                context.font = font(11.5);
                context.textAlign = "right";
                context.fillStyle = colours.ink;
                context.fillText((lane.bubble * 100).toFixed(1) + "%", size.width - 2, y + size.lane / 2 + 4);
                if (size.left > size.labels) {
                    context.fillStyle = colours.soft;
                    context.font = font(10.5);
                    context.fillText(v ? "measured" : "predicted", size.left - 8, y + size.lane / 2 + 3.6);
                }
            }
        }
    };
    const cut = (text, width) => {
        if (context.measureText(text).width <= width) return text;
        const n = lowerBound(text.length, i => context.measureText(text.slice(0, i + 1) + "\u2026").width <= width);
        return text.slice(0, n) + "\u2026";
    };

    /* Which part of time and rows is in view: thumbs that are hidden when all of it is. */
    const drawThumbs = () => {
        context.fillStyle = colours.bar;
        if (state.to - state.from < length * 0.999)
            context.fillRect(size.left + size.plot * state.from / length, AXIS + size.area + 4, Math.max(12, size.plot * (state.to - state.from) / length), 4);
        const all = rows * size.pitch;
        if (all > size.area + 1)
            context.fillRect(size.left + size.plot + 4, AXIS + size.area * state.top / all, 4, Math.max(12, size.area * size.area / all));
    };

    const drawMemory = () => {
        const base = size.height - 10, room = MEMORY - 44;
        let row = state.row;
        const lanes = r => versions.filter((v, i) => v && state.shown[i]).map(v => v.lanes[r]).filter(lane => lane.points.length);
        if (row < 0 || !lanes(row).length) {
            row = -1;
            for (let r = 0, most = -1; r < rows; r++) for (const lane of lanes(r)) if (lane.peak > most) most = lane.peak, row = r;
        }
        if (row < 0) return;
        const limit = data.limits[row], peak = Math.max(1, ...lanes(row).map(lane => lane.peak));
        const withLimit = limit > 0 && limit < 2 * peak, top = Math.max(peak, withLimit ? limit : 0) * 1.04;
        const y = bytes => base - bytes / top * room;
        context.font = font(11.5);
        context.textAlign = "left";
        context.fillStyle = colours.soft;
        context.fillText(cut(`Peak memory of ${name(row)}${state.row < 0 && rows > 1 ? ", the highest" : ""}: ` +
            lanes(row).map((lane, k) => (lanes(row).length > 1 ? ["predicted ", "measured "][k] : "") + sizeText(lane.peak)).join(", ") +
            (limit > 0 ? `; limit ${sizeText(limit)}` : ""), size.width - size.left), size.left, base - room - 14);
        context.textAlign = "right";
        let step = 1;
        while (step * 4 < top) step *= 2;
        for (let value = 0; value <= top; value += step) {
            context.fillStyle = colours.grid;
            context.fillRect(size.left, Math.round(y(value)), size.plot, 1);
            context.fillStyle = colours.soft;
            context.fillText(value ? sizeText(value) : "0", size.left - 8, y(value) + 4);
        }
        clip(size.left, base - room - 8, size.plot, room + 10, () => {
            lanes(row).forEach((lane, k) => curve(lane, y, base, k));
            if (!withLimit) return;
            context.strokeStyle = colours.bad;
            context.setLineDash([6, 4]);
            line(size.left, y(limit), size.left + size.plot, y(limit));
        });
    };
    const curve = (lane, y, base, k) => {
        const shape = () => {
            const first = Math.max(0, lowerBound(lane.points.length, i => lane.points[i][0] < state.from) - 1);
            context.beginPath();
            context.moveTo(x(lane.points[first][0]), base);
            let level = base, i = first;
            for (; i < lane.points.length && lane.points[i][0] <= state.to; i++) {
                if (i + 1 < lane.points.length && lane.points[i + 1][0] === lane.points[i][0]) continue;
                context.lineTo(x(lane.points[i][0]), level);
                context.lineTo(x(lane.points[i][0]), level = y(lane.points[i][1]));
            }
            context.lineTo(x(lane.stop), level);
        };
        shape();
        context.strokeStyle = context.fillStyle = k ? colours.second : colours.area;
        context.lineWidth = 1.5;
        context.stroke();
        if (k) return;
        context.lineTo(x(lane.stop), base);
        context.globalAlpha = 0.22;
        context.fill();
        context.globalAlpha = 1;
    };

    const draw = () => {
        frame = 0;
        measure();
        context.setTransform(size.dpr, 0, 0, size.dpr, 0, 0);
        context.clearRect(0, 0, size.width, size.height);
        drawAxis();
        clip(size.left, AXIS, size.plot, size.area, () => { drawLanes(); drawOver(); });
        clip(0, AXIS - 4, size.width, size.area + 6, drawSides);
        drawThumbs();
        if (state.memory) drawMemory();
        root.dataset.blocks = blocks;
        root.dataset.state = "drawn";
    };
    const redraw = () => { frame = frame || requestAnimationFrame(draw); };

    /* --- what is under the pointer --- */

    const find = (px, py) => {
        if (px < size.left || px > size.left + size.plot || py < AXIS || py > AXIS + size.area) return null;
        const row = Math.floor((py - AXIS + state.top) / size.pitch), time = timeAt(px);
        if (row < 0 || row >= rows) return null;
        let v = state.shown.indexOf(true);
        if (shownCount() === 2) v = py >= laneY(row, 1) ? 1 : 0;
        const lane = versions[v].lanes[row], slack = (state.to - state.from) / size.plot * 1.5;
        const below = size.strips && py >= laneY(row, v) + size.lane * 0.76;
        const list = lane.tracks[below ? 1 : 0], reach = lane.reach[below ? 1 : 0];
        for (let k = lowerBound(list.length, i => reach[i] < time - slack); k < list.length; k++) {
            if (lane.begin[list[k]] > time + slack) break;
            if (lane.end[list[k]] >= time - slack) return place(row, v, list[k]);
        }
        return { row, v, i: -1, twin: -1 };
    };
    const place = (row, v, i) => ({ row, v, i, twin: both ? byId(versions[1 - v].lanes[row], idOf(versions[v].lanes[row], i)) : -1 });

    /* What it waited for: its cause, and where that came from. */
    const waited = (row, v, i) => {
        const lane = versions[v].lanes[row], list = lane.tracks[0], k = lowerBound(list.length, n => lane.begin[list[n]] < lane.begin[i]);
        const idle = k > 0 ? lane.begin[i] - lane.end[list[k - 1]] : lane.begin[i];
        let cause = lane.causes.get(i), from = "";
        if (!cause) return "";
        const at = cause[0] % data.step ? null : versions[v].lanes[cause[0] / data.step], index = at ? byId(at, cause[1]) : -1;
        const further = index >= 0 ? at.causes.get(index) : null;
        if (cause[0] !== row * data.step) from = " on " + name(cause[0] / data.step);
        else if (further && further[0] !== cause[0]) from = " from " + name(further[0] / data.step);
        return (idle > 0 && data.cats[data.kinds[lane.kind[i]][1]][1] === 0 ? timeText(data.unit, idle) + " for " : "") +
            (index >= 0 ? textOf(at, index) : "#" + cause[1]) + from;
    };

    const facts = ({ row, v, i, twin }) => {
        const lane = versions[v].lanes[row], duration = lane.end[i] - lane.begin[i], list = [];
        list.push(["begins", timeText(data.unit, lane.begin[i])], ["takes", timeText(data.unit, duration)]);
        if (twin >= 0) {
            const other = versions[1 - v].lanes[row], took = other.end[twin] - other.begin[twin];
            const [p, m] = v ? [took, duration] : [duration, took], late = (v ? 1 : -1) * (lane.begin[i] - other.begin[twin]);
            list[1] = ["predicted", timeText(data.unit, p)];
            list.push(["measured", timeText(data.unit, m) + (p > 0 ? ` (${signed(m - p, Math.abs((m / p - 1) * 100).toFixed(1))}%)` : "")]);
            list[0][1] += `, measured ${timeText(data.unit, Math.abs(late))} ${late < 0 ? "earlier" : "later"}`;
        }
        const wait = waited(row, v, i);
        if (wait) list.push(["waited", wait]);
        if (lane.flags[i]) list.push(["critical", "on the critical path"]);
        return list;
    };

    const showCard = (at, px, py) => {
        card.hidden = !at || at.i < 0;
        if (card.hidden) return;
        const lane = versions[at.v].lanes[at.row], list = facts(at), make = (tag, text, into) => {
            const made = document.createElement(tag);
            made.textContent = text;
            into.append(made);
            return made;
        };
        card.replaceChildren();
        const head = make("strong", data.cats[data.kinds[lane.kind[at.i]][1]][0] + (lane.micro[at.i] >= 0 ? `, micro-batch ${lane.micro[at.i]}` : ""), card);
        head.style.setProperty("--key", colours.block(lane.kind[at.i], lane.micro[at.i], 0).css);
        make("code", textOf(lane, at.i), card);
        make("span", data.labels[at.row] + (both ? (at.v ? ", measured" : ", predicted") : ""), card);
        const table = make("dl", "", card);
        for (const [term, text] of list) { make("dt", term, table); make("dd", text, table); }
        const width = card.offsetWidth, height = card.offsetHeight;
        card.style.left = Math.max(0, Math.min(px + 16, size.width - width)) - (px + 16 > size.width - width && px - 16 > width ? Math.min(px + 16, size.width - width) - (px - 16 - width) : 0) + "px";
        card.style.top = (py + 18 + height > size.height ? Math.max(0, py - height - 14) : py + 18) + "px";
    };

    /* --- moving --- */

    const clamp = () => {
        const span = Math.min(length, Math.max(state.to - state.from, length * 1e-7));
        state.from = Math.max(0, Math.min(state.from, length - span));
        state.to = state.from + span;
        redraw();
    };
    const zoom = (factor, at) => {
        state.from = at - (at - state.from) * factor;
        state.to = at + (state.to - at) * factor;
        clamp();
    };
    const middle = () => (state.from + state.to) / 2;
    const pan = (share, down) => {
        const by = (state.to - state.from) * share;
        state.from += by;
        state.to += by;
        state.top += down;
        clamp();
    };
    const reset = () => {
        Object.assign(state, { from: 0, to: length, top: 0, zoom: 1, micro: -1, at: null, row: -1 });
        card.hidden = true;
        redraw();
    };
    const pick = at => {
        const micro = at && at.i >= 0 ? versions[at.v].lanes[at.row].micro[at.i] : -1;
        state.micro = micro === state.micro ? -1 : micro;
        redraw();
    };
    /* The block `by` places further in its row, brought into view; told to screen readers. */
    const go = (by, down) => {
        const v = state.at ? state.at.v : state.shown.indexOf(true), from = state.at ? state.at.row : -1;
        const row = Math.max(0, Math.min(rows - 1, from + (state.at ? down : 1))), lane = versions[v].lanes[row], list = lane.tracks[0];
        if (!list.length) return;
        const time = state.at && state.at.i >= 0 ? versions[v].lanes[from].begin[state.at.i] : state.from;
        const k = lowerBound(list.length, n => lane.begin[list[n]] < time);
        state.at = place(row, v, list[Math.max(0, Math.min(list.length - 1, k + by))]);
        state.row = row;
        const i = state.at.i, span = state.to - state.from;
        if (lane.begin[i] < state.from || lane.end[i] > state.to) state.from = lane.begin[i] - span / 3, state.to = state.from + span;
        state.top = Math.max(Math.min(state.top, row * size.pitch), (row + 1) * size.pitch - size.area);
        clamp();
        cancelAnimationFrame(frame);
        draw();
        showCard(state.at, x(lane.begin[i]), laneY(row, v) + size.lane);
        live.textContent = `${data.labels[row]}: ${textOf(lane, i)}; ` + facts(state.at).map(fact => fact.join(" ")).join("; ");
    };

    /* --- controls --- */

    const buttons = root.querySelector(".tl-tools"), input = name => buttons.querySelector(`[name="${name}"]`);
    const view = value => { state.shown = versions.map((v, i) => !!v && (value === "both" || (value === "measured") === (i === 1))); };
    const setView = value => {
        const radio = buttons.querySelector(`[value="${value}"]`);
        if (!both || !radio) return;
        radio.checked = true;
        view(value);
        state.at = null;
        card.hidden = true;
        redraw();
    };
    const toggle = name => { state[name] = input(name).checked; redraw(); };
    for (const [name, there] of [["critical", hasCritical], ["arrows", hasArrows], ["memory", hasMemory]]) {
        input(name).checked = state[name];
        input(name).parentElement.hidden = !there;
        input(name).addEventListener("change", () => toggle(name));
    }
    for (const radio of buttons.querySelectorAll('[name="view"]')) radio.addEventListener("change", () => setView(radio.value));
    const flip = name => { if (!input(name).parentElement.hidden) { input(name).checked = !input(name).checked; toggle(name); } };
    const keys = {
        "+": () => zoom(0.6, middle()), "=": () => zoom(0.6, middle()), "-": () => zoom(1 / 0.6, middle()), "0": reset, Escape: reset,
        ArrowLeft: () => pan(-0.15, 0), ArrowRight: () => pan(0.15, 0), PageUp: () => pan(0, -size.area * 0.9), PageDown: () => pan(0, size.area * 0.9),
        Home: () => pan(-1e9, -1e9), End: () => pan(1e9, 0), ArrowUp: () => go(0, -1), ArrowDown: () => go(0, 1),
        ".": () => go(1, 0), ",": () => go(-1, 0), Enter: () => pick(state.at), c: () => flip("critical"), a: () => flip("arrows"),
        "]": () => { state.zoom *= 1.25; redraw(); }, "[": () => { state.zoom = Math.max(0.2, state.zoom / 1.25); redraw(); },
        p: () => setView("predicted"), m: () => setView("measured"), b: () => setView("both"),
    };
    canvas.addEventListener("keydown", event => {
        if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
        event.preventDefault();
        keys[event.key]();
    });
    for (const [name, key] of [["in", "+"], ["out", "-"], ["reset", "0"]]) input(name).addEventListener("click", keys[key]);

    canvas.addEventListener("wheel", event => {
        const whole = state.to - state.from >= length * 0.999;
        if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / size.plot, event.shiftKey ? event.deltaY : 0);
        else if (whole && event.deltaY > 0) return; /* nothing left to zoom out of: the page scrolls */
        else zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), timeAt(event.offsetX));
        event.preventDefault();
    }, { passive: false });

    let drag = null;
    canvas.addEventListener("pointerdown", event => {
        drag = { x: event.offsetX, y: event.offsetY, from: state.from, to: state.to, top: state.top, moved: false };
        canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", event => {
        if (drag && (drag.moved || Math.hypot(event.offsetX - drag.x, event.offsetY - drag.y) > 4)) {
            const by = (drag.x - event.offsetX) / size.plot * (drag.to - drag.from);
            Object.assign(state, { from: drag.from + by, to: drag.to + by, top: drag.top + drag.y - event.offsetY, at: null });
            drag.moved = true;
            card.hidden = true;
            clamp();
            return;
        }
        const at = find(event.offsetX, event.offsetY);
        state.row = at ? at.row : -1;
        state.at = at && at.i >= 0 ? at : null;
        showCard(state.at, event.offsetX, event.offsetY);
        redraw();
    });
    canvas.addEventListener("pointerup", event => {
        if (drag && !drag.moved) pick(find(event.offsetX, event.offsetY));
        drag = null;
    });
    canvas.addEventListener("pointerleave", () => {
        if (drag) return;
        Object.assign(state, { at: null, row: -1 });
        card.hidden = true;
        redraw();
    });
    canvas.addEventListener("dblclick", reset);

    /* #view=measured&from=0.2&to=0.4&micro=3&block=1,5: a link to a part of the picture. */
    const follow = () => {
        const wanted = new URLSearchParams(location.hash.slice(1)), number = key => wanted.has(key) ? Number(wanted.get(key)) : NaN;
        if (wanted.has("view")) setView(wanted.get("view"));
        if (number("from") < number("to")) state.from = number("from") * length, state.to = number("to") * length;
        if (number("micro") >= 0) state.micro = number("micro");
        const [row, i] = (wanted.get("block") || "").split(",").map(Number), v = state.shown.lastIndexOf(true);
        clamp();
        cancelAnimationFrame(frame);
        draw();
        if (!(row >= 0 && row < rows && i >= 0 && i < versions[v].lanes[row].tracks[0].length)) return;
        state.at = place(row, v, versions[v].lanes[row].tracks[0][i]);
        state.row = row;
        draw();
        showCard(state.at, x(versions[v].lanes[row].begin[state.at.i]), laneY(row, v) + size.lane);
    };

    const stripes = document.createElement("canvas");
    stripes.width = stripes.height = 6;
    const ink = stripes.getContext("2d");
    ink.strokeStyle = "rgba(255,255,255,.5)";
    ink.lineWidth = 1.8;
    for (const by of [-6, 0, 6]) { ink.beginPath(); ink.moveTo(by - 1, 7); ink.lineTo(by + 7, -1); ink.stroke(); }
    hatch = context.createPattern(stripes, "repeat");
    for (const version of versions) if (version) for (const lane of version.lanes) lane.stop = version.length;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colours = palette(data, root); redraw(); });
    new ResizeObserver(redraw).observe(stageBox);
    addEventListener("hashchange", follow);
    for (const hidden of root.querySelectorAll(".tl-script")) hidden.hidden = false;
    follow();
};

for (const root of document.querySelectorAll(".tl")) {
    try {
        start(root);
    } catch (error) {
        root.dataset.state = "failed";
        root.dataset.error = String(error && error.stack || error);
    }
}
})();
