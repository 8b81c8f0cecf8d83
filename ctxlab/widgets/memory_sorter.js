// MemorySorter: facts to sort by three questions, and a request to fill with memories.
//
// Reads part, questions, facts, requests, window, reserve; reads and writes answers, fact, query and k. `told` is pure:
// a fact and the given answers in, feedback out; `barsOf` is pure: a request in, the bars out. `render` returns its
// clean-up. Without facts or requests that half is left out.

// The feedback to a fact: none before all three questions are answered.
function told(fact, given) {
  if (given.includes("-")) return { mood: "none", place: "", lines: ["", "", ""], text: "" };
  const placed = fact.places[given];
  const aim = fact.places[fact.answers];
  const lines = fact.reasons.map((reason, index) =>
    (given[index] === fact.answers[index] ? `Yes: ${reason}.` : `We say ${fact.answers[index] === "y" ? "yes" : "no"}: ${reason}.`));
  const same = given === fact.answers;
  const mood = same ? "right" : "wrong";
  const end = same ? "" : placed.where === aim.where
    ? " The place is right all the same."
    : ` Our answers put it elsewhere: ${aim.where}.`;
  return { mood, place: placed.where, lines, text: `By your answers: ${placed.where}. ${sentence(placed.why)}${end}` };
}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;

// The two bars of a request, in percent of the wider of window and longest bar: memory, the rest of the request, reserve.
function barsOf(request, k, window, reserve) {
  const few = request.picks[k - 1];
  const rows = [["All of them", request.all], ["The best few", few]];
  const most = Math.max(window, ...rows.map(([, way]) => way.request + reserve));
  const share = (tokens) => (100 * tokens) / most;
  return {
    mark: share(window),
    rows: rows.map(([name, way]) => ({
      name, way, memory: share(way.memory), rest: share(way.request - way.memory), reserve: share(reserve),
      text: `${name}: ${fmt(way.items)} ${way.items === 1 ? "memory" : "memories"}, ${fmt(way.memory)} tokens; with the reserve ${fmt(way.request + reserve)} of ${fmt(window)}. ${way.fits ? "Fits." : "Over the window: refused."}`,
    })),
  };
}

// Memories go in front, with the system prompt, so they have its colour.
const FILLS = { system: "memories", history: "the rest of the request", reserve: "output reserve" };
const BLANK = "---";
const MARKS = { none: "○", right: "✓", wrong: "↺" };
const WORDS = { none: "open", right: "sorted as we do", wrong: "to look at again" };

function render({ model, el: root }) {
  root.classList.add("ctx-widget", "ctx-sorter");
  const link = bind(model, ["answers", "fact", "query", "k"], () => draw());
  const live = liveRegion();
  const halves = [];
  if (model.get("facts").length) halves.push(sortHalf(model, link, live));
  if (model.get("requests").length) halves.push(requestHalf(model, link, live));
  root.replaceChildren(...halves.map((half) => half.node), live.node);
  function draw() { for (const half of halves) half.draw(); }
  draw();
  return () => { link.stop(); live.stop(); };
}

function sortHalf(model, link, live) {
  const facts = model.get("facts");
  const given = (fact) => model.get("answers")[fact.key] ?? BLANK;
  const list = facts.map((fact, index) => {
    const mark = el("span", { class: "ctx-sorter-mark", "aria-hidden": "true" });
    const state = el("span", { class: "ctx-visually-hidden" });
    const button = el("button", { type: "button", class: "ctx-sorter-fact", "data-fact": fact.key, ...KEEP_KEYS },
      mark, el("span", {}, fact.text), state);
    button.addEventListener("click", () => link.set("fact", index));
    return { button, mark, state };
  });
  const count = el("p", { class: "ctx-sorter-count", "data-part": "count" });
  const text = el("p", { class: "ctx-sorter-text", "data-part": "fact" });
  const asked = model.get("questions").map((question, index) => {
    const why = el("p", { class: "ctx-sorter-why" });
    const group = choice({
      name: `answer-${index}`, label: question, options: { y: "yes", n: "no" },
      onInput(value) {
        const fact = facts[model.get("fact")];
        const letters = [...given(fact)];
        letters[index] = value;
        link.set("answers", { ...model.get("answers"), [fact.key]: letters.join("") });
      },
    });
    return { group, why, node: el("div", { class: "ctx-sorter-question" }, group.node, why) };
  });
  const icon = el("span", { class: "ctx-sorter-icon", "aria-hidden": "true" });
  const words = el("span", { "data-part": "placed" });
  const placed = el("div", { class: "ctx-sorter-placed" }, icon, words);
  const next = el("button", { type: "button", class: "ctx-sorter-next", ...KEEP_KEYS }, "Next fact");
  next.addEventListener("click", () => link.set("fact", (model.get("fact") + 1) % facts.length));
  const node = el("section", { class: "ctx-card", "aria-label": "Sort the facts" },
    el("h3", { class: "ctx-title" }, "Where does it belong?"), count,
    el("div", { class: "ctx-sorter-columns" },
      el("div", { class: "ctx-sorter-list", role: "group", "aria-label": "Facts" }, ...list.map((item) => item.button)),
      el("div", {}, text, ...asked.map((item) => item.node), placed, next)));

  let said = "";
  function draw() {
    const here = model.get("fact");
    facts.forEach((fact, index) => {
      const { mood } = told(fact, given(fact));
      setText(list[index].mark, MARKS[mood]);
      setText(list[index].state, `, ${WORDS[mood]}`);
      list[index].button.dataset.mood = mood;
      list[index].button.setAttribute("aria-pressed", String(index === here));
    });
    const right = facts.filter((fact) => given(fact) === fact.answers).length;
    setText(count, `${right} of ${facts.length} sorted as we do`);
    const fact = facts[here];
    const answers = given(fact);
    const feedback = told(fact, answers);
    setText(text, fact.text);
    asked.forEach((item, index) => {
      item.group.set(answers[index]);
      setText(item.why, feedback.lines[index]);
      item.why.dataset.same = String(answers[index] === fact.answers[index]);
    });
    placed.dataset.mood = feedback.mood;
    setText(icon, MARKS[feedback.mood]);
    setText(words, feedback.text || "Answer all three questions.");
    if (feedback.text && feedback.text !== said) live.say(feedback.text);
    said = feedback.text;
  }
  return { node, draw };
}

function requestHalf(model, link, live) {
  const shown = model.get("requests");
  const queries = choice({
    name: "query", label: "The user writes", options: Object.fromEntries(shown.map((one, index) => [index, one.query])),
    onInput: (value) => link.set("query", Number(value)),
  });
  queries.node.classList.add("ctx-sorter-queries");
  const counts = choice({
    name: "k", label: "The search may pick", options: { 1: "1", 2: "2", 3: "3", 4: "4", 5: "5" },
    onInput: (value) => link.set("k", Number(value)),
  });
  const bars = el("div", { class: "ctx-sorter-bars" });
  const legend = el("p", { class: "ctx-sorter-legend" }, ...Object.entries(FILLS).map(([fill, name]) =>
    el("span", {}, el("span", { class: `ctx-swatch ctx-fill-${fill}`, "aria-hidden": "true" }), name)),
  el("span", {}, el("span", { class: "ctx-sorter-end", "aria-hidden": "true" }), "the window's end"));
  const found = el("ul", { class: "ctx-sorter-found", "data-part": "found" });
  const node = el("section", { class: "ctx-card", "aria-label": "Memories in one request" },
    el("h3", { class: "ctx-title" }, `${fmt(shown[0].all.items)} memories, one request`),
    queries.node, counts.node, bars, legend, el("h4", { class: "ctx-sorter-head" }, "What goes in"), found);

  function draw() {
    const request = shown[model.get("query")];
    const k = model.get("k");
    queries.set(String(model.get("query")));
    counts.set(String(k));
    const picture = barsOf(request, k, model.get("window"), model.get("reserve"));
    bars.replaceChildren(...picture.rows.map((row) => barRow(row, picture.mark)));
    const few = request.picks[k - 1];
    found.replaceChildren(...(few.found.length
      ? few.found.map((one) => el("li", {}, el("strong", {}, one.text), el("span", {}, ` ${one.why}`)))
      : [el("li", {}, "Nothing: no memory shares a word with it that counts.")]));
    live.say(picture.rows.map((row) => row.text).join(" "));
  }
  return { node, draw };
}

function barRow(row, mark) {
  const part = (fill, width) => el("span", { class: `ctx-sorter-part ctx-fill-${fill}`, style: `width:${width}%`, title: FILLS[fill] });
  return el("div", { class: "ctx-sorter-row", "data-fits": String(row.way.fits) },
    el("div", { class: "ctx-sorter-track", "aria-hidden": "true" },
      part("system", row.memory), part("history", row.rest), part("reserve", row.reserve),
      el("span", { class: "ctx-sorter-window", style: `left:${mark}%` })),
    el("p", { "data-part": "bar" }, el("span", { class: "ctx-sorter-icon", "aria-hidden": "true" }, row.way.fits ? "✓" : "✗"), row.text));
}

export { told, barsOf };
export default { render };
