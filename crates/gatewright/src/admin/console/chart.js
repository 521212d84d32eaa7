// Lines over the last hour, as SVG.

const NS = "http://www.w3.org/2000/svg";

/** A chart of one or two lines over the same minutes; the second one is drawn as something bad. */
export function chart(name, lines, unit) {
  const most = Math.max(1, ...lines.flat().map((held) => held ?? 0));
  const svg = node("svg", { class: "chart", viewBox: "0 0 100 40", preserveAspectRatio: "none", role: "img",
    "aria-label": `${name} over the last hour, at most ${most} ${unit} in a minute` });
  svg.append(node("line", { x1: 0, x2: 100, y1: 40, y2: 40 }));
  lines.forEach((line, index) => {
    const points = line.map((held, at) => [(at / (line.length - 1)) * 100, 40 - ((held ?? 0) / most) * 38]);
    const drawn = points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`).join("");
    if (index === 0) svg.append(node("path", { class: "area", d: `${drawn}L100 40L0 40Z` }));
    svg.append(node("path", { class: index ? "bad" : "", d: drawn }));
  });
  return svg;
}

function node(tag, attributes) {
  const made = document.createElementNS(NS, tag);
  for (const [name, held] of Object.entries(attributes)) made.setAttribute(name, held);
  return made;
}
