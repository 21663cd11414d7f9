"use strict";

// TypeScript without its types, for tests that are written in it.

const { readFileSync } = require("node:fs");
const { ModuleKind, ScriptTarget, transpileModule } = require("typescript");

const compilerOptions = { esModuleInterop: true, module: ModuleKind.CommonJS, target: ScriptTarget.ES2022 };

require.extensions[".ts"] = (module, file) => {
  module._compile(transpileModule(readFileSync(file, "utf8"), { compilerOptions }).outputText, file);
};
