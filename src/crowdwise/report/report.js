// Draws the data of the report. User-written text becomes text nodes: no string is ever turned into HTML.
"use strict";
(() => {
  const DATA = JSON.parse(document.getElementById("data").textContent);
  const PAGE = { labels: 25, workers: 15, next: 10, wrong: 10 }; // rows shown first; "Show more" doubles them
  const CARDS = innerWidth < 640 ? 6 : 12; // shown first, and added by "Show more"
  const NOTHING = "–";
  const integer = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
  const decimal = new Intl.NumberFormat("en-GB", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  const collator = new Intl.Collator("en", { numeric: true });

  // Nodes

  const make = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== undefined) node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  };

  const styled = (node, values) => {
    for (const [name, value] of Object.entries(values)) node.style.setProperty(name, value);
    return node;
  };

  const percent = (share, places = 1) => {
    if (share === null || share === undefined) return NOTHING;
    if (share === 0 || share === 1) return `${100 * share}%`;
    const least = 10 ** -places;
    return `${Math.min(Math.max(100 * share, least), 100 - least).toFixed(places)}%`;
  };

  const verdict = (name) =>
    make("span", { class: "verdict" }, make("i", { class: `dot v-${name.split(" ")[0]}` }), name);

  // Cells of a table by the kind of their column: each function returns a node or a text

  const CELLS = {
    text: (value) => value,
    count: (value) => integer.format(value),
    share: (value) => percent(value),
    number: (value) => decimal.format(value),
    seconds: (value) => value.toFixed(1),
    verdict,
    words: (value) => value,
    known: (value, row, cells) => (value === cells.label[row] ? value : make("b", { class: "wrong" }, value)),
    flag: (value) => make("span", { class: "tag spam" }, value),
    range: (value, row, cells, key) => {
      const [low, high] = [cells[`${key}_low`][row] ?? value, cells[`${key}_high`][row] ?? value];
      const bar = styled(make("i"), { "--low": `${100 * low}%`, "--high": `${100 * high}%`, "--at": `${100 * value}%` });
      return make("span", { class: "range", title: `${percent(low)} to ${percent(high)}` }, bar, percent(value));
    },
  };
  const LONG = { words: "words user", flag: "words user" };
  const NUMERIC = new Set(["count", "share", "number", "seconds", "range"]);

  // Charts

  const tip = document.getElementById("tip");

  function showTip(_, event, item, value) {
    tip.hidden = value === null || value === undefined || value === "";
    if (tip.hidden) return;
    const list = make("dl");
    for (const [name, text] of Object.entries(value)) {
      if (text !== "null") list.append(make("dt", {}, name), make("dd", { class: "user" }, String(text)));
    }
    tip.replaceChildren(list);
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const above = event.clientY + 18 + tip.offsetHeight > innerHeight;
    tip.style.left = `${Math.max(left, 8)}px`;
    tip.style.top = `${above ? event.clientY - tip.offsetHeight - 12 : event.clientY + 18}px`;
  }

  function draw(place, spec) {
    if (!window.vegaEmbed) {
      place.replaceChildren(make("p", { class: "note" }, "This report has no charts."));
      return Promise.resolve();
    }
    const options = { ast: true, actions: false, defaultStyle: false, renderer: "svg", config: DATA.config, tooltip: showTip };
    return window.vegaEmbed(place, spec, options).then(
      () => place.setAttribute("data-drawn", "yes"),
      (error) => {
        place.setAttribute("data-drawn", "no");
        place.replaceChildren(make("p", { class: "note" }, "This chart could not be drawn."));
        console.error(error);
      },
    );
  }

  // Draw one chart after the other, so that the page can be read meanwhile and all charts are there in print.
  function drawAll() {
    const waiting = [];
    for (const place of document.querySelectorAll("[data-chart]")) {
      const spec = DATA.charts[place.dataset.chart];
      if (!spec) place.remove(); // the empty figure is hidden by the style sheet
      else {
        place.style.minHeight = `${spec.height + 40}px`;
        waiting.push(() => draw(place, spec));
      }
    }
    const next = () => waiting.shift()?.().then(() => setTimeout(next));
    requestAnimationFrame(() => setTimeout(next));
  }

  // Tables

  class SortedTable {
    constructor(place, name, open) {
      Object.assign(this, { name, open, ...DATA.tables[name] });
      this.all = Array.from({ length: this.rows }, (_, row) => row);
      this.sort = { key: null, down: false };
      this.filter = this.query = "";
      this.opened = new Set();
      this.body = make("tbody");
      this.status = make("span", { role: "status" });
      this.more = make("button", { type: "button" }, "Show more");
      this.more.addEventListener("click", () => this.show(this.limit * 2));
      const scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table of ${name}` });
      scroll.append(make("table", {}, this.head(), this.body));
      place.append(...(this.name === "wrong" ? [] : [this.tools()]), scroll, make("p", { class: "more" }, this.more, make("span", { class: "note" }, this.note)));
      this.show(PAGE[this.name]);
    }

    head() {
      const row = make("tr");
      for (const column of this.columns) {
        const button = make("button", { type: "button", title: column.hint || undefined }, column.title);
        const cell = make("th", { scope: "col", "aria-sort": "none", class: NUMERIC.has(column.kind) ? "number" : undefined }, button);
        button.addEventListener("click", () => {
          const again = this.sort.key === column.key;
          this.sort = { key: column.key, down: again ? !this.sort.down : NUMERIC.has(column.kind) };
          for (const other of row.children) other.setAttribute("aria-sort", "none");
          cell.setAttribute("aria-sort", this.sort.down ? "descending" : "ascending");
          this.show(PAGE[this.name]);
        });
        row.append(cell);
      }
      return make("thead", {}, row);
    }

    tools() {
      const search = make("input", { type: "search", autocomplete: "off", spellcheck: "false", "data-search": this.name });
      search.addEventListener("input", () => {
        this.query = search.value.trim().toLowerCase();
        this.show(PAGE[this.name]);
      });
      const bar = make("div", { class: "tools" }, make("label", {}, `Search ${this.name === "next" ? "proposals" : this.name}`, search));
      if (this.cells.verdict) {
        const select = make("select", { "data-filter": this.name }, make("option", { value: "" }, "all verdicts"));
        for (const each of DATA.verdicts) {
          select.append(make("option", { value: each }, each));
        }
        select.addEventListener("change", () => {
          this.filter = select.value;
          this.show(PAGE[this.name]);
        });
        bar.append(make("label", {}, "Verdict", select));
      }
      bar.append(this.status);
      return bar;
    }

    haystack(row) {
      this.hay ??= [];
      const words = this.columns.filter((column) => !NUMERIC.has(column.kind)).map((column) => this.cells[column.key][row] ?? "");
      return (this.hay[row] ??= words.join("\n").toLowerCase());
    }

    found() {
      const kept = this.all.filter(
        (row) => (!this.filter || this.cells.verdict[row] === this.filter) && (!this.query || this.haystack(row).includes(this.query)),
      );
      const cells = this.cells[this.sort.key];
      if (!cells) return kept;
      const sign = this.sort.down ? -1 : 1;
      return kept.sort((a, b) => {
        if (cells[a] === null || cells[b] === null) return (cells[a] === null) - (cells[b] === null);
        return sign * (typeof cells[a] === "number" ? cells[a] - cells[b] : collator.compare(cells[a], cells[b]));
      });
    }

    show(limit) {
      this.limit = limit;
      const found = this.found();
      this.body.replaceChildren(...found.slice(0, limit).flatMap((row) => this.line(row)));
      if (!found.length) this.body.append(make("tr", {}, make("td", { colspan: this.columns.length, class: "note" }, "No matches.")));
      this.more.hidden = found.length <= limit;
      this.status.textContent = `${integer.format(Math.min(limit, found.length))} of ${integer.format(found.length)} rows`;
    }

    line(row) {
      const line = make("tr");
      this.columns.forEach((column, place) => {
        const value = this.cells[column.key][row];
        const content = value === null ? NOTHING : CELLS[column.kind](value, row, this.cells, column.key);
        const kind = NUMERIC.has(column.kind) ? "number" : LONG[column.kind] ?? (column.key === "text" ? "long user" : "cell user");
        const title = kind !== "number" && typeof content === "string" ? content : undefined; // the cell may cut it off
        const inside = kind === "long user" ? make("span", { class: "clamp" }, content) : content;
        line.append(make("td", { class: kind, title }, this.open && !place ? this.opener(line, row, content) : inside));
      });
      return this.open && this.opened.has(row) ? [line, this.detail(row)] : [line];
    }

    opener(line, row, content) {
      const button = make("button", { type: "button", class: "opener user", "aria-expanded": this.opened.has(row) }, content);
      const toggle = () => {
        const opens = !this.opened.delete(row);
        button.setAttribute("aria-expanded", opens);
        if (opens) {
          this.opened.add(row);
          line.after(this.detail(row));
        } else line.nextSibling.remove();
      };
      line.className = "opens";
      line.addEventListener("click", toggle);
      return button;
    }

    detail(row) {
      const cell = make("td", { colspan: this.columns.length });
      cell.append(this.open(row));
      return make("tr", { class: "detail" }, cell);
    }
  }

  // A worker

  function workerDetail(row) {
    const detail = DATA.details[row];
    const place = make("div", { class: "chart matrix" });
    const left = make("div", {}, make("h3", {}, "Confusion matrix"), place);
    if (detail.classes.length < DATA.classes.length) {
      left.append(make("p", { class: "note" }, `The ${detail.classes.length} classes (of ${DATA.classes.length}) that this worker saw most often.`));
    }
    requestAnimationFrame(() => draw(place, matrix(detail)));
    return make("div", { class: "opened" }, left, feedback(detail.feedback));
  }

  function matrix({ classes, tenths }) {
    const names = classes.map((c) => DATA.classes[c]);
    const n = names.length;
    const values = [];
    for (let truth = 0; truth < n; truth++) {
      const line = tenths.slice(truth * n, truth * n + n);
      const total = line.reduce((sum, each) => sum + each, 0) || 1;
      line.forEach((count, said) => {
        const right = truth === said ? "right" : "wrong";
        values.push({ truth: names[truth], said: names[said], n: count / 10, share: count / total, right });
      });
    }
    const layer = DATA.confusion.layer.map((each) => ({ ...each, data: { values } }));
    return { ...DATA.confusion, layer, height: 34 * n };
  }

  function feedback({ words, confusions }) {
    const list = make("ul", { class: "confusions" });
    for (const each of confusions) {
      const line = make("li", {}, make("b", { class: "user" }, each.truth), " labelled as ", make("b", { class: "user" }, each.said), " ");
      line.append(make("span", { class: "versus" }, `in ${percent(each.share, 0)} of tasks; others: ${percent(each.crowd_share, 0)}`));
      for (const example of each.examples) {
        const text = example.text ? `: ${example.text}` : "";
        line.append(make("small", { class: "user" }, `Task ${example.task}, confidence ${percent(example.confidence, 0)}${text}`));
      }
      list.append(line);
    }
    const sentences = make("ul", {}, ...words.map((text) => make("li", { class: "user" }, text)));
    const again = confusions.length ? make("h3", {}, "Tasks to look at again") : null;
    return make("div", {}, make("h3", {}, "Feedback for this worker"), sentences, again, list);
  }

  // Cards of ambiguous tasks

  function card(task) {
    const node = make("article", { class: "card" });
    if (task.image) {
      const image = make("img", { src: task.image, alt: `Task ${task.task}`, loading: "lazy", decoding: "async" });
      image.addEventListener("load", () => image.classList.toggle("small", image.naturalWidth < 100));
      node.append(image);
    }
    if (task.text) node.append(make("blockquote", { class: "user", tabindex: "0" }, task.text));
    node.append(make("h3", { class: "user" }, `Task ${task.task}`));
    node.append(make("p", { class: "label" }, make("span", { class: "user" }, task.label), make("span", {}, task.gold ? make("span", { class: "tag" }, "gold") : percent(task.confidence))), verdict(task.verdict));
    const list = make("ul", { "aria-label": "Answers, the most trusted first" });
    list.append(make("li", { class: "names" }, make("span", {}, "answer"), make("span", {}, "worker"), make("span", {}, "trust")));
    for (const { worker, label, trust } of task.answers) {
      const bar = styled(make("span", { class: "bar", title: "how much this worker is trusted" }, make("i"), percent(trust, 0)), { "--at": `${100 * (trust ?? 0)}%` });
      const line = make("li", {}, make("span", { class: "clamp user", title: label }, label), make("span", { class: "clip user", title: worker }, worker), bar);
      if (label === task.label) line.className = "agrees";
      list.append(line);
    }
    if (task.more) list.append(make("li", { class: "note" }, `and ${integer.format(task.more)} more`));
    node.append(list);
    return node;
  }

  function showCards(place) {
    const grid = make("div", { class: "cards" });
    const more = make("button", { type: "button" }, "Show more");
    const note = make("span", { class: "note" });
    const total = DATA.tables.labels.of;
    const show = () => {
      const shown = grid.children.length;
      grid.append(...DATA.cards.slice(shown, shown + CARDS).map(card));
      more.hidden = grid.children.length >= DATA.cards.length;
      note.textContent = `${grid.children.length} of ${integer.format(total)} tasks; the complete list, in this order, is tasks.csv.`;
    };
    more.addEventListener("click", show);
    place.append(grid, make("p", { class: "more" }, more, note));
    show();
  }

  // Light or dark: the system setting, until the button is pressed

  function themeButton(button) {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
    const update = () => {
      button.textContent = isDark() ? "Light" : "Dark";
      button.setAttribute("aria-pressed", isDark());
      button.setAttribute("aria-label", isDark() ? "Switch to light colours" : "Switch to dark colours");
    };
    button.addEventListener("click", () => {
      document.documentElement.dataset.theme = isDark() ? "light" : "dark";
      update();
    });
    dark.addEventListener("change", update);
    update();
  }

  themeButton(document.getElementById("theme"));
  for (const place of document.querySelectorAll("[data-table]")) {
    const name = place.dataset.table;
    new SortedTable(place, name, name === "workers" ? workerDetail : null);
  }
  showCards(document.getElementById("cards"));
  drawAll();
})();
