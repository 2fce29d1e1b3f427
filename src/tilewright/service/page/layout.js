// A worker that lays out layered graphs (Sugiyama, Tagawa and Toda 1981): layers by longest paths, orders by
// barycentres, and positions across by isotonic regression, which is exact for one layer between fixed neighbours.
//
// In:  {id, nodes: [{width, height}], edges: [[from, to]]}, numbers of nodes
// Out: {id, nodes: [{x, y}] (centres), edges: [[[x, y] …]], layers: [[node …]], width, height}

const ACROSS = 28, DOWN = 46, SWEEPS = 10, BEND = 6;

if (typeof self !== "undefined" && typeof document === "undefined") {
  self.onmessage = ({ data }) => self.postMessage({ id: data.id, ...layout(data.nodes, data.edges) });
}

export function layout(nodes, edges) {
  const graph = withBends(nodes, edges, ranks(nodes.length, edges));
  order(graph);
  straighten(graph);
  const { ys, height } = heights(graph);
  const left = Math.min(0, ...graph.vertices.map((one) => one.x - one.width / 2));
  const width = Math.max(0, ...graph.vertices.map((one) => one.x + one.width / 2)) - left;
  for (const one of graph.vertices) one.x -= left;
  const at = (index) => graph.vertices[index];
  return {
    nodes: nodes.map((_, i) => ({ x: at(i).x, y: ys[at(i).rank] })),
    edges: graph.paths.map((path) => path.map((index, i) => {
      const one = at(index), half = i === 0 ? one.height / 2 : i === path.length - 1 ? -one.height / 2 : 0;
      return [one.x, ys[one.rank] + half];
    })),
    layers: graph.layers.map((layer) => layer.filter((index) => index < nodes.length)),
    width, height,
  };
}

/** The layer of each node: as far down as its inputs need, sources as near to their readers as they can. */
function ranks(count, edges) {
  const after = Array.from({ length: count }, () => []), waiting = new Array(count).fill(0), rank = new Array(count).fill(0);
  for (const [from, to] of edges) if (from !== to) { after[from].push(to); waiting[to] += 1; }
  const ready = waiting.flatMap((left, index) => (left ? [] : [index])), inputs = new Set(ready);
  for (let i = 0; i < ready.length; i += 1) {
    for (const to of after[ready[i]]) {
      rank[to] = Math.max(rank[to], rank[ready[i]] + 1);
      if ((waiting[to] -= 1) === 0) ready.push(to);
    }
  }
  for (const index of inputs) if (after[index].length) rank[index] = Math.min(...after[index].map((to) => rank[to])) - 1;
  const least = Math.min(0, ...rank);
  return rank.map((one) => one - least);
}

/** Vertices and neighbours, with a bend in each layer that an edge passes. */
function withBends(nodes, edges, rank) {
  const vertices = nodes.map(({ width, height }, index) => ({ width, height, rank: rank[index], up: [], down: [], x: 0 }));
  const paths = edges.map(([from, to]) => {
    const path = [from], way = Math.sign(rank[to] - rank[from]) || 1;
    for (let at = rank[from] + way; way * (rank[to] - at) > 0; at += way) {
      vertices.push({ width: BEND, height: 0, rank: at, up: [], down: [], x: 0, bend: true });
      path.push(vertices.length - 1);
    }
    path.push(to);
    for (let i = 1; i < path.length; i += 1) {
      const [upper, lower] = vertices[path[i - 1]].rank < vertices[path[i]].rank ? [path[i - 1], path[i]] : [path[i], path[i - 1]];
      vertices[upper].down.push(lower);
      vertices[lower].up.push(upper);
    }
    return path;
  });
  const layers = Array.from({ length: Math.max(0, ...rank) + 1 }, () => []);
  vertices.forEach((one, index) => layers[one.rank].push(index));
  return { vertices, paths, layers };
}

/** Large graphs get fewer sweeps: they are read in parts. */
const sweeps = (vertices) => (vertices.length > 4000 ? SWEEPS / 2 : SWEEPS);

function mean(some, values, otherwise) {
  let sum = 0;
  for (const one of some) sum += values[one];
  return some.length ? sum / some.length : otherwise;
}

/** Orders the vertices of each layer by the mean position of their neighbours, downwards and upwards by turns. */
function order({ vertices, layers }) {
  const position = new Float64Array(vertices.length), wanted = new Float64Array(vertices.length);
  const number = (layer) => layer.forEach((index, i) => { position[index] = i; });
  layers.forEach(number);
  for (let sweep = 0; sweep < sweeps(vertices); sweep += 1) {
    const down = sweep % 2 === 0, side = down ? "up" : "down";
    for (const layer of down ? layers : [...layers].reverse()) {
      if (layer.length === 1) continue;
      for (const index of layer) wanted[index] = mean(vertices[index][side], position, position[index]);
      layer.sort((a, b) => wanted[a] - wanted[b] || position[a] - position[b]);
      number(layer);
    }
  }
}

/** Positions across: each layer as near to its neighbours' as its order and its widths allow. */
function straighten({ vertices, layers }) {
  for (const layer of layers) fit(layer, vertices, () => 0, () => 1);
  for (let sweep = 0; sweep < sweeps(vertices) + 6; sweep += 1) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      const both = sweep >= sweeps(vertices); // in the end between all neighbours, so that nothing drifts aside
      fit(layer, vertices, (one) => {
        const first = down ? one.up : one.down;
        const some = both ? one.up.concat(one.down) : first.length ? first : down ? one.down : one.up;
        let sum = 0;
        for (const index of some) sum += vertices[index].x;
        return some.length ? sum / some.length : one.x;
      }, (one) => (one.bend ? 4 : 1 + (down ? one.up : one.down).length / 4));
    }
  }
}

/** Least squares under the layer's order and distances: pool adjacent violators (Ayer and others 1955). */
function fit(layer, vertices, wanted, weight) {
  const blocks = [];
  let shift = 0, before = null;
  const shifts = layer.map((index) => {
    const one = vertices[index];
    if (before) shift += (before.width + one.width) / 2 + (before.bend && one.bend ? BEND : ACROSS);
    before = one;
    return shift;
  });
  layer.forEach((index, i) => {
    const heavy = weight(vertices[index]);
    let block = { sum: heavy * (wanted(vertices[index]) - shifts[i]), heavy, count: 1 };
    while (blocks.length && blocks.at(-1).sum / blocks.at(-1).heavy > block.sum / block.heavy) {
      const last = blocks.pop();
      block = { sum: last.sum + block.sum, heavy: last.heavy + block.heavy, count: last.count + block.count };
    }
    blocks.push(block);
  });
  let i = 0;
  for (const { sum, heavy, count } of blocks) for (let k = 0; k < count; k += 1, i += 1) vertices[layer[i]].x = sum / heavy + shifts[i];
}

/** The middle of each layer, which is as high as its highest node, and the height of all. */
function heights({ vertices, layers }) {
  let at = 0;
  const ys = layers.map((layer) => {
    const high = Math.max(0, ...layer.map((index) => vertices[index].height)), middle = at + high / 2;
    at += high + DOWN;
    return middle;
  });
  return { ys, height: Math.max(0, at - DOWN) };
}
