// The texts of scripts in the language of the page, from the same files as those of the pages (languages/*.ftl): the server
// compiles them, and names their files here.

const FILES = "@languages@";

// In a page of the shop, the buy button speaks the language of that page, if we have it.
const asked = document.documentElement.lang.toLowerCase();
const code = FILES[asked] ? asked : FILES[asked.split("-")[0]] ? asked.split("-")[0] : Object.keys(FILES)[0];

const { default: texts } = await import(new URL(FILES[code], import.meta.url));
const plural = new Intl.PluralRules(code);

/** The text of this name with these values. A number chooses by its own text or its plural form, anything else by its text. */
export function t(name, values = {}) {
  return said(texts[name], values);
}

function said(text, values) {
  if (typeof text === "string") return text;
  return text.map((part) => {
    if (typeof part === "string") return part;
    if (part.value) return String(values[part.value]);
    const value = values[part.by];
    const key = [String(value), typeof value === "number" && plural.select(value)].find((key) => Object.hasOwn(part.of, key));
    return said(part.of[key ?? part.else], values);
  }).join("");
}

/** For the browser's own formats. */
export const numberLocale = t("locale-numbers");
export const dateLocale = t("locale-dates");
