"use strict";
// What a page can do beyond being read: filter, sort, keys, theme, copying, timelines. Without it nothing is lost but
// the timelines.
(() => {
const root = document.documentElement;
root.classList.add("script");
const one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));

// Theme: the system's, unless somebody chose.
const themes = ["auto", "light", "dark"];
const theme = {
  get() { try { return localStorage.getItem("selvedge-theme") || "auto"; } catch { return root.dataset.theme || "auto"; } },
  set(name) {
    if (name === "auto") delete root.dataset.theme; else root.dataset.theme = name;
    try { localStorage.setItem("selvedge-theme", name); } catch { /* a page from disk may have no storage */ }
    one("#theme span").textContent = name;
  },
  next() { this.set(themes[(themes.indexOf(one("#theme span").textContent) + 1) % themes.length]); },
};
theme.set(themes.includes(theme.get()) ? theme.get() : "auto");
one("#theme").addEventListener("click", () => theme.next());

// Filter and sort.
const findings = all(".finding");
const groups = all(".group").map(section => ({ section, items: all(".finding", section) }));
const text = new Map(findings.map(item => [item, item.textContent.toLowerCase()]));
function filter() {
  const words = one("#search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const kind = one("#kind").value, status = one("#status").value;
  let shown = 0;
  for (const item of findings) {
    const fits = (!kind || item.dataset.kind === kind) && (!status || item.dataset.status === status)
      && words.every(word => text.get(item).includes(word));
    item.hidden = !fits;
    shown += fits;
  }
  for (const { section, items } of groups) if (items.length) section.hidden = items.every(item => item.hidden);
  one("#count").textContent = shown === findings.length ? "" : `${shown} of ${findings.length}`;
}
function sort() {
  const by = one("#sort").value;
  for (const { section, items } of groups) {
    const sorted = by ? [...items].sort((a, b) =>
      by === "weight" ? a.dataset.weight - b.dataset.weight : a.dataset[by].localeCompare(b.dataset[by])) : items;
    for (const item of sorted) section.append(item);
  }
}
if (one("#search")) {
  for (const id of ["#search", "#kind", "#status"]) one(id).addEventListener("input", filter);
  one("#sort").addEventListener("input", sort);
  one(".filter").addEventListener("submit", event => event.preventDefault());
}

// Copying. A page from disk has no clipboard of its own everywhere: the text is then selected.
for (const button of all(".copy")) button.addEventListener("click", async () => {
  const code = one("code", button.parentElement);
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(code);
    button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1600);
});

// Keys.
const help = one("#help");
one("#help-button").addEventListener("click", () => help.showModal());
let current = null;
function go(step) {
  const order = all(".finding").filter(item => !item.hidden);
  if (!order.length) return;
  const at = order.indexOf(current);
  const next = order[Math.min(order.length - 1, Math.max(0, at < 0 ? (step > 0 ? 0 : order.length - 1) : at + step))];
  if (current) current.classList.remove("current");
  current = next;
  next.classList.add("current");
  one("summary", next).focus({ preventScroll: true });
  next.scrollIntoView({ block: next.offsetHeight > innerHeight ? "start" : "nearest" });
}
document.addEventListener("keydown", event => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (typing) { if (event.key === "Escape") event.target.blur(); return; }
  if (help.open) { if (event.key === "?") help.close(); return; }
  const keys = { j: () => go(1), k: () => go(-1), d: () => theme.next(), "?": () => help.showModal(),
    "/": () => one("#search") && one("#search").focus() };
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
});

// A link to a finding opens it; print has all of them.
function follow() {
  const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  if (target && target.matches(".finding")) { target.open = true; target.scrollIntoView(); }
}
addEventListener("hashchange", follow);
addEventListener("beforeprint", () => findings.forEach(item => { item.dataset.was = item.open; item.open = true; }));
addEventListener("afterprint", () => findings.forEach(item => { item.open = item.dataset.was === "true"; }));

// Timelines.
const NS = "http://www.w3.org/2000/svg";
const el = (name, attributes = {}, content) => {
  const made = document.createElementNS(NS, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (content !== undefined) made.textContent = content;
  return made;
};
const div = (name, content) => {
  const made = document.createElement("div");
  made.className = name;
  if (content !== undefined) made.textContent = content;
  return made;
};
class Timeline {
  constructor(figure) {
    this.figure = figure;
    this.tip = `tip-${Timeline.count = (Timeline.count || 0) + 1}`;
    const data = JSON.parse(one("script", figure).textContent);
    const say = number => data.s[number];
    this.threads = data.t.map(([number, name]) => ({ number, name, levels: 0 }));
    this.events = data.e.map(([number, thread, what, value, place, fn, mark, gap]) =>
      ({ number, thread, what: say(what), value: say(value), place: say(place), fn: say(fn), mark, gap }));
    this.arrows = data.a;
    this.locks = data.l.map(([thread, from, to, name]) => ({ thread, from, to, name: say(name) }));
    this.waits = data.w.map(([thread, what]) => ({ thread, what: say(what) }));
    this.stack();
    this.build();
    this.focusMarks();
  }
  // Lock spans of a thread that overlap lie below each other.
  stack() {
    for (const thread of this.threads) thread.ends = [];
    for (const lock of this.locks) {
      const { ends } = this.threads[lock.thread];
      const to = lock.to < 0 ? Infinity : lock.to;
      let level = ends.findIndex(end => end < lock.from);
      if (level < 0) level = ends.length;
      ends[level] = to;
      lock.level = Math.min(level, 3);
    }
    let y = 8;
    for (const thread of this.threads) {
      thread.y = y + 26;
      thread.height = 50 + 14 * Math.min(thread.ends.length, 4);
      y += thread.height;
    }
    this.height = y + 6;
  }
  build() {
    const bench = div("bench"), names = div("names");
    for (const thread of this.threads) {
      const name = div(`t${thread.number % 6}`, thread.name);
      name.style.height = `${thread.height}px`;
      name.style.lineHeight = "52px";
      name.title = thread.name;
      names.append(name);
    }
    this.view = div("view");
    this.view.tabIndex = 0;
    this.view.setAttribute("role", "application");
    this.view.setAttribute("aria-label", `Timeline of ${this.events.length} events; arrow keys step, plus and minus zoom`);
    this.svg = el("svg", { height: this.height });
    this.view.append(this.svg);
    bench.append(names, this.view);
    const controls = div("controls");
    const button = (label, title, act) => {
      const made = document.createElement("button");
      made.type = "button";
      made.textContent = label;
      made.title = title;
      made.setAttribute("aria-label", title);
      made.addEventListener("click", act);
      controls.append(made);
      return made;
    };
    button("−", "Zoom out", () => this.zoom(1 / 1.5)).classList.add("out");
    button("+", "Zoom in", () => this.zoom(1.5)).classList.add("in");
    button("Fit", "The whole run", () => this.fit()).classList.add("fit");
    button("Bug", "The events of the bug", () => this.focusMarks()).classList.add("bug");
    this.told = div("told");
    this.told.setAttribute("aria-live", "polite");
    controls.append(this.told);
    this.figure.prepend(bench, controls);
    this.view.addEventListener("keydown", event => this.key(event));
    this.view.addEventListener("wheel", event => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, event.clientX - this.view.getBoundingClientRect().left);
    }, { passive: false });
    this.svg.addEventListener("pointerover", event => this.over(event));
    this.svg.addEventListener("click", event => this.over(event));
    this.told.textContent = "Point at an event, or step with the arrow keys.";
  }
  width() { return Math.max(this.view.clientWidth, 200); }
  x(at) { return 16 + at * this.step; }
  draw() {
    const { svg } = this;
    const labels = this.step >= 84;
    const after = labels ? this.step : 14;
    const end = this.x(this.events.length - 1) + after + (this.waits.length ? 190 : 24);
    const width = Math.max(end, this.width());
    svg.setAttribute("width", width);
    svg.dataset.step = this.step.toFixed(2);
    svg.replaceChildren();
    const defs = el("defs");
    const tip = el("marker", { id: this.tip, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, markerUnits: "userSpaceOnUse", orient: "auto", class: "tl-tip" });
    tip.append(el("path", { d: "M0 0L8 4L0 8z" }));
    defs.append(tip);
    svg.append(defs);
    for (const thread of this.threads) svg.append(el("line", { class: "tl-lane", x1: 0, x2: width, y1: thread.y, y2: thread.y }));
    this.events.forEach((event, at) => {
      if (event.gap) svg.append(el("line", { class: "tl-gap", x1: this.x(at - .5), x2: this.x(at - .5), y1: 4, y2: this.height - 4 }));
    });
    for (const lock of this.locks) {
      const thread = this.threads[lock.thread];
      const from = this.x(lock.from), to = lock.to < 0 ? width : this.x(lock.to);
      const y = thread.y + 12 + lock.level * 14;
      const bar = el("rect", { class: `tl-lock t${thread.number % 6}${lock.to < 0 ? " never" : ""}`, x: from, y, width: Math.max(to - from, 3), height: 10, rx: 3 });
      bar.append(el("title", {}, `T${thread.number} holds ${lock.name}${lock.to < 0 ? ", and never gives it back" : ""}`));
      svg.append(bar);
      if (to - from > lock.name.length * 6.2 + 10) svg.append(el("text", { class: "tl-lock-name", x: from + 5, y: y + 8.5 }, lock.name));
    }
    this.paths = this.arrows.map(([from, to]) => {
      const a = this.events[from], b = this.events[to];
      const [x1, y1, x2, y2] = [this.x(from), this.threads[a.thread].y, this.x(to), this.threads[b.thread].y];
      const down = y2 > y1 ? 1 : -1;
      const bend = Math.max(12, Math.min(60, (x2 - x1) / 2));
      const path = el("path", { class: "tl-arrow", "marker-end": `url(#${this.tip})`, d: `M${x1} ${y1 + 6 * down}C${x1 + bend} ${y1 + 24 * down} ${x2 - bend} ${y2 - 24 * down} ${x2 - 1} ${y2 - 7 * down}` });
      svg.append(path);
      return path;
    });
    this.at = el("line", { class: "tl-at", y1: 2, y2: this.height - 2, visibility: "hidden" });
    svg.append(this.at);
    const size = Math.max(2.2, Math.min(5, this.step / 3));
    this.events.forEach((event, at) => {
      const thread = this.threads[event.thread];
      const x = this.x(at), y = thread.y;
      const group = el("g", { class: `t${thread.number % 6}`, "data-at": at });
      const is = word => event.what.startsWith(word);
      const solid = !(is("read") || is("atomic load"));
      if (is("read") || is("write") || is("atomic") || is("update")) {
        group.append(el("circle", { class: `tl-event${solid ? " solid" : ""}`, cx: x, cy: y, r: size }));
      } else {
        group.append(el("rect", { class: `tl-event${is("lock") || is("trylock") || is("wait") ? " solid" : ""}`, x: x - size * .85, y: y - size * .85, width: size * 1.7, height: size * 1.7, rx: 1 }));
      }
      if (event.mark) {
        group.append(el("circle", { class: "tl-mark", cx: x, cy: y, r: size + 4 }));
        group.append(el("text", { class: "tl-number", x: x - 3.5, y: y - size - 8 - (labels ? 10 : 0) }, event.mark));
      }
      if (labels) {
        const most = Math.floor(this.step / 6.7) - 1;
        const label = `${event.what} ${event.value}`.trim();
        group.append(el("text", { x: x - 3, y: y - size - 6 }, label.length > most ? label.slice(0, most - 1) + "…" : label));
      }
      const reach = Math.max(this.step, 4);
      group.append(el("rect", { class: "tl-hit", x: x - reach / 2, y: y - 20, width: reach, height: 40 }));
      svg.append(group);
    });
    for (const wait of this.waits) {
      const thread = this.threads[wait.thread];
      let last = 0;
      this.events.forEach((event, at) => { if (event.thread === wait.thread) last = at; });
      svg.append(el("line", { class: "tl-wait-line", x1: this.x(last) + 8, x2: width, y1: thread.y, y2: thread.y }));
      svg.append(el("text", { class: "tl-wait", x: this.x(this.events.length - 1) + after, y: thread.y - 8 }, wait.what));
    }
    if (this.selected !== undefined) this.select(this.selected, false);
  }
  setStep(step, around) {
    const least = Math.min(6, (this.width() - 40) / Math.max(1, this.events.length));
    this.step = Math.max(least, Math.min(220, step));
    this.draw();
    if (around !== undefined) this.view.scrollLeft = this.x(around) - this.width() / 2;
  }
  zoom(by, at = this.width() / 2) {
    const event = (this.view.scrollLeft + at - 16) / this.step;
    this.setStep(this.step * by);
    this.view.scrollLeft = this.x(event) - at;
  }
  fit() { this.setStep((this.width() - 40 - (this.waits.length ? 180 : 0)) / Math.max(1, this.events.length - 1)); this.view.scrollLeft = 0; }
  focusMarks() {
    const marks = this.events.flatMap((event, at) => event.mark ? [at] : []);
    if (this.waits.length) marks.push(this.events.length - 1);
    if (!marks.length) { this.fit(); return; }
    const [first, last] = [Math.min(...marks), Math.max(...marks)];
    const room = this.width() - (this.waits.length ? 260 : 0);
    this.setStep(Math.min(104, room / (last - first + 3)), (first + last) / 2);
    if (this.waits.length) this.view.scrollLeft = this.svg.clientWidth - this.width();
  }
  over(event) {
    const group = event.target.closest("g[data-at]");
    if (group) this.select(Number(group.dataset.at), true);
  }
  select(at, tell) {
    this.selected = at;
    const event = this.events[at];
    const x = this.x(at);
    this.at.setAttribute("x1", x);
    this.at.setAttribute("x2", x);
    this.at.setAttribute("visibility", "visible");
    this.arrows.forEach(([from, to], number) => this.paths[number].classList.toggle("lit", from === at || to === at));
    const rows = all(".sheet tr", this.figure.closest("article"));
    for (const row of rows) row.classList.toggle("lit", row.dataset.n === String(event.number));
    if (!tell) return;
    const strong = document.createElement("b");
    strong.textContent = `${event.what} ${event.value}`.trim();
    const where = [event.place, event.fn && `in ${event.fn}`].filter(Boolean).join(" ");
    this.told.replaceChildren(`#${event.number} T${this.threads[event.thread].number} `, strong, where ? ` · ${where}` : "");
  }
  key(event) {
    const step = by => {
      const at = Math.max(0, Math.min(this.events.length - 1, (this.selected ?? -1) + by));
      this.select(at, true);
      const x = this.x(at) - this.view.scrollLeft;
      if (x < 40 || x > this.width() - 40) this.view.scrollLeft = this.x(at) - this.width() / 2;
    };
    const keys = { ArrowRight: () => step(1), ArrowLeft: () => step(-1), "+": () => this.zoom(1.5), "=": () => this.zoom(1.5),
      "-": () => this.zoom(1 / 1.5), "0": () => this.fit() };
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
  }
}
// Drawn when first seen: a closed finding has no width to fit.
const drawn = new Map();
function drawIn(item) {
  for (const figure of all(".timeline", item)) if (!drawn.has(figure)) drawn.set(figure, new Timeline(figure));
}
for (const item of findings) {
  if (item.open) drawIn(item);
  item.addEventListener("toggle", () => { if (item.open) drawIn(item); });
}
let wide = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === wide) return;
  wide = innerWidth;
  for (const timeline of drawn.values()) if (timeline.view.clientWidth) timeline.draw();
});
follow();
})();
