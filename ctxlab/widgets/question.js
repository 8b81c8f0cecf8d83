// Question: a prediction or a self-check.
//
// Reads title, question, options, answer, unit and explain; writes chosen (options) or guess and guessed (a number).
// `verdict` is pure: state in, the mood and the words of the feedback out. `render` returns its clean-up. Before
// anything is chosen or guessed there is no feedback, and the answer is not in the page. Compare without a number asks
// for one.

function verdict(state) {
  if (state.options.length) {
    const option = state.options[state.chosen];
    if (option === undefined) return { mood: "none", text: "" };
    return { mood: option.right ? "right" : "wrong", text: `${option.right ? "Yes." : "Not quite."} ${option.feedback}` };
  }
  if (state.missing) {
    return { mood: "told", text: `There is no number yet: type your guess, in ${state.unit}, and press Compare again.` };
  }
  if (!state.guessed) return { mood: "none", text: "" };
  const { guess, answer, unit } = state;
  const near = Math.abs(guess - answer) <= 0.1 * Math.max(1, Math.abs(answer));
  const far = guess === answer ? "exactly that"
    : near ? `within a tenth of your ${fmt(guess)}`
      : guess < answer ? `${times(answer, guess)} your ${fmt(guess)}` : `less than your ${fmt(guess)}`;
  return { mood: near ? "right" : "told", text: `${fmt(answer)} ${unit}: ${far}. ${state.explain}` };
}

function times(answer, guess) {
  const factor = answer / guess;
  return guess > 0 && factor >= 1.5 ? `${factor.toFixed(1)} times` : "more than";
}

const NAMES = ["title", "question", "options", "chosen", "answer", "unit", "explain", "guess", "guessed"];
const MOODS = { none: "", right: "✓", wrong: "↺", told: "→" };

function render({ model, el: root }) {
  root.classList.add("ctx-widget", "ctx-question");
  const link = bind(model, NAMES, () => draw());
  let missing = false;
  const look = (none) => { missing = none; draw(); };
  const body = model.get("options").length ? choicesOf(model, link) : guessOf(model, link, look);
  const icon = el("span", { class: "ctx-feedback-icon", "aria-hidden": "true" });
  const words = el("span", { "data-part": "feedback" });
  const feedback = el("div", { class: "ctx-feedback", role: "status", "aria-live": "polite" }, icon, words);
  const question = el("p", { class: "ctx-question-text" }, model.get("question"));
  root.replaceChildren(el("section", { class: "ctx-card", "aria-label": model.get("title") },
    el("p", { class: "ctx-question-title" }, model.get("title")), question, body.node, feedback));

  function draw() {
    const state = Object.fromEntries([...NAMES.map((name) => [name, model.get(name)]), ["missing", missing]]);
    const told = verdict(state);
    body.draw(state);
    feedback.dataset.mood = told.mood;
    setText(icon, MOODS[told.mood]);
    setText(words, told.text);
  }
  draw();
  return () => link.stop();
}

function choicesOf(model, link) {
  const options = Object.fromEntries(model.get("options").map((option, index) => [index, option.text]));
  const group = choice({
    name: "option", label: "Your answer", options, onInput: (value) => link.set("chosen", Number(value)),
  });
  group.node.classList.add("ctx-options");
  return { node: group.node, draw: (state) => group.set(String(state.chosen)) };
}

function guessOf(model, link, look) {
  const id = uniqueId("guess");
  const box = el("input", { type: "number", id, name: "guess", class: "ctx-number", step: 1, inputmode: "numeric", ...KEEP_KEYS });
  const button = el("button", { type: "button", class: "ctx-button", ...KEEP_KEYS }, "Compare");
  const node = el("div", { class: "ctx-guess" }, el("label", { for: id }, `Your guess, in ${model.get("unit")}`), box, button);
  const compare = () => {
    const none = !Number.isFinite(box.valueAsNumber);
    look(none);
    if (none) { box.focus(); return; }
    link.set("guess", Math.round(box.valueAsNumber));
    link.set("guessed", true);
  };
  button.addEventListener("click", compare);
  // Not a form: JupyterLab's cell editor prevents the line break that would submit it.
  box.addEventListener("keydown", (event) => { if (event.key === "Enter") compare(); });
  return { node, draw(state) { if (state.guessed && document.activeElement !== box) box.value = String(state.guess); } };
}

export { verdict };
export default { render };
