// BullMQ, by the protocol of the Python peers: `node peer.mjs CASE URL COUNT` prints one line of JSON.
// The cases are those of ../measured.py, which says why they are as they are.

import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";

const [name, url, given] = process.argv.slice(2);
const count = Number(given);
const QUEUE = "bench";
const NO_OPS = 300;
const SLEEPERS = 100;
const A_SECOND = 500;
const GROUP = 1000;
const DELAYED_A_SECOND = 2000;
const SETTLING_MS = 1500;
const IDLE_SECONDS = 3;
const LIMIT_MS = 60000;

const connection = () => new Redis(url, { maxRetriesPerRequest: null });
const watch = connection();
const marks = []; // [due, ran], in milliseconds
const seconds = () => performance.now() / 1000;

async function work() {
  const queue = opened();
  const schedule = await rate(() => enqueue(queue));
  const touch = await rate(() => enqueue(queue));
  return { figures: { schedule, touch, ...(await runAll(0, NO_OPS)) } };
}

async function sleepers() {
  await enqueue(opened());
  return { figures: { sleepers: (await runAll(1, SLEEPERS)).run } };
}

async function latency() {
  await delayed((number) => (number * 1000) / A_SECOND);
  return { figures: lateness("latency") };
}

async function burst() {
  const firstDue = await delayed((number) => Math.round((number * 1000) / count));
  const last = Math.max(...marks.map(([, ran]) => ran));
  return { figures: { ...lateness("burst"), burst_done_s: (last - firstDue) / 1000 } };
}

async function idle() {
  const worker = started(0, NO_OPS);
  await sleep(SETTLING_MS);
  const cpu = process.cpuUsage();
  const commands = await commandsSent();
  const used = process.cpuUsage(cpu);
  await worker.close(true);
  const idle_cpu_percent = (used.user + used.system) / 1e4 / IDLE_SECONDS;
  return { figures: { idle_commands: commands / IDLE_SECONDS, idle_cpu_percent } };
}

// --- the queue ---

function opened() {
  // A job is gone when it is done, as in the fastest set-up of its documentation.
  return new Queue(QUEUE, { connection: connection(), defaultJobOptions: { removeOnComplete: true } });
}

async function enqueue(queue) {
  for (const numbers of groups()) {
    await queue.addBulk(numbers.map((number) => ({ name: "job", data: { due: 0 }, opts: { jobId: `k${number}` } })));
  }
}

function started(sleepMs, concurrency) {
  const handler = async (job) => {
    if (sleepMs) await sleep(sleepMs);
    marks.push([job.data.due, performance.timeOrigin + performance.now()]);
  };
  return new Worker(QUEUE, handler, { connection: connection(), concurrency, removeOnComplete: { count: 0 } });
}

// From the first jobs that ran to the last: how long a worker takes to start is not what is measured.
async function runAll(sleepMs, concurrency) {
  const worker = started(sleepMs, concurrency);
  await untilRun(1);
  const server = await serverCpu();
  const cpu = process.cpuUsage();
  const begun = performance.timeOrigin + performance.now();
  const ran = count - marks.length;
  await untilRun();
  const used = process.cpuUsage(cpu);
  const figures = {
    run: (ran * 1000) / (marks.at(-1)[1] - begun),
    node_us: (used.user + used.system) / ran,
    server_us: (((await serverCpu()) - server) / ran) * 1e6,
  };
  await worker.close(true);
  return figures;
}

async function delayed(offset) {
  const worker = started(0, NO_OPS);
  const queue = opened();
  await sleep(1000);
  const firstDue = Date.now() + 1500 + (count * 1000) / DELAYED_A_SECOND;
  for (const numbers of groups()) {
    await queue.addBulk(
      numbers.map((number) => {
        const due = Math.round(firstDue + offset(number));
        return { name: "job", data: { due }, opts: { jobId: `k${number}`, delay: due - Date.now() } };
      }),
    );
  }
  if (Date.now() > firstDue) throw new Error("the delayed jobs were not enqueued before the first was due");
  await untilRun();
  await worker.close(true);
  return Math.round(firstDue);
}

// --- measuring ---

function groups() {
  const first = Array.from({ length: Math.ceil(count / GROUP) }, (_, at) => at * GROUP);
  return first.map((from) => Array.from({ length: Math.min(GROUP, count - from) }, (_, at) => from + at));
}

async function rate(call) {
  const begun = seconds();
  await call();
  return count / (seconds() - begun);
}

async function untilRun(many = count) {
  const deadline = Date.now() + LIMIT_MS;
  while (marks.length < many) {
    if (Date.now() > deadline) throw new Error(`${marks.length} of ${many} jobs ran within ${LIMIT_MS / 1000} s`);
    await sleep(5);
  }
}

async function serverCpu() {
  const said = Object.fromEntries((await watch.info("cpu")).split("\r\n").map((line) => line.split(":")));
  return Number(said.used_cpu_user) + Number(said.used_cpu_sys);
}

async function commandsSent() {
  const monitor = await connection().monitor();
  let sent = 0;
  monitor.on("monitor", (_time, _command, source) => (sent += source === "lua" ? 0 : 1));
  await sleep(IDLE_SECONDS * 1000);
  monitor.disconnect();
  return sent;
}

function lateness(what) {
  const late = marks.map(([due, ran]) => ran - due).sort((one, other) => one - other);
  const at = (share) => late[Math.min(late.length - 1, Math.floor(late.length * share))];
  return { [`${what}_p50_ms`]: at(0.5), [`${what}_p99_ms`]: at(0.99) };
}

const cases = { work, sleepers, latency, burst, idle };
const told = {
  version: createRequire(import.meta.url)("bullmq/package.json").version,
  settings: "keyed `addBulk` of 1,000, `concurrency` 300, `removeOnComplete`, ioredis",
  recovery: "a lock of 30 s, looked for every 30 s: up to 60 s",
};
console.log(JSON.stringify({ ...told, cannot: {}, ...(await cases[name]()) }));
process.exit(0);
