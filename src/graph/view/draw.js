// draw.js - the picture on the canvas. Only what is in view is drawn, and of that only what can be made out: text
// grows with respect to its box as the picture shrinks, and gives way to plain boxes, and those to their group.

const FONT = "system-ui, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif";
const MONO = "ui-monospace, 'Cascadia Mono', 'DejaVu Sans Mono', monospace";
const PART_COLORS = ["--primal", "--residual", "--linear", "--transposed"];

const shorten = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}\u2026` : text);

// Names are anyone's: control characters and those that turn the direction of writing are shown, not obeyed.
const plainText = (text) => String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
  (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

function attributeText(value) {
  if (Array.isArray(value) && value.length > 0 && value.every((each) => each !== null && Number.isInteger(each.graph)))
    return `graphs ${value.map((each) => each.graph).join(", ")}`;
  if (value !== null && typeof value === "object" && !Array.isArray(value)) {
    if (Number.isInteger(value.graph)) return `graph ${value.graph}`;
    if (Array.isArray(value.data)) {
      const data = value.data.length === 1 && value.shape.length === 0 ? JSON.stringify(value.data[0]) : JSON.stringify(value.data);
      return `${value.dtype}[${value.shape.join(",")}] ${data}${value.elided ? ` and ${value.elided} more` : ""}`;
    }
  }
  return typeof value === "string" ? value : JSON.stringify(value);
}

// The lines of text of a folded node.
function describe(node) {
  if (node.text !== undefined) return node.text;
  const {model, lo, hi} = node;
  const text = {title: "", brief: "", name: "", sub: "", note: "", kept: 0};
  if (node.kind === "op") {
    const op = model.ops[lo];
    text.title = plainText(op.op);
    text.name = op.outputs.map((id) => model.values[id].name).filter(Boolean).map(plainText).join(", ");
    text.sub = op.outputs.map((id) => model.values[id].type).join("  ");
    text.note = Object.entries(op.attrs || {}).filter(([name]) => !(model.isTape && ["structural key", "sequence", "operations"].includes(name)))
      .map(([name, value]) => `${name}=${shorten(plainText(attributeText(value)), 40)}`).join(" ") || plainText(op.where || "");
    text.kept = model.isTape ? op.keptBytes : op.outputs.reduce((sum, id) => sum + (model.residuals.kept[id] ? model.values[id].bytes : 0), 0);
  } else if (node.kind === "input") {
    const id = inputValue(model, lo), value = model.values[id];
    text.title = plainText(value.name || (model.isTape ? `leaf ${lo}` : lo < model.inputs.length ? `input ${lo}` : `external %${id}`));
    text.sub = value.type;
    text.kept = model.residuals.kept[id] ? value.bytes : 0;
  } else if (node.kind === "output") {
    const value = model.values[model.outputs[lo]];
    text.title = `${model.isTape ? "root" : "output"} ${lo}`;
    text.brief = `${model.isTape ? "root" : "out"} ${lo}`;
    text.name = plainText(value.name || "");
    text.sub = value.type;
  } else if (node.isTerminalGroup) {
    text.title = `${(hi - lo).toLocaleString("en")} ${node.kind}`;
    text.sub = `${lo} to ${hi - 1}`;
  } else {
    const counts = new Map();
    for (let i = lo; i < hi; ++i) {
      counts.set(model.ops[i].op, (counts.get(model.ops[i].op) || 0) + 1);
      if (model.isTape) text.kept += model.ops[i].keptBytes;
      else for (const id of model.ops[i].outputs) if (model.residuals.kept[id]) text.kept += model.values[id].bytes;
    }
    const most = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 4);
    text.counts = counts;
    text.note = most.map(([op, count]) => `${count.toLocaleString("en")} ${plainText(op)}`).join(", ");
    text.sub = countText(hi - lo, "operation");
    if (node.kind === "run") {
      text.brief = `${node.item.times.toLocaleString("en")} \u00d7 ${node.item.period === 1 ? plainText(model.ops[lo].op) : node.item.period.toLocaleString("en")}`;
      text.title = `${node.item.times.toLocaleString("en")} \u00d7 `
        + (node.item.period === 1 ? plainText(model.ops[lo].op) : countText(node.item.period, "operation"));
    } else if (node.kind === "step") {
      text.brief = String(node.item.number + 1);
      text.title = `repetition ${node.item.number + 1} of ${node.item.times}`;
    } else if (node.item !== null && node.item.inner !== undefined && node.item.inner.items[0].number !== undefined) {
      const {items} = node.item.inner;
      text.brief = `${items[0].number + 1}\u2013${items[items.length - 1].number + 1}`;
      text.title = `repetitions ${items[0].number + 1} to ${items[items.length - 1].number + 1}`;
    } else {
      const first = model.ops[lo].number, last = model.ops[hi - 1].number;
      text.brief = hi <= model.sources ? `${hi - lo} constants` : `${first}\u2013${last}`;
      text.title = hi <= model.sources ? countText(hi - lo, "constant") : `operations ${first.toLocaleString("en")} to ${last.toLocaleString("en")}`;
    }
  }
  text.brief ||= text.title;
  return node.text = text;
}

class Painter {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", {alpha: false});
    this.widths = new Map();
    this.colors = {};
  }

  readColors() {
    const style = getComputedStyle(document.documentElement);
    this.colors = {};
    for (const name of ["--paper", "--ink", "--quiet", "--line", "--node", "--group", "--group2", "--accent", "--hit", "--input", "--output",
      "--kept", ...PART_COLORS])
      this.colors[name] = style.getPropertyValue(name).trim();
  }

  width(text, font) {
    const name = `${font}|${text}`;
    let width = this.widths.get(name);
    if (width === undefined) {
      if (this.widths.size > 20000) this.widths.clear();
      this.context.font = font;
      this.widths.set(name, width = this.context.measureText(text).width);
    }
    return width;
  }

  // Width and height of a folded node, so that its text fits.
  size(node) {
    const text = describe(node);
    if (node.w0 === undefined) {
      const title = this.width(shorten(text.title, 34), `600 15px ${FONT}`) + (text.name ? this.width(shorten(text.name, 20), `13px ${FONT}`) + 10 : 0);
      const sub = this.width(shorten(text.sub, 40), `11px ${MONO}`) + (text.kept ? this.width(bytesText(text.kept), `10px ${FONT}`) + 26 : 0);
      const note = text.note ? this.width(shorten(text.note, 36), `11px ${FONT}`) : 0;
      node.w0 = Math.min(320, Math.max(node.isTerminal ? 70 : 96, title * (node.kind === "op" && !text.name ? 1.4 : 1.15) + (node.canOpen ? 26 : 0), sub, note) + 26);
      node.h0 = 48 + (text.note ? 15 : 0);
      if (node.isTerminal) node.h0 = 42;
      if (node.kind === "run") node.h0 += 6;
    }
    node.w = node.w0;
    node.h = node.h0;
  }

  paint(state) {
    const {context: c, canvas, colors} = this;
    const {zoom, left, top} = state.view;
    const ratio = state.ratio;
    this.zoom = zoom;
    this.box = {left, top, right: left + state.width / zoom, bottom: top + state.height / zoom};
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.fillStyle = colors["--paper"];
    c.fillRect(0, 0, canvas.width, canvas.height);
    c.setTransform(zoom * ratio, 0, 0, zoom * ratio, -left * zoom * ratio, -top * zoom * ratio);
    c.textBaseline = "middle";
    const seen = state.nodes.filter((node) => this.inView(node));
    for (const node of seen) if (node.open && node.parent !== null) this.group(node, state);
    for (const node of seen) if (node.open) this.lanes(node);
    this.edges(state);
    this.dots(seen, state);
    for (const node of seen) if (!node.open && !this.isDot(node, state)) this.node(node, state);
    for (const node of seen) if (node.open && node.parent !== null) this.groupTitle(node, state);
    if (state.links.length > 0) this.links(state.links);
    return seen.length;
  }

  inView(node) {
    const {box} = this;
    return node.ax < box.right && node.ax + node.w > box.left && node.ay < box.bottom && node.ay + node.h > box.top;
  }

  // A rounded box; plain where it is too small for corners to be seen.
  shape(x, y, w, h, radius) {
    const {context: c} = this;
    c.beginPath();
    if (radius * this.zoom < 1.5) c.rect(x, y, w, h);
    else c.roundRect(x, y, w, h, radius);
  }

  // Too small for more than a spot of colour, and nothing is to be said of it.
  isDot(node, state) {
    return node.h * this.zoom < 7 && node !== state.selected && node !== state.hover && !state.hits.has(node) && !state.near.has(node);
  }
  dots(seen, state) {
    const {context: c} = this;
    const colors = new Map();
    for (const node of seen) {
      if (node.open || !this.isDot(node, state)) continue;
      const color = this.color(node);
      if (!colors.has(color)) colors.set(color, []);
      colors.get(color).push(node);
    }
    c.globalAlpha = state.near.size > 0 ? 0.4 : 0.75;
    for (const [color, nodes] of colors) {
      c.fillStyle = color;
      for (const node of nodes) c.fillRect(node.ax, node.ay, node.w, node.h);
    }
    c.globalAlpha = 1;
  }

  color(node) {
    if (node.kind === "input" || node.kind === "inputs") return this.colors["--input"];
    if (node.kind === "output" || node.kind === "outputs") return this.colors["--output"];
    return this.colors[PART_COLORS[node.part]];
  }

  group(node, state) {
    const {context: c, colors} = this;
    let depth = 0;
    for (let up = node.parent; up !== null; up = up.parent) ++depth;
    this.shape(node.ax, node.ay, node.w, node.h, 12);
    c.fillStyle = colors[depth % 2 === 1 ? "--group" : "--group2"];
    c.fill();
    c.lineWidth = Math.max(node === state.selected ? 3 : 1.2, 1 / this.zoom);
    c.strokeStyle = node === state.selected ? colors["--accent"] : this.color(node);
    c.stroke();
  }

  groupTitle(node, state) {
    const {context: c, colors, zoom} = this;
    const size = Math.min(Math.max(13, 11 / zoom), node.h * 0.5, node.w * 0.12);
    if (size * zoom < 8) return;
    const text = describe(node);
    const title = `\u2212 ${text.title}${text.name ? ` ${text.name}` : ""}`;
    c.font = `600 ${size}px ${FONT}`;
    const x = node.ax + 12, y = node.ay + Math.max(HEADER / 2 + 3, size * 0.7);
    if (size > 14) {
      c.fillStyle = colors["--paper"];
      c.globalAlpha = 0.8;
      c.fillRect(x - size * 0.3, y - size * 0.7, Math.min(c.measureText(title).width + size * 0.6, node.w), size * 1.4);
      c.globalAlpha = 1;
    }
    c.fillStyle = node === state.hover ? colors["--accent"] : colors["--ink"];
    c.fillText(title, x, y, node.w - 20);
  }

  // Where primal and derived operations lie side by side: a heading for each.
  lanes(node) {
    if (node.lanes.length < 2) return;
    const {context: c, colors, zoom} = this;
    const size = Math.max(15, 13 / zoom);
    const names = ["primal, and residuals for the derivative", "linear \u2193", "transposed \u2191"];
    const short = ["primal", "linear \u2193", "transposed \u2191"];
    for (const lane of node.lanes) {
      const x = node.ax + lane.x - LANE_GAP / 3, y = node.ay + lane.y, w = lane.w + LANE_GAP / 1.5;
      c.fillStyle = colors[["--primal", "--linear", "--transposed"][lane.part]];
      c.globalAlpha = 0.06;
      this.shape(x, y - 26, w, lane.h + 52, 16);
      c.fill();
      c.globalAlpha = 1;
      const text = this.width(names[lane.part], `600 15px ${FONT}`) * size / 15 < w ? names[lane.part] : short[lane.part];
      c.font = `600 ${size}px ${FONT}`;
      c.fillText(text, x + 4, y - 26 - size * 0.75, w);
    }
  }

  node(node, state) {
    const {context: c, colors, zoom} = this;
    const {ax: x, ay: y, w, h} = node;
    const text = describe(node), color = this.color(node);
    const chosen = node === state.selected, near = state.near.get(node), hit = state.hits.has(node);
    const faded = state.near.size > 0 && !chosen && near === undefined;
    const op = node.kind === "op" ? node.model.ops[node.lo] : null;
    if (faded) c.globalAlpha = 0.55;
    if (node.kind === "run" && h * zoom > 12) {
      for (const shift of [8, 4]) {
        this.shape(x + shift, y + shift, w, h, 8);
        c.fillStyle = colors["--node"];
        c.fill();
        c.strokeStyle = color;
        c.lineWidth = 1;
        c.stroke();
      }
    }
    this.shape(x, y, w, h, node.isTerminal ? h / 2 : 8);
    const plain = h * zoom < 7;
    c.fillStyle = plain ? color : colors["--node"];
    c.fill();
    if (!plain) {
      c.fillStyle = color;
      c.globalAlpha *= op !== null && (op.freed || op.blocked) ? 0.06 : 0.2;
      c.fill();
      c.globalAlpha = faded ? 0.55 : 1;
      c.lineWidth = Math.max(chosen ? 3 : 1.3, (chosen ? 2 : 0.7) / zoom);
      c.strokeStyle = chosen ? colors["--accent"] : color;
      if (op !== null && op.blocked) c.setLineDash([5, 4]);
      c.stroke();
      c.setLineDash([]);
    }
    if (hit || node === state.hover || (chosen && plain)) {
      const grow = 3 / Math.max(zoom, 0.05);
      c.lineWidth = 2.5 / zoom;
      c.strokeStyle = hit ? colors["--hit"] : colors["--accent"];
      this.shape(x - grow, y - grow, w + 2 * grow, h + 2 * grow, (node.isTerminal ? h / 2 : 8) + grow);
      c.stroke();
    }
    if (!plain) this.text(node, text, x, y, w, h);
    c.globalAlpha = 1;
  }

  text(node, text, x, y, w, h) {
    const {context: c, colors, zoom} = this;
    const room = w - 22 - (node.canOpen ? 20 : 0);
    if (zoom < 0.62) {  // the title alone, as large as fits
      const largest = Math.min(h * 0.5, 12 / zoom);
      const widest = (words) => 15 * (w - 12) / Math.max(this.width(words, `600 15px ${FONT}`), 1);
      const words = Math.min(widest(text.title), largest) * zoom >= 8 ? text.title : text.brief;
      const size = Math.min(widest(words), largest);
      if (size * zoom < 4.5) return;
      c.font = `600 ${size}px ${FONT}`;
      c.fillStyle = colors["--ink"];
      c.textAlign = "center";
      c.fillText(words, x + w / 2, y + h / 2, w - 6);
      c.textAlign = "left";
      return;
    }
    c.font = `600 15px ${FONT}`;
    c.fillStyle = colors["--ink"];
    const title = shorten(text.title, 34);
    let ty = y + (node.isTerminal ? 15 : 17);
    c.fillText(title, x + 12, ty, room);
    if (text.name) {
      const used = Math.min(this.width(title, `600 15px ${FONT}`), room) + 8;
      c.font = `13px ${FONT}`;
      c.fillStyle = colors["--quiet"];
      if (room - used > 12) c.fillText(shorten(text.name, 20), x + 12 + used, ty, room - used);
    }
    if (node.canOpen) this.plus(node);
    c.font = `11px ${MONO}`;
    c.fillStyle = colors["--quiet"];
    ty += node.isTerminal ? 15 : 17;
    const pill = text.kept > 0 ? this.width(bytesText(text.kept), `10px ${FONT}`) + 12 : 0;
    c.fillText(shorten(text.sub, 40), x + 12, ty, w - 24 - (pill ? pill + 6 : 0));
    if (pill) {
      this.shape(x + w - pill - 9, ty - 8, pill, 15, 7);
      c.fillStyle = colors["--kept"];
      c.fill();
      c.font = `10px ${FONT}`;
      c.fillStyle = "#fff";
      c.fillText(bytesText(text.kept), x + w - pill - 3, ty + 0.5);
    }
    if (text.note) {
      c.font = `11px ${FONT}`;
      c.fillStyle = colors["--quiet"];
      c.fillText(shorten(text.note, 36), x + 12, ty + 16, w - 24);
    }
  }

  // The handle that unfolds a node.
  plus(node) {
    const {context: c, colors} = this;
    const x = node.ax + node.w - 18, y = node.ay + 16;
    c.strokeStyle = colors["--quiet"];
    c.lineWidth = 1.4;
    this.shape(x - 8, y - 8, 16, 16, 5);
    c.moveTo(x - 4, y);
    c.lineTo(x + 4, y);
    c.moveTo(x, y - 4);
    c.lineTo(x, y + 4);
    c.stroke();
  }

  edges(state) {
    const {context: c, colors, zoom, box} = this;
    const styles = [  // far, plain, active, kept, passive, chosen, many in one
      {color: colors["--line"], width: 1, alpha: 0.22}, {color: colors["--line"], width: 1.2, alpha: 0.85},
      {color: colors["--linear"], width: 1.8, alpha: 0.9}, {color: colors["--kept"], width: 1.2, alpha: 0.5, dash: [6, 4]},
      {color: colors["--line"], width: 1.2, alpha: 0.5, dash: [3, 4]}, {color: colors["--accent"], width: 2.4, alpha: 1},
      {color: colors["--line"], width: 2.2, alpha: 0.8}];
    const lists = styles.map(() => []);
    for (const edge of state.edges) {
      if (edge.left > box.right || edge.right < box.left || edge.top > box.bottom || edge.bottom < box.top) continue;
      const chosen = edge.from === state.selected || edge.to === state.selected;
      lists[chosen ? 5 : edge.kept ? 3 : edge.passive ? 4 : edge.far ? 0 : edge.active ? 2 : edge.count > 7 ? 6 : 1].push(edge);
    }
    const total = lists.reduce((sum, list) => sum + list.length, 0);
    const straight = total > 4000 || zoom < 0.06;
    styles.forEach((style, k) => {
      if (lists[k].length === 0 || ((k === 0 || k === 3) && lists[k].length > 6000)) return;
      c.beginPath();
      for (const edge of lists[k]) this.trace(edge, straight);
      c.strokeStyle = style.color;
      const crowded = k === 5 || k === 6 ? 1 : Math.min(1, Math.max(0.35, 6 * state.nodes.length / (total + 1) - 0.5, 60 / lists[k].length));
      c.globalAlpha = style.alpha * crowded * (state.near.size > 0 && k !== 5 ? 0.45 : 1);
      c.lineWidth = Math.max(style.width, (k === 5 ? 1.6 : 0.6) / zoom);
      c.setLineDash(style.dash !== undefined && !straight && zoom > 0.15 ? style.dash : []);
      c.stroke();
      c.setLineDash([]);
      if (zoom > 0.3 && !straight && k !== 3) {
        c.fillStyle = style.color;
        c.beginPath();
        for (const edge of lists[k]) this.arrow(edge);
        c.fill();
      }
    });
    c.globalAlpha = 1;
  }

  trace(edge, straight) {
    const {context: c} = this;
    const {points, from, to} = edge, last = points.length - 2;
    if (straight && Math.abs(points[last] - points[0]) + Math.abs(points[last + 1] - points[1]) < 4 / this.zoom) return;
    c.moveTo(points[0], points[1]);
    if (straight) {
      c.lineTo(points[points.length - 2], points[points.length - 1]);
      return;
    }
    const out = from.upward ? -1 : 1, into = to.upward ? -1 : 1;
    for (let i = 2; i < points.length; i += 2) {
      const [x0, y0, x1, y1] = [points[i - 2], points[i - 1], points[i], points[i + 1]];
      const reach = Math.min(Math.max(Math.abs(y1 - y0) * 0.5, 14), 160);
      c.bezierCurveTo(x0, y0 + (i === 2 ? out : into) * reach, x1, y1 - (i + 2 === points.length ? into : out) * reach, x1, y1);
    }
  }

  arrow(edge) {
    const {context: c} = this;
    const {points, to} = edge;
    const x = points[points.length - 2], y = points[points.length - 1], side = to.upward ? -1 : 1;
    c.moveTo(x, y);
    c.lineTo(x - 4, y - 7 * side);
    c.lineTo(x + 4, y - 7 * side);
    c.closePath();
  }

  // From a chosen node to what it derives from, and to what derives from it.
  links(links) {
    const {context: c, colors, zoom} = this;
    c.strokeStyle = colors["--hit"];
    c.lineWidth = Math.max(2, 1.5 / zoom);
    c.setLineDash([2, 5]);
    c.lineCap = "round";
    c.beginPath();
    for (const [a, b] of links) {
      const x0 = a.ax + a.w / 2, y0 = a.ay + a.h / 2, x1 = b.ax + b.w / 2, y1 = b.ay + b.h / 2;
      c.moveTo(x0, y0);
      c.quadraticCurveTo((x0 + x1) / 2, (y0 + y1) / 2 - Math.abs(x1 - x0) * 0.12, x1, y1);
    }
    c.stroke();
    c.lineCap = "butt";
    c.setLineDash([]);
  }
}
