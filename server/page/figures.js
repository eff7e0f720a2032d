// Figures as SVG, drawn from an observation's numbers; each says in words what it shows.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 640;
const LEAST_INTENSITY = 0.02;

// The speedup with its 95 % interval, on a scale of doublings.
export function interval(speedup, low, high) {
  const ends = [Math.floor(Math.log2(Math.min(0.5, low))), Math.ceil(Math.log2(Math.max(2, high)))];
  const x = (value) => 30 + ((Math.log2(value) - ends[0]) / (ends[1] - ends[0])) * (WIDTH - 60);
  const label = `${number(speedup)} times as fast as the reference, 95 % interval ${number(low)} to ${number(high)}`;
  const svg = canvas(74, label);
  draw(svg, "line", { x1: x(2 ** ends[0]), x2: x(2 ** ends[1]), y1: 48, y2: 48, class: "axis" });
  const step = Math.ceil((ends[1] - ends[0]) / 10);
  for (let power = ends[0]; power <= ends[1]; power += step) {
    draw(svg, "line", { x1: x(2 ** power), x2: x(2 ** power), y1: 45, y2: 51, class: "axis" });
    write(svg, x(2 ** power), 66, power < 0 ? `1/${2 ** -power}` : `${2 ** power}`, "middle");
  }
  draw(svg, "line", { x1: x(1), x2: x(1), y1: 22, y2: 48, class: "one" });
  draw(svg, "line", { x1: x(low), x2: x(high), y1: 34, y2: 34, class: "interval" });
  for (const end of [low, high]) draw(svg, "line", { x1: x(end), x2: x(end), y1: 29, y2: 39, class: "interval" });
  draw(svg, "circle", { cx: x(speedup), cy: 34, r: 4.5, class: "own" });
  write(svg, x(speedup), 16, `${number(speedup)}x`, place(x(speedup)), "label");
  return figure(svg, "Times as fast as the reference, with the 95 % interval.");
}

// Where the submission and the reference stand below the device's roof. `rates` are TFLOP/s and GB/s.
export function roofline(observation, rates, half) {
  const at = Math.max(observation.arithmetic_intensity, LEAST_INTENSITY);
  const roof = (intensity, peak) => Math.min(peak, (intensity * rates.bandwidth) / 1e3);
  const limit = observation.bound === "memory" ? (at * rates.bandwidth) / 1e3 : roof(at, half ? rates.half : rates.tf32);
  const own = limit * observation.roofline_frac;
  const reference = limit * observation.ref_roofline_frac;
  const label =
    `Roofline: the submission reaches ${share(observation.roofline_frac)} of the device's limit for this task,` +
    ` the reference ${share(observation.ref_roofline_frac)}; the task is bound by ${observation.bound}`;
  const svg = canvas(330, label);
  const ridge = (peak) => (peak / rates.bandwidth) * 1e3;
  const spanX = span(Math.min(at / 2, ridge(rates.tf32) / 30), Math.max(at * 2, ridge(rates.half) * 8));
  const spanY = span(Math.min(own, reference, rates.tf32) / 2, rates.half * 1.6);
  const x = (value) => 56 + ((Math.log10(value) - spanX[0]) / (spanX[1] - spanX[0])) * (WIDTH - 76);
  const y = (value) => 286 - ((Math.log10(value) - spanY[0]) / (spanY[1] - spanY[0])) * 270;
  grid(svg, spanX, spanY, x, y);
  const roofs = [[rates.tf32, "TF32", ""], [rates.half, "16 bits", " dashed"]];
  for (const [peak, name, dash] of rates.half === rates.tf32 ? [[rates.half, "peak", ""]] : roofs) {
    const start = Math.max(10 ** spanX[0], (10 ** spanY[0] / rates.bandwidth) * 1e3);
    const points = [start, ridge(peak), 10 ** spanX[1]].map((value) => `${x(value)},${y(roof(value, peak))}`);
    draw(svg, "polyline", { points: points.join(" "), class: `roof${dash}` });
    const shift = peak === rates.half ? -5 : 14; // the two roofs are close
    write(svg, x(10 ** spanX[1]) - 4, y(peak) + shift, `${name}: ${number(peak)} TFLOP/s`, "end");
  }
  draw(svg, "line", { x1: x(at), x2: x(at), y1: y(limit), y2: y(Math.min(own, reference)), class: "one" });
  draw(svg, "circle", { cx: x(at), cy: y(reference), r: 5, class: "reference" });
  draw(svg, "circle", { cx: x(at), cy: y(own), r: 5, class: "own" });
  const [upper, lower] = own >= reference ? ["submission", "reference"] : ["reference", "submission"];
  const gap = Math.max(0, 15 - Math.abs(y(own) - y(reference))) / 2;
  const [aside, anchor] = x(at) > WIDTH / 2 ? [-10, "end"] : [10, "start"];
  write(svg, x(at) + aside, Math.min(y(own), y(reference)) + 4 - gap, upper, anchor, "label");
  write(svg, x(at) + aside, Math.max(y(own), y(reference)) + 4 + gap, lower, anchor, "label");
  const note = observation.arithmetic_intensity < LEAST_INTENSITY
    ? " No product, convolution or attention is in the task, so no FLOPs are counted: it stands at the left edge."
    : "";
  return figure(svg, `TFLOP/s over the task's FLOP a byte; the line is what the device can do.${note}`);
}

export function number(value) {
  if (value === 0) return "0";
  const short = Number(value.toPrecision(3));
  return Math.abs(short) >= 1e6 || Math.abs(short) < 1e-4 ? value.toExponential(2) : String(short);
}

export function share(fraction) {
  return `${Number((100 * fraction).toPrecision(3))} %`;
}

// Of a logarithmic axis, from a power of ten on.
function span(low, high) {
  return [Math.floor(Math.log10(low)), Math.log10(high)];
}

function grid(svg, spanX, spanY, x, y) {
  for (let power = spanX[0]; power <= spanX[1]; power++) {
    draw(svg, "line", { x1: x(10 ** power), x2: x(10 ** power), y1: 16, y2: 286, class: "axis" });
    write(svg, x(10 ** power), 302, tick(power), "middle");
  }
  for (let power = spanY[0]; power <= spanY[1]; power++) {
    draw(svg, "line", { x1: 56, x2: WIDTH - 20, y1: y(10 ** power), y2: y(10 ** power), class: "axis" });
    write(svg, 50, y(10 ** power) + 4, tick(power), "end");
  }
  write(svg, (WIDTH + 36) / 2, 322, "FLOP a byte", "middle");
  write(svg, 8, 10, "TFLOP/s", "start");
}

// A power of ten.
function tick(power) {
  if (power >= -3 && power <= 4) return number(10 ** power);
  const digits = String(power).replace("-", "\u207b");
  return `10${digits.replace(/\d/g, (digit) => "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"[digit])}`;
}

function canvas(height, label) {
  return draw(null, "svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label });
}

function figure(svg, caption) {
  const box = document.createElement("figure");
  const text = document.createElement("figcaption");
  text.textContent = caption;
  box.append(svg, text);
  return box;
}

function place(x) {
  return x < 60 ? "start" : x > WIDTH - 60 ? "end" : "middle";
}

function draw(parent, name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent?.append(element);
  return element;
}

function write(svg, x, y, text, anchor, kind = "") {
  draw(svg, "text", { x, y, "text-anchor": anchor, class: kind }).textContent = text;
}
