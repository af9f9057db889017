// view.js - what the scripts of the page make of a graph, without a browser: node view.js FOLDER_OF_VIEW [PAGE...].
// Checks parts, folding, layout and finding on graphs made here, and that every PAGE's data can be laid out.
"use strict";
const fs = require("fs"), path = require("path"), vm = require("vm");

const [folder, ...pages] = process.argv.slice(2);
const sources = ["model", "parts", "fold", "scene", "layout", "draw"].map((name) => fs.readFileSync(path.join(folder, `${name}.js`), "utf8"));
const view = vm.runInNewContext(`${sources.join("\n")}
({Model, Scene, graphOfTape, shapeOf, layoutScene, describe, bytesText, PRIMAL, RESIDUAL, LINEAR, TRANSPOSED})`, {});

let failures = 0, checks = 0;
function check(condition, message) {
  ++checks;
  if (condition) return;
  ++failures;
  console.log(`FAILED: ${message}`);
}
const equal = (got, expected, message) => check(JSON.stringify(got) === JSON.stringify(expected), `${message}: expected ${JSON.stringify(expected)}, got ${JSON.stringify(got)}`);

// A graph from [op, operands...] lines; operands are numbers of values, inputs first.
function graph(inputs, lines, more = {}) {
  const values = inputs.map((name, id) => ({id, dtype: "f64", shape: [4], name}));
  const operations = lines.map(([op, ...operands]) => {
    values.push({id: values.length, dtype: "f64", shape: [4]});
    return {op, inputs: operands, outputs: [values.length - 1]};
  });
  return {name: "test", values, inputs: inputs.map((name, id) => id), operations, outputs: [values.length - 1], ...more};
}
const model = (dump) => new view.Model(dump, 0);

// k layers of sin, mul, add, each reading the one before and a weight.
function layers(k, body = ["sin", "mul", "exp", "mul", "tanh", "add", "cos", "mul"]) {
  const inputs = ["x", ...Array.from({length: k}, (unused, i) => `w${i}`)], lines = [];
  let last = 0;
  for (let i = 0; i < k; ++i)
    for (const op of body) {
      lines.push(op === "mul" || op === "add" ? [op, last, 1 + i] : [op, last]);
      last = inputs.length + lines.length - 1;
    }
  return graph(inputs, lines);
}
let seed = 7;
const random = (n) => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0, Math.floor(seed / 4294967296 * n));
function irregular(n) {
  const names = ["add", "sub", "mul", "max", "sin", "cos", "exp", "log", "tanh", "neg", "sqrt"], lines = [];
  for (let i = 0; i < n; ++i) {
    const name = names[random(names.length)], operand = () => Math.max(0, 3 + i - 1 - random(20));
    lines.push(name.length === 3 && "add sub mul max".includes(name) ? [name, operand(), operand()] : [name, operand()]);
  }
  return graph(["a", "b", "c"], lines);
}

// Every operation lies in exactly one item of each level.
function checkShape(shape, length, what) {
  const work = [[shape, length]];
  while (work.length > 0) {
    const [{items}, size] = work.pop();
    let at = 0;
    for (const item of items) {
      check(item.at === at, `${what}: item at ${item.at}, expected ${at}`);
      at += item.length;
      if (item.times !== undefined) {
        check(item.times * item.period === item.length, `${what}: ${item.times} times ${item.period} is not ${item.length}`);
        work.push([item.body, item.period]);
      } else if (item.inner !== undefined) {
        work.push([item.inner, item.length]);
      }
    }
    check(at === size, `${what}: items end at ${at} of ${size}`);
  }
}

const size = (node) => { node.w = 100 + node.lo % 7 * 10; node.h = 50; };

// Siblings do not overlap and lie in their group; edges are between visible nodes and there as often as needed.
function checkLayout(scene, what) {
  const {nodes, edges} = view.layoutScene(scene, 1.5, size);
  const groups = new Map();
  for (const node of nodes) {
    check(Number.isFinite(node.ax + node.ay + node.w + node.h), `${what}: a place that is no number`);
    if (node.parent === null) continue;
    const {parent} = node;
    check(node.ax >= parent.ax - 0.01 && node.ay >= parent.ay - 0.01 && node.ax + node.w <= parent.ax + parent.w + 0.01
      && node.ay + node.h <= parent.ay + parent.h + 0.01, `${what}: ${node.kind} ${node.lo} lies outside its group`);
    if (!groups.has(parent)) groups.set(parent, []);
    groups.get(parent).push(node);
  }
  for (const siblings of groups.values()) {
    siblings.sort((a, b) => a.ay - b.ay);
    siblings.forEach((a, i) => {
      for (let k = i + 1; k < siblings.length && siblings[k].ay < a.ay + a.h - 0.01; ++k) {
        const b = siblings[k];
        check(a.ax + a.w <= b.ax + 0.01 || b.ax + b.w <= a.ax + 0.01, `${what}: ${a.kind} ${a.lo} overlaps ${b.kind} ${b.lo}`);
      }
    });
  }
  const drawn = new Set(nodes);
  for (const edge of edges) check(drawn.has(edge.from) && drawn.has(edge.to) && edge.from !== edge.to, `${what}: an edge to what is not drawn`);
  return {nodes, edges};
}

{  // parts: by roles, seeds and origins
  const dump = graph(["x", "cotangent.0"], [["sin", 0], ["cos", 0], ["mul", 1, 3]]);
  dump.operations[1].origin = 0;
  Object.assign(dump.operations[2], {origin: 0, role: {linear: [true, false]}});
  const forth = model(dump);
  equal([...forth.classes], [view.PRIMAL, view.RESIDUAL, view.TRANSPOSED], "classes");
  equal(forth.residuals.list, [3], "residuals");
  equal([forth.residuals.bytes, forth.residuals.inputs], [32, 0], "bytes of residuals");
  equal([...forth.derived.of(0)], [1, 2], "what derives from sin");
  dump.values[1].name = "x.tangent";
  equal(model(dump).classes[2], view.LINEAR, "class with a tangent");
  dump.values[1].name = "other";
  equal(model(dump).classes[2], view.LINEAR, "class without a seed");
  equal(view.bytesText(32), "32 B", "bytes");
  equal(view.bytesText(3 << 20), "3.00 MiB", "MiB");
}

{  // folding
  const many = model(layers(1000)), shape = view.shapeOf(many);
  checkShape(shape, 8000, "1000 layers");
  equal(shape.items.map((item) => [item.times, item.period]), [[1000, 8]], "1000 layers");
  const small = view.shapeOf(model(layers(4)));
  equal(small.items.length, 32, "a small graph is not folded");
  const nested = [];  // steps of two kinds of repeated things
  for (let step = 0; step < 40; ++step) {
    for (let k = 0; k < 9; ++k) nested.push(["sin", nested.length], ["exp", nested.length + 1], ["neg", nested.length + 2]);
    nested.push(["tanh", nested.length], ["cos", nested.length + 1]);
  }
  const twice = view.shapeOf(model(graph(["x"], nested)));
  checkShape(twice, nested.length, "nested");
  equal(twice.items.map((item) => [item.times, item.period]), [[40, 29]], "steps");
  equal(twice.items[0].body.items.map((item) => [item.times, item.period]), [[9, 3], [undefined, undefined], [undefined, undefined]], "what repeats in a step");
  for (const n of [500, 5000, 20000]) {
    const shapeOfIrregular = view.shapeOf(model(irregular(n)));
    checkShape(shapeOfIrregular, n, `${n} irregular operations`);
    check(shapeOfIrregular.items.length <= 600, `${n} irregular operations are ${shapeOfIrregular.items.length} items`);
  }
  const chain = view.shapeOf(model(graph(["x"], Array.from({length: 20000}, (unused, i) => ["sin", i]))));
  checkShape(chain, 20000, "chain");
  equal(chain.items.length, 1, "a chain of one operation");
}

{  // layout and finding
  for (const [what, dump] of [["20", irregular(20)], ["500", irregular(500)], ["20000", irregular(20000)], ["layers", layers(1000)], ["empty", graph(["x"], [], {outputs: [0]})]]) {
    const scene = new view.Scene([model(dump)], 0);
    const {nodes} = checkLayout(scene, what);
    check(nodes.length < 1300, `${what}: ${nodes.length} nodes at first`);
    for (let i = 0; i < dump.operations.length; i += Math.ceil(dump.operations.length / 7)) {
      const node = scene.reveal(scene.root, "op", i);
      check(node !== null && node.kind === "op" && node.lo === i, `${what}: operation ${i} is not found`);
    }
    checkLayout(scene, `${what}, unfolded`);
    check(scene.reveal(scene.root, "input", dump.inputs.length - 1).kind === "input", `${what}: an input`);
  }
  // a graph in a graph: folded to one node, then drawn inside it, joined to its operands
  const outer = graph(["x"], [["sin", 0], ["call", 1], ["call", 2]]);
  for (const k of [1, 2]) outer.operations[k].attrs = {graph: {graph: 1}};
  const scene = new view.Scene([new view.Model(outer, 0), new view.Model(graph(["a"], [["exp", 0], ["log", 1]]), 1)], 0);
  equal(checkLayout(scene, "calls").nodes.length, 6, "folded calls");
  const call = scene.reveal(scene.root, "op", 1);
  check(call.canOpen, "a call can be unfolded");
  scene.open(call);
  const open = checkLayout(scene, "an open call");
  equal(open.nodes.filter((node) => node.parent === call).map((node) => view.describe(node).title), ["a", "exp", "log", "output 0"], "inside of a call");
  check(open.edges.some((edge) => edge.to.parent === call && edge.from.parent === scene.root), "an edge into an open call");
  check(open.edges.some((edge) => edge.from.parent === call && edge.to.parent === scene.root), "an edge out of an open call");
}

{
  // an operation of a tape tells where it stands, not how it was counted
  const node = (id, op, from, more = {}) => ({id, op, sequence: id, operations: 1, where: `model.cpp:${id}`, outputs: [{type: "f64[3]"}], inputs: [{input: 0, from, output: 0}], saved: [], freed: false, ...more});
  const tape = view.graphOfTape({leaves: [{id: 0, name: "w", slot: true}], nodes: [node(1, "sin", 0), node(2, "sum", 1, {attrs: {axes: [0]}})], roots: [{from: 2, output: 0}]});
  const scene = new view.Scene([new view.Model(tape, 0)], 0);
  equal([0, 1].map((i) => view.describe(scene.reveal(scene.root, "op", i)).note), ["model.cpp:1", "axes=[0]"], "notes of a tape");
}

for (const page of pages) {
  const text = fs.readFileSync(page, "utf8"), begin = 'id="data">', from = text.indexOf(begin) + begin.length;
  const data = JSON.parse(text.slice(from, text.indexOf("</script>", from)));
  const dumps = data.tape !== undefined ? [view.graphOfTape(data.tape)] : data.graphs;
  const scene = new view.Scene(dumps.map((dump, i) => new view.Model(dump, i)), 0);
  const {nodes} = checkLayout(scene, page);
  check(nodes.length > 1, `${page}: nothing is drawn`);
}

console.log(`view: ${checks - failures} of ${checks} checks passed`);
process.exit(failures === 0 ? 0 : 1);
