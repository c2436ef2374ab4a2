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

  // How wide a name at an axis will be. Names of sizes differ: 8 B takes a third of 128 KiB.
  const font = "12px system-ui, sans-serif";
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = font;
  const name_width = (axis, v) => pen.measureText(formats[axis.unit](v)).width;
  const name_gap = 14, name_height = 18;

  // Logarithmic axes have a line and its name at each power, or at each second, third, ... one:
  // as close as no name touches the next, on a telephone as on a wide page. Where powers of ten are
  // few, twice and five times them help to read the rest.
  const log_splits = (axis, upright) => (u, i, min, max) => {
    const power = (v) => Math.log(v) / Math.log(axis.log);
    const first = Math.ceil(power(min) - 1e-9), last = Math.floor(power(max) + 1e-9);
    const length = (upright ? u.bbox.height : u.bbox.width) / uPlot.pxRatio;
    const apart = length / (power(max) - power(min));  // pixels from a power to the next
    const room = (v) => (upright ? name_height : name_width(axis, v) + name_gap);
    const fits = (v, k, all) =>
      !k || (room(all[k - 1]) + room(v)) / 2 <= apart * (power(v) - power(all[k - 1])) + 1e-6;
    const powers = (step) => {
      const splits = [];
      for (let e = first; e <= last; e += step) splits.push(axis.log ** e);
      return splits;
    };
    if (axis.log === 10 && last - first < 2) {
      const splits = [];
      for (let e = first - 1; e <= last; ++e) splits.push(10 ** e, 2 * 10 ** e, 5 * 10 ** e);
      const seen = splits.filter((v) => v >= min && v <= max);
      if (seen.every(fits)) return seen;
    }
    let step = 1;
    while (!powers(step).every(fits)) ++step;  // one alone always does
    return powers(step);
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
  const narrow = (width) => width < 520;
  const size_in = (element) => {
    const width = element.clientWidth;
    return { width, height: narrow(width) ? 300 : 340 };
  };

  // Beside the names at an upright axis there is no more than they need, where the page is narrow;
  // where it is not, plots below each other begin at the same place.
  const beside = (u, names, i, cycle) => {
    if (cycle > 1) return u.axes[i]._size;  // or the names and the room for them chase each other
    const widest = Math.max(0, ...(names ?? []).map((name) => pen.measureText(name ?? "").width));
    return Math.max(narrow(u.width) ? 0 : 60, Math.ceil(widest) + 14);
  };
  const drawn_axis = (axis, upright) => ({
    font, gap: 6, size: upright ? beside : 38,
    // That of the upright axis is a text above the plot: on its side a long one would not fit.
    ...(upright ? {}
                : { label: axis.label, labelSize: 22, labelFont: "13px system-ui, sans-serif" }),
    stroke: () => css("--soft"), grid: { stroke: () => css("--grid"), width: 1 },
    ticks: { stroke: () => css("--grid"), width: 1, size: 5 },
    ...(axis.log ? { splits: log_splits(axis, upright), filter: (u, splits) => splits }
        : upright ? {}
        : { space: (u, i, min, max) =>
            Math.max(50, name_width(axis, min) + name_gap, name_width(axis, max) + name_gap) }),
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
      return null;
    }
    const above = document.createElement("div");
    above.className = "axis";
    above.textContent = plot.y.label;
    element.append(above);
    // On narrow pages the legend has as many columns as there is room for with a value each.
    const names = plot.series.map((s) => pen.measureText(s.name).width);
    element.style.setProperty("--entry", Math.ceil(1.1 * Math.max(...names)) + 80 + "px");
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
      ...size_in(element), padding: [12, 24, 0, 0],  // half of a name may be right of the last line
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
    u.setSize(size_in(u.root.parentElement));
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
  // Also when a scroll bar comes or goes, which is no resize of the window.
  const watch = new ResizeObserver(() => {
    if (made.some((u) => u.width !== u.root.parentElement.clientWidth)) redraw();
  });
  made.forEach((u) => watch.observe(u.root.parentElement));
  // What scrolls sideways fades out where more of it is to come.
  document.querySelectorAll(".scroll").forEach((box) => {
    const mark = () =>
      box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
    box.addEventListener("scroll", mark, { passive: true });
    new ResizeObserver(mark).observe(box);
  });
  let before = "";
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    theme(false);
    redraw();
  });
  addEventListener("afterprint", () => { theme(before === "dark"); redraw(); });
})();
