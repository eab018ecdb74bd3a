// The form for SQL, if the server allows it.

import { ServerError, post } from "./api.js";
import { el, figure, plural, table, valueText } from "./format.js";

const SHOWN = 500;

export function startSql({ form, text, result, asked }) {
  const run = async () => {
    const sql = text.value.trim();
    if (!sql) return;
    asked(sql);
    result.replaceChildren(el("p", { class: "note" }, "asking …"));
    try {
      const answer = await post("sql", { sql });
      const names = answer.columns.map(({ name }) => name);
      const numeric = answer.columns.map(({ type }) => /INT|DOUBLE|FLOAT|DECIMAL|decimal/i.test(type));
      const rows = answer.rows.slice(0, SHOWN).map((row) => names.map((name, index) => (numeric[index] ? figure(row[name]) : valueText(row[name]))));
      const more = answer.rows.length > SHOWN;
      result.replaceChildren(
        answer.rows.length ? table(names.map((name, index) => (numeric[index] ? `>${name}` : name)), rows, "Result") : el("p", { class: "note" }, "no rows"),
        el("p", { class: "note" }, `${more ? `the first ${rows.length} rows` : plural(answer.rows.length, "row")} as of ${answer.token}`));
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      result.replaceChildren(el("p", { class: "trouble" }, error.message));
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run();
    }
  });
}
