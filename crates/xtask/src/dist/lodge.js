#!/usr/bin/env node
// Runs the program that the package of this platform brings.
'use strict'

const { spawn } = require('node:child_process')
const os = require('node:os')
const { name, version, optionalDependencies } = require('../package.json')

const wanted = `${name}-${process.platform}-${process.arch}`

function find() {
  if (!(wanted in optionalDependencies)) {
    fail(`Lodge has no package for ${process.platform}-${process.arch}. There are packages for: ` +
      Object.keys(optionalDependencies).map((known) => known.slice(name.length + 1)).join(', ') + '.')
  }
  try {
    return require.resolve(`${wanted}/bin/lodge`)
  } catch {
    if (process.platform === 'linux' && !process.report?.getReport().header.glibcVersionRuntime) {
      fail('Lodge needs the GNU C library, and this system (Alpine, perhaps) has another one. Build it from source instead: ' +
        'cargo install --locked --path crates/lodge')
    }
    fail(`The package ${wanted} is missing, which holds the program for this platform. npm leaves it out when optional ` +
      `dependencies are turned off, or when a lock file was made on another platform. To get it:\n\n` +
      `  npm install ${wanted}@${version}\n`)
  }
}

function fail(message) {
  console.error(`error: ${message}`)
  process.exit(1)
}

const child = spawn(find(), process.argv.slice(2), { stdio: 'inherit' })
child.on('error', (error) => fail(`${child.spawnfile} cannot be started: ${error.message}`))
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  // Ctrl-C in a terminal reaches the program by itself, and a second one means more than the first.
  process.on(signal, () => { if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal) })
}
child.on('exit', (code, signal) => process.exit(code ?? 128 + os.constants.signals[signal]))
