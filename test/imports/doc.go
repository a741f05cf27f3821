// SPDX-License-Identifier: Apache-2.0

// Package imports holds the rule that says which package may import which, and the
// one that what comes from peers is not read by functions that go by Unicode, as
// tests, so that neither a review nor a linter's settings can overlook a new package.
package imports
