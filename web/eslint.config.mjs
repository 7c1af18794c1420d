import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["dist/", "pkg/", "node_modules/", "shots/", "bindgen/", "*.mjs", "tests/*.mjs"] },
  ...tseslint.configs.strict,
  {
    rules: {
      "no-console": "error",
      eqeqeq: "error",
      "@typescript-eslint/no-non-null-assertion": "error",
      "@typescript-eslint/switch-exhaustiveness-check": "off",
    },
  },
);
