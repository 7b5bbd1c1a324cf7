// Ends an extension, and what it started, with its host: also with one that is killed, whatever the extension does with its input.
const host = Number(process.env.COPILOT_EXTENSION_PARENT_PID);
setInterval(() => process.ppid === host || process.kill(0, "SIGKILL"), 500).unref();
