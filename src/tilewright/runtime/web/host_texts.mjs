// Operators of the host on texts, and tables by them.

const texts = (shape, data) => ({ data, shape, dtype: "string" });

/** Python's split of a text: at runs of spaces without a delimiter, at most `most` times. */
function splitText(text, delimiter, most) {
  if (!delimiter) {
    const found = [];
    for (let rest = text.trimStart(); rest; ) {
      const end = rest.search(/\s/);
      if (end < 0 || (most >= 0 && found.length >= most)) return [...found, rest];
      found.push(rest.slice(0, end));
      rest = rest.slice(end).trimStart();
    }
    return found;
  }
  const found = text.split(delimiter);
  return most >= 0 && found.length > most + 1 ? [...found.slice(0, most), found.slice(most).join(delimiter)] : found;
}

function normalized(attrs, { data, shape }) {
  const isSensitive = attrs.is_case_sensitive, plain = (text) => (isSensitive ? text : text.toLowerCase());
  const stops = new Set((attrs.stopwords ?? []).map(plain)), change = attrs.case_change_action ?? "NONE";
  if (shape.length > 2 || (shape.length === 2 && shape[0] !== 1)) {
    fail(`texts of shape [n] or [1, n] are needed, not ${listed(shape)}`);
  }
  const kept = data.filter((text) => !stops.has(plain(text)));
  const found = kept.map((text) => (change === "LOWER" ? text.toLowerCase() : change === "UPPER" ? text.toUpperCase()
    : text));
  const result = found.length ? found : [""];
  return texts(shape.length === 1 ? [result.length] : [1, result.length], result);
}

/** A text as a number: Python's spellings of `int` and `float`. */
function parsed(text, dtype) {
  const plain = text.trim(), word = plain.toLowerCase().replace(/^[+-]/, "");
  const named = { inf: Infinity, infinity: Infinity, nan: NaN }[word];
  if (isFloat(dtype) && named !== undefined) return plain.startsWith("-") ? -named : named;
  const shape = isFloat(dtype) ? /^[+-]?(\d[\d_]*\.?\d*|\.\d+)(e[+-]?\d+)?$/i : /^[+-]?\d+$/;
  if (!shape.test(plain)) fail(`a text is not a number: ${JSON.stringify(text)}`);
  return isWide(dtype) ? BigInt(plain.replace(/^\+/, "")) : Number(plain);
}

const PLAIN = { float16: 3, float32: 6 }; // digits of the largest numbers that NumPy spells without a power
/** A number as NumPy spells it: the shortest text that is no other number of its type. */
function spellingOf(value, dtype) {
  if (dtype === "bool") return value ? "True" : "False";
  if (!isFloat(dtype)) return String(value);
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  let digits = 1;
  const same = (text) => tensor(dtype, [], [Number(text)]).data[0] === tensor(dtype, [], [value]).data[0];
  while (digits < 17 && !same(value.toExponential(digits - 1))) digits++;
  const [mantissa, power] = value.toExponential(digits - 1).split("e"), exponent = Number(power);
  if (value && (exponent < -4 || exponent >= (PLAIN[dtype] ?? 16))) {
    return `${mantissa}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  const plain = Number(value.toExponential(digits - 1)).toFixed(Math.max(digits - 1 - exponent, 0));
  return (Object.is(value, -0) ? "-" : "") + (plain.includes(".") ? plain : `${plain}.0`);
}

function castTexts({ result_dtype: dtype }, value) {
  if (dtype === "string") {
    if (isText(value.dtype)) return value;
    return texts(value.shape, Array.from(numbers(value), (x) => spellingOf(x, value.dtype)));
  }
  if (isText(value.dtype)) return tensor(dtype, value.shape, value.data.map((text) => parsed(text, dtype)));
  const source = numbers(value);
  return tensor(dtype, value.shape, isFloat(dtype) || isWide(dtype) ? source : Array.from(source, Number));
}

function labelled({ keys, values, default: missing, result_dtype: dtype }, { data, shape, dtype: kind }) {
  const key = (value) => (typeof value === "string" ? value : String(Number(value)));
  const rounded = (value) => (isText(kind) ? value : tensor(kind, [], [value]).data[0]);
  const table = new Map(keys.map((value, i) => [key(value), values[i]]));
  const exact = isText(kind) ? table : new Map(keys.map((value, i) => [key(rounded(value)), values[i]]));
  const found = Array.from(data, (value) => {
    const at = key(value);
    return exact.has(at) ? exact.get(at) : missing;
  });
  return isText(dtype) ? texts(shape, found) : tensor(dtype, shape, found);
}

/** Counts of the n-grams of a pool in each row. */
function tfIdf(attrs, { data, shape }) {
  const indexes = attrs.ngram_indexes, width = Math.max(...indexes) + 1,
    pool = attrs.pool_strings ?? attrs.pool_int64s ?? [];
  const grams = new Map(), starts = [...attrs.ngram_counts, pool.length], named = (gram) =>
    JSON.stringify(gram.map(String));
  for (let size = 1; size < starts.length; size++) {
    for (let at = starts[size - 1]; at < starts[size]; at += size) grams.set(named(pool.slice(at, at + size)),
      grams.size);
  }
  const rows = shape.length <= 1 ? 1 : shape[0], length = data.length / (rows || 1),
    found = new Float32Array(rows * width);
  for (let row = 0; row < rows; row++) {
    const items = Array.from(data.slice(row * length, (row + 1) * length));
    for (let size = attrs.min_gram_length; size <= attrs.max_gram_length; size++) {
      for (let skip = 1; skip <= (size === 1 ? 1 : attrs.max_skip_count + 1); skip++) {
        for (let at = 0; at + skip * (size - 1) < items.length; at++) {
          const number = grams.get(named(Array.from({ length: size }, (_, i) => items[at + i * skip])));
          if (number !== undefined) found[row * width + indexes[number]]++;
        }
      }
    }
  }
  const weights = new Float32Array(width).fill(1);
  indexes.forEach((index, i) => { weights[index] = attrs.weights?.length ? attrs.weights[i] : 1; });
  if (attrs.mode !== "TF") found.forEach((x, i) => { found[i] =
    (attrs.mode === "IDF" ? +(x > 0) : x) * weights[i % width]; });
  return { data: found, shape: shape.length <= 1 ? [width] : [rows, width], dtype: "float32" };
}

Object.assign(HOST, {
  "onnx.StringConcat": (_, a, b) => {
    const shape = joined([a.shape, b.shape]), [x, y] = [broadcast(a, shape).data, broadcast(b, shape).data];
    return texts(shape, x.map((text, i) => text + y[i]));
  },
  "onnx.StringSplit": ({ delimiter, maxsplit: most = -1 }, { data, shape }) => {
    const rows = data.map((text) => splitText(text, delimiter, most ?? -1)),
      width = Math.max(0, ...rows.map((row) => row.length));
    return tuple(texts([...shape, width], rows.flatMap((row) => [...row, ...Array(width - row.length).fill("")])),
      integers(rows.map((row) => row.length), shape));
  },
  "onnx.StringNormalizer": normalized,
  "onnx.Cast": castTexts,
  "onnx.CastLike": castTexts,
  "onnx.LabelEncoder": labelled,
  "onnx.TfIdfVectorizer": tfIdf,
  "onnx.ml.Label": ({ labels }, index) => (typeof labels[0] === "string"
    ? texts(index.shape, ints(index).map((i) => labels.at(i)))
      : integers(ints(index).map((i) => labels.at(i)), index.shape)),
  "onnx.ml.OneHotEncoder": ({ categories }, { data, shape }) => tensor("float32", [...shape, categories.length],
    data.flatMap((text) => categories.map((one) => +(one === text)))),
});
