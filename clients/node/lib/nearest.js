"use strict";

const FAR = 5; // as many changes make another word of it

// How many letters are to be added, removed or replaced to make the one of the other.
function distance(one, other) {
  let row = [...Array(other.length + 1).keys()];
  for (const [at, letter] of [...one].entries()) {
    const next = [at + 1];
    for (const [column, its] of [...other].entries()) {
      next.push(Math.min(row[column + 1] + 1, next[column] + 1, row[column] + (letter === its ? 0 : 1)));
    }
    row = next;
  }
  return row.at(-1);
}

/** Which of these names was probably meant; undefined if none is near. */
function nearest(name, names) {
  const near = [...names].map((one) => ({ one, far: distance(name.toLowerCase(), one.toLowerCase()) }));
  return near.filter(({ far }) => far < FAR).sort((a, b) => a.far - b.far)[0]?.one;
}

module.exports = { nearest };
