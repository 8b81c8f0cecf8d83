// BudgetView: the four-part budget as one bar against the window.
//
// Reads and writes the traits window, system, tools, reserve, margin, history, provider and round; reads tool_tokens,
// tool_names, ratio, requests, rounds, caption and triggers (false: no trigger lines). `layout` is pure: state in, everything that is drawn out, the same
// as ctxlab/widgets/budget_picture.py (a test compares the two to the letter). So a moved control is drawn here and
// now, and the kernel hears of it after. `render` returns its clean-up. With no tools and no history the bar shows
// the window and what is left of it; without a log there is no slider over rounds.

const LABELS = {
  system: "System prompt", tools: "Tool definitions", history: "History", left: "Left",
  reserve: "Output reserve", margin: "Safety margin",
};
const PROVIDERS = { openai: "OpenAI", anthropic: "Anthropic", gemini: "Gemini", mistral: "Mistral" };
const PROMPT_ALONE = ["gemini", "mistral"]; // They hold the prompt alone against the window.
const HEADROOM = 65536;
const MILLION = 1_000_000;

// Where the window's slider stops: sizes that models are sold with (picked).
const WINDOWS = [
  4096, 8192, 16384, 32768, 65536, 128000, 200000, 262144, 327680, 400000, 524288, 1000000, 1048576, 2000000,
];

function layout(state) {
  const count = Math.min(state.tools, state.tool_tokens.length - 1);
  const tools = state.tool_tokens[count];
  const prompt = state.system + tools + state.history;
  const total = prompt + state.reserve + state.margin;
  const budget = state.window - state.system - tools - state.reserve - state.margin;
  const left = Math.max(0, state.window - total);
  const over = Math.max(0, total - state.window);
  const verdict = verdictOf(state, prompt, total, budget);
  return {
    parts: partsOf({
      system: state.system, tools, history: state.history, left, reserve: state.reserve, margin: state.margin,
    }, state.window),
    window: state.window, scale: Math.max(state.window, total), total, history_budget: budget, left, over, verdict,
    headline: headlineOf(state, verdict, prompt, left),
    answer: answerOf(state, verdict, tools),
    marks: [ratioMark(state, tools, budget), pressureMark(state, prompt)],
    tool_note: toolNote(state, count),
    sentence: `Window ${fmt(state.window)}: system prompt ${fmt(state.system)}, ${state.tools} tools ${fmt(tools)}, `
      + `history ${fmt(state.history)}, output reserve ${fmt(state.reserve)}, safety margin ${fmt(state.margin)}; `
      + `${pastOf(over, state.margin) || `${fmt(left)} tokens left`}.`,
    past: pastOf(over, state.margin),
  };
}

// What is past the window's end, and how much of that is margin: the two numbers that a refusal is told with.
function pastOf(over, margin) {
  if (!over) return "";
  const share = over <= margin ? "all of it margin" : `${fmt(margin)} of it margin`;
  return `${fmt(over)} past the end${margin ? `, ${share}` : ""}`;
}

function verdictOf(state, prompt, total, budget) {
  if (prompt > state.window) return "prompt";
  if (prompt + state.reserve > state.window) return PROMPT_ALONE.includes(state.provider) ? "short" : "reserve";
  if (total > state.window) return "margin";
  return budget > 0 ? "fits" : "no_room";
}

function partsOf(sizes, window) {
  let start = 0;
  return Object.entries(sizes).map(([key, tokens]) => {
    const end = start + tokens;
    const part = { key, label: LABELS[key], tokens, start, end, outside: Math.max(0, end - Math.max(start, window)) };
    start = end;
    return part;
  });
}

function headlineOf(state, verdict, prompt, left) {
  const past = prompt + state.reserve - state.window;
  return {
    fits: `Fits: ${fmt(left)} tokens left for the history`,
    no_room: "Accepted, but nothing is left for a history",
    margin: `Into the safety margin by ${fmt(past + state.margin)} tokens: still accepted, `
      + "but one counting error away from a refusal",
    short: `Accepted, but ${fmt(past)} tokens of the output reserve are not there: the answer may be cut short`,
    reserve: `Refused: prompt and output reserve are ${fmt(past)} tokens over the window`,
    prompt: `Refused: the prompt alone is ${fmt(prompt - state.window)} tokens over the window`,
  }[verdict];
}

// The APIs' own words, as in ctxlab/budget.py, which says where each was seen.
function answerOf(state, verdict, tools) {
  if (verdict !== "reserve" && verdict !== "prompt") return "";
  const prompt = state.system + tools + state.history;
  const { window, reserve } = state;
  if (state.provider === "openai") return `400 context_length_exceeded: ${openaiAnswer(window, tools, reserve, prompt)}`;
  if (state.provider === "gemini") {
    return `400 INVALID_ARGUMENT: The input token count (${prompt}) exceeds the maximum number of tokens allowed `
      + `(${window}).`;
  }
  if (state.provider === "mistral") {
    return `400 invalid_request: Prompt contains ${prompt} tokens, too large for model with ${window} maximum `
      + "context length";
  }
  if (verdict === "prompt") return `400 invalid_request_error: prompt is too long: ${prompt} tokens > ${window} maximum`;
  return `400 invalid_request_error: input length and \`max_tokens\` exceed context limit: ${prompt} + `
    + `${reserve} > ${window}, decrease input length or \`max_tokens\` and try again`;
}

function openaiAnswer(window, tools, completion, prompt) {
  const counts = [`${prompt - tools} in the messages`];
  const shorter = ["messages"];
  if (tools) { counts.push(`${tools} in the functions`); shorter.push("functions"); }
  if (completion) { counts.push(`${completion} in the completion`); shorter.push("completion"); }
  const verb = completion ? `you requested ${prompt + completion} tokens` : `your messages resulted in ${prompt} tokens`;
  const detail = counts.length > 1 ? ` (${listOf(counts, "and")})` : "";
  return `This model's maximum context length is ${window} tokens. However, ${verb}${detail}. `
    + `Please reduce the length of the ${listOf(shorter, "or")}.`;
}

// Words as these APIs list them: two with a comma between counts, three with a word before the last.
function listOf(words, last) {
  if (words.length > 2) return `${words.slice(0, -1).join(", ")}, ${last} ${words.at(-1)}`;
  return words.join(last === "or" ? " or " : ", ");
}

// Ratios are multiplied as whole millionths, so that 0.7 of 10 is 7 and not a hair more.
function ratioMark(state, tools, budget) {
  if (budget <= 0) {
    const text = "History ratio: no history budget is left, so there is nothing to compress to";
    return { key: "ratio", at: null, fired: false, text };
  }
  const trigger = Math.ceil((budget * Math.round(state.ratio * MILLION)) / MILLION);
  const text = `History ratio: compress from ${fmt(trigger)} tokens of history `
    + `(${state.ratio} of ${fmt(budget)}; ${state.ratio} is a picked number)`;
  return { key: "ratio", at: state.system + tools + trigger, fired: state.history >= trigger, text };
}

function pressureMark(state, prompt) {
  const byRatio = (state.window * 800000) / MILLION;
  const rest = state.window - state.reserve - HEADROOM;
  if (rest <= 0) {
    const text = "Window pressure: never; the 65,536 tokens of headroom and the reserve leave nothing of this window";
    return { key: "pressure", at: null, fired: false, text };
  }
  const at = Math.floor(Math.min(byRatio, rest));
  const by = byRatio < rest ? "0.8 of the window decides"
    : byRatio > rest ? "the headroom of 65,536 decides" : "0.8 of the window and the headroom of 65,536 agree";
  const text = `Window pressure: compress from ${fmt(at)} tokens of prompt (${by}; both are picked numbers)`;
  return { key: "pressure", at, fired: prompt >= at, text };
}

function toolNote(state, count) {
  if (count === 0) return "No tools defined";
  const cost = state.tool_tokens[count] - state.tool_tokens[count - 1];
  const name = count <= state.tool_names.length ? ` (${state.tool_names[count - 1]})` : "";
  return `Tool ${count}${name} adds ${fmt(cost)} tokens to every request: `
    + `${fmt(cost * state.requests)} in ${fmt(state.requests)} requests`;
}

const STATE = [
  "window", "system", "tools", "tool_tokens", "tool_names", "reserve", "margin", "history", "ratio", "provider",
  "requests",
];
const ICONS = { fits: "✓", no_room: "!", margin: "!", short: "!", reserve: "✕", prompt: "✕" };

function render({ model, el: root }) {
  root.classList.add("ctx-widget", "ctx-budget");
  const state = () => Object.fromEntries(STATE.map((name) => [name, model.get(name)]));
  const link = bind(model, [...STATE, "round", "rounds", "caption", "triggers"], () => draw());
  const bar = budgetBar();
  const head = headline(model, link);
  const panel = controlPanel(model, link);
  const rounds = roundPanel(model, link);
  const live = liveRegion();
  root.replaceChildren(el("section", { class: "ctx-card", "aria-label": "The four-part budget" },
    head.node, bar.node, rounds.node, panel.node, live.node));

  function draw() {
    const now = state();
    const shown = layout(now);
    head.draw(now, shown);
    bar.draw(shown, model.get("triggers"));
    panel.draw(now, shown);
    rounds.draw();
    live.say(`${shown.headline}. ${shown.sentence}`);
  }
  const resize = new ResizeObserver(() => bar.fit());
  resize.observe(bar.node);
  draw();
  return () => { link.stop(); live.stop(); resize.disconnect(); };
}

// Title, whose words an API would use, the verdict, and the API's answer.
function headline(model, link) {
  const title = el("h3", { class: "ctx-title" });
  const providers = choice({
    name: "provider", label: "Answer as", options: PROVIDERS, onInput: (value) => link.set("provider", value),
  });
  const icon = el("span", { class: "ctx-icon", "aria-hidden": "true" });
  const words = el("span", { "data-part": "headline" });
  const verdict = el("p", { class: "ctx-verdict" }, icon, words);
  const answer = el("code", { class: "ctx-answer", "data-part": "answer" });
  const node = el("div", {}, el("div", { class: "ctx-head" }, title, providers.node), verdict, answer);
  return {
    node,
    draw(state, shown) {
      setText(title, model.get("caption"));
      providers.set(state.provider);
      verdict.dataset.verdict = shown.verdict;
      setText(icon, ICONS[shown.verdict]);
      setText(words, shown.headline);
      setText(answer, shown.answer);
      answer.hidden = !shown.answer;
    },
  };
}

// The stacked bar with the window's end, both trigger lines, and what is past the end.
function budgetBar() {
  const segments = Object.fromEntries(Object.keys(LABELS).map((key) => [key, segment(key)]));
  const flags = { ratio: flag("ratio"), pressure: flag("pressure") };
  const past = el("div", { class: "ctx-past", "aria-hidden": "true" }, el("span", {}));
  const asides = Object.fromEntries(Object.keys(LABELS).map((key) => [key, aside(key)]));
  const end = el("div", { class: "ctx-end" }, el("span", {}));
  const track = el("div", { class: "ctx-track", role: "img" },
    ...Object.values(segments).map((item) => item.node), past, end, flags.ratio.line, flags.pressure.line);
  const marks = el("ul", { class: "ctx-marks" }, flags.ratio.text, flags.pressure.text);
  const node = el("div", { class: "ctx-bar" },
    el("div", { class: "ctx-asides", "aria-hidden": "true" }, ...Object.values(asides).map((item) => item.node)), track,
    marks);
  let shown = null;

  function draw(next, triggers) {
    shown = next;
    const at = (tokens) => `${(100 * tokens) / Math.max(1, next.scale)}%`;
    for (const part of next.parts) segments[part.key].draw(part, at);
    past.hidden = next.over === 0;
    past.style.left = at(next.window);
    past.style.width = at(next.over);
    setText(past.firstChild, next.past);
    end.style.left = at(next.window);
    end.classList.toggle("ctx-end-over", next.over > 0);
    setText(end.firstChild, next.over ? `window ends at ${fmt(next.window)}` : `window ${fmt(next.window)}`);
    for (const mark of next.marks) flags[mark.key].draw(mark, at, triggers);
    marks.hidden = !triggers;
    track.setAttribute("aria-label", next.sentence);
    fit();
  }
  // A label stands in its segment where that has room for it, else above the bar.
  function fit() {
    if (shown === null) return;
    const width = track.clientWidth / Math.max(1, shown.scale);
    for (const part of shown.parts) {
      const fits = segments[part.key].fit(part.tokens * width);
      asides[part.key].draw(part, part.tokens > 0 && !fits);
    }
    node.classList.toggle("ctx-bar-over", shown.over > 0);
    // The window's label stands before its end; where there is no room for that, after it. A bar out of sight may have
    // no width yet: then nothing is decided, since nothing tells it later that it is too far right.
    end.classList.toggle("ctx-end-early", width > 0 && shown.window * width < end.firstChild.offsetWidth + 8);
  }
  return { node, draw, fit };
}

function segment(key) {
  const name = el("span", { class: "ctx-segment-name" }, LABELS[key]);
  const count = el("span", { class: "ctx-segment-count" });
  const label = el("span", { class: "ctx-segment-label" }, name, count);
  const node = el("div", { class: `ctx-segment ctx-fill-${key}`, "data-part": key }, label);
  return {
    node,
    draw(part, at) {
      node.style.left = at(part.start);
      node.style.width = at(part.tokens);
      node.dataset.tokens = String(part.tokens);
      node.hidden = part.tokens === 0;
      setText(count, fmt(part.tokens));
    },
    fit(pixels) {
      const need = Math.max(LABELS[key].length, count.textContent.length) * 7.6 + 16;
      label.hidden = pixels < need;
      return !label.hidden;
    },
  };
}

// The label of a segment that is too narrow for it.
function aside(key) {
  const text = el("span", {});
  const node = el("span", { class: "ctx-aside" }, el("span", { class: `ctx-swatch ctx-fill-${key}` }), text);
  return {
    node,
    draw(part, visible) {
      node.hidden = !visible;
      if (visible) setText(text, `${part.label} ${fmt(part.tokens)}`);
    },
  };
}

function flag(key) {
  const line = el("div", { class: `ctx-flag ctx-flag-${key}`, "aria-hidden": "true" });
  const text = el("li", { class: `ctx-mark ctx-mark-${key}`, "data-mark": key });
  return {
    line, text,
    draw(mark, at, visible) {
      line.hidden = !visible || mark.at === null;
      if (mark.at !== null) line.style.left = at(mark.at);
      setText(text, mark.fired ? `${mark.text}: reached` : mark.text);
      text.classList.toggle("ctx-mark-fired", mark.fired);
    },
  };
}

// The six controls; the tools' one says what the last tool costs.
function controlPanel(model, link) {
  const make = (name, label, more = {}) =>
    control({ name, label, swatch: name, onInput: (value) => link.set(name, value), ...more });
  const controls = {
    window: make("window", "Window", { stops: WINDOWS, swatch: null, min: 1 }),
    system: make("system", LABELS.system),
    tools: make("tools", "Tools", {
      unit: "tools", most: () => model.get("tool_tokens").length - 1, onInput: (value) => link.set("tools", value),
    }),
    history: make("history", LABELS.history),
    reserve: make("reserve", LABELS.reserve),
    margin: make("margin", LABELS.margin),
  };
  const strip = columnStrip("tools", "Cost of each tool definition");
  const note = el("p", { class: "ctx-tool-note", "data-part": "tool-note" });
  const tools = el("div", { class: "ctx-tools" }, controls.tools.node, el("div", { class: "ctx-tools-more" }, strip.node, note));
  const node = el("div", { class: "ctx-controls" },
    controls.window.node, controls.system.node, tools, controls.history.node, controls.reserve.node, controls.margin.node);

  return {
    node,
    draw(state, shown) {
      const share = (tokens) => percent(tokens, state.window);
      const most = { system: 0.5, history: 1.5, reserve: 1, margin: 0.25 };
      for (const [name, factor] of Object.entries(most)) {
        controls[name].limits(Math.ceil(factor * state.window), niceStep(factor * state.window));
        controls[name].set(state[name], share(state[name]));
      }
      controls.window.set(state.window, "100%");
      controls.tools.limits(state.tool_tokens.length - 1, 1);
      controls.tools.set(state.tools, share(shown.parts[1].tokens));
      const costs = state.tool_tokens.slice(1).map((tokens, index) => tokens - state.tool_tokens[index]);
      strip.set(costs, state.tools, `Cost of each of ${costs.length} tool definitions, ${state.tools} in use`);
      setText(note, shown.tool_note);
    },
  };
}

// The slider over a log's rounds: the history as it stood after each.
function roundPanel(model, link) {
  const slider = control({
    name: "round", label: "After round", unit: "of the log's rounds", min: 1,
    most: () => model.get("rounds").length,
    onInput: (value) => {
      const rounds = model.get("rounds");
      const round = Math.min(value, rounds.length);
      link.set("round", round);
      link.set("history", rounds[round - 1].history);
    },
  });
  const strip = columnStrip("history", "History after each round");
  const note = el("p", { class: "ctx-round-note", "data-part": "round-note" });
  const node = el("div", { class: "ctx-rounds" }, slider.node, strip.node, note);
  return {
    node,
    draw() {
      const rounds = model.get("rounds");
      node.hidden = rounds.length === 0;
      if (!rounds.length) return;
      const round = Math.min(Math.max(1, model.get("round")), rounds.length);
      const { added, history } = rounds[round - 1];
      slider.limits(rounds.length, 1);
      slider.set(round, `of ${fmt(rounds.length)}`);
      const text = `Round ${fmt(round)} added ${fmt(added)} tokens; after it the history is ${fmt(history)}`;
      strip.set(rounds.map((item) => item.history), round, `History after each of ${rounds.length} rounds. ${text}`);
      setText(note, model.get("history") === history ? text : `${text}. (The history control was moved since.)`);
    },
  };
}

export { layout };
export default { render };
