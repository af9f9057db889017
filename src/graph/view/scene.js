// scene.js - what can be seen: a tree of nodes. A frame is one appearance of a graph: the one the page is of, or
// the inside of an unfolded operation that holds it. A node is an operation, an input or output, or a group
// (repetition, one of its repetitions, section, list of inputs or outputs, frame). Children are made when a group is
// unfolded for the first time. The nodes that are drawn are those whose ancestors are all unfolded.

const MANY_TERMINALS = 40;  // inputs or outputs: more of them are one group

class Frame {
  constructor(model, shape) {
    this.model = model;
    this.shape = shape;
    this.opNode = new Array(model.size).fill(null);  // the visible node in which an operation is
    this.inputNode = new Map();                      // value id -> visible node
    this.outputNodes = [];                           // position -> visible node
  }
}

class Node {
  constructor(kind, frame, parent, lo, hi) {
    this.kind = kind;  // op, input, output, run, step, section, inputs, outputs, root
    this.frame = frame;
    this.parent = parent;
    this.lo = lo;  // operations [lo, hi), or inputs, or outputs
    this.hi = hi;
    this.item = null;
    this.open = false;
    this.children = null;
    this.inside = null;  // of an operation that holds a graph: its frame, once unfolded
    this.x = this.y = this.w = this.h = 0;
  }
  get model() { return this.frame.model; }
  get isTerminal() { return this.kind === "input" || this.kind === "output"; }
  get isTerminalGroup() { return this.kind === "inputs" || this.kind === "outputs"; }
  get canOpen() {
    return this.kind === "op" ? this.model.held(this.lo).length > 0 : !this.isTerminal;
  }
  // The part it belongs to: of a group, that of its first operation.
  get part() { return this.isTerminal || this.isTerminalGroup ? PRIMAL : this.model.classes[this.lo] || PRIMAL; }
}

class Scene {
  constructor(models, index) {
    this.models = models;
    this.shapes = new Map();
    this.root = new Node("root", this.newFrame(index), null, 0, models[index].size);
    this.root.open = true;
    this.frames = [this.root.frame];
  }

  newFrame(index) {
    const model = this.models[index];
    if (!this.shapes.has(index)) this.shapes.set(index, shapeOf(model));
    return new Frame(model, this.shapes.get(index));
  }

  childrenOf(node) {
    if (node.children !== null) return node.children;
    node.children = [];
    const {frame} = node;
    if (node.kind === "op") {
      const [, graph] = this.models[frame.model.index].held(node.lo)[0];
      node.inside = this.newFrame(graph);
      this.addFrame(node, node.inside);
    } else if (node.kind === "root") {
      this.addFrame(node, frame);
    } else if (node.isTerminalGroup) {
      const kind = node.kind === "inputs" ? "input" : "output";
      for (let i = node.lo; i < node.hi; ++i) node.children.push(new Node(kind, frame, node, i, i + 1));
    } else {
      this.addItems(node, frame, node.kind === "run" ? repetitions(node.item) : node.item.inner.items, node.lo);
    }
    return node.children;
  }

  addFrame(node, frame) {
    const {model} = frame;
    const terminals = (count, one, group) => {
      if (count > MANY_TERMINALS) node.children.push(new Node(group, frame, node, 0, count));
      else for (let i = 0; i < count; ++i) node.children.push(new Node(one, frame, node, i, i + 1));
    };
    terminals(model.inputs.length + model.externals.length, "input", "inputs");
    this.addItems(node, frame, frame.shape.items, 0);
    terminals(model.outputs.length, "output", "outputs");
  }

  addItems(parent, frame, items, base) {
    for (const item of items) {
      const kind = item.times !== undefined && item.inner === undefined ? "run"
        : item.number !== undefined ? "step" : item.inner !== undefined ? "section" : "op";
      const node = new Node(kind, frame, parent, base + item.at, base + item.at + item.length);
      node.item = item;
      parent.children.push(node);
    }
  }

  // All drawn nodes, groups before what is in them; brings up to date in which node an operation is.
  visible() {
    const nodes = [];
    const stack = [this.root];
    this.frames = [];
    while (stack.length > 0) {
      const node = stack.pop();
      nodes.push(node);
      const {frame} = node;
      if (node.kind === "root" || (node.kind === "op" && node.open)) {
        const own = node.kind === "root" ? frame : node.inside;
        own.holder = node.kind === "root" ? null : node;
        this.frames.push(own);
      }
      if (node.open) {
        const children = this.childrenOf(node);
        for (let i = children.length - 1; i >= 0; --i) stack.push(children[i]);
        if (node.kind === "op") frame.opNode[node.lo] = node;
        continue;
      }
      if (node.kind === "input" || node.kind === "inputs") {
        for (let i = node.lo; i < node.hi; ++i) frame.inputNode.set(inputValue(frame.model, i), node);
      } else if (node.kind === "output" || node.kind === "outputs") {
        for (let i = node.lo; i < node.hi; ++i) frame.outputNodes[i] = node;
      } else {
        frame.opNode.fill(node, node.lo, node.hi);
      }
    }
    return nodes;
  }

  open(node) {
    this.childrenOf(node);
    node.open = true;
    if (node.kind === "op" && node.inside !== null) node.inside.holder = node;
  }

  // Unfolds what an operation (or input, or output) of a frame lies in, and gives its node.
  reveal(holder, kind, at) {
    for (let up = holder.parent; up !== null; up = up.parent) this.open(up);
    let node = holder;
    const group = kind === "input" ? "inputs" : kind === "output" ? "outputs" : "";
    for (;;) {
      this.open(node);
      const next = node.children.find((child) => child.lo <= at && at < child.hi
        && (child.kind === kind || (group !== "" ? child.kind === group : !child.isTerminal && !child.isTerminalGroup)));
      if (next === undefined) return null;
      if (next.kind === kind && (kind !== "op" || next.hi - next.lo === 1)) return next;
      node = next;
    }
  }
}

const inputValue = (model, i) => (i < model.inputs.length ? model.inputs[i] : model.externals[i - model.inputs.length]);
