/* The library that missing_dependency was linked with and that is not found when it is opened.
 * SPDX-License-Identifier: Apache-2.0 */
__attribute__((visibility("default"))) int zoo_gone(void);
int zoo_gone(void) { return 0; }
