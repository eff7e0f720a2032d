// The page: what the reader does goes to the server, what the server says goes to the views.

import { Episode, Refused } from "./episode.js";
import * as views from "./views.js";

const { by } = views;
const HERE = new URL(import.meta.url);
HERE.username = HERE.password = ""; // nothing may be fetched from an address that names a password
const SERVER = new URL("../../", HERE);
const WATCH_MS = 300;
const HEALTH_MS = 2000;
const RECENT_MS = 6000;
const FETCH_MS = 10000;

let about = null;
let devices = ""; // whose facts `about` holds
let tasks = [];
let episode = null;
let current = null; // the newest observation of the episode

async function get(path, base = HERE) {
  const reply = await fetch(new URL(path, base), { cache: "no-store", signal: AbortSignal.timeout(FETCH_MS) });
  if (!reply.ok) throw new Error(`${path}: ${reply.status} ${reply.statusText}`);
  return reply.json();
}

async function learn() {
  [about, tasks] = await Promise.all([get("about"), get("tasks")]);
  const chosen = by("language").value;
  by("language").replaceChildren(...about.languages.map((name) => new Option(name, name, false, name === chosen)));
  list();
}

// The tasks whose name has what is looked for, by level.
function list() {
  const wanted = by("find").value.trim().toLowerCase();
  const chosen = by("task").value;
  const groups = new Map();
  for (const task of tasks) {
    if (!task.id.toLowerCase().includes(wanted)) continue;
    if (!groups.has(task.level)) groups.set(task.level, Object.assign(document.createElement("optgroup"), { label: `level ${task.level}` }));
    const option = new Option(`${task.id} (${task.split})`, task.id, false, task.id === chosen);
    option.disabled = Boolean(task.unusable);
    option.title = task.unusable;
    groups.get(task.level).append(option);
  }
  const chance = wanted ? [] : [new Option("any of the split train", "")];
  by("task").replaceChildren(...chance, ...groups.values());
  example();
}

function example() {
  const known = about?.example?.task === (current?.task_id ?? by("task").value);
  const code = known && about.example.code[current?.language ?? by("language").value];
  by("example").hidden = !code;
  by("example").onclick = () => edit(code);
}

async function begin(event) {
  event.preventDefault();
  refused(null);
  busy(true);
  try {
    if (!about) await learn();
    episode ??= new Episode(SERVER, about.step_timeout_s);
    const task = by("task").value;
    const reply = await episode.begin({ language: by("language").value, ...(task ? { task_id: task } : {}) });
    current = reply.observation;
    current.episode = reply.metadata.episode_id;
    views.problem(current.problem);
    by("problem-box").hidden = false;
    by("turns").hidden = true;
    by("turns").tBodies[0].replaceChildren();
    rest(`${current.task_id}, in ${current.language}: nothing has been submitted.`);
    example();
  } catch (error) {
    refused(error);
  }
  busy(false);
}

async function submit(event) {
  event.preventDefault();
  if (by("evaluate").disabled) return;
  refused(null);
  busy(true);
  by("stop").hidden = false;
  by("result").hidden = true;
  by("now").className = "";
  const code = by("code").value;
  const stop = watch(current.episode);
  try {
    const reply = await episode.submit(code);
    stop();
    if (!reply) return rest("Stopped: this submission does not count.");
    current = { ...reply.observation, episode: current.episode, done: reply.done };
    views.verdict(current, reply, about);
    views.turn(current, reply, () => edit(code));
    if (current.done) episode.end();
    Promise.allSettled([latest(), stand()]); // what is shown of the server is no part of the verdict
  } catch (error) {
    stop();
    refused(error);
    rest("Not judged.");
  } finally {
    by("stop").hidden = true;
    busy(false);
  }
}

// No verdict stands there.
function rest(text) {
  by("result").hidden = true;
  by("stages").replaceChildren();
  by("now").className = by("elapsed").textContent = "";
  views.say(by("now"), text);
}

// Shows the stages of the evaluation that runs; the function that ends that.
function watch(id) {
  const began = performance.now();
  const seen = new Set(["queue"]);
  let timer = 0;
  let over = false;
  const look = async () => {
    let stage = "queue";
    try {
      stage = (await get(`progress?episode=${encodeURIComponent(id)}`)).stage || stage;
    } catch {
      stage = ""; // the verdict comes by another way
    }
    if (over) return;
    if (stage) seen.add(stage);
    views.running(stage, seen, (performance.now() - began) / 1000);
    timer = setTimeout(look, WATCH_MS);
  };
  look();
  return () => {
    over = true;
    clearTimeout(timer);
  };
}

function busy(yes) {
  by("begin").disabled = yes;
  by("evaluate").disabled = yes || !current || Boolean(current.done);
  if (yes || !current) return;
  by("turn").textContent = current.done
    ? "The episode is done: begin another."
    : `${current.turn} of ${current.max_turns} submissions used`;
}

function refused(error) {
  by("refusal").hidden = !error;
  if (!error) return;
  by("refusal").textContent = error instanceof Refused ? `${error.message} (${error.code})` : error.message;
  if (error.code === "EPISODE_LOST") current = null;
}

function edit(code) {
  by("code").value = code;
  by("code").focus();
  by("code").setSelectionRange(0, 0);
  by("code").scrollTop = 0;
}

async function latest() {
  views.recent(await get("recent"));
}

// Again and again while the page is in sight.
async function repeat(work, pause) {
  for (;;) {
    if (!document.hidden) {
      try {
        await work();
      } catch (error) {
        views.say(by("standing"), `the server does not answer: ${error.message}`);
      }
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

async function stand() {
  const health = await get("health", SERVER);
  views.standing(health);
  const names = health.devices.map((device) => device.name).join();
  if (about && names === devices) return;
  await learn();
  devices = names;
}

by("find").addEventListener("input", list);
by("task").addEventListener("change", example);
by("language").addEventListener("change", example);
by("choose").addEventListener("submit", begin);
by("submit").addEventListener("submit", submit);
by("stop").addEventListener("click", () => episode.stop());
by("file").addEventListener("change", async () => {
  const [file] = by("file").files;
  if (file) edit(await file.text());
});
addEventListener("pagehide", () => episode?.end());
repeat(stand, HEALTH_MS);
repeat(latest, RECENT_MS);
