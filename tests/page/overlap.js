// Texts of a drawing must not lie on one another, nor on the swatch of the next entry of the legend.
(() => {
  const box = (e) => ({ what: e.textContent.trim() || e.tagName, r: e.getBoundingClientRect() });
  const texts = [...document.querySelectorAll("svg text")].map(box).filter((b) => b.r.width > 0);
  const swatches = [...document.querySelectorAll('svg rect[rx="2"][width="12"]')].map(box);
  const meet = (a, b) =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4;
  const bad = [];
  texts.forEach((a, i) => {
    for (const b of texts.slice(i + 1)) if (meet(a.r, b.r)) bad.push(`${a.what} | ${b.what}`);
    for (const b of swatches) if (meet(a.r, b.r)) bad.push(`${a.what} | swatch`);
  });
  const out = document.createElement("pre");
  out.className = "overlap";
  out.textContent = `${texts.length} texts, ${bad.length} overlap: ${bad.slice(0, 5).join("; ")}.`;
  document.body.append(out);
})();
