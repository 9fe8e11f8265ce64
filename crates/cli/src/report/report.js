"use strict";
// A matrix that answers to pointer and keys, and a time line that says of which part of the run it is. Whatever came from a file
// is shown as text: nothing here makes markup of it.
(() => {
  const element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const content = (id) => document.getElementById(id)?.textContent;
  const shades = JSON.parse(content("shades"));
  const dots = Uint32Array.from(shades, (shade) => {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(shade.slice(at, at + 2), 16));
    return (255 << 24 | blue << 16 | green << 8 | red) >>> 0;
  });
  const WHITE = 0xffffffff;
  const INK = "#1e1e1e", PALE = "#c8c8c8", MARK = "#b3261e";

  /** Numbers of 7 bits a byte, the lowest first, one after another. */
  function reader(text) {
    const bytes = atob(text);
    let at = 0;
    return {
      more: () => at < bytes.length,
      next: () => {
        let value = 0, scale = 1;
        for (;;) {
          const byte = bytes.charCodeAt(at++);
          value += (byte & 127) * scale;
          if (byte < 128) return value;
          scale *= 128;
        }
      },
    };
  }

  /** Whole numbers as people read them; beyond 2^53 a number of this kind is not exact. */
  const count = (value) => (value > Number.MAX_SAFE_INTEGER ? "about " : "") + value.toLocaleString("en");
  const short = (value) => {
    for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
      if (value >= unit) return (value / unit).toPrecision(3).replace(/\.?0+$/, "") + name;
    return String(Math.round(value));
  };
  const instructions = (value) => value === 0 ? "0" : `${short(value)} instr`;
  const seconds = (value) => value === 0 ? "0 s" : value < 1 ? `${(value * 1e3).toPrecision(3)} ms` : `${value.toPrecision(3)} s`;
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  /** Steps of 1, 2 or 5 that make at most `most` of a range. */
  const step = (range, most) => {
    const power = 10 ** Math.floor(Math.log10(range / most));
    return [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= range / most * (1 - 1e-9));
  };

  function explore(box) {
    const number = box.dataset.profile;
    const data = JSON.parse(content(`data-${number}`));
    const { tasks, each, names, placed, series, places, one } = data;
    const side = Math.ceil(tasks / each);
    if (side === 0) return;
    const density = Math.min(2, window.devicePixelRatio || 1);
    const SIZE = Math.round(672 * density), LEFT = Math.round(52 * density), TOP = Math.round(44 * density);
    const MAP = SIZE - Math.max(LEFT, TOP);
    const known = ["messages", "bytes"].filter((what) => document.getElementById(`${what}-${number}`));
    const plain = Uint32Array.from({ length: side }, (_, at) => at);
    const orders = { number: plain };
    if (placed) orders.placed = Uint32Array.from(placed.order);
    const view = { what: known[0] ?? "messages", order: "number", x: 0, y: 0, span: side, row: 0, column: 0, from: 0, until: series?.columns ?? 0 };
    const whole = {};

    const select = (label, options) => {
      const list = element("select", {}, ...options.map(([value, text]) => element("option", { value }, text)));
      return [list, element("label", {}, `${label} `, list)];
    };
    const [what, whatLabel] = select("count", known.map((name) => [name, name]));
    const [order, orderLabel] = select(`${data.several} ordered`, [["number", "by number"], ...(placed ? [["placed", `as ${placed.name} places them`]] : [])]);
    const button = (text, says) => element("button", { type: "button", "aria-label": says }, text);
    const closer = button("+", "closer"), further = button("−", "further"), all = button("all", "show all");
    const cells = element("canvas", { class: "cells", width: SIZE, height: SIZE, "aria-hidden": "true" });
    const over = element("canvas", {
      class: "over", width: SIZE, height: SIZE, tabindex: "0", role: "application",
      "aria-label": `matrix, ${data.rows}s down and ${data.columns}s across; arrow keys move, plus and minus zoom`,
    });
    const info = element("output", { class: "info", "aria-live": "polite" });
    const scale = element("canvas", { width: 256, height: 1, "aria-hidden": "true" });
    const [least, most] = [element("span"), element("span")];
    box.append(
      element("div", { class: "controls" }, whatLabel, orderLabel, closer, further, all),
      element("div", { class: "map" }, cells, over),
      element("div", {}, element("div", { class: "legend" }, least, scale, most), info,
        element("p", { class: "keys" }, "Keys: arrows, Page Up and Down, Home and End move; + and − zoom, 0 shows all.")),
    );
    const brush = cells.getContext("2d"), pen = over.getContext("2d");
    const shade = scale.getContext("2d");
    shades.forEach((colour, at) => { shade.fillStyle = colour; shade.fillRect(at, 0, 1, 1); });

    /** All of a run, `[row * side + column]`; read when it is first asked for. */
    function total(name) {
      if (!whole[name]) {
        whole[name] = new Float64Array(side * side);
        const text = content(`${name}-${number}`);
        if (text) for (let numbers = reader(text), at = 0; numbers.more();) { at += numbers.next(); whole[name][at] = numbers.next(); }
      }
      return whole[name];
    }

    let columns;
    /** Where each column of the time line begins, and its cells. */
    function timed() {
      if (!columns) {
        const starts = [], at = [], values = [];
        const numbers = reader(content(`time-${number}`));
        while (numbers.more()) {
          starts.push(at.length);
          for (let left = numbers.next(), cell = 0; left > 0; left--) { cell += numbers.next(); at.push(cell); values.push(numbers.next()); }
        }
        starts.push(at.length);
        columns = { starts, at, values };
      }
      return columns;
    }

    const isPart = () => series && (view.from > 0 || view.until < series.columns);
    let matrix, range, sum;
    /** What is shown: the whole run, or the chosen part of it. */
    function choose() {
      if (isPart()) {
        const { starts, at, values } = timed();
        matrix = new Float64Array(side * side);
        for (let cell = starts[view.from]; cell < starts[view.until]; cell++) matrix[at[cell]] += values[cell];
      } else matrix = total(view.what);
      let low = Infinity, high = 0;
      sum = 0;
      for (const value of matrix) if (value > 0) { sum += value; if (value < low) low = value; if (value > high) high = value; }
      range = [low, high];
      least.textContent = high > low ? `${short(low)} ` : high > 0 ? "all alike: " : "nothing";
      most.textContent = high > 0 ? `${short(high)} ${isPart() ? "messages" : view.what}` : "";
      scale.hidden = !(high > low);
      what.disabled = Boolean(isPart());
    }

    function draw() {
      const list = orders[view.order], { x, y, span } = view;
      // Where there are more cells than dots, a dot is its largest cell.
      const block = Math.ceil(span / MAP), sides = Math.ceil(span / block);
      const largest = new Float64Array(sides * sides);
      for (let row = 0; row < span; row++) {
        const line = list[y + row] * side, target = Math.floor(row / block) * sides;
        for (let column = 0; column < span; column++) {
          const value = matrix[line + list[x + column]];
          const place = target + Math.floor(column / block);
          if (value > largest[place]) largest[place] = value;
        }
      }
      const image = new ImageData(sides, sides), pixels = new Uint32Array(image.data.buffer);
      const [low, high] = range, width = Math.log(high / low);
      for (let place = 0; place < pixels.length; place++) {
        const value = largest[place];
        pixels[place] = value > 0 ? dots[width > 0 ? Math.round(255 * Math.log(value / low) / width) : 255] : WHITE;
      }
      const small = new OffscreenCanvas(sides, sides);
      small.getContext("2d").putImageData(image, 0, 0);
      brush.fillStyle = "#fff";
      brush.fillRect(0, 0, SIZE, SIZE);
      brush.imageSmoothingEnabled = false;
      brush.drawImage(small, LEFT, TOP, MAP * sides * block / span, MAP * sides * block / span);
      brush.clearRect(LEFT + MAP, 0, SIZE, SIZE);
      brush.clearRect(0, TOP + MAP, SIZE, SIZE);
      brush.strokeStyle = INK;
      brush.lineWidth = density;
      brush.strokeRect(LEFT, TOP, MAP - 1, MAP - 1);
      axes(list);
    }

    function axes(list) {
      const { x, y, span } = view, cell = MAP / span, apart = Math.max(1, step(span, 8));
      brush.fillStyle = INK;
      brush.font = `${12 * density}px sans-serif`;
      for (let at = 0; at < span; at += apart) {
        brush.textAlign = "center";
        brush.textBaseline = "bottom";
        brush.fillText(list[x + at] * each, LEFT + (at + 0.5) * cell, TOP - 4 * density);
        brush.textAlign = "right";
        brush.textBaseline = "middle";
        brush.fillText(list[y + at] * each, LEFT - 6 * density, TOP + (at + 0.5) * cell);
      }
      brush.font = `bold ${12 * density}px sans-serif`;
      brush.textAlign = "center";
      brush.textBaseline = "top";
      brush.fillText(data.columns, LEFT + MAP / 2, 2 * density);
      brush.save();
      brush.translate(2 * density, TOP + MAP / 2);
      brush.rotate(-Math.PI / 2);
      brush.fillText(data.rows, 0, 0);
      brush.restore();
    }

    /** `3 worker`, or the tasks that share a cell. */
    const called = (cell) => each > 1
      ? `${data.several} ${cell * each} to ${Math.min(tasks, (cell + 1) * each) - 1}`
      : `${one} ${cell}${names[cell] && names[cell] !== `${one} ${cell}` ? ` (${names[cell]})` : ""}`;

    function point() {
      const cell = MAP / view.span;
      const left = LEFT + (view.column - view.x) * cell, top = TOP + (view.row - view.y) * cell;
      pen.clearRect(0, 0, SIZE, SIZE);
      pen.fillStyle = "rgba(179, 38, 30, 0.22)";
      pen.fillRect(LEFT, top, MAP, Math.max(cell, 1));
      pen.fillRect(left, TOP, Math.max(cell, 1), MAP);
      // The cell itself keeps its colour.
      pen.clearRect(left, top, Math.max(cell, 1), Math.max(cell, 1));
      pen.strokeStyle = MARK;
      pen.lineWidth = 2 * density;
      pen.strokeRect(left - 1, top - 1, cell + 2, cell + 2);
      tell();
    }

    function tell() {
      const list = orders[view.order];
      const writer = list[view.row], readers = list[view.column];
      const value = matrix[writer * side + readers], back = matrix[readers * side + writer];
      const unit = isPart() ? "messages" : view.what;
      const lines = [element("b", {}, `${called(writer)} → ${called(readers)}`)];
      const line = (text) => lines.push(element("div", {}, text));
      line(`${count(value)} ${unit}${sum > 0 ? `, ${(100 * value / sum).toPrecision(3)} % of all` : ""}`);
      if (!isPart()) for (const other of known.filter((name) => name !== view.what && whole[name])) line(`${count(whole[other][writer * side + readers])} ${other}`);
      if (writer !== readers) line(`the other way ${count(back)} ${unit}`);
      if (placed && each === 1 && writer !== readers) {
        line(`packed on PUs ${placed.before[writer]} and ${placed.before[readers]}; ${placed.name}: ${placed.after[writer]} and ${placed.after[readers]}`);
      }
      const here = each > 1 ? [] : places.filter((place) => place.writers.includes(writer) && place.readers.includes(readers));
      if (here.length > 0) lines.push(element("b", {}, "in the code, where both were seen"));
      const said = new Set(here.map((place) => [place.object, place.written && `${place.object ? "written by " : "called in "}${place.written}`, place.read && `read by ${place.read}`].filter(Boolean).join(": ")));
      [...said].slice(0, 4).forEach(line);
      if (said.size > 4) line(`and ${said.size - 4} more`);
      info.replaceChildren(...lines);
    }

    function go(row, column) {
      view.row = clamp(row, 0, side - 1);
      view.column = clamp(column, 0, side - 1);
      const before = [view.x, view.y];
      view.x = clamp(view.x, view.column - view.span + 1, view.column);
      view.y = clamp(view.y, view.row - view.span + 1, view.row);
      if (before[0] !== view.x || before[1] !== view.y) draw();
      point();
    }

    function zoom(factor) {
      view.span = clamp(Math.round(view.span / factor), Math.min(8, side), side);
      view.x = clamp(view.column - (view.span >> 1), 0, side - view.span);
      view.y = clamp(view.row - (view.span >> 1), 0, side - view.span);
      draw();
      point();
    }

    over.addEventListener("pointermove", (event) => {
      const frame = over.getBoundingClientRect(), cell = MAP / view.span;
      const at = (where, from, margin) => Math.floor(((where - from) / frame.width * SIZE - margin) / cell);
      const column = at(event.clientX, frame.left, LEFT), row = at(event.clientY, frame.top, TOP);
      if (row >= 0 && column >= 0 && row < view.span && column < view.span) {
        view.row = view.y + row;
        view.column = view.x + column;
        point();
      }
    });
    const keys = {
      ArrowUp: () => go(view.row - 1, view.column), ArrowDown: () => go(view.row + 1, view.column),
      ArrowLeft: () => go(view.row, view.column - 1), ArrowRight: () => go(view.row, view.column + 1),
      PageUp: () => go(view.row - 16, view.column), PageDown: () => go(view.row + 16, view.column),
      Home: () => go(view.row, 0), End: () => go(view.row, side - 1),
      "+": () => zoom(2), "=": () => zoom(2), "-": () => zoom(0.5), 0: () => zoom(1 / side),
    };
    const pressed = (table) => (event) => {
      const act = !event.ctrlKey && !event.metaKey && !event.altKey && table[event.key];
      if (act) { event.preventDefault(); act(event.shiftKey); }
    };
    over.addEventListener("keydown", pressed(keys));
    closer.addEventListener("click", () => zoom(2));
    further.addEventListener("click", () => zoom(0.5));
    all.addEventListener("click", () => zoom(1 / side));
    what.addEventListener("change", () => { view.what = what.value; choose(); draw(); point(); });
    order.addEventListener("change", () => {
      // The same pair stays marked.
      const [writer, readers] = [orders[view.order][view.row], orders[view.order][view.column]];
      view.order = order.value;
      draw();
      go(orders[view.order].indexOf(writer), orders[view.order].indexOf(readers));
    });
    box.hidden = false;
    choose();
    // What stands out most is looked at first.
    const strongest = matrix.indexOf(range[1]);
    if (strongest >= 0) [view.row, view.column] = [Math.floor(strongest / side), strongest % side];
    draw();
    point();
    if (series) timeLine();
    // What is not shown yet is read when there is time.
    setTimeout(() => { known.forEach(total); tell(); });

    /** Messages over time; what is chosen in it is what the matrix shows. */
    function timeLine() {
      const WIDTH = Math.round(1104 * density), HEIGHT = Math.round(144 * density), AXIS = Math.round(22 * density), GUTTER = Math.round(52 * density);
      const canvas = element("canvas", {
        class: "line", width: WIDTH, height: HEIGHT, tabindex: "0", role: "application",
        "aria-label": "messages over time; arrow keys move, with Shift they choose a part of the run, Escape chooses all of it",
      });
      const said = element("output", { "aria-live": "polite" });
      const legend = element("p", { class: "keys" });
      if (series.parts?.length > 1) {
        series.parts.slice(0, 12).forEach((name, part) => {
          const swatch = element("span", { class: "swatch" });
          swatch.style.background = data.categories[part % data.categories.length];
          legend.append(swatch, name);
        });
        if (series.parts.length > 12) legend.append(` and ${series.parts.length - 12} more`);
      }
      box.append(element("div", { class: "when" }, element("b", {}, `Messages over ${series.unit === "s" ? "time" : "instructions of each task"} `), said, canvas, legend,
        element("p", { class: "keys" }, "Drag over a part of the run, or choose it by Shift and arrows: the matrix is of that part. Escape: of all.")));
      const paint = canvas.getContext("2d");
      const highest = series.totals.reduce((a, b) => Math.max(a, b), 0) || 1;
      const width = (WIDTH - GUTTER) / series.columns, tall = HEIGHT - AXIS - 6 * density;
      let cursor = 0, anchor = 0;
      const span = series.unit === "s" ? seconds : instructions;

      function show() {
        paint.fillStyle = "#fff";
        paint.fillRect(0, 0, WIDTH, HEIGHT);
        if (isPart()) {
          paint.fillStyle = "#e6e6ea";
          paint.fillRect(GUTTER + view.from * width, 0, (view.until - view.from) * width, HEIGHT - AXIS);
        }
        series.totals.forEach((value, column) => {
          if (value <= 0) return;
          const part = series.part_of[column];
          const plain = !(series.parts?.length > 1);
          const colour = plain ? shades[191] : part === null ? data.no_category : data.categories[part % data.categories.length];
          const high = Math.max(density, tall * value / highest);
          paint.globalAlpha = column >= view.from && column < view.until ? 1 : 0.35;
          paint.fillStyle = colour;
          paint.fillRect(GUTTER + column * width, HEIGHT - AXIS - high, Math.max(width, density), high);
        });
        paint.globalAlpha = 1;
        paint.strokeStyle = INK;
        paint.lineWidth = density;
        paint.strokeRect(GUTTER, HEIGHT - AXIS, WIDTH - GUTTER, 0);
        paint.strokeStyle = MARK;
        paint.lineWidth = 2 * density;
        paint.strokeRect(GUTTER + cursor * width, 1, Math.max(width, 2), HEIGHT - AXIS - 2);
        paint.fillStyle = INK;
        paint.font = `${12 * density}px sans-serif`;
        paint.textBaseline = "bottom";
        const length = series.columns * series.each, apart = step(length, 8);
        for (let tick = 0; tick * apart <= length; tick++) {
          const at = GUTTER + (WIDTH - GUTTER) * tick * apart / length;
          paint.textAlign = tick === 0 ? "left" : tick * apart > 0.97 * length ? "right" : "center";
          paint.fillText(tick === 0 ? "0" : span(tick * apart), at, HEIGHT);
        }
        paint.textAlign = "right";
        paint.textBaseline = "top";
        paint.fillText(short(highest), GUTTER - 6 * density, 2 * density);
        const part = series.part_of[cursor];
        const name = part === null || !(series.parts?.length > 1) ? "" : `, ${series.parts[part]}`;
        said.textContent = `(${count(series.totals[cursor])} at ${span(cursor * series.each)}${name}; the matrix is of ` +
          (isPart() ? `${span(view.from * series.each)} to ${span(view.until * series.each)})` : "the whole run)");
      }
      let asked = false;
      function set(from, until) {
        if (from === view.from && until === view.until) { show(); return; }
        view.from = from;
        view.until = until;
        show();
        if (asked) return;
        asked = true;
        requestAnimationFrame(() => { asked = false; choose(); draw(); point(); });
      }
      const mark = () => set(Math.min(anchor, cursor), Math.max(anchor, cursor) + 1);
      const move = (column) => (extend) => {
        cursor = clamp(column(), 0, series.columns - 1);
        if (extend) mark();
        else { anchor = cursor; show(); }
      };
      canvas.addEventListener("keydown", pressed({
        ArrowLeft: move(() => cursor - 1), ArrowRight: move(() => cursor + 1),
        PageUp: move(() => cursor - 16), PageDown: move(() => cursor + 16),
        Home: move(() => 0), End: move(() => series.columns - 1),
        Enter: mark, " ": mark, Escape: () => set(0, series.columns),
      }));
      const column = (event) => {
        const frame = canvas.getBoundingClientRect();
        return clamp(Math.floor(((event.clientX - frame.left) / frame.width * WIDTH - GUTTER) / width), 0, series.columns - 1);
      };
      let dragging = false;
      canvas.addEventListener("pointerdown", (event) => {
        dragging = true;
        if (event.isTrusted) canvas.setPointerCapture(event.pointerId);
        anchor = cursor = column(event);
        mark();
      });
      canvas.addEventListener("pointermove", (event) => {
        cursor = column(event);
        if (dragging) mark();
        else { anchor = cursor; show(); }
      });
      canvas.addEventListener("pointerup", () => { dragging = false; });
      show();
    }
  }

  // What can be opened is open on paper.
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((details) => { details.open = true; }));
  // What is there to be read is painted first.
  requestAnimationFrame(() => setTimeout(() => {
    document.querySelectorAll(".explore").forEach(explore);
    performance.mark("cohabit-ready");
    document.documentElement.dataset.ready = "yes";
  }));
})();
