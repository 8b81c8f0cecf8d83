// ThresholdExplorer: when each rule compresses, for windows of every size.
//
// Reads and writes the traits window, ratio, headroom, completion and claim; reads history_ratio, fixed, caption,
// published and options. `layout` is pure: state in, everything that is drawn out, the same as
// ctxlab/widgets/threshold_picture.py (a test compares the two to the letter); `ticks` and `placed` are pure as well.
// `render` returns its clean-up. Where nothing is left of the window there is no point on the rule's line, and the
// words say so. A click into the picture is the window's slider by mouse; the slider is its form for the keyboard.

const ZONES = { nothing: "nothing left", reserve: "the reserve decides", ratio: "the ratio decides" };
const SMALLEST_SCALE = 524288;
const LARGEST_SCALE = 8388608;
const MILLION = 1_000_000;

// Where the window's slider stops: sizes that models are sold with, and the crossing (picked).
const WINDOWS = [
  16384, 32768, 65536, 98304, 128000, 160000, 200000, 262144, 327680, 400000, 524288, 1000000, 1048576, 2000000,
];

const millionths = (ratio) => Math.round(ratio * MILLION);

function layout(state) {
  const reserved = state.headroom + state.completion;
  const meets = state.ratio === 1 ? null : Math.ceil((reserved * MILLION) / (MILLION - millionths(state.ratio)));
  const scale = scaleOf(state, reserved, meets);
  const left = state.window > reserved;
  const verdict = left ? binds(state, state.window - reserved) : "nothing";
  const trigger = left ? pressureAt(state, state.window) : null;
  const history = historyAt(state, state.window);
  const headline = headlineOf(state, verdict, trigger, reserved);
  const note = crossingNote(state, meets);
  return {
    scale, nothing_until: reserved, crossing: meets, verdict, trigger,
    zones: zonesOf(reserved, meets, scale),
    pressure: pressureLine(state, reserved, meets, scale),
    history: historyLine(state, scale),
    terms: termsOf(state, verdict, trigger, history, reserved),
    headline, crossing_note: note, sentence: `${headline}. ${note}.`,
  };
}

// Ratios are multiplied as whole millionths, so that 0.8 of 327,680 is 262,144 and not a hair more.
function binds(state, rest) {
  const byRatio = state.window * millionths(state.ratio);
  if (byRatio === rest * MILLION) return "both";
  return byRatio < rest * MILLION ? "ratio" : "reserve";
}

const pressureAt = (state, window) => Math.floor(
  Math.min((window * millionths(state.ratio)) / MILLION, window - state.headroom - state.completion));

function historyAt(state, window) {
  const budget = window - state.completion - state.fixed;
  return budget > 0 ? state.fixed + Math.ceil((budget * millionths(state.history_ratio)) / MILLION) : null;
}

function scaleOf(state, reserved, meets) {
  const seen = Math.max(state.window, reserved, Math.min(meets ?? 0, Math.floor((LARGEST_SCALE * 5) / 6)));
  let scale = SMALLEST_SCALE;
  while (5 * scale < 6 * seen) scale *= 2;
  return scale;
}

function zonesOf(reserved, meets, scale) {
  const turn = meets === null ? scale : Math.min(scale, meets);
  return [["nothing", 0, reserved], ["reserve", reserved, turn], ["ratio", turn, scale]]
    .filter(([, start, end]) => end > start)
    .map(([key, start, end]) => ({ key, label: ZONES[key], start, end }));
}

function pressureLine(state, reserved, meets, scale) {
  const corner = meets !== null && reserved < meets && meets < scale ? [meets] : [];
  return [[reserved, 0], ...[...corner, scale].map((window) => [window, pressureAt(state, window)])];
}

function historyLine(state, scale) {
  const end = historyAt(state, scale);
  return end === null ? [] : [[state.completion + state.fixed, state.fixed], [scale, end]];
}

function termsOf(state, verdict, trigger, history, reserved) {
  const window = fmt(state.window);
  const term = (key, text, tokens, decides) => ({ key, text, tokens, decides });
  return [
    term("pressure", "Window pressure: the smaller of the next two", trigger, verdict !== "nothing"),
    term("ratio", `The ratio: ${state.ratio} of ${window}`,
      Math.floor((state.window * millionths(state.ratio)) / MILLION), ["ratio", "both"].includes(verdict)),
    term("reserve", `The reserve: ${window} - ${fmt(state.completion)} completion - ${fmt(state.headroom)} headroom`,
      state.window - reserved, ["reserve", "both", "nothing"].includes(verdict)),
    term("history", `History ratio: ${state.history_ratio} of what is left for the history, and what stands before it`,
      history, history !== null),
  ];
}

function headlineOf(state, verdict, trigger, reserved) {
  const start = `At a window of ${fmt(state.window)}`;
  if (trigger === null) {
    return `${start} nothing is left: completion and headroom take ${fmt(reserved)}, and the rule never fires`;
  }
  const words = { ratio: "the ratio decides", reserve: "the reserve decides", both: "ratio and reserve agree" };
  return `${start} ${words[verdict]}: compress from ${fmt(trigger)} tokens of prompt`;
}

function crossingNote(state, meets) {
  if (meets === null) return "No crossing: with a ratio of 1 the reserve is always the smaller one";
  return `Crossing: (${fmt(state.headroom)} headroom + ${fmt(state.completion)} completion) / (1 - ${state.ratio}) `
    + `= ${fmt(meets)}; each token of completion moves it by ${slope(state.ratio)}`;
}

function slope(ratio) {
  const rest = MILLION - millionths(ratio);
  return String(Math.floor((200 * MILLION + rest) / (2 * rest)) / 100);
}

// Round numbers on an axis from 0 to `scale`, at most about `count` of them.
function ticks(scale, count) {
  const step = niceStep(scale, count);
  return Array.from({ length: Math.floor(scale / step) + 1 }, (_, index) => index * step);
}

const short = (tokens) => tokens >= MILLION ? `${tokens / MILLION}M` : tokens ? `${tokens / 1000}k` : "0";

const MARGIN = { left: 58, right: 14, top: 30, bottom: 46 };

// From tokens to pixels in a picture of this size, and back for a pointer.
function placed(scale, width, height) {
  const across = Math.max(1, width - MARGIN.left - MARGIN.right);
  const up = height - MARGIN.top - MARGIN.bottom;
  return {
    x: (tokens) => MARGIN.left + (across * tokens) / scale,
    y: (tokens) => height - MARGIN.bottom - (up * tokens) / scale,
    tokens: (pixels) => Math.min(scale, Math.max(0, ((pixels - MARGIN.left) * scale) / across)),
  };
}

const STATE = ["window", "ratio", "headroom", "completion", "history_ratio", "fixed"];
const RULES = ["ratio", "reserve", "history", "pressure"];
const MARKS = { nothing: "✕", reserve: "R", ratio: "%", both: "=" };

function render({ model, el: root }) {
  root.classList.add("ctx-widget", "ctx-thresholds");
  const state = () => Object.fromEntries(STATE.map((name) => [name, model.get(name)]));
  const link = bind(model, [...STATE, "caption", "claim"], () => draw());
  const title = el("h3", { class: "ctx-title" });
  const mark = el("span", { class: "ctx-threshold-icon", "aria-hidden": "true" });
  const words = el("span", { "data-part": "headline" });
  const verdict = el("p", { class: "ctx-threshold-verdict" }, mark, words);
  const plot = thresholdPlot((window) => link.set("window", window));
  const legend = termList();
  const note = el("p", { class: "ctx-crossing", "data-part": "crossing" });
  const panel = thresholdControls(link);
  const claim = claimPanel(model, link);
  const live = liveRegion();
  root.replaceChildren(el("section", { class: "ctx-card", "aria-label": "The trigger rules over the window's size" },
    title, verdict, plot.node, legend.node, note, panel.node, claim.node, live.node));

  function draw() {
    const now = state();
    const shown = layout(now);
    setText(title, model.get("caption"));
    verdict.dataset.verdict = shown.verdict;
    setText(mark, MARKS[shown.verdict]);
    setText(words, shown.headline);
    plot.draw(now, shown);
    legend.draw(shown);
    setText(note, `${shown.crossing_note}.`);
    panel.draw(now);
    claim.draw();
    live.say(shown.sentence);
  }
  const resize = new ResizeObserver(() => plot.fit());
  resize.observe(plot.node);
  draw();
  return () => { link.stop(); live.stop(); resize.disconnect(); };
}

function svgNode(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}

// The picture: three zones, both rules' lines, the crossing, and the window that is read off.
function thresholdPlot(onWindow) {
  const picture = svgNode("svg", { class: "ctx-plot", role: "img", height: 340 });
  const node = el("div", { class: "ctx-plot-frame" }, picture);
  const hatch = uniqueId("hatch");
  let last = null;
  let at = null;

  const point = (event) => {
    if (at === null || (event.type === "pointermove" && event.buttons !== 1)) return;
    const tokens = at.tokens(event.clientX - picture.getBoundingClientRect().left);
    const step = niceStep(last.shown.scale, 500);
    onWindow(Math.max(1, Math.round(tokens / step) * step));
  };
  picture.addEventListener("pointerdown", (event) => { picture.setPointerCapture(event.pointerId); point(event); });
  picture.addEventListener("pointermove", point);

  function draw(now, shown) {
    last = { now, shown };
    fit();
  }
  function fit() {
    const width = node.clientWidth;
    if (last === null || width === 0) return;
    const height = width < 720 ? 290 : 340;
    const { now, shown } = last;
    at = placed(shown.scale, width, height);
    picture.setAttribute("width", width);
    picture.setAttribute("height", height);
    picture.setAttribute("aria-label", shown.sentence);
    picture.replaceChildren(
      svgNode("defs", {}, hatchPattern(hatch)), ...zoneNodes(shown, at, height, hatch), ...axisNodes(shown, at, width, height),
      ...lineNodes(now, shown, at), ...crossingNodes(shown, at, height, width), ...probeNodes(now, shown, at, height, width));
  }
  return { node, draw, fit };
}

function hatchPattern(id) {
  return svgNode("pattern", { id, width: 8, height: 8, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svgNode("rect", { width: 8, height: 8, class: "ctx-hatch-ground" }),
    svgNode("rect", { width: 2.5, height: 8, class: "ctx-hatch-line" }));
}

function zoneNodes(shown, at, height, hatch) {
  const top = MARGIN.top;
  return shown.zones.flatMap((zone) => {
    const [x, end] = [at.x(zone.start), at.x(zone.end)];
    const rect = svgNode("rect", {
      x, y: top, width: Math.max(0, end - x), height: height - MARGIN.bottom - top, class: `ctx-zone ctx-zone-${zone.key}`,
      "data-zone": zone.key, ...(zone.key === "nothing" ? { fill: `url(#${hatch})` } : {}),
    });
    const room = end - x;
    if (room > zone.label.length * 7 + 8) return [rect, plotText((x + end) / 2, top + 18, zone.label, "ctx-zone-label")];
    if (room < 18) return [rect];
    const middle = (top + height - MARGIN.bottom) / 2;
    const text = plotText((x + end) / 2, middle, zone.label, "ctx-zone-label");
    text.setAttribute("transform", `rotate(-90 ${(x + end) / 2} ${middle}) translate(0 4)`);
    return [rect, text];
  });
}

function plotText(x, y, words, kind, anchor = "middle") {
  return svgNode("text", { x, y, class: kind, "text-anchor": anchor }, words);
}

function axisNodes(shown, at, width, height) {
  const base = height - MARGIN.bottom;
  const [left, right] = [MARGIN.left, width - MARGIN.right];
  const across = ticks(shown.scale, width < 720 ? 6 : 11).flatMap((tokens) => [
    svgNode("line", { x1: at.x(tokens), x2: at.x(tokens), y1: base, y2: base + 5, class: "ctx-axis" }),
    plotText(at.x(tokens), base + 19, short(tokens), "ctx-tick"),
  ]);
  const up = ticks(shown.scale, 6).flatMap((tokens) => [
    svgNode("line", { x1: left, x2: right, y1: at.y(tokens), y2: at.y(tokens), class: "ctx-grid" }),
    plotText(left - 8, at.y(tokens) + 4, short(tokens), "ctx-tick", "end"),
  ]);
  return [...up, ...across,
    svgNode("line", { x1: left, x2: right, y1: base, y2: base, class: "ctx-axis" }),
    plotText((left + right) / 2, height - 8, "size of the window, in tokens", "ctx-axis-title"),
    plotText(4, 18, "compress from (tokens of prompt)", "ctx-axis-title", "start")];
}

function lineNodes(now, shown, at) {
  const reserved = shown.nothing_until;
  const points = {
    ratio: [[0, 0], [shown.scale, pressureAt({ ...now, headroom: 0, completion: 0 }, shown.scale)]],
    reserve: [[reserved, 0], [shown.scale, shown.scale - reserved]],
    history: shown.history, pressure: shown.pressure,
  };
  return RULES.map((key) => svgNode("polyline", {
    points: points[key].map(([x, y]) => `${at.x(x).toFixed(1)},${at.y(y).toFixed(1)}`).join(" "),
    class: `ctx-line ctx-line-${key}`, "data-line": key,
  }));
}

function crossingNodes(shown, at, height, width) {
  if (shown.crossing === null || shown.crossing > shown.scale) return [];
  const x = at.x(shown.crossing);
  const y = at.y(shown.crossing - shown.nothing_until);
  const flip = x > width - 190;
  return [
    svgNode("line", { x1: x, x2: x, y1: MARGIN.top - 4, y2: height - MARGIN.bottom, class: "ctx-crossing-line" }),
    svgNode("rect", { x: x - 6, y: y - 6, width: 12, height: 12, class: "ctx-crossing-mark", transform: `rotate(45 ${x} ${y})` }),
    plotText(flip ? x - 7 : x + 7, MARGIN.top - 9, `crossing ${fmt(shown.crossing)}`, "ctx-crossing-label", flip ? "end" : "start"),
  ];
}

function probeNodes(now, shown, at, height, width) {
  const x = at.x(now.window);
  const base = height - MARGIN.bottom;
  const nodes = [
    svgNode("line", { x1: x, x2: x, y1: MARGIN.top, y2: base, class: "ctx-probe" }),
    svgNode("path", { d: `M${x - 8} ${base + 11} L${x + 8} ${base + 11} L${x} ${base} Z`, class: "ctx-probe-handle" }),
  ];
  const right = x < width - 150;
  const label = (y, words, kind) => {
    const box = words.length * 7.6 + 12;
    const from = right ? x + 10 : x - 10 - box;
    return [svgNode("rect", { x: from, y: y - 11, width: box, height: 22, rx: 4, class: `ctx-tag ${kind}` }),
      plotText(from + box / 2, y + 5, words, "ctx-tag-text")];
  };
  if (shown.trigger === null) return [...nodes, ...label(base - 20, "never fires", "ctx-tag-never")];
  const y = at.y(shown.trigger);
  return [...nodes, svgNode("circle", { cx: x, cy: y, r: 6, class: "ctx-probe-dot" }), ...label(Math.min(y + 18, base - 14), fmt(shown.trigger), "")];
}

// The lines in words, with their numbers at this window; what decides is bold and says so.
function termList() {
  const rows = Object.fromEntries(["pressure", "ratio", "reserve", "history"].map((key) => {
    const sample = svgNode("svg", { class: "ctx-sample", width: 42, height: 12, "aria-hidden": "true" },
      svgNode("line", { x1: 2, x2: 40, y1: 6, y2: 6, class: `ctx-line ctx-line-${key}` }));
    const [text, value] = [el("span", {}), el("span", { class: "ctx-term-value" })];
    const node = el("li", { class: "ctx-term", "data-term": key }, sample, text, value);
    return [key, { node, text, value }];
  }));
  const node = el("ul", { class: "ctx-terms" }, ...Object.values(rows).map((row) => row.node));
  return {
    node,
    draw(shown) {
      for (const term of shown.terms) {
        const row = rows[term.key];
        const decides = term.decides && ["ratio", "reserve"].includes(term.key);
        const note = shown.verdict === "nothing" ? "leaves nothing" : "decides";
        setText(row.text, decides ? `${term.text} (${note})` : term.text);
        setText(row.value, term.tokens === null ? "never" : fmt(term.tokens));
        row.node.classList.toggle("ctx-term-decides", decides || term.key === "pressure");
      }
    },
  };
}

function thresholdControls(link) {
  const make = (name, label, more) => control({ name, label, onInput: (value) => link.set(name, value), ...more });
  const controls = {
    window: make("window", "Window", { stops: WINDOWS, min: 1 }),
    ratio: make("ratio", "Threshold ratio", {
      unit: "percent of the window", min: 1, max: 99, step: 1,
      onInput: (value) => link.set("ratio", Math.min(100, Math.max(1, value)) / 100),
    }),
    headroom: make("headroom", "Headroom", { max: 131072, step: 1024 }),
    completion: make("completion", "Completion reserve", { max: 131072, step: 1024 }),
  };
  const node = el("div", { class: "ctx-threshold-controls" }, ...Object.values(controls).map((item) => item.node));
  return {
    node,
    draw(state) {
      controls.window.set(state.window, "");
      controls.ratio.set(Math.round(state.ratio * 100), "%");
      for (const name of ["headroom", "completion"]) controls[name].set(state[name], percent(state[name], state.window));
    },
  };
}

// The published sentence, to be judged: feedback for each judgement.
function claimPanel(model, link) {
  const options = model.get("options");
  const texts = Object.fromEntries(options.map((option, index) => [index, option.text]));
  const group = choice({ name: "claim", label: "Your judgement", options: texts, onInput: (value) => link.set("claim", Number(value)) });
  const icon = el("span", { class: "ctx-claim-icon", "aria-hidden": "true" });
  const words = el("span", { "data-part": "claim-feedback" });
  const feedback = el("p", { class: "ctx-claim-feedback" }, icon, words);
  const node = el("div", { class: "ctx-claim" },
    el("p", { class: "ctx-claim-head" }, "A lesson was published with this sentence. Is it right?"),
    el("blockquote", { class: "ctx-claim-quote" }, model.get("published")), group.node, feedback);
  return {
    node,
    draw() {
      const option = options[model.get("claim")];
      group.set(String(model.get("claim")));
      feedback.hidden = option === undefined;
      if (option === undefined) return;
      feedback.dataset.mood = option.right ? "right" : "wrong";
      setText(icon, option.right ? "✓" : "↺");
      setText(words, `${option.right ? "Yes." : "Not quite."} ${option.feedback}`);
    },
  };
}

export { layout, placed, ticks };
export default { render };
