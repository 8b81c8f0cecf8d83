// CutStepper: a history as cards, a cut to drag, the walk back step by step, and the providers' answers.
//
// Reads and writes cut, rule and step; reads cards, arcs, names, row, rows and caption. `partedBy`, `fateOf` and
// `saying` are pure. With `rows` (short histories) every cut is drawn whole at once; without, the cards and arcs are,
// and the steps and answers follow when the kernel has sent the `row` of this cut. `render` returns its clean-up. Only
// the cards in sight are in the page. An empty history shows an empty list and one place to cut.

const ROW = 50; // Height of a card with its gap, in pixels.
const TALLEST = 478; // Height of the list with its frame; a longer history scrolls.
const SPARE = 6; // Cards drawn above and below what is in sight.
const AROUND = 5; // Steps listed before and after the one on view.

// The arcs that a cut before message `cut` parts (as cards.parted in Python).
function partedBy(arcs, cut) {
  return arcs.filter((arc) => arc.call < cut && cut <= arc.result);
}

// What is to become of a message, at a step: [kind, words].
function fateOf(card, row, step) {
  const stage = row?.stages[step];
  const action = stage?.action;
  if (card.role === "system" || card.role === "developer") return step >= 1 ? ["system", "kept verbatim"] : ["", ""];
  if (!stage || stage.at === null) return ["", ""];
  if (action === "stop") return ["stays", "unchanged"];
  if (action === "replace" || action === "summary") {
    if (row.request.includes(card.i)) return ["request", "request, kept"];
    if (row.replaced.some(([from, to]) => from <= card.i && card.i <= to)) return ["gone", "→ summary"];
    return ["stays", "kept"];
  }
  return card.i < stage.at ? ["gone", "before the cut"] : ["stays", ""];
}

// One sentence about the cut that is asked for.
function saying(arcs, cut, length) {
  const parted = partedBy(arcs, cut);
  if (!length) return { good: true, text: "There is nothing to cut" };
  if (!parted.length) return { good: true, text: `A cut before message ${cut} parts no call from its result` };
  const first = parted[0];
  const more = parted.length > 1 ? ` and ${parted.length - 1} more` : "";
  return { good: false, text: `A cut before message ${cut} parts ${first.name} (message ${first.call}) from its result (message ${first.result})${more}` };
}

const NAMES = ["caption", "cut", "rule", "step", "cards", "arcs", "names", "row", "rows"];
const PIECES = {
  system: "system prompt", summary: "summary (new, user)", bridge: "bridge (new, assistant)", request: "current request",
  recent: "recent", unchanged: "the history as it was",
};

function render({ model, el: root }) {
  root.classList.add("ctx-widget", "ctx-cut");
  let lit = null; // the message that is pointed at
  let named = []; // the messages that the step pointed at is about
  let frame = null;
  const link = bind(model, NAMES, draw);
  const go = { cut: moveCut, step: (step) => link.set("step", step), light, name };
  const title = el("p", { class: "ctx-title" });
  const rule = choice({
    name: "rule", label: "The cut must be", options: { "pair-safe": "pair-safe", "round-start": "at a round's start" },
    onInput: (value) => link.set("rule", value),
  });
  const cut = control({ name: "cut", label: "Cut before message", unit: "messages before the cut", onInput: moveCut });
  const icon = el("span", { class: "ctx-icon", "aria-hidden": "true" });
  const words = el("span", { "data-part": "headline" });
  const verdict = el("p", { class: "ctx-cut-verdict" }, icon, words);
  const steps = stepBar(go.step);
  const list = historyList(model, go);
  const walk = walkPanel(go);
  const result = resultPanel();
  const answers = answerTable(model.get("names"), [["naive", "Your cut, as it is"], ["aligned", "The cut in the end"]]);
  const chips = {
    naive: answerChips(model.get("names"), "Your cut, as it is"), aligned: answerChips(model.get("names"), "The cut in the end"),
  };
  const status = liveRegion();
  root.replaceChildren(el("section", { class: "ctx-card", "aria-label": model.get("caption") },
    el("div", { class: "ctx-head" }, title, rule.node), cut.node, verdict,
    el("div", { class: "ctx-cut-chips" }, chips.naive.node, chips.aligned.node),
    el("div", { class: "ctx-cut-body" }, steps.node, list.node, walk.node, result.node),
    el("h3", { class: "ctx-part" }, "What would the APIs answer?"), answers.node, status.node));

  function moveCut(place) {
    const cut = Math.max(0, Math.min(model.get("cards").length, place));
    if (cut === model.get("cut")) return;
    link.set("cut", cut);
    link.set("step", 2); // the raw cut: from here the walk back begins
  }
  function light(index) {
    if (index === lit) return;
    lit = index;
    paint();
  }
  function name(cards) {
    if (cards.join() === named.join()) return;
    named = cards;
    paint();
  }
  // The row of this cut, or null while the kernel still works on it.
  function rowNow() {
    const [cut, rule, rows, row] = ["cut", "rule", "rows", "row"].map((name) => model.get(name));
    const ready = rows[rule]?.[cut];
    if (ready) return ready;
    return row.cut === cut && row.rule === rule ? row : null;
  }
  function draw() {
    if (frame === null) frame = requestAnimationFrame(() => { frame = null; paint(); });
  }
  function paint() {
    const state = Object.fromEntries(NAMES.map((name) => [name, model.get(name)]));
    const row = rowNow();
    const length = state.cards.length;
    const step = row ? Math.min(state.step, row.stages.length - 1) : state.step;
    const stage = row?.stages[step];
    const said = saying(state.arcs, state.cut, length);
    setText(title, state.caption);
    rule.set(state.rule);
    cut.limits(length, 1);
    cut.set(state.cut, `of ${fmt(length)}`);
    verdict.dataset.good = String(said.good);
    setText(icon, said.good ? "✓" : "✂");
    setText(words, said.text);
    steps.set(step, row ? row.stages.length : 0, stage ? stage.why : "asking the kernel");
    list.draw(state, row, step, lit, named);
    walk.draw(row, step, lit);
    result.draw(row, step);
    for (const key of ["naive", "aligned"]) chips[key].set(row?.answers[key] ?? null);
    answers.set({ naive: row?.answers.naive ?? null, aligned: row?.answers.aligned ?? null });
    const refused = row ? Object.values(row.answers.naive).filter((answer) => answer && !answer.also).length : 0;
    const verdicts = row ? ` Refused by ${refused} of ${Object.keys(row.answers.naive).length} sets of rules.` : "";
    status.say(`${said.text}.${verdicts} ${stage ? `Step ${step + 1}: ${stage.why}` : ""}`);
  }
  paint();
  const seen = new ResizeObserver(() => list.scrolled());
  seen.observe(list.node);
  return () => { seen.disconnect(); if (frame !== null) cancelAnimationFrame(frame); status.stop(); list.stop(); link.stop(); };
}

// The cards in a box that scrolls, the arcs beside them, and both lines: the cut asked for, and where it stands now.
function historyList(model, go) {
  const SVG = "http://www.w3.org/2000/svg";
  const box = el("div", { class: "ctx-history", role: "listbox", tabindex: 0, "aria-label": "Messages", ...KEEP_KEYS });
  const arcs = document.createElementNS(SVG, "svg");
  arcs.setAttribute("class", "ctx-arcs");
  arcs.setAttribute("aria-hidden", "true");
  const handle = el("div", {
    class: "ctx-cut-line", role: "slider", tabindex: 0, "aria-label": "Your cut", "aria-orientation": "vertical", "aria-valuemin": 0, ...KEEP_KEYS,
  }, el("span", {}, "✂ your cut"));
  const walker = el("div", { class: "ctx-walk-line", "aria-hidden": "true" }, el("span", {}));
  const inner = el("div", { class: "ctx-history-inner" }, box, arcs, walker, handle);
  const scroller = el("div", { class: "ctx-history-scroll" }, inner);
  const pool = new Map(); // place of a message -> its card in the page
  let shown = null;
  let active = 0;
  let followed = "";
  let waiting = null;
  let top = 0; // Where the box is scrolled to and how high it is, kept here: asking the page would cost a layout each time.
  let height = 420;

  function draw(state, row, step, lit, named) {
    shown = { state, row, step, lit, partners: new Set([...partnersOf(state.arcs, lit), ...named]) };
    const length = state.cards.length;
    inner.style.height = `${length * ROW + 24}px`;
    scroller.style.height = `${Math.min(TALLEST, Math.max(2 * ROW, length * ROW + 26))}px`;
    handle.style.transform = `translateY(${state.cut * ROW + 5}px)`;
    handle.setAttribute("aria-valuemax", length);
    handle.setAttribute("aria-valuenow", state.cut);
    handle.setAttribute("aria-valuetext", `before message ${state.cut} of ${length}`);
    const at = row?.stages[step]?.at ?? null;
    walker.hidden = at === null || at === state.cut;
    walker.style.transform = `translateY(${(at ?? 0) * ROW + 5}px)`;
    setText(walker.firstChild, at === row?.landed && step >= row.stages.findIndex((stage) => stage.action === "cut") ? "the cut lands here" : "walking back");
    follow(state, row, step, at);
    place();
  }
  // Scroll to what this step is about, once, and only if it is out of sight.
  function follow(state, row, step, at) {
    const key = `${state.cut}/${state.rule}/${step}/${Boolean(row)}`;
    if (key === followed) return;
    followed = key;
    const aim = (at ?? state.cut) * ROW;
    if (aim < top + 20 || aim > top + height - 40) scrollTo(Math.min(aim - height / 2, state.cards.length * ROW + 24 - height));
  }
  // Put the cards in sight into the page, and only those.
  function place() {
    const { state, row, step, lit, partners } = shown;
    const first = Math.max(0, Math.floor(top / ROW) - SPARE);
    const last = Math.min(state.cards.length, Math.ceil((top + height) / ROW) + SPARE);
    const spare = [];
    for (const [index, node] of pool) {
      if (index < first || index >= last || node.card !== state.cards[index]) { spare.push(node); pool.delete(index); }
    }
    const about = row?.stages[step]?.cards ?? [];
    for (let index = first; index < last; index += 1) {
      const card = state.cards[index];
      const node = pool.get(index) ?? put(spare.pop() ?? make(), index, card);
      const [kind, text] = fateOf(card, row, step);
      node.dataset.fate = kind;
      setText(node.children[3], text);
      node.classList.toggle("ctx-lit", index === lit || partners.has(index));
      node.classList.toggle("ctx-about", about.includes(index));
      node.setAttribute("aria-selected", String(index === active));
    }
    for (const node of spare) node.remove();
    if (pool.has(active)) box.setAttribute("aria-activedescendant", pool.get(active).id);
    else box.removeAttribute("aria-activedescendant");
    drawArcs(first, last);
  }
  function make() {
    const node = el("div", { class: "ctx-message", role: "option", id: uniqueId("card") });
    box.append(node);
    return node;
  }
  // Give a node to a message: a new one, or one that has scrolled out of sight.
  function put(node, index, card) {
    fillCard(node, card);
    node.card = card;
    node.dataset.index = index;
    node.style.transform = `translateY(${index * ROW + 12}px)`;
    node.setAttribute("aria-label", cardSentence(card));
    node.setAttribute("aria-setsize", shown.state.cards.length);
    node.setAttribute("aria-posinset", index + 1);
    pool.set(index, node);
    return node;
  }
  function drawArcs(first, last) {
    const { state, lit } = shown;
    arcs.style.transform = `translateY(${first * ROW + 12}px)`;
    arcs.setAttribute("height", Math.max(0, (last - first) * ROW));
    const seen = state.arcs.filter((arc) => arc.call < last && arc.result >= first);
    arcs.replaceChildren(...seen.map((arc) => {
      const y = (place) => (place - first) * ROW + 18;
      const x = 10 + 9 * arc.lane;
      const parted = arc.call < state.cut && state.cut <= arc.result;
      const on = arc.call === lit || arc.result === lit;
      const group = document.createElementNS(SVG, "g");
      group.setAttribute("class", `ctx-arc${parted ? " ctx-arc-parted" : ""}${on ? " ctx-arc-lit" : ""}`);
      for (const d of [`M0 ${y(arc.call)} H${x} V${y(arc.result)} H1`, `M6 ${y(arc.result) - 5} l-6 5 l6 5`]) {
        const path = document.createElementNS(SVG, "path");
        path.setAttribute("d", d);
        group.append(path);
      }
      return group;
    }));
  }
  function scrollTo(place) {
    top = Math.max(0, place);
    scroller.scrollTop = top;
  }
  function scrolled() {
    if (waiting !== null) return;
    waiting = requestAnimationFrame(() => {
      waiting = null;
      top = scroller.scrollTop;
      height = scroller.clientHeight || height;
      if (shown) place();
    });
  }
  function focusCard(index) {
    active = Math.max(0, Math.min(shown.state.cards.length - 1, index));
    const y = active * ROW;
    if (y < top) scrollTo(y);
    else if (y + ROW + 24 > top + height) scrollTo(y + ROW + 24 - height);
    go.light(active);
    place();
  }
  const cutAt = (event) => Math.round((event.clientY - box.getBoundingClientRect().top - 6) / ROW);
  scroller.addEventListener("scroll", scrolled, { passive: true });
  box.addEventListener("pointermove", (event) => {
    const node = event.target.closest(".ctx-message");
    go.light(node ? Number(node.dataset.index) : null);
  });
  box.addEventListener("pointerleave", () => go.light(null));
  box.addEventListener("blur", () => go.light(null));
  box.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(scroller.clientHeight / ROW) - 1);
    const move = { ArrowUp: active - 1, ArrowDown: active + 1, PageUp: active - page, PageDown: active + page, Home: 0, End: Infinity }[event.key];
    if (move === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    focusCard(move);
  });
  handle.addEventListener("keydown", (event) => {
    const cut = model.get("cut"); // and not the one drawn: two presses may come within one frame
    const move = {
      ArrowUp: cut - 1, ArrowLeft: cut - 1, ArrowDown: cut + 1, ArrowRight: cut + 1, PageUp: cut - 10, PageDown: cut + 10, Home: 0, End: shown.state.cards.length,
    }[event.key];
    if (move === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    go.cut(move);
  });
  let dragging = false;
  handle.addEventListener("pointerdown", (event) => { dragging = true; handle.setPointerCapture(event.pointerId); event.preventDefault(); handle.focus({ preventScroll: true }); });
  handle.addEventListener("pointermove", (event) => {
    if (!dragging) return;
    const frame = scroller.getBoundingClientRect();
    if (event.clientY > frame.bottom - 12) scroller.scrollTop += ROW / 2;
    if (event.clientY < frame.top + 12) scroller.scrollTop -= ROW / 2;
    followed = "";
    go.cut(cutAt(event));
  });
  for (const name of ["pointerup", "pointercancel"]) handle.addEventListener(name, () => { dragging = false; });
  return { node: scroller, draw, scrolled, stop() { if (waiting !== null) cancelAnimationFrame(waiting); } };
}

// The messages that stand in a pair with this one.
function partnersOf(arcs, index) {
  const found = new Set();
  if (index === null) return found;
  for (const arc of arcs) {
    if (arc.call === index) found.add(arc.result);
    if (arc.result === index) found.add(arc.call);
  }
  return found;
}

// The steps around the one on view; a step lights up for the messages it is about.
function walkPanel(go) {
  const rows = Array.from({ length: 2 * AROUND + 1 }, () => el("li", {}, el("span", { class: "ctx-step-name" }), el("span", {})));
  const before = el("p", { class: "ctx-steps-more" });
  const after = el("p", { class: "ctx-steps-more" });
  const list = el("ol", { class: "ctx-steps" }, ...rows);
  const node = el("div", { class: "ctx-walk" }, before, list, after);
  list.addEventListener("click", (event) => {
    const item = event.target.closest("li");
    if (item && item.dataset.step !== undefined) go.step(Number(item.dataset.step));
  });
  let shown = [];
  list.addEventListener("pointerover", (event) => {
    const stage = shown[event.target.closest("li")?.dataset.step ?? -1];
    go.name(stage?.cards ?? []);
  });
  list.addEventListener("pointerleave", () => go.name([]));
  return {
    node,
    draw(row, step, lit) {
      const stages = row?.stages ?? [];
      shown = stages;
      const first = Math.max(0, Math.min(step - AROUND, stages.length - rows.length));
      before.hidden = first === 0;
      setText(before, `${fmt(first)} earlier steps`);
      const rest = stages.length - first - rows.length;
      after.hidden = rest <= 0 && Boolean(row);
      setText(after, row ? `${fmt(Math.max(0, rest))} more steps` : "The kernel works out this cut…");
      rows.forEach((item, offset) => {
        const index = first + offset;
        const stage = stages[index];
        item.hidden = !stage;
        if (!stage) return;
        item.dataset.step = index;
        item.dataset.action = stage.action;
        item.setAttribute("value", index + 1);
        if (index === step) item.setAttribute("aria-current", "step"); else item.removeAttribute("aria-current");
        item.classList.toggle("ctx-step-ahead", index > step);
        item.classList.toggle("ctx-step-lit", lit !== null && stage.cards.includes(lit));
        const rule = ["back", "cut"].includes(stage.action) ? ` (${stage.rule})` : "";
        setText(item.children[0], `${STEP_NAMES[stage.action] ?? stage.action}${rule}`);
        setText(item.children[1], index > step ? "" : stage.why);
      });
    },
  };
}

const STEP_NAMES = {
  count: "Threshold", split: "System and rest", raw: "Raw cut", back: "Walk back", cut: "The cut", yield: "One more turn",
  request: "Request", system: "System message", bridge: "Bridge", replace: "To the summariser", summary: "Result", stop: "Stop",
};

// Tokens before and after as bars, and what is sent, piece by piece. Shown whole at the last step.
function resultPanel() {
  const bars = Object.fromEntries([["before", "before"], ["naive", "your cut"], ["after", "in the end"]].map(([key, label]) => {
    const fill = el("span", { class: `ctx-token-fill ctx-token-${key}` });
    const count = el("span", { class: "ctx-token-count" });
    return [key, { fill, count, node: el("div", { class: "ctx-token-bar" }, el("span", {}, label), el("span", { class: "ctx-token-track" }, fill), count) }];
  }));
  const pieces = el("ol", { class: "ctx-pieces" });
  const node = el("div", { class: "ctx-result" }, el("h3", { class: "ctx-part" }, "Tokens of the request's messages"),
    ...Object.values(bars).map((bar) => bar.node), el("h3", { class: "ctx-part" }, "What is sent in the end"), pieces);
  let drawn = null;
  return {
    node,
    draw(row, step) {
      const done = row !== null && step === row.stages.length - 1;
      const state = row && `${row.cut}/${row.rule}/${done}`;
      if (state === drawn) return;
      drawn = state;
      if (!row) return;
      for (const [key, bar] of Object.entries(bars)) {
        const known = key === "before" || done;
        bar.fill.style.width = known ? `${(100 * row.tokens[key]) / Math.max(1, row.tokens.before)}%` : "0";
        const refused = key !== "before" && known && Object.values(row.answers[key === "naive" ? key : "aligned"]).some((answer) => answer && !answer.also);
        setText(bar.count, known ? `${fmt(row.tokens[key])}${refused ? " ✗ refused" : ""}` : "…");
      }
      pieces.replaceChildren(...(done ? row.result.map(pieceOf) : [el("li", {}, "… step on to the end to see")]));
    },
  };
}

function pieceOf(piece) {
  const many = piece.to - piece.from + 1;
  const places = piece.from === null ? "" : many === 1 ? ` · message ${piece.from}` : ` · messages ${piece.from} to ${piece.to} (${fmt(many)})`;
  return el("li", { "data-piece": piece.kind }, `${PIECES[piece.kind]}${places}`);
}

export { partedBy, fateOf, saying };
export default { render };
