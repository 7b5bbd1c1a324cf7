/** What customizations are called. */
export const KINDS: Record<string, string> = {
  mcpServer: "MCP server",
  skill: "Skill",
  agent: "Agent",
  prompt: "Command",
  rule: "Instructions",
  hook: "Hook",
  plugin: "Plugin",
  directory: "Directory",
};
