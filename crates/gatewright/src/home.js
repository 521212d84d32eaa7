(() => {
  "use strict";
  const list = document.querySelector("[data-stream]");
  if (!list) return;
  const state = document.getElementById("live-state");
  const source = new EventSource(list.dataset.stream);
  const show = (event) => {
    const { type, data } = JSON.parse(event.data);
    const item = document.createElement("li");
    const name = document.createElement("span");
    const id = document.createElement("code");
    name.textContent = type;
    id.textContent = data.record.id;
    id.className = "small";
    item.append(name, id);
    list.prepend(item);
    while (list.children.length > 10) list.lastChild.remove();
  };
  for (const type of ["entity.created", "entity.updated", "entity.deleted"]) source.addEventListener(type, show);
  source.addEventListener("ready", () => (state.textContent = list.dataset.open));
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) state.textContent = list.dataset.refused;
  });
})();
