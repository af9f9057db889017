// model.js - one graph (or tape) of the page's data as flat arrays: who makes a value, who reads it, what an
// operation derives from, and what is kept for the derivative. In a large graph constants come first, which is as good
// a topological order, so that they do not hide what repeats; `number` is an operation's place in the dump.

const PRIMAL = 0, RESIDUAL = 1, LINEAR = 2, TRANSPOSED = 3;
const CLASS_NAMES = ["primal", "residual", "linear", "transposed"];

const DTYPE_BYTES = {
  bool: 1, i8: 1, u8: 1, i16: 2, u16: 2, f16: 2, bf16: 2, i32: 4, u32: 4, f32: 4, i64: 8, u64: 8, f64: 8, c64: 8, c128: 16,
};

const bytesOf = (dtype, shape) => (DTYPE_BYTES[dtype] || 0) * shape.reduce((product, extent) => product * extent, 1);

function bytesText(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = -1;
  do {
    bytes /= 1024;
    ++unit;
  } while (bytes >= 1024 && unit + 1 < units.length);
  return `${bytes.toFixed(bytes < 10 ? 2 : 1)} ${units[unit]}`;
}

const countText = (count, one, many) => `${count.toLocaleString("en")} ${count === 1 ? one : many || one + "s"}`;

// Lists of small integers by index, in two arrays: those of i are items[start[i]] to items[start[i + 1] - 1].
class Lists {
  constructor(count, pairs) {  // pairs: from(i), to(i) in order
    this.start = new Uint32Array(count + 1);
    for (let k = 0; k < pairs.length; k += 2) ++this.start[pairs[k] + 1];
    for (let i = 0; i < count; ++i) this.start[i + 1] += this.start[i];
    const at = this.start.slice();
    this.items = new Uint32Array(pairs.length / 2);
    for (let k = 0; k < pairs.length; k += 2) this.items[at[pairs[k]]++] = pairs[k + 1];
  }
  of(i) { return this.items.subarray(this.start[i], this.start[i + 1]); }
}

class Model {
  // dump: {name, values, inputs, externals, operations, outputs} as in a dump of a graph; ids count from 0.
  constructor(dump, index) {
    this.index = index;
    this.name = dump.name || "";
    this.isTape = dump.isTape === true;
    this.values = dump.values;
    this.ops = dump.operations;
    this.ops.forEach((op, i) => { op.number = i; });
    this.sources = 0;  // operations without operands at the beginning
    if (this.size >= FOLD_FROM && !this.isTape) {
      const isSource = (op) => op.inputs.length === 0;
      this.ops = [...this.ops.filter(isSource), ...this.ops.filter((op) => !isSource(op))];
      this.sources = this.ops.findIndex((op) => !isSource(op));
      if (this.sources < 0) this.sources = 0;
    }
    this.at = new Uint32Array(this.size);  // by number in the dump
    this.ops.forEach((op, i) => { this.at[op.number] = i; });
    this.inputs = dump.inputs;
    this.externals = (dump.externals || []).map((external) => external.id);
    this.outputs = dump.outputs;
    for (const value of this.values) {
      if (value.type === undefined) {
        value.type = `${value.dtype}[${value.shape.join(",")}]`;
        value.bytes = bytesOf(value.dtype, value.shape);
      }
    }
    const readers = [], derived = [];
    this.producer = new Int32Array(this.values.length).fill(-1);
    this.origin = new Int32Array(this.ops.length).fill(-1);
    this.ops.forEach((op, i) => {
      for (const value of op.outputs) this.producer[value] = i;
      for (const value of op.inputs) readers.push(value, i);
      if (op.origin !== undefined && op.origin !== op.number) {
        this.origin[i] = this.at[op.origin];
        derived.push(this.at[op.origin], i);
      }
    });
    this.readers = new Lists(this.values.length, readers);
    this.derived = new Lists(this.ops.length, derived);
    this.classes = classify(this);
    this.residuals = findResiduals(this);
  }
  get size() { return this.ops.length; }
  // What a person calls a value: its name, or its number.
  valueName(id) { return this.values[id].name || `%${id}`; }
  opName(op) { return `${plainText(this.ops[op].op)} #${this.ops[op].number}`; }
  isInput(id) { return this.producer[id] < 0; }
  isActive(op, operand) {
    const role = this.ops[op].role;
    return role !== undefined && role.linear[operand] === true;
  }
  // Numbers of the graphs that an operation holds, with the attributes that hold them.
  held(op) {
    const found = [];
    for (const [name, value] of Object.entries(this.ops[op].attrs || {})) {
      const graphs = Array.isArray(value) ? value : [value];
      for (const each of graphs)
        if (each !== null && typeof each === "object" && Number.isInteger(each.graph)) found.push([name, each.graph]);
    }
    return found;
  }
}

// The data of a tape in the form of a graph's: leaves are inputs, nodes operations, roots outputs.
function graphOfTape(tape) {
  const values = [], first = [];
  for (const leaf of tape.leaves) {
    first.push(values.length);
    values.push({name: leaf.name, type: "", bytes: 0, key: leaf.key, leaf});
  }
  const operations = tape.nodes.map((node) => {
    first.push(values.length);
    const outputs = node.outputs.map((output) => {
      const [, dtype, shape] = /^(\w+)\[(.*)\]$/.exec(output.type) || [null, "", ""];
      values.push({name: output.name, type: output.type, bytes: bytesOf(dtype, shape === "" ? [] : shape.split(",").map(Number)),
                   noDerivative: output.derivative === false});
      return values.length - 1;
    });
    const attrs = {...node.attrs};
    const operation = {op: node.op, attrs, outputs, where: node.where, saved: node.saved, freed: node.freed,
                       blocked: node.blocked === true, passive: [], inputs: [], positions: []};
    for (const name of ["sequence", "operations", "device", "stream", "hooks"])
      if (node[name] !== undefined) attrs[name] = node[name];
    if (node.graph !== undefined) attrs["structural key"] = node.graph;
    for (const input of node.inputs) {
      operation.inputs.push(first[input.from] + input.output);
      operation.passive.push(input.passive === true);
      operation.positions.push(input.input === undefined ? -1 : input.input);
      const saved = (node.saved || []).find((each) => each.value === `input ${input.input}`);
      const value = values[first[input.from]];
      if (saved !== undefined && value.leaf !== undefined && value.type === "") {
        value.type = saved.type;
        value.bytes = saved.bytes;
      }
    }
    return operation;
  });
  return {name: "tape", isTape: true, values, operations, inputs: tape.leaves.map((leaf, i) => first[i]),
          outputs: tape.roots.map((root) => first[root.from] + root.output)};
}
