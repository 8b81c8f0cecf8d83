// MessagePath: a message's way from input to log and back, as a map of stations with the loop in its middle.
//
// Reads and writes the traits station and path; reads walks (per path the stations, with their words and data, as
// ctxlab/widgets/message_stations.py made them) and caption. `mapOf` is pure: a width in, every box and arrow out.
// `render` returns its clean-up. A walk without stations shows the heading alone.

// Column and row of each station. Input to model on top, the tools' loop below it, the way out at the bottom.
const PLACES = {
  input: [0, 0], log: [1, 0], check: [2, 0], compress: [3, 0], request: [4, 0], validate: [5, 0], model: [6, 0],
  tools: [5, 1], results: [4, 1],
  reply: [6, 2], kept: [5, 2], recover: [4, 2], fork: [3, 2],
};
const COLUMNS = 7;
const ROWS = 3;

// Arrows as [from, to]; `kind` says how the arrow runs: straight, down and across, or the loop back up.
const ARROWS = [
  ["input", "log"], ["log", "check"], ["check", "compress"], ["compress", "request"], ["request", "validate"],
  ["validate", "model"], ["model", "tools", "turn"], ["tools", "results"], ["results", "check", "loop"],
  ["model", "reply", "down"], ["reply", "kept"], ["kept", "recover"], ["recover", "fork"], ["fork", "check", "again"],
];
const PATHS = { short: "below the trigger", long: "over the trigger" };

function mapOf(width) {
  const gap = width < 760 ? 8 : 18;
  const high = width < 760 ? 58 : 74;
  const down = 34;
  const wide = Math.floor((width - 4 - gap * (COLUMNS - 1)) / COLUMNS);
  const boxes = Object.fromEntries(Object.entries(PLACES).map(([key, [column, row]]) => [key, {
    x: 2 + column * (wide + gap), y: 2 + row * (high + down), w: wide, h: high,
  }]));
  const arrows = ARROWS.map(([from, to, kind = "straight"]) => ({
    from, to, kind, d: ROUTES[kind](boxes[from], boxes[to], down),
  }));
  return { width, height: 4 + ROWS * high + (ROWS - 1) * down, boxes, arrows };
}

const ROUTES = {
  straight(a, b) {
    const y = a.y + a.h / 2;
    return b.x > a.x ? `M${a.x + a.w} ${y} H${b.x - 1}` : `M${a.x} ${y} H${b.x + b.w + 1}`;
  },
  // From the model's foot down, and into the right side of the tools.
  turn(a, b) {
    const y = b.y + b.h / 2;
    return `M${a.x + a.w * 0.35} ${a.y + a.h} V${y} H${b.x + b.w + 1}`;
  },
  // From the left side of the results back, and up into the check.
  loop(a, b) { return `M${a.x} ${a.y + a.h / 2} H${b.x + b.w * 0.65} V${b.y + b.h + 1}`; },
  down(a, b) { return `M${a.x + a.w * 0.7} ${a.y + a.h} V${b.y - 1}`; },
  again(a, b) { return `M${a.x} ${a.y + a.h / 2} H${b.x + b.w * 0.35} V${b.y + b.h + 1}`; },
};

function render({ model, el: root }) {
  root.classList.add("ctx-widget", "ctx-path");
  const link = bind(model, ["station", "path", "walks", "caption"], () => draw());
  const stations = () => model.get("walks")[model.get("path")] ?? [];
  const go = (place) => link.set("station", Math.min(stations().length - 1, Math.max(0, place)));
  const title = el("h3", { class: "ctx-title" });
  const paths = choice({ name: "path", label: "The history is", options: PATHS, onInput: (value) => link.set("path", value) });
  const map = stationMap(stations(), go);
  const bar = stepBar(go, () => model.get("station"));
  const detail = stationDetail();
  const live = liveRegion();
  root.replaceChildren(el("section", { class: "ctx-card", "aria-label": "The way of a message" },
    el("div", { class: "ctx-path-head" }, title, paths.node), map.node, bar.node, detail.node, live.node));

  function draw() {
    const here = Math.min(model.get("station"), stations().length - 1);
    setText(title, model.get("caption"));
    paths.set(model.get("path"));
    if (here < 0) return;
    const shown = stations()[here];
    map.draw(stations(), here);
    bar.draw(here, stations().length, shown);
    detail.draw(shown);
    live.say(`Station ${here + 1} of ${stations().length}: ${shown.title}. ${shown.what}`);
  }
  const resize = new ResizeObserver(() => map.fit());
  resize.observe(map.node);
  draw();
  return () => { link.stop(); live.stop(); resize.disconnect(); };
}

const vector = (tag, attributes) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  return node;
};

// The map: one button a station, of which one is in the tab order (arrow keys go on from it), and the arrows below.
function stationMap(stations, go) {
  const head = uniqueId("arrow");
  const lines = vector("svg", { class: "ctx-path-arrows", "aria-hidden": "true" });
  const letter = el("span", { class: "ctx-letter", "aria-hidden": "true" }, "✉");
  const again = el("span", { class: "ctx-loop-note", "aria-hidden": "true" }, "until no tool is called");
  const buttons = stations.map((station, index) => stationButton(station, index, go));
  const node = el("div", { class: "ctx-path-map", role: "group", "aria-label": "Stations" },
    lines, again, ...buttons.map((item) => item.node), letter);
  let now = { here: 0, stations };

  node.addEventListener("keydown", (event) => {
    const last = now.stations.length - 1;
    const to = { ArrowRight: now.here + 1, ArrowLeft: now.here - 1, ArrowDown: now.here + 1, ArrowUp: now.here - 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    go(to);
    buttons[Math.min(last, Math.max(0, to))].node.focus();
  });

  function draw(shown, here) {
    now = { here, stations: shown };
    buttons.forEach((item, index) => item.draw(shown[index], index - here));
    fit();
  }
  function fit() {
    const width = node.clientWidth;
    if (width === 0) return;
    const map = mapOf(width);
    node.style.height = `${map.height}px`;
    node.classList.toggle("ctx-path-small", width < 760);
    now.stations.forEach((station, index) => buttons[index].place(map.boxes[station.key]));
    const passed = new Set(now.stations.slice(0, now.here + 1).map((station) => station.key));
    lines.replaceChildren(arrowHead(head, ""), arrowHead(`${head}-on`, "on"), ...map.arrows.map((arrow) => {
      const on = passed.has(arrow.from) && passed.has(arrow.to) && (arrow.kind !== "again") && (arrow.kind !== "loop" || passed.has("reply"));
      return vector("path", {
        d: arrow.d, class: `ctx-arrow ctx-arrow-${arrow.kind}${on ? " ctx-arrow-on" : ""}`, "marker-end": `url(#${head}${on ? "-on" : ""})`,
      });
    }));
    const { check, results } = map.boxes;
    again.style.left = `${check.x + check.w}px`;
    again.style.width = `${results.x - check.x - check.w}px`;
    again.style.top = `${results.y + results.h / 2 - 4}px`;
    const box = map.boxes[now.stations[now.here].key];
    letter.style.transform = `translate(${box.x + box.w - 19}px, ${box.y - 9}px)`;
  }
  return { node, draw, fit };
}

function arrowHead(id, kind) {
  const marker = vector("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 10, markerHeight: 10, markerUnits: "userSpaceOnUse", orient: "auto" });
  marker.append(vector("path", { d: "M0 0 L8 4 L0 8 Z", class: `ctx-arrow-head ${kind ? "ctx-arrow-head-on" : ""}` }));
  return marker;
}

function stationButton(station, index, go) {
  const name = el("span", { class: "ctx-station-name" }, el("span", { class: "ctx-station-number" }, `${index + 1} `), station.name);
  const hint = el("span", { class: "ctx-station-function" });
  const node = el("button", { type: "button", class: "ctx-station", "data-station": station.key, ...KEEP_KEYS }, name, hint);
  node.addEventListener("click", () => go(index));
  return {
    node,
    place(box) {
      Object.assign(node.style, { left: `${box.x}px`, top: `${box.y}px`, width: `${box.w}px`, height: `${box.h}px` });
    },
    draw(shown, ahead) {
      setText(hint, shown.skipped ? "not needed" : shown.functions[0] ?? "");
      node.classList.toggle("ctx-station-skipped", shown.skipped);
      node.classList.toggle("ctx-station-passed", ahead < 0);
      node.tabIndex = ahead === 0 ? 0 : -1;
      if (ahead === 0) node.setAttribute("aria-current", "step"); else node.removeAttribute("aria-current");
    },
  };
}

function stepBar(go, place) {
  const back = el("button", { type: "button", class: "ctx-step", "data-step": "back", ...KEEP_KEYS }, "◀ Back");
  const next = el("button", { type: "button", class: "ctx-step ctx-step-main", "data-step": "next", ...KEEP_KEYS }, "Next station ▶");
  back.addEventListener("click", () => go(place() - 1));
  next.addEventListener("click", () => go(place() + 1));
  const count = el("span", { class: "ctx-path-count", "data-part": "count" });
  const weight = el("span", { class: "ctx-path-weight", "data-part": "weight" });
  return {
    node: el("div", { class: "ctx-path-bar" }, back, next, count, weight),
    draw(here, all, shown) {
      // Not `disabled`: that would throw the focus away when the last station is reached.
      back.setAttribute("aria-disabled", String(here === 0));
      next.setAttribute("aria-disabled", String(here === all - 1));
      setText(count, `Station ${here + 1} of ${all}`);
      setText(weight, `the history here: ${fmt(shown.messages)} messages, ${fmt(shown.tokens)} tokens`);
    },
  };
}

function stationDetail() {
  const title = el("h4", { class: "ctx-path-title", "data-part": "title" });
  const what = el("p", { class: "ctx-path-what", "data-part": "what" });
  const functions = el("span", { "data-part": "functions" });
  const links = el("span", { "data-part": "links" });
  const caption = el("p", { class: "ctx-path-caption", "data-part": "caption" });
  const data = el("pre", { class: "ctx-path-data", "data-part": "data" });
  const node = el("div", { class: "ctx-path-detail" },
    el("div", { class: "ctx-path-words" }, title, what,
      el("dl", { class: "ctx-path-facts" }, el("dt", {}, "Who does it"), el("dd", {}, functions), el("dt", {}, "Where you learn it"), el("dd", {}, links))),
    el("div", { class: "ctx-path-sample" }, caption, data));
  return {
    node,
    draw(shown) {
      setText(title, shown.title);
      setText(what, shown.what);
      functions.replaceChildren(...(shown.functions.length
        ? shown.functions.map((name) => el("code", {}, name)) : ["the person, and your program's front end"]));
      links.replaceChildren(...shown.links.map(anchor));
      setText(caption, `What it looks like: ${shown.caption}`);
      setText(data, shown.data);
    },
  };
}

// A link as the host can follow it: JupyterLab opens the notebook in a tab of its own page by its command attribute.
function anchor({ text, href }) {
  if (!href) return el("span", { class: "ctx-path-link" }, text);
  const here = decodeURIComponent(location.pathname).match(/\/lab\/(?:workspaces\/[^/]+\/)?tree\/(.*\/)?[^/]*$/);
  const path = here ? new URL(href, `file:///${here[1] ?? ""}x`).pathname.slice(1) : null;
  const command = path === null ? {} : {
    "data-commandlinker-command": "docmanager:open", "data-commandlinker-args": JSON.stringify({ path: decodeURIComponent(path) }),
  };
  return el("a", { class: "ctx-path-link", href, target: "_blank", rel: "noopener", ...command, ...KEEP_KEYS }, text);
}

export { mapOf };
export default { render };
