// A network of `tfjs.py` in TensorFlow.js, by its WebAssembly backend with SIMD, on one thread.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

/** A function of the input (NCHW or [1, n]) to the first output's elements; `modules` is the folder node_modules. */
export async function network(modules, { steps, result }, file, shape) {
  const required = createRequire(`${modules}/`);
  const tf = required("@tensorflow/tfjs-core"), wasm = required("@tensorflow/tfjs-backend-wasm");
  wasm.setThreadsCount(1);
  wasm.setWasmPaths(`${modules}/@tensorflow/tfjs-backend-wasm/wasm-out/`);
  if (!(await tf.setBackend("wasm"))) throw new Error("TensorFlow.js has no backend wasm here");
  const bytes = readFileSync(file), weights = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  const kept = ([offset, sizes]) => tf.tensor(weights.slice(offset, offset + sizes.reduce((a, b) => a * b, 1)), sizes);
  for (const [, , , given] of steps) {
    for (const name of ["weight", "bias"]) if (given[name]) given[name] = kept(given[name]);
  }
  const calls = {
    conv: ([x], { weight: filter, bias, strides, pad, depthwise, activation = "linear" }) =>
      tf.fused[depthwise ? "depthwiseConv2d" : "conv2d"]({ x, filter, strides, pad, bias, activation, dimRoundingMode: "floor" }),
    dense: ([a], { weight: b, bias, activation = "linear" }) => tf.fused.matMul({ a, b, bias, activation }),
    relu: ([x]) => tf.relu(x), relu6: ([x]) => tf.relu6(x), Add: ([a, b]) => tf.add(a, b),
    maxPool: ([x], { size, strides, pad, ceil }) => tf.maxPool(x, size, strides, pad, ceil ? "ceil" : "floor"),
    GlobalAveragePool: ([x]) => tf.mean(x, [1, 2], true), Concat: (all) => tf.concat(all, 3),
    Flatten: ([x]) => tf.reshape(x.shape[1] * x.shape[2] > 1 ? tf.transpose(x, [0, 3, 1, 2]) : x, [x.shape[0], -1]),
  };
  return async (data) => {
    const made = tf.tidy(() => {
      const input = tf.tensor(data, shape), values = { input: shape.length === 4 ? tf.transpose(input, [0, 2, 3, 1]) : input };
      for (const [kind, name, inputs, given] of steps) values[name] = calls[kind](inputs.map((one) => values[one]), given);
      return values[result];
    });
    const found = await made.data();
    made.dispose();
    return [found];
  };
}
