// layout.js - places what is unfolded. Each group is laid out by itself, from the inside out: its children in rows
// by their longest path from a source, rows ordered by barycenters, positions in a row by least squares, long lists
// of rows broken into columns as in a newspaper. Primal and derived operations get a lane each, side by side; that of
// a transposed graph runs upward, so that it mirrors what it derives from. Time is n log n in the children.

const GAP_X = 24, GAP_Y = 36, COLUMN_GAP = 90, LANE_GAP = 120, PAD = 22, HEADER = 34;
const DUMMY = 14, LONGEST_BEND = 7;  // an edge over more rows is drawn without bends
const COLUMN_HEIGHT = 2000;          // rows are broken into columns from here on

// Edges between children of one group, each once: from, to as positions among the children.
function edgesAmong(node) {
  const {children} = node;
  const frame = children.length > 0 ? children[0].frame : node.frame;
  const {model} = frame;
  const lo = node.kind === "op" || node.kind === "root" ? 0 : node.lo;
  const hi = node.kind === "op" || node.kind === "root" ? model.size : node.hi;
  const at = new Int32Array(hi - lo), stamp = new Int32Array(children.length).fill(-1);
  const inputAt = new Map(), edges = [];
  children.forEach((child, c) => {
    if (child.kind === "input" || child.kind === "inputs")
      for (let i = child.lo; i < child.hi; ++i) inputAt.set(inputValue(model, i), c);
    else if (!child.isTerminal && !child.isTerminalGroup) at.fill(c, child.lo - lo, child.hi - lo);
  });
  const source = (value) => {
    const op = model.producer[value];
    if (op < 0) return inputAt.has(value) ? inputAt.get(value) : -1;
    return op >= lo && op < hi ? at[op - lo] : -1;
  };
  children.forEach((child, c) => {
    const add = (value) => {
      const from = source(value);
      if (from < 0 || from === c || stamp[from] === c) return;
      stamp[from] = c;
      edges.push([from, c]);
    };
    if (child.kind === "output" || child.kind === "outputs") {
      for (let i = child.lo; i < child.hi; ++i) add(model.outputs[i]);
    } else if (!child.isTerminal && !child.isTerminalGroup) {
      for (let i = child.lo; i < child.hi; ++i) for (const value of model.ops[i].inputs) add(value);
    }
  });
  return edges;
}

// 0 for the primal part, 1 linear, 2 transposed; inputs go with what reads them, outputs with what makes them.
function lanesOf(children, edges) {
  const lanes = children.map((child) => Math.max(child.part - 1, 0));
  const free = children.map((child) => child.isTerminal || child.isTerminalGroup);
  const seen = new Uint8Array(children.length);
  for (const [from, to] of edges) {
    if (free[to] && !seen[to]) {
      lanes[to] = lanes[from];
      seen[to] = 1;
    }
    if (free[from]) {
      lanes[from] = seen[from] ? Math.min(lanes[from], lanes[to]) : lanes[to];
      seen[from] = 1;
    }
  }
  return lanes;
}

// The longest path from a source; then what has slack moves down to what reads it where that makes edges shorter.
function rowsOf(count, edges) {
  const rows = new Int32Array(count), readers = new Int32Array(count), bound = new Int32Array(count), fed = new Uint8Array(count);
  for (const [from, to] of edges) {  // in the order of `to`
    rows[to] = Math.max(rows[to], rows[from] + 1);
    fed[to] = 1;
    ++readers[from];
  }
  for (const [from, to] of edges) if (fed[from] || readers[from] > 1) ++bound[to];  // the others come along
  const first = new Int32Array(count).fill(count);
  let e = edges.length - 1;
  for (let c = count - 1; c >= 0; --c) {
    if (first[c] < count && readers[c] >= bound[c]) rows[c] = Math.max(rows[c], first[c] - 1);
    for (; e >= 0 && edges[e][1] === c; --e) first[edges[e][0]] = Math.min(first[edges[e][0]], rows[c]);
  }
  return rows;
}

// Positions of cells in their order, without overlap, closest to where each wants to be, by weight (pool adjacent
// violators).
function placeRow(row) {
  const blocks = [];
  let offset = 0;
  for (const cell of row) {
    cell.offset = offset;
    offset += cell.w + GAP_X;
    let block = {sum: (cell.want - cell.w / 2 - cell.offset) * cell.weight, weight: cell.weight, count: 1};
    while (blocks.length > 0 && blocks[blocks.length - 1].sum / blocks[blocks.length - 1].weight >= block.sum / block.weight) {
      const before = blocks.pop();
      block = {sum: before.sum + block.sum, weight: before.weight + block.weight, count: before.count + block.count};
    }
    blocks.push(block);
  }
  let i = 0;
  for (const block of blocks)
    for (let k = 0; k < block.count; ++k, ++i) row[i].x = block.sum / block.weight + row[i].offset;
}

const middle = (cell) => cell.x + cell.w / 2;

// One column: rows of cells with neighbours `up` and `down`. Gives its width; cells get x from 0 on.
function placeColumn(rows) {
  const mean = (cells, of, otherwise) => cells.length === 0 ? otherwise : cells.reduce((sum, cell) => sum + of(cell), 0) / cells.length;
  const order = (row) => row.forEach((cell, i) => {
    cell.order = i;
    cell.rowSize = row.length;
  });
  rows.forEach(order);
  for (let sweep = 0; sweep < 6; ++sweep) {
    const down = sweep % 2 === 0;
    for (let k = 0; k < rows.length; ++k) {
      const row = rows[down ? k : rows.length - 1 - k];
      for (const cell of row) cell.want = mean(down ? cell.up : cell.down, (other) => other.order / other.rowSize, cell.order / row.length);
      row.sort((a, b) => a.want - b.want || a.order - b.order);
      order(row);
    }
  }
  for (const row of rows) {
    let x = 0;
    for (const cell of row) {
      cell.x = x;
      x += cell.w + GAP_X;
    }
    for (const cell of row) cell.x -= x / 2;
  }
  for (let sweep = 0; sweep < 5; ++sweep) {
    const down = sweep % 2 === 0;
    for (let k = 0; k < rows.length; ++k) {
      const row = rows[down ? k : rows.length - 1 - k];
      for (const cell of row) {
        const [near, other] = down ? [cell.up, cell.down] : [cell.down, cell.up];
        cell.want = mean(near.length > 0 ? near : other, middle, middle(cell));
        cell.weight = other.length > 0 ? 6 : 1;  // so that what goes on is straight, and what ends makes way
      }
      placeRow(row);
    }
  }
  let left = Infinity, right = -Infinity;
  for (const row of rows) {
    left = Math.min(left, row[0].x);
    right = Math.max(right, row[row.length - 1].x + row[row.length - 1].w);
  }
  for (const row of rows) for (const cell of row) cell.x -= left;
  return right - left;
}

// Breaks rows into columns of about equal height so that the whole is about `aspect` times as wide as high.
function columnsOf(rows, heights, aspect, most) {
  const total = heights.reduce((sum, height) => sum + height + GAP_Y, 0);
  const widths = rows.map((row) => row.reduce((sum, cell) => sum + cell.w + GAP_X, 0)).sort((a, b) => a - b);
  const width = widths[Math.floor((widths.length - 1) * 0.9)] + COLUMN_GAP;
  const best = Math.round(Math.sqrt(aspect * total / width));
  const count = Math.max(1, Math.min(best, most, Math.ceil(total / COLUMN_HEIGHT)));
  const columns = [[]];
  let height = 0;
  rows.forEach((row, r) => {
    if (height > 0 && height + heights[r] / 2 > total / count * columns.length) columns.push([]);
    height += heights[r] + GAP_Y;
    columns[columns.length - 1].push(r);
  });
  return columns;
}

// One lane: children, and edges among them by position. Sets x and y of each; gives width and height. Columns may
// turn out wider than was thought before edges took their room: then there are fewer in a second try.
function layoutLane(children, edges, aspect, upward) {
  const first = placeLane(children, edges, aspect, upward, Infinity);
  if (first.columns === 1 || first.w < 1.3 * aspect * first.h) return first;
  for (const child of children) child.routes = undefined;
  return placeLane(children, edges, aspect, upward, Math.max(1, Math.round(first.columns * Math.sqrt(aspect * first.h / first.w))));
}

function placeLane(children, edges, aspect, upward, most) {
  const rowOf = rowsOf(children.length, edges);
  const rows = [];
  const cells = children.map((node, c) => {
    const cell = {node, w: node.w, x: 0, up: [], down: []};
    (rows[rowOf[c]] ||= []).push(cell);
    return cell;
  });
  for (let r = 0; r < rows.length; ++r) rows[r] ||= [];
  const full = rows.filter((row) => row.length > 0);  // pulled-down sources may leave rows empty
  const number = new Map();
  full.forEach((row, r) => row.forEach((cell) => number.set(cell, r)));
  const heights = full.map((row) => row.reduce((most, cell) => Math.max(most, cell.node.h), 0));
  const columns = columnsOf(full, heights, aspect, most);
  const columnOf = [];
  columns.forEach((list, k) => list.forEach((r) => { columnOf[r] = k; }));

  const bends = [];
  const link = (a, b) => { a.down.push(b); b.up.push(a); };
  for (const [from, to] of edges) {
    const a = cells[from], b = cells[to], ra = number.get(a), rb = number.get(b);
    if (columnOf[ra] !== columnOf[rb] || rb - ra > LONGEST_BEND) continue;
    let last = a;
    const through = [];
    for (let r = ra + 1; r < rb; ++r) {
      const dummy = {node: null, w: DUMMY, x: 0, up: [], down: [], row: r};
      full[r].push(dummy);
      through.push(dummy);
      link(last, dummy);
      last = dummy;
    }
    link(last, b);
    if (through.length > 0) bends.push({from: a.node, to: b.node, through});
  }

  const tops = [];
  let x = 0, bottom = 0;
  for (const list of columns) {
    let y = 0;
    for (const r of list) {
      tops[r] = y;
      y += heights[r] + GAP_Y;
    }
    bottom = Math.max(bottom, y - GAP_Y);
    const width = placeColumn(list.map((r) => full[r]));
    for (const r of list) for (const cell of full[r]) cell.x += x;
    x += width + COLUMN_GAP;
  }
  const size = {w: Math.max(x - COLUMN_GAP, 0), h: bottom, columns: columns.length};
  const turnX = (left, w) => upward && columns.length > 1 ? size.w - left - w : left;
  const turnY = (top, h) => upward ? size.h - top - h : top;
  for (const cell of cells) {
    cell.node.x = turnX(cell.x, cell.w);
    cell.node.y = turnY(tops[number.get(cell)], cell.node.h);
    cell.node.upward = upward;
  }
  for (const {from, to, through} of bends) {
    to.routes ||= new Map();
    to.routes.set(from, through.flatMap((dummy) => {
      const h = heights[dummy.row];
      const px = turnX(dummy.x, DUMMY) + DUMMY / 2, top = turnY(tops[dummy.row], h);
      return upward ? [px, top + h, px, top] : [px, top, px, top + h];
    }));
  }
  return size;
}

// All children of a group; gives the group its size.
function layoutGroup(node, aspect) {
  const {children} = node;
  for (const child of children) child.routes = undefined;
  const edges = edgesAmong(node);
  const laneOf = lanesOf(children, edges);
  const lanes = [0, 1, 2].map((lane) => children.map((child, c) => c).filter((c) => laneOf[c] === lane)).filter((list) => list.length > 0);
  let x = 0, height = 0;
  const sizes = lanes.map((list) => {
    const position = new Map(list.map((c, i) => [c, i]));
    const inner = edges.filter(([from, to]) => position.has(from) && position.has(to)).map(([from, to]) => [position.get(from), position.get(to)]);
    const upward = laneOf[list[0]] === 2;
    return layoutLane(list.map((c) => children[c]), inner, aspect * list.length / children.length, upward);
  });
  sizes.forEach((size) => { height = Math.max(height, size.h); });
  node.lanes = [];
  sizes.forEach((size, k) => {
    const dy = (height - size.h) / 2;
    for (const c of lanes[k]) {
      const child = children[c];
      child.x += x + PAD;
      child.y += dy + PAD + HEADER;
      if (child.routes) for (const points of child.routes.values())
        for (let i = 0; i < points.length; i += 2) {
          points[i] += x + PAD;
          points[i + 1] += dy + PAD + HEADER;
        }
    }
    node.lanes.push({part: laneOf[lanes[k][0]], x: x + PAD, y: PAD + HEADER, w: size.w, h: height});
    x += size.w + LANE_GAP;
  });
  node.w = Math.max(x - LANE_GAP, 180) + 2 * PAD;
  node.h = height + 2 * PAD + HEADER;
}

// Sizes and places everything visible; x and y become those in the picture.
function layoutScene(scene, aspect, sizeOf) {
  const nodes = scene.visible();
  for (const node of nodes) if (!node.open) sizeOf(node);
  for (let i = nodes.length - 1; i >= 0; --i) if (nodes[i].open) layoutGroup(nodes[i], nodes[i] === scene.root ? aspect : 1.4);
  for (const node of nodes) {
    node.ax = node.parent === null ? 0 : node.parent.ax + node.x;
    node.ay = node.parent === null ? 0 : node.parent.ay + node.y;
  }
  return {nodes, edges: edgesOf(scene)};
}

// The edges that are drawn, between visible nodes; several of one kind between two nodes are one.
function edgesOf(scene) {
  const edges = [];
  for (const frame of scene.frames) {
    const {model} = frame;
    const marks = new Map();  // by source: the edges to the node of which operands are looked at, one of each kind
    const add = (value, target, op, operand) => {
      const producer = model.producer[value];
      let from = producer >= 0 ? frame.opNode[producer] : frame.inputNode.get(value), to = target;
      if (from === undefined || from === null || from === to) return;
      if (to.open) to = (to.inside.model.inputs.length === model.ops[op].inputs.length && to.inside.inputNode.get(to.inside.model.inputs[operand])) || to;
      if (from.open) from = from.inside.outputNodes[model.ops[producer].outputs.indexOf(value)] || from;
      const active = op >= 0 && model.isActive(op, operand);
      const kept = op >= 0 && model.classes[op] >= LINEAR && !active;
      const passive = op >= 0 && model.ops[op].passive !== undefined && model.ops[op].passive[operand];
      const kind = passive ? 3 : kept ? 2 : active ? 1 : 0;
      let mark = marks.get(from);
      if (mark === undefined || mark.to !== to) marks.set(from, mark = {to, edges: []});
      if (mark.edges[kind] !== undefined) {
        ++mark.edges[kind].count;
        return;
      }
      const edge = {from, to, active, kept, passive, count: 1};
      mark.edges[kind] = edge;
      edges.push(edge);
    };
    model.ops.forEach((op, i) => op.inputs.forEach((value, k) => add(value, frame.opNode[i], i, k)));
    model.outputs.forEach((value, i) => add(value, frame.outputNodes[i], -1, 0));
  }
  for (const edge of edges) routeEdge(edge);
  return edges;
}

// From the side where a node's results leave to that where the other's operands enter, through bends if there are.
function routeEdge(edge) {
  const {from, to} = edge;
  const points = [from.ax + from.w / 2, from.upward ? from.ay : from.ay + from.h];
  const route = from.parent === to.parent && to.routes !== undefined ? to.routes.get(from) : undefined;
  if (route !== undefined) for (let i = 0; i < route.length; i += 2) points.push(from.parent.ax + route[i], from.parent.ay + route[i + 1]);
  points.push(to.ax + to.w / 2, to.upward ? to.ay + to.h : to.ay);
  edge.points = points;
  const dx = points[points.length - 2] - points[0], dy = points[points.length - 1] - points[1];
  const along = to.upward ? -dy : dy;
  edge.far = route === undefined && (along < -4 || Math.abs(dy) > 420 || Math.abs(dx) > 900 || from.upward !== to.upward);
  edge.left = edge.top = Infinity;
  edge.right = edge.bottom = -Infinity;
  for (let i = 0; i < points.length; i += 2) {
    edge.left = Math.min(edge.left, points[i] - 40);
    edge.right = Math.max(edge.right, points[i] + 40);
    edge.top = Math.min(edge.top, points[i + 1] - 60);
    edge.bottom = Math.max(edge.bottom, points[i + 1] + 60);
  }
}
