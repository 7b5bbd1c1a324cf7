// Lets an extension import the SDK that the app of its session names, wherever the extension lies.
import { register } from "node:module";

const hooks = `
import { pathToFileURL } from "node:url";
const base = pathToFileURL(process.env.COPILOT_SDK_PATH + "/").href;
const files = new Map([
  ["@github/copilot-sdk", "index.js"],
  ["@github/copilot-sdk/extension", "extension.js"],
]);
export async function resolve(name, context, next) {
  const file = files.get(name);
  return file ? { url: base + file, shortCircuit: true } : next(name, context);
}
`;
register("data:text/javascript," + encodeURIComponent(hooks));
