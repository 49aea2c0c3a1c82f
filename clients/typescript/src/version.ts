/** Which version of the package this is. */

/** The version of this package, such as `0.1.0`. */
export const version = "0.1.0";
