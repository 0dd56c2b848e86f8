/* Added to a page by scripts/test-page: uses it as a reader would, and writes what it saw into the document. */
"use strict";
(async () => {
    const root = document.querySelector(".tl"), canvas = root.querySelector("canvas"), card = root.querySelector(".tl-card");
    const settle = () => new Promise(done => setTimeout(done, 60));
    const blocks = () => Number(root.dataset.blocks), said = [];
    const check = (what, holds) => said.push(`${holds ? "ok" : "not ok"} - ${what}`);
    const box = () => canvas.getBoundingClientRect();
    const pointer = async (type, x, y) => {
        const { left, top } = box();
        canvas.dispatchEvent(new PointerEvent(type, { clientX: left + x, clientY: top + y, pointerId: 1, bubbles: true, cancelable: true }));
        await settle();
    };
    const key = async name => {
        canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
        await settle();
    };
    const wheel = async by => {
        const { left, top, width } = box();
        canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: by, clientX: left + width / 2, clientY: top + 60, bubbles: true, cancelable: true }));
        await settle();
    };
    try {
        canvas.setPointerCapture = () => {}; /* made-up pointers cannot be captured */
        await settle();
        const all = blocks(), drawn = [], bars = [], figures = [], pen = canvas.getContext("2d");
        const { fillText, fillRect } = pen;
        pen.fillText = (text, x, y) => {
            drawn.push(text);
            if (/^\d+\.\d%$/.test(text)) figures.push(x - pen.measureText("100.0%").width);
            fillText.call(pen, text, x, y);
        };
        pen.fillRect = (x, y, width, height) => {
            if (width === 40) bars.push(x + width);
            fillRect.call(pen, x, y, width, height);
        };
        await wheel(-600);
        check("bars of bubbles leave room for 100.0%", figures.length > 0 && Math.max(...bars) + 4 <= Math.min(...figures));
        const near = blocks();
        check("the wheel zooms in", near > 0 && near < all);
        await key("ArrowRight");
        check("arrow keys move", root.dataset.state === "drawn");
        await key("0");
        check("0 shows all again", blocks() === all);
        root.querySelector('[name="in"]').click();
        await settle();
        check("the button zooms in", blocks() < all);
        root.querySelector('[name="reset"]').click();
        await settle();
        check("the button shows all again", blocks() === all);
        const radio = root.querySelector('[value="predicted"]');
        radio.click();
        await settle();
        check("one version alone", blocks() < all);
        await key("b");
        check("both versions again", blocks() === all);
        await key(".");
        check("the first block by keyboard has a card", !card.hidden && card.textContent.includes("rank 0"));
        check("and is read out", root.querySelector(".tl-live").textContent.includes("rank 0"));
        await key("ArrowDown");
        drawn.length = 0;
        await key("ArrowUp");
        check("the name of the chosen rank is whole", drawn.includes("rank 0 \u00b7 stage 0"));
        await key("ArrowDown");
        check("down is the next rank", root.querySelector(".tl-live").textContent.startsWith("rank 1"));
        await key(".");
        check("predicted and measured are on the card", card.textContent.includes("predicted") && card.textContent.includes("measured"));
        const before = canvas.toDataURL();
        await key("Enter");
        check("a micro-batch is followed", canvas.toDataURL() !== before);
        await key("Escape");
        check("the card is gone", card.hidden);
        let shown = false;
        for (let x = 200; x < 400 && !shown; x += 5) {
            await pointer("pointermove", x, 40);
            shown = !card.hidden;
        }
        check("hovering shows a card", shown && card.textContent.includes("micro-batch"));
        const inside = () => { const a = card.getBoundingClientRect(); return a.left >= 0 && a.right <= innerWidth; };
        check("the card is inside the window", inside());
        await pointer("pointerdown", 400, 40);
        await pointer("pointermove", 300, 40);
        await pointer("pointerup", 300, 40);
        check("dragging at full width stays at full width", blocks() === all);
        root.querySelector('[name="memory"]').click();
        const tall = box().height;
        await settle();
        check("memory can be hidden", box().height < tall);
    } catch (error) {
        said.push("not ok - " + error);
    }
    const out = document.createElement("pre");
    out.className = "drive";
    out.textContent = "\n" + said.join("\n") + "\nend of drive\n";
    document.body.append(out);
})();
