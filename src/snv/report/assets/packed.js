// Tables of neurons as they travel: values in 16 bits, masks in one; unpacked when a map is first looked at.

function rawBytes(text) {
  const binary = atob(text);
  const found = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i += 1) found[i] = binary.charCodeAt(i);
  return found;
}

/** A 16-bit float as a number. */
function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15));
}

/** Values (t × n), masks (t × n) and where each layer starts. */
function unpacked(table) {
  const t = table.n_tasks, n = table.sizes.reduce((sum, size) => sum + size, 0);
  const raw = rawBytes(table.values), bits = rawBytes(table.masks);
  const values = new Float32Array(t * n), masks = new Uint8Array(t * n);
  for (let k = 0; k < t * n; k += 1) {
    values[k] = half(raw[2 * k] | (raw[2 * k + 1] << 8)) * table.scale;
    masks[k] = (bits[k >> 3] >> (7 - (k & 7))) & 1;
  }
  const starts = [];
  table.sizes.reduce((start, size) => { starts.push(start); return start + size; }, 0);
  return { t, n, values, masks, starts, layers: table.layers, sizes: table.sizes, ...ownership(t, n, masks) };
}

/** Of each neuron: how many tasks have it, and which came first (-1: none). */
function ownership(t, n, masks) {
  const owners = new Uint16Array(n), first = new Int16Array(n).fill(-1);
  for (let task = 0; task < t; task += 1) {
    for (let i = 0; i < n; i += 1) {
      if (!masks[task * n + i]) continue;
      owners[i] += 1;
      if (first[i] < 0) first[i] = task;
    }
  }
  return { owners, first };
}

const layerOf = (table, i) => {
  let k = table.starts.length - 1;
  while (table.starts[k] > i) k -= 1;
  return k;
};

/** Of a task's subnetwork: how many neurons, and how many of them no task before it had. */
function subnetworkOf(table, task) {
  let all = 0, fresh = 0;
  for (let i = 0; i < table.n; i += 1) {
    if (!table.masks[task * table.n + i]) continue;
    all += 1;
    fresh += table.first[i] === task;
  }
  return { all, fresh };
}
