// The graph of the file that was dropped last, shown until the service has more to tell.

import { h } from "./dom.js";
import { graphView } from "./graph.js";
import { readOnnx } from "./onnx.js";

/** Files beyond this many bytes are not read here. */
const MOST = 1 << 30;
let graph = null, model = null;

export const preview = {
  /** Reads a file that was dropped. */
  read: async (file) => {
    model = null;
    graph = file.size < MOST ? readOnnx(await file.arrayBuffer()) : null;
  },
  /** Says which model of the service the file became. */
  of: (id) => { model = id; },
  /** A view of the graph of a model; null where none was read. */
  view: (id) => {
    if (!graph || id !== model) return null;
    const view = graphView(graph, { label: "The model as it is in the file" });
    return h("section", { class: "graphs preview" }, h("p", { class: "tools minor" }, `The file, as read in this page: ${graph.nodes.filter((node) => node.op !== "input" && node.op !== "output").length} nodes`), h("div", { class: "stage" }, view.element));
  },
};
