// Tensors of what pages have: pictures and sounds. No browser is needed for ImageData and arrays of samples.

/** A channel of a picture at a point between pixels, by the four around it. */
function at({ data, width, height }, channel, x, y) {
  const clamp = (value, size) => Math.min(Math.max(value, 0), size - 1);
  const [left, top] = [Math.floor(x), Math.floor(y)], [u, v] = [x - left, y - top];
  const pixel = (i, j) => data[4 * (clamp(top + j, height) * width + clamp(left + i, width)) + channel];
  return (pixel(0, 0) * (1 - u) + pixel(1, 0) * u) * (1 - v) + (pixel(0, 1) * (1 - u) + pixel(1, 1) * u) * v;
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
  for (let channel = 0; channel < channels; channel++) {
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const [from, down] = [(x + 0.5) * picture.width / width - 0.5, (y + 0.5) * picture.height / height - 0.5];
        const take = (which) => at(picture, which, from, down);
        const value = channels === 1 ? 0.299 * take(0) + 0.587 * take(1) + 0.114 * take(2) : take(channel);
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
