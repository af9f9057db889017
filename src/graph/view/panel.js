// panel.js - the text beside the picture: what the whole is, or what was clicked. All of it is made of text nodes,
// so that nothing in a dump is ever read as HTML.

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "onclick") made.addEventListener("click", value);
    else made.setAttribute(name, value);
  }
  for (const child of children) if (child !== null && child !== undefined) made.append(child);
  return made;
}

const MANY = 30;  // of a list: more are counted, not written

class Panel {
  constructor(box, app) {
    this.box = box;
    this.app = app;
  }

  show(node) {
    this.box.replaceChildren();
    this.box.scrollTop = 0;
    if (node === null) this.overview();
    else if (node.kind === "op") this.operation(node);
    else if (node.isTerminal) this.terminal(node);
    else this.group(node);
  }

  add(...children) { this.box.append(...children); }
  heading(text, detail) { this.add(element("h2", {}, text, detail ? element("span", {class: "quiet"}, ` ${detail}`) : null)); }
  badge(part) { return element("span", {class: `badge ${CLASS_NAMES[part]}`}, CLASS_NAMES[part]); }
  table(rows) { this.add(element("table", {}, ...rows.map(([name, value]) => element("tr", {}, element("th", {}, name), element("td", {}, value))))); }
  list(items, make, extra) {
    const list = element("ul", {}, ...items.slice(0, MANY).map((item) => element("li", {}, ...[make(item)].flat())));
    if (items.length > MANY) list.append(element("li", {class: "quiet"}, `and ${(items.length - MANY).toLocaleString("en")} more`));
    if (extra) list.append(extra);
    this.add(list);
  }
  button(text, action, title) { return element("button", {class: "link", onclick: action, ...(title ? {title} : {})}, text); }

  opLink(frame, op) {
    const {model} = frame;
    return this.button(model.opName(op), () => this.app.goTo(frame, "op", op), "Show this operation");
  }
  valueLink(frame, id) {
    const {model} = frame, from = model.producer[id];
    if (from >= 0) return this.button(plainText(model.valueName(id)), () => this.app.goTo(frame, "op", from), `Made by ${model.opName(from)}`);
    let at = model.inputs.indexOf(id);
    if (at < 0) at = model.inputs.length + model.externals.indexOf(id);
    return this.button(plainText(model.valueName(id)), () => this.app.goTo(frame, "input", at), "An input");
  }
  type(value) { return element("code", {}, value.type); }
  bytes(value) { return value.bytes ? element("span", {class: "quiet"}, ` ${bytesText(value.bytes)}`) : null; }
  kept(model, id) {
    return model.residuals.kept[id] ? element("span", {class: "badge kept", title: "Kept until the derivative has been computed"}, `kept, ${bytesText(model.values[id].bytes)}`) : null;
  }

  overview() {
    const {app} = this, frame = app.scene.root.frame, {model} = frame, {residuals} = model;
    this.add(element("h1", {}, plainText(model.name || "graph")));
    const inner = app.models.length > 1 ? `, ${countText(app.models.length - 1, "graph")} held by operations` : "";
    this.add(element("p", {class: "quiet"}, `${countText(model.size, "operation")}, ${countText(model.values.length, "value")}${inner}. Click anything for its details; double-click unfolds.`));
    const parts = [0, 0, 0, 0];
    for (const part of model.classes) ++parts[part];
    if (!model.isTape && parts.filter((count) => count > 0).length > 1)
      this.table(parts.map((count, part) => [this.badge(part), countText(count, "operation")]).filter((row, part) => parts[part] > 0));
    if (residuals.list.length > 0 || residuals.inputs > 0) {
      this.heading("Kept for the derivative", bytesText(residuals.bytes));
      this.add(element("p", {class: "quiet"}, `${countText(residuals.list.length, "residual")}, and ${countText(residuals.inputs, "input")} of ${bytesText(residuals.inputBytes)}`));
      this.list(residuals.list, (id) => [this.valueLink(frame, id), " ", this.type(model.values[id]), element("span", {class: "quiet"}, ` ${bytesText(model.values[id].bytes)} by ${model.opName(model.producer[id])}`)]);
    } else if (model.isTape) {
      this.heading("Kept for backward", bytesText(residuals.bytes));
      this.add(element("p", {class: "quiet"}, "What two operations keep is counted once here, as far as the dump tells."));
      this.list(residuals.holders, (op) => [this.opLink(frame, op), element("span", {class: "quiet"}, ` ${bytesText(model.ops[op].keptBytes)}`)]);
    }
    this.heading(model.isTape ? "Leaves" : "Inputs", model.inputs.length.toLocaleString("en"));
    this.list(model.inputs, (id) => [this.valueLink(frame, id), " ", this.type(model.values[id]), this.bytes(model.values[id])]);
    if (model.externals.length > 0) {
      this.heading("Externals", model.externals.length.toLocaleString("en"));
      this.list(model.externals, (id) => [this.valueLink(frame, id), " ", this.type(model.values[id])]);
    }
    this.heading(model.isTape ? "Roots" : "Outputs", model.outputs.length.toLocaleString("en"));
    this.list(model.outputs.map((id, i) => [id, i]), ([id, i]) => [`${i}: `, this.valueLink(frame, id), " ", this.type(model.values[id]), this.bytes(model.values[id])]);
    this.heading("Operations");
    const counts = new Map();
    for (const op of model.ops) counts.set(op.op, (counts.get(op.op) || 0) + 1);
    this.list([...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)), ([op, count]) => [this.button(plainText(op), () => app.search.ask(op), "Search for it"), element("span", {class: "quiet"}, ` ${count.toLocaleString("en")}`)]);
    if (app.models.length > 1) {
      this.heading("Graphs held by operations");
      this.list(app.models.slice(1), (held) => [this.button(`${held.index}: ${plainText(held.name || "graph")}`, () => app.openGraph(held.index), "Show this graph alone"), element("span", {class: "quiet"}, ` ${countText(held.size, "operation")}`)]);
    }
  }

  operation(node) {
    const {frame, lo: index} = node, {model} = frame, op = model.ops[index], part = model.classes[index];
    this.add(element("h1", {}, plainText(op.op), " ", model.isTape ? null : this.badge(part)));
    const rows = [["operation", `${op.number} of ${model.size.toLocaleString("en")} in ${plainText(model.name || "the graph")}`]];
    if (op.where) rows.push(["where", element("code", {}, plainText(op.where))]);
    if (model.origin[index] >= 0) rows.push(["derives from", this.opLink(frame, model.origin[index])]);
    if (op.freed) rows.push(["freed", "backward has run and let go what it kept"]);
    if (op.blocked) rows.push(["gradient", "none flows through it"]);
    this.table(rows);
    const derived = model.derived.of(index);
    if (derived.length > 0) {
      this.heading("Derived from it", derived.length.toLocaleString("en"));
      this.list([...derived], (other) => [this.opLink(frame, other), " ", this.badge(model.classes[other])]);
    }
    const held = model.held(index);
    if (node.canOpen) this.add(element("p", {}, element("button", {onclick: () => this.app.toggle(node)}, node.open ? "Fold" : "Unfold")));
    for (const [name, graph] of held)
      this.add(element("p", {}, `${name}: `, this.button(`graph ${graph}, ${plainText(this.app.models[graph].name || "unnamed")}`, () => this.app.openGraph(graph)), element("span", {class: "quiet"}, ` ${countText(this.app.models[graph].size, "operation")}`)));
    const attributes = Object.entries(op.attrs || {}).filter(([name]) => !held.some(([holder]) => holder === name));
    if (attributes.length > 0) {
      this.heading(model.isTape ? "Recorded" : "Attributes");
      this.table(attributes.map(([name, value]) => [plainText(name), element("code", {}, shorten(plainText(attributeText(value)), 4000))]));
    }
    this.heading("Operands", model.isTape ? "that require a gradient" : "");
    this.list(op.inputs.map((id, k) => [id, k]), ([id, k]) => {
      const from = model.producer[id];
      return [this.valueLink(frame, id), " ", this.type(model.values[id]), this.bytes(model.values[id]),
        element("span", {class: "quiet"}, from >= 0 ? ` by ${model.opName(from)}` : model.isTape ? " leaf" : " input"),
        model.isActive(index, k) ? element("span", {class: "badge linear", title: "The operation is linear in it"}, "active") : null,
        model.classes[index] >= LINEAR && !model.isActive(index, k) ? this.kept(model, id) : null];
    });
    this.heading("Results");
    for (const id of op.outputs) this.value(frame, id);
    if (model.isTape) {
      this.heading("Keeps", bytesText(op.keptBytes));
      this.list(op.saved || [], (each) => [`${each.value} `, element("code", {}, each.type), element("span", {class: "quiet"}, ` ${bytesText(each.bytes)}${each.version === undefined ? "" : `, version ${each.version}`}`)]);
    }
  }

  value(frame, id) {
    const {model} = frame, value = model.values[id];
    this.add(element("p", {}, element("b", {}, plainText(model.valueName(id))), " ", this.type(value), this.bytes(value), " ", this.kept(model, id), value.noDerivative ? element("span", {class: "quiet"}, " without derivative") : null));
    const rows = [];
    if (value.name && !model.isTape) rows.push(["value", `%${id}`]);
    if (value.key !== undefined) rows.push(["key", element("code", {class: "key"}, value.key)]);
    if (value.input_key !== undefined) rows.push(["input key", element("code", {class: "key"}, value.input_key)]);
    const places = model.outputs.flatMap((output, i) => (output === id ? [i] : []));
    if (places.length > 0) rows.push([model.isTape ? "root" : "output", places.join(", ")]);
    if (rows.length > 0) this.table(rows);
    const readers = [...new Set(model.readers.of(id))];
    if (readers.length > 0) {
      this.add(element("p", {class: "quiet"}, `read by ${countText(readers.length, "operation")}`));
      this.list(readers, (op) => [this.opLink(frame, op), " ", model.isTape || model.classes[op] === PRIMAL ? null : this.badge(model.classes[op])]);
    }
  }

  terminal(node) {
    const {frame, lo} = node, {model} = frame;
    const id = node.kind === "input" ? inputValue(model, lo) : model.outputs[lo];
    const what = node.kind === "output" ? (model.isTape ? "root" : "output") : model.isTape ? "leaf" : lo < model.inputs.length ? "input" : "external";
    this.add(element("h1", {}, plainText(describe(node).title), " ", element("span", {class: `badge ${node.kind}`}, what)));
    if (node.kind === "output") this.add(element("p", {}, "is ", this.valueLink(frame, id)));
    this.value(frame, id);
  }

  group(node) {
    const {model, lo, hi} = node, text = describe(node);
    this.add(element("h1", {}, text.title));
    this.add(element("p", {}, element("button", {onclick: () => this.app.toggle(node)}, node.open ? "Fold" : "Unfold")));
    if (node.isTerminalGroup) {
      const ids = Array.from({length: hi - lo}, (unused, i) => node.kind === "inputs" ? inputValue(model, lo + i) : model.outputs[lo + i]);
      this.list(ids, (id) => [this.valueLink(node.frame, id), " ", this.type(model.values[id]), this.bytes(model.values[id])]);
      return;
    }
    const rows = [["operations", `${model.ops[lo].number.toLocaleString("en")} to ${model.ops[hi - 1].number.toLocaleString("en")}`]];
    if (node.kind === "run") rows.push(["repeats", `${node.item.times.toLocaleString("en")} times`], ["each", countText(node.item.period, "operation")]);
    if (text.kept) rows.push(["kept", bytesText(text.kept)]);
    this.table(rows);
    if (node.kind === "run") this.add(element("p", {class: "quiet"}, "Repetitions are equal in operations, attributes and types; where one reads another's results is not compared."));
    this.heading("Operations in it");
    this.list([...text.counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)), ([op, count]) => [plainText(op), element("span", {class: "quiet"}, ` ${count.toLocaleString("en")}`)]);
  }
}
