// SPDX-License-Identifier: Apache-2.0

// Package imports holds the rule that says which package may import which, as a
// test, so that neither a review nor a linter's settings can overlook a new package.
package imports
