// Draws the plots of a report from the JSON in the page, and turns light to dark.
"use strict";
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  // Okabe and Ito's colours for the colour-blind, made readable on light and on dark.
  const palette = {
    light: ["#0b62d6", "#d55e00", "#00815e", "#b0408c", "#8a6d00", "#2a9fd6", "#6a51a3", "#7f4f24",
            "#c62828", "#55616d"],
    dark: ["#5aa2ff", "#ff9248", "#33c79b", "#e58ac3", "#e3c04b", "#7fd0f5", "#b4a0e8", "#c79a6b",
           "#ff7b72", "#a3afbb"],
  };
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const colour = (i) => {
    const set = palette[root.dataset.theme];
    return set[i % set.length];
  };

  const digits = (v, n) => String(Number(v.toPrecision(n)));
  const scaled = (v, step, units) => {
    let i = 0;
    while (i + 1 < units.length && Math.abs(v) >= step) { v /= step; ++i; }
    return digits(v, 4) + " " + units[i];
  };
  const formats = {
    number: (v) => digits(v, 4),
    bytes: (v) => scaled(v, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]),
    microseconds: (v) => scaled(v, 1000, ["µs", "ms", "s"]),
  };
  const written = (axis) => (u, v) => (v == null ? "–" : formats[axis.unit](v));

  // Logarithmic axes have a line at each power, and a name at as many as there is room for.
  const log_splits = (base) => (u, i, min, max) => {
    const splits = [];
    const first = Math.ceil(Math.log(min) / Math.log(base) - 1e-9);
    const last = Math.floor(Math.log(max) / Math.log(base) + 1e-9);
    const step = Math.max(1, Math.ceil((last - first + 1) / 14));
    for (let e = first; e <= last; e += step) splits.push(base ** e);
    return splits;
  };
  const scale = (axis, values, most = Infinity) => {
    if (!axis.log) {
      const highest = Math.max(0, ...values);
      return { time: false, range: (u, min, max) =>
        max > min || min !== 0
          ? [Math.min(0, min), max > 0 ? Math.min(max, most) * 1.06 : highest || 1] : [0, 1] };
    }
    return { time: false, distr: 3, log: axis.log };
  };
  // Lines that may leave the plot at the top do so at three times the others.
  const y_scale = (plot, values) => {
    const others = plot.series.filter((s) => !s.off_scale).flatMap((s) => s.y).filter((y) => y > 0);
    return scale(plot.y, values, others.length ? 3 * Math.max(...others) : Infinity);
  };
  const x_scale = (plot, values) => {
    if (plot.x.log) {
      const low = Math.min(...values), high = Math.max(...values), room = low < high ? 1.15 : 2;
      return { time: false, distr: 3, log: plot.x.log, range: (u, min, max) =>
        min === low && max === high ? [low / room, high * room] : [min, max] };
    }
    return { time: false };
  };
  const drawn_axis = (axis, side) => ({
    label: axis.label, labelSize: 22, labelFont: "13px system-ui, sans-serif",
    font: "12px system-ui, sans-serif", size: side ? 74 : 38, gap: 6,
    stroke: () => css("--soft"), grid: { stroke: () => css("--grid"), width: 1 },
    ticks: { stroke: () => css("--grid"), width: 1, size: 5 },
    ...(axis.log ? { splits: log_splits(axis.log), filter: (u, splits) => splits } : {}),
    values: (u, splits) => splits.map((v) => (v == null ? "" : formats[axis.unit](v))),
  });

  const joined = (plot) => {
    const tables = plot.series.map((s) => {
      const points = s.x.map((x, i) => [x, s.y[i]]).filter(([x]) => x !== null);
      return [points.map((p) => p[0]), points.map((p) => p[1] ?? null)];
    });
    return uPlot.join(tables);  // null stays a gap; where only other series have a point, none
  };

  const draw = (element) => {
    const plot = plots[Number(element.dataset.plot)];
    const noscript = element.querySelector("noscript");
    if (noscript) noscript.remove();
    if (!plot.series.some((s) => s.y.some((y) => y !== null))) {
      element.textContent = "nothing was measured";
      element.style.minHeight = "0";
      return null;
    }
    const data = joined(plot);
    const finite = data.slice(1).flat().filter((y) => y != null);
    let next = 0;
    const series = plot.series.map((s) => {
      const index = s.colour >= 0 ? s.colour : next++ % (palette.light.length - 1);  // not grey
      return {
        label: s.name, width: s.strong ? 5 : s.dashed ? 1.6 : 2.2, value: written(plot.y),
        show: !s.hidden,
        dash: s.dashed ? [7, 5] : undefined, stroke: () => colour(index),
        points: { show: !s.dashed && s.x.length <= 80, size: 6, fill: () => colour(index) },
      };
    });
    const made = new uPlot({
      width: element.clientWidth, height: 340, padding: [12, 16, 0, 0],
      scales: { x: x_scale(plot, data[0]), y: y_scale(plot, finite) },
      axes: [drawn_axis(plot.x, false), drawn_axis(plot.y, true)],
      series: [{ label: plot.x.label, value: written(plot.x) }, ...series],
      cursor: { focus: { prox: 24 }, points: { size: 8 } }, focus: { alpha: 0.3 },
      legend: { markers: { width: 2, dash: (u, i) => (u.series[i].dash ? "dashed" : "solid") } },
    }, data, element);
    element.dataset.drawn = "yes";
    return made;
  };

  const plots = JSON.parse(document.getElementById("plots").textContent);
  const theme = (is_dark) => { root.dataset.theme = is_dark ? "dark" : "light"; };
  theme(dark.matches);
  const made = [...document.querySelectorAll(".plot")].map(draw).filter((u) => u);
  const redraw = () => made.forEach((u) => {
    u.setSize({ width: u.root.parentElement.clientWidth, height: 340 });
    u.redraw(false, true);
    u.root.querySelectorAll(".u-marker").forEach((marker, i) => {
      if (i === 0 || !u.series[i]) return;
      const stroke = u.series[i].stroke(u, i);
      marker.style.borderColor = stroke;
    });
  });
  dark.addEventListener("change", (event) => { theme(event.matches); redraw(); });
  document.getElementById("theme").addEventListener("click", () => {
    theme(root.dataset.theme !== "dark");
    redraw();
  });
  addEventListener("resize", redraw);
  let before = "";
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    theme(false);
    redraw();
  });
  addEventListener("afterprint", () => { theme(before === "dark"); redraw(); });
})();
