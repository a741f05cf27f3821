// SPDX-License-Identifier: Apache-2.0

// Package imports holds rules as tests, so that neither a review nor a linter's
// settings can overlook a new package: which package may import which; that what
// comes from peers is not read by functions that go by Unicode; and that goroutines
// which serve one client recover from panics.
package imports
