// RepairStepper: a broken history beside its two repairs, step by step, and the providers' answers.
//
// Reads and writes case and step; reads kinds, names, shown and caption. `linesAt` is pure: the lines of a mode and how
// many steps are taken in, what stands there by then out. `render` returns its clean-up. Until the kernel has sent the
// picture of a chosen case, the former one stays and a line says so; where nothing is broken, that is said.

const COLUMNS = { append: "Append", discard: "Discard" };
const PROMISES = {
  append: "Keeps every call and answers the open ones: the outcome is unknown.",
  discard: "Drops the incomplete batch, as if it had never been asked for.",
};
const MARKS = { new: "+ added", gone: "− dropped", away: "↑ moved", moved: "+ moved here" };

// What stands in a column after `taken` steps: [{card, mark, struck}], and {skip} for what is left out.
function linesAt(lines, taken) {
  return lines.flatMap((line) => {
    if (line.kind === "skip") return [{ skip: line.count }];
    const done = taken >= line.step;
    if (line.kind === "new" || line.kind === "moved") return done ? [{ card: line.card, mark: line.kind, struck: false }] : [];
    if (line.kind === "gone" || line.kind === "away") return [{ card: line.card, mark: done ? line.kind : "", struck: done }];
    if (line.kind === "changed") return [{ card: done ? line.card : line.was, mark: done ? "changed" : "", word: line.word, struck: false }];
    return [{ card: line.card, mark: "", struck: false }];
  });
}

const NAMES = ["caption", "case", "kinds", "step", "names", "shown"];

function render({ model, el: root }) {
  root.classList.add("ctx-widget", "ctx-repair");
  let lit = null;
  let frame = null;
  let drawn = "";
  const link = bind(model, NAMES, draw);
  const title = el("p", { class: "ctx-title" });
  const kinds = pickList({
    name: "case", label: "What is broken", options: model.get("kinds"),
    onInput: (value) => { link.set("step", 0); link.set("case", value); },
  });
  const story = el("p", { class: "ctx-story" });
  const found = el("ul", { class: "ctx-found" });
  const steps = stepBar((step) => link.set("step", step));
  const before = column("before", "As found", "What the log holds.");
  const modes = Object.fromEntries(Object.entries(COLUMNS).map(([name, label]) => [name, column(name, label, PROMISES[name])]));
  const all = [before, ...Object.values(modes)];
  const answers = answerTable(model.get("names"), [["before", "As found"], ["append", "After append"], ["discard", "After discard"]], "… after the last step");
  const status = liveRegion();
  root.replaceChildren(el("section", { class: "ctx-card", "aria-label": model.get("caption") },
    el("div", { class: "ctx-head" }, title, kinds.node), story,
    el("h3", { class: "ctx-part" }, "What the check finds"), found, steps.node,
    el("div", { class: "ctx-columns" }, ...all.map((item) => item.node)),
    el("h3", { class: "ctx-part" }, "What would the APIs answer?"), answers.node, status.node));

  for (const { list } of all) {
    list.addEventListener("pointerover", (event) => light(event.target.closest(".ctx-message")));
    list.addEventListener("pointerleave", () => light(null));
    list.addEventListener("focusin", (event) => light(event.target.closest(".ctx-message")));
    list.addEventListener("focusout", () => light(null));
    list.addEventListener("keydown", (event) => {
      const cards = [...list.querySelectorAll(".ctx-message")];
      const at = cards.indexOf(event.target);
      const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: cards.length - 1 }[event.key];
      if (at < 0 || to === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      cards[Math.max(0, Math.min(cards.length - 1, to))].focus();
    });
  }
  // Light a message in every column, with those it is paired with, and the steps that are about it.
  function light(node) {
    const index = node && node.dataset.index !== "" ? Number(node.dataset.index) : null;
    if (index === lit) return;
    lit = index;
    const group = new Set(index === null ? [] : [index]);
    for (const item of all) item.pairs(index, group);
    for (const item of all) item.light(group, index);
  }
  function draw() {
    if (frame === null) frame = requestAnimationFrame(() => { frame = null; paint(); });
  }
  function paint() {
    const state = Object.fromEntries(NAMES.map((name) => [name, model.get(name)]));
    const { shown } = state;
    const ready = shown.case === state.case;
    const count = Math.max(...Object.values(shown.modes).map((mode) => mode.steps.length));
    const taken = Math.min(state.step, count);
    const last = taken === count;
    setText(title, state.caption);
    kinds.set(state.case);
    setText(story, ready ? `${shown.story}${shown.source ? ` (Source: ${shown.source}.)` : ""}` : "The kernel works it out…");
    const sentences = shown.found.length ? shown.found : ["Every call has its result, directly after it, once"];
    if (found.dataset.text !== sentences.join()) {
      found.dataset.text = sentences.join();
      found.dataset.clean = String(shown.found.length === 0);
      found.replaceChildren(...sentences.map((text) => el("li", {}, text)));
    }
    const where = count === 0 ? "nothing to mend" : taken === 0 ? `${count} to take` : `${taken} of ${count}`;
    const said = Object.entries(shown.modes).map(([name, mode]) => `${COLUMNS[name]}: ${mode.steps[taken - 1]?.why ?? (taken ? "done" : "as found")}`);
    steps.set(taken, count + 1, said.join(". "), where);
    const key = `${shown.case}/${taken}`;
    if (key !== drawn) {
      drawn = key;
      lit = null;
      before.draw(linesAt(shown.before, 0), [], 0, `${fmt(shown.length)} messages, ${fmt(shown.tokens)} tokens`);
      for (const [name, mode] of Object.entries(shown.modes)) {
        modes[name].draw(linesAt(mode.lines, taken), mode.steps, taken, taken >= mode.steps.length ? `${fmt(mode.tokens)} tokens` : "…");
      }
      answers.set({ before: shown.answers.before, append: last ? shown.answers.append : null, discard: last ? shown.answers.discard : null });
    }
    status.say(`${sentences.join(". ")}. ${where}. ${said.join(". ")}`);
  }
  paint();
  return () => { if (frame !== null) cancelAnimationFrame(frame); status.stop(); link.stop(); };
}

// One column: a heading, what it promises, its cards, and its steps as far as they are taken.
function column(name, label, promise) {
  const count = el("span", { class: "ctx-column-count" });
  const list = el("div", { class: "ctx-lines", role: "list", "aria-label": label });
  const steps = el("ol", { class: "ctx-column-steps" });
  const node = el("div", { class: "ctx-column-of", "data-column": name },
    el("h3", { class: "ctx-part" }, label, " ", count), el("p", { class: "ctx-promise" }, promise), list, steps);
  let shown = [];
  let taken = [];

  function draw(lines, all, done, words) {
    shown = lines;
    taken = all;
    setText(count, words);
    list.replaceChildren(...lines.map((line, at) => lineOf(line, at === 0)));
    steps.hidden = name === "before" || all.length === 0;
    steps.replaceChildren(...all.map((step, at) => {
      const item = el("li", { class: at >= done ? "ctx-step-ahead" : "", "aria-current": at === done - 1 ? "step" : null });
      item.append(...(at < done ? [`${step.why}. `, el("span", { class: "ctx-rule" }, `Rule ${step.rule}: ${step.title}`)] : [`Step ${at + 1}`]));
      return item;
    }));
  }
  return {
    node, list, draw,
    pairs(index, group) {
      if (index === null) return;
      for (const { card } of shown) {
        if (card && card.answers === index) group.add(card.i);
        if (card && card.i === index && card.answers !== undefined) group.add(card.answers);
      }
    },
    light(group, index) {
      for (const item of list.querySelectorAll(".ctx-message")) {
        item.classList.toggle("ctx-lit", item.dataset.index !== "" && group.has(Number(item.dataset.index)));
      }
      [...steps.children].forEach((item, at) => item.classList.toggle("ctx-step-lit", index !== null && taken[at].cards.includes(index)));
    },
  };
}

function lineOf(line, first) {
  if (line.skip !== undefined) return el("div", { class: "ctx-skip", role: "listitem" }, `${fmt(line.skip)} messages as they were`);
  const { card } = line;
  const pair = card.answers !== undefined && card.answers !== null ? `answers ${card.answers}` : "";
  const words = [line.mark === "changed" ? `~ ${line.word}` : MARKS[line.mark] ?? "", line.struck ? "" : pair].filter(Boolean).join(" · ");
  const node = el("div", {
    class: "ctx-message", role: "listitem", tabindex: first ? 0 : -1, "data-index": card.i ?? "", "data-mark": line.mark,
    "aria-label": `${cardSentence(card)} ${words}`, ...KEEP_KEYS,
  });
  fillCard(node, card);
  setText(node.children[3], line.mark === "new" ? MARKS.new : words); // what it answers stands directly above it
  return node;
}

export { linesAt };
export default { render };
