// The few ways in which this page is changed; whatever comes from outside is only ever text.

export const byId = (id) => document.getElementById(id);

export function element(name, { text, ...attributes } = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) setAttribute(made, key, value);
  if (text !== undefined) made.textContent = text;
  made.append(...children);
  return made;
}

export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

export function setAttribute(target, name, value) {
  if (value === null || value === undefined || value === false) target.removeAttribute(name);
  else if (target.getAttribute(name) !== String(value)) target.setAttribute(name, value);
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
