// Links to the audit's reports, which the server hands out under /reports/.

import { el } from "./format.js";

// `path` is where the report lies on the server's machine; within the site it is what follows the folder `quality`.
export function reportLink(path, text = "report") {
  if (!path) return "";
  const within = path.replaceAll("\\", "/").replace(/^.*\/quality\//, "");
  return el("a", { href: `/reports/${within}`, target: "_blank", rel: "noopener" }, text);
}
