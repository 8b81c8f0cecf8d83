// Checklist: items to tick, with a bar that says how many are.
//
// Reads title, items and note; reads and writes done (the keys of the ticked items). `render` returns its clean-up.
// Without items there is the title alone.

function render({ model, el: root }) {
  root.classList.add("ctx-widget", "ctx-checklist");
  const link = bind(model, ["title", "items", "done", "note"], () => draw());
  const boxes = model.get("items").map((item) => {
    const input = el("input", { type: "checkbox", "data-item": item.key, ...KEEP_KEYS });
    input.addEventListener("change", () => {
      const others = model.get("done").filter((key) => key !== item.key);
      link.set("done", input.checked ? [...others, item.key] : others);
    });
    return { input, key: item.key, node: el("li", {}, el("label", { class: "ctx-check" }, input, el("span", {}, item.text))) };
  });
  const bar = el("div", { class: "ctx-check-bar", "aria-hidden": "true" }, el("div", {}));
  const count = el("p", { class: "ctx-check-count", "data-part": "count" });
  const live = liveRegion();
  root.replaceChildren(el("section", { class: "ctx-card", "aria-label": model.get("title") },
    el("h3", { class: "ctx-title" }, model.get("title")), bar, count, el("ul", { class: "ctx-checks" }, ...boxes.map((box) => box.node)), live.node));

  function draw() {
    const done = new Set(model.get("done"));
    for (const { input, key } of boxes) input.checked = done.has(key);
    const ticked = boxes.filter((box) => done.has(box.key)).length;
    bar.firstChild.style.width = percent(ticked, boxes.length);
    const note = model.get("note");
    setText(count, `${ticked} of ${boxes.length} done${note ? ` (${note})` : ""}`);
    live.say(count.textContent);
  }
  draw();
  return () => { link.stop(); live.stop(); };
}

export default { render };
