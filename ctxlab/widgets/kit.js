// What all widgets share: elements, numbers, controls, a live region. No imports and no exports: ctxlab/widgets/kit.py
// puts this text before a widget's own file, because anywidget loads one ES module.

// A count for people: 128000 -> "128,000".
const fmt = (count) => count.toLocaleString("en-US");

// A share for people: 0.1234 -> "12.3%".
const percent = (part, whole) => `${((100 * part) / Math.max(1, whole)).toFixed(1)}%`;

// An element with attributes and children (elements or text). An attribute of null or false is left out.
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

// Write only what changed: a write of the same text would still cost a layout.
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// JupyterLab takes arrow keys and letters from a cell's output unless the focused element itself says no.
const KEEP_KEYS = { "data-lm-suppress-shortcuts": "true" };

// Ids for labels. Each widget on a page loads its own copy of this file, so a counter alone would repeat.
const PAGE_SALT = Math.random().toString(36).slice(2, 10);
let nextId = 0;
const uniqueId = (stem) => `ctx-${stem}-${PAGE_SALT}-${(nextId += 1)}`;

// One labelled number as a slider and a number box in step.
//   name, label   the trait and what a person calls it
//   max, step     of the slider, in the unit of the value; max may change later (limits)
//   stops         instead of max and step: the values the slider stops at, in order (picked)
//   most          () => the largest value there can be, or null where a larger one makes sense
//   swatch        the part whose colour and pattern stand before the label, or null
//   onInput       called with the new value, a whole number of at least `min`
// Returns {node, set(value, note), limits(max, step)}; `note` is the text beside the box. A typed number out of bounds
// counts as the bound, and a line under the control says so until the next change.
function control({ name, label, min = 0, max = 1, step = 1, stops = null, most = null, swatch = null, unit = "tokens", onInput }) {
  const id = uniqueId(name);
  const range = el("input", {
    type: "range", name, id, class: "ctx-range", min: stops ? 0 : min, max: stops ? stops.length - 1 : max,
    step: stops ? 1 : step, ...KEEP_KEYS,
  });
  const box = el("input", {
    type: "number", name: `${name}-exact`, class: "ctx-number", min, step: 1, inputmode: "numeric",
    "aria-label": `${label}, exact number`, ...KEEP_KEYS,
  });
  const note = el("span", { class: "ctx-note" });
  const sample = swatch ? el("span", { class: `ctx-swatch ctx-fill-${swatch}`, "aria-hidden": "true" }) : "";
  const told = el("p", { class: "ctx-told", "data-part": "told", "aria-live": "polite" });
  const node = el("div", { class: "ctx-control", "data-control": name },
    el("label", { for: id, class: "ctx-label" }, sample, label), range, box, note, told);

  range.addEventListener("input", () => {
    setText(told, "");
    onInput(stops ? stops[range.valueAsNumber] : range.valueAsNumber);
  });
  box.addEventListener("input", () => {
    if (!Number.isFinite(box.valueAsNumber)) return;
    const { value, text } = bounded(Math.round(box.valueAsNumber), min, most ? most() : Infinity);
    setText(told, text);
    onInput(value);
    if (text) box.value = String(value);
  });

  let shown = null;
  function set(value, text) {
    setText(note, text);
    if (value === shown) return;
    shown = value;
    const place = stops ? nearestStop(stops, value) : value;
    if (range.valueAsNumber !== place) range.value = String(place);
    if (document.activeElement !== box || box.valueAsNumber !== value) box.value = String(value);
    range.setAttribute("aria-valuetext", `${fmt(value)} ${unit}`);
  }
  function limits(newMax, newStep) {
    if (range.max === String(newMax) && range.step === String(newStep)) return;
    range.max = String(newMax);
    range.step = String(newStep);
    if (shown !== null) range.value = String(shown);
  }
  return { node, set, limits };
}

// A number within its bounds, and what to say where it had to be changed for that.
function bounded(given, min, most) {
  if (given < min) return { value: min, text: `${fmt(given)} is too small here: counted as ${fmt(min)}, the least there can be` };
  if (given > most) return { value: most, text: `${fmt(given)} is too large here: counted as ${fmt(most)}, the most there can be` };
  return { value: given, text: "" };
}

// The place of the last stop that is not above `value`.
function nearestStop(stops, value) {
  let place = 0;
  stops.forEach((stop, index) => { if (stop <= value) place = index; });
  return place;
}

// A slider's step so that it has about `count` stops: 1, 2 or 5 times a power of ten.
function niceStep(max, count = 160) {
  const rough = Math.max(1, max / count);
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
}

// A row of choices that behaves as radio buttons do. Returns {node, set(value)}.
function choice({ name, label, options, onInput }) {
  const group = uniqueId(name);
  const inputs = Object.entries(options).map(([value, text]) => {
    const input = el("input", { type: "radio", name: group, value, "data-choice": name, ...KEEP_KEYS });
    input.addEventListener("change", () => { if (input.checked) onInput(value); });
    return { input, node: el("label", { class: "ctx-choice" }, input, text) };
  });
  const node = el("fieldset", { class: "ctx-choices" },
    el("legend", {}, label), ...inputs.map((item) => item.node));
  return { node, set(value) { for (const { input } of inputs) input.checked = input.value === value; } };
}

// A status line for screen readers that speaks at most once in `wait` ms, and always says the last thing.
function liveRegion(wait = 700) {
  const node = el("div", { role: "status", "aria-live": "polite", class: "ctx-visually-hidden" });
  let timer = null;
  let pending = "";
  return {
    node,
    say(text) {
      pending = text;
      if (timer === null) timer = setTimeout(() => { timer = null; setText(node, pending); }, wait);
    },
    stop() { clearTimeout(timer); },
  };
}

// A row of small columns, `current` (1-based) marked and those after it hollow. Returns {node, set(values, current)}.
function columnStrip(fill, label) {
  const node = el("div", { class: "ctx-strip", role: "img", "aria-label": label });
  let drawn = "";
  return {
    node,
    set(values, current, text) {
      const key = values.join();
      if (key !== drawn) {
        const most = Math.max(1, ...values);
        node.replaceChildren(...values.map((value) =>
          el("span", { class: `ctx-column ctx-fill-${fill}`, style: `height:${Math.max(4, (100 * value) / most)}%` })));
        node.classList.toggle("ctx-strip-many", values.length > 60);
        drawn = key;
      }
      [...node.children].forEach((column, index) => {
        column.classList.toggle("ctx-column-off", index >= current);
        column.classList.toggle("ctx-column-now", index === current - 1);
      });
      if (node.getAttribute("aria-label") !== text) node.setAttribute("aria-label", text);
    },
  };
}

// Draw when any of `names` changes, from either side; save once a frame. Returns {set(name, value), stop()}.
function bind(model, names, draw) {
  let frame = null;
  for (const name of names) model.on(`change:${name}`, draw);
  return {
    set(name, value) {
      if (model.get(name) === value) return;
      model.set(name, value);
      if (frame === null) frame = requestAnimationFrame(() => { frame = null; model.save_changes(); });
    },
    stop() {
      if (frame !== null) { cancelAnimationFrame(frame); model.save_changes(); }
      for (const name of names) model.off(`change:${name}`, draw);
    },
  };
}
