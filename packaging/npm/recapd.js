#!/usr/bin/env node
// Runs the program from the package for this platform, which npm has installed beside this one.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const platform = `recapd-cli-${process.platform}-${process.arch}`;
// What the program understands. A terminal sends SIGINT to both processes, so that one isn't passed on.
const PASSED_ON = ["SIGTERM", "SIGHUP"];

function program() {
  try {
    return require.resolve(`${platform}/recapd`);
  } catch {
    console.error(`recapd: the package ${platform} is not installed. Either there is none for this platform, or npm left out optional dependencies.`);
    process.exit(69);
  }
}

const child = spawn(program(), process.argv.slice(2), { stdio: "inherit" });
for (const signal of PASSED_ON) process.on(signal, () => child.kill(signal));
process.on("SIGINT", () => {});
child.on("error", (error) => {
  console.error(`recapd: ${error.message}`);
  process.exit(69);
});
// As a shell says it: 128 and the signal's number.
child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
