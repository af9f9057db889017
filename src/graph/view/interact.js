// interact.js - pointer, wheel and keys: moving the picture, choosing and unfolding what is in it.

const STEP = 70;  // pixels that an arrow key moves

class Interaction {
  constructor(app) {
    this.app = app;
    const {canvas} = app;
    this.pointers = new Map();
    this.moved = 0;
    this.toggled = -Infinity;
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.up(event));
    canvas.addEventListener("pointercancel", (event) => this.pointers.delete(event.pointerId));
    canvas.addEventListener("dblclick", (event) => {
      if (performance.now() - this.toggled < 600) return;  // by its handle
      const node = app.nodeAt(event.offsetX, event.offsetY);
      if (node !== null && node.canOpen && node.parent !== null) app.toggle(node);
      else if (node === null || node === app.scene.root) app.zoomBy(1.8, event.offsetX, event.offsetY);
    });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 30 : event.deltaMode === 2 ? 400 : 1;
      if (event.shiftKey) app.panBy((event.deltaX + event.deltaY) * unit, 0);
      else app.zoomBy(Math.exp(-Math.max(-400, Math.min(400, event.deltaY * unit)) * (event.ctrlKey ? 0.008 : 0.0018)), event.offsetX, event.offsetY);
    }, {passive: false});
    document.addEventListener("keydown", (event) => this.key(event));
    app.minimap.addEventListener("pointerdown", (event) => {
      app.minimap.setPointerCapture(event.pointerId);
      app.centerFromMinimap(event.offsetX, event.offsetY);
    });
    app.minimap.addEventListener("pointermove", (event) => { if (event.buttons) app.centerFromMinimap(event.offsetX, event.offsetY); });
    const click = (id, action) => document.getElementById(id).addEventListener("click", action);
    click("zoom-in", () => app.zoomBy(1.4));
    click("zoom-out", () => app.zoomBy(1 / 1.4));
    click("fit", () => app.fit());
    click("unfold", () => app.unfoldInView());
    click("fold", () => app.foldAll());
    click("scheme", () => app.switchScheme());
    click("help", () => app.toggleHelp());
  }

  down(event) {
    this.app.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    if (this.pointers.size === 1) this.moved = 0;
  }

  move(event) {
    const {app} = this, before = this.pointers.get(event.pointerId);
    if (before === undefined) {
      app.hoverAt(event.offsetX, event.offsetY);
      return;
    }
    const [x, y] = [event.offsetX, event.offsetY];
    if (this.pointers.size === 2) {  // two fingers: the distance between them is the zoom
      const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      const was = Math.hypot(before[0] - other[0], before[1] - other[1]), is = Math.hypot(x - other[0], y - other[1]);
      if (was > 0 && is > 0) app.zoomBy(is / was, (x + other[0]) / 2, (y + other[1]) / 2);
    }
    const part = this.pointers.size === 2 ? 0.5 : 1;
    app.panBy((before[0] - x) * part, (before[1] - y) * part);
    this.moved += Math.abs(before[0] - x) + Math.abs(before[1] - y);
    this.pointers.set(event.pointerId, [x, y]);
  }

  up(event) {
    const {app} = this;
    this.pointers.delete(event.pointerId);
    if (this.moved > 4 || event.button !== 0) return;
    const node = app.nodeAt(event.offsetX, event.offsetY);
    app.select(node === app.scene.root ? null : node);
    if (node !== null && node.parent !== null && node.canOpen && app.onHandle(node, event.offsetX, event.offsetY)) {
      this.toggled = performance.now();
      app.toggle(node);
    }
  }

  key(event) {
    const {app} = this;
    if (event.target === app.search.field || event.ctrlKey || event.metaKey || event.altKey) return;
    const {selected} = app.state;
    const actions = {
      ArrowLeft: () => app.panBy(-STEP, 0), ArrowRight: () => app.panBy(STEP, 0),
      ArrowUp: () => app.panBy(0, -STEP), ArrowDown: () => app.panBy(0, STEP),
      PageUp: () => app.panBy(0, -app.state.height * 0.8), PageDown: () => app.panBy(0, app.state.height * 0.8),
      "+": () => app.zoomBy(1.4), "=": () => app.zoomBy(1.4), "-": () => app.zoomBy(1 / 1.4),
      0: () => app.fit(), f: () => app.fit(), "/": () => app.search.field.select(), "?": () => app.toggleHelp(),
      e: () => app.unfoldInView(), c: () => app.foldAll(), z: () => { if (selected !== null) app.center(selected, 1); },
      n: () => app.search.step(1), N: () => app.search.step(-1), Backspace: () => app.back(),
      o: () => app.goToOrigin(),
      Escape: () => { if (!app.closeHelp()) app.select(null); },
      " ": () => { if (selected !== null && selected.canOpen) app.toggle(selected); },
      Enter: () => { if (selected !== null && selected.canOpen) app.toggle(selected); },
    };
    const onButton = event.target instanceof HTMLButtonElement && (event.key === "Enter" || event.key === " ");
    if (onButton || !Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
  }
}
