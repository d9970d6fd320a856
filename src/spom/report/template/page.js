(function () {
  "use strict";
  const all = (selector, from) => Array.from((from || document).querySelectorAll(selector));
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const root = document.documentElement;

  // --- colours ---------------------------------------------------------------------------------------

  const button = document.getElementById("theme");
  function nameTheme() {
    const dark = root.dataset.theme === "dark";
    button.setAttribute("aria-pressed", String(dark));
  }
  button.addEventListener("click", () => spomTheme(root.dataset.theme === "dark" ? "light" : "dark"));
  document.addEventListener("theme", () => { nameTheme(); draw(); });

  // "var(--name)" anywhere in a figure becomes the colour of that name in the theme of the moment.
  function coloured(value, style) {
    if (typeof value === "string") {
      return value.startsWith("var(--") ? style.getPropertyValue(value.slice(4, -1)).trim() : value;
    }
    if (Array.isArray(value)) { return value.map((v) => coloured(v, style)); }
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, coloured(v, style)]));
    }
    return value;
  }

  // --- charts ----------------------------------------------------------------------------------------

  const figures = read("figures");
  const view = { seconds: false, errors: false };

  function shown(trace) {
    const { seconds, errors, ...rest } = trace;
    if (view.seconds && seconds) { rest.x = seconds; }
    if (view.errors && errors) { rest.z = errors; }
    return rest;
  }

  function draw() {
    const style = getComputedStyle(root);
    for (const [id, figure] of Object.entries(figures)) {
      const place = document.getElementById("chart-" + id);
      const data = coloured(figure.data.map(shown), style);
      const layout = coloured(figure.layout, style);
      if (view.seconds && figure.data.some((t) => t.seconds)) {
        layout.xaxis.title.text = "seconds";
        delete layout.xaxis.dtick;
      }
      if (figure.width) { place.style.minWidth = figure.width + "px"; }
      Plotly.react(place, data, layout, { responsive: true, displayModeBar: false });
    }
  }

  // Plotly measures text in a drawing off the screen, which nobody should be told of.
  function hideTester() {
    const tester = document.getElementById("js-plotly-tester");
    if (tester) { tester.setAttribute("aria-hidden", "true"); }
  }

  for (const control of all("[data-axis]")) {
    control.addEventListener("click", () => {
      view.seconds = control.dataset.axis === "seconds";
      for (const other of all("[data-axis]")) { other.setAttribute("aria-pressed", String(other === control)); }
      draw();
    });
  }
  const errors = document.getElementById("errors-only");
  if (errors) { errors.addEventListener("change", () => { view.errors = errors.checked; draw(); }); }

  // --- tables ----------------------------------------------------------------------------------------

  const collator = new Intl.Collator(undefined, { numeric: true });
  // A cell sorts by data-sort where it has one, else by its text.
  function key(row, column) {
    const cell = row.cells[column];
    return "sort" in cell.dataset ? Number(cell.dataset.sort) : cell.textContent.trim();
  }
  function sort(table, column, direction) {
    const body = table.tBodies[0];
    const rows = Array.from(body.rows);
    rows.sort((a, b) => {
      const x = key(a, column), y = key(b, column);
      const order = typeof x === "number" && typeof y === "number" ? x - y : collator.compare(x, y);
      return direction === "ascending" ? order : -order;
    });
    body.append(...rows);
  }
  for (const table of all("table.sortable")) {
    const heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach((head, column) => {
      const control = head.querySelector("button");
      control.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const first = head.dataset.first || "descending";
        const second = first === "descending" ? "ascending" : "descending";
        for (const other of heads) { other.removeAttribute("aria-sort"); }
        head.setAttribute("aria-sort", before === first ? second : first);
        sort(table, column, head.getAttribute("aria-sort"));
      });
    });
  }

  const search = document.getElementById("block-search");
  const kept = document.getElementById("block-kept");
  if (search) {
    const rows = all("#blocks-table tbody tr");
    const count = document.getElementById("block-count");
    const filter = () => {
      const text = search.value.trim().toLowerCase();
      let visible = 0;
      for (const row of rows) {
        const off = kept.checked && row.classList.contains("off");
        row.hidden = off || !row.cells[0].textContent.toLowerCase().includes(text);
        visible += row.hidden ? 0 : 1;
      }
      count.textContent = visible + " of " + rows.length + " shown";
    };
    search.addEventListener("input", filter);
    kept.addEventListener("change", filter);
  }

  // On a phone the lists of features are long: only the first few are open.
  if (matchMedia("(max-width: 40rem)").matches) {
    all(".labels details").slice(3).forEach((one) => { one.open = false; });
  }

  // --- trees -----------------------------------------------------------------------------------------

  const SVG = "http://www.w3.org/2000/svg";
  function element(name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const [k, v] of Object.entries(attributes)) { made.setAttribute(k, v); }
    if (text !== undefined) { made.textContent = text; }
    return made;
  }

  // How high each arc must be to clear the arcs below it: one more than the highest it spans.
  function levels(arcs) {
    const order = arcs.map((arc, i) => i).sort((a, b) => (arcs[a].to - arcs[a].from) - (arcs[b].to - arcs[b].from));
    const level = arcs.map(() => 1);
    order.forEach((i, n) => {
      for (const j of order.slice(0, n)) {
        const overlap = arcs[j].from < arcs[i].to && arcs[i].from < arcs[j].to;
        if (overlap) { level[i] = Math.max(level[i], level[j] + 1); }
      }
    });
    return level;
  }

  function arcsOf(heads, relations, kind) {
    return heads.map((head, i) => ({
      head: head, child: i + 1, relation: (relations && relations[i]) || "", kind: kind(i),
      from: Math.min(head, i + 1), to: Math.max(head, i + 1),
    }));
  }

  // Arcs above the words (side -1) or below them (side 1), from beside the head's middle to an arrow at the word's.
  function drawArcs(svg, arcs, centre, base, side, step) {
    const level = levels(arcs);
    const order = arcs.map((arc, i) => i).sort((a, b) => (arcs[a].kind === "wrong") - (arcs[b].kind === "wrong"));
    order.forEach((i) => {
      const arc = arcs[i], right = arc.child > arc.head ? 1 : -1;
      const start = centre[arc.head] + 6 * right, end = centre[arc.child];
      const top = base + side * (14 + level[i] * step), bend = Math.min(14, Math.abs(end - start) / 2) * right;
      const curve = `M${start} ${base} Q${start} ${top} ${start + bend} ${top} L${end - bend} ${top} Q${end} ${top} ${end} ${base}`;
      svg.append(element("path", { d: curve, class: arc.kind }));
      svg.append(element("path", { d: `M${end - 4} ${base + side * 7} L${end + 4} ${base + side * 7} L${end} ${base} z`, class: "tip " + arc.kind }));
      const label = element("text", { x: (start + end) / 2, y: top + (side < 0 ? -3 : 11), class: "relation " + arc.kind }, arc.relation);
      svg.append(label);
    });
  }

  function drawTree(place, sentence) {
    const gold = sentence.heads.length > 0;
    // As in the shared task's evaluation, subtypes do not count: nsubj:pass is nsubj.
    const base = (relation) => relation.split(":")[0];
    const wrong = (i) => gold && sentence.heads[i] !== sentence.predicted_heads[i];
    const relabelled = (i) => gold && !wrong(i) && sentence.relations.length > 0 && sentence.predicted_relations.length > 0
      && base(sentence.relations[i]) !== base(sentence.predicted_relations[i]);
    const above = arcsOf(sentence.predicted_heads, sentence.predicted_relations, (i) => wrong(i) || relabelled(i) ? "wrong" : "right");
    const below = gold ? arcsOf(sentence.heads, sentence.relations, () => "gold").filter((arc, i) => wrong(i) || relabelled(i)) : [];
    const words = ["ROOT", ...sentence.words];
    const tags = ["", ...sentence.tags];
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = "14px system-ui, 'Segoe UI', sans-serif";
    const relation = (i) => i && (sentence.predicted_relations[i - 1] || "").length * 6;
    const widths = words.map((word, i) => Math.max(pen.measureText(word).width, (tags[i] || "").length * 7, relation(i) || 0, 24));
    const centre = [];
    let x = 8;
    for (const width of widths) { centre.push(x + width / 2); x += width + 18; }
    const step = 24;
    const up = 14 + step * Math.max(0, ...levels(above)) + 18;
    const down = below.length ? 14 + step * Math.max(0, ...levels(below)) + 18 : 4;
    const lines = sentence.tags.length ? 36 : 20;
    const height = up + lines + down;
    const svg = element("svg", { width: x, height: height, viewBox: `0 0 ${x} ${height}`, "aria-hidden": "true" });
    drawArcs(svg, above, centre, up, -1, step);
    drawArcs(svg, below, centre, up + lines, 1, step);
    words.forEach((word, i) => {
      svg.append(element("text", { x: centre[i], y: up + 16 }, word));
      if (tags[i]) { svg.append(element("text", { x: centre[i], y: up + 31, class: "tag" }, tags[i])); }
    });
    place.append(svg);
  }

  const trees = document.getElementById("trees");
  if (trees) { read("trees-data").forEach((sentence, i) => drawTree(document.getElementById("tree-" + i), sentence)); }

  nameTheme();
  draw();
  hideTester();
})();
