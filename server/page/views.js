// What the page shows, from what the server says. Texts go in as text alone, never as markup.

import { interval, number, roofline, share } from "./figures.js";

const STAGES = [
  ["queue", "queue"],
  ["checks", "static checks"],
  ["build", "build"],
  ["rehearsal", "compile ahead"],
  ["processes", "processes"],
  ["candidate", "construct"],
  ["correctness", "correctness"],
  ["quiet", "quiet device"],
  ["timing", "timing"],
  ["provenance", "kernels by name"],
  ["baseline", "torch.compile"],
  ["ending", "clear the device"],
];
const ALWAYS = new Set(["queue", "checks", "build", "candidate", "correctness", "timing"]);

const KERNELS = 8;

export function by(id) {
  return document.getElementById(id);
}

// A Markdown text: its headings and code blocks as such, the rest as it is.
export function problem(text) {
  const parts = [];
  let lines = [];
  let fence = null;
  const flush = (tag) => {
    const content = lines.join("\n").trim();
    if (content) parts.push(element(tag, content));
    lines = [];
  };
  for (const line of text.split("\n")) {
    const mark = /^(`{3,})/.exec(line)?.[1];
    if (fence === null && mark) {
      flush("p");
      fence = mark;
    } else if (fence !== null && line.trim() === fence) {
      flush("pre");
      fence = null;
    } else if (fence === null && /^#+ /.test(line)) {
      flush("p");
      parts.push(element("h3", line.replace(/^#+ /, "")));
    } else lines.push(line);
  }
  flush(fence === null ? "p" : "pre");
  by("problem").replaceChildren(...parts);
}

// Which stages are over, which one runs. `seen` are those that were met, `seconds` since the submission.
export function running(stage, seen, seconds) {
  const furthest = Math.max(...STAGES.map(([name], index) => (name !== "queue" && seen.has(name) ? index : 0)));
  stageRows((name, index) => {
    if (name === stage) return ["runs", "now", ""];
    return index < furthest || seen.has(name) ? ["done", "done", ""] : ["waits", "", ""];
  }, seen);
  const at = STAGES.find(([name]) => name === stage)?.[1];
  say(by("now"), stage === "queue" ? "Waiting for a turn" : at ? `Running: ${at}` : "Running");
  by("elapsed").textContent = `${seconds.toFixed(0)} s`;
}

// Where it ended: the last stage that took time is the one that ended it, unless it passed.
export function ended(observation, durations) {
  const met = STAGES.filter(([name]) => name in durations).map(([name]) => name);
  const last = met.filter((name) => !["queue", "rehearsal"].includes(name)).at(-1);
  const passed = observation.stage === "passed";
  stageRows((name) => {
    if (!(name in durations)) return ["waits", passed ? "not done here" : "not reached", ""];
    const ends = !passed && name === last;
    return [ends ? "ended" : "done", ends ? "ended here" : "done", `${durations[name].toFixed(2)} s`];
  }, new Set(met));
}

function stageRows(state, also) {
  const rows = STAGES.filter(([name]) => ALWAYS.has(name) || also.has(name)).map(([name, label]) => {
    const [kind, word, seconds] = state(name, STAGES.findIndex(([other]) => other === name));
    const row = element("li", "", kind);
    row.append(element("span", label), element("span", seconds, "seconds"), element("span", word, "state"));
    return row;
  });
  by("stages").replaceChildren(...rows);
}

export function verdict(observation, reply, about) {
  const facts = reply.metadata;
  const good = observation.stage === "passed";
  const word = observation.infrastructure_fault ? "Not judged: the environment failed" : good ? "Passed" : "Failed";
  const words = good || observation.infrastructure_fault ? word : `${word}: ${observation.stage}`;
  const fast = observation.speedup == null ? "" : `, ${number(observation.speedup)} times as fast as the reference`;
  say(by("now"), `${words}${fast}. Reward ${number(reply.reward)}.${observation.mock ? " The times are made up." : ""}`);
  by("now").className = good ? "passed" : "failed";
  by("elapsed").textContent = "";
  ended(observation, facts.durations ?? {});
  by("feedback").textContent = observation.feedback;
  by("numbers").tBodies[0].replaceChildren(...measured(observation, facts).map(([name, value]) => row([name], [value])));
  by("numbers").hidden = !by("numbers").tBodies[0].rows.length;
  kernels(observation.profile?.kernels ?? []);
  by("figures").replaceChildren(...drawn(observation, facts, about));
  by("result").hidden = false;
}

function drawn(observation, facts, about) {
  const found = [];
  if (observation.speedup != null) found.push(interval(observation.speedup, observation.speedup_low, observation.speedup_high));
  const rates = about.peaks[facts.device?.name];
  if (observation.roofline_frac != null && rates) {
    found.push(roofline(observation, rates, ["fp16", "bf16"].includes(facts.precision)));
  }
  return found;
}

function measured(observation, facts) {
  const ms = (value) => `${number(value)} ms`;
  const rows = [
    ["speedup", observation.speedup, (value) =>
      `${number(value)} (95 %: ${number(observation.speedup_low)} to ${number(observation.speedup_high)})`],
    ["one call", observation.runtime_ms, (value) => `${ms(value)}, of ${observation.samples} timed`],
    ["the reference's", observation.ref_runtime_ms, ms],
    ["under torch.compile", observation.compiled_runtime_ms, ms],
    ["launch-bound", observation.launch_bound, (value) => (value ? "yes: the host is the slower one" : "no")],
    ["the device's limit", observation.t_min_ms, (value) => `${ms(value)}, bound by ${observation.bound}`],
    ["share of the limit", observation.roofline_frac, (value) =>
      `${share(value)} (the reference ${share(observation.ref_roofline_frac)})`],
    ["intensity", observation.arithmetic_intensity, (value) => `${number(value)} FLOP a byte`],
    ["roofline", facts.roofline, String],
    ["clock", facts.clock, String],
    ["device", facts.device?.name, String],
  ];
  return rows.filter(([, value]) => value != null).map(([name, value, told]) => [name, told(value)]);
}

// Where a profile was asked for.
function kernels(found) {
  const rows = found.slice(0, KERNELS).map((kernel) =>
    row([kernel.name], [number(kernel.launches), number(kernel.ms), share(kernel.share),
      kernel.occupancy == null ? "" : share(kernel.occupancy)], [0, 1, 2, 3]));
  by("kernels").tBodies[0].replaceChildren(...rows);
  by("kernels").hidden = !rows.length;
}

// One row more; `again` puts that submission's text back.
export function turn(observation, reply, again) {
  const button = element("button", "edit");
  button.type = "button";
  button.ariaLabel = `edit submission ${observation.turn}`;
  button.addEventListener("click", again);
  const label = observation.infrastructure_fault ? "not counted" : String(observation.turn);
  const added = row([label], [observation.stage, fastness(observation), number(reply.reward), button], [1, 2]);
  by("turns").tBodies[0].append(added);
  by("turns").hidden = false;
}

export function standing(health) {
  const device = health.devices.find((found) => found.name)?.name ?? "no device yet";
  const told = health.message ? `: ${health.message}` : "";
  say(by("standing"), `${health.state}, ${device}${told}`);
  by("version").textContent = health.version;
  by("load").textContent =
    `${health.running} running, ${health.queued} waiting; ${health.active_sessions} of ${health.max_sessions} sessions.`;
  const rows = health.devices.map((found) => {
    const stages = Object.entries(found.stages ?? {}).map(([name, count]) => (count > 1 ? `${name} (${count})` : name));
    const name = [found.node, found.name ?? `device ${found.index}`].filter(Boolean).join(" ");
    const state = found.message ? `${found.state}: ${found.message}` : found.state;
    return row([name], [state, found.submissions ?? "", stages.join(", "), found.restarts ?? ""], [1, 3]);
  });
  by("devices").tBodies[0].replaceChildren(...rows);
}

export function recent(steps) {
  const rows = steps.map((step) => {
    const time = new Date(step.time).toTimeString().slice(0, 8);
    const speedup = step.speedup == null ? "" : `${number(step.speedup)}x`;
    const limit = step.roofline_frac == null ? "" : share(step.roofline_frac);
    const outcome = step.outcome.replaceAll("_", " ");
    return row([time], [`${step.task_id}, ${step.language}`, outcome, speedup, limit, number(step.reward),
      `${number(step.wall_s)} s`], [2, 3, 4, 5]);
  });
  by("recent").tBodies[0].replaceChildren(...rows);
}

function fastness(step) {
  return step.speedup == null ? "" : `${number(step.speedup)}x (${number(step.speedup_low)} to ${number(step.speedup_high)})`;
}

// `right`: which of the cells hold numbers.
function row(heads, cells, right = []) {
  const made = document.createElement("tr");
  for (const head of heads) made.append(Object.assign(element("th", head), { scope: "row" }));
  cells.forEach((cell, index) => {
    const box = element("td", "", right.includes(index) ? "n" : "");
    box.append(cell);
    made.append(box);
  });
  return made;
}

export function element(tag, text = "", kind = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

// Not again what stands there already: readers of screens would repeat it.
export function say(place, text) {
  if (place.textContent !== text) place.textContent = text;
}
