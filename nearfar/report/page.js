// Draws the charts. Colours in the figures are names ("@far"); they are looked up in the page's own style, so that
// light, dark and paper each get theirs.
(function () {
  "use strict";
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const narrow = window.matchMedia("(max-width: 600px)");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function resolved(value, style) {
    if (typeof value === "string") {
      return value.startsWith("@") ? style.getPropertyValue("--" + value.slice(1)).trim() : value;
    }
    if (Array.isArray(value)) {
      return value.map((item) => resolved(item, style));
    }
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolved(item, style)]));
    }
    return value;
  }

  function themed(figure) {
    const style = getComputedStyle(document.documentElement);
    const { data, layout } = resolved(figure, style);
    const ink = style.getPropertyValue("--ink").trim();
    const rule = style.getPropertyValue("--rule").trim();
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.font = { family: getComputedStyle(document.body).fontFamily, size: 12, color: ink };
    layout.hoverlabel = { font: { family: layout.font.family } };
    for (const [name, axis] of Object.entries(layout)) {
      if (/^[xy]axis\d*$/.test(name)) {
        Object.assign(axis, { gridcolor: rule, linecolor: rule, zerolinecolor: rule, automargin: true });
        if (axis.title && axis.title.text) {
          axis.title.font = { size: 12 };
        }
      }
    }
    if (narrow.matches) {
      layout.margin = Object.assign({}, layout.margin, { l: Math.min(layout.margin.l, 44), r: Math.min(layout.margin.r, 26) });
      layout.font.size = 10;
      let above = 0;
      for (const note of layout.annotations || []) {
        note.font.size = 9;
        if (note.yanchor === "bottom" && note.xref === "x" && note.y === 1) {
          note.yshift = 11 * (above++ % 2);
        }
        if (note.xref === "paper" && note.xanchor === "left") {
          Object.assign(note, { x: 1, xanchor: "right", yanchor: "bottom" });
        }
      }
    }
    return { data, layout };
  }

  function draw() {
    for (const place of document.querySelectorAll("[data-figure]")) {
      const { data, layout } = themed(figures[place.dataset.figure]);
      Plotly.react(place, data, layout, { displaylogo: false, displayModeBar: false });
    }
    document.documentElement.dataset.drawn = "true";
  }

  draw();
  // A place may change its width without the window doing so: a scroll bar, a turned phone, paper.
  const watcher = new ResizeObserver((entries) => entries.forEach((entry) => Plotly.Plots.resize(entry.target)));
  document.querySelectorAll("[data-figure]").forEach((place) => watcher.observe(place));
  narrow.addEventListener("change", draw);
  dark.addEventListener("change", draw);
})();
