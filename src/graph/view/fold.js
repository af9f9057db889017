// fold.js - what a large graph is folded into. All groups are intervals of the topological order, so that what is
// left after folding has no circle. A shape says what an interval consists of, relative to its beginning:
//   {items: [{at, length} | {at, length, period, times, body} | {at, length, inner}]}
// an operation, or `times` repetitions of a body of `period` operations, or a section: just a part of a long list.
// Time is n log n: a fixed number of passes per level, and a body is at most a third of what it repeats in.

const FOLD_FROM = 48;     // operations: smaller graphs are shown as they are
const RUN_FROM = 20;      // operations: shorter repetitions are shown as they are
const MANY_SOURCES = 8;   // constants: more of them are a section in a graph that is long
const LONG_LIST = 600;    // items: longer lists are cut into sections
const CANDIDATES = 12;    // periods tried for each length of a window

// A number for each operation, equal for those that look alike: name, attributes, types, part.
function symbolsOf(model) {
  const numbers = new Map();
  const symbols = new Int32Array(model.size);
  model.ops.forEach((op, i) => {
    let text = `${op.op}|${model.classes[i]}`;
    if (op.attrs !== undefined && !model.isTape) text += JSON.stringify(op.attrs);
    for (const id of op.inputs) text += `;${model.values[id].type}`;
    for (const id of op.outputs) text += `>${model.values[id].type}`;
    let number = numbers.get(text);
    if (number === undefined) numbers.set(text, number = numbers.size);
    symbols[i] = number;
  });
  return symbols;
}

// Periods worth a try: the distances at which windows of some length are most often seen again.
function candidatePeriods(symbols, lo, hi) {
  const periods = new Set();
  for (let window = 1; window <= 64 && window <= (hi - lo) / 2; window *= 4) {
    let power = 1, hash = 0;
    for (let k = 1; k < window; ++k) power = Math.imul(power, 0x01000193);
    const last = new Map(), counts = new Map();
    for (let i = lo; i < hi; ++i) {
      if (i - lo >= window) hash = (hash - Math.imul(symbols[i - window] + 1, power)) | 0;
      hash = (Math.imul(hash, 0x01000193) + symbols[i] + 1) | 0;
      if (i - lo + 1 < window) continue;
      const before = last.get(hash);
      if (before !== undefined) counts.set(i - before, (counts.get(i - before) || 0) + 1);
      last.set(hash, i);
    }
    [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, CANDIDATES).forEach(([period]) => periods.add(period));
  }
  return [...periods].sort((a, b) => a - b);
}

// Repetitions in [lo, hi), those that save most first, without overlap.
function findRuns(symbols, lo, hi) {
  const worth = (run) => {
    const times = Math.floor((run.end - run.start) / run.period);
    return times >= 3 && times * run.period >= RUN_FROM ? (times - 1) * run.period : 0;
  };
  const runs = [];
  for (const period of candidatePeriods(symbols, lo, hi)) {
    for (let i = lo; i + period < hi; ++i) {
      if (symbols[i] !== symbols[i + period]) continue;
      const start = i;
      while (i + period < hi && symbols[i] === symbols[i + period]) ++i;
      const run = {start, end: i + period, period};
      if (worth(run) > 0) runs.push(run);
    }
  }
  runs.sort((a, b) => worth(b) - worth(a) || a.period - b.period || a.start - b.start);
  const taken = new Uint8Array(hi - lo);
  const chosen = [];
  for (const run of runs) {
    if (worth(run) === 0) break;
    while (run.start < run.end && taken[run.start - lo]) ++run.start;
    let end = run.start;
    while (end < run.end && !taken[end - lo]) ++end;
    run.end = end;
    if (worth(run) === 0) continue;
    const times = Math.floor((run.end - run.start) / run.period);
    taken.fill(1, run.start - lo, run.start - lo + times * run.period);
    chosen.push({start: run.start, times, period: run.period});
  }
  return chosen.sort((a, b) => a.start - b.start);
}

// Cuts a long list of items into sections of about the square root of its length; `part(item)` says where a
// section must end because something else begins.
function sectioned(items, part) {
  if (items.length <= LONG_LIST) return items;
  const size = Math.ceil(Math.sqrt(items.length * 2));
  const sections = [];
  let from = 0;
  for (let i = 1; i <= items.length; ++i) {
    if (i < items.length && i - from < size && part(items[i]) === part(items[from])) continue;
    const first = items[from], last = items[i - 1];
    if (i - from === 1) {
      sections.push(first);
    } else {
      const inner = items.slice(from, i).map((item) => ({...item, at: item.at - first.at}));
      sections.push({at: first.at, length: last.at + last.length - first.at, inner: {items: inner}});
    }
    from = i;
  }
  return sections;
}

// The shape of a whole graph.
function shapeOf(model) {
  const whole = {items: []};
  const symbols = model.size >= FOLD_FROM ? symbolsOf(model) : null;
  const work = [{shape: whole, lo: model.sources, hi: model.size, flat: symbols === null}];
  while (work.length > 0) {
    const {shape, lo, hi, flat} = work.pop();
    const items = [];
    let at = lo;
    const plain = (end) => { for (; at < end; ++at) items.push({at: at - lo, length: 1}); };
    for (const run of flat || hi - lo < RUN_FROM ? [] : findRuns(symbols, lo, hi)) {
      plain(run.start);
      const body = {items: []};
      work.push({shape: body, lo: run.start, hi: run.start + run.period, flat: false});
      items.push({at: run.start - lo, length: run.times * run.period, period: run.period, times: run.times, body});
      at = run.start + run.times * run.period;
    }
    plain(hi);
    shape.items = sectioned(items, (item) => model.classes[lo + item.at] >= LINEAR);
  }
  const sources = Array.from({length: model.sources}, (unused, at) => ({at, length: 1}));
  for (const item of whole.items) item.at += model.sources;
  whole.items.unshift(...(sources.length > MANY_SOURCES && model.size > LONG_LIST ? [{at: 0, length: sources.length, inner: {items: sectioned(sources, () => 0)}}] : sources));
  return whole;
}

// The repetitions of a run as items, each of which has the body's shape.
function repetitions(item) {
  const items = [];
  for (let k = 0; k < item.times; ++k) {
    const at = k * item.period;
    if (item.period === 1) items.push({at, length: 1});
    else items.push({at, length: item.period, number: k, times: item.times, inner: item.body});
  }
  return sectioned(items, () => 0);
}
