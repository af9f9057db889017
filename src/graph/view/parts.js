// parts.js - which part of a derivative an operation belongs to, and which values are kept for it.

const SEED = {tangent: /\.tangent(\.\d+)?$/, cotangent: /^cotangent\.\d+(\.\d+)?$/};

// By operation: primal (as the user wrote it), residual (made for the derivative alone, not linear), linear (runs
// along with tangents) or transposed (runs on cotangents). Roles say what is linear; which of the two follows
// from the inputs that it depends on or, where there are none, from the order of the origins: a transposed graph
// goes through them backward.
function classify(model) {
  const classes = new Uint8Array(model.size);
  const sides = new Uint8Array(model.values.length);  // 1: depends on a tangent, 2: on a cotangent
  for (const id of model.inputs) {
    const name = model.values[id].name || "";
    if (SEED.tangent.test(name)) sides[id] = 1;
    if (SEED.cotangent.test(name)) sides[id] = 2;
  }
  let backward = 0;
  const unknown = [];
  model.ops.forEach((op, i) => {
    if (op.role === undefined) {
      classes[i] = op.origin !== undefined && op.origin !== op.number ? RESIDUAL : PRIMAL;
      return;
    }
    let side = 0;
    op.inputs.forEach((id, k) => {
      if (!model.isActive(i, k)) return;
      side |= sides[id];
      const from = model.producer[id];
      if (from >= 0 && model.ops[from].role !== undefined && op.origin !== undefined && model.ops[from].origin !== undefined)
        backward += Math.sign(model.ops[from].origin - op.origin);
    });
    for (const id of op.outputs) sides[id] = side;
    classes[i] = side & 2 ? TRANSPOSED : LINEAR;
    if (side === 0) unknown.push(i);
  });
  if (backward > 0) for (const i of unknown) classes[i] = TRANSPOSED;
  return classes;
}

// What linear operations read that is not linear itself. Inputs are there anyway and are counted apart.
function findResiduals(model) {
  const kept = new Uint8Array(model.values.length);
  const list = [];
  let bytes = 0, inputBytes = 0, inputs = 0;
  const keep = (id) => {
    if (kept[id]) return;
    kept[id] = 1;
    if (model.isInput(id)) {
      ++inputs;
      inputBytes += model.values[id].bytes;
    } else {
      list.push(id);
      bytes += model.values[id].bytes;
    }
  };
  if (!model.isTape) {
    model.ops.forEach((op, i) => {
      if (op.role === undefined) return;
      op.inputs.forEach((id, k) => {
        const from = model.producer[id];
        if (!model.isActive(i, k) && (from < 0 || model.classes[from] < LINEAR)) keep(id);
      });
    });
    list.sort((a, b) => model.values[b].bytes - model.values[a].bytes || a - b);
    return {kept, list, bytes, inputs, inputBytes};
  }
  // On a tape nodes say themselves what they keep; one value may be kept by many.
  const savedBytes = (op) => (op.saved || []).reduce((sum, each) => sum + each.bytes, 0);
  const holders = [];
  const seen = new Set();
  model.ops.forEach((op, i) => {
    if ((op.saved || []).length > 0) holders.push(i);
    op.keptBytes = savedBytes(op);
    for (const each of op.saved || []) {
      const [, kind, at] = /^(input|output) (\d+)$/.exec(each.value) || [];
      const id = kind === "output" ? op.outputs[at] : kind === "input" ? op.inputs[op.positions.indexOf(Number(at))] : undefined;
      const name = id === undefined ? `${i} ${each.value}` : `v${id}`;
      if (seen.has(name)) continue;
      seen.add(name);
      if (id !== undefined) kept[id] = 1;
      bytes += each.bytes;
    }
  });
  holders.sort((a, b) => model.ops[b].keptBytes - model.ops[a].keptBytes || a - b);
  return {kept, list: [], holders, bytes, inputs, inputBytes};
}
