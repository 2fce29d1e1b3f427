// Tensors of what pages have: pictures and sounds. No browser is needed for ImageData and arrays of samples.

/** The pixels that make up one pixel of an axis scaled from `size` to `count`, and their shares. */
function sources(size, count) {
  const step = size / count, clamp = (i) => Math.min(Math.max(i, 0), size - 1);
  return Array.from({ length: count }, (_, i) => {
    if (step <= 1) { // between the two around it
      const from = (i + 0.5) * step - 0.5, left = Math.floor(from);
      return [[clamp(left), 1 - from + left], [clamp(left + 1), from - left]];
    }
    const [begin, end] = [i * step, (i + 1) * step]; // the mean of all that it covers
    return Array.from({ length: Math.ceil(end - 1e-9) - Math.floor(begin) }, (_, k) => {
      const at = Math.floor(begin) + k;
      return [clamp(at), (Math.min(at + 1, end) - Math.max(at, begin)) / step];
    });
  });
}

/** The pixels of ImageData, a canvas, or of what a canvas draws: <img>, <video>, ImageBitmap. */
function pixels(source) {
  if (source?.data?.length === 4 * source?.width * source?.height) return source;
  const width = source?.naturalWidth || source?.videoWidth || source?.width;
  const height = source?.naturalHeight || source?.videoHeight || source?.height;
  if (!(width > 0 && height > 0)) {
    throw new TypeError("a picture is ImageData, a canvas, an <img>, a <video> or an ImageBitmap");
  }
  const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  context.drawImage(source, 0, 0, width, height);
  return context.getImageData(0, 0, width, height);
}

/**
 * The tensor of a picture, stretched to `shape`: [1, C, H, W], or [1, H, W, C] by `layout`
 * "NHWC". One channel is grey; values are (pixel / 255 - mean) / std, by channel or for all, or bytes for uint8.
 */
export function imageTensor(source, { shape, layout = "NCHW", mean = 0, std = 1, dtype = "float32" }) {
  const picture = pixels(source), last = layout === "NHWC";
  const [, channels, height, width] = last ? [1, shape[3], shape[1], shape[2]] : shape;
  if (![1, 3, 4].includes(channels)) throw new RangeError(`[${shape}] has no 1, 3 or 4 channels of a picture`);
  const data = new (dtype === "uint8" ? Uint8Array : Float32Array)(channels * height * width);
  const of = (value, channel) => (typeof value === "number" ? value : value[channel]);
  const [rows, columns] = [sources(picture.height, height), sources(picture.width, width)];
  const weights = channels === 1 ? [0.299, 0.587, 0.114] : [1];
  for (let channel = 0; channel < channels; channel++) {
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        let value = 0;
        for (const [j, v] of rows[y]) {
          for (const [i, u] of columns[x]) {
            const first = 4 * (j * picture.width + i) + channel;
            for (let k = 0; k < weights.length; k++) value += u * v * weights[k] * picture.data[first + k];
          }
        }
        const index = last ? (y * width + x) * channels + channel : (channel * height + y) * width + x;
        data[index] = dtype === "uint8" ? Math.round(value) : (value / 255 - of(mean, channel)) / of(std, channel);
      }
    }
  }
  return { data, shape: [...shape] };
}

/**
 * The tensor of a sound, an AudioBuffer or { channels: [Float32Array], sampleRate }: the mean of its channels at
 * `sampleRate`, between samples by the two around it, as [1, samples] or filled up with silence, or cut, to `shape`.
 */
export function audioTensor(source, { sampleRate = source.sampleRate, shape } = {}) {
  const channels = source.channels
    ?? Array.from({ length: source.numberOfChannels }, (_, i) => source.getChannelData(i));
  const step = source.sampleRate / sampleRate, given = channels[0].length;
  const count = shape ? shape.reduce((all, size) => all * size, 1) : Math.floor(given / step);
  const data = new Float32Array(count);
  for (let i = 0; i < Math.min(count, Math.floor(given / step)); i++) {
    const left = Math.floor(i * step), part = i * step - left;
    for (const samples of channels) {
      data[i] += (samples[left] * (1 - part) + samples[Math.min(left + 1, given - 1)] * part) / channels.length;
    }
  }
  return { data, shape: shape ? [...shape] : [1, count] };
}
