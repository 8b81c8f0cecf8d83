// BankQuestion: a question, and folded until it is answered the analysis, and after it the key points.
//
// Reads title, question, options, analysis and points; writes chosen (options) or words (a text), answered and
// pointed. `render` returns its clean-up. Before there is an answer neither analysis nor points are in the page. Each
// choice unfolds at once; an open question does when its button is pressed with a word or two in the box.

const BANK = ["title", "question", "options", "chosen", "words", "analysis", "points", "answered", "pointed"];

function render({ model, el: root }) {
  root.classList.add("ctx-widget", "ctx-bank");
  const link = bind(model, BANK, () => draw());
  const answer = model.get("options").length ? bankChoices(model, link) : bankText(model, link);
  const analysis = el("div", { class: "ctx-bank-part", "data-part": "analysis" });
  const more = el("button", { type: "button", class: "ctx-bank-button", "data-part": "show-points", ...KEEP_KEYS }, "Show the key points");
  const points = el("div", { class: "ctx-bank-part", "data-part": "points" });
  const live = liveRegion(200);
  more.addEventListener("click", () => { link.set("pointed", true); points.focus(); });
  root.replaceChildren(el("section", { class: "ctx-card", "aria-label": model.get("title") },
    el("p", { class: "ctx-bank-title" }, model.get("title")), el("p", { class: "ctx-bank-question" }, model.get("question")),
    answer.node, analysis, more, points, live.node));

  function draw() {
    const [answered, pointed] = [model.get("answered"), model.get("answered") && model.get("pointed")];
    const said = answer.draw();
    unfold(analysis, answered, () => [el("h4", {}, "Analysis"), el("p", {}, model.get("analysis"))]);
    unfold(points, pointed, () => [el("h4", {}, "Key points"), el("ul", {}, ...model.get("points").map((point) => el("li", {}, point)))]);
    more.hidden = !answered || pointed;
    if (answered) live.say(pointed ? "The key points are shown." : `${said} The analysis is shown.`);
  }
  draw();
  return () => { link.stop(); live.stop(); };
}

function unfold(node, open, made) {
  node.hidden = !open;
  node.setAttribute("tabindex", "-1");
  if (open && !node.hasChildNodes()) node.append(...made());
}

function bankChoices(model, link) {
  const options = model.get("options");
  const texts = Object.fromEntries(options.map((option, index) => [index, option.text]));
  const group = choice({
    name: "option", label: "Your answer", options: texts,
    onInput: (value) => { link.set("chosen", Number(value)); link.set("answered", true); },
  });
  group.node.classList.add("ctx-bank-options");
  const icon = el("span", { class: "ctx-bank-icon", "aria-hidden": "true" });
  const words = el("span", { "data-part": "feedback" });
  const feedback = el("p", { class: "ctx-bank-feedback" }, icon, words);
  return {
    node: el("div", {}, group.node, feedback),
    draw() {
      const option = options[model.get("chosen")];
      group.set(String(model.get("chosen")));
      feedback.hidden = option === undefined;
      if (option === undefined) return "";
      feedback.dataset.mood = option.right ? "right" : "wrong";
      setText(icon, option.right ? "✓" : "↺");
      setText(words, `${option.right ? "Yes." : "Not quite."} ${option.feedback}`);
      return words.textContent;
    },
  };
}

function bankText(model, link) {
  const id = uniqueId("words");
  const box = el("textarea", { id, name: "words", rows: 3, class: "ctx-bank-text", ...KEEP_KEYS });
  const button = el("button", { type: "button", class: "ctx-bank-button", "data-part": "answer", ...KEEP_KEYS }, "Compare with the analysis");
  box.addEventListener("input", () => link.set("words", box.value));
  button.addEventListener("click", () => { if (box.value.trim()) link.set("answered", true); else box.focus(); });
  const node = el("div", {}, el("label", { for: id, class: "ctx-bank-label" }, "Your answer, in a sentence or two"), box, button);
  return {
    node,
    draw() {
      if (document.activeElement !== box && box.value !== model.get("words")) box.value = model.get("words");
      button.hidden = model.get("answered");
      return "";
    },
  };
}

export default { render };
