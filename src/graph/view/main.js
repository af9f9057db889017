// main.js - the page: reads the data, keeps what is open, chosen and in view, and draws when something changed.

const UNFOLD_BUDGET = 1500;  // nodes that "unfold" shows at most

class App {
  constructor(data) {
    const dumps = data.tape !== undefined ? [graphOfTape(data.tape)] : data.graphs;
    this.models = dumps.map((dump, i) => new Model(dump, i));
    this.stage = data.stage || "";
    this.canvas = document.getElementById("picture");
    this.minimap = document.getElementById("minimap");
    this.painter = new Painter(this.canvas);
    this.state = {view: {left: 0, top: 0, zoom: 1}, width: 1, height: 1, ratio: 1, nodes: [], edges: [], selected: null, hover: null,
                  near: new Map(), hits: new Set(), links: []};
    this.history = [];
    this.frames = {count: 0, total: 0, worst: 0};
    this.panel = new Panel(document.getElementById("panel"), this);
    this.scene = new Scene(this.models, 0);
    this.search = new Search(this);
    this.interaction = new Interaction(this);
    this.painter.readColors();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolor());
    new ResizeObserver(() => this.measure()).observe(this.canvas.parentElement);
    this.legend();
    this.measure();
    this.showGraph(0);
  }

  // What graph the page is of; others that operations hold can be opened alone.
  showGraph(index) {
    if (index !== this.scene.root.model.index) this.scene = new Scene(this.models, index);
    const {model} = this.scene.root;
    document.getElementById("name").textContent = plainText(model.name || "graph");
    const stage = document.getElementById("stage");
    stage.hidden = this.stage === "" || index !== 0;
    stage.textContent = plainText(this.stage);
    const kept = model.residuals.bytes > 0 ? `, ${bytesText(model.residuals.bytes)} kept` : "";
    document.getElementById("size").textContent = `${countText(model.size, "operation")}${kept}`;
    const path = document.getElementById("path");
    path.replaceChildren();
    if (index !== 0) path.append(element("button", {onclick: () => this.openGraph(0)}, `\u2190 back to ${plainText(this.models[0].name || "graph")}`));
    this.state.selected = this.state.hover = null;
    this.history = [];
    this.relayout();
    this.search.run();
    this.search.show(false);
    this.select(null);
    this.fit();
  }
  openGraph(index) { this.showGraph(index); }

  // The graphs that a model's operations hold, and theirs, each once.
  reachable(model) {
    const seen = new Set([model.index]), list = [model];
    for (let i = 0; i < list.length; ++i)
      for (let op = 0; op < list[i].size; ++op)
        for (const [, graph] of list[i].held(op)) {
          if (seen.has(graph)) continue;
          seen.add(graph);
          list.push(this.models[graph]);
        }
    return list.slice(1);
  }

  relayout() {
    const {state, scene} = this;
    const aspect = Math.min(Math.max(state.width / Math.max(state.height, 1), 0.6), 2.6);
    const {nodes, edges} = layoutScene(scene, aspect, (node) => this.painter.size(node));
    state.nodes = nodes;
    state.edges = edges;
    this.markHits(this.search.hits);
    this.select(state.selected !== null && nodes.includes(state.selected) ? state.selected : null, true);
    this.drawMinimap();
    this.draw();
  }

  // Unfolds or folds a node without moving it on the screen.
  toggle(node) {
    const {view} = this.state;
    const x = (node.ax - view.left) * view.zoom, y = (node.ay - view.top) * view.zoom;
    if (node.open) node.open = false;
    else this.scene.open(node);
    this.relayout();
    view.left = node.ax - x / view.zoom;
    view.top = node.ay - y / view.zoom;
    this.select(node);
    if (node.open && (node.w * view.zoom > this.state.width * 1.2 || node.h * view.zoom > this.state.height * 1.2)) this.fitBox(node.ax, node.ay, node.w, node.h);
    this.draw();
  }

  unfoldInView() {
    let budget = UNFOLD_BUDGET - this.state.nodes.length;
    const closed = this.state.nodes.filter((node) => !node.open && node.canOpen && this.painter.inView(node));
    let opened = 0;
    for (const node of closed) {
      const count = this.scene.childrenOf(node).length;
      if (count > budget) continue;
      budget -= count;
      this.scene.open(node);
      ++opened;
    }
    if (opened > 0) {
      this.relayout();
      this.fit();
    }
  }
  foldAll() {
    for (const node of this.state.nodes) if (node.parent !== null) node.open = false;
    this.relayout();
    this.fit();
  }

  select(node, quiet) {
    const {state} = this;
    state.selected = node;
    state.near = new Map();
    state.links = [];
    if (node !== null) {
      for (const edge of state.edges) {
        if (edge.from === node) state.near.set(edge.to, edge);
        if (edge.to === node) state.near.set(edge.from, edge);
      }
      const {model, frame} = node;
      if (node.kind === "op") {
        const others = [...model.derived.of(node.lo)];
        if (model.origin[node.lo] >= 0) others.push(model.origin[node.lo]);
        for (const op of others) {
          const other = frame.opNode[op];
          if (other === null || other === node) continue;
          state.links.push([node, other]);
          state.near.set(other, null);
        }
      }
    }
    if (!quiet) this.panel.show(node);
    this.draw();
  }

  // Chooses an operation, input or output of a frame, unfolds what it is in, and moves there.
  goTo(frame, kind, at) {
    if (this.state.selected !== null) this.history.push([this.state.selected.frame, this.state.selected.kind, this.state.selected.lo]);
    const node = this.scene.reveal(frame.holder || this.scene.root, kind, at);
    if (node === null) return;
    this.relayout();
    this.select(node);
    this.center(node, this.state.view.zoom < 0.62 ? 0.9 : this.state.view.zoom);
  }
  back() {
    const last = this.history.pop();
    if (last === undefined || last[0].model === undefined || !["op", "input", "output"].includes(last[1])) return;
    const {length} = this.history;
    this.goTo(...last);
    this.history.length = length;
  }
  goToOrigin() {
    const node = this.state.selected;
    if (node !== null && node.kind === "op" && node.model.origin[node.lo] >= 0) this.goTo(node.frame, "op", node.model.origin[node.lo]);
  }
  // The same in a model that may lie in others: by the first operations that hold it.
  goToModel(model, kind, at) {
    const path = this.pathTo(model.index);
    if (path === null) return;
    let holder = this.scene.root;
    for (const op of path) {
      holder = this.scene.reveal(holder, "op", op);
      this.scene.open(holder);
      if (holder.inside === null || holder.inside.model !== this.models[this.models[holder.model.index].held(op)[0][1]]) return;
    }
    const frame = holder.kind === "root" ? holder.frame : holder.inside;
    if (frame.model !== model) {
      this.showGraph(model.index);
      this.goTo(this.scene.root.frame, kind, at);
      return;
    }
    frame.holder = holder;
    this.goTo(frame, kind, at);
  }
  pathTo(index) {
    const start = this.scene.root.model.index;
    const from = new Map([[start, null]]), list = [start];
    for (let i = 0; i < list.length && !from.has(index); ++i) {
      const model = this.models[list[i]];
      for (let op = 0; op < model.size; ++op)
        for (const [, graph] of model.held(op).slice(0, 1))
          if (!from.has(graph)) {
            from.set(graph, [list[i], op]);
            list.push(graph);
          }
    }
    if (!from.has(index)) {
      this.showGraph(index);
      return [];
    }
    const path = [];
    for (let at = index; from.get(at) !== null; at = from.get(at)[0]) path.unshift(from.get(at)[1]);
    return path;
  }

  // The nodes in which what was found is visible now.
  markHits(hits) {
    const marked = new Set();
    for (const frame of this.scene.frames)
      for (const hit of hits) {
        if (hit.model !== frame.model) continue;
        const node = hit.kind === "op" ? frame.opNode[hit.at] : frame.inputNode.get(inputValue(hit.model, hit.at));
        if (node !== null && node !== undefined && !node.open) marked.add(node);
      }
    this.state.hits = marked;
    this.draw();
  }

  nodeAt(x, y) {
    const {view, nodes} = this.state;
    const wx = view.left + x / view.zoom, wy = view.top + y / view.zoom;
    for (let i = nodes.length - 1; i >= 0; --i) {
      const node = nodes[i];
      if (wx >= node.ax && wx <= node.ax + node.w && wy >= node.ay && wy <= node.ay + node.h) return node;
    }
    return null;
  }
  onHandle(node, x, y) {
    const {view} = this.state;
    const wx = view.left + x / view.zoom - node.ax, wy = view.top + y / view.zoom - node.ay;
    return node.open ? wy < Math.max(HEADER, 20 / view.zoom) && wx < Math.max(180, 160 / view.zoom) : view.zoom >= 0.62 && wx > node.w - 30 && wy < 30;
  }
  hoverAt(x, y) {
    const node = this.nodeAt(x, y), {state} = this;
    const shown = node === this.scene.root ? null : node;
    this.canvas.style.cursor = shown === null ? "grab" : "pointer";
    if (shown === state.hover) return;
    state.hover = shown;
    this.canvas.title = shown === null ? "" : [describe(shown).title, describe(shown).name, describe(shown).sub, describe(shown).note].filter(Boolean).join("\n");
    this.draw();
  }

  // Moving about.
  panBy(dx, dy) {
    const {view} = this.state;
    view.left += dx / view.zoom;
    view.top += dy / view.zoom;
    this.draw();
  }
  zoomBy(factor, x = this.state.width / 2, y = this.state.height / 2) {
    const {view} = this.state;
    const zoom = Math.min(Math.max(view.zoom * factor, this.leastZoom()), 4);
    view.left += x / view.zoom - x / zoom;
    view.top += y / view.zoom - y / zoom;
    view.zoom = zoom;
    this.draw();
  }
  leastZoom() {
    const {root} = this.scene;
    return Math.min(0.5, 0.5 * Math.min(this.state.width / root.w, this.state.height / root.h));
  }
  fitBox(x, y, w, h) {
    const {state} = this, margin = 16, legend = 44;
    const height = state.height - 2 * margin - legend;
    const zoom = Math.min((state.width - 2 * margin) / w, height / h, 1.25);
    state.view = {zoom, left: x + w / 2 - state.width / 2 / zoom, top: y + h / 2 - (margin + height / 2) / zoom};
    this.draw();
  }
  fit() {
    const {root} = this.scene;
    this.fitBox(root.ax, root.ay, root.w, root.h);
  }
  center(node, zoom) {
    const {state} = this;
    state.view = {zoom, left: node.ax + node.w / 2 - state.width / 2 / zoom, top: node.ay + node.h / 2 - state.height / 2 / zoom};
    this.draw();
  }

  // The map in the corner: nodes once for each layout, then the part in view for each picture.
  drawMinimap() {
    const {root} = this.scene, ratio = this.state.ratio;
    const scale = Math.min(190 / root.w, 130 / root.h);
    this.map = {scale, ratio, image: document.createElement("canvas")};
    const {image} = this.map;
    image.width = Math.max(1, Math.round(root.w * scale * ratio));
    image.height = Math.max(1, Math.round(root.h * scale * ratio));
    const c = image.getContext("2d");
    for (const node of this.state.nodes) {
      if (node.open) continue;
      c.fillStyle = this.painter.color(node);
      c.fillRect(node.ax * scale * ratio, node.ay * scale * ratio, Math.max(node.w * scale * ratio, 1), Math.max(node.h * scale * ratio, 1));
    }
    this.minimap.width = image.width;
    this.minimap.height = image.height;
    this.minimap.style.width = `${image.width / ratio}px`;
    this.minimap.style.height = `${image.height / ratio}px`;
  }
  paintMinimap() {
    const {view, width, height} = this.state, {root} = this.scene, {scale, ratio, image} = this.map;
    const all = view.left <= root.ax && view.top <= root.ay && view.left + width / view.zoom >= root.w && view.top + height / view.zoom >= root.h;
    this.minimap.hidden = all;
    if (all) return;
    const c = this.minimap.getContext("2d");
    c.clearRect(0, 0, image.width, image.height);
    c.drawImage(image, 0, 0);
    c.strokeStyle = this.painter.colors["--accent"];
    c.lineWidth = 2 * ratio;
    c.strokeRect(view.left * scale * ratio, view.top * scale * ratio, width / view.zoom * scale * ratio, height / view.zoom * scale * ratio);
  }
  centerFromMinimap(x, y) {
    const {view, width, height} = this.state, {scale} = this.map;
    view.left = x / scale - width / 2 / view.zoom;
    view.top = y / scale - height / 2 / view.zoom;
    this.draw();
  }

  // Drawing, at most once for each picture that the screen shows.
  draw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.paint();
    });
  }
  paint() {
    if (this.map === undefined) return;
    const from = performance.now();
    this.drawn = this.painter.paint(this.state);
    this.paintMinimap();
    const time = performance.now() - from;
    ++this.frames.count;
    this.frames.total += time;
    this.frames.worst = Math.max(this.frames.worst, time);
    if (this.firstPaint !== undefined) return;
    this.firstPaint = performance.now();
    document.documentElement.dataset.view = `${this.scene.root.model.size} operations, ${this.state.nodes.length} nodes`;
  }
  // Sets the size of the canvas to that of its place; a canvas whose size is set is blank.
  measure() {
    const {state, canvas} = this, box = canvas.parentElement.getBoundingClientRect();
    state.ratio = devicePixelRatio || 1;
    state.width = Math.max(box.width, 50);
    state.height = Math.max(box.height, 50);
    const width = Math.round(state.width * state.ratio), height = Math.round(state.height * state.ratio);
    if (canvas.width === width && canvas.height === height) return;
    canvas.width = width;
    canvas.height = height;
    this.paint();
  }

  recolor() {
    this.painter.readColors();
    this.drawMinimap();
    this.draw();
  }
  switchScheme() {
    const {dataset} = document.documentElement;
    const dark = dataset.scheme !== undefined ? dataset.scheme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    dataset.scheme = dark ? "light" : "dark";
    this.recolor();
  }

  legend() {
    const box = document.getElementById("legend"), tape = this.models[0].isTape;
    const parts = new Set();
    for (const model of this.models) for (const part of model.classes) parts.add(part);
    const entries = [["input", tape ? "leaf" : "input"], ...[...parts].sort().map((part) => [CLASS_NAMES[part], tape ? "operation" : CLASS_NAMES[part]]), ["output", tape ? "root" : "output"]];
    box.replaceChildren(...entries.map(([name, text]) => element("span", {}, element("span", {class: `dot ${name}`}), text)));
    if (this.models.some((model) => model.residuals.bytes > 0))
      box.append(element("span", {}, element("span", {class: "badge kept"}, "bytes"), tape ? " kept for backward" : " kept for the derivative"));
  }
  toggleHelp() {
    const box = document.getElementById("helpbox");
    box.hidden = !box.hidden;
    if (box.childElementCount > 0) return;
    const rows = [["Wheel, pinch, + and \u2212", "zoom"], ["Drag, arrow keys, Shift and wheel", "move"], ["0 or f", "show everything"],
      ["Click", "details of an operation, input, output or group"], ["Double-click, Enter, or the [+] of a box", "unfold; the title of a frame folds it again"],
      ["/", "search; Enter or n goes to the next hit, Shift and Enter or N to the one before"], ["o", "go to what the chosen operation derives from"],
      ["Backspace", "go back"], ["e, c", "unfold what is in view, fold everything"], ["z", "look at what is chosen"]];
    box.append(element("h2", {}, "How to move about"), element("table", {}, ...rows.map(([key, what]) => element("tr", {}, element("th", {}, key), element("td", {}, what)))),
      element("h2", {}, "What is shown"),
      element("p", {}, "Operations stand below what they read. Primal operations are as they were written; residuals were added for the derivative; linear ones run along with tangents; transposed ones run on cotangents and stand beside what they derive from, running upward. A box drawn as a stack is a part that repeats. A violet label tells the bytes of a value that is kept for the derivative; dashed lines lead from there to where it is read. Pale lines lead far. Dotted lines join a chosen operation with what it derives from, or what derives from it."));
  }
  closeHelp() {
    const box = document.getElementById("helpbox"), open = !box.hidden;
    box.hidden = true;
    return open;
  }
}

const began = performance.now();
const app = new App(JSON.parse(document.getElementById("data").textContent));
app.ready = performance.now() - began;
window.tiduView = app;  // for whoever wants to script the page
