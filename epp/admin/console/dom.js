// The few ways in which this page is changed; whatever comes from outside is only ever text.

// Marks that turn the direction of text, and characters that nobody sees, would let one name pass for another.
const HIDDEN = /[^\P{C}\n]|[\p{Zl}\p{Zp}]/gu;
const plain = (text) => String(text).replace(HIDDEN, (c) => `\\u${c.codePointAt(0).toString(16).padStart(4, "0")}`);

export const byId = (id) => document.getElementById(id);

export function element(name, { text, ...attributes } = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) setAttribute(made, key, value);
  if (text !== undefined) made.textContent = plain(text);
  made.append(...children);
  return made;
}

export function setText(target, text) {
  const shown = plain(text);
  if (target.textContent !== shown) target.textContent = shown;
}

export function setAttribute(target, name, value) {
  if (value === null || value === undefined || value === false) target.removeAttribute(name);
  else if (target.getAttribute(name) !== plain(value)) target.setAttribute(name, plain(value));
}

export function setList(list, texts) {
  while (list.children.length > texts.length) list.lastChild.remove();
  texts.forEach((text, at) => setText(list.children[at] ?? list.appendChild(element("li")), text));
}

export function setPairs(list, pairs) {
  const wanted = pairs.flat();
  while (list.children.length > wanted.length) list.lastChild.remove();
  wanted.forEach((text, at) => {
    setText(list.children[at] ?? list.appendChild(element(at % 2 ? "dd" : "dt")), text);
  });
}
