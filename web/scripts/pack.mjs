// Packs the built page: what shrinks is kept as gzip alone, the rest as it is. The service worker is told which files there are.
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { gzipSync } from "node:zlib";

const from = "dist";
const to = "packed";

const assets = readdirSync(join(from, "assets")).sort();
const files = JSON.stringify(["./", ...assets.map((name) => `./assets/${name}`)]);
const worker = join(from, "sw.js");
const told = readFileSync(worker, "utf8").replace(/^const FILES = .*;$/m, `const FILES = ${files};`);
if (!told.includes(files)) throw new Error("sw.js names no FILES");
writeFileSync(worker, told);

rmSync(to, { recursive: true, force: true });
for (const entry of readdirSync(from, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile()) continue;
  const path = join(entry.parentPath, entry.name);
  const bytes = readFileSync(path);
  const packed = gzipSync(bytes, { level: 9 });
  // The page itself stays readable: it names what the first load takes, which a test adds up.
  const smaller = entry.name !== "index.html" && packed.length < bytes.length * 0.9;
  const target = join(to, relative(from, path)) + (smaller ? ".gz" : "");
  mkdirSync(dirname(target), { recursive: true });
  writeFileSync(target, smaller ? packed : bytes);
}
