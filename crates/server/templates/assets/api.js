// Draws an OpenAPI 3 document: operations, parameters, bodies, answers and schemas. All text is set as
// text, never as markup.

const byId = (id) => document.getElementById(id);
const VERBS = ["get", "post", "put", "patch", "delete"];

let spec = {};

/** An element: `make("p", { className: "lead" }, "text", child, ..)`. */
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Follows `#/components/..`; a reference that leads nowhere is shown as it stands. */
function resolve(node, depth = 8) {
  if (!node?.$ref || depth === 0) return node ?? {};
  const found = node.$ref.replace(/^#\//, "").split("/").reduce((at, name) => at?.[name], spec);
  return resolve(found, depth - 1);
}

const nameOf = (ref) => ref.split("/").pop();

/** A type in a few words, with a link where it has a name. */
function typeOf(schema) {
  if (!schema) return "";
  if (schema.$ref) {
    const name = nameOf(schema.$ref);
    return make("a", { href: `#schema-${name}` }, name);
  }
  if (schema.const !== undefined) return make("code", {}, JSON.stringify(schema.const));
  if (schema.enum) return make("code", {}, schema.enum.map((value) => JSON.stringify(value)).join(" | "));
  if (schema.type === "array" || schema.items) return make("span", {}, "array of ", typeOf(schema.items ?? {}));
  const parts = schema.oneOf ?? schema.anyOf ?? schema.allOf;
  if (parts) {
    const joint = schema.allOf ? " and " : " or ";
    return make("span", {}, ...parts.flatMap((part, i) => [i ? joint : "", typeOf(part)]));
  }
  const type = [].concat(schema.type ?? "any").join(" or ");
  return schema.format ? `${type} (${schema.format})` : type;
}

function limits(schema) {
  const named = { minimum: "at least", maximum: "at most", minLength: "length from", maxLength: "length to",
    pattern: "pattern", default: "default" };
  return Object.entries(named)
    .filter(([name]) => schema?.[name] !== undefined)
    .map(([name, word]) => `${word} ${schema[name]}`)
    .join(", ");
}

function table(heads, rows) {
  const head = make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)));
  const body = rows.map((cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell ?? ""))));
  const drawn = make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
  // Wide tables scroll by themselves; a scrolling region has to be reachable by keyboard.
  const region = make("div", { className: "scroll", tabIndex: 0 }, drawn);
  region.setAttribute("role", "region");
  region.setAttribute("aria-label", "Table");
  return region;
}

function note(schema) {
  return [schema?.description, limits(schema)].filter(Boolean).join(" · ");
}

function propertyTable(schema) {
  const required = new Set(schema.required ?? []);
  const rows = Object.entries(schema.properties ?? {}).map(([name, property]) => [
    make("code", {}, name), typeOf(property), required.has(name) ? "yes" : "no", note(property),
  ]);
  return rows.length ? table(["Field", "Type", "Required", "Meaning"], rows) : null;
}

function parameters(list) {
  if (!list.length) return [];
  const rows = list.map((parameter) => resolve(parameter)).map((parameter) => [
    make("code", {}, parameter.name), parameter.in, typeOf(parameter.schema),
    parameter.required ? "yes" : "no", [parameter.description, note(parameter.schema)].filter(Boolean).join(" · "),
  ]);
  return [make("h3", {}, "Parameters"), table(["Name", "In", "Type", "Required", "Meaning"], rows)];
}

function content(body) {
  return Object.entries(body.content ?? {}).flatMap(([type, media]) => {
    const line = make("p", {}, make("code", {}, type), " ", typeOf(media.schema));
    const inline = media.schema && !media.schema.$ref ? propertyTable(media.schema) : null;
    const example = media.example ?? Object.values(media.examples ?? {})[0]?.value;
    const shown = example === undefined ? null : code(typeof example === "string" ? example : JSON.stringify(example, null, 2));
    return [line, inline, shown].filter(Boolean);
  });
}

function code(text) {
  return make("pre", { tabIndex: 0 }, make("code", {}, text));
}

function responses(map) {
  const rows = Object.entries(map).map(([status, answer]) => {
    const resolved = resolve(answer);
    return [make("code", {}, status), resolved.description ?? "", make("div", {}, ...content(resolved))];
  });
  return rows.length ? [make("h3", {}, "Answers"), table(["Status", "When", "Body"], rows)] : [];
}

/** The call as one would type it; placeholders stay in capitals. */
function curl(verb, path, operation, shared) {
  const lines = [`curl -X ${verb.toUpperCase()} '${location.origin}${path.replace(/\{(\w+)\}/g, (_, name) => name.toUpperCase())}'`];
  for (const listed of [...shared, ...(operation.parameters ?? [])]) {
    const parameter = resolve(listed);
    if (parameter.in === "header") lines.push(`  -H '${parameter.name}: ${parameter.name.toUpperCase()}'`);
  }
  const security = operation.security ?? spec.security ?? [];
  if (security.some((choice) => Object.keys(choice).length)) lines.push("  -H 'Authorization: Bearer TOKEN'");
  if (operation.requestBody) lines.push("  -H 'Content-Type: application/json' -d @body.json");
  return code(lines.join(" \\\n"));
}

function operationView(path, verb, operation, shared) {
  const badge = make("span", { className: "verb" }, verb.toUpperCase());
  badge.dataset.verb = verb;
  const inside = make("div", { className: "inside" });
  if (operation.description) inside.append(...operation.description.split(/\n{2,}/).map((text) => make("p", {}, text)));
  inside.append(...parameters([...shared, ...(operation.parameters ?? [])]));
  if (operation.requestBody) inside.append(make("h3", {}, "Body"), ...content(resolve(operation.requestBody)));
  inside.append(...responses(operation.responses ?? {}));
  inside.append(make("h3", {}, "Try it"), curl(verb, path, operation, shared));
  const summary = make("summary", {}, badge, make("code", {}, path), make("span", {}, operation.summary ?? ""));
  const view = make("details", { className: "operation" }, summary, inside);
  view.dataset.search = `${verb} ${path} ${operation.summary ?? ""} ${operation.operationId ?? ""}`.toLowerCase();
  return view;
}

function draw() {
  byId("api-title").textContent = [spec.info?.title ?? "HTTP API", spec.info?.version].filter(Boolean).join(" ");
  const groups = new Map();
  for (const [path, item] of Object.entries(spec.paths ?? {})) {
    for (const verb of VERBS.filter((name) => item[name])) {
      const group = item[verb].tags?.[0] ?? "Operations";
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push(operationView(path, verb, item[verb], item.parameters ?? []));
    }
  }
  const listed = (spec.tags ?? []).map((tag) => tag.name);
  const place = (name) => (listed.includes(name) ? listed.indexOf(name) : listed.length);
  for (const [name, views] of [...groups].sort(([one], [other]) => place(one) - place(other))) {
    const described = (spec.tags ?? []).find((tag) => tag.name === name)?.description;
    byId("operations").append(make("section", {}, make("h2", {}, name), described ? make("p", {}, described) : null, ...views));
  }
  drawSchemas();
  const total = [...groups.values()].flat().length;
  byId("outcome").textContent = `${total} operations. Each opens to its parameters and answers.`;
}

function drawSchemas() {
  const schemas = Object.entries(spec.components?.schemas ?? {});
  if (!schemas.length) return;
  byId("schemas").append(make("h2", {}, "Schemas"));
  for (const [name, schema] of schemas) {
    const inside = make("div", { className: "inside" });
    if (schema.description) inside.append(make("p", {}, schema.description));
    inside.append(propertyTable(schema) ?? make("p", {}, typeOf(schema)));
    const view = make("details", { className: "operation", id: `schema-${name}` }, make("summary", {}, make("code", {}, name)), inside);
    view.dataset.search = `schema ${name.toLowerCase()}`;
    byId("schemas").append(view);
  }
}

function filter() {
  const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const views = [...document.querySelectorAll(".operation")];
  for (const view of views) view.hidden = !words.every((word) => view.dataset.search.includes(word));
  for (const section of document.querySelectorAll("#operations section")) {
    section.hidden = !section.querySelector(".operation:not([hidden])");
  }
  byId("outcome").textContent = `${views.filter((view) => !view.hidden).length} match.`;
}

// A link to a schema must open it, or there is nothing to see at its end.
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) target.open = true;
  target?.scrollIntoView();
}

async function load() {
  try {
    const response = await fetch("/api/v1/openapi.json", { headers: { accept: "application/json" } });
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    spec = await response.json();
    draw();
    if (location.hash) openTarget();
  } catch (error) {
    byId("outcome").classList.add("bad");
    byId("outcome").textContent = `The document could not be read: ${error.message}. Reload to try again.`;
  }
}

byId("filter").addEventListener("input", filter);
addEventListener("hashchange", openTarget);
load();
