// What the two steppers share: cards of messages, the table of the providers' answers, a bar of steps, a list box.
// No imports and no exports: ctxlab/widgets/cards.py puts this between the kit and a stepper's own file.

const MAIN_PROVIDERS = 4; // The first ones of `names` are always on view, the others fold out.

// A button. Returns the element; `onPress` is called for a click, Enter or Space.
function pressButton(text, label, onPress) {
  const node = el("button", { type: "button", class: "ctx-press", "aria-label": label, ...KEEP_KEYS }, text);
  node.addEventListener("click", onPress);
  return node;
}

// A labelled list to choose one from; `options` are [value, text]. Returns {node, set(value)}.
function pickList({ name, label, options, onInput }) {
  const id = uniqueId(name);
  const list = el("select", { id, name, class: "ctx-pick", ...KEEP_KEYS },
    ...options.map(([value, text]) => el("option", { value }, text)));
  list.addEventListener("change", () => onInput(list.value));
  const node = el("div", { class: "ctx-picker" }, el("label", { for: id }, label), list);
  return { node, set(value) { if (list.value !== value) list.value = value; } };
}

// First, back, next, last and a slider over the steps. `onStep` gets the new step, from 0.
// Returns {node, set(step, count, text, where)}; `where` is the text beside the slider.
function stepBar(onStep) {
  let now = 0;
  let last = 0;
  // `now` moves at once, so that two presses within one frame are two steps.
  const go = (step) => { now = Math.max(0, Math.min(last, step)); onStep(now); };
  const back = pressButton("◀ Back", "Step back", () => go(now - 1));
  const next = pressButton("Next ▶", "Next step", () => go(now + 1));
  const start = pressButton("|◀", "First step", () => go(0));
  const end = pressButton("▶|", "Last step", () => go(last));
  next.classList.add("ctx-press-main");
  const range = el("input", { type: "range", name: "step", class: "ctx-range", min: 0, step: 1, "aria-label": "Step", ...KEEP_KEYS });
  range.addEventListener("input", () => go(range.valueAsNumber));
  const place = el("span", { class: "ctx-step-place" });
  const node = el("div", { class: "ctx-stepbar", role: "group", "aria-label": "Steps" }, start, back, next, end, range, place);
  return {
    node,
    set(step, count, text, where = count ? `${step + 1} of ${fmt(count)}` : "none") {
      now = step;
      last = Math.max(0, count - 1);
      range.max = String(last);
      if (range.valueAsNumber !== step) range.value = String(step);
      range.setAttribute("aria-valuetext", text);
      setText(place, where);
      for (const button of [start, back]) button.setAttribute("aria-disabled", String(step <= 0));
      for (const button of [next, end]) button.setAttribute("aria-disabled", String(step >= last));
    },
  };
}

const ROLE_CLASS = { system: "system", developer: "system", user: "user", assistant: "assistant", tool: "tool" };

// The inside of a card: place, role, words, fate, tokens. A node that held another message before is filled anew.
function fillCard(node, card) {
  if (!node.firstChild) {
    node.append(...["place", "role", "words", "fate", "tokens"].map((part) => el("span", { class: `ctx-card-${part}` })));
  }
  const [place, role, words, , tokens] = node.children;
  setText(place, card.i === null ? "new" : String(card.i));
  const name = `ctx-card-role ctx-role ctx-role-${ROLE_CLASS[card.role] ?? "other"}`;
  if (role.className !== name) role.className = name;
  setText(role, card.role);
  setText(words, card.text || "(empty)");
  setText(tokens, fmt(card.tokens));
}

function cardSentence(card) {
  const calls = card.calls ? ` Calls ${card.calls.join(", ")}.` : "";
  const answers = card.answers !== undefined ? ` Answers message ${card.answers}.` : "";
  return `${card.i === null ? "New message" : `Message ${card.i}`}, ${card.role}, ${fmt(card.tokens)} tokens.${calls}${answers} ${card.text}`;
}

// The providers' answers: one row a set of rules, one column for each of `columns` ([key, heading]).
// Returns {node, set(answers)}: answers[key][provider] is null (accepted) or a violation; answers[key] null: not known yet.
function answerTable(names, columns, waiting = "…") {
  const cells = {};
  const body = (providers) => el("tbody", {}, ...providers.map((provider) => {
    cells[provider] = Object.fromEntries(columns.map(([key]) => [key, el("td", { "data-answer": `${provider}-${key}` })]));
    return el("tr", {}, el("th", { scope: "row" }, names[provider]), ...Object.values(cells[provider]));
  }));
  const head = () => el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Rules of"),
    ...columns.map(([, heading]) => el("th", { scope: "col" }, heading))));
  const all = Object.keys(names);
  const summary = el("summary", { ...KEEP_KEYS }, "");
  const node = el("div", { class: "ctx-answers" },
    el("table", {}, head(), body(all.slice(0, MAIN_PROVIDERS))),
    el("details", {}, summary, el("table", {}, head(), body(all.slice(MAIN_PROVIDERS)))));

  function fill(cell, answer, known) {
    const state = !known ? "waiting" : answer === null ? "yes" : answer.also ? "also" : "no";
    const key = known && answer ? `${state}|${answer.rule}|${answer.text}|${answer.count}` : state;
    if (cell.dataset.key === key) return;
    cell.dataset.key = key;
    cell.dataset.state = state;
    cell.replaceChildren(...(!known ? [waiting] : answer === null ? [mark("✓"), "accepted"] : refusal(answer)));
  }
  return {
    node,
    set(answers) {
      const waits = columns.some(([key]) => !answers[key]);
      if (waits && !node.style.minHeight) node.style.minHeight = `${node.offsetHeight}px`; // no jump while the kernel works
      if (!waits) node.style.minHeight = "";
      for (const provider of all) {
        for (const [key] of columns) fill(cells[provider][key], answers[key]?.[provider] ?? null, Boolean(answers[key]));
      }
      const folded = all.slice(MAIN_PROVIDERS);
      const refused = columns.map(([key, heading]) =>
        `${heading.toLowerCase()}: ${answers[key] ? folded.filter((name) => answers[key][name]).length : "…"}`);
      setText(summary, `${folded.length} more sets of rules (refused by ${refused.join(", ")})`);
    },
  };
}

// The same in one line: a chip for each main provider, and how many of the others refuse. Returns {node, set(answers)};
// `answers` null: not known yet. The table says it in words, so this is not read out twice.
function answerChips(names, label) {
  const all = Object.keys(names);
  const chips = all.slice(0, MAIN_PROVIDERS).map((provider) => ({ provider, node: el("span", { class: "ctx-chip" }) }));
  const rest = el("span", { class: "ctx-chip" });
  const node = el("div", { class: "ctx-chips", "aria-hidden": "true" }, el("span", { class: "ctx-chips-label" }, label), ...chips.map((chip) => chip.node), rest);
  const fill = (chip, state, text) => { chip.dataset.state = state; setText(chip, text); };
  return {
    node,
    set(answers) {
      for (const chip of chips) {
        const answer = answers?.[chip.provider];
        const state = !answers ? "waiting" : answer === null ? "yes" : answer.also ? "also" : "no";
        const word = { waiting: "…", yes: "✓", also: `! ${answer?.rule}`, no: `✗ ${answer?.rule}` }[state];
        fill(chip.node, state, `${names[chip.provider].split(" ")[0]} ${word}`);
      }
      const others = all.slice(MAIN_PROVIDERS);
      const no = answers ? others.filter((name) => answers[name] && !answers[name].also).length : 0;
      fill(rest, !answers ? "waiting" : no ? "no" : "yes", `${others.length} others ${!answers ? "…" : no ? `✗ ${no}` : "✓"}`);
    },
  };
}

const mark = (text) => el("span", { class: "ctx-mark-icon", "aria-hidden": "true" }, text);

function refusal(answer) {
  const more = answer.count > 1 ? ` and ${answer.count - 1} more` : "";
  return [
    mark(answer.also ? "!" : "✗"), el("strong", {}, `400, rule ${answer.rule}`), `: ${answer.title}${more}. ${answer.note}`,
    el("code", {}, answer.text),
  ];
}
