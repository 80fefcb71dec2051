/** The version of this package, as `package.json` has it; a test compares them. */
export const VERSION = "0.1.0";
