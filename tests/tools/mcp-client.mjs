// Uses a server with the official TypeScript client: `node mcp-client.mjs URL BEARER`. Prints one JSON object.
import { createRequire } from "node:module";

const [url, bearer] = process.argv.slice(2);
const require = createRequire(`${process.env.GATEWRIGHT_TEST_NODE_TOOLS}/package.json`);
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

async function connect(headers) {
  const client = new Client({ name: "test", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  return client;
}

const nobody = await connect({});
const ada = await connect({ Authorization: `Bearer ${bearer}` });
const call = async (client, name, args) => await client.callTool({ name, arguments: args });

const report = { server: ada.getServerVersion().name };
report.nobody = (await nobody.listTools()).tools.map((tool) => tool.name);
report.refused = await call(nobody, "notes_list", {});
const { tools } = await ada.listTools();
report.tools = tools;
report.made = await call(ada, "notes_create", { title: "one", netPrice: "9007199254740993.10" });
const { id } = report.made.structuredContent.data;
await call(ada, "notes_create", { title: "two" });
report.changed = await call(ada, "notes_update", { id, title: "three" });
report.page = await call(ada, "notes_list", { cursor: "", limit: 1, fields: "id,title" });
report.next = await call(ada, "notes_list", { cursor: report.page.structuredContent.cursor, limit: 1 });
report.found = await call(ada, "notes_list", { filter: 'title ~ "THR"', sort: "-createdAt" });
report.invalid = await call(ada, "notes_create", { title: "", netPrice: "much" });
report.gone = await call(ada, "notes_delete", { id });
report.missing = await call(ada, "notes_get", { id });
report.unknown = await call(ada, "nothing_list", {}).catch((error) => error.code);
report.many = await Promise.all(
  Array.from({ length: 20 }, async (_, turn) => {
    const client = turn % 2 ? ada : nobody;
    return (await call(client, "notes_list", {})).isError ?? false;
  }),
);
await Promise.all([nobody.close(), ada.close()]);
console.log(JSON.stringify(report));
