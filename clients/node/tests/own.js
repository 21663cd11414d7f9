"use strict";

// A library's own tests, run by mocha against ours. What can't pass is in a file, a line each: its title, a bar, and
// the reason. A test that fails and is not named there fails the run; so does one that is named and passes, or is none.

const { spawnSync } = require("node:child_process");
const { readFileSync } = require("node:fs");
const { join } = require("node:path");

function canNotPass(list) {
  const lines = readFileSync(join(__dirname, list), "utf8").split("\n").filter((line) => line && !line.startsWith("#"));
  return new Map(lines.map((line) => line.split(" | ")));
}

// The outcome of each test, by its title.
function outcomesOf(folder, options, env) {
  const report = join(folder, "report.json");
  spawnSync(process.execPath, [
    require.resolve("mocha/bin/mocha.js"), "--exit", "--reporter", "json", "--reporter-option", `output=${report}`,
    ...options,
  ], {
    cwd: folder, timeout: 120_000, stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, ...env, NODE_PATH: join(__dirname, "node_modules") },
  });
  const { passes, failures, pending } = JSON.parse(readFileSync(report, "utf8"));
  return [...passes.map(({ fullTitle }) => [fullTitle, "passed"]), ...pending.map(({ fullTitle }) => [fullTitle, "pending"]),
    ...failures.map(({ fullTitle, err }) => [fullTitle, "failed", err.message])];
}

function judge(library, list, outcomes) {
  const reasons = canNotPass(list), titles = new Set();
  let wrong = 0;
  for (const [title, outcome, message] of outcomes) {
    titles.add(title);
    const expected = reasons.has(title) ? "failed" : "passed";
    if (outcome !== expected) {
      wrong++;
      console.log(`FAIL  ${title}: ${outcome}, and ${expected} was expected. ${message ?? ""}`);
    } else if (expected === "failed") {
      console.log(`  --  ${title} can't pass: ${reasons.get(title)}`);
    }
  }
  for (const title of reasons.keys()) {
    if (titles.has(title)) continue;
    wrong++;
    console.log(`FAIL  ${title} is named in ${list}, and is no test`);
  }
  const passed = outcomes.filter(([, outcome]) => outcome === "passed").length;
  console.log(`${library}: ${passed} of ${outcomes.length} of its own tests pass`);
  process.exitCode = wrong > 0 || outcomes.length === 0 ? 1 : 0;
}

module.exports = { judge, outcomesOf };
