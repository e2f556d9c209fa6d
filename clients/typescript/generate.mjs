// Writes src/schema.ts and src/tenant.ts from the API's schema: `npm run generate`, after `make schema`.
import { readFile, writeFile } from "node:fs/promises";
import { load } from "js-yaml";
import openapiTS, { astToString } from "openapi-typescript";

const METHODS = ["get", "post", "put", "patch", "delete"];
const SCHEMA = new URL("../../docs/reference/openapi.yaml", import.meta.url);

/** Says of each operation where it names its agent: in the query, in the body, or nowhere. */
function tenants(document) {
  const found = {};
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const method of METHODS.filter((each) => each in operations)) {
      const { parameters = [], requestBody } = operations[method];
      const name = requestBody?.content["application/json"]?.schema.$ref?.split("/").at(-1);
      const fields = document.components.schemas[name]?.properties ?? {};
      if (parameters.some((each) => each.in === "query" && each.name === "agent_id")) found[`${method} ${path}`] = "query";
      else if ("user_id" in fields) found[`${method} ${path}`] = "body";
    }
  }
  return found;
}

const head = "// Generated from docs/reference/openapi.yaml by `npm run generate`.\n";
const document = load(await readFile(SCHEMA, "utf8"));
await writeFile(new URL("src/schema.ts", import.meta.url), head + astToString(await openapiTS(SCHEMA, { defaultNonNullable: false })));
const map = JSON.stringify(tenants(document), null, 2);
await writeFile(
  new URL("src/tenant.ts", import.meta.url),
  `${head}\n/** Where an operation names its agent and user, by method and path. */\nexport const TENANT: Readonly<Record<string, "query" | "body">> = ${map};\n`,
);
