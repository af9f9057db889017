// search.js - finding operations and values by what is written on them, in the open graph and in the graphs that
// its operations hold; #12 is operation 12, %7 value 7, and eight or more digits the beginning of a key.

const MOST_HITS = 5000, SHOWN_HITS = 100;

class Search {
  constructor(app) {
    this.app = app;
    this.field = document.getElementById("query");
    this.box = document.getElementById("hits");
    this.hits = [];
    this.at = -1;
    this.field.addEventListener("input", () => this.run());
    this.field.addEventListener("focus", () => this.show(this.hits.length > 0 || this.field.value !== ""));
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || (event.key === "Enter" && !event.shiftKey)) this.step(1);
      else if (event.key === "ArrowUp" || event.key === "Enter") this.step(-1);
      else if (event.key === "Escape") this.clear();
      else return;
      event.preventDefault();
    });
    document.addEventListener("pointerdown", (event) => {
      if (!this.box.contains(event.target) && event.target !== this.field) this.show(false);
    });
  }

  ask(text) {
    this.field.value = text;
    this.run();
    this.field.focus();
  }
  clear() {
    this.field.value = "";
    this.run();
    this.show(false);
    document.getElementById("picture").focus();
  }
  show(yes) { this.box.hidden = !yes; }

  // Everything in one model that the text is part of, as {kind, at, text}.
  inModel(model, text, hits) {
    const numbered = /^([#%])(\d+)$/.exec(text);
    const key = /^[0-9a-f]{8,32}$/.test(text) ? text : null;
    const has = (words) => words !== undefined && words !== "" && words.toLowerCase().includes(text);
    const add = (kind, at, words) => { if (hits.length < MOST_HITS) hits.push({model, kind, at, words}); };
    const matches = (id) => numbered ? numbered[1] === "%" && id === Number(numbered[2])
      : has(model.values[id].name) || (key !== null && ((model.values[id].key || "").startsWith(key) || (model.values[id].input_key || "").startsWith(key)));
    for (let i = 0; i < model.inputs.length + model.externals.length; ++i) {
      const id = inputValue(model, i);
      if (matches(id)) add("input", i, `${model.valueName(id)}  ${model.values[id].type}`);
    }
    model.ops.forEach((op, i) => {
      const words = `${op.op} #${op.number}${op.where ? `  ${op.where}` : ""}`;
      const named = op.outputs.find(matches);
      if (named !== undefined) add("op", i, `${model.valueName(named)} = ${words}`);
      else if (numbered ? numbered[1] === "#" && op.number === Number(numbered[2]) : has(op.op) || has(op.where)) add("op", i, words);
    });
  }

  run() {
    const text = this.field.value.trim().toLowerCase();
    this.hits = [];
    this.at = -1;
    if (text !== "") {
      const open = this.app.scene.root.model;
      this.inModel(open, text, this.hits);
      for (const model of this.app.reachable(open)) this.inModel(model, text, this.hits);
    }
    this.list(text);
    this.app.markHits(this.hits);
  }

  list(text) {
    this.box.replaceChildren();
    this.show(text !== "");
    if (text === "") return;
    const count = this.hits.length >= MOST_HITS ? `${MOST_HITS.toLocaleString("en")} or more` : this.hits.length.toLocaleString("en");
    this.box.append(element("div", {class: "quiet"}, this.hits.length === 0 ? "Nothing found" : `${count} found; Enter goes through them`));
    this.rows = this.hits.slice(0, SHOWN_HITS).map((hit, i) => {
      const row = element("div", {role: "option", class: "hit", onclick: () => this.go(i)}, element("span", {class: `dot ${hit.kind === "op" ? CLASS_NAMES[hit.model.classes[hit.at]] : "input"}`}), plainText(hit.words),
        hit.model === this.app.scene.root.model ? null : element("span", {class: "quiet"}, ` in ${plainText(hit.model.name || `graph ${hit.model.index}`)}`));
      this.box.append(row);
      return row;
    });
  }

  step(by) {
    if (this.hits.length === 0) return;
    this.go((this.at + by + this.hits.length) % this.hits.length);
  }

  go(i) {
    this.at = i;
    this.rows.forEach((row, k) => row.classList.toggle("chosen", k === i));
    if (this.rows[i] !== undefined) this.rows[i].scrollIntoView({block: "nearest"});
    this.app.goToModel(this.hits[i].model, this.hits[i].kind, this.hits[i].at);
  }
}
